"""Runs index: one row per thread, so that threads are listed without reading a checkpoint. Internal.

On SQLite and PostgreSQL it is a table beside the checkpoints, with one SQL text for both.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import UTC, datetime
from operator import attrgetter
from time import time
from typing import TYPE_CHECKING, Any, TypeAlias

from ..dual import in_db_executor
from ..events import AGENT_VALUES
from ..first_nodes import UNREAD
from ..langgraph_internals import INPUT_CHANNEL

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import Checkpoint

    from .encryption import Vault

__all__ = [
    "COLUMNS",
    "DELETE_RUNS",
    "KEPT",
    "PATH",
    "RUN_COLUMNS",
    "SET_UP_RUNS",
    "UPSERT_RUN_ON_CONFLICT",
    "BadRunError",
    "Position",
    "Query",
    "RunIndex",
    "RunRow",
    "Runs",
    "row_from_checkpoint",
    "states_under_way",
    "stored_sizes",
    "stored_values",
    "with_paths",
]

Position: TypeAlias = tuple[str, str]
"""Where a page of runs ended: `(created_at, thread_id)` of its last row."""

TASK_CHARACTERS = 200


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RunRow:
    """One thread's row in the index, as of its newest checkpoint."""

    thread_id: str
    preset: str | None = None
    """The preset that built the graph; `None` for a graph that was built in Python or is not ours."""
    task: str = ""
    """The first 200 characters of the task, on one line; empty for a graph that has no task."""
    stop_reason: str | None = None
    """Why the run stopped; `None` while it runs, waits or lies interrupted."""
    rounds: int = 0
    score: float | None = None
    """The score of the answer, 0–1; `None` when nothing scored it."""
    accepted_by: str | None = None
    total_tokens: int = 0
    cost_usd: float | None = None
    """`None` when a price is unknown, never 0 for that."""
    created_at: str
    """When the thread's first checkpoint was made, ISO 8601 in UTC, with microseconds."""
    updated_at: str
    """When its newest checkpoint was made, in the same form."""
    parent_thread_id: str | None = None
    """The thread that this one was forked from."""
    parent_checkpoint_id: str | None = None
    fork_at: int | str | None = None
    """Where it was forked: a round, or a checkpoint id."""
    recipe: str | None = None
    """JSON of the options that rebuild the graph; `None` when only Python can rebuild it."""

    @property
    def position(self) -> Position:
        """Return the `before=` that lists what follows this row."""
        return (self.created_at, self.thread_id)

    def after(self, previous: RunRow) -> RunRow:
        """Return this row, with what the thread's earlier row knows and a later checkpoint need not repeat."""
        earlier = {name: getattr(previous, name) for name in KEPT if getattr(self, name) in (None, "")}
        return dataclasses.replace(self, created_at=previous.created_at, **earlier)


KEPT = ("preset", "task", "parent_thread_id", "parent_checkpoint_id", "fork_at", "recipe")
"""Known from the first call's metadata, or the checkpoint that begins a task, and kept where a later one lacks it."""

Runs: TypeAlias = list[RunRow]


def with_paths(index: RunIndex, thread_id: str) -> list[str]:
    """Return a thread and, where it is a search, the threads of its paths: those below it that have its name in theirs.

    Forks of a path that were made by hand have names of their own, and are not among them.
    """
    thread_ids = [thread_id]
    for one in thread_ids:
        thread_ids += [name for name in index.child_ids(one) if PATH.match(name.removeprefix(thread_id))]
    return thread_ids


PATH = re.compile(r"(?:/[^/]+)*/b\d+\.\d+(?:-\d+)?\Z")
LAST_CHARACTER = "\U0010ffff"


