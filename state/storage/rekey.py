"""Changing the key of an encrypted database: all that is encrypted is written anew, in one transaction. Internal."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..._files import check_schema
from .checkpointers import kind_and_place, without_secrets
from .encryption import HIDDEN, TAG_MARK, TEXT_MARK, EncryptionKeyError, Vault, check_key, key_bytes
from .thread_rows import query_on

__all__ = ["rekey"]

TABLES = (
    *("checkpoints", "writes", "checkpoint_blobs", "checkpoint_writes", "runs", "redraft_journal"),
    *("served_threads", "served_runs", "served_items", "redraft_encryption"),
)
"""Tables that hold what is encrypted, on one database or the other; the server's among them."""


def rekey(url: str | Path, old: str | bytes, new: str | bytes) -> int:
    """Encrypt a database with another key, and return how many values were written anew.

    It happens wholly or not at all, and while nobody else has the database open: a process that goes on with the old
    key would write what nobody can read.

    Args:
        url: As `open_checkpointer` takes it.
        old: The key that the database has.
        new: The key that it gets.

    Raises:
        EncryptionKeyError: A key is none, the old one is not the database's, or the database is not encrypted; or a row
            was written with another key, or changed: it is named.
        ValueError: There is no such database, or somebody else has it open.
    """
    before, after = Vault(key_bytes(old)), Vault(key_bytes(new))
    kind, place = kind_and_place(url)
    if kind == "memory":
        raise ValueError("what is kept in memory is not encrypted")
    if kind == "sqlite":
        return _sqlite(Path(place), before, after)
    return _postgres(place, before, after)


def _anew(table: str, row: Mapping[str, Any], before: Vault, after: Vault) -> dict[str, Any]:
    """Return the columns of a row that are encrypted, encrypted anew."""
    changed: dict[str, Any] = {}
    tag = row.get("type")
    try:
        for name, value in row.items():
            if isinstance(value, str) and value.startswith(TEXT_MARK):
                changed[name] = after.hide(before.reveal(value))
            elif name == "metadata" and value is not None:
                fields = value if isinstance(value, dict) else json.loads(value)
                if isinstance(fields, dict) and HIDDEN in fields:
                    renewed = {**fields, HIDDEN: after.hide(before.reveal(fields[HIDDEN]))}
                    # Of the type that the column has.
                    text = json.dumps(renewed, ensure_ascii=False)
                    changed[name] = text.encode() if isinstance(value, bytes) else text
            elif isinstance(value, bytes | memoryview) and isinstance(tag, str) and tag.endswith(TAG_MARK):
                changed[name] = after.seal(*before.unseal(tag, bytes(value)))[1]
    except ValueError as error:
        which = f" of thread {row['thread_id']!r}" if "thread_id" in row else ""
        raise EncryptionKeyError(f"a row{which} in {table!r} is refused, so the key stays: {error}") from None
    return changed


def _sqlite(path: Path, before: Vault, after: Vault) -> int:
    if not path.is_file():
        raise ValueError(f"there is no database {str(path)!r}")
    count = 0
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        check_schema(connection, TABLES, path)
        connection.row_factory = sqlite3.Row
        # With a write-ahead log this fails as long as any other connection is open.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        _check(partial(query_on, connection), tables, before, str(path))
        for table in filter(tables.__contains__, TABLES):
            ids = [rowid for (rowid,) in connection.execute(f"SELECT rowid FROM {table}")]  # noqa: S608
            for rowid in ids:
                row = connection.execute(f"SELECT * FROM {table} WHERE rowid = ?", (rowid,)).fetchone()  # noqa: S608
                changed = _anew(table, dict(row), before, after)
                count += len(changed)
                if changed:
                    columns = ", ".join(f"{name} = ?" for name in changed)
                    connection.execute(f"UPDATE {table} SET {columns} WHERE rowid = ?", (*changed.values(), rowid))  # noqa: S608
        connection.execute("COMMIT")
        # What was encrypted with the old key would else stay in pages that are free now.
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise
        raise ValueError(f"{str(path)!r} is open elsewhere: end the runs and servers that use it first") from None
    finally:
        connection.close()
    return count


def _postgres(url: str, before: Vault, after: Vault) -> int:
    try:
        import psycopg
        from psycopg import sql
        from psycopg.rows import dict_row

        from .postgres_reading import SELECT_TABLES
        from .postgres_reading import query_on as query_rows
    except ImportError as error:
        raise ImportError(f'PostgreSQL needs an extra: pip install ".[postgres]" in a checkout ({error})') from None
    count, masked_url = 0, without_secrets(url)
    try:
        connection = psycopg.connect(url, autocommit=True)
    except psycopg.Error as error:
        raise ConnectionError(f"can't open {masked_url!r}: {str(error).splitlines()[0]}") from None
    with connection:
        # A session that was closed just now is listed for some moments more.
        for _ in range(PATIENCE):
            if not (others := connection.execute(OTHERS).fetchall()):
                break
            connection.execute("SELECT pg_sleep(0.1)")
        if others:
            raise ValueError(f"{masked_url!r} is open elsewhere: end the runs and servers that use it first")
        with connection.transaction():
            tables = {name for (name,) in connection.execute(SELECT_TABLES)}
            _check(partial(query_rows, connection), tables, before, masked_url)
            for table in filter(tables.__contains__, TABLES):
                name = sql.Identifier(table)
                # Whoever opens the database meanwhile waits here, and finds the new key.
                connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(name))
                # On the server: a table may be larger than memory.
                with connection.cursor("redraft_rekey", row_factory=dict_row) as rows:
                    for row in rows.execute(sql.SQL("SELECT ctid::text AS place, * FROM {}").format(name)):
                        changed = _anew(table, {key: row[key] for key in row if key != "place"}, before, after)
                        count += len(changed)
                        if changed:
                            columns = sql.SQL(", ").join(
                                sql.SQL("{} = {}").format(sql.Identifier(column), sql.Placeholder())
                                for column in changed
                            )
                            update = sql.SQL("UPDATE {} SET {} WHERE ctid = %s::tid").format(name, columns)
                            connection.execute(update, (*changed.values(), row["place"]))
    return count


PATIENCE = 20
OTHERS = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND usename = current_user "
    "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
)


def _check(query: Any, tables: set[str], before: Vault, shown: str) -> None:
    """Raise EncryptionKeyError unless this is the key of a database that is encrypted."""
    if "checkpoints" not in tables:
        raise ValueError(f"{shown!r} holds no checkpoints")
    check_key(query, before, shown, begun="redraft_encryption" in tables)
