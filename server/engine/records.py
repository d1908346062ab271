"""Records of owners and of runs in flight: two tables beside the checkpoints, and their executor. Internal."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from .item_records import SET_UP_ITEMS, ItemRecords
from .relay_records import SET_UP_RELAY, RelayRecords
from .runs import ENDED, Caller, Run
from .usage_records import SET_UP_USAGE, UsageRecords

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from ...state.storage.encryption import Vault

__all__ = ["Database", "Records", "ThreadRecord", "now", "open_records"]

WAITING = "status = 'pending' AND process = ''"
"""Condition for a run that nobody has claimed; one that its process gave back waits again."""

SKIP_LOCKED = "FOR UPDATE OF waits SKIP LOCKED"
"""Of PostgreSQL: workers that ask at once get different runs, and none waits for another."""

CLAIM = f"""
    WITH ready AS (
        SELECT run_id, owner, created_at FROM served_runs waits
        WHERE {WAITING} AND beat <= {{clock}} AND NOT EXISTS (
            SELECT 1 FROM served_runs before WHERE before.thread_id = waits.thread_id AND (
                before.status = 'running' OR (before.status = 'pending'
                AND (before.created_at, before.run_id) < (waits.created_at, waits.run_id))
            )
        )
    ), busy AS (
        SELECT owner, count(*) AS under_way FROM served_runs WHERE status = 'running' GROUP BY owner
    ), turns AS (
        SELECT run_id, created_at, coalesce(served_at, 0) AS served_at, coalesce(under_way, 0)
            + row_number() OVER (PARTITION BY ready.owner ORDER BY created_at, run_id) AS turn
        FROM ready LEFT JOIN busy ON busy.owner = ready.owner
        LEFT JOIN served_turns ON served_turns.owner = ready.owner
    ), picked AS MATERIALIZED (
        SELECT waits.run_id FROM served_runs waits JOIN turns ON turns.run_id = waits.run_id WHERE {WAITING}
        ORDER BY turn, served_at, turns.created_at, waits.run_id LIMIT %(most)s {{skip_locked}}
    )
    UPDATE served_runs SET process = %(process)s, status = 'running', beat = {{clock}}, updated_at = %(now)s
    WHERE run_id IN (SELECT run_id FROM picked) AND {WAITING} RETURNING {{columns}}
