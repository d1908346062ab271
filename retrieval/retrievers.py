"""Retrievers. Internal.

An index by meaning (vectors) and by words (BM25), and the fusion of several into one ranking.
"""

from __future__ import annotations

import logging
import os
import uuid
import warnings
from abc import abstractmethod
from collections.abc import Generator, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from pydantic import Field, PrivateAttr

from ..models.embeddings import embeddings as named_embeddings
from ..nodes.documents import with_id
from ..state.dual import Do, adrive, at_once, calling, do, drive
from .documents import chunk_id, is_url, load_folder, load_page, passage

__all__ = [
    "RANK_CONSTANT",
    "DocumentIndex",
    "DualRetriever",
    "FusedRetriever",
    "IndexRetriever",
    "RankedRetriever",
    "folder_index",
    "fuse",
    "indexed",
    "open_sources",
]

RANK_CONSTANT = 60
"""As in Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet …" (SIGIR 2009)."""


def fuse(
    rankings: Sequence[Sequence[Document | str]], *, top_k: int, names: Sequence[str] | None = None
) -> list[Document]:
    """Return the best documents of several rankings, each once, best first.

    A document scores 1 / (60 + rank) in each ranking that holds it. The sum is its `score` in the metadata, and only
    ranks: with two rankings it is at most 0.033. `found_by` there names the searches that found it.

    Args:
        rankings: Each best first. Documents of one source with one text are the same; a text alone will do.
        top_k: The most documents to return.
        names: Of the searches that made the rankings; default: none is told. Where a document says itself which
            searches found it, as one of a `DocumentIndex` does, these stand in place of the name.

    Raises:
        TypeError: A ranking holds something else.
    """
    scores: dict[str, float] = {}
    documents: dict[str, Document] = {}
    finders: dict[str, list[str]] = {}
    for number, ranking in enumerate(rankings):
        seen: set[str] = set()
        for hit in ranking:
            if not isinstance(hit, Document | str):
                raise TypeError(f"a retriever must return documents or texts, not {hit!r:.200}")
            document = Document(hit) if isinstance(hit, str) else hit
            key = chunk_id(str(document.metadata.get("source") or ""), document.page_content)
            if key not in seen:
                seen.add(key)
                documents.setdefault(key, document)
                if names is not None:
                    finders.setdefault(key, []).extend(document.metadata.get("found_by") or [names[number]])
                scores[key] = scores.get(key, 0.0) + 1 / (RANK_CONSTANT + len(seen))
    return [
        Document(
            documents[key].page_content,
            metadata={
                **with_id(documents[key].metadata, key),
                "score": scores[key],
                **({"found_by": list(dict.fromkeys(finders[key]))} if names is not None else {}),
            },
        )
        for key in sorted(scores, key=lambda key: -scores[key])[:top_k]
    ]