def row_from_checkpoint(
    config: RunnableConfig, checkpoint: Checkpoint, metadata: Mapping[str, object]
) -> RunRow | None:
    """Return the row that a checkpoint gives its thread; `None` for a subgraph's, which is part of another run.

    Values of an unexpected type, as another graph's channels may hold under the same names, count as absent: the index
    never makes a run fail.

    Args:
        config: What the graph hands to `put`.
        checkpoint: Its `channel_values` hold our state.
        metadata: Those of both, as LangGraph's `get_checkpoint_metadata` puts them together.
    """
    if config["configurable"].get("checkpoint_ns"):
        return None
    values: Mapping[str, Any] = checkpoint["channel_values"]
    started = values.get(INPUT_CHANNEL)
    if isinstance(started, dict) and "task" in started:
        values = {"task": started["task"]}  # a new task begins; the thread still holds the last one's result
    elif "head" in values and UNREAD & values.keys():  # it waits for the first node, which may have refused it
        values = {"task": values.get("task")}
    if isinstance(agent := values.get(AGENT_VALUES), dict):
        values = agent
    task, usage = values.get("task"), values.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    updated_at, fork_at = _utc(checkpoint["ts"]), metadata.get("redraft_fork_at")
    return RunRow(
        thread_id=str(config["configurable"]["thread_id"]),
        preset=_text(metadata.get("redraft_preset")),
        # Of a snapshot, its value; LangGraph's class is not imported here, since this lists threads without it.
        task=" ".join((_text(getattr(task, "value", task)) or "").split(maxsplit=TASK_CHARACTERS))[:TASK_CHARACTERS],
        stop_reason=_text(values.get("stop_reason")),
        rounds=_integer(values.get("rounds")) or 0,
        score=_number(values.get("score")),
        accepted_by=_text(values.get("accepted_by")),
        total_tokens=_integer(usage.get("total_tokens")) or 0,
        cost_usd=_number(usage.get("cost_usd")),
        created_at=updated_at,
        updated_at=updated_at,
        parent_thread_id=_text(metadata.get("redraft_parent_thread")),
        parent_checkpoint_id=_text(metadata.get("redraft_parent_checkpoint")),
        fork_at=_text(fork_at) if _integer(fork_at) is None else _integer(fork_at),
        recipe=_text(metadata.get("redraft_recipe")),
    )


def _text(value: object) -> str | None:
    """Return a string without what a database refuses: NUL and lone surrogates."""
    if not isinstance(value, str):
        return None
    value = value.replace("\0", "")
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def _integer(value: object) -> int | None:
    # To Python True is 1; and both databases store 64 bits.
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None


def _number(value: object) -> float | None:
    number = value if isinstance(value, float) else _integer(value)
    return float(number) if number is not None and math.isfinite(number) else None


def _utc(timestamp: str) -> str:
    """Return a time in one fixed form, in which order of text is order of time."""
    try:
        return datetime.fromisoformat(timestamp).astimezone(UTC).isoformat(timespec="microseconds")
    except ValueError:
        # The index never makes a run fail.
        return timestamp


Query: TypeAlias = Callable[[str, Mapping[str, Any]], Sequence[Sequence[Any]]]
"""Run one statement with `%(name)s` parameters and return its rows."""

COLUMNS = tuple(field.name for field in dataclasses.fields(RunRow))

NUMBERS = {"rounds": "bigint", "score": "float8", "total_tokens": "bigint", "cost_usd": "float8"}

RUN_COLUMNS = ", ".join(f"{name} {NUMBERS.get(name, 'text')}" for name in COLUMNS)
"""The columns with their types in PostgreSQL."""

SET_UP_RUNS = (
    """CREATE TABLE IF NOT EXISTS runs (
        thread_id TEXT {bytewise} PRIMARY KEY,
        preset TEXT,
        task TEXT NOT NULL,
        stop_reason TEXT,
        rounds BIGINT NOT NULL,
        score DOUBLE PRECISION,
        accepted_by TEXT,
        total_tokens BIGINT NOT NULL,
        cost_usd DOUBLE PRECISION,
        created_at TEXT {bytewise} NOT NULL,
        updated_at TEXT {bytewise} NOT NULL,
        parent_thread_id TEXT {bytewise},
        parent_checkpoint_id TEXT,
        fork_at TEXT,
        recipe TEXT
    )""",
    f"SELECT {', '.join(COLUMNS)} FROM runs LIMIT 0",  # noqa: S608  (fails when another program's table has the name)
    "CREATE INDEX IF NOT EXISTS runs_newest ON runs (created_at, thread_id)",
    """CREATE INDEX IF NOT EXISTS runs_children ON runs (parent_thread_id, created_at, thread_id)
        WHERE parent_thread_id IS NOT NULL""",
)
"""`{bytewise}` is what makes the database order text as Python does."""

UPSERT_RUN_ON_CONFLICT = f"""(thread_id) DO UPDATE SET {
    ", ".join(
        f"{name} = COALESCE(NULLIF(excluded.{name}, ''), runs.{name})" if name in KEPT else f"{name} = excluded.{name}"
        for name in COLUMNS
        if name not in ("thread_id", "created_at")
    )
}"""

DELETE_RUNS = "DELETE FROM runs WHERE thread_id = %(thread_id)s"

SELECT_RUNS = f"SELECT {', '.join(COLUMNS)} FROM runs"  # noqa: S608  (column names of our own)

