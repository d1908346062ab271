"""The database of a server as its tables see it: statements, the clock, and values that are encrypted. Internal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...state.storage.database_saver import DatabaseSaver

__all__ = ["Tables"]


class Tables:
    """Some tables of a server. Each method of those that build on it is one statement, so each is atomic.

    Args:
        saver: Whose database has them.
    """

    def __init__(self, saver: DatabaseSaver) -> None:
        self.query = saver._query
        self.write_lightly = saver._query_lease
        """Runs a statement whose effect a loss of power may undo."""
        self.clock_sql = saver.lease_dialect.now
        self.has_channel = hasattr(saver, "pool")
        """True where processes can tell each other something through the database."""
        self._vault = saver.vault

    def together(self, first: str, *others: str, values: Mapping[str, Any]) -> bool:
        """Execute a statement, and others where it finds a row; return whether it found one. In PostgreSQL they are one
        statement; in SQLite a process that dies between them leaves the first alone.

        Args:
            first: The statement.
            others: Those that follow; `{found}` in each is the condition that the first has found a row.
            values: Their parameters.
        """
        if not self.has_channel:
            found = bool(self.query(first, values))
            for other in others if found else ():
                self.query(other.format(found="TRUE"), values)
            return found
        parts = [first, *(other.format(found="EXISTS (SELECT 1 FROM part0)") for other in others)]
        named = ", ".join(f"part{number} AS ({part})" for number, part in enumerate(parts))
        return bool(self.query(f"WITH {named} SELECT 1 FROM part0", values))  # noqa: S608

    def clock(self) -> float:
        """Return the time as the database has it, which is the same for all servers, whatever their own clocks say."""
        return float(self.query(f"SELECT {self.clock_sql}", {})[0][0])

    def encoded(self, value: Mapping[str, Any]) -> str:
        """Return a value as the tables hold it, encrypted where the database is."""
        text = json.dumps(value)
        return text if self._vault is None else self._vault.hide(text)

    def decoded(self, text: str) -> Any:
        """Return a value from the text that the tables hold."""
        return json.loads(text if self._vault is None else self._vault.reveal(text))