"""  # noqa: S608
"""Claims runs for a process: the next is of the caller who has the fewest under way on all of them, and of those of the
one who was served longest ago. A caller's own runs keep their order, and those of a busy thread are passed over, and
those that are to begin later, by the clock of the database."""

SET_UP_TURNS = """CREATE TABLE IF NOT EXISTS served_turns (
        owner TEXT {bytewise} PRIMARY KEY,
        served_at DOUBLE PRECISION NOT NULL
    )"""
"""When a run of each caller was claimed last: runs without a thread leave no row of their own."""

CLAIM_ONE = (
    "UPDATE served_runs SET process = %(process)s, status = 'running', updated_at = %(now)s "  # noqa: S608
    f"WHERE run_id = %(run_id)s AND {WAITING} RETURNING run_id"
)
"""Claims one run out of turn, to end it."""


T = TypeVar("T")
READERS = 4
SQLITE_CLOCK = "(julianday('now') - 2440587.5) * 86400.0"

SET_UP = (
    """CREATE TABLE IF NOT EXISTS served_threads (
        thread_id TEXT {bytewise} PRIMARY KEY,
        owner TEXT {bytewise} NOT NULL,
        assistant TEXT,
        metadata TEXT NOT NULL,
        status TEXT NOT NULL,
        created_at TEXT {bytewise} NOT NULL,
        updated_at TEXT {bytewise} NOT NULL
    )""",
    "CREATE INDEX IF NOT EXISTS served_threads_of ON served_threads (owner, created_at, thread_id)",
    """CREATE TABLE IF NOT EXISTS served_runs (
        run_id TEXT {bytewise} PRIMARY KEY,
        thread_id TEXT {bytewise} NOT NULL,
        owner TEXT {bytewise} NOT NULL,
        assistant TEXT NOT NULL,
        model TEXT,
        request TEXT NOT NULL,
        metadata TEXT NOT NULL,
        stateless INTEGER NOT NULL,
        status TEXT NOT NULL,
        error TEXT,
        created_at TEXT {bytewise} NOT NULL,
        updated_at TEXT {bytewise} NOT NULL,
        begun INTEGER NOT NULL,
        attempts INTEGER NOT NULL,
        process TEXT NOT NULL,
        beat DOUBLE PRECISION NOT NULL
    )""",
    "CREATE INDEX IF NOT EXISTS served_runs_of ON served_runs (thread_id, created_at, run_id)",
    "CREATE INDEX IF NOT EXISTS served_runs_in_flight ON served_runs (status) WHERE status IN ('pending', 'running')",
    SET_UP_TURNS,
    SET_UP_USAGE,
    SET_UP_ITEMS,
    *SET_UP_RELAY,
)
"""`{bytewise}` is what makes the database order text as Python does."""

SPACES = ("store", "assistants")

IN_FLIGHT = "status IN ('pending', 'running')"
RUN_COLUMNS = (
    "run_id, thread_id, owner, assistant, model, request, metadata, stateless, status, error, created_at, updated_at, "
    "begun, attempts, process, beat"
)
# Looked up and not stored: a server that died would leave its threads busy for ever.
BUSY = f"EXISTS (SELECT 1 FROM served_runs r WHERE r.thread_id = t.thread_id AND r.{IN_FLIGHT})"  # noqa: S608
STANDING = f"CASE WHEN {BUSY} THEN 'busy' ELSE status END"
THREAD_COLUMNS = f"thread_id, owner, assistant, metadata, {STANDING} AS standing, created_at, updated_at"


@dataclass(frozen=True)
class ThreadRecord:
    """A thread that the server knows."""

    thread_id: str
    owner: str
    assistant: str | None
    metadata: Mapping[str, Any]
    status: str
    """`idle`, `busy`, `interrupted` or `error`."""
    created_at: str
    updated_at: str


class Records:
    """The tables. Each method is one statement, so each is atomic.

    Args:
        query: Runs one statement with `%(name)s` parameters, commits, and returns its rows.
        vault: Encrypts what callers sent.
        clock: What the database calls its clock, in seconds since the epoch.
        write_lightly: Runs a statement whose effect a loss of power may undo; default: `query`.
        skip_locked: What has a query pass over the rows that another process is about to change.
        has_channel: Whether processes can tell each other something through the database.
    """

    def __init__(
        self,
        query: Callable[[str, Mapping[str, Any]], Sequence[Sequence[Any]]],
        vault: Vault | None = None,
        *,
        clock: str = SQLITE_CLOCK,
        write_lightly: Callable[[str, Mapping[str, Any]], Sequence[Sequence[Any]]] | None = None,
        skip_locked: str = "",
        has_channel: bool = False,
    ) -> None:
        self.query = query
        self._vault = vault
        self.clock_sql = clock
        self.write_lightly = write_lightly or query
        self._claim = CLAIM.format(clock=clock, columns=RUN_COLUMNS, skip_locked=skip_locked)
        self.items, self.saved = (ItemRecords(name, self) for name in SPACES)
        self.usage = UsageRecords(self)
        self.relay = RelayRecords(self)
        self.has_channel = has_channel

    def clock(self) -> float:
        """Return the time as the database has it, which is the same for all servers, whatever their own clocks say."""
        return float(self.query(f"SELECT {self.clock_sql}", {})[0][0])

    # threads

    def add_thread(self, record: ThreadRecord) -> bool:
        """Note a thread; `False` where the id is in use."""
        statement = (
            "INSERT INTO served_threads (thread_id, owner, assistant, metadata, status, created_at, updated_at) VALUES "
            "(%(thread_id)s, %(owner)s, %(assistant)s, %(metadata)s, %(status)s, %(created_at)s, %(updated_at)s) "
            # RETURNING, as in all of them: `_query` fetches rows, and PostgreSQL's driver raises without any.
            "ON CONFLICT (thread_id) DO NOTHING RETURNING thread_id"
        )
        values = {**record.__dict__, "metadata": self.hidden(dict(record.metadata))}
        return bool(self.query(statement, values))

    def thread(self, thread_id: str) -> ThreadRecord | None:
        return next(iter(self._threads("thread_id = %(thread_id)s", thread_id=thread_id)), None)

    def threads(
        self,
        owner: str,
        *,
        ids: Collection[str] | None = None,
        status: str | None = None,
        by: str = "created_at",
        order: str = "desc",
        limit: int | None = None,
        offset: int = 0,
    ) -> list[ThreadRecord]:
        """Return threads of an owner, by default all, the last created first.

        Args:
            owner: Whose they are.
            ids: Only these.
            status: Only those that stand so.
            by: What they are sorted by: a field of theirs, which no caller words.
            order: `asc` or `desc`.
            limit: How many; default: all.
            offset: How many to pass over.
        """
        condition = "owner = %(owner)s" + ("" if status is None else f" AND {STANDING} = %(status)s")
        values = {f"id{number}": thread_id for number, thread_id in enumerate(ids or ())}
        if ids is not None:
            condition += f" AND thread_id IN ({', '.join(f'%({name})s' for name in values) or 'NULL'})"
        by = "standing" if by == "status" else by
        paged = "" if limit is None else " LIMIT %(limit)s OFFSET %(offset)s"
        return self._threads(
            f"{condition} ORDER BY {by} {order}, thread_id {order}{paged}",
            **{**values, "owner": owner, "status": status, "limit": limit, "offset": offset},
        )

    def untouched(self, before: str, *, after: tuple[str, str], local: bool) -> list[ThreadRecord]:
        """Return a page of the threads without a change since a time, the longest untouched first.

        Args:
            before: The time.
            after: Time and id of the last thread on the page before.
            local: Those of callers without a token, else all others.
        """
        condition = (
            "updated_at < %(before)s AND (updated_at, thread_id) > (%(at)s, %(name)s) "
            f"AND owner {'=' if local else '<>'} 'local' ORDER BY updated_at, thread_id LIMIT 500"
        )
        return self._threads(condition, before=before, at=after[0], name=after[1])

    def strangers(self, after: str) -> list[str]:
        """Return the ids of a page of the threads that have no owner: the shell or Python made them.

        Args:
            after: Id of the last one on the page before.
        """
        statement = (
            "SELECT thread_id FROM runs WHERE thread_id > %(after)s AND NOT EXISTS "
            "(SELECT 1 FROM served_threads t WHERE t.thread_id = runs.thread_id) ORDER BY thread_id LIMIT 500"
        )
        return [row[0] for row in self.query(statement, {"after": after})]

    def change_thread(self, thread_id: str, *, now: str, **changes: Any) -> None:
        """Write some of `assistant`, `metadata` and `status`."""
        if "metadata" in changes:
            changes["metadata"] = self.hidden(dict(changes["metadata"]))
        columns = ", ".join(f"{name} = %({name})s" for name in changes)
        statement = (
            f"UPDATE served_threads SET {columns}, updated_at = %(now)s WHERE thread_id = %(thread_id)s "  # noqa: S608
            "RETURNING thread_id"
        )
        self.query(statement, {**changes, "now": now, "thread_id": thread_id})

    def remove_thread(self, thread_id: str) -> None:
        """Forget a thread and its runs."""
        for table in ("served_runs", "served_threads"):
            statement = f"DELETE FROM {table} WHERE thread_id = %(thread_id)s RETURNING thread_id"  # noqa: S608
            self.query(statement, {"thread_id": thread_id})

    # runs

    def add_run(self, run: Run) -> None:
        places = ", ".join(f"%({name})s" for name in RUN_COLUMNS.split(", "))
        statement = f"INSERT INTO served_runs ({RUN_COLUMNS}) VALUES ({places}) RETURNING run_id"  # noqa: S608
        values = {
            **run.__dict__,
            "run_id": run.id,
            "owner": run.caller.id,
            "request": self.hidden(dict(run.request)),
            "metadata": self.hidden(dict(run.metadata)),
            "error": None if run.error is None else self.hidden(run.error),
            "stateless": int(run.stateless),
            "begun": int(run.begun),
        }
        self.query(statement, {name: values[name] for name in RUN_COLUMNS.split(", ")})

    def run(self, run_id: str) -> Run | None:
        return next(iter(self._runs("run_id = %(run_id)s", run_id=run_id)), None)

    def runs(self, thread_id: str) -> list[Run]:
        """Return every run of a thread, the last created first."""
        return self._runs("thread_id = %(thread_id)s ORDER BY created_at DESC, run_id DESC", thread_id=thread_id)

    def in_flight(self) -> list[Run]:
        """Return every run that has not ended, the first created first."""
        return self._runs(f"{IN_FLIGHT} ORDER BY created_at, run_id")

    def waiting(self, process: str) -> tuple[dict[str, int], int]:
        """Return the number of waiting runs by owner, and of those that a process has under way."""
        statement = (
            f"SELECT owner, count(CASE WHEN {WAITING} THEN 1 END), "  # noqa: S608
            "count(CASE WHEN status = 'running' AND process = %(process)s THEN 1 END) "
            f"FROM served_runs WHERE {IN_FLIGHT} GROUP BY owner"
        )
        rows = self.query(statement, {"process": process})
        return {owner: waiting for owner, waiting, _ in rows if waiting}, sum(row[2] for row in rows)

    def claim(self, process: str, most: int, *, now: str) -> list[Run]:
        """Make up to so many of the runs that wait a process's, whose turn it is, the first created first."""
        # With SQLite only who has something to write asks for the one place of a writer.
        if not self.has_channel and not self.query(f"SELECT 1 FROM served_runs WHERE {WAITING} LIMIT 1", {}):  # noqa: S608
            return []
        rows = self.write_lightly(self._claim, {"process": process, "most": most, "now": now})
        return sorted((self._run(row) for row in rows), key=lambda run: (run.created_at, run.id))

    def note_turns(self, owners: Collection[str]) -> None:
        """Note that runs of these callers have just been claimed."""
        values = {f"owner{number}": owner for number, owner in enumerate(owners)}
        each = ", ".join(f"(%({name})s, {self.clock_sql})" for name in values)
        statement = (
            f"INSERT INTO served_turns (owner, served_at) VALUES {each} "  # noqa: S608
            "ON CONFLICT (owner) DO UPDATE SET served_at = excluded.served_at RETURNING owner"
        )
        self.write_lightly(statement, values)

    def claim_one(self, run_id: str, process: str, *, now: str) -> bool:
        """Make a run a process's out of turn; `False` where it no longer waits."""
        return bool(self.query(CLAIM_ONE, {"run_id": run_id, "process": process, "now": now}))

    def release(self, run: Run, *, request: Mapping[str, Any], attempts: int, to: str = "") -> bool:
        """Return an abandoned run to the queue, or to a process that ends it; `False` where another was quicker."""
        statement = (
            # Only as it was read: of two servers that see it left, one changes the row and the other finds none.
            "UPDATE served_runs SET process = %(to)s, status = %(status)s, attempts = %(attempts)s, "  # noqa: S608
            "request = %(request)s WHERE run_id = %(run_id)s AND process = %(left)s AND beat = %(left_beat)s "
            f"AND {IN_FLIGHT} RETURNING run_id"
        )
        values: dict[str, Any] = {"attempts": attempts, "request": self.hidden(request), "run_id": run.id, "to": to}
        status = "running" if to else "pending"
        return bool(self.query(statement, {**values, "status": status, "left": run.process, "left_beat": run.beat}))

    def mark_quarantined(self, thread_id: str) -> None:
        """Say in the index of runs why a thread stands still; its next step says otherwise."""
        statement = (
            "UPDATE runs SET stop_reason = 'quarantined' WHERE thread_id = %(thread_id)s AND stop_reason IS NULL "
            "RETURNING thread_id"
        )
        self.query(statement, {"thread_id": thread_id})

    def change_run(self, run_id: str, *, now: str, held_by: str | None = None, **changes: Any) -> bool:
        """Write some of `status`, `error`, `begun` and `process`.

        Returns:
            `False` where `held_by` is given and another process has the run by now; nothing is written then.
        """
        if changes.get("error") is not None:
            changes["error"] = self.hidden(changes["error"])
        columns = ", ".join(f"{name} = %({name})s" for name in changes)
        which = "run_id = %(run_id)s" + ("" if held_by is None else " AND process = %(held_by)s")
        statement = f"UPDATE served_runs SET {columns}, updated_at = %(now)s WHERE {which} RETURNING run_id"  # noqa: S608
        return bool(self.query(statement, {**changes, "now": now, "run_id": run_id, "held_by": held_by}))

    def remove_run(self, run_id: str) -> None:
        self.query("DELETE FROM served_runs WHERE run_id = %(run_id)s RETURNING run_id", {"run_id": run_id})

    def beat(self, process: str, *, beat: float) -> None:
        """Say that a process lives which has runs in flight."""
        statement = (
            f"UPDATE served_runs SET beat = %(beat)s WHERE process = %(process)s AND {IN_FLIGHT} RETURNING run_id"  # noqa: S608
        )
        self.query(statement, {"process": process, "beat": beat})

    def hidden(self, value: Mapping[str, Any]) -> str:
        text = json.dumps(value)
        return text if self._vault is None else self._vault.hide(text)

    def shown(self, text: str) -> Any:
        return json.loads(text if self._vault is None else self._vault.reveal(text))

    def _threads(self, condition: str, **values: Any) -> list[ThreadRecord]:
        rows = self.query(f"SELECT {THREAD_COLUMNS} FROM served_threads t WHERE {condition}", values)  # noqa: S608
        return [
            ThreadRecord(name, owner, assistant, self.shown(metadata), *rest)
            for name, owner, assistant, metadata, *rest in rows
        ]

    def _runs(self, condition: str, **values: Any) -> list[Run]:
        rows = self.query(f"SELECT {RUN_COLUMNS} FROM served_runs WHERE {condition}", values)  # noqa: S608
        return [self._run(row) for row in rows]

    def _run(self, row: Sequence[Any]) -> Run:
        columns = dict(zip(RUN_COLUMNS.split(", "), row, strict=True))
        for name in ("request", "metadata", "error"):
            columns[name] = self.shown(columns[name]) if columns[name] else None
        columns |= {"stateless": bool(columns["stateless"]), "begun": bool(columns["begun"])}
        return Run(
            id=columns.pop("run_id"),
            caller=Caller(columns.pop("owner")),
            submitted_at=_seconds(columns["created_at"]),
            ended_at=_seconds(columns["updated_at"]) if columns["status"] in ENDED else None,
            **columns,
        )


