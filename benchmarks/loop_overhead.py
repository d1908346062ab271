"""CPU of a step of redraft's loop, beside the same graph written by hand with LangGraph alone.

Both run the same five nodes with the same model calls on the same texts (`benchmarks/loops.py`): a model that answers
at once objects to every draft, so a run makes 13 steps and 8 calls. The graph by hand formats the same prompts, awaits
the model, compares the verdict with the stop phrase, appends a plain event in each step, adds up the tokens and keeps
the last draft. It does not do what makes redraft's record worth keeping: no event is linked to the one before it by a
hash, no budget is looked at before a call, no price is looked up, nothing is streamed as progress, no revision is
checked for a refusal or a repeat, and the best draft is not looked for. Nothing is checkpointed. They take turns run by
run, `n` times; the median of the ratios within a turn is shown.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import sys
from time import process_time
from typing import Any

from loops import CALLS, ROUNDS, STEPS, TASK, Answering, bare_graph, redraft_graph
from rows import Row, add_options, at_most, finish

__all__ = ["main"]

GOAL = 1.05
PACKAGES = ("redraft", "langgraph", "langchain-core")


async def seconds(graph: Any, runs: int) -> float:
    """CPU of one step, over so many runs one after another."""
    start = process_time()
    for _ in range(runs):
        out = await graph.ainvoke({"task": TASK})
    taken = (process_time() - start) / runs / STEPS
    if (out["stop_reason"], out["rounds"]) != ("max_rounds", ROUNDS):
        raise RuntimeError(f"a run ended with {out['stop_reason']!r} after {out['rounds']} rounds")
    return taken


async def measure(repeats: int) -> list[Row]:
    """The row of the ratio, and one of the microseconds."""
    model = Answering()
    ours, bare = redraft_graph(model), bare_graph(model)
    for graph in (ours, bare):
        await seconds(graph, 5)
    gc.collect()
    pairs = []
    for turn in range(repeats):  # who goes first changes, so that neither is always after the other's garbage
        first, second = (ours, bare) if turn % 2 else (bare, ours)
        one, other = await seconds(first, 1), await seconds(second, 1)
        pairs.append((one, other) if turn % 2 else (other, one))
    ratio = statistics.median(our / theirs for our, theirs in pairs)
    our, their = (1e6 * statistics.median(times) for times in zip(*pairs, strict=True))
    note = f"{our:.0f} µs, by hand {their:.0f} µs; {STEPS} steps and {CALLS} model calls a run"
    return [at_most("CPU per step, redraft's loop ÷ StateGraph by hand", ratio, GOAL, n=repeats, note=note)]


def main() -> int:
    """Print the table; 1 when the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--repeats", type=int, metavar="N", help="runs of each (default: 301; --quick: 61)")
    given = parser.parse_args()
    repeats = given.repeats or (61 if given.quick else 301)
    return finish(asyncio.run(measure(repeats)), given.json, packages=PACKAGES)


if __name__ == "__main__":
    sys.exit(main())
