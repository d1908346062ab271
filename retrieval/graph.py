"""Preset `retrieval`. Internal.

A search that refines its own queries, until what it finds is close enough to what was asked; on demand with an answer
that cites what was found.

The draft is the passages found, numbered and with their sources. A program measures them, and follow-up queries by
rules, or by a model, look for what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.prompts import ChatPromptTemplate

from ..graphs.loop import RefineGraph, build_refine_graph, price_table
from ..models.embeddings import DEFAULT, StaticEmbeddings
from ..models.embeddings import embeddings as embedding_model
from ..models.specs import as_model
from ..nodes.arguments import checked_count, checked_share, refuse
from ..nodes.critics.structured_replies import StructuredModel
from ..nodes.documents import named_documents
from ..nodes.retrieve import retrieve
from ..nodes.writing.prompts import Prompt, chat_prompt, seen_by_refiner
from ..state.threads.kind import kind_of
from .calibration import CALIBRATIONS
from .citations import NOTHING_SAID, AnswerWriter, CitationCritic, ConfidenceCritic, answer_is_over
from .findings import RetrievalResult, as_retriever, retrieval_result
from .follow_ups import NAMESPACE, Patterns
from .planning import Planner, QueryPlan
from .retrievers import open_sources
from .search import Search, Similarity
from .search_rounds import (
    FirstSearch,
    GapAnalysis,
    RetrievalInput,
    RetrievalState,
    SearchOn,
    search_is_over,
)

__all__ = [
    "RETRIEVAL_GAP_PROMPT",
    "RETRIEVAL_PLAN_PROMPT",
    "RetrievalResult",
    "as_retriever",
    "build_retrieval_graph",
    "retrieval_result",
]


def build_retrieval_graph(
    documents: Any = None,
    *,
    sources: Any = None,
    index: str | None = None,
    model: BaseChatModel | str | None = None,
    use_llm: bool = False,
    embeddings: str | Embeddings | None = None,
    rerank: str | Embeddings | None = "minilm",
    top_k: int = 5,
    search: Literal["hybrid", "vectors", "words"] = "hybrid",
    hybrid: bool = True,
    vectors: bool = True,
    threshold: float | None = None,
    confidence_threshold: float | None = None,
    adaptive_threshold: bool = False,
    max_iterations: int = 3,
    iterative: bool = True,
    patterns: Sequence[str] | None = NAMESPACE,
    critics: Sequence[Any] = (),
    plan_prompt: Prompt | None = None,
    gap_prompt: Prompt | None = None,
    answer: bool = False,
    **options: Any,
) -> RefineGraph:
    """Return the loop over searches: `task` is the query, `answer` the passages; `retrieval_result(out)` tells more.

    With `answer=True` it is the loop over answers to the query, whose sentences cite the passages, after one search.

    Args:
        documents: A folder of documents (see `load_folder`), the address of a web page, a list of documents, a
            LangChain vector store or retriever, or a list of these, which are fused.
        sources: Another name of `documents`.
        index: A stored index in their place, as `redraft index` makes it.
        model: Plans and finds gaps where `use_llm` is true, and writes where `answer` is.
        use_llm: Whether a model plans and proposes follow-up queries; else rules do, and no model is called.
        embeddings: Indexes folders and documents; see `redraft.models.embeddings`. Default: that of the `index`, else
            the static model.
        rerank: Measures the first 20 passages of each query, and 60 where the confidence is low, and orders them by
            their similarity to what was asked and the terms of it that they hold. `None` or `"none"` leaves
            them in the order of the searches, and measures them by `embeddings`.
        top_k: The most passages in the result, where the input of a call has no `top_k` of its own.
        search: How folders and documents are searched: by vectors and by words (BM25), or by one of them.
        hybrid: `False` is `search="vectors"`.
        vectors: `False` is `search="words"`.
        threshold: The search ends when the confidence in its passages, 0–1, reaches this; the input of a call may have
            a `confidence_threshold` of its own. With `rerank="minilm"` it is the calibrated probability that one of
            them answers the question, and where it is under 0.2, the answer is that nothing was found. Else it is their
            mean cosine similarity. Default: 0.65 with that model, 0.3 where `"static"` measures, else 0.7.
        confidence_threshold: Another name of `threshold`.
        adaptive_threshold: Asks 0.1 more of a simple query and 0.1 less of a complex one.
        max_iterations: How often follow-up queries are asked for, at most three at once; 0 up. The same as
            `max_rounds`, which a caller's limits can change.
        iterative: `False` runs the plan and no follow-up. A simple query has none in any case, unless a person objects
            to what was found. A `check=` of your own decides that by itself.
        patterns: Where in `store=` it is kept which follow-up queries helped; `None` keeps nothing.
        critics: Asked beside the confidence: a person's objection (`human_critic()`) becomes queries. Models are asked
            with `critics_after="always"` only, as after any verifier.
        plan_prompt: Of the model's plan, over `task` and `history`; default: `RETRIEVAL_PLAN_PROMPT`.
        gap_prompt: Of the model's gap analysis, over `task`, `history`, `draft` and `feedback`; default:
            `RETRIEVAL_GAP_PROMPT`.
        answer: Whether the model writes an answer by the passages found, in sentences that cite them as [1] or [2]. A
            program checks that each does, and that the passages hold what it says; else the answer is revised. Where
            nothing was found, it says so. Critics and `limits` are then those of the answer, of which `max_rounds`
            counts revisions, and `generate_prompt` and `refine_prompt` are its prompts.
        options: Everything else that `build_refine_graph` takes, but for its writers and `prepare`.

    Raises:
        ValueError: At build or at run: a number makes no sense. At build: `use_llm` stands without a model or a prompt
            without `use_llm`, a source holds no text, or an option would be without effect; `answer` without a
            model. At run: `conversation` is not a list of texts.
        TypeError: At build: a source is of no known kind, or the model is none.
        ImportError: At build: the extra `retrieval` is not installed and is needed.

    Example:
        >>> from pathlib import Path
        >>> from redraft import build_retrieval_graph
        >>> Path("notes").mkdir()
        >>> _ = Path("notes", "pears.md").write_text("Pears ripen in autumn.")
        >>> graph = build_retrieval_graph("notes", vectors=False, rerank=None)
        >>> print(graph.invoke({"task": "When do pears ripen?"})["answer"])
        [1] pears.md
        Pears ripen in autumn.
    """
    checked_count("top_k", top_k, least=1)
    checked_count("max_iterations", max_iterations, least=0)
    documents = sources if documents is None else documents
    _check_given(documents, index, model, use_llm=use_llm, answer=answer, prompts=(plan_prompt, gap_prompt))
    refuse(options, ANSWER_TAKEN if answer else TAKEN)
    ways = {"hybrid": hybrid and search != "vectors", "vectors": vectors and search != "words"}
    if index is not None:
        documents = named_documents(None, index, top_k=top_k, embeddings=embeddings, **ways)
        # The index knows the model that it was made with.
        embeddings = embeddings or documents.embeddings
    embeddings = embeddings or DEFAULT
    measuring, measures, usual_threshold = _measuring(embeddings, rerank)
    threshold = confidence_threshold if threshold is None else threshold
    threshold = usual_threshold if threshold is None else checked_share("confidence_threshold", threshold)
    plan_template = _template(plan_prompt, RETRIEVAL_PLAN_PROMPT, "plan_prompt", PLAN_VARIABLES)
    gap_template = _template(gap_prompt, RETRIEVAL_GAP_PROMPT, "gap_prompt", GAP_VARIABLES)
    searching = Search(
        open_sources(documents, embeddings=embedding_model(embeddings), top_k=top_k, **ways),
        Similarity(embedding_model(measuring)),
    )
    memory = Patterns(patterns)
    model = model if model is None else as_model(model)
    query_model = model if use_llm else None
    planner = Planner(
        None if query_model is None else StructuredModel(query_model, QueryPlan),
        plan_template,
        top_k=top_k,
        threshold=threshold,
        adaptive=adaptive_threshold,
        iterative=iterative,
        measures=measures,
    )
    defaults: dict[str, Any] = {**SCHEMAS, "check": search_is_over}
    if measures:
        # The latest passages are the best of all that were measured, also where the confidence in them is the same.
        defaults["keep"] = "last"
    search_options = {name: options[name] for name in OF_SEARCH if name in options} if answer else options
    graph = build_refine_graph(
        query_model,
        prepare=planner,
        generate=FirstSearch(searching, memory),
        refine=SearchOn(
            searching,
            memory,
            None if query_model is None else StructuredModel(query_model, GapAnalysis),
            gap_template,
        ),
        critics=[ConfidenceCritic(), *(() if answer else critics)],
        limits={"max_rounds": max_iterations, **(search_options.pop("limits", None) or {})},
        **{**defaults, **search_options},
    )
    if not answer:
        return graph
    checked = CitationCritic(embeddings=embedding_model(measuring) if "calibration" in measures else None)
    return _answering(model, graph, top_k, [checked, *critics], options)


def _check_given(
    documents: object, index: str | None, model: Any, *, use_llm: bool, answer: bool, prompts: Sequence[Prompt | None]
) -> None:
    """Raise unless there is one thing to search, a model where one is needed, and one to read the prompts."""
    if (documents is None) == (index is None):
        raise ValueError("retrieval needs --documents, the folder that is searched, or the name of an --index")
    if use_llm and model is None:
        raise ValueError("use_llm=True needs a model: give model=")
    if any(prompt is not None for prompt in prompts) and not use_llm:
        raise ValueError("plan_prompt= and gap_prompt= are for use_llm=True; nothing here would read them")
    if answer and model is None:
        raise ValueError("answer=True needs a model that writes: give model=")


def _answering(
    model: Any, search: RefineGraph, top_k: int, critics: Sequence[Any], options: dict[str, Any]
) -> RefineGraph:
    """Return the loop over answers to the query, whose `prepare` is the search."""
    prompts = [options.pop("generate_prompt", ANSWER_PROMPT), options.pop("refine_prompt", ANSWER_REFINE_PROMPT)]
    seen = seen_by_refiner(options)
    search_step = retrieve(as_retriever(search), k=top_k, prices=price_table(options.get("prices")), asked=ASKED)
    search_step.fingerprint = kind_of(search).fingerprint
    return build_refine_graph(
        model,
        prepare=search_step,
        generate=AnswerWriter(model, prompts[0], what="generate_prompt", **seen),
        refine=AnswerWriter(model, prompts[1], what="refine_prompt", **seen),
        critics=critics,
        **{**SCHEMAS, "check": answer_is_over, **options},
    )


def _measuring(
    embeddings: str | Embeddings, rerank: str | Embeddings | None
) -> tuple[str | Embeddings, dict[str, Any], float]:
    """Return the measure of passages, its name in a plan, and the threshold that suits it."""
    rerank = None if rerank == "none" else rerank
    if isinstance(rerank, str) and (calibration := CALIBRATIONS.get(rerank)) is not None:
        return (
            rerank,
            {"reranked": True, "calibration": rerank, "nothing_under": calibration.nothing_under},
            calibration.threshold,
        )
    measure = embeddings if rerank is None else rerank
    threshold = 0.3 if measure == "static" or isinstance(measure, StaticEmbeddings) else 0.7
    return measure, {} if rerank is None else {"reranked": True}, threshold


def _template(prompt: Prompt | None, default: str, what: str, variables: tuple[str, ...]) -> ChatPromptTemplate:
    templates = chat_prompt(default if prompt is None else prompt, what=what)
    if len(templates) != 1:
        raise ValueError(f"{what} is one prompt, for all rounds, not {len(templates)}")
    if unknown := sorted(set(templates[0].input_variables) - set(variables)):
        raise ValueError(f"{what} uses unknown variables {unknown}; known are {', '.join(variables)}")
    return templates[0]


SCHEMAS: Mapping[str, Any] = {"state_schema": RetrievalState, "input_schema": RetrievalInput, "name": "retrieval"}
OF_SEARCH = ("store",)
"""Options of an answer that are its search's too."""

