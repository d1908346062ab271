"""Housekeeping of stored indexes: list, delete, export and import them. Internal."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document

from ..nodes.passages import place_of
from .documents import chunk_id, passage
from .index_file import about_index, add_passage, facts_of, index_path, opened, renewing, title, unlink, writing

if TYPE_CHECKING:
    import os
    from pathlib import Path

__all__ = ["delete_index", "export_index", "import_index", "index_facts", "stored_indexes"]


def stored_indexes() -> list[dict[str, Any]]:
    """Return the facts of each index in the user's data folder, by name."""
    folder = index_path("x").parent
    return [index_facts(path.stem) for path in sorted(folder.glob("*.sqlite"))]


def index_facts(name: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the facts of an index: name, files, passages, model and its version, sources, size and time of change.

    Raises:
        ValueError: There is none, or another version made it.
    """
    path = index_path(name)
    facts = facts_of(path)
    shown = ("files", "passages", "model", "version", "sources", "unfinished", "changed")
    return {"name": title(path), **{key: facts.get(key) for key in shown}, "bytes": path.stat().st_size}


def delete_index(name: str | os.PathLike[str]) -> None:
    """Delete an index.

    Raises:
        ValueError: There is none, or another process is writing it.
    """
    path = index_path(name)
    if not path.exists():
        raise ValueError(f"there is no index {title(path)}")
    with writing(path):
        unlink(path)


def export_index(name: str | os.PathLike[str], target: Path) -> None:
    """Write an index into one file, which `import_index` reads.

    Raises:
        ValueError: There is no such index, it is unfinished, or the file exists.
    """
    path = index_path(name)
    if facts_of(path)["unfinished"]:
        raise ValueError(f"the index {title(path)} is unfinished: {renewing(path)} goes on")
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
        ValueError: The file is no such export, or there is an index of that name.
    """
    path = index_path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path):
        if path.exists():
            raise ValueError(f"there is an index {title(path)} already; delete it first, or give another --name")
        fresh = path.with_name(f".{path.name}.import")
        unlink(fresh)
        try:
            with closing(opened(source)) as theirs, closing(opened(fresh, create=True)) as ours, ours:
                _copy(theirs, ours)
            with closing(opened(fresh)) as ours:
                ours.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            fresh.replace(path)
        except (sqlite3.Error, TypeError, KeyError, UnicodeDecodeError) as error:
            raise ValueError(f"{source} is no whole index ({error})") from None
        finally:
            unlink(fresh)
    return index_facts(name)


def _copy(theirs: sqlite3.Connection, ours: sqlite3.Connection) -> None:
    """Copy what an index holds, row by row, each one checked."""
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
    for number, text, told, vector in theirs.execute("SELECT file, text, metadata, vector FROM passages"):
        metadata = json.loads(told)
        if not (
            type(number) is int and isinstance(text, str) and isinstance(metadata, dict)
            and isinstance(vector, bytes) and len(vector) == 4 * size
        ):  # fmt: skip
            raise ValueError("a passage in it is none")
        source, heading = str(metadata["source"]), str(metadata["heading"])
        own = {"source": source, "heading": heading, **place_of(metadata), "id": chunk_id(source, text)}
        add_passage(ours, number, Document(text, metadata=own), passage(text, heading), vector)
