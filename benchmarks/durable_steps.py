"""CPU of a graph's step that is saved, beside the same step that is not.

One graph, a loop of one node on LangGraph's own StateGraph, runs without a saver, on one that keeps nothing (what
LangGraph itself does for any saver), on redraft's SQLite saver and on LangGraph's AsyncSqliteSaver, one run at a time
and many at once, with the garbage collector as redraft's batch runner sets it. The measurements alternate; the table
shows medians of CPU time (of all threads of the process) and the ratio to no saver, taken round by round. Exits with 1
when redraft's ratio with many runs at once is above the goal.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import os
import platform
import sqlite3
import statistics
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from rows import add_options, at_most, finish

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["main", "opened", "versions"]

GOAL = 1.4
STEPS = 10
MANY = 100
SAVERS = ("none", "nothing", "redraft", "stock")


class State(TypedDict, total=False):
    text: str
    step: int
    stop: str | None


def build(saver: Any, steps: int = STEPS) -> Any:
    """A node that writes 200 characters, and a route that reads a counter: nothing that costs much by itself."""
    from langgraph.graph import END, START, StateGraph

    async def write(state: State) -> State:
        step = state["step"] + 1
        return {"text": f"{step:>200}", "step": step, "stop": "done" if step == steps else None}

    graph = StateGraph(State)
    graph.add_node("write", write)
    graph.add_edge(START, "write")
    graph.add_conditional_edges("write", lambda state: END if state["stop"] else "write", ["write", END])
    return graph.compile(checkpointer=saver)


@asynccontextmanager
async def opened(name: str, folder: str | Path) -> AsyncIterator[Any]:
    """The saver of this name over a new file in the folder; `None` for none, and one that keeps nothing."""
    path = Path(folder) / "runs.sqlite"
    if name == "none":
        yield None
    elif name == "nothing":
        yield keeps_nothing()
    elif name == "redraft":
        from redraft import open_checkpointer

        async with open_checkpointer(path) as saver:
            yield saver
    elif name == "stock":
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
            yield saver
    else:
        raise ValueError(f"no saver is called {name!r}")


def keeps_nothing() -> Any:
    """A saver that answers at once and forgets: the least that any saver costs."""
    from langgraph.checkpoint.base import BaseCheckpointSaver

    class Forgetful(BaseCheckpointSaver[int]):
        async def aget_tuple(self, config: Any) -> None:
            return None

        async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
            return {"configurable": {**config["configurable"], "checkpoint_id": checkpoint["id"]}}

        async def aput_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
            return None

    return Forgetful()


async def cpu_per_step(name: str, *, at_once: int, runs: int) -> float:
    """Microseconds of CPU time a step, in a new database."""
    from redraft.evals.run.runner import few_collections

    with tempfile.TemporaryDirectory() as folder:
        async with opened(name, folder) as saver:
            graph = build(saver)
            gate = asyncio.Semaphore(at_once)

            async def one(number: int) -> None:
                config = {"configurable": {"thread_id": str(number)}, "recursion_limit": 10 * STEPS}
                async with gate:
                    out = await graph.ainvoke({"step": 0}, config)
                if out["step"] != STEPS:
                    raise RuntimeError(f"the run made {out['step']} steps, not {STEPS}")

            await one(-1)
            with few_collections():
                start = time.process_time()
                await asyncio.gather(*map(one, range(runs)))
                return (time.process_time() - start) / (runs * STEPS) * 1e6


def versions() -> str:
    """The machine and what the numbers depend on, in one line."""
    packages = ("langgraph", "langgraph-checkpoint", "langgraph-checkpoint-sqlite")
    told = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "?"
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, load {load}, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}, {told}"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--repeats", type=int, metavar="N", help="alternating measurements (default: 7; --quick: 3)")
    parser.add_argument("--runs", type=int, default=100, metavar="N", help=f"runs of {STEPS} steps in each")
    given = parser.parse_args(arguments)
    repeats = given.repeats or (3 if given.quick else 7)
    os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
    print(versions())
    print(f"{given.runs} runs of {STEPS} steps, medians of {repeats}; CPU µs a step, ÷ no saver")
    rows = []
    for at_once in (1, MANY):
        rounds = []
        for _ in range(repeats):
            measured = [asyncio.run(cpu_per_step(name, at_once=at_once, runs=given.runs)) for name in SAVERS]
            rounds.append(dict(zip(SAVERS, measured, strict=True)))
        ratios = {}
        for name in SAVERS:
            spent = statistics.median(one[name] for one in rounds)
            ratios[name] = statistics.median(one[name] / one["none"] for one in rounds)
            print(f"{at_once:>4} at once  {name:<8} {spent:>6.0f} µs  {ratios[name]:>5.2f} ×", flush=True)
        note = f"the stock saver: {ratios['stock']:.2f}; one that keeps nothing: {ratios['nothing']:.2f}"
        what = f"CPU per step, durable SQLite ÷ no saver, {at_once} at once"
        rows.append(at_most(what, ratios["redraft"], GOAL if at_once == MANY else None, n=repeats, note=note))
    print()
    return finish(rows, given.json)


if __name__ == "__main__":
    sys.exit(main())
