"""Bytes of a thread of 10 and of 100 rounds in a database, and the share of its texts.

The same loop runs twice with drafts and critiques of 1 KB: redraft's, on redraft's savers, and one of the same shape
whose events are held by the usual list reducer, on the stock savers. Prints a table; exits with 1 when redraft's
bytes at 100 rounds are more than 10 times those at 10, or more than 2.5 times the record as JSON.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import importlib.util
import json
import operator
import os
import platform
import random
import sqlite3
import sys
import tempfile
import uuid
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict
from urllib.parse import urlsplit

from rows import add_options, at_most, finish, left_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["main"]

GOAL, LOGICAL_GOAL = 10.0, 2.5
KILOBYTE = 1024


def text(what: str) -> str:
    """1 KB of words that do not repeat, so that no compression flatters the numbers."""
    chance = random.Random(what)
    words = [what]
    while sum(map(len, words)) + len(words) < KILOBYTE:
        words.append("".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))))
    return " ".join(words)[:KILOBYTE]


def run_redraft(saver: Any, rounds: int, thread_id: str, *, memory: Literal["all", "last"] = "all") -> int:
    """The loop of redraft: a scripted model writes, a critic rejects every draft. Returns bytes of its JSON."""
    from redraft import Critique, Limits, build_refine_graph
    from redraft.models import ScriptedModel

    def critic(task: str, draft: str, history: Any, /) -> Critique:
        return Critique(text("critique " + draft[:20]), accepted=False)

    # told what each call counts, so that no words of a growing prompt are counted
    replies = [{"text": text(f"draft {number}"), "input_tokens": 9, "output_tokens": 9} for number in range(rounds + 1)]
    model = ScriptedModel(replies)
    graph = build_refine_graph(model, critics=[critic], checkpointer=saver, memory=memory)
    out = graph.invoke(
        {"task": "Write.", "limits": Limits(max_rounds=rounds)},
        {"configurable": {"thread_id": thread_id}, "recursion_limit": 10 * rounds + 50},
    )
    if out["rounds"] != rounds:
        raise RuntimeError(f"the run made {out['rounds']} rounds, not {rounds}: {out['stop_reason']}")
    return len(json.dumps(out["events"]))


class PlainState(TypedDict):
    events: Annotated[list[dict[str, Any]], operator.add]
    rounds: int
    head: str
    answer: str
    stop_reason: str | None


def run_plain(saver: Any, rounds: int, thread_id: str) -> int:
    """The same five nodes and the same events, on `Annotated[list, operator.add]`."""
    from langgraph.graph import END, START, StateGraph

    usage = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0, "calls": 1, "cost_usd": None, "seconds": 0.0}

    def event(kind: str, number: int, words: str) -> dict[str, Any]:
        head = uuid.UUID(int=number).hex * 2
        return {"kind": kind, "round": number, "by": "scripted", "text": words, "usage": usage, "prev": head}

    def prepare(state: PlainState) -> dict[str, Any]:
        return {"events": [event("task", 0, "Write.")], "rounds": 0, "answer": "", "stop_reason": None}

    def generate(state: PlainState) -> dict[str, Any]:
        return {"events": [event("draft", 0, text("draft 0"))]}

    def feedback(state: PlainState) -> dict[str, Any]:
        return {"events": [event("critique", state["rounds"], text(f"critique {state['rounds']}"))]}

    def check(state: PlainState) -> dict[str, Any]:
        done = state["rounds"] >= rounds
        return {"events": [event("verdict", state["rounds"], "")], "stop_reason": "max_rounds" if done else None}

    def refine(state: PlainState) -> dict[str, Any]:
        number = state["rounds"] + 1
        return {"events": [event("revision", number, text(f"draft {number}"))], "rounds": number}

    graph = StateGraph(PlainState)
    for node in (prepare, generate, feedback, check, refine):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "prepare")
    graph.add_edge("prepare", "generate")
    graph.add_edge("generate", "feedback")
    graph.add_edge("feedback", "check")
    graph.add_conditional_edges("check", lambda state: END if state["stop_reason"] else "refine")
    graph.add_edge("refine", "feedback")
    out = graph.compile(checkpointer=saver).invoke(
        {"events": []},
        {"configurable": {"thread_id": thread_id}, "recursion_limit": 10 * rounds + 50},
    )
    return len(json.dumps(out["events"]))


def sqlite_bytes(run: Callable[[Any, int, str], int], rounds: int, *, ours: bool) -> tuple[int, int]:
    """Return the bytes that one thread adds to an empty SQLite file, in whole pages, and its record as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.sqlite"
        with sqlite_saver(path, ours=ours) as saver:
            saver.get_tuple({"configurable": {"thread_id": "none"}})
        empty = sqlite_size(path)
        with sqlite_saver(path, ours=ours) as saver:
            logical = run(saver, rounds, "thread")
        return sqlite_size(path) - empty, logical


@contextmanager
def sqlite_saver(path: Path, *, ours: bool) -> Iterator[Any]:
    if ours:
        from redraft import open_checkpointer

        with open_checkpointer(path) as saver:
            yield saver
    else:
        from langgraph.checkpoint.sqlite import SqliteSaver

        with SqliteSaver.from_conn_string(str(path)) as saver:
            yield saver


