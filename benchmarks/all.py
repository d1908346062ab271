"""Runs every benchmark, and prints one table of what they found: `make bench`.

Each runs in a process of its own, in a small size unless `--full`, and writes its rows (`benchmarks/rows.py`); what it
prints meanwhile goes to stderr. They take their turns; in the small size those that count what is lost, and time
nothing, run beside the others at the lowest priority. One that crashes, or takes more than `--limit-s`, is a row too. A
goal that is missed is shown as missed; the exit code is 0 when all was measured, and 1 when a benchmark came to nothing
or, with `--strict`, when a goal was missed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from rows import Row, finish

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

HERE = Path(__file__).parent
QUICK = ("--quick",)
BENCHMARKS: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "routes": ((), ()),
    "loop_cost": (QUICK, ("--full",)),
    "throughput": (QUICK, ("--full",)),
    "many_threads": (QUICK, ("--full",)),
    "storage_growth": (QUICK, ()),
    "upstream": (QUICK, ()),
    "rounds": (QUICK, ("--full",)),
    "math_latency": (QUICK, ()),
    "hedging": (QUICK, ()),
    "clients": (QUICK, ()),
    "startup": (QUICK, ()),
    "stored_index": (QUICK, ()),
    "memory": (QUICK, ()),
    "journal_cost": (QUICK, ()),
    "task_journal": (QUICK, ()),
    "prompt_cache": (QUICK, ()),
    "serving": (QUICK, ()),
    "processes": (QUICK, ()),
    "run_many": (QUICK, ()),
    "sandbox_latency": (QUICK, ()),
    "crash/killing": ((*QUICK, "--minutes", "0"), ("--minutes", "0")),
    "crash/histories": (QUICK, ()),
    "crash/workers": (QUICK, ()),
    "queues": (QUICK, ()),
    "faults": (QUICK, ()),
    "soak": (QUICK, ()),
}
"""In the order of the table: what each is given for the small size, and for the full one."""
POSTGRES = frozenset({"loop_cost", "throughput", "many_threads", "storage_growth", "rounds", "journal_cost"})
"""Those that take `--postgres URL`."""
COUNTED = frozenset({"task_journal", "crash/killing", "crash/histories", "crash/workers", "faults", "soak"})
"""Those that time nothing."""
PACKAGES = ("langgraph", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres", "langchain-openai")


def rows_of(name: str, options: Sequence[str], *, limit_s: float, beside: bool) -> tuple[list[Row], bool]:
    """Run one benchmark, and return its rows and whether it came to any.

    Args:
        name: Its file.
        options: Of its command.
        limit_s: After which it is ended.
        beside: It runs beside others: at the lowest priority, and what it prints is shown when it has ended.
    """
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "printed", "w+", encoding="utf-8") as printed:
        path, out = Path(folder) / "rows.json", printed if beside else sys.stderr
        print(f"== {name} {' '.join(options)}", file=out, flush=True)
        words = [sys.executable, str(HERE / f"{name}.py"), "--json", str(path), *options]
        with subprocess.Popen(words, stdout=out, stderr=out, start_new_session=True) as process:
            RUNNING.append(process)
            if beside:
                os.setpriority(os.PRIO_PROCESS, process.pid, 19)
            try:
                why = f"ended with {process.wait(limit_s)}"
            except subprocess.TimeoutExpired:
                why = f"took more than {limit_s:g} s"
            finally:
                stop(process)
        if beside:
            printed.seek(0)
            sys.stderr.write(printed.read())
        print(f"   {name}: {time.perf_counter() - started:.0f} s\n", file=sys.stderr, flush=True)
        if path.exists():
            found: list[Row] = json.loads(path.read_text(encoding="utf-8"))
            return found, True
    return [Row(what=name, goal=None, measured=None, met=None, unit="", n=0, note=f"CRASHED: {why}")], False


RUNNING: list[subprocess.Popen[bytes]] = []


def stop(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a benchmark that has not ended, so that it stops the servers that it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 0 when all was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ", ".join(BENCHMARKS)
    parser.add_argument("--only", nargs="+", default=list(BENCHMARKS), choices=BENCHMARKS, metavar="NAME", help=names)
    parser.add_argument("--full", action="store_true", help="the full sizes, which take hours and an idle machine")
    parser.add_argument("--strict", action="store_true", help="end with 1 when a goal is missed")
    parser.add_argument("--postgres", metavar="URL", help="a server where databases may be made")
    parser.add_argument("--limit-s", type=float, metavar="S", help="for each (default: 600; --full: 7200)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write all rows there too")
    given = parser.parse_args(arguments)

    def measured(name: str, *, beside: bool = False) -> tuple[list[Row], bool]:
        options = list(BENCHMARKS[name][given.full])
        options += ["--postgres", given.postgres] if given.postgres and name in POSTGRES else []
        return rows_of(name, options, limit_s=given.limit_s or (7200 if given.full else 600), beside=beside)

    pool = ThreadPoolExecutor(2)
    try:
        counted = COUNTED.intersection(given.only) if not given.full else ()
        begun = {name: pool.submit(measured, name, beside=True) for name in given.only if name in counted}
        found = {name: measured(name) for name in given.only if name not in counted}
        found |= {name: one.result() for name, one in begun.items()}
    finally:  # where it is interrupted some are running
        pool.shutdown(wait=False, cancel_futures=True)
        for process in RUNNING:
            stop(process)
    rows = [row for name in given.only for row in found[name][0]]
    complete = all(came for _, came in found.values())
    missed = finish(rows, given.json, packages=PACKAGES)
    return 0 if complete and not (missed and given.strict) else 1


if __name__ == "__main__":
    sys.exit(main())
