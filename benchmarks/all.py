"""Runs every benchmark that promises something, one after another, and prints one table of what they found.

Each runs in a process of its own with `--quick` (unless `--full`), and writes its rows (`benchmarks/rows.py`). One that
crashes, or takes more than `--limit-s`, is a row too. Exits with 1 when a goal is missed or a benchmark crashed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from rows import Row, finish

__all__ = ["main"]

HERE = Path(__file__).parent
SCRIPTS = (
    *("loop_overhead", "durable_steps", "throughput", "rounds", "many_threads"),
    *("clients", "startup", "memory", "peers"),
)


def rows_of(name: str, *, full: bool, limit_s: float) -> list[Row]:
    """Run one benchmark, show what it prints, and return its rows."""
    print(f"== {name}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        words = [sys.executable, str(HERE / f"{name}.py"), "--json", str(path), *([] if full else ["--quick"])]
        try:
            code = subprocess.run(words, check=False, timeout=limit_s).returncode
            why = f"ended with {code}"
        except subprocess.TimeoutExpired:
            why = f"took more than {limit_s:g} s"
        if path.exists():
            found: list[Row] = json.loads(path.read_text(encoding="utf-8"))
            return found
    return [Row(what=name, goal=None, measured=None, met=False, unit="", n=0, note=why)]


def main() -> int:
    """Print the table; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SCRIPTS)}; default: all that are here")
    parser.add_argument("--full", action="store_true", help="the full sizes, which take long")
    parser.add_argument("--limit-s", type=float, default=1800.0, metavar="S", help="for each (default: 1800)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write all rows there too")
    given = parser.parse_args()
    rows: list[Row] = []
    for name in given.names or [one for one in SCRIPTS if (HERE / f"{one}.py").exists()]:
        rows += rows_of(name, full=given.full, limit_s=given.limit_s)
        print(flush=True)
    return finish(rows, given.json)


if __name__ == "__main__":
    sys.exit(main())
