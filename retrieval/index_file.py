"""The SQLite file of a stored index: schema, facts, write lock, and how it is listed, deleted and shared. Internal."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from .._files import check_schema, make_private
from ..models.weights import data_dir
from ..nodes.documents import place_of
from .documents import chunk_id, passage

__all__ = [
    "about_index",
    "add_passage",
    "delete_index",
    "export_index",
    "facts_of",
    "import_index",
    "index_facts",
    "index_path",
    "note",
    "opened",
    "renewing",
    "stored_indexes",
    "unlink",
    "writing",
]

APPLICATION = 0x72656472
"""Marks a SQLite file as ours; `file` shows it."""
FORMAT = 1
MOST_ROWS = {"about": 100, "files": 500_000, "passages": 500_000}
"""Of an imported index, by its tables. Here and below: what a search can bear."""
MOST_PASSAGE = 32_000
"""Characters of a passage in an imported index, with its metadata."""
MOST_TEXT = 500_000_000
"""Characters of all passages in an imported index."""
MOST_VECTORS = 1 << 30
"""Bytes of all vectors in an imported index, which a search holds in memory."""
MOST_VALUE = 1 << 20
"""Bytes of any value or row that is read from a file to be imported."""
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
        raise ValueError(f"there is no index {path.stem}; `redraft index list` shows those that there are")
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
    """Return the noted facts of an open index.

    Raises:
        ValueError: What is noted can't be read.
    """
    rows = database.execute("SELECT name, value FROM about")
    try:
        return {"unfinished": True, **{name: json.loads(value) for name, value in rows}}
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"the index is damaged ({error}); index its folder again") from None


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


def add_passage(
    database: sqlite3.Connection, number: int | None, text: str, metadata: Mapping[str, Any], vector: bytes
) -> None:
    """Add a passage of the file with that number, with its vector; its heading counts among its words."""
    row = database.execute(
        "INSERT INTO passages (file, text, metadata, vector) VALUES (?, ?, ?, ?)",
        (number, text, json.dumps(metadata), vector),
    )
    words = passage(text, str(metadata.get("heading") or ""))
    database.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (row.lastrowid, words))


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
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            raise ValueError(f"another process is writing the index {path.stem}: wait until it is done") from None
        yield


def unlink(path: Path) -> None:
    """Delete a database with the files beside it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def renewing(path: Path) -> str:
    """Return the command that renews an index."""
    return f"`redraft index --name {path.stem}`"


def stored_indexes() -> list[dict[str, Any]]:
    """Return the facts of each index in the user's data folder, by name."""
    return [index_facts(path.stem) for path in sorted(index_path("x").parent.glob("*.sqlite"))]


def index_facts(name: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the facts of an index: name, files, passages, model and its version, sources, size and time of change.

    Raises:
        ValueError: There is none, or another version made it.
    """
    path = index_path(name)
    facts = facts_of(path)
    names = ("files", "passages", "model", "version", "sources", "unfinished", "changed")
    return {"name": path.stem, **{name: facts.get(name) for name in names}, "bytes": path.stat().st_size}


def delete_index(name: str | os.PathLike[str]) -> None:
    """Delete an index.

    Raises:
        ValueError: There is none, or another process is writing it.
    """
    path = index_path(name)
    if not path.exists():
        raise ValueError(f"there is no index {path.stem}")
    with writing(path):
        unlink(path)


def export_index(name: str | os.PathLike[str], target: Path) -> None:
    """Write an index into one file, which `import_index` reads.

    Raises:
        ValueError: There is no such index, it is unfinished, or the file exists.
    """
    path = index_path(name)
    if facts_of(path)["unfinished"]:
        raise ValueError(f"the index {path.stem} is unfinished: {renewing(path)} goes on")
    if target.exists():
        raise ValueError(f"{target} exists already")
    with closing(opened(path)) as database:
        database.execute("VACUUM INTO ?", (str(target),))


def import_index(source: Path, name: str | os.PathLike[str]) -> dict[str, Any]:
    """Make an index from an exported file, which may be anybody's: rows are checked, and nothing else is taken.

    Where its documents were is not taken over; to renew it, their folder must be named.

    Returns:
        Its facts, as `index_facts` gives them.

    Raises:
        ValueError: The file is no such export, it is too large (over 500,000 passages or files, 32,000 characters in a
            passage, 500,000,000 in all, or 1 GiB of vectors), or there is an index of that name.
    """
    path = index_path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path):
        if path.exists():
            raise ValueError(f"there is an index {path.stem} already; delete it first, or give another --name")
        fresh = path.with_name(f".{path.name}.import")
        unlink(fresh)
        try:
            with closing(opened(source)) as theirs, closing(opened(fresh, create=True)) as ours, ours:
                _copy(theirs, ours)
            with closing(opened(fresh)) as ours:
                ours.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            fresh.replace(path)
        except sqlite3.DataError:
            raise ValueError(
                f"{source} is too large to import: a value in it has over {MOST_VALUE >> 20} MiB"
            ) from None
        except (sqlite3.Error, TypeError, KeyError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"{source} is no whole index ({error})") from None
        finally:
            unlink(fresh)
    return index_facts(name)


def _copy(theirs: sqlite3.Connection, ours: sqlite3.Connection) -> None:
    """Copy what an index holds, row by row, each one checked."""
    theirs.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_VALUE)
    rows = {table: theirs.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in MOST_ROWS}  # noqa: S608
    for table, most in MOST_ROWS.items():
        _bounded(rows[table], most, f"rows in its table {table!r}")
    about = about_index(theirs)
    spec, size = about["model"], about["size"]
    probe = [float(value) for value in about["probe"]]
    if not re.fullmatch(r"static|minilm|openai:[\w.:/-]{1,100}", spec) or type(size) is not int or len(probe) != size:
        raise ValueError(f"it was made with a model that is not known here: {spec!r:.80}")
    facts = {"model": spec, "version": str(about["version"])[:100], "size": size, "probe": probe, "sources": []}
    for key, value in {**facts, "unfinished": False, "changed": str(about.get("changed"))[:40]}.items():
        ours.execute("INSERT INTO about VALUES (?, ?)", (key, json.dumps(value)))
    for number, source, key, why in theirs.execute("SELECT id, source, hash, left_out FROM files"):
        if not (type(number) is int and all(isinstance(one, str) for one in (source, key, why))):
            raise ValueError("a file in it is none")
        ours.execute("INSERT INTO files VALUES (?, ?, ?, ?)", (number, source, key, why))
    _bounded(rows["passages"] * 4 * size, MOST_VECTORS, "bytes of vectors")
    characters = 0
    for number, text, written, vector in theirs.execute("SELECT file, text, metadata, vector FROM passages"):
        _bounded(len(text) + len(written), MOST_PASSAGE, "characters in a passage")
        characters += len(text)
        _bounded(characters, MOST_TEXT, "characters in its passages")
        metadata = json.loads(written)
        if not (
            type(number) is int and isinstance(text, str) and isinstance(metadata, dict)
            and isinstance(vector, bytes) and len(vector) == 4 * size
        ):  # fmt: skip
            raise ValueError("a passage in it is none")
        source, heading = str(metadata["source"]), str(metadata["heading"])
        own = {"source": source, "heading": heading, **place_of(metadata), "id": chunk_id(source, text)}
        add_passage(ours, number, text, own, vector)


def _bounded(number: int, most: int, what: str) -> None:
    """Raise ValueError where an index to be imported has more of something than is taken."""
    if number > most:
        raise ValueError(f"it is too large to import: it has over {most:,} {what}")
