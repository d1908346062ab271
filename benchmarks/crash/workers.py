"""Servers that only answer and workers that only work on one PostgreSQL database, while workers are killed with -9.

Two callers ask two servers for runs: the first for nine in ten, then the second for the others. Three workers execute
them; two of these are killed in mid-run, and not started again. Meanwhile streams are joined, and runs cancelled, on
the server that was not asked for the run. A trigger in the database notes each time that a run ends. At the end
every thread is read: is a run lost, ended twice, executed by two at once, or paid for again without need?

`python benchmarks/crash/workers.py` prints a table; exits with 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from together import Found, found_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["Outcome", "StartedCommand", "main", "work_apart"]

SERVE = "from redraft.faces.cli.main import main; main()"
TOKENS = ("the-token-of-the-first-caller", "the-token-of-the-second-caller")
WITNESS = """
    CREATE TABLE witnessed_ends (run_id TEXT, owner TEXT, status TEXT, at TIMESTAMPTZ DEFAULT clock_timestamp());
    CREATE FUNCTION witness() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN INSERT INTO witnessed_ends VALUES (OLD.run_id, OLD.owner, NEW.status); RETURN NEW; END $$;
    CREATE TRIGGER witness AFTER UPDATE ON served_runs FOR EACH ROW
        WHEN (OLD.status IN ('pending', 'running') AND NEW.status NOT IN ('pending', 'running'))
        EXECUTE FUNCTION witness();
"""
PATIENCE_S = 1800.0


@dataclass
class Outcome:
    """What became of the runs."""

    runs: int
    ends: dict[str, int] = field(default_factory=dict)
    """How often each run ended."""
    statuses: dict[str, int] = field(default_factory=dict)
    found: Found = field(default_factory=Found)
    streams_off: list[str] = field(default_factory=list)
    """Streams that did not come to their run's end, or had an event twice."""
    streams: int = 0
    cancelled: int = 0
    second_among_first: float = 0.0
    """The second caller's share of the first runs that ended, twice as many as the caller had."""
    seconds: float = 0.0
    taken_over_s: float = 0.0
    """From the last kill until a run of a killed worker went on."""
    calls: int = 0
    paid_again: int = 0
    kept_and_paid_again: int = 0


class StartedCommand:
    """A process of ours, with what it says."""

    def __init__(self, start: Callable[..., Any], folder: Path, *words: object) -> None:
        self.said = folder / f"{len(list(folder.iterdir()))}.log"
        with self.said.open("w") as log:
            self.process = start(["-c", SERVE, *map(str, words)], stderr=log.fileno())

    def ready(self, pattern: str) -> str:
        """Return what it says when it is ready."""
        until = time.monotonic() + 300
        while not (found := re.search(pattern, self.said.read_text())):
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"it does not start: {self.said.read_text()[-2000:]}")
            time.sleep(0.05)
        return found[0]

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()


