"""What do thousands of threads in a database cost one of them, and how do many runs at once fare on PostgreSQL?

First: a state, a history, a fork and a page of runs, with few and with many threads in the database; the least wall
time of several. Second: runs of ten calls of 200 ms at once on redraft's PostgreSQL saver and on the stock
`AsyncPostgresSaver` with a pool of the same width, interleaved; wall time, and the CPU time of the client. Exits with 1
when redraft misses a goal. Wall times mean something on an idle machine only.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import time
import uuid
from statistics import median
from typing import TYPE_CHECKING, Any

from rows import add_options, at_least, at_most, finish, left_out
from storage_growth import empty_database, postgres_saver, postgres_server, printed_versions, run_redraft

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["main"]

READ_GOAL, PAGE_GOAL, SPEED_GOAL = 1.1, 1.5, 3.0
PAGE = "a page of runs"
CONNECTIONS = 10
ROUNDS, CALL_S = 4, 0.2
CALLS = 2 + 2 * ROUNDS


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


def growth(saver: Any, few: int, many: int, repeats: int) -> dict[str, float]:
    """Print a row for each thing that is read, and return the ratios."""
    from redraft.graphs.loop import build_refine_graph
    from redraft.models import ScriptedModel
    from redraft.state import Thread

    graph = build_refine_graph(ScriptedModel(["none"]), critics=[], checkpointer=saver)
    thread = Thread(graph, "read")
    run_redraft(saver, 3, thread.thread_id)
    reads: dict[str, Callable[[], Any]] = {
        "a state": lambda: graph.get_state(thread.config),
        "a history": thread.history,
        "a fork": lambda: thread.fork(at=1),
        PAGE: lambda: saver.runs.list(limit=50),
    }
    taken: dict[str, list[float]] = {what: [] for what in reads}
    for start, end in ((0, few), (few, many)):
        asyncio.run(fill(saver, range(start, end)))
        gc.collect()
        for what, read in reads.items():
            read()
            taken[what].append(min(_wall(read) for _ in range(repeats)))
    for what, (small, large) in taken.items():
        print(f"{what:<20}{small * 1e3:>12.2f} ms{large * 1e3:>12.2f} ms{large / small:>8.2f}", flush=True)
    return {what: large / small for what, (small, large) in taken.items()}


def _wall(read: Callable[[], Any]) -> float:
    before = time.perf_counter()
    read()
    return time.perf_counter() - before


async def at_once(saver: Any, runs: int) -> tuple[float, float]:
    """Return wall and CPU seconds of so many runs at once."""
    from redraft.graphs.loop import build_refine_graph
    from redraft.state import Critique, Limits

    async def writer(state: Any) -> str:
        await asyncio.sleep(CALL_S)
        return f"draft {len(state['events'])}"

    async def critic(task: str, draft: str, history: Any, /) -> Critique:
        await asyncio.sleep(CALL_S)
        return Critique("Not yet.", accepted=False)

    graph = build_refine_graph(generate=writer, refine=writer, critics=[critic], checkpointer=saver)

    async def one() -> None:
        given: Any = {"task": "Write.", "limits": Limits(max_rounds=ROUNDS)}
        out = await graph.ainvoke(given, {"configurable": {"thread_id": uuid.uuid4().hex}, "recursion_limit": 50})
        if out["rounds"] != ROUNDS:
            raise RuntimeError(f"a run made {out['rounds']} rounds, not {ROUNDS}: {out['stop_reason']}")

    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(one() for _ in range(runs)))
    return time.perf_counter() - wall, time.process_time() - cpu


async def on_ours(url: str, runs: int) -> tuple[float, float]:
    from redraft.state import open_checkpointer

    async with open_checkpointer(url) as saver:
        return await at_once(saver, runs)


async def on_stock(url: str, runs: int) -> tuple[float, float]:
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    from psycopg.rows import dict_row
    from psycopg_pool import AsyncConnectionPool

    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    async with AsyncConnectionPool(url, min_size=1, max_size=CONNECTIONS, kwargs=options, open=False) as pool:
        saver = AsyncPostgresSaver(pool)  # type: ignore[arg-type]
        await saver.setup()
        return await at_once(saver, runs)


def speed(server: str, runs: int, repeats: int) -> float:
    """Print a row for each saver, and return how often the stock one's wall time is ours."""
    taken: dict[str, list[tuple[float, float]]] = {"redraft": [], "stock": []}
    for _ in range(repeats):
        for name, run in (("redraft", on_ours), ("stock", on_stock)):
            with empty_database(server) as url:
                taken[name].append(asyncio.run(run(url, runs)))
    walls = {}
    for name, times in taken.items():
        walls[name], cpu = (median(column) for column in zip(*times, strict=True))
        share = CALLS * CALL_S / walls[name]
        print(f"{name:<20}{walls[name]:>12.1f} s{cpu:>12.1f} s{share:>8.2f}", flush=True)
    return walls["stock"] / walls["redraft"]


def main() -> int:
    """Print both tables; return 0 when redraft meets its goals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--threads", type=int, nargs=2, metavar=("FEW", "MANY"), help="default: 10 2000")
    parser.add_argument("--runs", type=int, help="at once; default: 100")
    parser.add_argument("--repeats", type=int, default=1, help="of the runs at once; default: 1")
    parser.add_argument("--full", action="store_true", help="10,000 threads, and 1,000 runs at once, three times")
    parser.add_argument("--postgres", metavar="URL", help="a server where databases may be made")
    arguments = parser.parse_args()
    few, many = arguments.threads or ((10, 10_000) if arguments.full else (10, 2000))
    runs = arguments.runs or (1000 if arguments.full else 100)
    with postgres_server(arguments.postgres) as server:
        if not server:
            what = f"reads on PostgreSQL, {many} threads ÷ {few}"
            return finish([left_out(what, "install PostgreSQL, or give --postgres URL")], arguments.json)
        print(f"{'PostgreSQL':<20}{f'{few} threads':>15}{f'{many} threads':>15}{'ratio':>8}")
        with empty_database(server) as url, postgres_saver(url, ours=True) as saver:
            ratios = growth(saver, few, many, repeats=15)
        print(f"\n{f'{runs} runs at once':<20}{'wall':>14}{'client CPU':>14}{'share':>8}")
        repeats = 3 if arguments.full else arguments.repeats
        faster = speed(server, runs, repeats)
    rows = [
        at_most(f"{what}, PostgreSQL, {many} threads ÷ {few}", ratio, PAGE_GOAL if what == PAGE else READ_GOAL, n=15)
        for what, ratio in ratios.items()
    ]
    what = f"{runs} runs at once, PostgreSQL: speed ÷ the stock saver's"
    rows.append(at_least(what, faster, SPEED_GOAL, unit="ratio", n=repeats, note=f"a pool of {CONNECTIONS} each"))
    print()
    code = finish(rows, arguments.json)
    print(printed_versions())
    return code


if __name__ == "__main__":
    sys.exit(main())
