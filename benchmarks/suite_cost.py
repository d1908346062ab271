"""CPU time of the test suite, beside its budget in `tests/budgets.json`.

    python benchmarks/suite_cost.py make test

Prints what the command prints, then one line. The exit code is the command's, or 1 where it took more than one and a
half times the budget: the same suite takes 400 CPU-seconds on a quiet machine and 505 beside busy neighbours. The time
of all processes that it started and waited for counts.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from time import perf_counter

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[1]
TOLERANCE = 1.5
"""What machines differ by; more than this many times the budget fails."""


def main() -> int:
    """Run the tests and print their cost."""
    budget = json.loads((ROOT / "tests" / "budgets.json").read_text(encoding="utf-8"))["suite"]["cpu_seconds"]
    started = perf_counter()
    code = subprocess.run(sys.argv[1:] or ["make", "test"], cwd=ROOT, check=False).returncode
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime
    verdict = "held" if cpu_s <= budget else "EXCEEDED"
    seconds = perf_counter() - started
    print(f"The tests took {cpu_s:.0f} CPU-seconds, budget {budget} ({verdict}), and {seconds:.0f} s by the clock")
    return code or int(cpu_s > TOLERANCE * budget)


if __name__ == "__main__":
    sys.exit(main())