def _seconds(moment: str) -> float:
    try:
        return datetime.fromisoformat(moment).timestamp()
    except ValueError:  # somebody else wrote the row
        return time.time()


class Database:
    """The tables of a server beside its checkpoints, called beside the event loop.

    Writes come one after the other, in the order in which they were asked for. Reads wait for none of them: where
    another process holds the file, what only reads is answered meanwhile.

    Args:
        saver: Where the threads are; its database gets the tables, where they are not there.
    """

    def __init__(self, saver: Any) -> None:
        self.saver = saver
        self.records = open_records(saver)
        # Serialises what runs send, and encrypts it where the database is.
        self.serde: Any = getattr(saver, "serde", None)
        self._writing = ThreadPoolExecutor(1, thread_name_prefix="redraft-server-write")
        self._reading = ThreadPoolExecutor(READERS, thread_name_prefix="redraft-server-read")

    async def write(self, call: Callable[..., T], *args: Any, **named: Any) -> T:
        """Make a call that may write, and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._writing, partial(call, *args, **named))

    async def read(self, call: Callable[..., T], *args: Any, **named: Any) -> T:
        """Make a call that only reads, and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._reading, partial(call, *args, **named))

    def close(self) -> None:
        """Finish what was begun."""
        self._writing.shutdown()
        self._reading.shutdown()