FILTERS = {
    # Both columns: rows of one moment are told apart by their thread.
    "before": "(created_at, thread_id) < (%(created_at)s, %(thread_id)s)",
    "preset": "preset = %(preset)s",
    "stop_reason": "stop_reason = %(stop_reason)s",
    "running": "stop_reason IS NULL",
    "parent": "parent_thread_id = %(parent)s",
}


def stored_values(row: RunRow, vault: Vault | None) -> Sequence[Any]:
    """Return the stored values of a row, in the order of `COLUMNS`; with a key, its texts are encrypted."""
    values = list(_columns_of(row))
    if row.fork_at is not None:
        values[COLUMNS.index("fork_at")] = str(row.fork_at)
    if vault is not None:
        for at in map(COLUMNS.index, HIDDEN):
            # An empty task stays empty: the row that is there has it.
            values[at] = vault.hide(values[at]) if values[at] else values[at]
    return values


_columns_of = attrgetter(*COLUMNS)


class BadRunError(ValueError):
    """Row of the index that it can't have written."""


class RunIndex:
    """Rows of the threads of one database, newest first, read through its saver's own connection.

    A row that is none of ours is refused by `get`; a list shows that it is there and what is wrong with it, so that one
    bad row hides no other thread.

    Args:
        query: Runs one statement.
        vault: Decrypts the rows; `None` where there is no key.
        db_executor: Where the async twins run; `None` where nothing can make them wait.
    """

    def __init__(self, query: Query, vault: Vault | None = None, *, db_executor: Executor | None = None) -> None:
        self.query = query
        self.db_executor = db_executor
        self._vault = vault

    def get(self, thread_id: str) -> RunRow | None:
        """Return the row of this thread, or `None` if the database has no such thread.

        Raises:
            BadRunError: What is stored of the thread is no row of this index.
        """
        rows = self.query(f"{SELECT_RUNS} WHERE thread_id = %(thread_id)s", {"thread_id": thread_id})
        return _row(rows[0], self._vault) if rows else None

    def children(self, thread_id: str) -> Runs:
        """Return every fork of this thread, the first created first."""
        statement = f"{SELECT_RUNS} WHERE {FILTERS['parent']} ORDER BY created_at, thread_id"
        return self._rows(statement, {"parent": thread_id})

    def child_ids(self, thread_id: str) -> Sequence[str]:
        """Return the thread ids of the forks of this thread, in any order."""
        # Without the rest of their rows, which may be unreadable: they can be deleted all the same.
        rows = self.query(f"SELECT thread_id FROM runs WHERE {FILTERS['parent']}", {"parent": thread_id})  # noqa: S608
        return [name for (name,) in rows if isinstance(name, str)]

    def ids(self, prefix: str = "", *, limit: int = 1000) -> Sequence[str]:
        """Return the ids of the threads that begin so, the last moved first, without the paths of searches."""
        statement = (
            "SELECT thread_id FROM runs WHERE thread_id >= %(first)s AND thread_id < %(behind)s "
            "ORDER BY updated_at DESC, thread_id DESC LIMIT %(limit)s"
        )
        rows = self.query(statement, {"first": prefix, "behind": prefix + LAST_CHARACTER, "limit": limit})
        return [name for (name,) in rows if isinstance(name, str) and not PATH.search(name)]

    def list(
        self,
        *,
        limit: int = 50,
        before: Position | None = None,
        preset: str | None = None,
        stop_reason: str | None = None,
        parent: str | None = None,
    ) -> Runs:
        """Return at most `limit` rows, the last created first; a page never repeats a row of the one before it.

        Args:
            limit: Rows on a page, at least 1.
            before: `position` of the last row of the page before; default: the first page.
            preset: Only threads of this preset.
            stop_reason: Only threads that stopped for this reason; `"running"` means those that have none.
            parent: Only forks of this thread.

        Raises:
            ValueError: If `limit` is below 1.
        """
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit!r}")
        conditions = {
            "before": before,
            "preset": preset,
            "stop_reason": stop_reason if stop_reason != "running" else None,
            "running": stop_reason == "running" or None,
            "parent": parent,
        }
        wanted = " AND ".join(FILTERS[name] for name, value in conditions.items() if value is not None)
        statement = (
            f"{SELECT_RUNS} {'WHERE ' if wanted else ''}{wanted} "
            "ORDER BY created_at DESC, thread_id DESC LIMIT %(limit)s"
        )
        created_at, thread_id = before or ("", "")
        return self._rows(statement, {**conditions, "created_at": created_at, "thread_id": thread_id, "limit": limit})

    def _rows(self, statement: str, values: Mapping[str, Any]) -> Runs:
        rows = []
        for columns in self.query(statement, values):
            try:
                rows.append(_row(columns, self._vault))
            except BadRunError as error:
                place = zip(COLUMNS, columns, strict=True)
                place_values: dict[str, Any] = {name: str(value) for name, value in place if name in PLACE}
                rows.append(RunRow(**place_values, task=f"(unreadable: {error})"))
        return rows

    alist = in_db_executor(list)  # noqa: A003  (the method above)
    aget = in_db_executor(get)
    achildren = in_db_executor(children)