class DualRetriever(BaseRetriever, arbitrary_types_allowed=True):
    """A LangChain retriever whose `invoke` and `ainvoke` run one `logic`."""

    @abstractmethod
    def logic(self, query: str, callbacks: Any, **options: Any) -> Generator[Do, Any, list[Document]]:
        """Yield calls, and return the documents; `options` are those of a single call."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        return drive(self.logic(query, run_manager.get_child(), **options))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        return await adrive(self.logic(query, run_manager.get_child(), **options))


class RankedRetriever(DualRetriever):
    """A retriever whose documents carry a rank score, and that may be asked for more of them in a single call."""

    top_k: int = Field(default=5, ge=1)

    def stored_vectors(self, texts: Sequence[str], embeddings: Embeddings) -> dict[str, Any]:
        """Return the vectors of texts that it found and keeps by this very model, by their text."""
        return {}


class FusedRetriever(RankedRetriever):
    """Asks several retrievers at once and fuses what they find.

    Args:
        retrievers: One or more.
        top_k: The most documents to return.
    """

    retrievers: list[BaseRetriever] = Field(min_length=1)

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.name = self.name or "+".join(retriever.get_name() for retriever in self.retrievers)

    def logic(self, query: str, callbacks: Any, *, top_k: int = 0, **_: Any) -> Generator[Do, Any, list[Document]]:
        """Return the fused documents. In a sync run one retriever is asked after the other: not all bear threads."""
        names = [retriever.get_name() for retriever in self.retrievers]
        config = {"callbacks": callbacks}
        deeper = {RankedRetriever: {"top_k": top_k}, VectorStoreRetriever: {"k": top_k}} if top_k > self.top_k else {}
        calls = []
        for retriever in self.retrievers:
            options = next((deeper[kind] for kind in deeper if isinstance(retriever, kind)), {})
            calls.append(do(retriever, "invoke", query, config, **options))
        return fuse((yield at_once(calls, most_threads=1)), top_k=max(self.top_k, top_k), names=names)

    def stored_vectors(self, texts: Sequence[str], embeddings: Embeddings) -> dict[str, Any]:
        """Return the stored vectors of passages by their text, from the indexes that keep any."""
        vectors: dict[str, Any] = {}
        for retriever in self.retrievers:
            if isinstance(retriever, RankedRetriever):
                vectors |= retriever.stored_vectors(texts, embeddings)
        return vectors


def folder_index(
    folder: str | os.PathLike[str],
    *,
    embeddings: Embeddings | None = None,
    top_k: int = 5,
    hybrid: bool = True,
    vectors: bool = True,
    path: str | None = None,
    chunk_size: int = 800,
    chunk_overlap: int = 100,
) -> DocumentIndex:
    """Return an index of a folder's documents; see `load_folder`.

    Args:
        folder: Read once, when the index is built.
        embeddings: Default: the static model of the extra `retrieval`, which needs no network.
        top_k: The most passages that a search returns.
        hybrid: Whether words count beside meaning.
        vectors: Whether meaning counts. `False` searches by words (BM25) only, and loads no embeddings.
        path: As in `DocumentIndex`.
        chunk_size: The most characters in one passage.
        chunk_overlap: How many characters a passage may share with the one before it.

    Raises:
        ValueError: There is no such folder, it holds no text, or a size makes no sense.
        ImportError: The extra `retrieval` is not installed.
    """
    documents = load_folder(folder, chunk_size=chunk_size, chunk_overlap=chunk_overlap)
    if embeddings is None and vectors:
        embeddings = named_embeddings("static")
    return DocumentIndex(
        documents=documents, embeddings=embeddings, top_k=top_k, hybrid=hybrid, vectors=vectors, path=path
    )


class IndexRetriever(RankedRetriever):
    """Searches an index by vectors and by words, and fuses both by reciprocal rank.

    Raises:
        ValueError: There is nothing to search by. At build.
    """

    embeddings: Embeddings | None = Field(default=None, repr=False)
    hybrid: bool = True
    vectors: bool = True

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        searches = ["vectors"] * self.vectors + ["bm25"] * self.hybrid
        if not searches:
            raise ValueError("hybrid=False and vectors=False leave nothing to search by: leave one of them out")
        self.name = self.name or "+".join(searches)

    def logic(self, query: str, callbacks: Any, *, top_k: int = 0, **_: Any) -> Generator[Do, Any, list[Document]]:
        """Return the best documents by all searches; in async runs a worker thread looks them up."""
        most = max(self.top_k, top_k)
        rankings = yield calling(self._rankings, query, max(4 * self.top_k, most, 20))
        return fuse(list(rankings.values()), top_k=most, names=list(rankings))

    @abstractmethod
    def _rankings(self, query: str, depth: int) -> dict[str, list[Document]]:
        """Return the documents of each search, best first, by the search's name."""


class DocumentIndex(IndexRetriever):
    """Searches documents by vectors and BM25 words, fused by reciprocal rank; a LangChain retriever.

    What it returns has `id`, `score` (which only ranks), `found_by` (which of `vectors` and `bm25` found it) and what
    the document had in its metadata. A document without any word of the query is found by its vector alone.

    Args:
        documents: At least one with text. `heading` in their metadata counts as text.
        embeddings: Turns texts into vectors; not needed with `vectors=False`.
        top_k: The most documents that a search returns. A single call may ask for more: `invoke(query, top_k=20)`.
        hybrid: `False` searches by vectors only.
        vectors: `False` searches by words (BM25) only.
        path: A folder that keeps the vectors, for one process at a time: what it holds already is not embedded again,
            and what `documents` no longer hold is dropped. Default: memory.

    Raises:
        ValueError: No document has text, there is nothing to search by, or `path` has no vectors to keep. At build.
        ImportError: The extra `retrieval` is not installed. At build.
    """

    documents: list[Document] = Field(repr=False)
    path: str | None = None
    _vectors: Any = PrivateAttr(default=None)
    _collection: str = PrivateAttr(default="")
    _by_point: dict[str, Document] = PrivateAttr(default_factory=dict)
    _words: Any = PrivateAttr(default=None)

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        by_id: dict[str, Document] = {}
        for document in self.documents:
            if document.page_content.strip():
                key = chunk_id(str(document.metadata.get("source") or ""), document.page_content)
                by_id.setdefault(key, Document(document.page_content, metadata=with_id(document.metadata, key)))
        self.documents = list(by_id.values())
        if not self.documents:
            raise ValueError("an index needs at least one document with text")
        if not self.vectors:
            if self.path is not None:
                raise ValueError(
                    f"path={self.path!r} keeps vectors, and vectors=False makes none: leave one of them out"
                )
        elif self.embeddings is None:
            raise ValueError("embeddings= is needed, unless vectors=False searches by words only")
        else:
            self._store_vectors(self.embeddings)
        # Without a word that counts there is nothing to search by words.
        if self.hybrid and any(tokens := _tokens([indexed(document) for document in self.documents])):
            import bm25s

            self._words = bm25s.BM25()
            self._words.index(tokens, show_progress=False)

    def close(self) -> None:
        """Let go of the folder at `path`; the index can't be searched any more."""
        if self._vectors is not None:
            self._vectors.close()

    def _rankings(self, query: str, depth: int) -> dict[str, list[Document]]:
        rankings: dict[str, list[Document]] = {}
        if self._vectors is not None and self.embeddings is not None:
            vector = self.embeddings.embed_query(query)
            points = self._vectors.query_points(self._collection, query=vector, limit=depth).points
            rankings["vectors"] = [self._by_point[str(point.id)] for point in points]
        if self._words is not None:
            depth = min(depth, len(self.documents))
            numbers, scores = self._words.retrieve(_tokens([query]), k=depth, show_progress=False)
            hits = zip(numbers[0], scores[0], strict=True)
            rankings["bm25"] = [self.documents[number] for number, score in hits if score > 0]
        return rankings

    def _store_vectors(self, embeddings: Embeddings) -> None:
        """Open the vectors of the documents, and embed those that are not kept yet."""
        try:
            from qdrant_client import QdrantClient
            from qdrant_client.models import Batch, Distance, PointIdsList, VectorParams
        except ImportError as error:
            raise ImportError(f'an index needs an extra: pip install ".[retrieval]" in a checkout ({error})') from None
        self._vectors = client = QdrantClient(path=self.path) if self.path else QdrantClient(location=":memory:")
        # Vectors of two models can't stand in one collection, so its name tells them apart.
        probe = embeddings.embed_query("redraft")
        self._collection = name = chunk_id("", " ".join(f"{value:.3f}" for value in probe))
        if not client.collection_exists(name):
            client.create_collection(name, vectors_config=VectorParams(size=len(probe), distance=Distance.COSINE))
        self._by_point = {
            str(uuid.uuid5(uuid.NAMESPACE_OID, indexed(document) + document.metadata["id"])): document
            for document in self.documents
        }
        present = {str(point.id) for point in client.scroll(name, limit=10**9, with_payload=False)[0]}
        if gone := present - self._by_point.keys():
            client.delete(name, points_selector=PointIdsList(points=list(gone)))
        if new := {key: indexed(document) for key, document in self._by_point.items() if key not in present}:
            vectors = embeddings.embed_documents(list(new.values()))
            client.upsert(name, points=Batch(ids=list(new), vectors=vectors))


