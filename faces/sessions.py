"""Sessions: the database that a command works on, a thread in it, and the default model. Internal."""

from __future__ import annotations

import os
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .problems import DEFAULT_DB, BadInputError, bad_input

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..state import Thread
    from ..state.storage.index import RunRow
    from .run_config import RunConfig

__all__ = [
    "OPENAI_DEFAULT",
    "any_reader",
    "checked_thread_id",
    "encryption_key",
    "every_row",
    "known",
    "known_id",
    "listing",
    "model_or_default",
    "opened",
    "read_thread",
    "seal_key",
]

OPENAI_DEFAULT = "openai:gpt-5-mini"


def encryption_key(db: str = DEFAULT_DB) -> str | None:
    """Return the encryption key of a database, REDRAFT_ENCRYPTION_KEY; `None` where it is empty, and for memory."""
    from ..state.storage.checkpointers import IN_MEMORY

    return None if db in IN_MEMORY else os.environ.get("REDRAFT_ENCRYPTION_KEY", "").strip() or None


def seal_key() -> str | None:
    """Return the key that seals a database's checkpoints, REDRAFT_SEAL_KEY; `None` where it is not set or empty."""
    return os.environ.get("REDRAFT_SEAL_KEY", "").strip() or None


@contextmanager
def opened(db: str, *, create: bool = False, read_only: bool = False) -> Iterator[Any]:
    """Give the saver of a database.

    Args:
        db: As `open_checkpointer` takes it.
        create: A SQLite file that is not there is made; else that is an error.
        read_only: Nothing is written, so that a database of somebody else's stays as it is.

    Raises:
        BadInputError: The database can't be opened.
    """
    from ..state.storage.checkpointers import kind_and_place

    key, seal = encryption_key(db), seal_key()
    with bad_input():
        kind, place = kind_and_place(db)
        # SQLite would make an empty file of a misspelt name, in which every thread seems to be gone.
        if kind == "sqlite" and not create and not Path(place).exists():
            raise BadInputError(f"there is no database {place!r}; `redraft run` makes one, --db names another")
        from ..state import open_checkpointer

        saver = open_checkpointer(db, key=key, seal_key=seal, read_only=read_only).open()
    try:
        yield saver
    finally:
        saver.close()


@contextmanager
def listing(db: str) -> Iterator[Any]:
    """Give what lists the threads of a database: its tables alone, where they can tell; else its saver.

    Raises:
        BadInputError: The database can't be opened.
    """
    from ..state.storage.checkpointers import kind_and_place

    with bad_input():
        kind, place = kind_and_place(db)
        index = None
        if encryption_key(db):
            pass
        elif kind == "sqlite" and Path(place).is_file():
            from ..state.storage.thread_rows import open_index

            index = open_index(Path(place))
        elif kind == "postgres":
            # Where its driver is missing, the saver says what to install.
            with suppress(ImportError):
                from ..state.storage import postgres_reading

                index = postgres_reading.open_index(place)
    if index is None:
        with opened(db, read_only=True) as saver:
            yield saver
        return
    with closing(index):
        yield index


def read_thread(db: str, name: str, plain: str, read: Callable[[Thread], Any]) -> tuple[str, Any]:
    """Return the id of a thread and the result of a read; of the loop's threads without importing LangGraph.

    Args:
        db: The database.
        name: As `known_id` takes it.
        plain: A function of `plain_threads`, which reads a thread's rows without LangGraph.
        read: Reads the thread by its saver, where the rows alone leave a doubt or have a seal to be checked.

    Raises:
        BadInputError: The database can't be opened, has no such thread, several begin so, or it has no record of ours.
    """
    with listing(db) as saver:
        thread_id = known_id(saver, name)
        if seal_key() is None:
            from ..state.threads import plain_threads

            result = saver.read_rows(getattr(plain_threads, plain), thread_id)
            if result is not None:
                return thread_id, result
    from ..state import Thread

    with opened(db, read_only=True) as saver, bad_input():
        return thread_id, read(Thread(any_reader(saver, thread_id), thread_id))


