"""Records of runs: those that wait, those under way and who has them, and whose turn it is. Internal."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from .relay_records import TELL_QUEUED
from .runs import ENDED, Caller, Run
from .tables import Tables
from .usage_records import FORGET_USAGE

__all__ = ["IN_FLIGHT", "SET_UP_RUNS", "RunRecords"]

IN_FLIGHT = "status IN ('pending', 'running')"
RUN_COLUMNS = (
    "run_id, thread_id, owner, assistant, model, request, metadata, stateless, status, error, created_at, updated_at, "
    "begun, attempts, process, beat"
)
WAITING = "status = 'pending' AND process = ''"
"""Condition for a run that nobody has claimed; one that its process gave back waits again."""

SKIP_LOCKED = "FOR UPDATE OF waits SKIP LOCKED"
"""Of PostgreSQL: workers that ask at once get different runs, and none waits for another."""

AT_ONCE = 16
"""So many workers that claim at the same moment all find runs: each passes over what the others have locked."""

CLAIM = f"""
    WITH placed AS (
        SELECT run_id, owner, status, process, beat, created_at,
            sum(CASE WHEN status = 'running' THEN 1 ELSE 0 END) OVER (PARTITION BY owner) AS under_way,
            row_number() OVER (
                PARTITION BY thread_id ORDER BY CASE status WHEN 'running' THEN 0 ELSE 1 END, created_at, run_id
            ) AS place
        FROM served_runs WHERE {IN_FLIGHT}
    ), turns AS (
        SELECT run_id, created_at, coalesce(served_at, 0) AS served_at,
            under_way + row_number() OVER (PARTITION BY placed.owner ORDER BY created_at, run_id) AS turn
        FROM placed LEFT JOIN served_turns ON served_turns.owner = placed.owner
        WHERE place = 1 AND {WAITING} AND beat <= {{clock}}
    ), next AS MATERIALIZED (
        SELECT * FROM turns ORDER BY turn, served_at, created_at, run_id LIMIT {AT_ONCE} * %(most)s
    ), picked AS MATERIALIZED (
        SELECT waits.run_id FROM next JOIN served_runs waits ON waits.run_id = next.run_id
        WHERE {WAITING} AND (waits.run_id IN (SELECT run_id FROM next)) IS TRUE
        ORDER BY turn, served_at, next.created_at, waits.run_id LIMIT %(most)s {{skip_locked}}
    )
    UPDATE served_runs SET process = %(process)s, status = 'running', beat = {{clock}}, updated_at = %(now)s
    WHERE {WAITING} AND (run_id IN (SELECT run_id FROM picked)) IS TRUE RETURNING {{columns}}
"""  # noqa: S608
"""Claims runs for a process: the next is of the caller who has the fewest under way on all of them, and of those of the
one who was served longest ago. A caller's own runs keep their order, and those of a busy thread are passed over, and
those that are to begin later, by the clock of the database.