def stored_sizes(query: Query, lengths: Mapping[str, str], thread_ids: Sequence[str]) -> dict[str, int]:
    """Return the bytes that are kept of each thread.

    Args:
        query: Runs one statement.
        lengths: How many bytes a row of each table holds.
        thread_ids: The threads.
    """
    sizes = dict.fromkeys(thread_ids, 0)
    values = {f"id{number}": thread_id for number, thread_id in enumerate(sizes)}
    places = ", ".join(f"%({name})s" for name in values)
    for table, length in lengths.items() if values else ():
        statement = f"SELECT thread_id, SUM({length}) FROM {table} WHERE thread_id IN ({places}) GROUP BY thread_id"  # noqa: S608
        for thread_id, length_of in query(statement, values):
            sizes[thread_id] += int(length_of or 0)
    return sizes


def states_under_way(query: Query, tables: Set[str], thread_ids: Sequence[str]) -> dict[str, str]:
    """Return of each thread that is being run that it is `running`, and of one that asks a person, `waiting`.

    Args:
        query: Runs one statement.
        tables: The names of the tables that are there.
        thread_ids: The threads.
    """
    values = {f"id{number}": thread_id for number, thread_id in enumerate(dict.fromkeys(thread_ids))}
    if not values:
        return {}
    places = ", ".join(f"%({name})s" for name in values)
    writes = "writes" if "writes" in tables else "checkpoint_writes"
    asking = (
        f"SELECT DISTINCT thread_id FROM {writes} AS asked WHERE thread_id IN ({places}) AND checkpoint_ns = '' "  # noqa: S608
        "AND channel = %(channel)s AND checkpoint_id = (SELECT MAX(checkpoint_id) FROM checkpoints AS newest "
        "WHERE newest.thread_id = asked.thread_id AND newest.checkpoint_ns = '')"
    )
    found = {thread_id: "waiting" for (thread_id,) in query(asking, {**values, "channel": "__interrupt__"})}
    if "redraft_leases" in tables:
        from .leases import LEASE_S, alive

        now = time()
        held = (
            f"SELECT thread_id, process FROM redraft_leases WHERE thread_id IN ({places}) "  # noqa: S608
            "AND expires_at > %(now)s AND expires_at <= %(longest)s"
        )
        running = query(held, {**values, "now": now, "longest": now + 2 * LEASE_S})
        # Killed, a process may hold its lease a little longer.
        found |= {thread_id: "running" for thread_id, process in running if alive(process) is not False}
    return found


def _row(columns: Sequence[Any], vault: Vault | None) -> RunRow:
    values = dict(zip(COLUMNS, columns, strict=True))
    try:
        for name, value in values.items():
            kinds = (int, float) if name in NUMBERS else str
            if (value is None and name in NEEDED) or (value is not None and not isinstance(value, kinds)):
                raise ValueError(f"its {name} is {type(value).__name__}")  # noqa: TRY301  (as all bad data)
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"its {name} is {value}")  # noqa: TRY301
        if vault is not None:
            values |= {name: vault.reveal(values[name]) for name in HIDDEN if values[name]}
    except ValueError as error:
        raise BadRunError(f"what the runs index holds of thread {values['thread_id']!r} is refused: {error}") from None
    at = values["fork_at"]
    is_round = at is not None and at.isascii() and at.isdecimal() and len(at) < ROUND_DIGITS
    return RunRow(**{**values, "fork_at": int(at) if is_round else at})


HIDDEN = ("task", "accepted_by", "recipe")
"""Columns with texts that a person, a model or a program's author wrote."""
PLACE = ("thread_id", "created_at", "updated_at")
NEEDED = (*PLACE, "task", "rounds", "total_tokens")
# 2**63 has 19 digits: so many or more are no round, and may be a checkpoint's id.
ROUND_DIGITS = 19
