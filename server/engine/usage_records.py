"""Records of what runs and callers used, by day: a table beside the checkpoints, which all servers share. Internal."""

from __future__ import annotations

from ...state import Usage
from ...state.usage import NO_USAGE
from .tables import Tables

__all__ = ["FORGET_USAGE", "SET_UP_USAGE", "UsageRecords"]

SET_UP_USAGE = """CREATE TABLE IF NOT EXISTS served_usage (
        scope TEXT {bytewise} NOT NULL,
        day INTEGER NOT NULL,
        calls BIGINT NOT NULL,
        tokens BIGINT NOT NULL,
        cost_usd DOUBLE PRECISION NOT NULL,
        uncounted BIGINT NOT NULL,
        unpriced BIGINT NOT NULL,
        PRIMARY KEY (scope, day)
    )"""
DAY_S = 86_400
TODAY = f"CAST({{now}} AS BIGINT) / {DAY_S}"
"""The day as the database has it, asked for within a statement."""
A_RUN = -1
"""Stands for the day in the row of a run, which has one for as long as it lasts."""
KEPT_DAYS = 2

FIELDS = ("calls", "tokens", "cost_usd", "uncounted", "unpriced")
ADD = (
    f"INSERT INTO served_usage (scope, day, {', '.join(FIELDS)}) VALUES "  # noqa: S608
    f"(%(run)s, {A_RUN}, {', '.join(f'%({name})s' for name in FIELDS)}), "
    f"(%(owner)s, {TODAY}, {', '.join(f'%({name})s' for name in FIELDS)}) "
    "ON CONFLICT (scope, day) DO UPDATE SET "
    f"{', '.join(f'{name} = served_usage.{name} + excluded.{name}' for name in FIELDS)} RETURNING scope"
)

FORGET_USAGE = "DELETE FROM served_usage WHERE scope = 'run:' || %(run_id)s AND {found} RETURNING scope"


class UsageRecords(Tables):
    """The table. Each method is one statement, so that two servers add to one sum."""

    def add(self, run_id: str, owner: str, used: Usage) -> None:
        """Add what calls used to their run's sum and to its caller's of today."""
        self.write_lightly(
            ADD.format(now=self.clock_sql),
            {
                "run": f"run:{run_id}",
                "owner": f"caller:{owner}",
                "calls": used["calls"],
                "tokens": used["total_tokens"],
                "cost_usd": used["cost_usd"] or 0.0,
                "uncounted": used.get("uncounted_calls", 0),
                "unpriced": int(used["cost_usd"] is None),
            },
        )

    def of_run(self, run_id: str) -> Usage:
        """Return the usage of a run so far, on all servers."""
        return self._sum(f"run:{run_id}", A_RUN)

    def today(self, owner: str) -> tuple[Usage, float]:
        """Return a caller's usage of today, and the seconds until the day ends by the database's clock."""
        at = self.clock()
        day = int(at // DAY_S)
        return self._sum(f"caller:{owner}", day), (day + 1) * DAY_S - at

    def forget(self, run_id: str) -> None:
        """Forget the sum of a run that has ended; what its caller used stays."""
        self.write_lightly(FORGET_USAGE.format(found="TRUE"), {"run_id": run_id})

    def forget_past(self) -> None:
        """Forget the sums of past days."""
        oldest = int(self.clock() // DAY_S) - KEPT_DAYS
        self.write_lightly(
            f"DELETE FROM served_usage WHERE day > {A_RUN} AND day < %(oldest)s RETURNING scope",  # noqa: S608
            {"oldest": oldest},
        )

    def _sum(self, scope: str, day: int) -> Usage:
        rows = self.query(
            f"SELECT {', '.join(FIELDS)} FROM served_usage WHERE scope = %(scope)s AND day = %(day)s",  # noqa: S608
            {"scope": scope, "day": day},
        )
        if not rows:
            return NO_USAGE.copy()
        calls, tokens, cost, uncounted, unpriced = rows[0]
        return {
            **NO_USAGE,
            "calls": calls,
            "total_tokens": tokens,
            "uncounted_calls": uncounted,
            "cost_usd": None if unpriced else float(cost),
        }