def sqlite_size(path: Path) -> int:
    """Bytes in the file after the write-ahead log is merged and free pages are given back."""
    connection = sqlite3.connect(path)
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("VACUUM")
    finally:
        connection.close()
    return path.stat().st_size


def postgres_bytes(server: str, run: Callable[[Any, int, str], int], rounds: int, *, ours: bool) -> tuple[int, int]:
    """Return the bytes that one thread adds to an empty PostgreSQL database with indexes, and its record as JSON."""
    with empty_database(server) as url:
        with postgres_saver(url, ours=ours):
            pass
        empty = postgres_size(url)
        with postgres_saver(url, ours=ours) as saver:
            logical = run(saver, rounds, "thread")
        return postgres_size(url) - empty, logical


@contextmanager
def postgres_saver(url: str, *, ours: bool) -> Iterator[Any]:
    if ours:
        from redraft import open_checkpointer

        with open_checkpointer(url) as saver:
            yield saver
    else:
        from langgraph.checkpoint.postgres import PostgresSaver

        with PostgresSaver.from_conn_string(url) as saver:
            saver.setup()
            yield saver


@contextmanager
def empty_database(server: str) -> Iterator[str]:
    import psycopg

    name = f"redraft_bench_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"')
    try:
        yield urlsplit(server)._replace(path=f"/{name}").geturl()
    finally:
        with psycopg.connect(server, autocommit=True) as admin:
            admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def postgres_size(url: str) -> int:
    import psycopg

    sizes = "SELECT sum(pg_total_relation_size(relid))::bigint FROM pg_catalog.pg_statio_user_tables"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM FULL")
        row = connection.execute(sizes).fetchone()
    return int(row[0]) if row and row[0] else 0


def main() -> int:
    """Print the table; return 0 when redraft's bytes grow as they should on every database measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--postgres",
        metavar="URL",
        default=os.environ.get("REDRAFT_TEST_POSTGRES"),
        help="a PostgreSQL server where databases may be made; default: REDRAFT_TEST_POSTGRES, else one that is "
        "started for the measurement, where PostgreSQL is installed",
    )
    add_options(parser)
    parser.add_argument("--rounds", type=int, nargs=2, default=[10, 100], metavar=("FEW", "MANY"))
    arguments = parser.parse_args()
    few, many = arguments.rounds
    goal = GOAL * many / few / 10

    print(f"Stored bytes of one thread, drafts and critiques of {KILOBYTE} bytes\n")
    print(f"{'database':<12}{'events held by':<20}{f'{few} rounds':>12}{f'{many} rounds':>13}{'ratio':>8}{'÷ JSON':>8}")
    found = {"SQLite": table("SQLite", sqlite_bytes, few, many)}
    with postgres_server(arguments.postgres) as server:
        if server:
            found["PostgreSQL"] = table("PostgreSQL", partial(postgres_bytes, server), few, many)
    rows = []
    for database, ((ratio, logical), (plain, plain_logical)) in found.items():
        what, note = f"stored bytes, {database}: {many} rounds ÷ {few}", f"list reducer on the stock saver: {plain:.0f}"
        rows.append(at_most(what, ratio, goal, note=note))
        what, note = f"stored bytes, {database}: ÷ JSON of the record", f"list reducer: {plain_logical:.0f}"
        rows.append(at_most(what, logical, LOGICAL_GOAL, note=note))
    if not server:
        rows.append(left_out("stored bytes, PostgreSQL", "install it, or give --postgres URL", goal=f"≤ {goal:g}"))
    print()
    code = finish(rows, arguments.json)
    print(printed_versions())
    return code


def table(database: str, measure: Callable[..., tuple[int, int]], few: int, many: int) -> list[tuple[float, float]]:
    """Print two rows; return the ratio, and the bytes over those of the record as JSON, of redraft and the peer."""
    found = []
    for ours, label, run in ((True, "redraft", run_redraft), (False, "plain list reducer", run_plain)):
        (small, _), (large, logical) = measure(run, few, ours=ours), measure(run, many, ours=ours)
        found.append((large / small, large / logical))
        print(f"{database:<12}{label:<20}{small:>12,}{large:>13,}{found[-1][0]:>8.1f}{found[-1][1]:>8.1f}", flush=True)
    return found


@contextmanager
def postgres_server(url: str | None) -> Iterator[str | None]:
    """The server given, or the one that the tests start for themselves where PostgreSQL is installed."""
    if url:
        yield url
        return
    path = Path(__file__).parents[1] / "tests" / "postgres_server.py"
    spec = importlib.util.spec_from_file_location("postgres_server", path)
    if spec is None or spec.loader is None:
        yield None
        return
    servers = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(servers)
    if servers.missing():
        yield None
        return
    with servers.started() as server:
        yield server.url


def printed_versions() -> str:
    """The day, the machine and what ran."""
    names = ("langgraph", "langgraph-checkpoint", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres")
    machine = f"{datetime.datetime.now(tz=datetime.UTC):%Y-%m-%d}, {platform.machine()}, {os.cpu_count()} cores"
    python = f"{platform.system()}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    return f"{machine}, {python}\n" + ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in names if installed(name)
    )


def installed(name: str) -> bool:
    return any(importlib.metadata.distributions(name=name))


if __name__ == "__main__":
    sys.exit(main())
