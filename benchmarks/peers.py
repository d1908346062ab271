"""CPU of the loop around a model call, in redraft and in peers that run the same task.

The model answers at once and objects to every draft, so that each run makes 8 calls. redraft's loop, the graph by hand
with LangGraph (`benchmarks/loops.py`), pydantic-graph and a plain loop of `await` (`benchmarks/peer_loops.py`) send the
same texts to the same LangChain model. `dspy.Refine` has a client of its own, whose engine answers at once: 3 drafts, 3
judgements as its reward and 2 calls for its advice. They take turns run by run, `n` times. Nothing is promised: who
does less costs less, and redraft does most (`benchmarks/loop_overhead.py` says what). What is not installed is left out
by name: `pip install --group bench` brings it.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from time import process_time
from typing import TYPE_CHECKING, Any

from loops import CALLS, TASK, Answering, bare_graph, redraft_graph
from peer_loops import dspy_refine, plain_loop, pydantic_graph_loop
from rows import Row, add_options, at_most, finish, left_out

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["main"]

PACKAGES = ("redraft", "langgraph", "langchain-core", "pydantic-graph", "dspy")
MISSING = "pip install --group bench"


def peers(model: Any) -> tuple[dict[str, Callable[[], Awaitable[Any]]], list[Row]]:
    """One run of each, by name, and the rows of those that are not installed."""
    ours, bare = redraft_graph(model), bare_graph(model)
    runs: dict[str, Callable[[], Awaitable[Any]]] = {
        "redraft": lambda: ours.ainvoke({"task": TASK}),
        "LangGraph by hand": lambda: bare.ainvoke({"task": TASK}),
        "plain asyncio": plain_loop(model),
    }
    absent = []
    for name, made in (("pydantic-graph", lambda: pydantic_graph_loop(model)), ("DSPy Refine", dspy_refine)):
        try:
            runs[name] = made()
        except ImportError as error:
            absent.append(left_out(f"CPU per model call: {name}", f"{error}; {MISSING}"))
    return runs, absent


async def measure(repeats: int) -> list[Row]:
    """The rows of all, each beside redraft."""
    runs, absent = peers(Answering())
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repeats + 3):  # the first ones warm up
        for name, run in runs.items():
            start = process_time()
            await run()
            if turn >= 3:
                taken[name].append(process_time() - start)
    rows = []
    for name, times in taken.items():
        ratio = statistics.median(one / ours for one, ours in zip(times, taken["redraft"], strict=True))
        note = "" if name == "redraft" else f"{ratio:.2f} × redraft"
        spent = 1e6 * statistics.median(times) / CALLS
        rows.append(at_most(f"CPU per model call: {name}", spent, None, unit="µs", n=repeats, note=note))
    return rows + absent


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