def indexed(document: Document) -> str:
    """Return the text of a document that is searched: its heading counts."""
    return passage(document.page_content, str(document.metadata.get("heading") or ""))


def _tokens(texts: list[str]) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "IProgress not found")  # in notebooks: of a progress bar that never shows
            import bm25s
        import Stemmer
    except ImportError as error:
        raise ImportError(
            f'a hybrid search needs an extra: pip install ".[retrieval]" in a checkout ({error})'
        ) from None
    # It sets its own logger to DEBUG, past what the program asked for.
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    # A stemmer is not safe in two threads at once, and cheap to make.
    return bm25s.tokenize(
        texts, stopwords="en", stemmer=Stemmer.Stemmer("english"), show_progress=False, return_ids=False
    )


def open_sources(
    sources: Any, *, embeddings: Embeddings, top_k: int, hybrid: bool, vectors: bool = True
) -> BaseRetriever:
    """Return one retriever whose documents carry a rank score.

    Args:
        sources: A folder, the address of a web page, a list of documents, a vector store, a retriever, or a list of
            these, which are fused.
        embeddings: Of folders and documents; a vector store has its own.
        top_k: The most passages that a query returns, also of an index that was made with a smaller number.
        hybrid: Whether folders and documents are searched by words too; what others do is their own affair.
        vectors: Whether they are searched by vectors.

    Raises:
        TypeError: A source is none of these.
        ValueError: There is none, a folder does not exist, or there is no text.
        ImportError: The extra `retrieval` is not installed and a folder or documents need it.
    """
    own: dict[str, Any] = {"embeddings": embeddings, "top_k": top_k, "hybrid": hybrid, "vectors": vectors}
    listed = list(sources) if isinstance(sources, list | tuple) else [sources]
    if not listed:
        raise ValueError("sources is empty: give a folder, documents, a vector store or a retriever")
    documents = [source for source in listed if isinstance(source, Document)]
    documents += [source for url in listed if is_url(url) for source in load_page(url)]
    retrievers: list[BaseRetriever] = [DocumentIndex(documents=documents, **own)] if documents else []
    retrievers += [
        _retriever(source, **own) for source in listed if not (isinstance(source, Document) or is_url(source))
    ]
    if len(retrievers) == 1 and isinstance(retrievers[0], RankedRetriever):
        return retrievers[0]
    return FusedRetriever(retrievers=retrievers, top_k=top_k)


def _retriever(source: Any, *, top_k: int, **own: Any) -> BaseRetriever:
    """Return the retriever of a source that is neither a document nor an address; `own` is as in `folder_index`."""
    if isinstance(source, str | os.PathLike):
        return folder_index(source, top_k=top_k, **own)
    if isinstance(source, VectorStore):
        return source.as_retriever(search_kwargs={"k": top_k}, name=type(source).__name__)
    if isinstance(source, RankedRetriever) and source.top_k < top_k:
        return source.model_copy(update={"top_k": top_k})  # one that finds more is cut afterwards
    if isinstance(source, BaseRetriever):
        return source
    raise TypeError(
        f"a source is a folder, an address, a Document, a LangChain vector store or retriever, or a list of these, "
        f"not {source!r:.120}"
    )
