"""Random histories, in the manner of Jepsen: many processes on one database, and all that goes wrong around them.

`python benchmarks/crash/histories.py --minutes 5` (or `make crash`) lets servers, a worker, loops, agents with our
middleware and shells that type commands take threads to their ends, each on a machine of its own with its own clock, on
PostgreSQL and on SQLite by turns. A seed says what goes wrong and when: processes are killed with SIGKILL and started
again, or stopped with SIGSTOP, some for longer than a lease holds; a machine's clock is set forward or back;
connections are cut, the database server is restarted, its disk is full for a while, a file is locked. When all is well
again everybody ends. Then the database is read:

- each thread is there and has ended, and its record is one history: no event is lost or doubled, no checkpoint has two
  that follow it, and its replay says the same;
- no call was made whose reply was known to be kept when it was made, but by a process that had just woken;
- nothing is owned by nobody: no lease is held, no run of a server is under way or ended twice, and each checkpoint,
  write and reply is of a thread that is listed.

A seed replays the same plan, though not the same moments. Those that found something stand in `seeds.json`, with what
it was. Prints a table; exits with 1 when something is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actor import set_clock
from together import wrong

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

__all__ = ["Actor", "History", "Plan", "history", "history_rows", "main"]

ACTOR = Path(__file__).with_name("actor.py")
SEEDS = Path(__file__).with_name("seeds.json")
PATIENCE_S = 300.0
WOKEN_S = 1.0
"""For so long a process that was stopped may make calls that it had looked up before."""
EXPECTED = (
    *("BusyThreadError", "LostLeaseError", "UnkeptReplyError", "UnreadJournalError", "OperationalError"),
    *("No space left", "disk is full", "disk I/O error", "database is locked", "terminating connection", "can't open"),
    *("connection is closed", "the connection is lost", "server closed the connection", "PoolTimeout", "AdminShutdown"),
    *("CrashShutdown", "DiskFull", "ConnectionError", "could not extend", "GraphDrained", "the database system is"),
)
"""What a process may say when it ends by itself: that it could not keep what it had, or lost its thread."""
WITNESS = """
    CREATE TABLE crash_disk (is_full BOOLEAN);
    INSERT INTO crash_disk VALUES (FALSE);
    CREATE TABLE crash_ends (run_id TEXT);
    CREATE FUNCTION crash_full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF (SELECT is_full FROM crash_disk) THEN
            RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
        END IF; RETURN NULL; END $$;
    CREATE FUNCTION crash_end() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO crash_ends VALUES (OLD.run_id); RETURN NEW; END $$;