def now(after_s: float = 0) -> str:
    """Return the time, or that in so many seconds, as the tables hold it: order of text is order of time."""
    return (datetime.now(UTC) + timedelta(seconds=after_s)).isoformat(timespec="microseconds")


def open_records(saver: Any) -> Records:
    """Return the tables of a saver's database, made if they are not there; of memory, where the saver has none."""
    pool = getattr(saver, "pool", None)
    if pool is not None:
        with pool.connection() as conn, conn.transaction():
            # Even with IF NOT EXISTS, servers that start at once would get in each other's way.
            conn.execute("SELECT pg_advisory_xact_lock(%s)", (int.from_bytes(b"served", "big"),))
            for statement in SET_UP:
                conn.execute(statement.format(bytewise='COLLATE "C"', blob="BYTEA"))
        dialect = saver.lease_dialect
        return Records(
            saver._query,
            saver.vault,
            clock=dialect.now,
            write_lightly=saver._query_lease,
            skip_locked=SKIP_LOCKED,
            has_channel=True,
        )
    query = getattr(saver, "_query", None) or _in_memory()
    for statement in SET_UP:
        query(statement.format(bytewise="", blob="BLOB"), {})
    return Records(query, getattr(saver, "vault", None), write_lightly=getattr(saver, "_query_lease", None))


def _in_memory() -> Callable[[str, Mapping[str, Any]], Sequence[Sequence[Any]]]:
    """Return a database of this process, so that there is one SQL text for all."""
    # Several threads share the one connection, so they take turns.
    conn, lock = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False), threading.Lock()

    def query(statement: str, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        with lock:
            return conn.execute(re.sub(r"%\((\w+)\)s", r":\1", statement), values).fetchall()

    weakref.finalize(query, conn.close)
    return query
