"""A run that failed goes on, and a fork tries something else: `python examples/resume_and_fork.py [MODEL]`."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from redraft import Critique, Thread, build_refine_graph, chat_model, open_checkpointer, verifier_critic

OUTAGES = ["the checker is being restarted"]


def has_a_number(task: str, draft: str, /) -> Critique:
    """The text names a number of minutes."""
    if OUTAGES:  # once
        raise ConnectionError(OUTAGES.pop())
    return Critique("Name a number.", accepted=any(sign.isdigit() for sign in draft))


def main(model: str = "replay") -> None:
    """Fail, resume without paying for the draft again, then fork from the answer."""
    with TemporaryDirectory() as folder, open_checkpointer(Path(folder) / "runs.sqlite") as saver:
        graph = build_refine_graph(chat_model(model), critics=[verifier_critic(has_a_number)], checkpointer=saver)
        thread = Thread(graph, "tea")
        task = {"task": "How long does black tea brew? One sentence.", "limits": {"max_rounds": 5}}
        out = graph.invoke(task, thread.config)
        print(f"{out['stop_reason']}, with {out['usage']['calls']} call: {out['answer']}")
        out = thread.resume()
        print(f"{out['stop_reason']}, with {out['usage']['calls']} calls: {out['answer']}")

        colder = thread.fork(at="best", feedback="Add: in water of 95 degrees.", verifiers=["uses_words:95,degrees"])
        out = colder.resume()
        print(f"{out['stop_reason']}: {out['answer']}")
        print(thread.diff(colder))


if __name__ == "__main__":
    main(*sys.argv[1:2])
