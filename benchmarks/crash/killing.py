"""Runs killed with SIGKILL again and again until they are done: what is lost, doubled, or paid twice?

`python benchmarks/crash/killing.py` (or `make crash`) starts a model server on loopback, lets a process refine a few
hundred problems undisturbed, and then lets another do the same while its whole process group is killed at random
moments (seeded). Prints a table; exits with 1 when something was lost.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import importlib.util
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HERE = Path(__file__).parent

__all__ = ["Outcome", "main", "run_killed"]

TIMES = {"seconds", "time_taken", "timestamp"}
"""What of a result two runs may differ in."""


@dataclass(frozen=True)
class Outcome:
    """What one run over all problems came to."""

    kills: int
    results: dict[str, Any]
    lines: int
    answered: dict[str, int]
    """How often each request was answered, by its hash."""
    in_flight: int
    """Requests that the server was at when a process was killed, over all kills."""


def run_killed(
    folder: Path, database: str, *, problems: int, concurrency: int, delay_s: float, between: tuple[int, int], seed: int
) -> Outcome:
    """Run all problems, killing the process group after every so many answers; `between=(0, 0)` never kills."""
    chance = random.Random(seed)
    kills = in_flight = 0
    results = folder / "results.jsonl"
    with loaded(HERE / "model_server.py").ModelServer(delay_s=delay_s) as server:
        command = [sys.executable, str(HERE / "worker.py"), server.spec, database, str(results)]
        command += ["--problems", str(problems), "--concurrency", str(concurrency)]
        while True:
            worker = subprocess.Popen(command, start_new_session=True)
            try:
                more = chance.randint(*between)
                if not more or not server.wait_for(more, alive=running(worker)):
                    if worker.wait():
                        raise RuntimeError(f"the worker ended with {worker.returncode}")
                    break
                time.sleep(chance.uniform(0, delay_s))
            finally:  # also where this is interrupted: no worker outlives it
                if worker.poll() is None:
                    in_flight += server.in_flight
                    os.killpg(worker.pid, signal.SIGKILL)
                    worker.wait()
            server.settle()
            kills += 1
        answered = dict(server.answered)
    lines = results.read_text(encoding="utf-8").splitlines()
    found = {record["question_id"]: without_times(record) for record in map(json.loads, lines)}
    return Outcome(kills, found, len(lines), answered, in_flight)


def running(worker: subprocess.Popen[bytes]) -> Callable[[], bool]:
    return lambda: worker.poll() is None


def without_times(value: Any) -> Any:
    """Return a result without what depends on how long things took."""
    if isinstance(value, dict):
        return {key: without_times(one) for key, one in value.items() if key not in TIMES}
    return [without_times(one) for one in value] if isinstance(value, list) else value


def differences(reference: Outcome, killed: Outcome) -> list[str]:
    """Return what is told of results that a kill changed."""
    told = []
    for name, result in reference.results.items():
        other = killed.results.get(name, result)
        changed = [f"{field} {str(other.get(field))[:120]!r}" for field in result if other.get(field) != result[field]]
        told += [f"  {name} differs in {', '.join(changed)}"] if changed else []
    return told


def report(reference: Outcome, killed: Outcome, *, problems: int, concurrency: int) -> tuple[dict[str, Any], bool]:
    """Return what is printed of a run that was killed, and whether nothing was lost."""
    equal = sum(killed.results.get(name) == result for name, result in reference.results.items())
    again = sum(killed.answered.values()) - sum(reference.answered.values())
    missed = sum(count > killed.answered.get(key, 0) for key, count in reference.answered.items())
    row = {
        "kills": killed.kills,
        "finished": f"{len(killed.results)}/{problems}",
        "equal": f"{equal}/{problems}",
        "lines lost": problems - len(killed.results),
        "lines doubled": killed.lines - len(killed.results),
        "calls": sum(reference.answered.values()),
        "paid again": again,
        "in flight": killed.in_flight,
    }
    at_most = killed.kills * concurrency
    kept = (len(killed.results), equal, killed.lines) == (problems,) * 3 and missed == 0
    return row, kept and again <= at_most


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 0 when every run that was killed came to what the undisturbed one did."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--delay", type=float, default=0.2, metavar="SECONDS", help="of a reply, at most")
    parser.add_argument("--between", type=int, nargs=2, default=(5, 120), help="answers between two kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--databases", nargs="+", default=["sqlite", "postgres"], choices=["sqlite", "postgres"])
    given = parser.parse_args(arguments)
    print(f"{given.problems} runs, {given.concurrency} at once, killed after {given.between[0]} to {given.between[1]}")
    print(f"answers (seed {given.seed}); a call may be paid again only if it was in flight at a kill, for which")
    print(f"{given.concurrency} a kill is the bound, and 'in flight' what the server was still at\n")
    good, titled = True, False
    for database in given.databases:
        folder = Path(tempfile.mkdtemp(prefix="redraft-crash-"))
        try:
            with opened(database, folder) as urls:
                how = {"problems": given.problems, "concurrency": given.concurrency, "delay_s": given.delay}
                outcomes = []
                for name, between in (("whole", (0, 0)), ("killed", tuple(given.between))):
                    (folder / name).mkdir()
                    outcomes.append(run_killed(folder / name, urls[name], between=between, seed=given.seed, **how))
                row, kept = report(*outcomes, problems=given.problems, concurrency=given.concurrency)
                good = good and kept
                if not titled:
                    print(f"{'':<10}" + "".join(f"{name:>14}" for name in row))
                    titled = True
                print(f"{database:<10}" + "".join(f"{value!s:>14}" for value in row.values()), flush=True)
                for line in differences(*outcomes):
                    print(line)
        except LookupError as missing:
            print(f"{database:<10} left out: {missing}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    print(
        f"\n{'Nothing was lost or doubled, and only calls in flight were paid again.' if good else 'NOT all was kept.'}"
    )
    names = ("langgraph", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres", "langchain-openai")
    print(f"{datetime.datetime.now(tz=datetime.UTC):%Y-%m-%d}, {platform.machine()}, {os.cpu_count()} cores, ", end="")
    print(f"{platform.system()}, Python {platform.python_version()}")
    print(", ".join(f"{name} {importlib.metadata.version(name)}" for name in names))
    return 0 if good else 1


class opened:  # noqa: N801  # a context manager, used as a function
    """Gives the databases of the two runs; a PostgreSQL server is started for them.

    Raises:
        LookupError: PostgreSQL is not installed.
    """

    def __init__(self, database: str, folder: Path) -> None:
        self._database = database
        self._folder = folder
        self._server: Any = None

    def __enter__(self) -> dict[str, str]:
        if self._database == "sqlite":
            return {name: str(self._folder / f"{name}.sqlite") for name in ("whole", "killed")}
        import psycopg

        conftest = loaded(HERE.parents[1] / "tests" / "conftest.py")
        if missing := conftest._missing_for_postgres():
            raise LookupError(missing)
        self._server = conftest._throwaway_postgres()
        url = self._server.__enter__()
        with psycopg.connect(url, autocommit=True) as admin:
            for name in ("whole", "killed"):
                admin.execute(f'CREATE DATABASE "{name}"')
        return {name: f"{url.rpartition('/')[0]}/{name}" for name in ("whole", "killed")}

    def __exit__(self, *error: Any) -> None:
        if self._server is not None:
            self._server.__exit__(None, None, None)


def loaded(path: Path) -> Any:
    """Return a module that stands in no package: the model server, or what starts a PostgreSQL for the tests."""
    spec = importlib.util.spec_from_file_location(f"crash_{path.stem}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main())
