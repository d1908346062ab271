"""The databases of the crash test: which replies they hold, and how a PostgreSQL server is restarted in mid-run."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
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
        conftest: What started the server.
    """

    def __init__(self, url: str, conftest: Any) -> None:
        self.url = url
        self._conftest = conftest

    def kept(self) -> set[str]:
        """Return which replies are committed."""
        import psycopg

        with psycopg.connect(self.url) as connection:
            if connection.execute("SELECT to_regclass('redraft_journal')").fetchone() == (None,):
                return set()
            return ids(connection.execute(REPLIES))  # type: ignore[arg-type]

    def restart(self) -> None:
        """Restart the server as a crash does: no session is ended in order, and it recovers from its log."""
        import psycopg

        with psycopg.connect(self.url) as connection:
            found = connection.execute("SHOW data_directory").fetchone()
        data = Path(found[0] if found else "")
        user = self._conftest._unprivileged_user()
        as_user = {"user": user, "group": self._conftest._group_of(user), "extra_groups": []} if user else {}
        command = [self._conftest._binaries() / "pg_ctl", "-D", data, "-m", "immediate", "-w", "restart"]
        with Path(os.devnull).open("w") as nowhere:
            subprocess.run(
                [*command, "-l", data.parent / "server.log"],
                cwd=data.parent,
                stdin=subprocess.DEVNULL,
                stdout=nowhere,
                stderr=nowhere,
                check=True,
                **as_user,
            )


@contextmanager
def opened_postgres(conftest: Any, *names: str) -> Iterator[list[Postgres]]:
    """Gives these databases on a server that is started for them.

    Raises:
        LookupError: PostgreSQL is not installed.
    """
    if missing := conftest._missing_for_postgres():
        raise LookupError(missing)
    import psycopg

    with conftest._throwaway_postgres() as url:
        with psycopg.connect(url, autocommit=True) as admin:
            for name in names:
                admin.execute(f'CREATE DATABASE "{name}"')
                # The tests' server acknowledges what a restart may lose. This one is asked to keep its word.
                admin.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = on')
        yield [Postgres(f"{url.rpartition('/')[0]}/{name}", conftest) for name in names]
