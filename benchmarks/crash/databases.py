"""The databases of the crash test: which replies they hold, and how a PostgreSQL server is restarted in mid-run."""

from __future__ import annotations

import re
import shutil
import sqlite3
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Postgres", "Sqlite", "opened_postgres"]

REPLIES = "SELECT reply FROM redraft_journal"
ID = re.compile(r'"id":"([0-9a-f]{16})"')


def ids(rows: Any) -> set[str]:
    """Return the ids that the model server gave its replies: the beginning of each request's hash."""
    return {found for (reply,) in rows for found in ID.findall(reply)}


class Sqlite:
    """A SQLite file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = str(path)

    def kept(self) -> set[str]:
        """Return which replies are committed. A copy is read: the log that a killed process left stays as it is."""
        with tempfile.TemporaryDirectory() as folder:
            for end in ("", "-wal"):
                if (beside := self.path.with_name(self.path.name + end)).exists():
                    shutil.copy(beside, folder)
            with closing(sqlite3.connect(Path(folder) / self.path.name)) as copy:
                if not copy.execute("SELECT 1 FROM sqlite_master WHERE name = 'redraft_journal'").fetchone():
                    return set()
                return ids(copy.execute(REPLIES))


class Postgres:
    """A database of a PostgreSQL server that is ours alone.

    Args:
        url: Of the database.
        server: What `tests/postgres_server.py` started.
    """

    def __init__(self, url: str, server: Any) -> None:
        self.url = url
        self.restart = server.restart

    def kept(self) -> set[str]:
        """Return which replies are committed."""
        import psycopg

        with psycopg.connect(self.url) as connection:
            if connection.execute("SELECT to_regclass('redraft_journal')").fetchone() == (None,):
                return set()
            return ids(connection.execute(REPLIES))  # type: ignore[arg-type]

    def in_flight(self) -> int:
        """Return how many runs of servers have not ended."""
        import psycopg

        with psycopg.connect(self.url) as connection:
            found = connection.execute("SELECT COUNT(*) FROM served_runs WHERE status IN ('pending', 'running')")
            return int(found.fetchone()[0])  # type: ignore[index]


@contextmanager
def opened_postgres(servers: Any, *names: str) -> Iterator[list[Postgres]]:
    """Gives these databases on a server that is started for them.

    Args:
        servers: The module `tests/postgres_server.py`.
        names: Of the databases.

    Raises:
        LookupError: PostgreSQL is not installed.
    """
    if missing := servers.missing():
        raise LookupError(missing)
    import psycopg

    with servers.started(durable=True) as server:
        with psycopg.connect(server.url, autocommit=True) as admin:
            for name in names:
                admin.execute(f'CREATE DATABASE "{name}"')
        yield [Postgres(f"{server.url.rpartition('/')[0]}/{name}", server) for name in names]
