"""Two servers and a bulk run on one PostgreSQL database, each on a machine of its own: killed, and one stopped.

A machine here is a namespace with a name, processes and a clock of its own: one is an hour behind, one an hour ahead.
Each is killed with SIGKILL a few times at random moments, and started again. One server is stopped with SIGSTOP for so
long that the other takes its runs over, and wakes then. When all runs have ended, every thread is read.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

__all__ = ["Found", "Machine", "found_in", "machines", "together_rows", "work_together"]

HERE = Path(__file__).parent
SERVE = "from redraft.faces.cli.main import main; main()"
STOPPED_S = 55.0
"""Longer than a lease holds, and than a server may be silent."""
PATIENCE_S = 600.0


class Machine:
    """A process on a machine of its own, which can be killed and started again.

    Args:
        name: Of the machine.
        clock_s: How far its clock is ahead.
        shim: What sets its clock, for LD_PRELOAD.
        words: What it runs.
    """

    def __init__(self, name: str, clock_s: int, shim: Path, words: Sequence[object]) -> None:
        self.name = name
        self._env = {**os.environ, "LD_PRELOAD": str(shim), "CRASH_CLOCK_S": str(clock_s)}
        inside = ["sh", "-c", 'hostname "$0" && exec "$@"', name, *map(str, words)]
        self._command = ["unshare", "-r", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", *inside]
        self.killed = 0
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed with the process's end)
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self._said.seek(0)
        self._said.truncate()
        self.process = subprocess.Popen(
            self._command, env=self._env, stderr=self._said, start_new_session=True, text=True
        )

    def send(self, number: int) -> None:
        """Send a signal to all of its processes."""
        assert self.process
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)

    def kill(self) -> None:
        assert self.process
        if self.process.poll() is None:
            self.killed += 1
        self.send(signal.SIGKILL)
        self.process.wait()

    def said(self) -> str:
        # By its place, since the process writes where the file stands.
        return os.pread(self._said.fileno(), 1 << 20, 0).decode(errors="replace")

    def url(self) -> str:
        """Return where it serves, once it does."""
        assert self.process
        until = time.monotonic() + 120
        while not (found := re.search(r"http://127\.0\.0\.1:\d+(?=\s)", self.said())):
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{self.name} does not serve: {self.said()[-2000:]}")
            time.sleep(0.1)
        return found[0]


@contextmanager
def machines(url: str, spec: str, results: Path, *, problems: int) -> Iterator[list[Machine]]:
    """Gives two servers and a bulk run on one database, all started.

    Raises:
        LookupError: This user may make no namespaces, or there is no C compiler.
    """
    shim = results.parent / "clock.so"
    unshared = shutil.which("unshare") and subprocess.run(
        ["unshare", "-r", "--uts", "--pid", "--fork", "--mount-proc", "true"], capture_output=True, check=False
    )
    if not unshared or unshared.returncode:
        raise LookupError("no namespaces here")
    if not (compiler := shutil.which("cc")):
        raise LookupError("no C compiler (cc) here")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", shim, HERE / "clock.c"], check=True)
    serve = [sys.executable, "-c", SERVE, "serve", "--db", url, "--model", spec, "--port", "0", "--watchdog", "0"]
    bulk = [sys.executable, HERE / "worker.py", spec, url, results, "--problems", problems, "--concurrency", 4]
    made = [
        Machine("alpha", 0, shim, serve),
        Machine("beta", -3600, shim, serve),
        Machine("gamma", 3600, shim, bulk),
    ]
    try:
        for one in made:
            one.start()
        yield made
    finally:
        for one in made:
            one.kill()


@dataclass
class Found:
    """What the database holds when all is done, and what was paid for."""

    threads: int = 0
    ended: int = 0
    events_off: list[str] = field(default_factory=list)
    """Threads whose record lacks an event, has one twice, or replays otherwise."""
    interleaved: list[str] = field(default_factory=list)
    """Threads in which two checkpoints follow one."""
    results_off: int = 0
    """Lines of the bulk run's results that are not there, or there twice."""
    calls: int = 0
    paid_again: int = 0
    kept_and_paid_again: int = 0
    """Of these, asked for when the reply was in the database already."""
    kills: int = 0
    followed: int = 0
    """Runs of the stopped server that the other had brought to an end when it woke."""