"""
ENDS = """CREATE TRIGGER crash_end AFTER UPDATE ON served_runs FOR EACH ROW
    WHEN (OLD.status IN ('pending', 'running') AND NEW.status NOT IN ('pending', 'running'))
    EXECUTE FUNCTION crash_end()"""
FULL = ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "redraft_journal", "runs")


@dataclass(frozen=True)
class Plan:
    """How much happens in a history."""

    servers: int = 0
    workers: int = 0
    loops: int = 2
    agents: int = 1
    shells: int = 0
    threads: int = 3
    """Of each kind."""
    faults: int = 8
    lease_s: float = 4.0


@dataclass
class History:
    """What happened, and what is wrong with it."""

    seed: int
    faults: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    threads: int = 0
    calls: int = 0
    paid_again: int = 0


class Actor:
    """A process that is started again when it was killed, or ended since the database was not well."""

    def __init__(self, start: Callable[..., Any], folder: Path, name: str, words: Sequence[object]) -> None:
        self.name = name
        self._start, self._words = start, [str(ACTOR), *map(str, words)]
        self.said = folder / f"{name}.log"
        self.process: Any = None
        self.cut_off: set[str] = set()
        """Ids of its processes that could not give back what they held: killed, with all of their group, or ended by a
        database that was not well."""

    def start(self) -> None:
        with self.said.open("a") as log:
            self.process = self._start(self._words, stdout=log.fileno(), stderr=log.fileno(), start_new_session=True)

    def send(self, number: int) -> None:
        if self.process.poll() is None:
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:  # it is not the first of its group yet
                with suppress(ProcessLookupError):
                    os.kill(self.process.pid, number)

    def kill(self) -> None:
        self.cut_off |= members(self.process.pid)
        self.send(signal.SIGKILL)
        self.process.wait()

    def told(self) -> str:
        return self.said.read_text(encoding="utf-8", errors="replace")

    def tend(self) -> str:
        """Start it again where it ended by itself before it was done; return what it said if it may not end so."""
        if self.process.poll() in (None, 0):
            return ""
        code, said = self.process.returncode, self.told()[-3000:]
        self.cut_off.add(str(self.process.pid))
        self.start()
        expected = code == -signal.SIGKILL or any(one in said for one in EXPECTED)
        return "" if expected else f"{self.name} ended with {code}: {said}"


def members(group: int) -> set[str]:
    """Return the ids of the processes of a group; only its own where there is no /proc."""
    found = {str(group)}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(status.read_text(encoding="utf-8").rpartition(")")[2].split()[2]) == group:
                found.add(status.parent.name)
    return found


def free_port() -> int:
    """A port that nobody uses, of those that the system gives to no connection while a killed server lacks it."""
    while True:
        port = secrets.choice(range(20_000, 32_768))
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Cast:
    """The processes of a history.

    Args:
        start: Starts a Python process with these words, as `subprocess.Popen` does.
        folder: For what they say.
        common: The words that all have: the lease's seconds, the database and the model.
        chance: Says which machine each is on.
    """

    def __init__(self, start: Callable[..., Any], folder: Path, common: tuple[Any, ...], chance: random.Random) -> None:
        self._start, self._folder, self._common, self._chance = start, folder, common, chance
        self.actors: list[Actor] = []
        self.clocks: dict[str, Path] = {}
        """By the machine's name."""

    def begin(self, name: str, role: str, *words: object) -> None:
        """Start one, on a machine of its own or on the one that some share, with a clock of its own."""
        lease, url, spec = self._common
        machine, behind = self._chance.choice([name, "shared"]), self._chance.choice(OFF_S)
        if machine not in self.clocks:
            self.clocks[machine] = self._folder / f"{machine}.clock"
            set_clock(self.clocks[machine], behind)
        actor = Actor(self._start, self._folder, name, (machine, self.clocks[machine], lease, role, url, spec, *words))
        self.actors.append(actor)
        actor.start()

    def tend(self) -> bool:
        """Start again those that ended since the database was not well.

        Raises:
            RuntimeError: One ended otherwise.
        """
        if said := [said for actor in self.actors if (said := actor.tend())]:
            raise RuntimeError(said[0])
        return True

    def at_work(self) -> list[str]:
        """Return the shells and agents that have not done all they are to do."""
        return [
            one.name for one in self.actors if one.name[:5] in ("loop-", "agent", "shell") and one.process.poll() != 0
        ]

    def end(self) -> None:
        """End all in order, so that what they hold is given back."""
        for actor in self.actors:
            actor.send(signal.SIGTERM)
        for actor in self.actors:
            with suppress(subprocess.TimeoutExpired):
                actor.process.wait(60)

    def kill(self) -> None:
        for actor in self.actors:
            actor.kill()


