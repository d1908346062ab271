"""CPU of redraft's loop with model calls, prompts, record and journal, beside the same refinement written by hand.

The model answers at once and objects to every draft (`benchmarks/loops.py`), so that a run makes 8 calls. By hand are
redraft's five nodes on LangGraph alone, which is what the goals are beside, and the two nodes of LangGraph's own
tutorial; pydantic-graph and a plain loop of `await` (`benchmarks/peer_loops.py`) send the same texts to the same
model, and `dspy.Refine` makes as many calls with a client of its own. None of them keeps a record of which draft was
judged how, looks at a budget before a call, tells a refusal from a draft, or guards a prompt against what a draft says.

Five tables: loops without a saver, by the size of drafts and of the task; savers, with one run at a time, with 100 and,
with `--full`, 1,000 at once; what a larger text costs on them; and a check of a draft against a JSON schema, first
(which looks at the schema, too) and again, beside jsonschema alone. What is compared takes turns run by run or batch by
batch. A ratio is the median of those within a turn. CPU is that of the process with its threads; a PostgreSQL server's
is not in it. Exits with 1 when redraft misses a goal.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import statistics
import sys
from dataclasses import dataclass
from itertools import count
from time import process_time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from databases import new_database, opened, postgres_server
from jsonschema import Draft202012Validator
from loops import ROUNDS, Answering, by_hand, calls_in, redraft_graph, task_of, thread_config, tutorial_graph
from peer_loops import dspy_refine, plain_loop, pydantic_graph_loop
from redraft.nodes import matches_json_schema
from rows import Row, add_options, at_most, finish, left_out

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

__all__ = ["main"]

PACKAGES = (
    "redraft",
    "langgraph",
    "langchain-core",
    "langgraph-checkpoint-sqlite",
    "langgraph-checkpoint-postgres",
    "pydantic-graph",
    "dspy",
    "jsonschema",
)
MISSING = "pip install --group bench"
LOOP_GOAL, LONG_GOAL = 1.10, 1.15
DURABLE_GOALS = {1: 1.5, 100: 1.4}
POSTGRES_GOAL = 1.0


@dataclass(frozen=True)
class Size:
    """How long the texts of a run are, in KB."""

    text: float
    task: float

    def __str__(self) -> str:
        return f"drafts {self.text:g} KB, task {self.task:g} KB"


SMALL = Size(0.4, 0.1)
SIZES = (SMALL, Size(4, 0.1), Size(40, 0.1), Size(0.4, 2), Size(0.4, 20))


def graph_run(graph: Any, task: str) -> Callable[[], Awaitable[Any]]:
    """Return one run of a graph, in a thread of its own where it has a saver."""

    async def run() -> None:
        out = await graph.ainvoke({"task": task}, thread_config(uuid4().hex, ROUNDS))
        if (out["stop_reason"], out["rounds"]) != ("max_rounds", ROUNDS):
            raise RuntimeError(f"a run ended with {out['stop_reason']!r} after {out['rounds']} rounds")

    return run


async def batch(run: Callable[[], Awaitable[Any]], at_once: int) -> float:
    """CPU seconds of one run, of so many at once."""
    start = process_time()
    if at_once == 1:
        await run()
    else:
        await asyncio.gather(*(run() for _ in range(at_once)))
    return (process_time() - start) / at_once


async def in_turn(ways: dict[str, Callable[[], Awaitable[Any]]], at_once: int, repeats: int) -> dict[str, list[float]]:
    """CPU seconds a run of each, by turn; who goes first changes, so that none is always after another's garbage."""
    for run in ways.values():
        await batch(run, min(at_once, 5))
    gc.collect()
    taken: dict[str, list[float]] = {name: [] for name in ways}
    names = list(ways)
    for turn in range(repeats):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            taken[name].append(await batch(ways[name], at_once))
    return taken


def ratio(taken: dict[str, list[float]], name: str, other: str) -> float:
    return statistics.median(one / two for one, two in zip(taken[name], taken[other], strict=True))


def spent(taken: dict[str, list[float]], name: str) -> str:
    return f"{1e3 * statistics.median(taken[name]):.3g}"


async def loops(size: Size, repeats: int) -> list[Row]:
    """The loops without a saver: redraft beside five nodes by hand, and peers where texts are short."""
    model, task = Answering(text_kb=size.text), task_of(size.task)
    ways = {"redraft": graph_run(redraft_graph(model), task), "by hand": graph_run(by_hand(model), task)}
    absent = []
    if size == SMALL:
        ways["LangGraph's tutorial"] = graph_run(tutorial_graph(model), task)
        ways["asyncio"] = plain_loop(model, task)
        for name, made in (("pydantic-graph", lambda: pydantic_graph_loop(model, task)), ("DSPy Refine", dspy_refine)):
            try:
                ways[name] = made()
            except ImportError as error:
                absent.append(left_out(f"CPU a run ÷ by hand, {size}: {name}", f"{error}; {MISSING}"))
    taken = await in_turn(ways, 1, repeats)
    rows = []
    for name in ways:
        if name != "by hand":
            goal = None if name != "redraft" else LONG_GOAL if size.text > 4 else LOOP_GOAL
            note = f"{spent(taken, name)} ms of {calls_in(ROUNDS)} calls; by hand {spent(taken, 'by hand')}"
            found = ratio(taken, name, "by hand")
            rows.append(at_most(f"CPU a run ÷ by hand, {size}: {name}", found, goal, n=repeats, note=note))
    return rows + absent


