"""What memory does a run in flight take, with 1,000 of them at once on one compiled graph?

Each run waits in a model call that no one answers until all of them wait there. What Python has allocated then, more
than before, by `tracemalloc`, divided by the runs: for redraft's loop and for the same graph by hand
(`benchmarks/loops.py`). Nothing is checkpointed. Each number is of a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import subprocess
import sys
import tracemalloc
from contextvars import ContextVar
from typing import Any

from rows import Row, add_options, at_most, finish

__all__ = ["main"]

GOAL_KB = 40.0
PACKAGES = ("redraft", "langgraph", "langchain-core")
NAMES = {"redraft": "redraft's loop", "bare": "StateGraph by hand"}


async def bytes_per_run(which: str, runs: int, at: str) -> float:
    """Bytes of one run in flight.

    Args:
        which: `redraft` or `bare`.
        runs: At once.
        at: Where they wait: in the `first` call, or in the `last` one.
    """
    from loops import CALLS, TASK, Answering, bare_graph, redraft_graph

    waiting, all_wait, go_on = 0, asyncio.Event(), asyncio.Event()
    calls: ContextVar[list[int] | None] = ContextVar("calls", default=None)

    class Gate(Answering):
        async def _agenerate(self, messages: list[Any], stop: Any = None, run_manager: Any = None, **_: Any) -> Any:
            nonlocal waiting
            made = calls.get()
            if made is not None:
                made[0] += 1
                if made[0] == (1 if at == "first" else CALLS):
                    waiting += 1
                    if waiting == runs:
                        all_wait.set()
                    await go_on.wait()
            return self._generate(messages)

    async def counted() -> Any:
        calls.set([0])  # the nodes of a run see the same list
        return await graph.ainvoke({"task": TASK})

    graph = (redraft_graph if which == "redraft" else bare_graph)(Gate())
    await graph.ainvoke({"task": TASK})  # builds what all share, and does not wait
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tasks = [asyncio.create_task(counted()) for _ in range(runs)]
    await all_wait.wait()
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    go_on.set()
    found = await asyncio.gather(*tasks)
    if {out["stop_reason"] for out in found} != {"max_rounds"}:
        raise RuntimeError("a run did not come to its end")
    return used / runs


def in_process(which: str, runs: int, at: str) -> float:
    """The same, in a process of its own."""
    words = [sys.executable, __file__, "--one", which, at, "--runs", str(runs)]
    return float(json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout))


def measure(runs: int, repeats: int) -> list[Row]:
    """The rows: at the first call of a run and at its last, when its record is longest."""
    rows = []
    for at in ("last", "first"):
        for which, name in NAMES.items():
            kilobytes = statistics.median(in_process(which, runs, at) for _ in range(repeats)) / 1024
            goal = GOAL_KB if which == "redraft" else None
            what = f"memory per run in flight, {runs:,} at once, in the {at} call: {name}"
            rows.append(at_most(what, kilobytes, goal, unit="KB", n=repeats))
    return rows


def main() -> int:
    """Print the table; 1 when the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--runs", type=int, metavar="N", help="at once (default: 1000; --quick: 200)")
    parser.add_argument("--repeats", type=int, metavar="N", help="processes of each (default: 3; --quick: 1)")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    runs = given.runs or (200 if given.quick else 1000)
    if given.one:
        print(asyncio.run(bytes_per_run(given.one[0], runs, given.one[1])))
        return 0
    return finish(measure(runs, given.repeats or (1 if given.quick else 3)), given.json, packages=PACKAGES)


if __name__ == "__main__":
    sys.exit(main())
