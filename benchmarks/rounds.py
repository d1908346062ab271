"""Does a step, or a look at a thread's history, cost more the more rounds a run has?

redraft's loop with drafts of 1 KB, and the same nodes by hand on `Annotated[list, operator.add]`
(`benchmarks/loops.py`), run for few and for many rounds, interleaved. With `memory="all"` every prompt holds all
earlier drafts, which no bookkeeping makes constant: that row is shown and not judged. Last, what one look at a thread
of 1,000 rounds takes. Prints medians of CPU time and their ratios; exits with 1 when redraft misses a goal.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from databases import empty_database, postgres_server
from loops import Answering, by_hand, run_rounds, task_of, thread_config
from rows import Row, add_options, at_most, finish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["main"]

Times = tuple[int, int, int]
"""Few rounds, many rounds, repeats."""

PACKAGES = ("redraft", "langgraph", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres")
STEP_GOAL, HISTORY_GOAL, LONG_GOAL_S = 1.02, 11.0, 0.3
NODES_A_ROUND, NODES_BESIDE = 3, 4


def cpu(call: Callable[[], Any]) -> float:
    """CPU seconds of this process, without those of the collector's backlog."""
    gc.collect()
    before = time.process_time()
    call()
    return time.process_time() - before


every_draft = partial(run_rounds, memory="all")


def run_by_hand(saver: Any, rounds: int, thread_id: str) -> None:
    graph = by_hand(Answering(text_kb=1.0), rounds=rounds, checkpointer=saver)
    asyncio.run(graph.ainvoke({"task": task_of(0.1)}, thread_config(thread_id, rounds)))


def per_step(run: Callable[[Any, int, str], None], saver: Any, rounds: int, name: str) -> float:
    return cpu(lambda: run(saver, rounds, name)) / (NODES_A_ROUND * rounds + NODES_BESIDE)


def steps_row(label: str, run: Callable[[Any, int, str], None], saver: Any, times: Times) -> float:
    """Print CPU per step after few and many rounds, and return their ratio."""
    few, many, repeats = times
    run(saver, few, "warm")
    small, large = [], []
    for repeat in range(repeats):
        small.append(median(per_step(run, saver, few, f"few {repeat} {one}") for one in range(3)))
        large.append(per_step(run, saver, many, f"many {repeat}"))
    return printed(label, median(small) * 1e6, median(large) * 1e6, "µs")


def history_row(label: str, saver: Any, times: Times, *, ours: bool) -> float:
    """Print what reading a history costs after few and many rounds, and return their ratio."""
    from redraft import Thread, build_refine_graph
    from redraft.models import ScriptedModel

    few, many, repeats = times
    graph = build_refine_graph(ScriptedModel(["none"]), critics=[], checkpointer=saver)
    threads = {rounds: Thread(graph, f"history {rounds} {label}") for rounds in (few, many)}
    taken: dict[int, list[float]] = {few: [], many: []}
    for rounds, thread in threads.items():
        run_rounds(saver, rounds, thread.thread_id)
    for _ in range(repeats):
        for rounds, thread in threads.items():
            read = thread.history if ours else lambda found=thread: list(graph.get_state_history(found.config))
            taken[rounds].append(cpu(read))
    return printed(label, median(taken[few]) * 1e3, median(taken[many]) * 1e3, "ms")


def long_rows(where: str, saver: Any, rounds: int, repeats: int) -> Iterator[Row]:
    """Yield what each look at a long thread costs."""
    from redraft import Thread, build_refine_graph
    from redraft.models import ScriptedModel

    graph = build_refine_graph(ScriptedModel(["none"]), critics=[], checkpointer=saver)
    thread = Thread(graph, f"long {where}")
    run_rounds(saver, rounds, thread.thread_id)
    looks: dict[str, Callable[[], Any]] = {
        "get_state": lambda: graph.get_state(thread.config),
        "get_state_history(limit=50)": lambda: list(graph.get_state_history(thread.config, limit=50)),
        "Thread.history()": thread.history,
        "Thread.fork(at=a round in the middle)": lambda: thread.fork(at=rounds // 2),
    }
    for name, look in looks.items():
        taken = median(cpu(look) for _ in range(repeats))
        yield at_most(f"{name}, {rounds} rounds, {where}, CPU", taken, LONG_GOAL_S, unit="s", n=repeats)


def printed(label: str, small: float, large: float, unit: str) -> float:
    print(f"{label:<52}{small:>9.1f} {unit}{large:>9.1f} {unit}{large / small:>8.2f}", flush=True)
    return large / small


def main() -> int:
    """Print the table; return 0 when redraft's costs grow as they should."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--rounds", type=int, nargs=2, default=[10, 100], metavar=("FEW", "MANY"))
    parser.add_argument("--long", type=int, help="rounds of the long thread; default: 1000, with --quick 200")
    parser.add_argument("--repeats", type=int, default=3, help="default: 3, with --full 11")
    parser.add_argument("--full", action="store_true", help="more repeats")
    parser.add_argument("--postgres", metavar="URL", help="a server where databases may be made")
    arguments = parser.parse_args()
    from redraft import open_checkpointer

    few, many = arguments.rounds
    repeats = 11 if arguments.full else arguments.repeats
    times, once = (few, many, repeats), (few, many, 1)
    long, looks = arguments.long or (200 if arguments.quick else 1000), list[Row]()

    print(f"CPU time, {repeats} repeats, medians\n\n{'':<52}{f'{few} rounds':>12}{f'{many} rounds':>12}{'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder:
        steps = {"no saver": steps_row("a step, redraft, no saver", run_rounds, None, times)}
        steps_row("a step, redraft, no saver, memory=all", every_draft, None, times)
        plain = steps_row("a step, by hand, no saver, every draft", run_by_hand, None, times)
        with open_checkpointer(Path(folder) / "ours.sqlite") as saver:
            steps["SQLite"] = steps_row("a step, redraft, SQLite", run_rounds, saver, times)
            histories = {"SQLite": history_row("a history, redraft, SQLite", saver, times, ours=True)}
            history_row("the same thread, get_state_history", saver, once, ours=False)
            looks += long_rows("SQLite", saver, long, repeats)
    with postgres_server(arguments.postgres) as server:
        if server:
            with empty_database(server) as url, open_checkpointer(url) as saver:
                steps["PostgreSQL"] = steps_row("a step, redraft, PostgreSQL", run_rounds, saver, times)
                histories["PostgreSQL"] = history_row("a history, redraft, PostgreSQL", saver, times, ours=True)
                history_row("the same thread, get_state_history", saver, once, ours=False)
                looks += long_rows("PostgreSQL", saver, long, repeats)
    growth = many / few / 10
    note = f"by hand with a list reducer, no saver, every draft in the prompt: {plain:.2f}"
    rows = [
        at_most(f"CPU per step, {many} rounds ÷ {few}, {where}", ratio, STEP_GOAL, n=repeats, note=note)
        for where, ratio in steps.items()
    ]
    rows += [
        at_most(f"reading a history, {many} rounds ÷ {few}, {where}", ratio, HISTORY_GOAL * growth, n=repeats)
        for where, ratio in histories.items()
    ]
    rows += looks
    print()
    return finish(rows, arguments.json, packages=PACKAGES)


if __name__ == "__main__":
    sys.exit(main())
