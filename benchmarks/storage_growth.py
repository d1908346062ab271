"""Bytes that a thread of the real loop leaves in a database, beside the texts that it holds.

redraft's loop on redraft's savers, and the same five nodes by hand with the usual list reducer on LangGraph's
(`benchmarks/loops.py`), with drafts of 1 KB, critiques of 0.4 KB, and tasks of 0.1, 2 and 20 KB; besides, drafts of 4
KB, and redraft's loop with a checkpoint a round. Texts do not repeat, so that no compression flatters the numbers, but
for the prompts: the task is a part of each, and none is stored. What the bytes are beside is the record of redraft's
run, its events as JSON in UTF-8. Exits with 1 when redraft misses a goal.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
from typing import Any

from databases import new_database, opened, postgres_server, stored_bytes
from loops import Answering, by_hand, redraft_graph, task_of, thread_config
from rows import Row, add_options, at_most, finish, left_out

__all__ = ["main"]

TEXT_KB = 1.0
GROWTH_GOAL = 10.0
"""Bytes of a thread of ten times as many rounds."""
TASK_GOALS = {0.1: None, 2.0: 2.5, 20.0: 4.0}
"""Bytes ÷ JSON of the record, by the size of the task in KB."""
PACKAGES = ("redraft", "langgraph", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres")


def stored(
    server: str | None, *, stock: bool, rounds: int, task_kb: float, text_kb: float = TEXT_KB, **options: Any
) -> tuple[int, int]:
    """Return the bytes that one thread adds to an empty database, and those of its record as JSON (0 by hand)."""

    async def opens_only(place: str) -> None:
        async with opened(place, stock=stock) as saver:
            await saver.aget_tuple({"configurable": {"thread_id": "none"}})

    async def go(place: str) -> int:
        async with opened(place, stock=stock) as saver:
            made: dict[str, Any] = {"rounds": rounds, "checkpointer": saver, **options}
            model = Answering(text_kb=text_kb)
            graph = by_hand(model, **made) if stock else redraft_graph(model, memory="last", **made)
            out = await graph.ainvoke({"task": task_of(task_kb)}, thread_config("thread", rounds))
        if out["rounds"] != rounds:
            raise RuntimeError(f"the run made {out['rounds']} rounds, not {rounds}: {out['stop_reason']}")
        return len(json.dumps(out.get("events", []), ensure_ascii=False).encode())

    with new_database(server) as place:
        asyncio.run(opens_only(place))
        empty = stored_bytes(place)
        record = asyncio.run(go(place))
        return stored_bytes(place) - empty, record


def rows_of(place: str, server: str | None, rounds: int, growth: tuple[int, int]) -> list[Row]:
    """By the size of the task, bytes ÷ record; and how they grow with the rounds."""
    rows = []
    for task_kb, goal in TASK_GOALS.items():
        ours, record = stored(server, stock=False, rounds=rounds, task_kb=task_kb)
        stock, _ = stored(server, stock=True, rounds=rounds, task_kb=task_kb)
        what = f"stored ÷ JSON of the record, {place}, {rounds} rounds, task {task_kb:g} KB"
        note = f"{ours:,} ÷ {record:,} bytes; by hand on the stock saver: {stock / record:.1f}"
        rows.append(at_most(what, ours / record, goal, note=note))
    for task_kb, text_kb, checkpoints in ((2.0, 4.0, "step"), (2.0, TEXT_KB, "round"), (20.0, TEXT_KB, "round")):
        ours, record = stored(
            server, stock=False, rounds=rounds, task_kb=task_kb, text_kb=text_kb, checkpoints=checkpoints
        )
        what = f"the same, task {task_kb:g} KB, drafts of {text_kb:g} KB, a checkpoint a {checkpoints}"
        rows.append(at_most(what, ours / record, None, note=f"{ours:,} ÷ {record:,} bytes"))
    few, many = growth
    small, _ = stored(server, stock=False, rounds=few, task_kb=2.0)
    large, record = stored(server, stock=False, rounds=many, task_kb=2.0)
    what, note = f"stored, {place}: {many} rounds ÷ {few}, task 2 KB", f"{large / record:.2f} ÷ JSON at {many}"
    return [*rows, at_most(what, large / small, GROWTH_GOAL * many / few / 10, note=note)]


def main() -> int:
    """Print the table; 1 when redraft misses a goal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgres", metavar="URL", help="a server where databases may be made")
    add_options(parser)
    parser.add_argument("--rounds", type=int, default=30, help="of the threads by the size of the task (default: 30)")
    parser.add_argument("--growth", type=int, nargs=2, default=[10, 100], metavar=("FEW", "MANY"))
    given = parser.parse_args()
    os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
    rows = rows_of("SQLite", None, given.rounds, tuple(given.growth))
    with contextlib.ExitStack() as stack:
        if server := stack.enter_context(postgres_server(given.postgres)):
            rows += rows_of("PostgreSQL", server, given.rounds, tuple(given.growth))
        else:
            rows.append(left_out("stored ÷ JSON, PostgreSQL", "install PostgreSQL, or give --postgres URL"))
    return finish(rows, given.json, packages=PACKAGES)


if __name__ == "__main__":
    sys.exit(main())
