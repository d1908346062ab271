"""The SQLite file of a stored index: its schema, its facts, and who may write it. Internal."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._files import check_schema, make_private

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from langchain_core.documents import Document

__all__ = [
    "about_index",
    "add_passage",
    "facts_of",
    "index_path",
    "note",
    "opened",
    "renewing",
    "title",
    "unlink",
    "writing",
]

APPLICATION = 0x72656472
"""Marks a SQLite file as ours; `file` shows it."""
FORMAT = 1
SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE files (
    id INTEGER PRIMARY KEY, source TEXT NOT NULL UNIQUE, hash TEXT NOT NULL, left_out TEXT NOT NULL DEFAULT ''
);
CREATE TABLE passages (
    id INTEGER PRIMARY KEY, file INTEGER NOT NULL, text TEXT NOT NULL, metadata TEXT NOT NULL, vector BLOB NOT NULL
);
CREATE INDEX passages_of_files ON passages (file);
CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'porter unicode61');
"""


def index_path(name: str | os.PathLike[str]) -> Path:
    """Return the file of an index: in the user's data folder for a name, and a path as it is.

    Raises:
        ValueError: It is no name.
    """
    from ..models.weights import data_dir

    if not isinstance(name, str):
        return Path(name)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise ValueError(
            f"an index is named by letters, digits, dots, dashes and underscores, up to 64, not {name!r:.80}"
        )
    return data_dir() / "indexes" / f"{name}.sqlite"


def opened(path: Path, *, create: bool = False) -> sqlite3.Connection:
    """Return a connection to an index.

    Raises:
        ValueError: There is none, or the file is something else.
    """
    if not create and not path.is_file():
        raise ValueError(f"there is no index {title(path)}; `redraft index list` shows those that there are")
    # Never `mode=ro`: what a killed process left half written must be rolled back by who reads next.
    if create:
        make_private(path)
    database = sqlite3.connect(path, timeout=30.0, check_same_thread=False, factory=_Connection)
    try:
        check_schema(database, ["about", "files", "passages"], path)
        database.execute("PRAGMA trusted_schema = OFF")
        marks = [database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
        if create and marks == [0, 0]:
            database.execute("PRAGMA journal_mode = WAL")
            database.executescript(
                f"BEGIN; {SCHEMA} PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT}; COMMIT;"
            )
            return database
    except sqlite3.DatabaseError as error:
        database.close()
        raise ValueError(f"{path} is no index of redraft's ({error})") from None
    if marks == [APPLICATION, FORMAT]:
        return database
    database.close()
    if marks[0] != APPLICATION:
        raise ValueError(f"{path} is no index of redraft's")
    raise ValueError(f"{path} is of format {marks[1]}, and this version reads {FORMAT}; index its folder again")


class _Connection(sqlite3.Connection):
    """A connection that is closed when nobody holds it any more: copies of a retriever share one."""

    def __del__(self) -> None:
        self.close()


def about_index(database: sqlite3.Connection) -> dict[str, Any]:
    """Return the noted facts of an open index."""
    facts = {name: json.loads(value) for name, value in database.execute("SELECT name, value FROM about")}
    return {"unfinished": True, **facts}


def note(database: sqlite3.Connection, **facts: Any) -> None:
    """Note facts about an index, in place of those of the same names."""
    with database:
        rows = [(name, json.dumps(value)) for name, value in facts.items()]
        database.executemany("INSERT OR REPLACE INTO about VALUES (?, ?)", rows)


def facts_of(path: Path) -> dict[str, Any]:
    """Return the noted facts of an index, and how many files and passages it holds."""
    with closing(opened(path)) as database:
        about = about_index(database)
        files = database.execute("SELECT count(*) FROM files WHERE left_out = ''").fetchone()[0]
        passages = database.execute("SELECT count(*) FROM passages").fetchone()[0]
    return {"sources": [], **about, "files": files, "passages": passages}


def add_passage(database: sqlite3.Connection, number: int | None, one: Document, text: str, vector: bytes) -> None:
    """Add a passage of the file with that number, the text that words are searched in, and its vector."""
    added = database.execute(
        "INSERT INTO passages (file, text, metadata, vector) VALUES (?, ?, ?, ?)",
        (number, one.page_content, json.dumps(one.metadata), vector),
    )
    database.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (added.lastrowid, text))


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Hold the index for writing; the system lets go of it also where this process is killed.

    Raises:
        ValueError: Another process has it.
    """
    make_private(path.with_suffix(".lock"))
    with closing(sqlite3.connect(path.with_suffix(".lock"), timeout=0, isolation_level=None)) as lock:
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            raise ValueError(f"another process is writing the index {title(path)}: wait until it is done") from None
        yield


def unlink(path: Path) -> None:
    """Delete a database with the files beside it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def title(path: Path) -> str:
    """Return the name of an index by its file."""
    return path.stem


def renewing(path: Path) -> str:
    """Return the command that renews an index."""
    return f"`redraft index --name {title(path)}`"