def work_apart(
    model: Any, database: Any, folder: Path, *, runs: int, start: Callable[..., Any], seed: int, max_runs: int = 32
) -> Outcome:
    """Do what the module says, and return what is found then.

    Args:
        model: The model server.
        database: A PostgreSQL database.
        folder: An empty one, for logs.
        runs: Of both callers.
        start: Starts a Python process with these words.
        seed: Of the moments.
        max_runs: Of a worker at once.
    """
    import psycopg

    chance, outcome = random.Random(seed), Outcome(runs)
    tokens = folder / "tokens.txt"
    tokens.write_text("\n".join(TOKENS))
    common = ("--db", database.url, "--model", model.spec)
    with ExitStack() as stack:

        def begun(*words: object) -> StartedCommand:
            made = StartedCommand(start, folder, *words, *common)
            stack.callback(made.kill)
            return made

        servers = [begun("serve", "--no-work", "--port", 0, "--token-file", tokens) for _ in range(2)]
        urls = [server.ready(r"http://127\.0\.0\.1:\d+(?=;)") for server in servers]
        with psycopg.connect(database.url, autocommit=True) as admin:
            admin.execute(WITNESS)
        started = time.monotonic()
        asked = list(_submitted(urls, runs))
        last = runs - runs // 10
        to_cancel = asked[last - max(runs // 50, 2) : last]  # the first caller's last, which wait or have just begun
        followed = [one for one in asked[:: max(runs // 40, 3)] if one not in to_cancel]
        readers = [_Reader(urls[1 - at], token, thread, run) for at, token, thread, run in followed]
        workers = [begun("worker", "--max-runs", max_runs) for _ in range(3)]
        for worker in workers:
            worker.ready("working")
        kept = []
        for worker in workers[:2]:
            model.wait_for(chance.randint(runs // 4, runs // 2), alive=database.in_flight)
            time.sleep(chance.uniform(0, model.delay_s))
            worker.kill()
            killed = time.monotonic()
            kept.append((killed, database.kept()))
            if len(kept) == 1:
                outcome.cancelled = _cancelled(urls, to_cancel)
        held = _held(database, admin_of=workers[:2])
        while held and held <= _held(database, admin_of=workers[:2]):
            time.sleep(0.1)
        outcome.taken_over_s = time.monotonic() - killed if held else 0.0
        until = time.monotonic() + PATIENCE_S
        while database.in_flight():
            if time.monotonic() > until:
                raise RuntimeError(f"runs are still in flight: {workers[2].said.read_text()[-2000:]}")
            time.sleep(0.2)
        outcome.seconds, outcome.streams = time.monotonic() - started, len(readers)
        for reader in readers:
            reader.join(60)
        outcome.streams_off = [told for reader in readers if (told := reader.wrong())]
    _count(outcome, database, [run for *_, run in asked])
    outcome.found = found_in(database.url, cancelled=[thread for *_, thread, _ in to_cancel])
    _count_calls(outcome, model, kept)
    return outcome


def _submitted(urls: Sequence[str], runs: int) -> Iterator[tuple[int, str, str, str]]:
    """Ask the servers in turn; give which one it was, the caller's token, the thread and the run."""
    import httpx

    body = {"assistant_id": "refine", "if_not_exists": "create", "stream_mode": ["values"]}
    with httpx.Client(timeout=120) as client:
        for number in range(runs):
            token, at = TOKENS[number >= runs - runs // 10], number % 2
            given = {"task": f"Tell of {number}.", "limits": {"max_rounds": 1}}
            made = client.post(
                f"{urls[at]}/threads/thread-{number}/runs", json={**body, "input": given}, headers={"X-Api-Key": token}
            )
            yield at, token, f"thread-{number}", made.raise_for_status().json()["run_id"]


def _cancelled(urls: Sequence[str], asked: Sequence[tuple[int, str, str, str]]) -> int:
    """Cancel runs on the server that was not asked for them; return how many had not ended."""
    import httpx

    ended = 0
    for at, token, thread, run in asked:
        place, headers = f"{urls[1 - at]}/threads/{thread}/runs/{run}", {"X-Api-Key": token}
        httpx.post(f"{place}/cancel", headers=headers, timeout=120).raise_for_status()
        ended += httpx.get(place, headers=headers, timeout=60).json()["status"] == "interrupted"
    return ended


def _held(database: Any, *, admin_of: Sequence[StartedCommand]) -> set[str]:
    """Return the runs that the database still says these processes have."""
    import psycopg

    names = [f"%:{worker.process.pid}:%" for worker in admin_of]
    with psycopg.connect(database.url) as connection:
        statement = "SELECT run_id FROM served_runs WHERE status = 'running' AND process LIKE ANY (%s)"
        return {run for (run,) in connection.execute(statement, (names,))}


def _count(outcome: Outcome, database: Any, runs: Sequence[str]) -> None:
    import psycopg

    with psycopg.connect(database.url) as connection:
        ends = connection.execute("SELECT run_id, owner, status FROM witnessed_ends ORDER BY at").fetchall()
    outcome.ends = dict.fromkeys(runs, 0)
    for run, _, status in ends:
        outcome.ends[run] = outcome.ends.get(run, 0) + 1
        outcome.statuses[status] = outcome.statuses.get(status, 0) + 1
    seconds = set(runs[len(runs) - len(runs) // 10 :])
    early = [run for run, *_ in ends[: 2 * len(seconds)]]
    outcome.second_among_first = sum(run in seconds for run in early) / max(len(early), 1)


def _count_calls(outcome: Outcome, model: Any, kept: Sequence[tuple[float, set[str]]]) -> None:
    times: dict[str, list[float]] = {}
    for key, since in model.asked:
        times.setdefault(key, []).append(since)
    outcome.calls = len(model.asked)
    for key, every in times.items():
        outcome.paid_again += len(every) - 1
        later = sorted(every)[1:]
        outcome.kept_and_paid_again += sum(any(at < since and key[:16] in ids for at, ids in kept) for since in later)


class _Reader(threading.Thread):
    """Follows a run on one server to its end."""

    def __init__(self, url: str, token: str, thread_id: str, run_id: str) -> None:
        super().__init__(daemon=True)
        self._place = f"{url}/threads/{thread_id}/runs/{run_id}/stream"
        self._headers = {"X-Api-Key": token}
        self._numbers: list[int] = []
        self._event, self._last = "", "nothing"
        self.start()

    def run(self) -> None:
        import httpx

        try:
            with httpx.stream("GET", self._place, headers=self._headers, timeout=PATIENCE_S) as reply:
                for line in reply.iter_lines():
                    name, _, value = line.partition(": ")
                    if name == "id":
                        self._numbers.append(int(value.rpartition("-")[2]))
                    elif name == "event":
                        self._event = value
                    elif name == "data":
                        self._last = value
        except httpx.HTTPError as error:
            self._event, self._last = "", str(error)

    def wrong(self) -> str:
        """Return what is wrong with what came."""
        # The last are the values of a run that has ended.
        came_to_end = self._event == "values" and json.loads(self._last).get("stop_reason") is not None
        if not came_to_end or not self._numbers:
            return f"{self._place}: {len(self._numbers)} events, the last {self._event!r}: {self._last[-200:]}"
        return "" if self._numbers == sorted(set(self._numbers)) else f"{self._place}: {self._numbers}"


def outcome_rows(rows: Any, outcome: Outcome) -> Iterator[Any]:
    """The rows of it all."""
    found, runs = outcome.found, outcome.runs
    for told in (*outcome.streams_off, *found.events_off, *found.interleaved):
        print(f"  {told}", file=sys.stderr)
    once = sum(times == 1 for times in outcome.ends.values())
    note = ", ".join(f"{count} {status}" for status, count in outcome.statuses.items())
    note = f"{note}; {outcome.cancelled} cancelled on the other server; {outcome.seconds:.0f} s"
    yield rows.at_least("runs that ended exactly once", once / runs, 1, n=runs, note=note)
    yield rows.at_most("threads with events lost or doubled", len(found.events_off), 0, unit="", n=found.threads)
    yield rows.at_most("threads with checkpoints interleaved", len(found.interleaved), 0, unit="", n=found.threads)
    off = len(outcome.streams_off)
    yield rows.at_most("streams joined on the other server that broke or repeated", off, 0, unit="", n=outcome.streams)
    calls = f"of {outcome.calls} calls"
    yield rows.at_most("calls paid again", outcome.paid_again, None, unit="", n=2, note=calls)
    again = outcome.kept_and_paid_again
    yield rows.at_most("of these, whose replies were kept when they were made", again, 0, unit="", n=2)
    yield rows.at_most("from the last kill until its runs went on", outcome.taken_over_s, 15, unit="s")
    share = "the second caller asked last, for a tenth; half of the first to end were to be theirs"
    yield rows.at_least("second caller's share of the first to end", outcome.second_among_first, 0.3, note=share)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 0 when nothing was lost or doubled."""
    import databases
    import model_server
    from places import loaded, rows

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    rows.add_options(parser)
    parser.add_argument("--runs", type=int, help="default: 500; --quick: 60")
    parser.add_argument("--delay", type=float, default=0.2, metavar="SECONDS", help="of a reply, at most")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
    servers: Any = loaded(Path(__file__).parents[2] / "tests" / "postgres_server.py")

    def start(words: list[str], **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, *words], text=True, **options)

    with (
        tempfile.TemporaryDirectory(prefix="redraft-workers-") as folder,
        databases.opened_postgres(servers, "workers") as opened,
        model_server.ModelServer(delay_s=given.delay) as model,
    ):
        runs = given.runs or (60 if given.quick else 500)
        at_once = max(runs // 15, 4)  # of three workers: a fifth of all, so that most wait for their turn
        outcome = work_apart(model, opened[0], Path(folder), runs=runs, start=start, seed=given.seed, max_runs=at_once)
        found = list(outcome_rows(rows, outcome))
    if given.json:
        print(json.dumps(outcome.statuses), file=sys.stderr)
    return int(rows.finish(found, given.json, packages=("langgraph", "psycopg", "fastapi")))


if __name__ == "__main__":
    sys.exit(main())
