"""Retrieval ledger: the ranks of known sources, what refining fixes and breaks, how true a confidence is. Internal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from statistics import NormalDist, fmean, median, stdev
from time import perf_counter
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..._files import read_file
from ...state.checked_values import first_fault
from .paired import Interval, Paired, Proportion, Row, auc, paired, proportion

__all__ = [
    "RETRIEVAL_METHODS",
    "ConfidenceRow",
    "Found",
    "KnownQuestion",
    "Measured",
    "RefiningRow",
    "RetrievalLedger",
    "RetrievalRow",
    "known_questions",
    "measured",
    "retrieval_ledger",
    "retrieval_methods",
]

RETRIEVAL_METHODS = ("bm25", "vectors", "unrefined", "refined")
DEPTH = 5
"""Passages of a result that are looked at, as in hit@5."""


class KnownQuestion(BaseModel):
    """A question with the sources that answer it."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    question: str = Field(min_length=1)
    sources: list[str]
    """Paths in the folder, any of which answers it; none, for a question that the documents do not answer."""
    text: str = ""
    """Text that a passage must hold too, ignoring case and white space; default: any passage of a source will do."""


class Found(BaseModel):
    """A search's result for one question."""

    passages: list[tuple[str, str]]
    """Source and text of each, best first; also where they were withheld."""
    queries: int = 1
    confidence: float | None = None
    nothing: bool = False
    """True where they were withheld as nothing found. That is no hit."""


class RetrievalRow(Row):
    """A method over all questions that have known sources."""

    method: str
    n: int = Field(ge=0, description="Questions with known sources.")
    hit1: Proportion = Field(description="Whose first passage is a known one.")
    hit5: Proportion = Field(description="With a known passage among the first five.")
    mrr: float = Field(description="Mean of 1 / rank of the first known passage of five, 0 where there is none.")
    mrr_ci95: Interval
    ndcg: float = Field(description="Mean nDCG of the first five, each source counting once, 0–1.")
    ndcg_ci95: Interval
    queries: float = Field(description="Run for a question, on average.")
    ms: float = Field(description="Milliseconds for a question, on average.")
    median_ms: float


class RefiningRow(Row):
    """Hits among the first five without refining and with it."""

    before: str
    after: str
    hit5: Paired
    times: float | None = Field(description="Mean time with refining, in multiples of that without.")


class ConfidenceRow(Row):
    """Calibration of a method's confidence."""

    method: str
    auc: float | None = Field(description="Chance that a question with a hit has a higher one than a question without.")
    error: float | None = Field(description="Mean gap of confidence and share of hits in ten bins, 0–1.")
    off_topic: Proportion = Field(description="Of the questions without a source, those answered with nothing found.")
    withheld: Proportion = Field(description="Of the hits among the first five, those withheld as nothing found.")


class RetrievalLedger(Row):
    """Methods of retrieval on the same questions."""

    format: Literal[1] = 1
    questions: int
    off_topic: int
    methods: list[RetrievalRow]
    refining: list[RefiningRow]
    confidence: list[ConfidenceRow]


class Measured(BaseModel):
    """A method's result for one question, measured."""

    ranked: list[int]
    """1 for each of the first five passages that is the first of a known source, else 0."""
    known: int
    """Known sources of the question."""
    found: Found
    ms: float

    @property
    def gains(self) -> list[int]:
        """As `ranked`; without a hit where the passages were withheld."""
        return [0] * len(self.ranked) if self.found.nothing else self.ranked

    @property
    def reciprocal(self) -> float:
        return 1 / (self.gains.index(1) + 1) if 1 in self.gains else 0.0

    @property
    def ndcg(self) -> float:
        best = sum(1 / math.log2(rank + 2) for rank in range(min(self.known, DEPTH)))
        return sum(gain / math.log2(rank + 2) for rank, gain in enumerate(self.gains)) / best if best else 0.0


def known_questions(path: Path, *, known: bool = True) -> list[KnownQuestion]:
    """Return the questions of a JSONL file: `question`, `sources`, and where it is needed `text`, a line each.

    Args:
        path: The file.
        known: Whether one of them at least must have a source.

    Raises:
        ValueError: A line is no such object, or there is none; the message names the line.
        OSError: The file can't be read.
    """
    questions = []
    for number, line in enumerate(read_file(path).split("\n"), start=1):
        if line.strip():
            try:
                questions.append(KnownQuestion.model_validate_json(line))
            except ValidationError as error:
                raise ValueError(
                    f'{path}:{number}: {first_fault(error)}; a line is {{"question": "…", "sources": ["a.md"]}}'
                ) from None
    if known and not any(question.sources for question in questions):
        raise ValueError(f"{path} holds no question with known sources")
    return questions


def measured(search: Callable[[str], Found], questions: Sequence[KnownQuestion]) -> list[Measured]:
    """Run a search on each question, and return its ranks and times."""
    rows = []
    for question in questions:
        start = perf_counter()
        result = search(question.question)
        ms = 1000 * (perf_counter() - start)
        seen: set[str] = set()
        ranked = []
        for source, text in result.passages[:DEPTH]:
            answers = source in question.sources and _folded(question.text) in _folded(text)
            known = answers and source not in seen
            seen |= {source} if known else set()
            ranked.append(int(known))
        rows.append(Measured(ranked=ranked, known=len(question.sources), found=result, ms=ms))
    return rows


