"""CPU time of the test suite, beside its budget in `tests/budgets.json`.

    python benchmarks/suite_cost.py make test

Prints what the command prints, then one line. Machines differ by a factor of three, and neighbours slow one down, so
the budget counts in references: the CPU time of a fixed piece of work with stock LangGraph (`reference`), measured
before and after the tests on every core. The time of all processes that the command started and waited for counts. The
exit code is the command's, or 1 where the tests took more than one and a half times their budget.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[1]
TOLERANCE = 1.5
"""What two runs of one suite differ by at most; more than this many times the budget fails."""
PROCESSES = 6
"""Reference processes a core, one after the other."""


def reference(threads: int = 20) -> None:
    """Run a graph of three steps on the stock SQLite saver: imports, Python, JSON and small writes, as tests do."""
    import langchain_openai  # noqa: F401
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, StateGraph
    from typing_extensions import TypedDict

    class State(TypedDict):
        text: str

    builder = StateGraph(State)
    steps = ["generate", "feedback", "refine"]
    for name in steps:
        builder.add_node(name, lambda state: {"text": state["text"] + " word" * 20})
    for name, following in zip([START, *steps], [*steps, END], strict=True):
        builder.add_edge(name, following)
    with tempfile.TemporaryDirectory() as folder, SqliteSaver.from_conn_string(f"{folder}/threads.sqlite") as saver:
        graph = builder.compile(checkpointer=saver)
        for thread in range(threads):
            graph.invoke({"text": "a"}, {"configurable": {"thread_id": str(thread)}})


def cpu_s() -> float:
    """Return the CPU-seconds of all child processes that have ended and were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def reference_s() -> float:
    """Return the CPU-seconds of one reference process, the mean over `PROCESSES` on every core at once."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    before = cpu_s()
    for _ in range(PROCESSES):
        running = [subprocess.Popen([sys.executable, __file__, "--reference"]) for _ in range(cores)]
        codes = [process.wait() for process in running]
        if any(codes):
            raise SystemExit("The reference did not run; its error stands above")
    return (cpu_s() - before) / (PROCESSES * cores)


def main() -> int:
    """Run the tests and print their cost."""
    if sys.argv[1:] == ["--reference"]:
        reference()
        return 0
    budget = json.loads((ROOT / "tests" / "budgets.json").read_text(encoding="utf-8"))["suite"]["references"]
    first = reference_s()
    before, started = cpu_s(), perf_counter()
    code = subprocess.run(sys.argv[1:] or ["make", "test"], cwd=ROOT, check=False).returncode
    seconds, used = perf_counter() - started, cpu_s() - before
    unit = (first + reference_s()) / 2
    verdict = "held" if used <= budget * unit else "EXCEEDED"
    print(
        f"The tests took {used / unit:.0f} references, budget {budget} ({verdict}): {used:.0f} CPU-seconds, "
        f"{unit:.2f} a reference, and {seconds:.0f} s by the clock"
    )
    return code or int(used > TOLERANCE * budget * unit)


if __name__ == "__main__":
    sys.exit(main())
