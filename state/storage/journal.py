"""Journal: replies of finished model calls, kept beside the checkpoints, so that none is paid twice. Internal.

A row is plain JSON under a hash: neither what was asked nor a setting of the model is stored. Which call a hash stands
for is said in `redraft.nodes.runtime`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..dual import in_db_executor
from ..events import AGENT_RECORD
from .group_writer import Rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from .database_saver import DatabaseSaver
    from .lease_keeper import Lease

__all__ = [
    "COLUMNS",
    "DELETE_JOURNAL",
    "RECORDS",
    "SET_UP_JOURNAL",
    "SHORTEN_ON_CONFLICT",
    "BadJournalError",
    "Journal",
    "KeptReply",
    "UnkeptReplyError",
    "UnreadJournalError",
]


class BadJournalError(ValueError):
    """Entry of the journal that is no reply of a model. It is neither used nor paid for a second time."""


class UnkeptReplyError(OSError):
    """A reply came, and could not be written: the disk is full, say. The run ends here, and goes on when it can be."""


class UnreadJournalError(UnkeptReplyError):
    """Failed look for an earlier reply: the database is gone, say. So the call is not made either."""


@dataclass(frozen=True)
class KeptReply:
    """Reply of one finished call."""

    reply: str
    """JSON, as `redraft.nodes.runtime.journal` writes it."""
    seconds: float
    """How long the node had been at work on this when the reply was there."""
    said: str = field(default="", compare=False)
    """The text of the one message that it is, where it is long: the record may repeat it."""


class Journal:
    """Finished calls of all threads of one database: a table beside the checkpoints.

    Of a thread that this process has the lease of, it is read once which calls there are, and then only what is there.

    A reply is kept whole until the node has written what it made of it. Where an event has its text, that stands there
    only from then on, and the row says where; both are one transaction.

    Args:
        saver: Of the database: it reads and writes.
    """

    def __init__(self, saver: DatabaseSaver) -> None:
        self._saver = saver
        self.db_executor = saver.db_executor
        """Where the async twins run; `None` where nothing can make them wait."""

    async def aget(self, thread_id: str, call: str) -> KeptReply | None:
        """Async twin of `get`."""
        # Without a thread's detour where there is nothing to read.
        lease = self._saver.leases.latest.get(thread_id)
        if lease is None or not lease.lacks(call):
            return await self._aget(thread_id, call)
        if isinstance(lease.ahead, asyncio.Future) and lease.ahead.get_loop() is asyncio.get_running_loop():
            # No call is made, and paid, while the database takes nothing.
            await asyncio.shield(lease.ahead)
            return None
        return await self._aget(thread_id, call)

    def get(self, thread_id: str, call: str) -> KeptReply | None:
        """Return the reply to a call, or `None` where it was not finished."""
        lease = self._saver.leases.latest.get(thread_id)
        if lease and not lease.calls_read:
            found = self._saver._query(SELECT_FIRST_CALLS, {"thread_id": thread_id, "limit": MOST_CALLS + 1})
            lease.calls.update(str(row[0]) for row in found)
            lease.calls_read = len(found) <= MOST_CALLS
            if lease.lacks(call):
                return None
        elif lease and lease.lacks(call) and isinstance(lease.ahead, Future):
            lease.ahead.result()
            return None
        rows = self._saver._query(SELECT, {"thread_id": thread_id, "call": call})
        return self._read(thread_id, call, *rows[0]) if rows else None

    def every(self, thread_id: str) -> dict[str, KeptReply]:
        """Return all that is kept of a thread, by the calls; raises BadJournalError for what is none."""
        rows = self._saver._query(SELECT_REPLIES, {"thread_id": thread_id})
        return {str(call): self._read(thread_id, str(call), reply, seconds) for call, reply, seconds in rows}

    def _read(self, thread_id: str, call: str, reply: Any, seconds: Any) -> KeptReply:
        try:
            if self._saver.vault is not None:
                reply = self._saver.vault.reveal(reply)
            if not isinstance(reply, str):
                raise ValueError(f"it is {type(reply).__name__}, not a text")  # noqa: TRY004, TRY301  (as all bad data)
            if not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
                raise ValueError(f"its seconds are {str(seconds)[:100]!r}")  # noqa: TRY301
            return KeptReply(self._whole(thread_id, reply) if reply.startswith(REFERS) else reply, seconds)
        except ValueError as error:
            raise BadJournalError(
                f"what the journal of thread {thread_id!r} holds under {call!r} is refused: {error}; "
                f"saver.journal.forget({thread_id!r}) drops what it holds, and the calls are made anew"
            ) from None

    _aget = in_db_executor(get)

    def add(self, thread_id: str, call: str, kept: KeptReply) -> None:
        """Keep a reply; it is committed when this returns. One that is kept already stays."""
        self._saver.writer.write(self.rows(thread_id, {call: kept}), thread_id=thread_id, key=("reply", call))

    async def aadd(self, thread_id: str, call: str, kept: KeptReply) -> None:
        """Async twin of `add`."""
        row, here = self.rows(thread_id, {call: kept}), asyncio.get_running_loop()
        await self._saver.writer.put(row, thread_id=thread_id, key=("reply", call), loop=here, urgent=True)

    def rows(self, thread_id: str, replies: Mapping[str, KeptReply]) -> Rows:
        """Return the rows that keep these replies, by their calls; the thread's run knows from now on that they are."""
        rows: list[Sequence[Any]] = []
        for call, reply in replies.items():
            rows.append((thread_id, call, self._hidden(reply.reply), reply.seconds))
            if lease := self._saver.leases.latest.get(thread_id):
                lease.calls.add(call)
                if reply.said:
                    lease.said[reply.said] = call, reply
                    if len(lease.said) > MOST_WAITING:
                        lease.said.pop(next(iter(lease.said)), None)
        return Rows(self._saver.inserts["replies"], rows)

    def _hidden(self, reply: str) -> str:
        return reply if self._saver.vault is None else self._saver.vault.hide(reply)

    def referring(
        self, lease: Lease, namespace: str, checkpoint_id: str, writes: Sequence[tuple[str, Any]]
    ) -> list[Rows]:
        """Return shorter rows for the replies whose text an event repeats: they have its place in its stead.

        Args:
            lease: Of the thread.
            namespace: Where the task writes.
            checkpoint_id: At which checkpoint.
            writes: What it writes, in the same transaction.
        """
        if not lease.said:
            return []
        rows: list[Sequence[Any]] = []
        for event in _events(value for channel, value in writes if channel in RECORDS):
            if isinstance(text := event.get("text"), str) and (waiting := lease.said.pop(text, None)):
                call, kept = waiting
                (message,) = json.loads(kept.reply)
                place = [namespace, checkpoint_id, _digest(text)]
                reply = json.dumps({"at": place, "reply": [{**message, "content": ""}]}, separators=(",", ":"))
                rows.append((lease.thread_id, call, self._hidden(reply), kept.seconds))
        return [Rows(self._saver.inserts["shorter_replies"], rows)] if rows else []

    def _whole(self, thread_id: str, reply: str) -> str:
        """Return a reply with the text that stands in the record; raises ValueError where it does not."""
        try:
            fields = json.loads(reply)
            (namespace, checkpoint_id, digest), (message,) = fields["at"], map(dict, fields["reply"])
        except (KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"it refers to no place: {error}") from None
        for event in _events(self._saver._written(thread_id, str(namespace), str(checkpoint_id))):
            if isinstance(text := event.get("text"), str) and _digest(text) == digest:
                return json.dumps([{**message, "content": text}])
        raise ValueError(f"the checkpoint {checkpoint_id!r:.80} that it refers to has no event of its text")

    def forget(self, thread_id: str, calls: Sequence[str] | None = None) -> None:
        """Drop these calls of a thread, or all: they are paid anew."""
        if lease := self._saver.leases.latest.get(thread_id):
            # They are not to come back with what the node writes of its failure.
            waiting = [] if calls is None else [*lease.said.items()]
            lease.said = {text: one for text, one in waiting if one[0] not in (calls or ())}
        if calls is None:
            self._saver._query(DELETE_JOURNAL, {"thread_id": thread_id})
            return
        for call in calls:
            self._saver._query(DELETE_CALL, {"thread_id": thread_id, "call": call})

    aforget = in_db_executor(forget)

    def calls(self, thread_id: str) -> list[str]:
        """Return which calls of a thread are kept."""
        return [str(row[0]) for row in self._saver._query(SELECT_CALLS, {"thread_id": thread_id})]


