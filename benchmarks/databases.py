"""Databases that a benchmark fills: new files, new databases of a PostgreSQL server, and the savers on them."""

from __future__ import annotations

import importlib.util
import sqlite3
import sys
import tempfile
import uuid
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

__all__ = ["empty_database", "new_database", "opened", "postgres_server", "stored_bytes"]

POSTGRES_CONNECTIONS = 10


@contextmanager
def postgres_server(url: str | None) -> Iterator[str | None]:
    """The server given, or the one that the tests start for themselves where PostgreSQL is installed."""
    if url:
        yield url
        return
    path = Path(__file__).parents[1] / "tests" / "postgres_server.py"
    spec = importlib.util.spec_from_file_location("postgres_server", path)
    if spec is None or spec.loader is None:
        yield None
        return
    servers = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(servers)
    if servers.missing():
        yield None
        return
    with servers.started() as server:
        yield server.url


@contextmanager
def empty_database(server: str) -> Iterator[str]:
    """A new database of this server, dropped afterwards."""
    import psycopg

    name = f"redraft_bench_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"')
    try:
        yield urlsplit(server)._replace(path=f"/{name}").geturl()
    finally:
        with psycopg.connect(server, autocommit=True) as admin:
            admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@contextmanager
def new_database(server: str | None) -> Iterator[str]:
    """A new SQLite file, or a new database of this PostgreSQL server: its path or URL."""
    if server is None:
        with tempfile.TemporaryDirectory() as folder:
            yield str(Path(folder) / "runs.sqlite")
    else:
        with empty_database(server) as url:
            yield url


@asynccontextmanager
async def opened(place: str, *, stock: bool) -> AsyncIterator[Any]:
    """The saver of redraft or of LangGraph on this file or database; PostgreSQL's pools are of one width."""
    if not stock:
        from redraft import open_checkpointer

        async with open_checkpointer(place) as saver:
            yield saver
    elif "://" not in place:
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async with AsyncSqliteSaver.from_conn_string(place) as saver:
            yield saver
    else:
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from psycopg.rows import dict_row
        from psycopg_pool import AsyncConnectionPool

        options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        async with AsyncConnectionPool(place, max_size=POSTGRES_CONNECTIONS, kwargs=options) as pool:
            saver = AsyncPostgresSaver(pool)  # type: ignore[arg-type]
            await saver.setup()
            yield saver


def stored_bytes(place: str) -> int:
    """Bytes of all tables with their indexes, after free pages are given back."""
    if "://" not in place:
        connection = sqlite3.connect(place)
        try:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("VACUUM")
        finally:
            connection.close()
        return Path(place).stat().st_size
    import psycopg

    sizes = "SELECT sum(pg_total_relation_size(relid))::bigint FROM pg_catalog.pg_statio_user_tables"
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute("VACUUM FULL")
        row = connection.execute(sizes).fetchone()
    return int(row[0]) if row and row[0] else 0
