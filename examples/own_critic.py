"""A critic is a function: `python examples/own_critic.py [MODEL]`."""

from __future__ import annotations

import sys

from redraft import Critique, build_refine_graph, chat_model, verifier_critic

LONGEST = 12


def is_short(task: str, draft: str, /) -> Critique:
    """Accept a draft of few words; the score tells keep-best which of two long ones is nearer."""
    words = len(draft.split())
    if words <= LONGEST:
        return Critique("", accepted=True, score=1.0)
    return Critique(f"It has {words} words; {LONGEST} are allowed.", accepted=False, score=LONGEST / words)


def main(model: str = "local") -> None:
    """Write, measure, and write again."""
    graph = build_refine_graph(chat_model(model), critics=[verifier_critic(is_short)])
    out = graph.invoke({"task": "Say in one sentence what a river delta is.", "limits": {"max_rounds": 3}})
    for event in out["events"]:
        if event["text"]:
            print(f"{event['round']} {event['kind']}: {event['text']}")
    print(f"{out['stop_reason']} after {out['rounds']} rounds: {out['answer']}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
