"""Results in PostgreSQL, keyed by run and problem, and locks that let one worker at a time run a thread."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self, cast

from ...state.storage.database_urls import kind_and_place, without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import TracebackType

    from psycopg import AsyncConnection

    from .outcomes import Outcome

__all__ = ["ResultTable", "postgres_url"]


class ResultTable:
    """The table `eval_results` of a database, over one connection that also holds the locks of who has it open.

    A lock ends with the connection, so also when the process or the machine dies; and since a result is stored over
    the same connection, who has lost the locks can store nothing. The connection must lead to the server itself, or
    through a pooler that gives each client a session of its own.

    Use it in `async with`. One task at a time speaks; others wait for their turn.

    Args:
        url: `postgresql://…`.

    Raises:
        ValueError: At build: the URL is no PostgreSQL URL.
        ImportError: On entering: the extra `postgres` is not installed.
        ConnectionError: On entering the server can't be reached, and at any call after it was lost. No message holds
            the password.
    """

    def __init__(self, url: str) -> None:
        self._url = postgres_url(url)
        self._conn: AsyncConnection[tuple[Any, ...]] | None = None

    async def __aenter__(self) -> Self:
        try:
            import psycopg
            from psycopg.conninfo import conninfo_to_dict, make_conninfo
        except ImportError as error:
            raise ImportError(f'PostgreSQL needs an extra: pip install "redraft[postgres]" ({error})') from None
        with self._told():
            whose = f"redraft eval {os.getpid()} {socket.gethostname()}"  # who looks at pg_stat_activity sees it
            given = conninfo_to_dict(self._url)
            conninfo = make_conninfo(**{**NETWORK, "application_name": whose[:63], **given})
            self._conn = await psycopg.AsyncConnection.connect(conninfo, autocommit=True)
        try:
            with self._told():
                for statement in SET_UP:
                    await self._conn.execute(statement.encode())
        except BaseException:
            await self._conn.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._conn is not None:
            # The server notices only after a moment that a connection was closed.
            with suppress(ConnectionError):
                await self._rows("SELECT pg_advisory_unlock_all()")
            await self._conn.close()

    # locks

    async def take(self, name: str) -> bool:
        """Take the lock of a thread or run; `False` where another connection has it.

        The one that has it gets it again, and must give it back as often.
        """
        return bool((await self._rows("SELECT pg_try_advisory_lock(%s)", _key(name)))[0][0])

    async def give_back(self, name: str) -> None:
        """Give the lock back."""
        await self._rows("SELECT pg_advisory_unlock(%s)", _key(name))

    async def check(self) -> None:
        """Return if the connection, and with it every lock taken, is still there.

        Raises:
            ConnectionError: It is not.
        """
        await self._rows("SELECT 1")

    # results

    async def store(self, run: str, problem: str, outcome: Outcome) -> bool:
        """Store what became of a problem; `False` where that is known already, and stays as it is."""
        # As ASCII text: a JSON column takes neither \\u0000 nor NaN, which a record may hold.
        text = json.dumps(outcome)
        return bool(await self._rows(INSERT, run, problem, text))

    async def stored(self, run: str, problem: str) -> bool:
        """Return whether a problem has a result."""
        return bool(await self._rows("SELECT FROM eval_results WHERE run = %s AND problem = %s", run, problem))

    async def finished(self, run: str) -> set[str]:
        """Return the problems of a run that have a result."""
        return {name for (name,) in await self._rows("SELECT problem FROM eval_results WHERE run = %s", run)}

    async def read(self, run: str, problems: Iterable[str]) -> dict[str, Outcome]:
        """Return what became of these problems, as far as they have a result, oldest first."""
        found = await self._rows(SELECT, run, list(problems))
        return {name: cast("Outcome", json.loads(text)) for name, text in found}

    async def forget(self, run: str, problems: Iterable[str]) -> None:
        """Take results out, so that these problems are run again."""
        await self._rows(
            "DELETE FROM eval_results WHERE run = %s AND problem = ANY(%s) RETURNING 1", run, list(problems)
        )

    async def _rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        if self._conn is None:
            raise ConnectionError("the table is not open; use it in `async with`")
        with self._told():
            return await (await self._conn.execute(statement.encode(), values)).fetchall()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Within the block, a lost or refused connection is a ConnectionError without the password."""
        import psycopg

        shown = without_secrets(self._url)
        try:
            yield
        except psycopg.ProgrammingError as error:
            if error.diag.message_primary is None:  # not the server's: what can't read the URL quotes it
                raise ValueError(f"{shown!r} can't be used: are special characters percent-encoded?") from None
            raise
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            reason = error.diag.message_primary or " ".join(str(error).split()) or type(error).__name__
            raise ConnectionError(f"{shown!r} can't be reached: {reason}") from None


def postgres_url(url: str) -> str:
    """Return the URL of a PostgreSQL database as it is.

    Raises:
        ValueError: It is another, or none.
    """
    if kind_and_place(url)[0] != "postgres":
        raise ValueError(
            f"{without_secrets(url)!r} is not a PostgreSQL URL, and workers on several machines share one database: "
            "use postgresql://user:password@host:port/database"
        )
    return url


def _key(name: str) -> int:
    """Return the number by which PostgreSQL knows a lock."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8, person=b"redraft").digest(), "big", signed=True)


NETWORK: Mapping[str, Any] = {
    **{"connect_timeout": 10, "keepalives_idle": 20, "keepalives_interval": 5, "keepalives_count": 4},
    "tcp_user_timeout": 40_000,
}
"""A connection whose other end is gone without a goodbye is noticed within 40 s; by default in two hours."""

SET_UP = (
    # The same on the server's side: it must give up the locks of a worker whose machine is gone.
    "SET tcp_keepalives_idle = 20",
    "SET tcp_keepalives_interval = 5",
    "SET tcp_keepalives_count = 4",
    "SET idle_session_timeout = 0",
    # One after the other: two that make a table at once fail, in spite of IF NOT EXISTS.
    f"SELECT pg_advisory_lock({_key('set up eval_results')})",
    """CREATE TABLE IF NOT EXISTS eval_results (
        run TEXT NOT NULL,
        problem TEXT NOT NULL,
        outcome TEXT NOT NULL,
        stored_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
        PRIMARY KEY (run, problem)
    )""",
    f"SELECT pg_advisory_unlock({_key('set up eval_results')})",
)
INSERT = """INSERT INTO eval_results (run, problem, outcome) VALUES (%s, %s, %s)
    ON CONFLICT (run, problem) DO NOTHING RETURNING 1"""
SELECT = "SELECT problem, outcome FROM eval_results WHERE run = %s AND problem = ANY(%s) ORDER BY stored_at"
DELETE = "DELETE FROM eval_results WHERE run = %s AND problem = ANY(%s) RETURNING 1"
