"""A critic is a function: `python examples/own_critic.py [MODEL]`."""

from __future__ import annotations

import re
import sys

from redraft import Critique, build_refine_graph, chat_model, verifier_critic

DAY = re.compile("(Mon|Tues|Wednes|Thurs|Fri)day")


def names_a_day(task: str, draft: str, /) -> Critique:
    # No docstring here: its first line would stand in the first prompt, and no draft would need mending.
    named = DAY.search(draft) is not None
    return Critique("" if named else "Say by which day: by Friday.", accepted=named, score=1.0 if named else 0.0)


def main(model: str = "replay") -> None:
    """Write, look for a day, and write again."""
    graph = build_refine_graph(chat_model(model), critics=[verifier_critic(names_a_day)])
    task = "Ask the team, in one sentence, to send their timesheets."
    out = graph.invoke({"task": task, "limits": {"max_rounds": 3}})
    for event in out["events"]:
        if event["text"]:
            print(f"{event['round']} {event['kind']}: {event['text']}")
    print(f"{out['stop_reason']} after {out['rounds']} rounds: {out['answer']}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
