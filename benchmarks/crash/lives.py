"""A bulk run whose process is stopped again and again until all is done, and which of its calls were paid twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Life", "Outcome", "Paid", "live", "paid_again"]

TIMES = {"seconds", "time_taken", "timestamp"}
"""What of a result two runs may differ in."""


@dataclass(frozen=True)
class Life:
    """One process, from its start to its end."""

    answers: list[tuple[str, float]]
    """What it was answered, and when; also what it did not live to read."""
    kept: set[str]
    """The ids of the replies that the database held after its end."""
    ended: float
    """When it was killed, or had ended, on the monotonic clock."""
    code: int
    said: str


@dataclass
class Outcome:
    """The outcome of one bulk run."""

    lives: list[Life] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)
    lines: int = 0

    @property
    def calls(self) -> int:
        return sum(len(life.answers) for life in self.lives)


@dataclass(frozen=True)
class Paid:
    """The calls that were paid again, by what had become of the first payment when the process ended."""

    waiting: int
    """The model server was still at it."""
    uncommitted: int
    """The reply was sent, and not yet committed."""
    unexplained: int
    """The reply was committed, or the process that asked again had asked itself: none of these may be."""
    most: int
    """After the end of one process."""
    oldest_ms: float
    """Of the uncommitted ones, how long before the end the first reply was sent."""

    @property
    def all(self) -> int:
        return self.waiting + self.uncommitted + self.unexplained


def paid_again(outcome: Outcome) -> Paid:
    """Return what was paid for more than once. Each such call must have been in flight when a process ended.

    In flight is a call whose request was sent, and whose reply was not committed to the database: the server had not
    answered yet, or the reply was on its way through the client into a transaction. Each run makes one call at a time,
    so that there are never more of them than runs at once.
    """
    asked: dict[str, list[tuple[int, float]]] = {}
    for number, life in enumerate(outcome.lives):
        for key, when in life.answers:
            asked.setdefault(key, []).append((number, when))
    lost: dict[int, int] = {}
    waiting = uncommitted = unexplained = 0
    oldest = 0.0
    for key, times in asked.items():
        for (first, when), (second, _) in pairwise(times):
            life = outcome.lives[first]
            lost[first] = lost.get(first, 0) + 1
            if first == second or key[:16] in life.kept:
                unexplained += 1
            elif when > life.ended:
                waiting += 1
            else:
                uncommitted += 1
                oldest = max(oldest, life.ended - when)
    return Paid(waiting, uncommitted, unexplained, max(lost.values(), default=0), 1000 * oldest)


def live(
    server: Any,
    database: Any,
    folder: Path,
    *,
    problems: int,
    concurrency: int,
    stop: Callable[[subprocess.Popen[str]], bool] = lambda _: False,
    after: Callable[[Life], None] = lambda _: None,
) -> Outcome:
    """Run all problems, with a new process whenever one ended before it was done.

    Args:
        server: The model.
        database: Where the threads are kept; says what it has kept.
        folder: For the results.
        problems: How many.
        concurrency: Runs at once.
        stop: Called with each process that was started, for as long as it likes: whether to kill the process then.
        after: Called with each life that ended before its time; raises if it may not have ended so.
    """
    outcome = Outcome()
    results = folder / "results.jsonl"
    command = [sys.executable, str(Path(__file__).with_name("worker.py")), server.spec, database.url, str(results)]
    command += ["--problems", str(problems), "--concurrency", str(concurrency)]
    server.answers()
    while not outcome.lives or outcome.lives[-1].code:
        with tempfile.TemporaryFile("w+") as said:  # not in the folder, whose disk may be full
            worker = subprocess.Popen(command, start_new_session=True, stderr=said, text=True)
            try:
                if not stop(worker):
                    worker.wait()
            finally:  # also where this is interrupted: no worker outlives it
                ended = killed(worker)
            said.seek(0)
            told = said.read()
        server.settle()
        outcome.lives.append(Life(server.answers(), database.kept(), ended, worker.returncode, told))
        if worker.returncode:
            after(outcome.lives[-1])
    lines = results.read_text(encoding="utf-8").splitlines()
    outcome.lines = len(lines)
    outcome.results = {record["question_id"]: without_times(record) for record in map(json.loads, lines)}
    return outcome


def killed(worker: subprocess.Popen[str]) -> float:
    """Kill the process and all that it started, and return when."""
    now = time.monotonic()
    if worker.poll() is None:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
    return now


def without_times(value: Any) -> Any:
    """Return a result without what depends on how long things took."""
    if isinstance(value, dict):
        return {key: without_times(one) for key, one in value.items() if key not in TIMES}
    return [without_times(one) for one in value] if isinstance(value, list) else value