`IS TRUE` has PostgreSQL look each waiting run up in what was picked, by its hash. Else, without statistics, it may go
through all of one for each row of the other, which took it seconds at a thousand."""

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

END_RUN = (
    "UPDATE served_runs SET status = %(status)s, error = %(error)s, process = '', updated_at = %(now)s "
    "WHERE run_id = %(run_id)s AND process = %(held_by)s RETURNING run_id"
)
END_ON_THREAD = (
    "UPDATE served_threads SET status = coalesce(%(standing)s, status), updated_at = %(now)s "
    "WHERE thread_id = %(thread_id)s AND {found} RETURNING thread_id"
)

ADD_RUN = (
    f"INSERT INTO served_runs ({RUN_COLUMNS}) "
    f"SELECT {', '.join(f'%({name})s' for name in RUN_COLUMNS.split(', '))} WHERE {{found}}"
)
ADD_ITS_THREAD = (
    "INSERT INTO served_threads (thread_id, owner, assistant, metadata, status, created_at, updated_at) VALUES "
    "(%(thread_id)s, %(owner)s, %(assistant)s, %(nothing)s, 'idle', %(thread_at)s, %(thread_at)s) "
    "ON CONFLICT (thread_id) DO NOTHING RETURNING thread_id"
)

SET_UP_RUNS = (
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
)


class RunRecords(Tables):
    """The runs of all callers, and the turns of these."""

    def add_run(self, run: Run, *, thread_at: str | None = None, tell: bool = False) -> bool:
        """Note a run; `False` where its thread is to be noted too, and the id is in use.

        Args:
            run: The run.
            thread_at: When its thread was made, which is noted with it; `None`: it is there.
            tell: Tell other processes, where they can hear it.
        """
        values = {
            **run.__dict__,
            "run_id": run.id,
            "owner": run.caller.id,
            "request": self.encoded(dict(run.request)),
            "metadata": self.encoded(dict(run.metadata)),
            "error": None if run.error is None else self.encoded(run.error),
            "stateless": int(run.stateless),
            "begun": int(run.begun),
            "thread_at": thread_at,
            "nothing": self.encoded({}),
        }
        told = f", {TELL_QUEUED}" if tell and self.has_channel else ""
        add = f"{ADD_RUN} RETURNING run_id{told}"
        if thread_at is None:
            return bool(self.query(add.format(found="TRUE"), values))
        return self.together(ADD_ITS_THREAD, add, values=values)

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
        rows = self.query(
            f"SELECT owner, count(CASE WHEN {WAITING} THEN 1 END), "  # noqa: S608
            "count(CASE WHEN status = 'running' AND process = %(process)s THEN 1 END) "
            f"FROM served_runs WHERE {IN_FLIGHT} GROUP BY owner",
            {"process": process},
        )
        return {owner: waiting for owner, waiting, _ in rows if waiting}, sum(row[2] for row in rows)

    def claim(self, process: str, most: int, *, now: str) -> list[Run]:
        """Make up to so many of the runs that wait a process's, whose turn it is, the first created first."""
        # With SQLite only who has something to write asks for the one place of a writer.
        if not self.has_channel and not self.query(f"SELECT 1 FROM served_runs WHERE {WAITING} LIMIT 1", {}):  # noqa: S608
            return []
        skip_locked = SKIP_LOCKED if self.has_channel else ""
        rows = self.write_lightly(
            CLAIM.format(clock=self.clock_sql, columns=RUN_COLUMNS, skip_locked=skip_locked),
            {"process": process, "most": most, "now": now},
        )
        return sorted((self._run(row) for row in rows), key=lambda run: (run.created_at, run.id))

    def note_turns(self, owners: Collection[str]) -> None:
        """Note that runs of these callers have just been claimed."""
        values = {f"owner{number}": owner for number, owner in enumerate(owners)}
        each = ", ".join(f"(%({name})s, {self.clock_sql})" for name in values)
        self.write_lightly(
            f"INSERT INTO served_turns (owner, served_at) VALUES {each} "  # noqa: S608
            "ON CONFLICT (owner) DO UPDATE SET served_at = excluded.served_at RETURNING owner",
            values,
        )

    def claim_one(self, run_id: str, process: str, *, now: str) -> bool:
        """Make a run a process's out of turn; `False` where it no longer waits."""
        return bool(self.query(CLAIM_ONE, {"run_id": run_id, "process": process, "now": now}))

    def release(self, run: Run, *, request: Mapping[str, Any], attempts: int, to: str = "") -> bool:
        """Return an abandoned run to the queue, or to a process that ends it; `False` where another was quicker."""
        rows = self.query(
            # Only as it was read: of two servers that see it left, one changes the row and the other finds none.
            "UPDATE served_runs SET process = %(to)s, status = %(status)s, attempts = %(attempts)s, "  # noqa: S608
            "request = %(request)s WHERE run_id = %(run_id)s AND process = %(left)s AND beat = %(left_beat)s "
            f"AND {IN_FLIGHT} RETURNING run_id",
            {
                **{"run_id": run.id, "left": run.process, "left_beat": run.beat, "to": to},
                "status": "running" if to else "pending",
                "attempts": attempts,
                "request": self.encoded(request),
            },
        )
        return bool(rows)

    def mark_quarantined(self, thread_id: str) -> None:
        """Say in the index of runs why a thread stands still; its next step says otherwise."""
        self.query(
            "UPDATE runs SET stop_reason = 'quarantined' WHERE thread_id = %(thread_id)s AND stop_reason IS NULL "
            "RETURNING thread_id",
            {"thread_id": thread_id},
        )

    def change_run(self, run_id: str, *, now: str, held_by: str | None = None, **changes: Any) -> None:
        """Write some of `status`, `error`, `begun` and `process`; nothing where `held_by` is given and another process
        has the run by now."""
        if changes.get("error") is not None:
            changes["error"] = self.encoded(changes["error"])
        columns = ", ".join(f"{name} = %({name})s" for name in changes)
        which = "run_id = %(run_id)s" + ("" if held_by is None else " AND process = %(held_by)s")
        self.query(
            f"UPDATE served_runs SET {columns}, updated_at = %(now)s WHERE {which} RETURNING run_id",  # noqa: S608
            {**changes, "now": now, "run_id": run_id, "held_by": held_by},
        )

    def end_run(self, run: Run, status: str, *, now: str, held_by: str, standing: str | None) -> None:
        """Write down how a run ended and how its thread stands, and forget the sum of what it used; nothing of that
        where another process has the run by now.

        Args:
            run: The run, with its error.
            status: How it ended.
            now: When.
            held_by: The process that had it.
            standing: Of the thread; `None` where the run did not begin.
        """
        values = {
            "run_id": run.id,
            "thread_id": run.thread_id,
            "status": status,
            "standing": standing,
            "error": None if run.error is None else self.encoded(run.error),
            "held_by": held_by,
            "now": now,
        }
        self.together(END_RUN, END_ON_THREAD, FORGET_USAGE, values=values)

    def remove_run(self, run_id: str) -> None:
        self.query("DELETE FROM served_runs WHERE run_id = %(run_id)s RETURNING run_id", {"run_id": run_id})

    def beat(self, process: str, *, beat: float) -> None:
        """Say that a process lives which has runs in flight."""
        self.query(
            f"UPDATE served_runs SET beat = %(beat)s WHERE process = %(process)s AND {IN_FLIGHT} RETURNING run_id",  # noqa: S608
            {"process": process, "beat": beat},
        )

    def _runs(self, condition: str, **values: Any) -> list[Run]:
        rows = self.query(f"SELECT {RUN_COLUMNS} FROM served_runs WHERE {condition}", values)  # noqa: S608
        return [self._run(row) for row in rows]

    def _run(self, row: Sequence[Any]) -> Run:
        columns = dict(zip(RUN_COLUMNS.split(", "), row, strict=True))
        for name in ("request", "metadata", "error"):
            columns[name] = self.decoded(columns[name]) if columns[name] else None
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
