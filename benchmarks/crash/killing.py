"""Runs that are killed, cut off from their database and out of disk: what is lost, doubled, or paid twice?

`python benchmarks/crash/killing.py` (or `make crash`) starts a model server on loopback and lets a process refine a few
hundred problems undisturbed. Then others do the same: their whole process group is killed with SIGKILL at random
moments (seeded) until all is done, on SQLite and on PostgreSQL; the PostgreSQL server is restarted as after a crash
under them; the disk below the SQLite file is full, and grows. Two processes resume one thread at once, and one that is
stopped in mid-run is followed by another on a machine with another name and clock. Last, two servers and a bulk run
share one PostgreSQL database, each on a machine of its own (see `together.py`), and random histories follow for some
minutes (see `histories.py`).

A call may be paid again only if it was in flight when a process ended: its request was sent, and its reply was not
committed. That is looked up, request by request, in what the database holds after each end; so there is no allowance.
Prints a table; exits with 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from databases import Sqlite, opened_postgres
from histories import history_rows
from lives import Life, Outcome, live, paid_again
from places import SmallDisk, loaded, rows
from together import together_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

HERE = Path(__file__).parent

__all__ = ["main"]

PACKAGES = ("langgraph", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres", "langchain-openai")
RESTARTS = 3
ROOM = (0.2, 0.5)
"""How much of what the undisturbed run took the disk has at first, and after it was full once."""


def rows_of(name: str, outcome: Outcome, reference: Outcome, *, concurrency: int, stops: str) -> Iterator[Any]:
    """The rows of one bulk run, beside the one that was left alone."""
    problems = len(reference.results)
    equal = sum(outcome.results.get(key) == result for key, result in reference.results.items())
    lost, doubled = problems - len(outcome.results), outcome.lines - len(outcome.results)
    paid, calls = paid_again(outcome), reference.calls
    for told in differences(reference, outcome):
        print(told, file=sys.stderr)
    yield rows.at_least(f"{name}: finished, with the answer of a run left alone", equal / problems, 1, n=problems)
    yield rows.at_most(f"{name}: result lines lost or doubled", lost + doubled, 0, unit="", n=problems, note=stops)
    note = f"of {calls} calls; the server was at {paid.waiting}; {paid.uncommitted} replies were sent and not committed"
    note += f", {paid.oldest_ms:.0f} ms before at most" if paid.uncommitted else ""
    yield rows.at_most(f"{name}: calls paid again", paid.all, None, unit="", n=len(outcome.lives) - 1, note=note)
    ended = len(outcome.lives) - 1
    yield rows.at_most(f"{name}: of these, not in flight at an end", paid.unexplained, 0, unit="", n=ended)
    yield rows.at_most(f"{name}: most paid again after one end", paid.most, concurrency, unit="", n=ended)


def differences(reference: Outcome, other: Outcome) -> list[str]:
    """Return what is told of results that differ."""
    told = []
    for name, result in reference.results.items():
        found = other.results.get(name, result)
        changed = [f"{field} {str(found.get(field))[:120]!r}" for field in result if found.get(field) != result[field]]
        told += [f"  {name} differs in {', '.join(changed)}"] if changed else []
    return told


def at_random(server: Any, given: argparse.Namespace) -> Callable[[subprocess.Popen[str]], bool]:
    """Kill after every so many answers, at any moment of a call."""
    chance = random.Random(given.seed)

    def stop(worker: subprocess.Popen[str]) -> bool:
        if not server.wait_for(chance.randint(*given.between), alive=lambda: worker.poll() is None):
            return False
        time.sleep(chance.uniform(0, given.delay))
        return True

    return stop


def restarting(server: Any, database: Any, given: argparse.Namespace) -> Callable[[subprocess.Popen[str]], bool]:
    """Restart the database server a few times, whoever is at work, and kill nobody."""
    chance = random.Random(given.seed)
    left = [RESTARTS]

    def stop(worker: subprocess.Popen[str]) -> bool:
        while left[0] and server.wait_for(chance.randint(*given.between), alive=lambda: worker.poll() is None):
            left[0] -= 1
            database.restart()
        return False

    return stop


def of_database(life: Life) -> None:
    """Return if a process ended by itself since it could not keep what it had."""
    if life.code > 0 and not any(said in life.said for said in ("can't be kept", "No space left on device")):
        raise RuntimeError(f"the worker ended with {life.code}: {life.said[-2000:]}")


def on_a_full_disk(server: Any, folder: Path, needed: int, how: dict[str, Any]) -> Outcome:
    """Run on a disk that has room for a part only, and gets more whenever it was full."""
    sizes = [*(int(needed * share) for share in ROOM), 1 << 30]
    disk = SmallDisk(folder, sizes.pop(0))

    def after(life: Life) -> None:
        of_database(life)
        if not sizes:
            raise RuntimeError(f"the disk has room, and the worker ended: {life.said[-2000:]}")
        disk.grow(sizes.pop(0))

    try:
        return live(server, Sqlite(folder / "runs.sqlite"), folder, after=after, **how)
    finally:
        disk.close()


def resumed_by_two(server: Any, database: Any) -> Any:
    """The row of two processes that resume one thread while no call is answered, so that both are at it at once."""
    command = [sys.executable, str(HERE / "resuming.py"), server.spec, database.url, "lamp"]

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    started: list[subprocess.Popen[str]] = []
    try:
        started.append(start())  # leaves the thread in mid-run
        server.wait_for(2, alive=lambda: started[0].poll() is None)
        started[0].kill()
        started[0].wait()
        server.settle()
        server.may_answer.clear()
        two = [start(), start()]
        started += two
        deadline = time.monotonic() + 120
        while all(one.poll() is None for one in two) and time.monotonic() < deadline:
            time.sleep(0.05)
        server.may_answer.set()
        told = [one.communicate(timeout=120) for one in two]
    finally:
        server.may_answer.set()
        for one in started:
            if one.poll() is None:
                one.kill()
            one.communicate()
    won = sum(one.returncode == 0 and bool(answer.strip()) for one, (answer, _) in zip(two, told, strict=True))
    other = two[0].pid if two[0].returncode == 0 else two[1].pid
    said = sum(f"BusyThreadError: the thread 'lamp' is being run right now, by process {other}" in e for _, e in told)
    note = "the other says which process is at it" if said == 1 else f"NOT said so: {[e[-300:] for _, e in told]}"
    kind = "SQLite" if isinstance(database, Sqlite) else "PostgreSQL"
    what = f"two processes resume one thread, {kind}: that go on"
    return rows.Row(what=what, goal="= 1", measured=won, met=won == said == 1, unit="", n=2, note=note)


def followed_while_stopped(server: Any, database: Any) -> Any:
    """The row of a process that is stopped in mid-run for longer than its lease holds, and of one on a machine with
    another name and a clock an hour behind, which follows it; then the first one wakes."""

    def start(*where: str) -> subprocess.Popen[str]:
        words = [sys.executable, str(HERE / "resuming.py"), server.spec, database.url, "lamp", *where]
        return subprocess.Popen(
            words, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    server.settle()
    server.may_answer.clear()
    first = start()
    refused = 0
    try:
        while server.in_flight == 0 and first.poll() is None:
            time.sleep(0.05)
        first.send_signal(signal.SIGSTOP)
        server.may_answer.set()
        deadline = time.monotonic() + 180
        while True:
            second = start("elsewhere", "3600")
            answer, told = second.communicate(timeout=120)
            if second.returncode == 0 or "BusyThreadError" not in told or time.monotonic() > deadline:
                break
            refused += 1
        first.send_signal(signal.SIGCONT)
        _, woken = first.communicate(timeout=120)
        last = start()
        again, _ = last.communicate(timeout=120)
    finally:
        server.may_answer.set()
        if first.poll() is None:
            first.kill()
            first.communicate()
    kept = second.returncode == 0 and bool(answer.strip()) and again == answer
    wrote = "LostLeaseError" not in woken
    note = f"told {refused} times who runs it until the lease expired; " + (
        "then its answer is kept, and the first is told why it may not write" if kept and not wrote else told[-300:]
    )
    kind = "SQLite" if isinstance(database, Sqlite) else "PostgreSQL"
    what = f"a stopped process is followed, from a clock an hour behind, {kind}: writes of the first that count"
    return rows.Row(what=what, goal="= 0", measured=int(wrote), met=kept and not wrote, unit="", n=1, note=note)


def measure(given: argparse.Namespace, folder: Path) -> Iterator[Any]:
    """All rows, as they come."""

    def place(name: str) -> Path:
        (folder / name).mkdir()
        return folder / name

    how = {"problems": given.problems, "concurrency": given.concurrency}
    with loaded(HERE / "model_server.py").ModelServer(delay_s=given.delay) as server:
        whole = Sqlite(place("whole") / "runs.sqlite")
        reference = live(server, whole, folder / "whole", **how)
        if reference.lives[0].code or paid_again(reference).all:
            raise RuntimeError("the run that was left alone paid twice")
        if reference.lives[0].kept != {key[:16] for key, _ in reference.lives[0].answers}:
            raise RuntimeError("the database does not tell which replies it keeps, so nothing can be looked up")
        needed = sum(path.stat().st_size for path in (folder / "whole").iterdir())

        def beside(name: str, database: Any, **options: Any) -> Iterator[Any]:
            outcome = live(server, database, place(name.replace(" ", "-")), **options, **how)
            ends = [life.code for life in outcome.lives if life.code]
            stops = f"{sum(code < 0 for code in ends)} kills, {sum(code > 0 for code in ends)} ended by themselves"
            yield from rows_of(name, outcome, reference, concurrency=given.concurrency, stops=stops)

        if "sqlite" in given.databases:
            database = Sqlite(place("sqlite") / "runs.sqlite")
            yield from beside("killed, SQLite", database, stop=at_random(server, given))
            try:
                name, outcome = "disk full, SQLite", on_a_full_disk(server, place("disk"), needed, how)
                stops = f"the disk was full {len(outcome.lives) - 1} times"
                yield from rows_of(name, outcome, reference, concurrency=given.concurrency, stops=stops)
            except LookupError as missing:
                yield rows.left_out("disk full, SQLite", str(missing))
            yield resumed_by_two(server, Sqlite(place("two") / "runs.sqlite"))
            yield followed_while_stopped(server, Sqlite(place("stopped") / "runs.sqlite"))
        if "postgres" in given.databases:
            try:
                servers = loaded(HERE.parents[1] / "tests" / "postgres_server.py")
                with opened_postgres(servers, "a", "b", "c", "d", "e") as opened:
                    yield from beside("killed, PostgreSQL", opened[0], stop=at_random(server, given))
                    stop = restarting(server, opened[1], given)
                    name = f"PostgreSQL restarted {RESTARTS} times"
                    yield from beside(name, opened[1], stop=stop, after=of_database)
                    yield resumed_by_two(server, opened[2])
                    yield followed_while_stopped(server, opened[3])
                    many, where = min(given.problems, 40), place("together")
                    try:
                        yield from together_rows(rows, server, opened[4], where, problems=many, seed=given.seed)
                    except LookupError as missing:
                        yield rows.left_out("two servers and a bulk run", str(missing))
            except LookupError as missing:
                yield rows.left_out("PostgreSQL", str(missing))
    if given.minutes:
        yield from history_rows(rows, seconds=60 * given.minutes, first=given.seed, kinds=given.databases)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 0 when nothing was lost, and nothing paid twice that was not in flight."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    rows.add_options(parser)
    parser.add_argument("--problems", type=int, help="default: 200; --quick: 40")
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--delay", type=float, default=0.2, metavar="SECONDS", help="of a reply, at most")
    parser.add_argument("--between", type=int, nargs=2, default=(20, 200), help="answers between two kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--databases", nargs="+", default=["sqlite", "postgres"], choices=["sqlite", "postgres"])
    parser.add_argument("--minutes", type=float, help="of random histories; default: 5; --quick: 1")
    given = parser.parse_args(arguments)
    given.minutes = (1 if given.quick else 5) if given.minutes is None else given.minutes
    given.problems = given.problems or (40 if given.quick else 200)
    os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
    print(f"{given.problems} runs, {given.concurrency} at once, seed {given.seed}\n", file=sys.stderr)
    folder = Path(tempfile.mkdtemp(prefix="redraft-crash-"))
    found = []
    try:
        for row in measure(given, folder):
            print(rows.table([row]).splitlines()[1], file=sys.stderr, flush=True)
            found.append(row)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return int(rows.finish(found, given.json, packages=PACKAGES))


if __name__ == "__main__":
    sys.exit(main())
