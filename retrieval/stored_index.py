"""Stored index: passages, their words and vectors in one SQLite file. Internal.

Vectors are loaded when the index is first searched, which takes a fraction of a second for 18,000, and searched by one
matrix product; words are searched by SQLite's own full-text index. Several processes may search while another writes.
"""

from __future__ import annotations

import json
import math
import os
import re
import sqlite3
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing
from operator import mul
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from pydantic import PrivateAttr

from ..models.embeddings import embeddings as named_embeddings
from .index_file import about_index, index_path, opened, renewing
from .retrievers import IndexRetriever, indexed

__all__ = ["PROBE", "StoredIndex", "check_model", "open_index"]

MOST_FOUND = 4096
"""Vectors remembered of passages that were found, for `stored_vectors`: 6 MB."""
MOST_WORDS = 64
"""Different words of a query that are searched for."""
MOST_SECONDS = 20.0
"""That a search for words takes; among 18,000 passages it is a few milliseconds."""
STEPS = 1000
"""Of SQLite between two looks at the clock."""
SAME = 0.999
"""Cosine of the probe's vectors from which two models are the same."""
PROBE = "redraft keeps its index"


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
    with closing(opened(path)) as database:
        about = about_index(database)
        model = None
        if vectors:
            model = named_embeddings(about["model"] if embeddings is None else embeddings)
            check_model(about, model, path)
    if about["unfinished"]:
        warnings.warn(
            f"the index {path.stem} is unfinished: it is being written, or that was interrupted; "
            f"{renewing(path)} goes on",
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
        self._database = opened(Path(self.path))

    def close(self) -> None:
        """Close the file; the index can't be searched any more."""
        self._database.close()

    def stored_vectors(self, texts: Sequence[str], embeddings: Embeddings) -> dict[str, Any]:
        """Return the vectors that the index holds of passages that it found, by their text."""
        if embeddings is not self.embeddings:
            return {}
        import numpy as np

        with self._lock:
            stored = {text: self._found[text] for text in texts if text in self._found}
        return {text: np.frombuffer(vector, "<f4").tolist() for text, vector in stored.items()}

    def _rankings(self, query: str, depth: int) -> dict[str, list[Document]]:
        wanted = self.embeddings.embed_query(query) if self.vectors and self.embeddings is not None else None
        rankings: dict[str, list[int]] = {}
        # One connection for all threads: a search takes a few milliseconds.
        with self._lock:
            if wanted is not None:
                rankings["vectors"] = self._by_vectors(wanted, depth)
            if self.hybrid:
                rankings["bm25"] = self._by_words(query, depth)
            wanted_ids = list({key for ids in rankings.values() for key in ids})
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
        return {name: [documents[key] for key in ids if key in documents] for name, ids in rankings.items()}

    def _by_vectors(self, wanted: Sequence[float], depth: int) -> list[int]:
        import numpy as np

        # It changes when another connection has written.
        if self._seen != (seen := self._database.execute("PRAGMA data_version").fetchone()[0]):
            if (probe := about_index(self._database)["probe"]) != self._probe:
                if self._probe is not None:
                    raise ValueError(
                        f"the index {Path(self.path).stem} was made anew with another model: open it again"
                    )
                self._probe = probe
            ids, vectors = [], bytearray()  # held once, and not as rows besides
            for number, vector in self._database.execute("SELECT id, vector FROM passages"):
                ids.append(number)
                vectors += vector
            self._ids, self._matrix = ids, np.frombuffer(vectors, "<f4").reshape(len(ids), -1)
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
        expression = " OR ".join(f'"{word}"' for word in list(words)[:MOST_WORDS])
        deadline = time.monotonic() + MOST_SECONDS
        self._database.set_progress_handler(lambda: time.monotonic() > deadline, STEPS)
        try:
            rows = self._database.execute(
                "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?", (expression, depth)
            ).fetchall()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            raise ValueError(
                f"the index {Path(self.path).stem} takes over {MOST_SECONDS:g} s to search for these words"
            ) from None
        finally:
            self._database.set_progress_handler(None, 0)
        return [number for (number,) in rows]


def check_model(about: Mapping[str, Any], model: Embeddings, path: Path) -> None:
    """Raise ValueError unless a model makes the vectors that an index holds."""
    probe, stored = model.embed_query(PROBE), about["probe"]
    lengths = math.hypot(*probe) * math.hypot(*stored)
    if len(probe) == len(stored) and lengths and sum(map(mul, probe, stored)) / lengths >= SAME:
        return
    maker = " ".join(part for part in (about["model"], f"({about['version']})" if about["version"] else "") if part)
    raise ValueError(
        f"the index {path.stem} was made with {maker}, and this model makes other vectors: take that one, "
        f"or {renewing(path)} --rebuild reads everything again"
    )
