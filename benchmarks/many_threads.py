"""Cost of one thread in a database of thousands.

A state, a history, a fork and a page of runs, with few and with many threads in the database, on SQLite and on
PostgreSQL; the least wall time of several. Exits with 1 when redraft misses a goal. Wall times mean something on an
idle machine only.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from databases import empty_database, postgres_server
from loops import run_rounds
from rows import add_options, at_most, finish, left_out

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["main"]

PACKAGES = ("redraft", "langgraph", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres")
READ_GOAL, PAGE_GOAL = 1.1, 1.5
PAGE = "a page of runs"
REPEATS = 15


async def fill(saver: Any, threads: range) -> None:
    """Threads of one checkpoint, as a run that has just begun leaves them."""
    from langgraph.checkpoint.base import empty_checkpoint

    async def one(number: int) -> None:
        config: Any = {"configurable": {"thread_id": f"filling {number}", "checkpoint_ns": ""}}
        values = {"task": "Write.", "stop_reason": "max_rounds", "usage": {"total_tokens": 9}}
        versions: Any = dict.fromkeys(values, "1")
        made: Any = {**empty_checkpoint(), "channel_values": values, "channel_versions": versions}
        await saver.aput(config, made, {"source": "loop", "step": 1}, versions)

    for start in range(0, len(threads), 500):
        await asyncio.gather(*(one(number) for number in threads[start : start + 500]))


def growth(kind: str, saver: Any, few: int, many: int) -> dict[str, float]:
    """Print a row for each thing that is read, and return the ratios. A page has as many runs as there are few."""
    print(f"{kind:<20}{f'{few} threads':>15}{f'{many} threads':>15}{'ratio':>8}")
    from redraft import Thread, build_refine_graph
    from redraft.models import ScriptedModel

    graph = build_refine_graph(ScriptedModel(["none"]), critics=[], checkpointer=saver)
    thread = Thread(graph, "read")
    run_rounds(saver, 3, thread.thread_id)
    reads: dict[str, Callable[[], Any]] = {
        "a state": lambda: graph.get_state(thread.config),
        "a history": thread.history,
        "a fork": lambda: thread.fork(at=1),
        PAGE: lambda: saver.runs.list(limit=few),
    }
    taken: dict[str, list[float]] = {what: [] for what in reads}
    for start, end in ((0, few), (few, many)):
        asyncio.run(fill(saver, range(start, end)))
        gc.collect()
        for what, read in reads.items():
            read()
            taken[what].append(min(_wall(read) for _ in range(REPEATS)))
    for what, (small, large) in taken.items():
        print(f"{what:<20}{small * 1e3:>12.2f} ms{large * 1e3:>12.2f} ms{large / small:>8.2f}", flush=True)
    print()
    return {what: large / small for what, (small, large) in taken.items()}


def _wall(read: Callable[[], Any]) -> float:
    before = time.perf_counter()
    read()
    return time.perf_counter() - before


def main() -> int:
    """Print both tables; return 0 when redraft meets its goals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--threads", type=int, nargs=2, metavar=("FEW", "MANY"), help="default: 10 2000")
    parser.add_argument("--full", action="store_true", help="10,000 threads")
    parser.add_argument("--postgres", metavar="URL", help="a server where databases may be made")
    arguments = parser.parse_args()
    from redraft import open_checkpointer

    few, many = arguments.threads or ((10, 10_000) if arguments.full else (10, 2000))
    ratios: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder, open_checkpointer(Path(folder) / "runs.sqlite") as saver:
        ratios["SQLite"] = growth("SQLite", saver, few, many)
    with postgres_server(arguments.postgres) as server:
        if server:
            with empty_database(server) as url, open_checkpointer(url) as saver:
                ratios["PostgreSQL"] = growth("PostgreSQL", saver, few, many)
    rows = [
        at_most(f"{what}, {kind}, {many} threads ÷ {few}", ratio, PAGE_GOAL if what == PAGE else READ_GOAL, n=REPEATS)
        for kind, found in ratios.items()
        for what, ratio in found.items()
    ]
    if "PostgreSQL" not in ratios:
        what = f"reads on PostgreSQL, {many} threads ÷ {few}"
        rows.append(left_out(what, "install PostgreSQL, or give --postgres URL"))
    return finish(rows, arguments.json, packages=PACKAGES)


if __name__ == "__main__":
    sys.exit(main())