def history(
    model: Any, database: Any, folder: Path, *, seed: int, plan: Plan, start: Callable[..., Any], disk: Any = None
) -> History:
    """Let one history happen, and return what is found then.

    Args:
        model: The model server.
        database: An empty one, of `databases`.
        folder: An empty one, for logs.
        seed: Of all that is chosen.
        plan: How much happens.
        start: Starts a Python process with these words, as `subprocess.Popen` does.
        disk: Of SQLite, a small file system that can be filled; `None` where none may be mounted.

    Raises:
        RuntimeError: A process ended as none may, or not all come to their ends.
    """
    chance, told = random.Random(seed), History(seed)
    kinds = ["loop", "agent", *(["shell"] if plan.shells else []), *(["served"] if plan.servers else [])]
    names = {kind: [f"{kind}-{seed}-{at}" for at in range(plan.threads)] for kind in kinds}
    cast = Cast(start, folder, (plan.lease_s, database.url, model.spec), chance)
    with ExitStack() as stack:
        stack.callback(cast.kill)
        ports = [free_port() for _ in range(plan.servers)]
        for at, port in enumerate(ports):
            cast.begin(f"server-{at}", "server", "--port", port, "--max-attempts", 1000)
        for at in range(plan.workers):
            cast.begin(f"worker-{at}", "worker")
        submitted = Submitted(ports, names.get("served", []), cast.tend)
        submitted.submit(plan.threads // 2)
        for kind, count in (("loop", plan.loops), ("agent", plan.agents), ("shell", plan.shells)):
            for at in range(count):
                own = set(names[kind][at::count])  # which it begins; with the others it goes on
                shuffled = chance.sample(names[kind], len(names[kind]))
                cast.begin(f"{kind}-{at}", kind, *(f"+{name}" if name in own else name for name in shuffled))
        soon = time.monotonic() + PATIENCE_S
        if not model.wait_for(1, alive=lambda: time.monotonic() < soon and cast.tend()):
            raise RuntimeError("nobody begins")
        if not hasattr(database, "path"):
            set_up_witness(database, with_runs=bool(ports))
        faults, kept = Faults(chance, plan, database, disk, cast), list[tuple[float, set[str]]]()
        for number in range(plan.faults):
            faults.one(model)
            with suppress(Exception):  # the database may not answer just now
                found = database.kept()
                kept.append((time.monotonic(), found))
            cast.tend()
            submitted.submit(plan.threads if number >= plan.faults // 2 else 0)
        until = time.monotonic() + PATIENCE_S
        while left := [*cast.at_work(), *submitted.left()]:
            cast.tend()
            if time.monotonic() > until:
                late = "; ".join(f"{one.name}: …{one.told()[-400:]}" for one in cast.actors)
                raise RuntimeError(f"after {PATIENCE_S:.0f} s {left} go on: {late}")
            time.sleep(0.2)
        cast.end()
    told.faults, told.threads = faults.told, sum(map(len, names.values()))
    told.wrong += list(found_wrong(database, names, {pid for one in cast.actors for pid in one.cut_off}))
    count_calls(told, model, kept, faults.woken)
    return told


class Faults:
    """What goes wrong, by chance."""

    def __init__(self, chance: random.Random, plan: Plan, database: Any, disk: Any, cast: Cast) -> None:
        self._chance, self._plan, self._database, self._disk = chance, plan, database, disk
        self._actors, self._clocks = cast.actors, cast.clocks
        self.told: list[str] = []
        self.woken: list[float] = []
        """When processes that were stopped went on."""

    def one(self, model: Any) -> None:
        """Let one thing go wrong, for a while, after some answers of the model, or where there are none."""
        until = time.monotonic() + 3
        model.wait_for(self._chance.randint(1, 4), alive=lambda: time.monotonic() < until)
        time.sleep(self._chance.uniform(0, model.delay_s))
        around = ["lock", *(["full"] if self._disk else [])] if hasattr(self._database, "path") else CUTS
        what = self._chance.choice(["kill", "kill", "kill", "stop", "stop", "stop", "clock", *around])
        at_work = [one for one in self._actors if one.process.poll() is None] or self._actors
        actor, seconds = self._chance.choice(at_work), self._chance.choice([0.3, 1.0, 1.5 * self._plan.lease_s])
        self.told.append(f"{what} {actor.name} {seconds:.1f}")
        if what == "kill":
            actor.kill()
            actor.start()
        elif what == "stop":
            actor.send(signal.SIGSTOP)
            time.sleep(seconds)
            self.woken.append(time.monotonic())
            actor.send(signal.SIGCONT)
        elif what == "clock":
            machine = self._chance.choice(sorted(self._clocks))
            set_clock(self._clocks[machine], self._chance.choice(OFF_S))
        else:
            with getattr(self, f"_{what}")():
                time.sleep(min(seconds, 1.0))

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Let nobody write to the file."""
        with closing(sqlite3.connect(self._database.path, timeout=10, isolation_level=None)) as connection:
            with suppress(sqlite3.Error):
                connection.execute("BEGIN IMMEDIATE")
            yield

    @contextmanager
    def _full(self) -> Iterator[None]:
        """Let the disk be full."""
        if self._disk:
            with self._disk.filled():
                yield
            return
        self._admin("UPDATE crash_disk SET is_full = TRUE")
        yield
        self._admin("UPDATE crash_disk SET is_full = FALSE")

    @contextmanager
    def _cut(self) -> Iterator[None]:
        """End every other connection."""
        self._admin(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() AND random() < 0.5"
        )
        yield

    @contextmanager
    def _restart(self) -> Iterator[None]:
        """Restart the database server as a crash does."""
        if self._database.restart is not None:
            self._database.restart()
        yield

    def _admin(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(self._database.url, autocommit=True) as admin:
            admin.execute(statement)  # type: ignore[arg-type]


CUTS = ["cut", "full", "restart"]
OFF_S = [0, 0, 3600, -3600, 5]
"""By how much a machine's clock is behind; below 0, ahead."""


class FilledDisk:
    """A small file system, and the file that fills it.

    Args:
        folder: Where it is mounted.
    """

    def __init__(self, folder: Path) -> None:
        self._filler = folder / "filler"

    @contextmanager
    def filled(self) -> Iterator[None]:
        """Leave no room on it within the block."""
        try:
            with self._filler.open("wb", buffering=0) as filler, suppress(OSError):
                while True:
                    filler.write(b"0" * 65536)
                    filler.flush()
            yield
        finally:
            self._filler.unlink(missing_ok=True)


class Submitted:
    """Runs that servers were asked for, each once, whichever server could be reached."""

    def __init__(self, ports: Sequence[int], names: Sequence[str], tend: Callable[[], object]) -> None:
        self._urls, self._names = [f"http://127.0.0.1:{port}" for port in ports], names
        self._tend = tend
        self._asked: set[str] = set()

    def submit(self, most: int) -> None:
        """Ask for the runs of the first so many threads that nobody was asked for, until a server has each."""
        until = time.monotonic() + PATIENCE_S
        for name in self._names[:most]:
            while name not in self._asked:
                if time.monotonic() > until:
                    raise RuntimeError(f"no server takes {name}")
                if self._ask(name, {"input": {"task": f"Tell of {name}.", "limits": {"max_rounds": 2}}}):
                    self._asked.add(name)
                else:
                    self._tend()
                    time.sleep(0.3)

    def left(self) -> list[str]:
        """Return the threads that have not ended; a run that ended with an error is gone on with, as a caller would."""
        left = []
        for name in self._asked:
            state = self._get(f"/threads/{name}")
            if state is None or state["status"] == "busy" or not (state.get("values") or {}).get("stop_reason"):
                left.append(name)
            if state is not None and state["status"] in ("error", "interrupted", "idle") and name in left:
                self._ask(name, {"input": None})
        return left

    def _ask(self, name: str, body: Any) -> bool:
        import httpx

        if body["input"] is not None and self._get(f"/threads/{name}/runs"):
            return True  # it was taken, though the answer was lost
        for url in self._urls:
            with suppress(httpx.HTTPError):
                whole = {"assistant_id": "refine", "if_not_exists": "create", "multitask_strategy": "reject", **body}
                if httpx.post(f"{url}/threads/{name}/runs", json=whole, timeout=20).is_success:
                    return True
        return False

    def _get(self, path: str) -> Any:
        import httpx

        for url in self._urls:
            with suppress(httpx.HTTPError, ValueError):
                reply = httpx.get(f"{url}{path}", timeout=20)
                if reply.is_success:
                    return reply.json()
        return None


def set_up_witness(database: Any, *, with_runs: bool) -> None:
    """Make what notes the ends of runs, and what says that the disk is full."""
    import psycopg

    with psycopg.connect(database.url, autocommit=True) as admin:
        admin.execute(WITNESS)
        for table in FULL:
            admin.execute(
                f"CREATE TRIGGER crash_full BEFORE INSERT OR UPDATE ON {table} EXECUTE FUNCTION crash_full()"  # type: ignore[arg-type]
            )
        if with_runs:
            admin.execute(ENDS)


def found_wrong(database: Any, names: Mapping[str, Sequence[str]], cut_off: Collection[str] = ()) -> Iterator[str]:
    """Say what a database holds that is no history, and what it holds that is nobody's.

    Args:
        database: Of `databases`.
        names: Of the threads, by their kind.
        cut_off: Ids of processes that could not give back what they held. The database hears in the background that a
            run has ended; where its process is killed before, the lease expires, and nobody takes it for a thread that
            has ended.
    """
    from collections import Counter

    from actor import built
    from redraft import Thread, open_checkpointer
    from redraft.models import ScriptedModel

    with open_checkpointer(database.url) as saver:
        rows = {row.thread_id: row for row in saver.runs.list(limit=1000)}
        for kind, name in ((kind, name) for kind, several in names.items() for name in several):
            if name not in rows or rows[name].stop_reason in (None, "failed"):
                yield f"{name} is {'lost' if name not in rows else rows[name].stop_reason or 'not at its end'}"
                continue
            replay = Thread(built("agent" if kind == "agent" else "loop", ScriptedModel([]), saver), name).replay()
            events = list(replay.output["events"])
            if off := [*wrong(events), *replay.differences]:
                yield f"{name} is no history: {off}"
            stored = list(saver.list({"configurable": {"thread_id": name, "checkpoint_ns": ""}}))
            parents = Counter(
                one.parent_config["configurable"]["checkpoint_id"] if one.parent_config else None for one in stored
            )
            if doubled := [parent for parent, children in parents.items() if children > 1]:
                yield f"{name} has checkpoints that two follow: {doubled}"
        writes = saver.writes_table[0]
        for table in ("checkpoints", writes, "redraft_journal"):
            lost = saver._query(
                f"SELECT DISTINCT thread_id FROM {table} WHERE thread_id NOT IN (SELECT thread_id FROM runs)",
                {},
            )
            if lost:
                yield f"{table} holds what no thread of the list has: {lost}"
        leases = saver._query("SELECT thread_id, process FROM redraft_leases WHERE expires_at > 0", {})
        if held := [one for one in leases if one[1].split(":")[1] not in cut_off]:
            yield f"leases are held by nobody: {held}"
        with suppress(Exception):  # where there were servers
            under_way = saver._query(
                "SELECT run_id, thread_id, status FROM served_runs WHERE status IN ('pending', 'running')", {}
            )
            if under_way:
                yield f"runs are under way in no process: {under_way}"
        with suppress(Exception):
            twice = saver._query("SELECT run_id FROM crash_ends GROUP BY run_id HAVING COUNT(*) > 1", {})
            if twice:
                yield f"runs ended twice: {twice}"


def count_calls(told: History, model: Any, kept: Sequence[tuple[float, set[str]]], woken: Sequence[float]) -> None:
    """Count what was paid again, and say what of it was known to be kept."""
    times: dict[str, list[float]] = {}
    for key, since in model.asked:
        times.setdefault(key, []).append(since)
    told.calls = len(model.asked)
    for key, every in times.items():
        told.paid_again += len(every) - 1
        for since in sorted(every)[1:]:
            known = [at for at, ids in kept if at < since and key[:16] in ids]
            if known and not any(at <= since <= at + WOKEN_S for at in woken):
                told.wrong.append(f"the call {key[:16]} was made {since - min(known):.1f} s after its reply was kept")


PLANS = {
    "sqlite": Plan(servers=1, loops=3, agents=2, shells=1, threads=8, faults=24),
    "postgres": Plan(servers=2, workers=1, loops=3, agents=1, shells=1, threads=8, faults=24),
}


def history_rows(
    rows: Any, *, seconds: float, first: int = 1, kinds: Sequence[str] = tuple(PLANS), again: Sequence[Any] = ()
) -> Iterator[Any]:
    """Let histories happen until the time is up, and give a row for each kind of database.

    Args:
        rows: The module that makes rows.
        seconds: After which none begins; each kind of database has one at least.
        first: The first seed.
        kinds: Of databases, by turns.
        again: Those to let happen in their stead: `database` and `seed`.
    """
    ended: dict[str, list[History]] = {}
    until = time.monotonic() + seconds
    for number in range(len(again) or 10_000):
        kind, seed = (
            (again[number]["database"], again[number]["seed"])
            if again
            else (kinds[number % len(kinds)], first + number)
        )
        if not again and number >= len(kinds) and time.monotonic() > until:
            break
        told = one_more(kind, seed)
        ended.setdefault(kind, []).append(told)
        counts = f"{told.threads} threads, {told.calls} calls, {told.paid_again} paid again, {len(told.faults)} faults"
        print(
            f"  {kind} {seed}: {counts}: {'; '.join(told.wrong)[:6000] or 'one history'}", file=sys.stderr, flush=True
        )
    for kind, histories in ended.items():
        bad = [f"seed {one.seed}" for one in histories if one.wrong]
        note = f"{sum(one.threads for one in histories)} threads, {sum(one.calls for one in histories)} calls, "
        note += (
            f"{sum(one.paid_again for one in histories)} paid again, {sum(len(one.faults) for one in histories)} faults"
        )
        what = f"random histories, {kind}: with something wrong"
        yield rows.at_most(what, len(bad), 0, unit="", n=len(histories), note=", ".join([note, *bad]))


def one_more(kind: str, seed: int) -> History:
    """Let one history happen on a new database of a kind."""
    import databases
    import model_server
    import places

    tests = Path(__file__).parents[2] / "tests"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="redraft-history-")))
        logs, place, disk = folder / "logs", folder / "disk", None
        logs.mkdir()
        if kind == "sqlite":
            place.mkdir()
            with suppress(LookupError):
                small = places.SmallDisk(place, 24 << 20)
                stack.callback(small.close)
                disk = FilledDisk(place)
            database: Any = databases.Sqlite(place / "runs.sqlite")
        else:
            servers = places.loaded(tests / "postgres_server.py")
            (database,) = stack.enter_context(databases.opened_postgres(servers, "history"))
        start = stack.enter_context(places.loaded(tests / "forked_python.py").started()).start
        model = stack.enter_context(model_server.ModelServer(delay_s=0.5))
        try:
            return history(model, database, logs, seed=seed, plan=PLANS[kind], start=start, disk=disk)
        except Exception as error:
            return History(seed, wrong=[f"{type(error).__name__}: {error}"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 0 when each history is one."""
    from places import rows

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    rows.add_options(parser)
    parser.add_argument("--minutes", type=float, help="default: 5; --quick: 1")
    parser.add_argument("--seed", type=int, default=1, help="of the first history; each further one has the next")
    parser.add_argument("--databases", nargs="+", default=[*PLANS], choices=[*PLANS])
    parser.add_argument("--again", action="store_true", help="the seeds of seeds.json, once each")
    given = parser.parse_args(arguments)
    os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no process outlives it
    seconds = 60 * (given.minutes or (1 if given.quick else 5))
    again = json.loads(SEEDS.read_text(encoding="utf-8")) if given.again else ()
    found = list(history_rows(rows, seconds=seconds, first=given.seed, kinds=given.databases, again=again))
    return int(rows.finish(found, given.json, packages=("langgraph", "psycopg", "fastapi")))


if __name__ == "__main__":
    sys.exit(main())