def work_together(server: Any, database: Any, folder: Path, *, problems: int, runs: int, seed: int) -> Found:
    """Do what the module says, and return what is found then.

    Args:
        server: The model.
        database: A PostgreSQL database.
        folder: For results and the shim.
        problems: Of the bulk run.
        runs: On each server.
        seed: Of the moments.
    """
    chance, kept = random.Random(seed), list[tuple[float, set[str]]]()
    server.asked.clear()
    with machines(database.url, server.spec, folder / "results.jsonl", problems=problems) as made:
        alpha, beta, gamma = made
        for one in (alpha, beta):
            submit(one.url(), one.name, runs)
        for one in (gamma, alpha, beta, gamma, alpha):
            until = time.monotonic() + 20
            server.wait_for(chance.randint(3, 12), alive=lambda: time.monotonic() < until)  # noqa: B023  (called here)
            time.sleep(chance.uniform(0, server.delay_s))
            if one.process.poll() is None:
                one.kill()
                kept.append((time.monotonic(), database.kept()))
                one.start()
        alpha.url()
        url = beta.url()
        # It is stopped in the middle of all of these.
        server.may_answer.clear()
        submit(url, "late", runs)
        until = time.monotonic() + 120
        while server.in_flight < runs and time.monotonic() < until:
            time.sleep(0.1)
        beta.send(signal.SIGSTOP)
        server.may_answer.set()
        time.sleep(STOPPED_S)
        followed = database.in_flight()
        kept.append((time.monotonic(), database.kept()))
        beta.send(signal.SIGCONT)
        until = time.monotonic() + PATIENCE_S
        while database.in_flight() or gamma.process.poll() != 0:
            if gamma.process.poll():
                gamma.start()
            if time.monotonic() > until:
                raise RuntimeError(f"runs are still in flight: {[one.said()[-1000:] for one in made]}")
            time.sleep(0.5)
        time.sleep(2)  # what a process that woke wants to write late
        kills = sum(one.killed for one in made)
    found = found_in(database.url)
    lines = (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()
    found.results_off = abs(len(lines) - problems) + len(lines) - len(set(map(question, lines)))
    found.kills, found.followed = kills, runs - followed
    found.calls = len(server.asked)
    asked: dict[str, list[float]] = {}
    for key, since in server.asked:
        asked.setdefault(key, []).append(since)
    for key, times in asked.items():
        found.paid_again += len(times) - 1
        later = sorted(times)[1:]
        found.kept_and_paid_again += sum(any(at < since and key[:16] in ids for at, ids in kept) for since in later)
    return found


def question(line: str) -> str:
    """Return which problem a line of the results is about."""
    return str(json.loads(line)["question_id"])


def submit(url: str, name: str, runs: int) -> None:
    """Begin so many runs on a server, each on a thread of its own."""
    import httpx

    for number in range(runs):
        body = {"assistant_id": "refine", "input": {"task": f"Tell {name} of {number}."}, "if_not_exists": "create"}
        httpx.post(f"{url}/threads/{name}-{number}/runs", json=body, timeout=60).raise_for_status()


def found_in(url: str, *, cancelled: Collection[str] = ()) -> Found:
    """Read every thread of a database. The last round of one that was cancelled may be without its judgement."""
    from redraft import Thread, open_checkpointer
    from redraft.faces.sessions import any_reader

    found, last = Found(), None
    with open_checkpointer(url) as saver:
        while page := saver.runs.list(limit=100, before=last):
            for row in page:
                found.threads += 1
                found.ended += row.stop_reason is not None
                thread = Thread(any_reader(saver, row.thread_id), row.thread_id)
                events = [event for step in thread.history() for event in step.events]
                if row.thread_id in cancelled and row.stop_reason is None:
                    events = [event for event in events if event["round"] < events[-1]["round"]]
                if told := [*wrong(events), *thread.replay().differences]:
                    found.events_off.append(f"{row.thread_id}: {told}")
                stored = saver.list({"configurable": {"thread_id": row.thread_id, "checkpoint_ns": ""}})
                parents = Counter(
                    one.parent_config["configurable"]["checkpoint_id"] if one.parent_config else None for one in stored
                )
                if any(children > 1 for children in parents.values()):
                    found.interleaved.append(row.thread_id)
            last = page[-1].position
    return found


def wrong(events: Sequence[Any]) -> list[str]:
    """Return what a record of one task lacks, or has twice."""
    times = Counter((event["kind"], event["round"], event.get("critic") or event["by"]) for event in events)
    told = [f"{kind} of round {number} twice" for (kind, number, _), count in times.items() if count > 1]
    by_kind = {kind: {event["round"] for event in events if event["kind"] == kind} for kind in ("verdict", "critique")}
    last = max((event["round"] for event in events), default=-1)
    drafts = {event["round"] for event in events if event["kind"] in ("draft", "revision")}
    for name, rounds in (*by_kind.items(), ("draft", drafts)):
        told += [f"no {name} of round {number}" for number in sorted(set(range(last + 1)) - rounds)]
    return told


def together_rows(rows: Any, server: Any, database: Any, folder: Path, *, problems: int, seed: int) -> Iterator[Any]:
    """The rows of it all.

    Args:
        rows: The module that makes rows.
        server: The model.
        database: A PostgreSQL database.
        folder: For what is written on the way.
        problems: Of the bulk run; each server has half as many runs, and the one that is stopped as many again.
        seed: Of the moments.
    """
    found = work_together(server, database, folder, problems=problems, runs=max(1, problems // 2), seed=seed)
    for told in (*found.events_off, *found.interleaved):
        print(f"  {told}", file=sys.stderr)
    name, n = "two servers and a bulk run, clocks an hour apart", found.threads
    note = f"{found.kills} kills; a server was stopped for {STOPPED_S:.0f} s, and {found.followed} of its runs followed"
    yield rows.at_least(f"{name}: threads that ended", found.ended / max(n, 1), 1, n=n, note=note)
    yield rows.at_most(f"{name}: with events lost or doubled", len(found.events_off), 0, unit="", n=n)
    yield rows.at_most(f"{name}: with checkpoints interleaved", len(found.interleaved), 0, unit="", n=n)
    yield rows.at_most(f"{name}: result lines lost or doubled", found.results_off, 0, unit="", n=problems)
    calls = f"of {found.calls} calls"
    yield rows.at_most(f"{name}: calls paid again", found.paid_again, None, unit="", n=found.kills, note=calls)
    what = f"{name}: of these, whose replies were kept when they were made"
    yield rows.at_most(what, found.kept_and_paid_again, 0, unit="", n=found.kills)