ANSWER_TAKEN = {
    "max_rounds": "is called max_iterations=, or limits={'max_rounds': …} here",
    **dict.fromkeys(
        ("feedback", "generate", "prepare", "refine"),
        "is what this preset is made of; build_refine_graph takes one of your own",
    ),
}
TAKEN = {
    "generate_prompt": "is called plan_prompt= here",
    "refine_prompt": "is called gap_prompt= here",
    "answer_type": "is for answer=True: else the answer is the passages",
    **ANSWER_TAKEN,
}
"""Options that the preset sets itself; those of an answer take their own prompts."""

ASKED = ("top_k", "confidence_threshold", "conversation")
"""Of a call's input, what its search is told."""

PLAN_VARIABLES = ("task", "history")
GAP_VARIABLES = ("task", "history", "draft", "feedback")

RETRIEVAL_PLAN_PROMPT = """\
Plan the search for an answer to this question in a collection of documents.

Said before, oldest first:
{history}

Question: {task}

Say how complex the question is, then give the search queries. Each must be understood without what was said before: \
put names in place of "it" or "that". One query is enough for a simple question. Say "sequential" only if a later \
query makes sense after an earlier one."""

RETRIEVAL_GAP_PROMPT = """\
A search is to find the passages that answer this question.

Question: {task}

Queries run so far:
{history}

What they found:
{draft}

What a reader said about it:
{feedback}

Name what the question asks for and the passages do not say. Then give at most three new search queries that could \
find it, in the words that the documents may use. Repeat none of the queries run so far."""


ANSWER_PROMPT = f"""\
{{context}}Question: {{task}}

Answer the question by these passages and nothing else. Write plain sentences, and end each with the number of the \
passage that says it, such as [1], or [1][3] for what two say together. Leave out what no passage says. No headings, \
no list of sources. If the passages do not answer the question, reply with exactly: {NOTHING_SAID}"""

ANSWER_REFINE_PROMPT = f"""\
{{context}}Question: {{task}}

Current answer:
{{draft}}

What is wrong with it:
{{feedback}}

Write the answer anew, so that each sentence ends with the number of a passage that says it, such as [1], and says no \
more than that passage. Leave out what no passage says. Reply with the answer only. If the passages do not answer the \
question, reply with exactly: {NOTHING_SAID}"""
