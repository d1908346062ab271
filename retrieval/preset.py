"""Preset `retrieval`, as its entry point registers it. Internal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ..graphs.preset import DOCUMENTS, HUMAN, INDEX, THRESHOLD, TOP_K, Option, Preset, Served

__all__ = ["PRESET"]


def _build(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], **options: Any) -> Any:
    from ..nodes.critics.registry import parted
    from .graph import build_retrieval_graph

    models, others = parted(critics)
    if any(critic is not model for critic in models):
        raise ValueError("in retrieval --critic is self, which lets --model plan and refine the queries")
    return build_retrieval_graph(model=model, use_llm=bool(models), critics=others, **options)


PRESET = Preset(
    "retrieval",
    "Searches a folder's files, refining its queries.",
    _build,
    takes_checkpoints=True,
    options=(
        DOCUMENTS,
        INDEX,
        TOP_K,
        Option(
            "embeddings",
            str,
            "--embeddings",
            "Indexes the passages: static, minilm (slower, reads words in context), or openai:NAME.",
            metavar="MODEL",
            aliases=("embedding",),
        ),
        Option(
            "rerank",
            str,
            "--rerank",
            "Orders what was found: minilm (default), another embedding model, or none.",
            metavar="MODEL",
        ),
        THRESHOLD,
        Option(
            "search",
            Literal["hybrid", "vectors", "words"],
            "--search",
            "hybrid: by vectors and by words (BM25); or by one of them.",
            metavar="HOW",
            default="hybrid",
        ),
        Option(
            "answer",
            bool,
            "--answer",
            "Have the model answer by what was found, in sentences that cite it; each citation is checked.",
            default=False,
        ),
        HUMAN,
    ),
    no_verifiers="the similarity of what was found decides",
    # It searches by rules, so that it runs without a key and fetches no model.
    needs_model=False,
    model_for=("answer",),
    serves=(
        Served(
            "retrieval",
            "Searches the server's documents, refining its queries.",
            documents="documents",
            tool="retrieve",
        ),
    ),
    conversation="none",
)