def retrieval_ledger(
    runs: dict[str, list[Measured]],
    questions: Sequence[KnownQuestion],
    *,
    refining: Sequence[tuple[str, str]] = (),
) -> RetrievalLedger:
    """Return the ledger of methods on the same questions.

    Args:
        runs: As `measured` gives them, by method.
        questions: Those that all of them were measured on.
        refining: Pairs of methods, without refining and with it.

    Raises:
        ImportError: The extra `evals` is not installed.
    """
    answerable = [number for number, one in enumerate(questions) if one.sources]
    return RetrievalLedger(
        questions=len(answerable),
        off_topic=len(questions) - len(answerable),
        methods=[_row(method, [rows[number] for number in answerable]) for method, rows in runs.items()],
        refining=[
            RefiningRow(
                before=off,
                after=on,
                hit5=paired(
                    [1 in runs[off][one].gains for one in answerable], [1 in runs[on][one].gains for one in answerable]
                ),
                times=_times([runs[off][one].ms for one in answerable], [runs[on][one].ms for one in answerable]),
            )
            for off, on in refining
        ],
        confidence=[
            _trust(method, rows)
            for method, rows in runs.items()
            if all(row.found.confidence is not None for row in rows)
        ],
    )


def _row(method: str, rows: Sequence[Measured]) -> RetrievalRow:
    reciprocal, ndcg = [row.reciprocal for row in rows], [row.ndcg for row in rows]
    return RetrievalRow(
        method=method,
        n=len(rows),
        hit1=proportion(sum(row.gains[:1] == [1] for row in rows), len(rows)),
        hit5=proportion(sum(1 in row.gains for row in rows), len(rows)),
        mrr=fmean(reciprocal),
        mrr_ci95=_mean_interval(reciprocal),
        ndcg=fmean(ndcg),
        ndcg_ci95=_mean_interval(ndcg),
        queries=fmean(row.found.queries for row in rows),
        ms=fmean(row.ms for row in rows),
        median_ms=median(row.ms for row in rows),
    )


def _trust(method: str, rows: Sequence[Measured]) -> ConfidenceRow:
    pairs = [(row.found.confidence or 0.0, 1 in row.ranked) for row in rows]
    bins: dict[int, list[tuple[float, bool]]] = {}
    for value, hit in pairs:
        bins.setdefault(min(9, int(value * 10)), []).append((value, hit))
    gaps = [abs(sum(value - hit for value, hit in bin_)) for bin_ in bins.values()]
    off = [row.found.nothing for row in rows if not row.known]
    on = [row.found.nothing for row in rows if 1 in row.ranked]
    return ConfidenceRow(
        method=method,
        auc=auc([value for value, _ in pairs], [hit for _, hit in pairs]),
        error=sum(gaps) / len(pairs) if pairs else None,
        off_topic=proportion(sum(off), len(off)),
        withheld=proportion(sum(on), len(on)),
    )


def _times(before: Sequence[float], after: Sequence[float]) -> float | None:
    return sum(after) / sum(before) if sum(before) else None


def _mean_interval(values: Sequence[float]) -> Interval:
    """Return the normal 95% interval of a mean of shares."""
    if len(values) < 2:
        return 0.0, 1.0
    half = NormalDist().inv_cdf(0.975) * stdev(values) / math.sqrt(len(values))
    return max(0.0, fmean(values) - half), min(1.0, fmean(values) + half)


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def retrieval_methods(
    folder: Path, names: Sequence[str], *, embeddings: str | None = None, **options: Any
) -> Mapping[str, Callable[[str], Found]]:
    """Return the methods of these names, over one index of the folder.

    Args:
        folder: Of documents.
        names: Of `RETRIEVAL_METHODS`: `bm25` and `vectors` alone, `unrefined` with `max_iterations=0`, and `refined`.
        embeddings: As `build_retrieval_graph` takes it; default: the one built in.
        options: Others of `build_retrieval_graph`.

    Raises:
        ValueError: A name is not known, or an option makes no sense.
        ImportError: The extra `retrieval` is not installed.
    """
    from ...models.embeddings import DEFAULT
    from ...models.embeddings import embeddings as embedding_model
    from ...retrieval import DocumentIndex, build_retrieval_graph, load_folder, retrieval_result

    if unknown := [name for name in names if name not in RETRIEVAL_METHODS]:
        raise ValueError(f"there is no method {unknown[0]!r} of retrieval; known are {', '.join(RETRIEVAL_METHODS)}")
    documents = load_folder(folder)
    meaning = embedding_model(embeddings or DEFAULT)
    top_k = options.get("top_k", 5)

    def alone(**choice: Any) -> Callable[[str], Found]:
        index = DocumentIndex(documents=documents, top_k=top_k, **choice)

        def search(question: str) -> Found:
            passages = index.invoke(question)
            return Found(passages=[(passage.metadata["source"], passage.page_content) for passage in passages])

        return search

    def graph(**more: Any) -> Callable[[str], Found]:
        built = build_retrieval_graph(both(), embeddings=meaning, **{**options, **more})

        def search(question: str) -> Found:
            result = retrieval_result(built.invoke({"task": question}))
            passages = result.results or result.withheld
            return Found(
                passages=[(passage.source, passage.text) for passage in passages],
                queries=result.queries_run,
                confidence=result.confidence,
                nothing=bool(result.withheld),
            )

        return search

    # One index for both ways, made only where one of them is asked for.
    both = cache(partial(DocumentIndex, documents=documents, embeddings=meaning, top_k=top_k))
    makers: dict[str, Callable[[], Callable[[str], Found]]] = {
        "bm25": partial(alone, vectors=False),
        "vectors": partial(alone, embeddings=meaning, hybrid=False),
        "unrefined": partial(graph, max_iterations=0),
        "refined": graph,
    }
    return {name: makers[name]() for name in names}
