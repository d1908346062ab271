"""Reading a PostgreSQL database without LangGraph. Internal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import tuple_row

from .thread_rows import PlainIndex, plain_index, postgres_rows

__all__ = ["LENGTHS", "SELECT_TABLES", "connection_to", "open_index", "query_on"]

LENGTHS = {
    "checkpoints": "pg_column_size(checkpoint) + pg_column_size(metadata)",
    "checkpoint_blobs": "pg_column_size(blob)",
    "checkpoint_writes": "pg_column_size(blob)",
    "redraft_journal": "pg_column_size(reply)",
}
"""How many bytes a row of each table holds."""
CONNECT_TIMEOUT_S = 10
SELECT_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = ANY (current_schemas(false))"


def open_index(url: str) -> PlainIndex | None:
    """Return the index of a database's own tables; `None` where only a saver can read it, or say what is wrong.

    That is a database that LangGraph's own saver made, one that is encrypted, and one that can't be reached.
    """
    try:
        conn = psycopg.connect(connection_to(url), autocommit=True)
    except psycopg.Error:
        return None
    query = partial(query_on, conn)
    try:
        tables = {name for (name,) in query(SELECT_TABLES, {})}
    except psycopg.Error:
        tables = set()
    return plain_index(query, tables, lengths=LENGTHS, rows_of=postgres_rows, close=conn.close, errors=psycopg.Error)


def connection_to(url: str) -> str:
    """Return the connection string with a limit on how long connecting takes; raises psycopg.Error."""
    parts = conninfo_to_dict(url)
    return make_conninfo(url, connect_timeout=parts.get("connect_timeout") or CONNECT_TIMEOUT_S)


def query_on(conn: psycopg.Connection[Any], statement: str, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
    """Run one statement and return its rows as tuples."""
    with conn.cursor(row_factory=tuple_row) as cur:
        cur.execute(statement.encode(), values)
        return cur.fetchall() if cur.description else []