async def schema_checks(items: int, repeats: int) -> list[Row]:
    """A check of a draft with so many objects against a small schema, beside jsonschema's own."""
    draft = json.dumps([{"title": "x" * 20, "minutes": at, "tags": ["a", "b"]} for at in range(items)])
    schemas = ({**SCHEMA, "title": str(at)} for at in count())  # each is new
    check, alone = matches_json_schema(SCHEMA), Draft202012Validator(SCHEMA)

    async def first() -> None:
        matches_json_schema(next(schemas))("", draft)

    async def first_alone() -> None:
        schema = next(schemas)
        Draft202012Validator.check_schema(schema)
        list(Draft202012Validator(schema).iter_errors(json.loads(draft)))

    async def again() -> None:
        check("", draft)

    async def again_alone() -> None:
        list(alone.iter_errors(json.loads(draft)))

    ways = {"first": first, "first alone": first_alone, "again": again, "again alone": again_alone}
    taken = await in_turn(ways, 10, repeats)
    rows = []
    for name in ("first", "again"):
        note = f"{spent(taken, name)} ms; jsonschema {spent(taken, f'{name} alone')}"
        found = ratio(taken, name, f"{name} alone")
        rows.append(at_most(f"CPU a check ÷ jsonschema, {items} objects, {name}", found, None, n=repeats, note=note))
    return rows


SCHEMA = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "title": {"type": "string", "maxLength": 80, "pattern": "^[a-z]+$"},
            "minutes": {"type": "integer", "minimum": 0},
            "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": True},
        },
        "required": ["title", "minutes"],
        "additionalProperties": False,
    },
}


@contextlib.asynccontextmanager
async def durable_ways(server: str | None, size: Size) -> AsyncIterator[dict[str, Callable[[], Awaitable[Any]]]]:
    """redraft and by hand, without a saver and on their own, on SQLite or on this PostgreSQL server."""
    model, task = Answering(text_kb=size.text), task_of(size.task)
    async with contextlib.AsyncExitStack() as stack:
        savers = [
            await stack.enter_async_context(opened(stack.enter_context(new_database(server)), stock=stock))
            for stock in (False, True)
        ]
        ours, theirs = savers
        yield {
            "none": graph_run(redraft_graph(model), task),
            "redraft": graph_run(redraft_graph(model, checkpointer=ours), task),
            "a round": graph_run(redraft_graph(model, checkpointer=ours, checkpoints="round"), task),
            "stock none": graph_run(by_hand(model), task),
            "stock": graph_run(by_hand(model, checkpointer=theirs), task),
        }


async def durable(place: str, server: str | None, size: Size, at_once: int, repeats: int) -> list[Row]:
    """A saved run beside one that is not: redraft on its saver, and the graph by hand on the stock saver."""
    async with durable_ways(server, size) as ways:
        taken = await in_turn(ways, at_once, repeats)
    where = f"{place}, {at_once:,} at once, {size}"
    note = f"{spent(taken, 'redraft')} ms; without a saver {spent(taken, 'none')}; stock saver ÷ none, by hand: "
    note += f"{ratio(taken, 'stock', 'stock none'):.2f}"
    goal = DURABLE_GOALS.get(at_once) if size == SMALL and server is None else None
    rows = [at_most(f"CPU a run ÷ no saver, {where}", ratio(taken, "redraft", "none"), goal, n=repeats, note=note)]
    note = f"{spent(taken, 'a round')} ms; a checkpoint a step {spent(taken, 'redraft')}"
    found = ratio(taken, "a round", "redraft")
    rows.append(at_most(f"CPU a run, a checkpoint a round ÷ a step, {where}", found, None, n=repeats, note=note))
    goal = POSTGRES_GOAL if size == SMALL and server is not None and at_once == 1 else None
    note = f"by hand on the stock saver: {spent(taken, 'stock')} ms"
    found = ratio(taken, "redraft", "stock")
    return [*rows, at_most(f"CPU a run ÷ by hand, stock saver, {where}", found, goal, n=repeats, note=note)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--full", action="store_true", help="1,000 runs at once too, and more repeats")
    parser.add_argument("--repeats", type=int, metavar="N", help="turns (default: 31; --quick: 5; --full: 101)")
    parser.add_argument("--only", choices=("loops", "schemas", "SQLite", "PostgreSQL"), help="one part")
    parser.add_argument("--postgres", metavar="URL", help="a server where databases may be made")
    given = parser.parse_args(arguments)
    os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
    repeats = given.repeats or (5 if given.quick else 101 if given.full else 31)
    rows: list[Row] = []
    if given.only in (None, "loops"):
        for size in SIZES:
            rows += asyncio.run(loops(size, repeats))
    if given.only in (None, "schemas"):
        for items in (3, 100):
            rows += asyncio.run(schema_checks(items, repeats))
    with contextlib.ExitStack() as stack:
        if given.only in (None, "SQLite"):
            rows += saved("SQLite", None, repeats, full=given.full)
        if given.only in (None, "PostgreSQL"):
            if server := stack.enter_context(postgres_server(given.postgres)):
                rows += saved("PostgreSQL", server, repeats, full=given.full)
            else:
                rows.append(left_out("CPU a run, PostgreSQL", "install PostgreSQL, or give --postgres URL"))
    return finish(rows, given.json, packages=PACKAGES)


def saved(place: str, server: str | None, repeats: int, *, full: bool) -> list[Row]:
    """The rows of one database: one run at a time with each size, and many at once with the smallest."""
    rows = [row for size in SIZES for row in asyncio.run(durable(place, server, size, 1, repeats))]
    for at_once in (100, 1000) if full else (100,):
        rows += asyncio.run(durable(place, server, SMALL, at_once, max(3, repeats * 10 // at_once)))
    return rows


if __name__ == "__main__":
    sys.exit(main())
