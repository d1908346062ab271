"""A database's tables, read without LangGraph, whose import takes longer than all else that shows threads. Internal."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from .encryption import PROOF, SELECT_PROOF
from .index import RunsTable, stored_sizes
from .thread_rows import off_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set
    from typing import TypeVar

    from .index import Query
    from .thread_rows import ThreadRows

    T = TypeVar("T")

__all__ = ["PlainIndex", "plain_index"]


class PlainIndex:
    """Index of threads read from a database's own tables, with the part of a saver that lists them.

    Args:
        query: Runs a statement with `%(name)s` parameters and returns its rows.
        lengths: How many bytes a row of each table holds, of those that are there.
        rows_of: Reads the rows of a thread.
        close: Gives the database back.
        errors: The database's own.
    """

    def __init__(
        self,
        query: Query,
        lengths: Mapping[str, str],
        rows_of: Callable[[Query, str], ThreadRows],
        close: Callable[[], None],
        errors: type[Exception],
    ) -> None:
        self._query, self._lengths, self._rows_of, self._errors = query, lengths, rows_of, errors
        self.close = close
        self.runs = RunsTable(query)

    def is_plain(self) -> bool:
        """Return whether the database was begun by redraft, without a key."""
        return [*map(tuple, self._query(SELECT_PROOF, {}))] == [(PROOF,)]

    def get_tuple(self, config: Mapping[str, Any]) -> object | None:
        """Return something where there is such a thread, as a saver does, and nothing of what it holds."""
        statement = "SELECT 1 FROM checkpoints WHERE thread_id = %(id)s AND checkpoint_ns = '' LIMIT 1"
        found = self._query(statement, {"id": config["configurable"]["thread_id"]})
        return found[0] if found else None

    def sizes(self, thread_ids: Sequence[str]) -> dict[str, int]:
        """Return how many bytes are kept of each thread."""
        return stored_sizes(self._query, self._lengths, thread_ids)

    def read_rows(self, read: Callable[[ThreadRows], T], thread_id: str) -> T | None:
        """Read a thread off its rows; return `None` where only a saver can tell."""
        return off_rows(read, partial(self._rows_of, self._query, thread_id), self._errors)


def plain_index(
    query: Query,
    tables: Set[str],
    *,
    lengths: Mapping[str, str],
    rows_of: Callable[[Query, str], ThreadRows],
    close: Callable[[], None],
    errors: type[Exception],
) -> PlainIndex | None:
    """Return the index of a database that redraft began without a key; any other is closed, and gives `None`.

    Args:
        query: As in `PlainIndex`.
        tables: The names of the tables that are there.
        lengths: How many bytes a row of each table holds.
        rows_of: As in `PlainIndex`.
        close: As in `PlainIndex`.
        errors: As in `PlainIndex`.
    """
    if tables >= {"runs", "redraft_encryption"} | lengths.keys() - {"redraft_journal"}:
        of_them = {table: length for table, length in lengths.items() if table in tables}
        index = PlainIndex(query, of_them, rows_of, close, errors)
        with suppress(errors):
            if index.is_plain():
                return index
    close()
    return None
