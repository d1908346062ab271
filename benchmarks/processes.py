"""How many runs of the real loop several processes make on one database, and what a run asks of PostgreSQL.

The same runs, of four model calls each, are shared out to 1, 2 and 4 processes on one SQLite file, on one PostgreSQL
database with a checkpoint a step and a round, and as workers of `redraft serve`, which take turns; beside them the same
nodes by hand on LangGraph's PostgreSQL saver, in one process. Shown are runs a second (wall clock: as many processes as
free cores can gain) and, which other work on the machine disturbs less, CPU a run, of the processes and of PostgreSQL.
CPU a run that stays the same as processes are added means that nothing is lost between them; the core that is used up
first then says where one database ends. Last, what a run asks of PostgreSQL: transactions, bytes written ahead, bytes
kept, and connections.

PostgreSQL is measured on the server that the tests start, where one is installed: its processes' CPU is read from
`/proc`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).parent / "crash"))

from databases import new_database, opened, postgres_server, stored_bytes
from loops import Answering, by_hand, redraft_graph, task_of
from rows import Row, add_options, at_least, at_most, finish, left_out

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["main"]

ROUNDS, WARM_UP = 1, 5
LATENCY_S = 0.05
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Spent:
    """What some runs took."""

    runs_a_second: float
    worker_s: float
    """CPU of the processes that make the runs, a run; so are the rest."""
    server_s: float = 0.0
    """Of the server that answers HTTP."""
    database_s: float = 0.0
    """Of PostgreSQL."""
    facts: dict[str, float] = field(default_factory=dict)


async def work(place: str, name: str, runs: int, loop: str) -> None:
    """Make runs on a database: say `ready`, wait for a line, and say when it began and ended and what CPU it took."""
    from redraft import tuned_gc

    build = by_hand if loop == "stock" else partial(redraft_graph, checkpoints=loop)
    async with opened(place, stock=loop == "stock") as saver:
        graph = build(Answering(delay_s=LATENCY_S), rounds=ROUNDS, checkpointer=saver)

        async def one(thread_id: str) -> None:
            out = await graph.ainvoke({"task": task_of(0.4)}, {"configurable": {"thread_id": thread_id}})
            if out["rounds"] != ROUNDS:
                raise RuntimeError(f"the run made {out['rounds']} rounds, not {ROUNDS}")

        await asyncio.gather(*(one(f"{name}/warm-up/{number}") for number in range(WARM_UP)))
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        with tuned_gc():
            began, spent = time.monotonic(), time.process_time()
            await asyncio.gather(*(one(f"{name}/{number}") for number in range(runs)))
        print(json.dumps([began, time.monotonic(), time.process_time() - spent]), flush=True)


def together(place: str, processes: int, runs: int, loop: str = "step") -> Spent:
    """Share the runs out to so many processes, let all begin at once, and return what it took."""
    share = runs // processes
    words = [sys.executable, __file__, "--work", place, "--runs", str(share), "--loop", loop, "--name"]
    with contextlib.ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen([*words, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            for number in range(processes)
        ]
        if any(one.stdout is None or one.stdout.readline() != "ready\n" for one in started):
            raise RuntimeError("a process did not start")
        with watched(place, share * processes) as seen:
            for one in started:
                if one.stdin is not None:
                    one.stdin.write("go\n")
                    one.stdin.flush()
            told = [json.loads(one.communicate()[0]) for one in started]
    began, ended, cpu = min(one[0] for one in told), max(one[1] for one in told), sum(one[2] for one in told)
    seen.runs_a_second, seen.worker_s = share * processes / (ended - began), cpu / (share * processes)
    return seen


def start(words: list[str], **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, *words], text=True, **options)


def served(url: str, workers: int, runs: int, folder: Path) -> Spent:
    """Ask `redraft serve --no-work` for the runs, and let so many `redraft worker` execute them."""
    import httpx
    import psycopg
    from model_server import ModelServer
    from workers import StartedCommand

    with ModelServer(delay_s=LATENCY_S) as model, contextlib.ExitStack() as stack:

        def begun(*words: object) -> Any:
            process = StartedCommand(start, folder, *words, "--db", url, "--model", model.spec, "--watchdog", 0)
            stack.callback(process.kill)
            return process

        server = begun("serve", "--no-work", "--port", 0)
        address = server.ready(r"http://127\.0\.0\.1:\d+")
        crew = [begun("worker", "--max-runs", max(32 // workers, 8)) for _ in range(workers)]
        for worker in crew:
            worker.ready("working")
        body = {"assistant_id": "refine", "if_not_exists": "create", "stream_mode": ["values"]}
        client = stack.enter_context(httpx.Client(timeout=120))

        def ask(name: str) -> None:
            given = {"task": f"Tell of {name}.", "limits": {"max_rounds": ROUNDS}}
            client.post(f"{address}/threads/{name}/runs", json={**body, "input": given}).raise_for_status()

        admin = stack.enter_context(psycopg.connect(url, autocommit=True))

        def wait() -> None:
            waiting = "SELECT count(*) FROM served_runs WHERE status IN ('pending', 'running')"
            while admin.execute(waiting).fetchone() != (0,):
                time.sleep(0.05)

        for number in range(4 * workers):
            ask(f"warm-up-{number}")
        wait()
        before = [cpu_s(one.process.pid) for one in (server, *crew)]
        with watched(url, runs) as seen:
            began = time.monotonic()
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(ask, [f"thread-{number}" for number in range(runs)]))
            wait()
            seen.runs_a_second = runs / (time.monotonic() - began)
            spent = [cpu_s(one.process.pid) - was for one, was in zip((server, *crew), before, strict=True)]
        seen.server_s, seen.worker_s = spent[0] / runs, sum(spent[1:]) / runs
    return seen


@contextlib.contextmanager
def watched(place: str, runs: int) -> Iterator[Spent]:
    """Give what is filled with what PostgreSQL did for so many runs; nothing for a SQLite file."""
    seen = Spent(0.0, 0.0)
    if "://" not in place:
        yield seen
        return
    import psycopg

    statement = (
        "SELECT xact_commit, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint, numbackends "
        "FROM pg_stat_database WHERE datname = current_database()"
    )
    with psycopg.connect(place, autocommit=True) as admin:
        row = admin.execute("SELECT pg_backend_pid()").fetchone()
        postmaster = parent_of(row[0]) if row else 0
        most, stop = [0], threading.Event()

        def look() -> list[int]:
            admin.execute("SELECT pg_stat_clear_snapshot()")
            found = admin.execute(statement).fetchone()
            return list(found) if found else [0, 0, 0]

        def count() -> None:
            while not stop.wait(0.1):
                most.append(look()[2] - 1)  # without this one

        time.sleep(1.2)  # who did something before has told it by now
        before, asked, cpu = look(), len(most), cpu_s(postmaster, children=True)
        watching = threading.Thread(target=count, daemon=True)
        watching.start()
        yield seen
        stop.set()
        watching.join()
        seen.database_s = (cpu_s(postmaster, children=True) - cpu) / runs
        time.sleep(1.2)
        after, asked = look(), len(most) - asked
    seen.facts = {
        "commits": (after[0] - before[0] - 2 * asked) / runs,
        "written ahead": (after[1] - before[1]) / runs,
        "connections": max(most),
    }


def cpu_s(pid: int, *, children: bool = False) -> float:
    """Return the CPU seconds of a process, with those of its children, living and ended, where they are asked for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = sum(map(int, fields[11:13]))
    if not children:
        return own / TICKS
    total = own + sum(map(int, fields[13:15]))
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            found = path.read_text().rpartition(")")[2].split()
            total += sum(map(int, found[11:13])) if int(found[1]) == pid else 0
    return total / TICKS


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def measured(server: str | None, given: argparse.Namespace) -> Iterator[Row]:
    """Print what each way took, and yield the rows."""
    ways = ["SQLite", *(["PostgreSQL", "a round", "redraft worker"] if server else [])]
    found: dict[tuple[str, int], list[Spent]] = {(way, n): [] for way in ways for n in given.processes}
    if server:
        found["stock", 1] = []
    kept: list[float] = []
    for _ in range(given.repeats):
        for (way, processes), spent in found.items():
            with new_database(None if way == "SQLite" else server) as place:
                if way == "redraft worker":
                    with tempfile.TemporaryDirectory() as folder:
                        spent.append(served(place, processes, given.runs // 2, Path(folder)))
                else:
                    loop = way.removeprefix("a ") if way in ("a round", "stock") else "step"
                    spent.append(together(place, processes, given.runs, loop))
                if way == "PostgreSQL":
                    kept.append(stored_bytes(place) / (given.runs + WARM_UP * processes))
                print(way, processes, spent[-1], file=sys.stderr, flush=True)
    print(f"{'':<28}{'runs/s':>8}{'÷ one':>7}{'ms of CPU a run':>18}{'server':>9}{'PostgreSQL':>12}")
    for (way, processes), spent in found.items():
        speed = median(one.runs_a_second for one in spent)
        alone = median(one.runs_a_second for one in next(seen for (of, _), seen in found.items() if of == way))
        parts = [1000 * median(getattr(one, part) for one in spent) for part in ("worker_s", "server_s", "database_s")]
        print(f"{f'{way}, {processes} processes':<28}{speed:>8.1f}{speed / alone:>7.2f}", end="")
        print(f"{parts[0]:>18.1f}{parts[1]:>9.1f}{parts[2]:>12.1f}", flush=True)
    print()
    first, last = given.processes[0], given.processes[-1]
    for way in ways:
        cost = {n: median(one.worker_s + one.server_s + one.database_s for one in found[way, n]) for n in (first, last)}
        ratio = cost[last] / cost[first]
        what = f"CPU a run, {last} processes ÷ {first}, {way}"
        yield at_most(what, ratio, None, n=given.repeats, note=f"{1000 * cost[first]:.1f} ms with {first}")
    if not server:
        yield left_out("a run on PostgreSQL", "install PostgreSQL")
        return
    speeds = {key: median(one.runs_a_second for one in seen) for key, seen in found.items()}
    best = max(given.processes, key=lambda n: speeds["a round", n])
    what = f"runs a second on PostgreSQL, {best} processes, a checkpoint a round ÷ by hand on the stock saver, one"
    yield at_least(what, speeds["a round", best] / speeds["stock", 1], 3.0, unit="ratio", n=given.repeats)
    one = found["PostgreSQL", last]
    for name, unit in (("commits", ""), ("written ahead", "bytes"), ("connections", "")):
        value = median(spent.facts[name] for spent in one)
        yield at_most(f"PostgreSQL a run, {last} processes: {name}", value, None, unit=unit, n=given.repeats)
    yield at_most("PostgreSQL a run: kept, with indexes", median(kept), None, unit="bytes", n=len(kept))
    limit = 1 / median(spent.database_s for spent in one)
    yield at_most("runs a second for each core of PostgreSQL", limit, None, unit="runs/s", n=given.repeats)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--processes", type=int, nargs="+", metavar="N", help="default: 1 2 4, with --quick 1 2")
    parser.add_argument("--runs", type=int, help="default: 400, with --quick 80; half of that over HTTP")
    parser.add_argument("--repeats", type=int, help="default: 3, with --quick 1")
    parser.add_argument("--work", metavar="DATABASE", help=argparse.SUPPRESS)
    parser.add_argument("--name", default="", help=argparse.SUPPRESS)
    parser.add_argument("--loop", default="step", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
    given.processes = given.processes or ([1, 2] if given.quick else [1, 2, 4])
    given.runs = given.runs or (80 if given.quick else 400)
    given.repeats = given.repeats or (1 if given.quick else 3)
    if given.work:
        asyncio.run(work(given.work, given.name, given.runs, given.loop))
        return 0
    with postgres_server(None) as server:
        rows = list(measured(server, given))
    return finish(rows, given.json, packages=("redraft", "langgraph", "psycopg"))


if __name__ == "__main__":
    sys.exit(main())
