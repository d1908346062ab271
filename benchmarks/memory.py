"""Memory of a run in flight, with 1,000 of them at once on one compiled graph.

Each run waits in a model call that no one answers until all of them wait there. What Python has allocated then, more
than before, by `tracemalloc`, divided by the runs: for redraft's loop and for the same graph by hand
(`benchmarks/loops.py`). Nothing is checkpointed. Each number is of a process of its own, and the note says which
package's code made the objects: most are LangGraph's, LangChain's and asyncio's, for any graph that calls a chat model.
The goal is what redraft takes beside the graph by hand.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import subprocess
import sys
import tracemalloc
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from rows import Row, add_options, at_most, finish

__all__ = ["main"]

GOAL = 1.15
PACKAGES = ("redraft", "langgraph", "langchain-core")
NAMES = {"by hand": "StateGraph by hand", "redraft": "redraft's loop"}


async def bytes_per_run(which: str, runs: int, at: str) -> dict[str, float]:
    """Bytes of one run in flight, by the package whose code made the objects.

    Args:
        which: `redraft` or `by hand`.
        runs: At once.
        at: Where they wait: in the `first` call, or in the `last` one.
    """
    from loops import ROUNDS, Answering, by_hand, calls_in, redraft_graph, task_of

    waiting, all_wait, go_on = 0, asyncio.Event(), asyncio.Event()
    calls: ContextVar[list[int] | None] = ContextVar("calls", default=None)

    class Gate(Answering):
        async def _agenerate(self, messages: list[Any], stop: Any = None, run_manager: Any = None, **_: Any) -> Any:
            nonlocal waiting
            made = calls.get()
            if made is not None:
                made[0] += 1
                if made[0] == (1 if at == "first" else calls_in(ROUNDS)):
                    waiting += 1
                    if waiting == runs:
                        all_wait.set()
                    await go_on.wait()
            return self._generate(messages)

    async def counted() -> Any:
        calls.set([0])  # the nodes of a run see the same list
        return await graph.ainvoke({"task": task_of(0.1)})

    graph = (redraft_graph if which == "redraft" else by_hand)(Gate())
    await graph.ainvoke({"task": task_of(0.1)})  # builds what all share, and does not wait
    gc.collect()
    tracemalloc.start()
    tasks = [asyncio.create_task(counted()) for _ in range(runs)]
    await all_wait.wait()
    gc.collect()
    used = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(False, tracemalloc.__file__)])
    tracemalloc.stop()
    go_on.set()
    outputs = await asyncio.gather(*tasks)
    if {out["stop_reason"] for out in outputs} != {"max_rounds"}:
        raise RuntimeError("a run did not come to its end")
    found: dict[str, float] = {}
    for one in used.statistics("filename"):
        name = package_of(one.traceback[0].filename)
        found[name] = found.get(name, 0.0) + one.size / runs
    return found


def package_of(path: str) -> str:
    """The package that a file is part of; the loop by hand counts as `loops`, what is Python's own as `python`."""
    parts = Path(path).parts
    if "site-packages" in parts:
        return parts[parts.index("site-packages") + 1].removesuffix(".py")
    if Path(path).parent == Path(__file__).parent:
        return Path(path).stem
    return "redraft" if {"state", "nodes", "graphs", "models"} & set(parts) else "python"


def in_process(which: str, runs: int, at: str) -> dict[str, float]:
    """The same, in a process of its own."""
    words = [sys.executable, __file__, "--one", which, at, "--runs", str(runs)]
    found: dict[str, float] = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
    return found


def measure(runs: int, repeats: int) -> list[Row]:
    """The rows: at the first call of a run and at its last, when its record is longest."""
    rows = []
    for at in ("last", "first"):
        taken: dict[str, float] = {}
        for which, name in NAMES.items():
            found = sorted((in_process(which, runs, at) for _ in range(repeats)), key=lambda one: sum(one.values()))
            median = found[(repeats - 1) // 2]
            parts = sorted(median.items(), key=lambda one: -one[1])[:6]
            note = ", ".join(f"{name} {size / 1024:.1f}" for name, size in parts)
            what = f"memory per run in flight, {runs:,} at once, in the {at} call: {name}"
            taken[which] = sum(median.values()) / 1024
            rows.append(at_most(what, taken[which], None, unit="KB", n=repeats, note=note))
        what = f"memory per run in flight, {runs:,} at once, in the {at} call: redraft ÷ by hand"
        rows.append(at_most(what, taken["redraft"] / taken["by hand"], GOAL, n=repeats))
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
        print(json.dumps(asyncio.run(bytes_per_run(given.one[0], runs, given.one[1]))))
        return 0
    return finish(measure(runs, given.repeats or (1 if given.quick else 3)), given.json, packages=PACKAGES)


if __name__ == "__main__":
    sys.exit(main())
