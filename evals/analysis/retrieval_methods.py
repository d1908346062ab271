"""Methods of retrieval over one folder: words, vectors, and the search with and without refining. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...models.embeddings import DEFAULT
from ...models.embeddings import embeddings as embedding_model
from ...retrieval.documents import load_folder
from ...retrieval.graph import build_retrieval_graph, retrieval_result
from ...retrieval.retrievers import DocumentIndex
from .retrieval import Found

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

__all__ = ["RETRIEVAL_METHODS", "retrieval_methods"]

RETRIEVAL_METHODS = ("bm25", "vectors", "unrefined", "refined")


def retrieval_methods(
    folder: Path, names: Sequence[str], *, embeddings: str = DEFAULT, **options: Any
) -> Mapping[str, Callable[[str], Found]]:
    """Return the methods of these names, over one index of the folder.

    Args:
        folder: Of documents.
        names: Of `RETRIEVAL_METHODS`: `bm25` and `vectors` alone, `unrefined` with `max_iterations=0`, and `refined`.
        embeddings: As `build_retrieval_graph` takes it.
        options: Others of `build_retrieval_graph`.

    Raises:
        ValueError: A name is not known, or an option makes no sense.
        ImportError: The extra `retrieval` is not installed.
    """
    if unknown := [name for name in names if name not in RETRIEVAL_METHODS]:
        raise ValueError(f"there is no method {unknown[0]!r} of retrieval; known are {', '.join(RETRIEVAL_METHODS)}")
    documents = load_folder(folder)
    meaning = embedding_model(embeddings)
    top_k = options.get("top_k", 5)

    def alone(index: DocumentIndex) -> Callable[[str], Found]:
        def search(question: str) -> Found:
            found = index.invoke(question)
            return Found(passages=[(one.metadata["source"], one.page_content) for one in found])

        return search

    def graph(index: DocumentIndex, **more: Any) -> Callable[[str], Found]:
        built = build_retrieval_graph(index, embeddings=meaning, **{**options, **more})

        def search(question: str) -> Found:
            result = retrieval_result(built.invoke({"task": question}))
            shown = result.results or result.withheld
            return Found(
                passages=[(one.source, one.text) for one in shown],
                queries=result.queries_run,
                confidence=result.confidence,
                nothing=bool(result.withheld),
            )

        return search

    made: dict[str, Callable[[str], Found]] = {}
    searched = {"unrefined", "refined"} & set(names)
    both = DocumentIndex(documents=documents, embeddings=meaning, top_k=top_k) if searched else None
    for name in names:
        if name == "bm25":
            made[name] = alone(DocumentIndex(documents=documents, vectors=False, top_k=top_k))
        elif name == "vectors":
            made[name] = alone(DocumentIndex(documents=documents, embeddings=meaning, hybrid=False, top_k=top_k))
        elif both is not None:
            made[name] = graph(both, **({"max_iterations": 0} if name == "unrefined" else {}))
    return made
