"""Files and SQLite databases at paths that somebody else may have prepared."""

from __future__ import annotations

import errno
import io
import os
import secrets
import sqlite3
import stat
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

__all__ = [
    "add_line",
    "appended",
    "check_schema",
    "limit_values",
    "locked",
    "make_private",
    "opened_text",
    "read_file",
    "write_file",
]

PRIVATE, USUAL = 0o600, 0o666
"""Modes of a new file, less the umask: for its owner alone, and as every program makes them."""
FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)

MOST_BYTES = 160 * 2**20
"""Of one value that SQLite makes or reads: more than any that redraft writes, and far from what a machine has."""


@contextmanager
def opened_text(path: str | os.PathLike[str], *, stdin: bool = False) -> Iterator[io.TextIOWrapper]:
    """Open a file that a user wrote, to be read as it comes: UTF-8, with or without a byte order mark.

    Args:
        path: `~` is the home.
        stdin: Whether `-` is standard input.

    Raises:
        ValueError: Within the block, where what is read is not UTF-8.
        OSError: It can't be opened or read.
    """
    name = os.fspath(path)
    piped = stdin and name == "-"
    with nullcontext(sys.stdin.buffer) if piped else open(os.path.expanduser(name), "rb") as binary:
        text = io.TextIOWrapper(binary, encoding="utf-8-sig")
        try:
            yield text
        except UnicodeDecodeError as error:
            at = f" at byte {binary.tell() - len(error.object) + error.start + 1:,}" if binary.seekable() else ""
            raise ValueError(f"{'standard input' if piped else repr(name)} is not UTF-8: {error.reason}{at}") from None
        finally:
            text.detach()


def read_file(path: str | os.PathLike[str], *, stdin: bool = False) -> str:
    """Return the text of a file that a user wrote; arguments and errors as of `opened_text`."""
    with opened_text(path, stdin=stdin) as text:
        return text.read()


def write_file(path: str | os.PathLike[str], content: str | bytes, *, private: bool = False) -> None:
    """Write a file, whole or not at all; what is there is replaced, and a link is not followed.

    Args:
        path: Where it goes.
        content: Text is written as UTF-8, its line ends as they are.
        private: Whether a new file is for its owner alone; one that is there keeps its mode.

    Raises:
        OSError: What is there is a link or no regular file, or the file can't be written.
    """
    target = Path(path)
    mode = PRIVATE if private else USUAL
    with suppress(FileNotFoundError):
        mode = stat.S_IMODE(_regular(target.lstat(), target).st_mode)
    beside = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.tmp")
    data = content.encode() if isinstance(content, str) else content
    try:
        # Nobody knows its name beforehand, and where a file has it nothing is written.
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | FLAGS, mode), "wb") as file:
            file.write(data)
        if hasattr(os, "chmod") and target.exists():
            beside.chmod(mode)
        beside.replace(target)
    except OSError as error:  # the name that the user knows
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    finally:
        with suppress(OSError):
            beside.unlink()


def appended(path: str | os.PathLike[str]) -> io.FileIO:
    """Return a file open for adding to its end, unbuffered; a new one is for its owner alone, and no link is followed.

    Raises:
        OSError: What is there is a link or no regular file, or it can't be opened.
    """
    # A pipe without a reader would else hold the program up.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | FLAGS | getattr(os, "O_NONBLOCK", 0)
    try:
        number = os.open(path, flags, PRIVATE)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise _not_ours(path) from None
        raise
    try:
        _regular(os.fstat(number), path)
        return io.FileIO(number, "ab")
    except BaseException:
        os.close(number)
        raise


def add_line(file: io.FileIO, line: bytes, path: str | os.PathLike[str]) -> None:
    """Add a line, without its end, to a file of `appended`: whole or not at all.

    Raises:
        OSError: There is no room for it. The file is as it was.
    """
    before = os.fstat(file.fileno()).st_size
    try:
        if file.write(line + b"\n") > len(line):
            return
        number = errno.ENOSPC
    except OSError as error:
        number = error.errno or errno.EIO
    file.truncate(before)  # what fitted would be glued to the next line
    raise OSError(number, os.strerror(number), os.fspath(path))


def locked(path: str | os.PathLike[str], busy: str) -> int | None:
    """Return a descriptor that holds the lock of a file or folder until it is closed, or its process ends.

    Args:
        path: It exists; a file is not replaced meanwhile.
        busy: What is said where another holds it.

    Raises:
        RuntimeError: Another holds it.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    lock = os.open(path, os.O_RDONLY | FLAGS)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise RuntimeError(busy) from None
    except OSError:  # a file system without locks
        pass
    return lock


def make_private(path: str | os.PathLike[str]) -> None:
    """Make an empty file for its owner alone, where there is none: a database, whose other files get its mode."""
    with suppress(FileExistsError):
        # Of a link that leads nowhere SQLite makes the target.
        os.close(os.open(os.path.realpath(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL | FLAGS, PRIVATE))


def limit_values(database: sqlite3.Connection) -> None:
    """Let a connection make and read no value beyond `MOST_BYTES`, which SQLite refuses before it takes the memory.

    Text that is no UTF-8 is read with a mark in place of what can't be: one such value would else end a whole list.
    """
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
    # No function of Python's: it is called for each text of each row.
    database.text_factory = partial(str, encoding="utf-8", errors="replace")


def check_schema(database: sqlite3.Connection, tables: Collection[str], name: object) -> None:
    """Raise ValueError where reading or writing our tables would run what a database's author wrote.

    A view can take any time and memory, a computed column too, and a trigger acts on each write. It limits values, too.

    Args:
        database: An open connection.
        tables: The names of the tables that are read and written; others of the user's may be anything.
        name: What the database is called.
    """
    limit_values(database)
    wanted = {one.lower() for one in tables}
    bad_values = database.execute(
        "SELECT iif(sql LIKE 'CREATE VIRTUAL%', 'virtual table', type), name, tbl_name FROM sqlite_master"
    )
    for kind, called, table in bad_values.fetchall():
        if kind in ("view", "trigger", "virtual table") and str(table).lower() in wanted:
            raise ValueError(
                f"{str(name)!r} has a {kind} {called!r:.80} where redraft has a table of its own, and is not used: it "
                "could take any time and memory"
            )
    for table in sorted(wanted):
        for column in database.execute("SELECT name, hidden FROM pragma_table_xinfo(?)", (table,)).fetchall():
            if column[1] in (2, 3):
                raise ValueError(f"{str(name)!r} computes the column {column[0]!r} of {table!r}, and is not used")


def _regular(told: os.stat_result, path: str | os.PathLike[str]) -> os.stat_result:
    if not stat.S_ISREG(told.st_mode):
        raise _not_ours(path)
    return told


def _not_ours(path: str | os.PathLike[str]) -> OSError:
    return FileExistsError(errno.EEXIST, "is a link or no regular file, and is not written through", os.fspath(path))
