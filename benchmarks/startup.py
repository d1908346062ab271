"""Start-up time of `redraft --help`, of reads at the shell and of imports, beside `import pydantic`.

The reads are `redraft threads`, `show` and `history` of a thread of one round. Whole processes, one after another in
turn, `n` times each: the wall clock and the CPU of each, and the median of their ratios to `python -c "import
pydantic"`. LangGraph's own `import langgraph.graph` is shown beside them.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from redraft import Thread, build_refine_graph, open_checkpointer, uses_words
from redraft.models import ScriptedModel
from rows import Row, add_options, at_most, finish

__all__ = ["main"]

PACKAGES = ("redraft", "typer", "rich", "pydantic", "langgraph")
REFERENCE = "import pydantic"
GOALS = {
    "redraft --help": 2.5,
    "redraft threads": 8,
    "redraft show lamp": 8,
    "redraft history lamp": 8,
    "import redraft": 1.5,
    "import redraft.state": 1.5,
    "import langgraph.graph": None,
}


def command(what: str) -> list[str]:
    """The process that is measured."""
    if not what.startswith("redraft "):
        return [sys.executable, "-c", what]
    return [sys.executable, "-c", "from redraft.faces.cli.main import main; main()", *what.split()[1:]]


def seconds(words: list[str]) -> tuple[float, float]:
    """Wall clock and CPU of one process."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    wall, after = perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def write_thread(db: str) -> None:
    """Write the thread that is read."""
    with open_checkpointer(db) as saver:
        model = ScriptedModel(["A lamp.", "A lamp by the river."])
        graph = build_refine_graph(model, verifiers=[uses_words("lamp", "river")], checkpointer=saver)
        graph.invoke({"task": "Write one sentence."}, Thread(graph, "lamp").config)


def measure(repeats: int) -> list[Row]:
    """The rows; each repeat runs every process once."""
    names = [REFERENCE, *GOALS]
    for what in names:  # compiled files and the page cache are there from now on
        seconds(command(what))
    taken: dict[str, list[tuple[float, float]]] = {what: [] for what in names}
    for _ in range(repeats):
        for what in names:
            taken[what].append(seconds(command(what)))
    rows = []
    for what, goal in GOALS.items():
        for clock, name in ((1, "CPU"), (0, "wall clock")):
            pairs = zip(taken[what], taken[REFERENCE], strict=True)
            ratio = statistics.median(one[clock] / other[clock] for one, other in pairs)
            ours = 1000 * statistics.median(one[clock] for one in taken[what])
            theirs = 1000 * statistics.median(one[clock] for one in taken[REFERENCE])
            note = f"{ours:.0f} ms, {REFERENCE} {theirs:.0f} ms"
            rows.append(at_most(f"{what} ÷ {REFERENCE}, {name}", ratio, goal, n=repeats, note=note))
    return rows


def main() -> int:
    """Print the table; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--repeats", type=int, metavar="N", help="of each process (default: 21; --quick: 7)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["REDRAFT_DB"] = str(Path(folder, "runs.sqlite"))
        write_thread(os.environ["REDRAFT_DB"])
        rows = measure(given.repeats or (7 if given.quick else 21))
    return finish(rows, given.json, packages=PACKAGES)


if __name__ == "__main__":
    sys.exit(main())
