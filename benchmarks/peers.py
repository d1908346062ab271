"""What CPU does a model call cost in the loop around it, in redraft and in peers that run the same task?

The model answers at once and objects to every draft, so that each run makes the same 8 calls with the same texts
(`benchmarks/loops.py`): redraft's loop, the graph by hand with LangGraph, and a plain loop of `await`. They take turns
run by run, `n` times. Nothing is promised: who does less costs less. The plain loop keeps no record at all.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from time import process_time
from typing import TYPE_CHECKING, Any

from loops import CALLS, CRITIC_PROMPT, REFINE_PROMPT, ROUNDS, TASK, Answering, bare_graph, redraft_graph
from rows import Row, add_options, at_most, finish, left_out

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["main"]

PACKAGES = ("redraft", "langgraph", "langchain-core")


def peers(model: Any) -> dict[str, Callable[[], Awaitable[Any]]]:
    """One run of each, by name."""
    ours, bare = redraft_graph(model), bare_graph(model)

    async def plain() -> str:
        draft, earlier = (await model.ainvoke(TASK)).text, []
        for number in range(ROUNDS + 1):
            said = (await model.ainvoke(CRITIC_PROMPT.format(task=TASK, draft=draft))).text
            if said.strip().strip(".").lower() == "no issues" or number == ROUNDS:
                break
            history = "\n\n".join(earlier)
            asked = REFINE_PROMPT.format(task=TASK, history=history, draft=draft, feedback=said)
            earlier.append(f"{draft}\n{said}")
            draft = (await model.ainvoke(asked)).text
        return str(draft)

    return {
        "redraft": lambda: ours.ainvoke({"task": TASK}),
        "LangGraph by hand": lambda: bare.ainvoke({"task": TASK}),
        "plain asyncio": plain,
    }


async def measure(repeats: int) -> list[Row]:
    """The rows, and those of the peers that are not measured yet."""
    runs = peers(Answering())
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repeats + 3):  # the first ones warm up
        for name, run in runs.items():
            start = process_time()
            await run()
            if turn >= 3:
                taken[name].append(process_time() - start)
    rows = [
        at_most(f"CPU per model call: {name}", 1e6 * statistics.median(times) / CALLS, None, unit="µs", n=repeats)
        for name, times in taken.items()
    ]
    return rows + [left_out(f"CPU per model call: {name}", "not written yet") for name in ("pydantic-graph", "DSPy")]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--repeats", type=int, metavar="N", help="runs of each (default: 301; --quick: 61)")
    given = parser.parse_args()
    repeats = given.repeats or (61 if given.quick else 301)
    return finish(asyncio.run(measure(repeats)), given.json, packages=PACKAGES)


if __name__ == "__main__":
    sys.exit(main())
