"""How many bytes does a thread of 10 and of 100 rounds leave in a database?

The same loop runs twice with drafts and critiques of 1 KB: redraft's, on redraft's savers, and one of the same shape
whose events are held by the usual list reducer, on the stock savers. Prints a table; exits with 1 when redraft's
bytes at 100 rounds are more than 11 times those at 10.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import importlib.util
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
from typing import TYPE_CHECKING, Annotated, Any, TypedDict
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["main"]

GOAL = 11.0
KILOBYTE = 1024


def text(what: str) -> str:
    """1 KB of words that do not repeat, so that no compression flatters the numbers."""
    chance = random.Random(what)
    words = [what]
    while sum(map(len, words)) + len(words) < KILOBYTE:
        words.append("".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))))
    return " ".join(words)[:KILOBYTE]


def run_redraft(saver: Any, rounds: int, thread_id: str) -> None:
    """The loop of redraft: a scripted model writes, a critic rejects every draft."""
    from redraft.graphs.loop import build_refine_graph
    from redraft.models import ScriptedModel
    from redraft.state import Critique, Limits

    def critic(task: str, draft: str, history: Any, /) -> Critique:
        return Critique(text("critique " + draft[:20]), accepted=False)

    model = ScriptedModel([text(f"draft {number}") for number in range(rounds + 1)])
    graph = build_refine_graph(model, critics=[critic], checkpointer=saver)
    out = graph.invoke(
        {"task": "Write.", "limits": Limits(max_rounds=rounds)},
        {"configurable": {"thread_id": thread_id}, "recursion_limit": 10 * rounds + 50},
    )
    if out["rounds"] != rounds:
        raise RuntimeError(f"the run made {out['rounds']} rounds, not {rounds}: {out['stop_reason']}")


class PlainState(TypedDict):
    events: Annotated[list[dict[str, Any]], operator.add]
    rounds: int
    head: str
    answer: str
    stop_reason: str | None


def run_plain(saver: Any, rounds: int, thread_id: str) -> None:
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
    graph.compile(checkpointer=saver).invoke(
        {"events": []},
        {"configurable": {"thread_id": thread_id}, "recursion_limit": 10 * rounds + 50},
    )


def sqlite_bytes(run: Callable[[Any, int, str], None], rounds: int, *, ours: bool) -> int:
    """What one thread adds to an empty SQLite file, in bytes of whole pages."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.sqlite"
        with sqlite_saver(path, ours=ours) as saver:
            saver.get_tuple({"configurable": {"thread_id": "none"}})
        empty = sqlite_size(path)
        with sqlite_saver(path, ours=ours) as saver:
            run(saver, rounds, "thread")
        return sqlite_size(path) - empty


@contextmanager
def sqlite_saver(path: Path, *, ours: bool) -> Iterator[Any]:
    if ours:
        from redraft.state import open_checkpointer

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


def postgres_bytes(server: str, run: Callable[[Any, int, str], None], rounds: int, *, ours: bool) -> int:
    """What one thread adds to the tables of an empty PostgreSQL database, with indexes and out-of-line values."""
    with empty_database(server) as url:
        with postgres_saver(url, ours=ours):
            pass
        empty = postgres_size(url)
        with postgres_saver(url, ours=ours) as saver:
            run(saver, rounds, "thread")
        return postgres_size(url) - empty


@contextmanager
def postgres_saver(url: str, *, ours: bool) -> Iterator[Any]:
    if ours:
        from redraft.state import open_checkpointer

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
    parser.add_argument("--rounds", type=int, nargs=2, default=[10, 100], metavar=("FEW", "MANY"))
    arguments = parser.parse_args()
    few, many = arguments.rounds
    goal = GOAL * many / few / 10

    print(f"Stored bytes of one thread, drafts and critiques of {KILOBYTE} bytes\n")
    print(f"{'database':<12}{'events held by':<22}{f'{few} rounds':>14}{f'{many} rounds':>14}{'ratio':>8}")
    ratios = table("SQLite", sqlite_bytes, few, many)
    with postgres_server(arguments.postgres) as server:
        if server:
            ratios += table("PostgreSQL", partial(postgres_bytes, server), few, many)
    print(f"\nGoal for redraft, a ratio of at most {goal:g}: {'met' if max(ratios) <= goal else 'NOT met'}.")
    if not server:
        print("PostgreSQL was left out: install it, or give --postgres URL.")
    versions = ("langgraph", "langgraph-checkpoint", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres")
    print(f"{datetime.datetime.now(tz=datetime.UTC):%Y-%m-%d}, {platform.machine()}, {os.cpu_count()} cores,", end=" ")
    print(f"{platform.system()}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}")
    print(", ".join(f"{name} {importlib.metadata.version(name)}" for name in versions if installed(name)))
    return 0 if max(ratios) <= goal else 1


def table(database: str, measure: Callable[..., int], few: int, many: int) -> list[float]:
    """Print two rows, and return redraft's ratio."""
    ratios = []
    for ours, label, run in ((True, "redraft", run_redraft), (False, "plain list reducer", run_plain)):
        small, large = measure(run, few, ours=ours), measure(run, many, ours=ours)
        ratios.append(large / small)
        print(f"{database:<12}{label:<22}{small:>14,}{large:>14,}{large / small:>8.1f}", flush=True)
    return ratios[:1]


@contextmanager
def postgres_server(url: str | None) -> Iterator[str | None]:
    """The server given, or the one that the tests start for themselves where PostgreSQL is installed."""
    if url:
        yield url
        return
    spec = importlib.util.spec_from_file_location("conftest", Path(__file__).parents[1] / "tests" / "conftest.py")
    if spec is None or spec.loader is None:
        yield None
        return
    conftest = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conftest)
    if conftest._missing_for_postgres():
        yield None
        return
    with conftest._throwaway_postgres() as started:
        yield started


def installed(name: str) -> bool:
    return any(importlib.metadata.distributions(name=name))


if __name__ == "__main__":
    sys.exit(main())
