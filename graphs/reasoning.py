"""Preset `reasoning`: draft, critique, improve over an event log, as a graph and as arrows with `|`. Internal.

The graph is the loop with 1 + 2N model calls: nobody accepts unless a threshold is given, every critique and
improvement is about the most recent text, and the answer is the best one. The arrows run the same three steps on a
`Branch`, one at a time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..models.specs import as_model
from ..nodes.arguments import check_lists, checked_count, refuse
from ..nodes.critics.critics import VerifierCritic, verifier_critic
from ..nodes.critics.registry import parted
from ..nodes.documents import measured, named_documents
from ..nodes.reasoning.arrows import Arrow, LoadDocuments, LoopArrow
from ..nodes.reasoning.safe_arrows import InParallel, best_branch, safe
from ..nodes.reasoning.steps import (
    CRITIQUE_PROMPT,
    DRAFT_PROMPT,
    IMPROVE_PROMPT,
    THINK_PROMPT,
    ReasoningSteps,
)
from ..nodes.retrieve import retrieve
from ..state.limits import Limits
from .loop import TASK_ONLY, RefineGraph, build_refine_graph, price_table

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import BaseChatModel

    from ..nodes.runtime.meter import Prices
    from ..nodes.writing.prompts import Prompts
    from ..state.critique import AnyVerifier

__all__ = [
    "CRITIQUE_PROMPT",
    "DRAFT_PROMPT",
    "IMPROVE_PROMPT",
    "InParallel",
    "best_branch",
    "build_reasoning_graph",
    "critique",
    "draft",
    "improve",
    "load_documents",
    "refinement_loop",
    "safe",
    "think",
]


def build_reasoning_graph(
    model: BaseChatModel | str,
    *,
    iterations: int = 3,
    critic: BaseChatModel | str | None = None,
    critics: Sequence[Any] | None = None,
    verifiers: Sequence[AnyVerifier | str] = (),
    threshold: float | None = None,
    documents: Any = None,
    index: str | None = None,
    query: str | None = None,
    top_k: int = 4,
    k: int | None = None,
    tools: Sequence[Any] = (),
    draft_prompt: Prompts = DRAFT_PROMPT,
    critique_prompt: Prompts = CRITIQUE_PROMPT,
    improve_prompt: Prompts = IMPROVE_PROMPT,
    **options: Any,
) -> RefineGraph:
    """Return the loop as draft, critique, improve: 1 + 2N model calls.

    Each step works on the most recent text, and the last improvement is the answer. With a `threshold` it is the text
    with the highest score, and the last improvement, which nobody scores, only where no text has one. Where programs
    judge (`verifiers=`), they judge the last text too, and the best is the answer. With an `answer_type` the last text
    is judged too, for one call more at most, and the answer is one that fits.

    `reasoning_events(out["events"])` and `Branch.of_run("main", out)` read the result.

    Args:
        model: Writes and improves.
        iterations: N, how often the text is criticised and improved, where neither the caller nor `limits=` gives a
            `max_rounds`.
        critic: Criticises; default: the same model.
        critics: A chat model, which criticises; or critics in its place.
        verifiers: Programs that judge in its place, as in `build_refine_graph`.
        threshold: Score (0–1) from which a text is accepted, which ends the run. Critiques then come with a score.
        documents: Where passages are looked up before the first draft: a folder, a LangChain vector store or retriever,
            or a callable from a query. The prompts show them, and the record keeps them.
        index: A stored index in their place, as `redraft index` makes it.
        query: What is looked up; default: the task.
        top_k: How many passages at most.
        k: Another name of `top_k`.
        tools: LangChain tools that the model may call before it drafts, criticises (without `threshold`) or improves.
        draft_prompt: Template over `task` and `context`.
        critique_prompt: Template over these, `draft` and `round`; one, or several, one an iteration.
        improve_prompt: Template over these and `feedback`; one, or several, one an iteration.
        options: Everything else that `build_refine_graph` takes.

    Raises:
        ValueError: At build: a number makes no sense, a prompt uses unknown variables, `prepare=` stands beside
            `documents=`, an option would be without effect, or as in `build_refine_graph`.
        NotImplementedError: At build: there are tools, and the model can't call any.
        TypeError: At build: `documents` is nothing to look up in, or a model is none.

    Example:
        >>> from redraft import build_reasoning_graph
        >>> from redraft.models import ScriptedModel
        >>> model = ScriptedModel(["Tests find bugs.", "Say when.", "Tests find bugs early."])
        >>> graph = build_reasoning_graph(model, iterations=1)
        >>> graph.invoke({"task": "Why test?"})["answer"]
        'Tests find bugs early.'
    """
    model = as_model(model)
    critic, judges = _critics(critic, critics, verifiers)
    if judges is not None:
        options["critics"] = judges
    _check_options(options, critic=critic, threshold=threshold)
    checked_count("iterations", iterations, least=0)
    top_k = top_k if k is None else k
    if index is not None or isinstance(documents, str | os.PathLike):
        documents = measured(named_documents(documents, index, top_k=top_k))
    if documents is not None and "prepare" in options:
        raise ValueError("give documents= or prepare=, not both: documents= are looked up in prepare")
    if query is not None and documents is None:
        raise ValueError(f"query={query!r} without documents=: there is nothing to look it up in")
    steps = ReasoningSteps(
        model,
        critic=critic,
        draft_prompt=draft_prompt,
        critique_prompt=critique_prompt,
        improve_prompt=improve_prompt,
        threshold=threshold,
    )
    defaults: dict[str, Any] = {
        **TASK_ONLY,
        "generate": steps.writer("draft", tools=tools),
        "refine": steps.writer("improve", tools=tools),
        "limits": _limits(iterations, options.pop("limits", None)),
        # Judging the last improvement would be one call more than 1 + 2N; with a program it is free, and of a typed
        # text nobody would know else if it fits.
        "judge_last": options.get("answer_type") is not None
        or any(isinstance(critic, VerifierCritic) for critic in options.get("critics") or ()),
        "name": "reasoning",
    }
    if documents is not None:
        defaults["prepare"] = retrieve(documents, k=top_k, query=query, prices=price_table(options.get("prices")))
    # Not by truth: `critics=[]` asks for none, and is no reason to add one.
    if options.get("feedback") is None and options.get("critics") is None:
        defaults["critics"] = [steps.judge(tools=tools)]
        # Comments without scores rank no text before another.
        defaults["keep"] = "last" if threshold is None else "best"
    # The caller's options come last, so each can stand in for the preset's own.
    return build_refine_graph(model, **{**defaults, **options})


def _critics(
    critic: BaseChatModel | str | None, critics: Sequence[Any] | None, verifiers: Sequence[AnyVerifier | str]
) -> tuple[BaseChatModel | str | None, list[Any] | None]:
    """Return the model that criticises, and who judges in its place."""
    if verifiers and (critic is not None or critics):
        raise ValueError("in reasoning programs judge alone: give --verify (verifiers=) or --critic")
    check_lists(critics=critics, verifiers=verifiers)
    models, others = parted(critics or ())
    if models and (len(models) > 1 or others or critic is not None):
        raise ValueError("in reasoning one model criticises: give it as critic=, or alone in critics=")
    if models:
        return models[0], None
    return critic, None if critics is None and not verifiers else [*map(verifier_critic, verifiers), *others]


def _limits(iterations: int, given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    # What is no mapping goes through as it is, so that the loop refuses it in its own words.
    whole = isinstance(given, Limits) or (given is not None and not isinstance(given, Mapping))
    return given if whole and given is not None else {"max_rounds": iterations, **(given or {})}


def _check_options(options: Mapping[str, Any], *, critic: object, threshold: object) -> None:
    """Refuse what would be without effect.

    Raises:
        ValueError: There is such an option; the message names the one that is meant.
    """
    refuse(options, MEANT)
    judging = next((name for name in ("critics", "feedback") if options.get(name) is not None), None)
    for name, given in (("critic", critic), ("threshold", threshold)):
        if judging and given is not None:
            raise ValueError(
                f"{name}= beside {judging}=: it is for the critic of this preset, which those stand in for"
            )


MEANT = {
    "generate_prompt": "is called draft_prompt= here",
    "refine_prompt": "is called improve_prompt= here",
    "critic_prompt": "is called critique_prompt= here",
    "max_rounds": "is called iterations=, or limits={'max_rounds': …} here",
}


def draft(
    model: BaseChatModel | str, *, prompt: Prompts = DRAFT_PROMPT, k: int = 4, prices: Prices | None = None
) -> Arrow:
    """Return the arrow that writes a first draft on the branch's topic.

    Args:
        model: Writes it.
        prompt: Template over `task` and `context`.
        k: How many passages at most, where the branch has documents.
        prices: Turns tokens into dollars.
    """
    return Arrow(ReasoningSteps(model, draft_prompt=prompt, prices=prices), "draft", k=k)


def think(
    model: BaseChatModel | str, *, prompt: Prompts = THINK_PROMPT, k: int = 4, prices: Prices | None = None
) -> Arrow:
    """Return the arrow that thinks aloud: notes that the drafts and improvements after it are written by.

    Args:
        model: Thinks.
        prompt: Template over `task` and `context`.
        k: How many passages at most, where the branch has documents.
        prices: Turns tokens into dollars.
    """
    return Arrow(ReasoningSteps(model, think_prompt=prompt, prices=prices), "think", k=k)


def load_documents(
    folder: str | os.PathLike[str] | None = None, *, embeddings: Embeddings | None = None, k: int = 4
) -> LoadDocuments:
    """Return the arrow that reads a folder of documents, cut into passages, into the branch's documents.

    Args:
        folder: Its path; default: the branch's `source`.
        embeddings: Search by meaning beside words; default: the static model of the extra `retrieval`.
        k: How many passages a search finds at most.

    Raises:
        ValueError: At run: there is no such folder, or it holds no text.
        ImportError: At run: the extra `retrieval` is not installed.
    """
    return LoadDocuments(lambda path: measured(named_documents(path, None, embeddings=embeddings, top_k=k)), folder)


def critique(
    model: BaseChatModel | str,
    *,
    prompt: Prompts = CRITIQUE_PROMPT,
    scored: bool = False,
    threshold: float | None = None,
    k: int = 4,
    prices: Prices | None = None,
) -> Arrow:
    """Return the arrow that criticises the branch's most recent draft or improvement.

    Args:
        model: Criticises.
        prompt: Template over `task`, `context`, `draft` and `round`; one, or several, one an iteration.
        scored: Whether it gives a score (0–1) beside its text.
        threshold: Score from which the text is accepted; implies `scored`.
        k: How many passages at most, where the branch has documents.
        prices: Turns tokens into dollars.
    """
    steps = ReasoningSteps(model, critique_prompt=prompt, scored=scored, threshold=threshold, prices=prices)
    return Arrow(steps, "critique", k=k)


def improve(
    model: BaseChatModel | str, *, prompt: Prompts = IMPROVE_PROMPT, k: int = 4, prices: Prices | None = None
) -> Arrow:
    """Return the arrow that improves the branch's most recent draft or improvement by its critique.

    Args:
        model: Improves.
        prompt: Template over `task`, `context`, `draft`, `feedback` and `round`; one, or several, one an iteration.
        k: How many passages at most, where the branch has documents.
        prices: Turns tokens into dollars.
    """
    return Arrow(ReasoningSteps(model, improve_prompt=prompt, prices=prices), "improve", k=k)


def refinement_loop(
    model: BaseChatModel | str,
    *,
    iterations: int = 3,
    critic: BaseChatModel | str | None = None,
    threshold: float | None = None,
    draft_prompt: Prompts = DRAFT_PROMPT,
    critique_prompt: Prompts = CRITIQUE_PROMPT,
    improve_prompt: Prompts = IMPROVE_PROMPT,
    k: int = 4,
    prices: Prices | None = None,
) -> LoopArrow:
    """Return the arrow that drafts, where there is no draft yet, and criticises and improves N times.

    Args: as in `build_reasoning_graph`.

    Raises:
        ValueError: At build: a number makes no sense, or a prompt uses unknown variables.
    """
    steps = ReasoningSteps(
        model,
        critic=critic,
        draft_prompt=draft_prompt,
        critique_prompt=critique_prompt,
        improve_prompt=improve_prompt,
        threshold=threshold,
        prices=prices,
    )
    one, two, three = (Arrow(steps, name, k=k, again=False) for name in ("draft", "critique", "improve"))
    return LoopArrow(one, two, three, iterations=iterations)