def every_row(index: Any, **wanted: Any) -> Iterator[RunRow]:
    """Yield the row of each thread, or those that `RunIndex.list` finds by what is wanted, the newest first."""
    last = None
    while page := index.list(limit=500, before=last, **wanted):
        yield from page
        last = page[-1].position


def known_id(saver: Any, name: str) -> str:
    """Return the id of the thread that a user means, as `known` does."""
    return known(saver, name)[0]


def known(saver: Any, name: str) -> tuple[str, RunRow | None]:
    """Return the thread that a user means, by its id, the beginning of no other, or `last`, which moved last.

    Returns:
        Its id, and its row; a thread that no graph of redraft has run has none.

    Raises:
        BadInputError: There is no such thread, or several begin so.
    """
    row = saver.runs.get(name)
    if row is not None or saver.get_tuple({"configurable": {"thread_id": name}}) is not None:
        return name, row
    ids = saver.runs.ids()[:1] if name == "last" else saver.runs.ids(name) if name else []
    if not ids:
        raise BadInputError(f"there is no thread {name!r} here; `redraft threads` lists those that are")
    if len(ids) > 1:
        raise BadInputError(
            f"{name!r} is the beginning of {len(ids)} ids: {', '.join([*ids[:5], *('…' for _ in ids[5:6])])}"
        )
    return str(ids[0]), saver.runs.get(ids[0])


def any_reader(saver: Any, thread_id: str, recipe: RunConfig | None = None) -> Any:
    """Return a graph that reads a thread whether it is there or not, and whoever built its own graph.

    It is chosen by the preset that the thread was run with. For a thread whose graph was built in Python, which names
    none, the newest checkpoint tells a search by the state keys that only a search has.

    Args:
        saver: The database.
        thread_id: The thread.
        recipe: Of the thread, where it was read already.
    """
    from ..graphs.presets import PRESETS
    from ..state.checked_values import BadCheckpointError
    from .run_config import RunConfig

    row = saver.runs.get(thread_id)
    values: dict[str, Any] = {}
    if row is None or row.preset not in {preset.name for preset in PRESETS}:  # whose states have no keys but the loop's
        with suppress(BadCheckpointError):  # whoever reads the thread says so
            checkpoint = saver.get_tuple({"configurable": {"thread_id": thread_id}})
            values = {} if checkpoint is None else checkpoint.checkpoint["channel_values"]
    if recipe is None:
        with suppress(BadInputError):  # built in Python, or by another version: it can be read all the same
            recipe = RunConfig.of_thread(saver, thread_id, row)
    human = recipe is not None and bool(recipe.options.get("human"))
    search = row.preset == "branching" if row and row.preset else values.keys() >= SEARCH_KEYS
    return RunConfig.reader(saver, human=human, search=search, own=[*values])


SEARCH_KEYS = {"search", "plans", "going", "judging"}


def model_or_default(spec: str | None) -> tuple[str, str | None]:
    """Return the spec of the model to use, and what to say where the user named none."""
    if spec is not None and spec.strip():
        return spec, None
    if os.environ.get("OPENAI_API_KEY"):
        return OPENAI_DEFAULT, f"no --model, and OPENAI_API_KEY is set: using {OPENAI_DEFAULT}"
    return "local", (
        "no --model and no OPENAI_API_KEY: using the embedded model (SmolLM2-135M), which is tiny and often wrong; "
        "name a better one with --model or REDRAFT_MODEL"
    )


def checked_thread_id(thread_id: str) -> str:
    """Return the id.

    Raises:
        BadInputError: It is blank or holds characters that can't be printed.
    """
    if not thread_id.strip() or not thread_id.isprintable():
        raise BadInputError(f"{thread_id!r} can't be a thread's id: give one that can be printed")
    return thread_id
