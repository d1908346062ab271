"""Records of the relay: wishes for runs of other processes, and the events of those that are followed. Internal."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .tables import Tables

__all__ = ["CHANNEL", "END", "SET_UP_RELAY", "TELL_QUEUED", "RelayRecords", "SentEvent", "Wish"]

SET_UP_RELAY = (
    """CREATE TABLE IF NOT EXISTS served_wishes (
        run_id TEXT {bytewise} PRIMARY KEY,
        cancel INTEGER NOT NULL,
        events INTEGER NOT NULL,
        stream TEXT {bytewise} NOT NULL,
        until DOUBLE PRECISION NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS served_events (
        run_id TEXT {bytewise} NOT NULL,
        number INTEGER NOT NULL,
        event TEXT NOT NULL,
        at BIGINT NOT NULL,
        tag TEXT NOT NULL,
        data {blob} NOT NULL,
        PRIMARY KEY (run_id, number)
    )""",
)
CHANNEL = "redraft_served"
"""Of `NOTIFY`: `queued`; `wish`, `sent` or `ended` with the id of the run; `moved` with that of the thread."""
TELL_QUEUED = f"pg_notify('{CHANNEL}', 'queued')"
END = -1
"""Number of what a run ended with, which stands beside its events."""
KEPT_S = 60.0
"""How long what a run sent is kept after the last who read it here has left; time to come back on another server."""


@dataclass(frozen=True)
class Wish:
    """A wish of other processes for a run."""

    run_id: str
    cancel: bool
    events: bool
    """To see what it sends; else only how it ends."""
    stream: str
    """Names the sequence of numbers that its events have; empty before the first."""


class SentEvent(NamedTuple):
    """A row of what a run sent, serialised; an event that was forgotten since has no name."""

    number: int
    event: str
    at: int
    tag: str
    data: bytes


class RelayRecords(Tables):
    """The two tables. Each method is one statement."""

    def tell(self, *hints: str) -> None:
        """Wake the other processes of a database that has a channel."""
        self.query(
            "SELECT pg_notify(%(channel)s, hint) FROM unnest(%(hints)s::text[]) AS hint",
            {"channel": CHANNEL, "hints": list(hints)},
        )

    def wish(self, run_id: str, *, events: bool = False, cancel: bool = False) -> None:
        """Wish something of a run for a while; a wish to cancel it holds until it has ended."""
        self.query(
            "INSERT INTO served_wishes (run_id, cancel, events, stream, until) "  # noqa: S608
            f"VALUES (%(run_id)s, %(cancel)s, %(events)s, '', {self.clock_sql} + {KEPT_S}) "
            "ON CONFLICT (run_id) DO UPDATE SET until = excluded.until, "
            "cancel = CASE WHEN excluded.cancel = 1 THEN 1 ELSE served_wishes.cancel END, "
            "events = CASE WHEN excluded.events = 1 THEN 1 ELSE served_wishes.events END RETURNING run_id",
            {"run_id": run_id, "cancel": int(cancel), "events": int(events)},
        )

    def wishes(self, run_ids: Collection[str]) -> list[Wish]:
        """Return the wishes for these runs."""
        values = {f"id{number}": run_id for number, run_id in enumerate(run_ids)}
        if not values:
            return []
        places = ", ".join(f"%({name})s" for name in values)
        rows = self.query(
            f"SELECT run_id, cancel, events, stream FROM served_wishes WHERE run_id IN ({places})",  # noqa: S608
            values,
        )
        return [Wish(run_id, bool(cancel), bool(events), stream) for run_id, cancel, events, stream in rows]

    def name_stream(self, run_id: str, stream: str) -> None:
        """Name the numbers of a run's events, where they have no name yet."""
        self.query(
            "UPDATE served_wishes SET stream = %(stream)s WHERE run_id = %(run_id)s AND stream = '' RETURNING run_id",
            {"run_id": run_id, "stream": stream},
        )

    def next_number(self, run_id: str) -> int:
        """Return the number of a run's next event."""
        statement = "SELECT coalesce(max(number), -1) + 1 FROM served_events WHERE run_id = %(run_id)s"
        return int(self.query(statement, {"run_id": run_id})[0][0])

    def send(self, run_id: str, rows: Sequence[SentEvent]) -> None:
        """Write what a run sent; a row of the same number is replaced."""
        values: dict[str, Any] = {"run_id": run_id}
        places = []
        for place, row in enumerate(rows):
            values |= {f"{name}{place}": value for name, value in row._asdict().items()}
            places.append(
                f"(%(run_id)s, %(number{place})s, %(event{place})s, %(at{place})s, %(tag{place})s, %(data{place})s)"
            )
        self.query(
            f"INSERT INTO served_events (run_id, number, event, at, tag, data) VALUES {', '.join(places)} "  # noqa: S608
            "ON CONFLICT (run_id, number) DO UPDATE SET event = excluded.event, at = excluded.at, tag = excluded.tag, "
            "data = excluded.data RETURNING number",
            values,
        )

    def sent(self, run_id: str, start: int, most: int) -> list[SentEvent]:
        """Return a page of what a run sent from this number on, and before it what it ended with."""
        rows = self.query(
            "SELECT number, event, at, tag, data FROM served_events WHERE run_id = %(run_id)s "  # noqa: S608
            f"AND (number = {END} OR number >= %(start)s) ORDER BY number LIMIT %(most)s",
            {"run_id": run_id, "start": start, "most": most},
        )
        return [SentEvent(number, event, at, tag, bytes(data)) for number, event, at, tag, data in rows]

    def forget(self) -> None:
        """Delete wishes that ended, and the events that nobody follows any more."""
        under_way = (
            "SELECT 1 FROM served_runs r WHERE r.run_id = served_wishes.run_id AND r.status IN ('pending', 'running')"
        )
        for statement in (
            f"DELETE FROM served_wishes WHERE until < {self.clock_sql} "  # noqa: S608
            f"AND (cancel = 0 OR NOT EXISTS ({under_way})) RETURNING run_id",
            "DELETE FROM served_events WHERE NOT EXISTS "
            "(SELECT 1 FROM served_wishes w WHERE w.run_id = served_events.run_id) RETURNING number",
        ):
            self.query(statement, {})
