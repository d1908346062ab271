"""How close many runs of the real loop come to the time that their model calls take.

All runs start at once; each makes a draft, a critique, a revision and a critique, and each call takes as long. What
the ideal is not, is overhead: share of ideal = calls x latency ÷ time until the last run ends. redraft without a saver
and on its savers, and the same nodes by hand without one and on LangGraph's (`benchmarks/loops.py`), take turns; all
with `redraft.tuned_gc()`, and redraft also with Python's own collector settings, and with a checkpoint a round.
Wall-clock numbers: on a machine that does other work they say little, the CPU beside them more. The PostgreSQL savers,
with pools of one width, are measured where a server is given or PostgreSQL is installed. Exits with 1 when redraft
misses a goal; goals are for `--full`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import sys
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from databases import new_database, opened, postgres_server
from loops import Answering, by_hand, calls_in, redraft_graph, task_of
from rows import add_options, at_least, at_most, finish, left_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rows import Row

__all__ = ["main"]

ROUNDS = 1
PACKAGES = ("redraft", "langgraph", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres")


@dataclass(frozen=True)
class Way:
    """A loop on a saver."""

    ours: bool
    database: str = ""
    """`SQLite`, `PostgreSQL`, or empty for no saver."""
    tuned: bool = True
    """With the collector set by `tuned_gc()`."""
    checkpoints: str = "step"

    def __str__(self) -> str:
        saver = self.database or "no saver"
        named = f"redraft, {saver}" if self.ours else f"by hand, {'stock ' if self.database else ''}{saver}"
        return named + ("" if self.tuned else ", gc as it is") + (", a round" if self.checkpoints == "round" else "")


WAYS = (
    Way(True),
    Way(False),
    Way(True, "SQLite"),
    Way(True, "SQLite", tuned=False),
    Way(True, "SQLite", checkpoints="round"),
    Way(False, "SQLite"),
    Way(True, "PostgreSQL"),
    Way(True, "PostgreSQL", checkpoints="round"),
    Way(False, "PostgreSQL"),
)
GOALS = {"PostgreSQL": 3.0}
"""Times the share of the stock saver's, in the burst of 1,000 runs with calls of 200 ms."""


@dataclass(frozen=True)
class Load:
    """So many runs at once, whose calls take so long."""

    runs: int
    latency_s: float

    @property
    def ideal_s(self) -> float:
        """Seconds that a run takes where nothing but its model calls takes any."""
        return calls_in(ROUNDS) * self.latency_s

    def __str__(self) -> str:
        return f"{self.runs:,} runs x {calls_in(ROUNDS)} calls x {self.latency_s * 1000:.0f} ms"


SMALL = (Load(1, 0.2), Load(300, 0.2))
FULL = (Load(1, 0.2), Load(100, 0.2), Load(1000, 0.2), Load(1000, 2.0))


async def burst(way: Way, load: Load, place: str | None) -> tuple[float, float]:
    """Seconds until the last run ends, and CPU seconds a run."""
    from redraft import tuned_gc

    async with contextlib.AsyncExitStack() as stack:
        saver = await stack.enter_async_context(opened(place, stock=not way.ours)) if place else None
        build = partial(redraft_graph, checkpoints=way.checkpoints) if way.ours else by_hand
        task = task_of(0.1)

        async def one(graph: object, thread_id: str) -> None:
            out = await graph.ainvoke({"task": task}, {"configurable": {"thread_id": thread_id}})  # type: ignore[attr-defined]
            if out["rounds"] != ROUNDS:
                raise RuntimeError(f"the run made {out['rounds']} rounds, not {ROUNDS}")

        warm = build(Answering(), rounds=ROUNDS, checkpointer=saver)
        await asyncio.gather(*(one(warm, f"warm-up {number}") for number in range(20)))
        graph = build(Answering(delay_s=load.latency_s), rounds=ROUNDS, checkpointer=saver)
        if way.tuned:
            stack.enter_context(tuned_gc())
        start, spent = time.perf_counter(), time.process_time()
        await asyncio.gather(*(one(graph, str(number)) for number in range(load.runs)))
        return time.perf_counter() - start, (time.process_time() - spent) / load.runs


def measured(load: Load, server: str | None, repeats: int, only: Sequence[str]) -> dict[Way, tuple[float, float]]:
    """Medians of each way: seconds until the last run ends, CPU seconds a run."""
    ways = [way for way in WAYS if way.database in only and (server or way.database != "PostgreSQL")]
    found: dict[Way, list[tuple[float, float]]] = {way: [] for way in ways}
    for _ in range(repeats):
        for way in ways:
            with contextlib.ExitStack() as stack:
                on = server if way.database == "PostgreSQL" else None
                place = stack.enter_context(new_database(on)) if way.database else None
                found[way].append(asyncio.run(burst(way, load, place)))
            print(f"  {load}, {way}: {found[way][-1][0]:.2f} s, {1e3 * found[way][-1][1]:.1f} ms CPU a run", flush=True)
    return {way: tuple(map(statistics.median, zip(*each, strict=True))) for way, each in found.items()}  # type: ignore[misc]


def rows_of(load: Load, found: dict[Way, tuple[float, float]], repeats: int) -> list[Row]:
    """The share of the ideal of each, and how many times that of the stock saver it is."""
    rows = []
    for way, (seconds, cpu) in found.items():
        note = f"{seconds:.2f} s, {1e3 * cpu:.1f} ms CPU a run"
        rows.append(at_most(f"share of ideal, {load}: {way}", load.ideal_s / seconds, None, n=repeats, note=note))
        stock = found.get(Way(False, way.database))
        if way.ours and way.database and way.tuned and stock:
            what, note = f"share ÷ the stock saver's, {load}: {way}", f"stock: {stock[0]:.2f} s"
            if way.database in GOALS and load.runs > 1 and load.latency_s < 1:
                rows.append(at_least(what, stock[0] / seconds, GOALS[way.database], unit="ratio", n=repeats, note=note))
            else:
                rows.append(at_most(what, stock[0] / seconds, None, n=repeats, note=note))
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--full", action="store_true", help="1,000 runs at once and calls of 2 s: about ten minutes")
    parser.add_argument("--repeats", type=int, metavar="N", help="turns (default: 1; --full: 3)")
    parser.add_argument("--runs", type=int, metavar="N", help="one load of so many runs")
    parser.add_argument("--latency-s", type=float, default=0.2, metavar="S", help="of its calls (default: 0.2)")
    parser.add_argument("--only", nargs="+", default=["", "SQLite", "PostgreSQL"], help="databases; '' is no saver")
    parser.add_argument("--postgres", metavar="URL", help="a server where databases may be made")
    given = parser.parse_args(arguments)
    os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
    loads = (Load(given.runs, given.latency_s),) if given.runs else FULL if given.full else SMALL
    repeats, rows = given.repeats or (3 if given.full else 1), list["Row"]()
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(postgres_server(given.postgres)) if "PostgreSQL" in given.only else None
        for load in loads:
            rows += rows_of(load, measured(load, server, repeats, given.only), repeats)
    if "PostgreSQL" in given.only and not server:
        rows.append(left_out("share of ideal, PostgreSQL", "install PostgreSQL, or give --postgres URL"))
    print()
    return finish(rows, given.json, packages=PACKAGES)


if __name__ == "__main__":
    sys.exit(main())
