"""Claims of waiting runs: one statement, for any process, fair between callers. Internal."""

from __future__ import annotations

__all__ = ["CLAIM", "CLAIM_ONE", "SET_UP_TURNS", "SKIP_LOCKED", "WAITING"]

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
