"""Throughput of many runs at once, beside the time that their model calls take.

Each run is a loop of ten calls on LangGraph's own StateGraph; a call is a wait of a known length, so that all else is
overhead. They run without a saver, on redraft's savers and on LangGraph's, alternately, with the garbage collector as
redraft's batch runner sets it. Two tables:

  share of ideal   all runs start at once, each call takes the same time: calls x latency ÷ time until the last ends
  model time       latencies vary by half: the sum of the waits that were asked for ÷ the sum of the times in the runs

and how much memory a run in flight takes. Wall-clock numbers: on a machine that does other work they say little. The
PostgreSQL savers, with pools of one width, are measured where a server is given or PostgreSQL is installed. Exits with
1 when redraft misses a goal; the goals are meant for --full.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import statistics
import sys
import tempfile
import time
import tracemalloc
import uuid
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from durable_steps import opened, versions
from rows import add_options, at_least, at_most, finish, left_out
from storage_growth import empty_database, postgres_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from rows import Row

__all__ = ["main"]

CALLS = 10
SHARE_GOAL, MODEL_TIME_GOAL, KILOBYTES_GOAL = 0.60, 0.97, 40.0
TIMES_STOCK_GOALS = {"redraft": 5.0, "redraft postgres": 3.0}
POSTGRES_CONNECTIONS = 10
SQLITE = ("none", "redraft", "stock")
POSTGRES = ("redraft postgres", "stock postgres")
STOCK = {"redraft": "stock", "redraft postgres": "stock postgres"}


@dataclass(frozen=True)
class Load:
    """A load: so many runs at once, whose calls take so long."""

    runs: int
    latency_s: float
    jitter: float = 0.0
    """A call takes between 1 - jitter and 1 + jitter times the latency."""

    def __str__(self) -> str:
        varies = f" ± {self.jitter:.0%}" if self.jitter else ""
        return f"{self.runs:,} runs x {CALLS} calls x {self.latency_s * 1000:.0f} ms{varies}"


SMALL = (Load(300, 0.2), Load(100, 0.2, 0.5), Load(300, 1.0, 0.5))
FULL = (Load(1000, 0.2), Load(200, 0.2, 0.5), Load(1000, 2.0, 0.5))
HELD = 300


class State(TypedDict, total=False):
    text: str
    calls: int
    waits: list[float]


def build(saver: Any, wait: Callable[[float], Awaitable[Any]] = asyncio.sleep) -> Any:
    from langgraph.graph import END, START, StateGraph

    async def call(state: State) -> State:
        number = state["calls"]
        await wait(state["waits"][number])
        return {"text": f"{number:>500}", "calls": number + 1}

    graph = StateGraph(State)
    graph.add_node("call", call)
    graph.add_edge(START, "call")
    graph.add_conditional_edges("call", lambda state: END if state["calls"] == CALLS else "call", ["call", END])
    return graph.compile(checkpointer=saver)


@asynccontextmanager
async def opened_anywhere(name: str, folder: str, postgres: str | None) -> AsyncIterator[Any]:
    """The saver of this name: over a new SQLite file, or over the PostgreSQL database that was given."""
    if not name.endswith("postgres"):
        async with opened(name, folder) as saver:
            yield saver
    elif name == "redraft postgres":
        from redraft import open_checkpointer

        async with open_checkpointer(str(postgres)) as saver:
            yield saver
    else:
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from psycopg.rows import dict_row
        from psycopg_pool import AsyncConnectionPool

        options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        async with AsyncConnectionPool(str(postgres), max_size=POSTGRES_CONNECTIONS, kwargs=options) as pool:
            stock = AsyncPostgresSaver(pool)
            await stock.setup()
            yield stock


def measured(name: str, load: Load, server: str | None) -> tuple[float, float]:
    """As `runs_at_once`, in a new database."""
    if not name.endswith("postgres"):
        return asyncio.run(runs_at_once(name, load, None))
    with empty_database(str(server)) as url:
        return asyncio.run(runs_at_once(name, load, url))


async def runs_at_once(name: str, load: Load, postgres: str | None) -> tuple[float, float]:
    """Share of ideal without jitter, model time ÷ time in run with it, 0–1; and microseconds of CPU time a call."""
    from redraft.evals.run.runner import few_collections

    chance = random.Random(8)
    batch = uuid.uuid4().hex
    with tempfile.TemporaryDirectory() as folder:
        async with opened_anywhere(name, folder, postgres) as saver:
            graph = build(saver)

            async def one(thread_id: str, waits: list[float]) -> float:
                start = time.perf_counter()
                config = {"configurable": {"thread_id": thread_id}, "recursion_limit": 10 * CALLS}
                out = await graph.ainvoke({"calls": 0, "waits": waits}, config)
                if out["calls"] != CALLS:
                    raise RuntimeError(f"the run made {out['calls']} calls, not {CALLS}")
                return time.perf_counter() - start

            await asyncio.gather(*(one(f"{batch}/warm-up/{number}", [0.0] * CALLS) for number in range(20)))
            spread = (1 - load.jitter, 1 + load.jitter)
            waits = [[load.latency_s * chance.uniform(*spread) for _ in range(CALLS)] for _ in range(load.runs)]
            with few_collections():
                start, spent = time.perf_counter(), time.process_time()
                taken = await asyncio.gather(*(one(f"{batch}/{n}", each) for n, each in enumerate(waits)))
                ended, spent = time.perf_counter() - start, time.process_time() - spent
    share = sum(map(sum, waits)) / sum(taken) if load.jitter else CALLS * load.latency_s / ended
    return share, spent / (load.runs * CALLS) * 1e6


async def kilobytes_held(name: str) -> float:
    """Memory that Python has allocated for a run which waits in its fifth call, and has saved all before it, in KB."""
    batch = uuid.uuid4().hex
    reached = 0
    there, go_on = asyncio.Event(), asyncio.Event()

    async def wait(seconds: float) -> None:
        nonlocal reached
        if seconds:
            reached += 1
            if reached == HELD:
                there.set()
            await go_on.wait()

    waits = [0.0] * 4 + [1.0] + [0.0] * 5
    with tempfile.TemporaryDirectory() as folder:
        async with opened(name, folder) as saver:
            graph = build(saver, wait)
            await graph.ainvoke({"calls": 0, "waits": [0.0] * CALLS}, {"configurable": {"thread_id": batch}})
            gc.collect()
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
            runs = [
                asyncio.create_task(
                    graph.ainvoke({"calls": 0, "waits": waits}, {"configurable": {"thread_id": f"{batch}/{number}"}})
                )
                for number in range(HELD)
            ]
            await there.wait()
            while len(asyncio.all_tasks()) > 1 + 2 * HELD:  # noqa: ASYNC110  (a run and its node each; others still save)
                await asyncio.sleep(0.01)
            gc.collect()
            held = tracemalloc.get_traced_memory()[0] - before
            tracemalloc.stop()
            go_on.set()
            await asyncio.gather(*runs)
    return held / HELD / 1024


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--full", action="store_true", help="1,000 runs at once and calls of 2 s: about ten minutes")
    parser.add_argument(
        "--repeats", type=int, metavar="N", help="rounds of alternating measurements; default 1, full 3"
    )
    parser.add_argument("--postgres", metavar="URL", help="a server where databases may be made")
    given = parser.parse_args(arguments)
    os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
    print(versions())
    with postgres_server(given.postgres) as server:
        rows = throughput(FULL if given.full else SMALL, server, repeats=given.repeats or (3 if given.full else 1))
    held = {name: asyncio.run(kilobytes_held(name)) for name in SQLITE}
    note = f"{HELD} runs, a bare graph; " + ", ".join(f"{name} {kb:.1f}" for name, kb in held.items())
    rows.append(at_most("memory per run in flight, SQLite", held["redraft"], KILOBYTES_GOAL, unit="KB", note=note))
    print()
    return finish(rows, given.json)


def throughput(loads: Sequence[Load], server: str | None, *, repeats: int) -> list[Row]:
    """Print the two tables, and return their rows."""
    rows = []
    for load in loads:
        rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in (*SQLITE, *(POSTGRES if server else ()))}
        for _ in range(repeats):
            for name, found in rounds.items():
                found.append(measured(name, load, server))
        shares = {name: statistics.median(share for share, _ in found) for name, found in rounds.items()}
        goal = MODEL_TIME_GOAL if load.jitter else SHARE_GOAL
        kind = "model time ÷ time in run" if load.jitter else "share of ideal"
        print(f"\n{kind}: {load}; goal ≥ {goal}")
        for name, share in shares.items():
            cpu = statistics.median(spent for _, spent in rounds[name])
            times = f"{share / shares[STOCK[name]]:>5.1f} x stock" if name in STOCK else ""
            print(f"  {name:<17} {share:>5.2f}  {times:<13}  {cpu:>6.0f} µs of CPU a call", flush=True)
        note = f"the stock saver: {shares['stock']:.2f}; no saver: {shares['none']:.2f}"
        rows.append(at_least(f"{kind}, SQLite, {load}", shares["redraft"], goal, n=repeats, note=note))
        if load.jitter:
            continue
        for name, place in (("redraft", "SQLite"), ("redraft postgres", "PostgreSQL")):
            what = f"{kind}, {place} ÷ the stock saver's"
            if name in shares:
                times = shares[name] / shares[STOCK[name]]
                note = f"{load}: {shares[name]:.2f} ÷ {shares[STOCK[name]]:.2f}"
                rows.append(at_least(what, times, TIMES_STOCK_GOALS[name], unit="ratio", n=repeats, note=note))
            else:
                rows.append(left_out(what, "install PostgreSQL, or give --postgres URL"))
    return rows


if __name__ == "__main__":
    sys.exit(main())
