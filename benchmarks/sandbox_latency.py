"""Latency of a check in the sandbox, in each of its layers.

A small function is checked by five assertions, again and again, in each layer that runs here and in all of them as a
user has them. Prints the median and the 90th percentile in milliseconds, and how many times longer than Monty's each
median is. The first check of a layer, which starts its pool or finds the interpreter, is shown by itself.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import statistics
import sys
import time

from redraft import Sandbox
from redraft.sandbox import SandboxUnavailableError
from rows import add_options, at_most, finish, left_out

__all__ = ["main"]

CODE = """
def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a
"""
TESTS = """
def check(candidate):
    assert candidate(0) == 0
    assert candidate(1) == 1
    assert candidate(2) == 1
    assert candidate(10) == 55
    assert candidate(90) == 2880067194370816120
"""
GOAL_MS = 150
"""For the slowest layer, on two cores with nothing else to do."""
LAYERS = {
    "monty": ("monty",),
    "bubblewrap": ("bubblewrap",),
    "seccomp": ("seccomp",),
    "all": ("monty", "bubblewrap", "seccomp"),
}


def measure(sandbox: Sandbox, repeats: int) -> list[float]:
    """Milliseconds of `repeats` checks, the first of which was cold."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        verdict = sandbox.check(CODE, TESTS, "fibonacci")
        times.append(1000 * (time.perf_counter() - started))
        if not verdict.ok:
            raise RuntimeError(f"a right solution did not pass: {verdict}")
    return times


def version(package: str) -> str:
    """`package` and its version, or that it is not there."""
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return f"no {package}"


def main() -> int:
    """Print the table; 1 when the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--repeats", type=int, metavar="N", help="checks in each layer (default: 50; --quick: 15)")
    given = parser.parse_args()
    repeats = (15 if given.quick else 50) if given.repeats is None else given.repeats
    if repeats < 2:
        parser.error(f"--repeats must be at least 2, not {repeats}")
    print(f"Python {platform.python_version()}, {version('pydantic-monty')}, {version('pyseccomp')}")
    print(f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} cores\n")
    print(f"{'layer':<12}{'first ms':>10}{'median ms':>11}{'p90 ms':>9}{'ratio':>8}")
    medians: dict[str, float] = {}
    absent: dict[str, str] = {}
    for name, layers in LAYERS.items():
        try:
            sandbox = Sandbox(layers=layers, timeout_s=20)
        except SandboxUnavailableError as error:
            print(f"{name:<12}{error}")
            absent[name] = str(error)
            continue
        first, *warm = measure(sandbox, repeats)
        medians[name] = statistics.median(warm)
        ninth = sorted(warm)[int(0.9 * len(warm))]
        ratio = f"{medians[name] / medians['monty']:.1f}" if "monty" in medians else "-"
        print(f"{name:<12}{first:>10.1f}{medians[name]:>11.2f}{ninth:>9.2f}{ratio:>8}")
    rows = [
        at_most(f"check in the sandbox, {name}", median, GOAL_MS, unit="ms", n=repeats - 1)
        for name, median in medians.items()
    ]
    rows += [left_out(f"check in the sandbox, {name}", why, goal=f"≤ {GOAL_MS}") for name, why in absent.items()]
    print()
    code = finish(rows, given.json)
    if hasattr(os, "getloadavg"):
        print(f"load of the machine over the last minute: {os.getloadavg()[0]:.1f}, this benchmark included")
    return code


if __name__ == "__main__":
    sys.exit(main())
