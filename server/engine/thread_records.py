"""Records of threads: who owns which, and what callers noted about it. Internal."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from .run_records import IN_FLIGHT
from .tables import Tables

__all__ = ["SET_UP_THREADS", "ThreadRecord", "ThreadRecords"]

SET_UP_THREADS = (
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


class ThreadRecords(Tables):
    """The threads of all owners."""

    def add_thread(self, record: ThreadRecord) -> bool:
        """Note a thread; `False` where the id is in use."""
        rows = self.query(
            "INSERT INTO served_threads (thread_id, owner, assistant, metadata, status, created_at, updated_at) VALUES "
            "(%(thread_id)s, %(owner)s, %(assistant)s, %(metadata)s, %(status)s, %(created_at)s, %(updated_at)s) "
            # RETURNING, as in all of them: `_query` fetches rows, and PostgreSQL's driver raises without any.
            "ON CONFLICT (thread_id) DO NOTHING RETURNING thread_id",
            {**record.__dict__, "metadata": self.encoded(dict(record.metadata))},
        )
        return bool(rows)

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
        return self._threads(
            "updated_at < %(before)s AND (updated_at, thread_id) > (%(at)s, %(name)s) "
            f"AND owner {'=' if local else '<>'} 'local' ORDER BY updated_at, thread_id LIMIT 500",
            before=before,
            at=after[0],
            name=after[1],
        )

    def strangers(self, after: str) -> list[str]:
        """Return the ids of a page of the threads that have no owner: the shell or Python made them.

        Args:
            after: Id of the last one on the page before.
        """
        return [
            row[0]
            for row in self.query(
                "SELECT thread_id FROM runs WHERE thread_id > %(after)s AND NOT EXISTS "
                "(SELECT 1 FROM served_threads t WHERE t.thread_id = runs.thread_id) ORDER BY thread_id LIMIT 500",
                {"after": after},
            )
        ]

    def change_thread(self, thread_id: str, *, now: str, instead: ThreadRecord | None = None, **changes: Any) -> bool:
        """Write some of `assistant`, `metadata` and `status`; `False`, and nothing is written, where the thread is not
        as it was read, `instead`, or not there."""
        if "metadata" in changes:
            changes["metadata"] = self.encoded(dict(changes["metadata"]))
        changes["updated_at"] = now
        columns = ", ".join(f"{name} = %({name})s" for name in changes)
        only = "" if instead is None else " AND updated_at = %(left)s"
        rows = self.query(
            f"UPDATE served_threads SET {columns} WHERE thread_id = %(thread_id)s{only} RETURNING thread_id",  # noqa: S608
            {**changes, "thread_id": thread_id, "left": instead and instead.updated_at},
        )
        return bool(rows)

    def remove_thread(self, thread_id: str) -> None:
        """Forget a thread and its runs."""
        for table in ("served_runs", "served_threads"):
            self.query(
                f"DELETE FROM {table} WHERE thread_id = %(thread_id)s RETURNING thread_id",  # noqa: S608
                {"thread_id": thread_id},
            )

    def _threads(self, condition: str, **values: Any) -> list[ThreadRecord]:
        rows = self.query(f"SELECT {THREAD_COLUMNS} FROM served_threads t WHERE {condition}", values)  # noqa: S608
        return [
            ThreadRecord(name, owner, assistant, self.decoded(metadata), *rest)
            for name, owner, assistant, metadata, *rest in rows
        ]