def _events(written: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the events among what was written to a record."""
    for value in written:
        yield from (event for event in value if isinstance(event, dict)) if isinstance(value, list) else ()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


MOST_WAITING = 8
"""Replies of a run that an event may still repeat. LangGraph may save what a node wrote while the next one works."""
RECORDS = ("events", AGENT_RECORD)
"""Channels of records."""
REFERS = '{"at":'
"""How a reply begins whose text stands in the record; any other is a list."""

SET_UP_JOURNAL = """CREATE TABLE IF NOT EXISTS redraft_journal (
        thread_id TEXT {bytewise} NOT NULL,
        call TEXT {bytewise} NOT NULL,
        reply TEXT NOT NULL,
        seconds DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (thread_id, call)
    )"""
"""`{bytewise}` as in `index`. `RETURNING` below makes every statement one that has rows to fetch."""

SELECT = "SELECT reply, seconds FROM redraft_journal WHERE thread_id = %(thread_id)s AND call = %(call)s"
SELECT_REPLIES = "SELECT call, reply, seconds FROM redraft_journal WHERE thread_id = %(thread_id)s ORDER BY call"
SELECT_CALLS = "SELECT call FROM redraft_journal WHERE thread_id = %(thread_id)s ORDER BY call"
SELECT_FIRST_CALLS = "SELECT call FROM redraft_journal WHERE thread_id = %(thread_id)s LIMIT %(limit)s"
MOST_CALLS = 1000
"""Of a thread that has more, each call is looked up."""
COLUMNS = ("thread_id", "call", "reply", "seconds")
SHORTEN_ON_CONFLICT = "(thread_id, call) DO UPDATE SET reply = excluded.reply"
DELETE_CALL = "DELETE FROM redraft_journal WHERE thread_id = %(thread_id)s AND call = %(call)s RETURNING call"
DELETE_JOURNAL = "DELETE FROM redraft_journal WHERE thread_id = %(thread_id)s RETURNING call"
