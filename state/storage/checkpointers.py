"""`open_checkpointer`: from a path or a URL to a saver, and how URLs are shown without their password. Internal."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from .postgres import IndexedPostgresSaver
    from .sqlite import IndexedSqliteSaver

    IndexedSaver: TypeAlias = IndexedPostgresSaver | IndexedSqliteSaver

__all__ = ["IN_MEMORY", "Checkpointer", "DatabaseKind", "kind_and_place", "open_checkpointer", "without_secrets"]

DatabaseKind: TypeAlias = Literal["memory", "sqlite", "postgres"]
IN_MEMORY = ("memory", ":memory:", "sqlite:///:memory:")
"""Names of a database that is gone with its process."""


def open_checkpointer(
    url: str | Path,
    *,
    key: str | bytes | None = None,
    seal_key: str | bytes | None = None,
    allow: Iterable[type] = (),
    synchronous: Literal["full", "normal"] = "full",
    read_only: bool = False,
) -> Checkpointer:
    """Return an opener (`with`, `async with`) of a saver that serves `invoke` and `ainvoke` and lists its threads.

    ```python
    with open_checkpointer("runs.sqlite") as saver:
        graph = build_refine_graph(model, checkpointer=saver)
        saver.runs.list(limit=10)
    ```

    Args:
        url: A SQLite file (`"runs.sqlite"`, `Path("runs.sqlite")`, `"sqlite:///runs.sqlite"`, and `"sqlite:////…"` for
            an absolute path; a leading `~` is the home folder, and a text may hold no `?`), `"postgresql://…"` (needs
            the `postgres` extra), or `"memory"` for one that is gone when the block ends.
        key: Encrypts tasks, drafts, critiques, replies and all other texts of runs: 64 hexadecimal digits
            (`openssl rand -hex 32`) or 32 bytes; needs the extra `encryption`. Thread ids, names of nodes and presets,
            times, scores and counts stay readable. A database is opened with the key that it was begun with, or
            that `redraft rekey` gave it. Default: nothing is encrypted.
        seal_key: Seals each checkpoint (HMAC-SHA256), in the same form as `key`. A thread that somebody changed who
            has not this key, or that has no seal, is refused, also where its hashes fit; `saver.seal_thread` seals one
            of before. Default: nothing is sealed, and no seal is looked at.
        allow: Types of your own (dataclasses, pydantic models, enums) that may be built from what the database holds.
            Default: plain data, LangChain's messages and LangGraph's own types, and nothing else.
        synchronous: Of SQLite. What is saved survives the death of the process either way. With `"full"` it also
            survives a loss of power: with `durability="sync"` no step begins before the one before is on the disk.
            With `"normal"` the last seconds may then be lost, each step as a whole; it saves a flush of the disk a
            step. PostgreSQL has its own setting, `synchronous_commit`.
        read_only: Write nothing, not even the tables that are ours: threads are listed, read and replayed, also those
            of a database that LangGraph's own saver made.

    Raises:
        ValueError: At once, if the URL is none of these, the key is none or `synchronous` is neither; on entering, if
            what it names is no such database, or was begun with another key or none.
        ImportError: On entering, if the `postgres` or the `encryption` extra is needed and not installed.
        OSError: On entering, if the file can't be opened or the server can't be reached.

    Example:
        >>> from redraft import build_refine_graph, open_checkpointer
        >>> from redraft.models import ScriptedModel
        >>> with open_checkpointer("runs.sqlite") as saver:
        ...     graph = build_refine_graph(ScriptedModel(["Rain on a roof.", "no issues"]), checkpointer=saver)
        ...     output = graph.invoke({"task": "Write about rain."}, {"configurable": {"thread_id": "one"}})
        ...     [row.thread_id for row in saver.runs.list(limit=10)]
        ['one']
    """
    if key is not None or seal_key is not None:
        from .encryption import key_bytes

        key = key if key is None else key_bytes(key)
        seal_key = seal_key if seal_key is None else key_bytes(seal_key, "a seal key")
    kind, place = kind_and_place(url)
    if key is not None and kind == "memory":
        raise ValueError("what is kept in memory is not encrypted: leave out key=, or give a database")
    if synchronous not in ("full", "normal"):
        raise ValueError(f"synchronous must be 'full' or 'normal', not {synchronous!r}")
    if synchronous == "normal" and kind == "postgres":
        raise ValueError(
            "synchronous='normal' is for SQLite; for PostgreSQL add ?options=-csynchronous_commit%3Doff to the URL"
        )
    options: dict[str, Any] = {"key": key, "seal_key": seal_key, "allow": tuple(allow), "synchronous": synchronous}
    return Checkpointer(partial(_opened, kind, place, **options, read_only=read_only))


def _opened(
    kind: DatabaseKind,
    place: str,
    *,
    key: bytes | None,
    seal_key: bytes | None,
    allow: Iterable[type],
    synchronous: Literal["full", "normal"],
    read_only: bool,
) -> IndexedSaver:
    """Open a database, and import what that takes; see `open_checkpointer`."""
    seal, vault = None, None
    if seal_key is not None:
        from .seal import Seal

        seal = Seal(seal_key)
    if kind == "memory":
        from .sqlite import IndexedMemorySaver

        return IndexedMemorySaver(allow=allow, seal=seal)
    if key is not None:
        from .encryption import Vault

        vault = Vault(key)
    options: dict[str, Any] = {"vault": vault, "seal": seal, "allow": allow, "read_only": read_only}
    if kind == "sqlite":
        from .sqlite import open_sqlite

        return open_sqlite(Path(place), synchronous=synchronous, **options)
    try:
        from .postgres import open_postgres
    except ImportError as error:
        raise ImportError(f'PostgreSQL needs an extra: pip install ".[postgres]" in a checkout ({error})') from None
    return open_postgres(place, shown=without_secrets(place), **options)


class Checkpointer:
    """A saver that is opened by `with` or `async with` and closed at the end of the block.

    Args:
        open_saver: Opens one.
    """

    def __init__(self, open_saver: Callable[[], IndexedSaver]) -> None:
        self.open = open_saver
        """Returns the saver, which the caller closes; `with` does both."""
        self._opened: list[IndexedSaver] = []

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"this is no saver yet, and has no {name!r}: {OPEN_IT}")

    def __enter__(self) -> IndexedSaver:
        self._opened.append(self.open())
        return self._opened[-1]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._opened.pop().close()

    async def __aenter__(self) -> IndexedSaver:
        import asyncio  # here, since the shell lists threads without it

        self._opened.append(await asyncio.to_thread(self.open))
        return self._opened[-1]

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        import asyncio

        await asyncio.to_thread(self._opened.pop().close)


OPEN_IT = "open it by `with open_checkpointer(…) as saver:`, and give `saver`"
HOST_AND_PORT = r"(?:\[[0-9A-Fa-f:.%]*\]|[^@:,\[\]]*)(?::\d*)?"
AUTHORITY = re.compile(rf"(?:[^@:]*(?::[^@]*)?@)?{HOST_AND_PORT}(?:,{HOST_AND_PORT})*")


def kind_and_place(url: str | Path) -> tuple[DatabaseKind, str]:
    """Return the kind of database, and the file or the URL to open.

    Raises:
        ValueError: If it names none; the message says what is accepted and holds no password.
    """
    if isinstance(url, Path):
        return "sqlite", os.path.expanduser(url)
    if not isinstance(url, str) or not url.strip() or "\0" in url or url.startswith("file:"):
        raise ValueError(_refusal(url))
    if url in IN_MEMORY:
        return "memory", ""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return "sqlite", _file(url, shown=url)
    if scheme == "sqlite" and rest.startswith("/") and rest != "/":
        return "sqlite", _file(rest[1:], shown=url)
    if scheme not in ("postgresql", "postgres"):
        raise ValueError(_refusal(url))
    # Checked before libpq reads it: what libpq says of a bad URL quotes parts of the password.
    authority, _, path = re.split(r"([/?#]|$)", rest, maxsplit=1)
    stray = "@" in path and ("@" not in authority or "@" in path.partition("?")[0])
    if stray or not AUTHORITY.fullmatch(authority):
        raise ValueError(
            f"{without_secrets(url)!r} is not a PostgreSQL URL: use postgresql://user:password@host:port/database, "
            "special characters percent-encoded"
        )
    return "postgres", url


def _file(path: str, *, shown: str) -> str:
    if "?" in path:
        raise ValueError(
            f"{without_secrets(shown)!r}: a SQLite file takes no options after a '?': "
            'give the file alone, such as "runs.sqlite"; a Path may hold a ? in its name'
        )
    return os.path.expanduser(path)  # unlike Path's, leaves the ~ of a file such as "~lock.sqlite" alone


def without_secrets(url: str) -> str:
    """Return the URL as messages show it: no password, and no query, which may hold one.

    Where they can't be told from the rest, nothing is shown but the scheme.
    """
    scheme, separator, rest = url.partition("://")
    userinfo, at, place = rest.rpartition("@")
    if re.search("[/?#@]", userinfo):
        return scheme + separator + "…"
    place = place.partition("?")[0]
    if not place.startswith("["):
        place = re.sub(r":(?!\d{1,5}(?:[/,]|$)).*", "", place, flags=re.DOTALL)
    return scheme + separator + userinfo.partition(":")[0] + at + place


def _refusal(url: object) -> str:
    return (
        f"{without_secrets(url) if isinstance(url, str) else url!r} names no checkpointer: "
        'give a SQLite file such as "runs.sqlite", "postgresql://user@host/database", or "memory"'
    )
