"""Methods on a graph of one's own: the graph as it is, and baselines of its writer and critics. Internal."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from langchain_core.runnables import Runnable

from ...graphs.loop import LoopParts, build_refine_graph
from ...graphs.math_problems import first_draft_only
from ...nodes.agents.agent_runs import agent_reviser, agent_writer
from ...nodes.critics.critics import name_of, verifier_critic
from ...nodes.mending.ladder import wishes
from ...nodes.writing.prompts import PromptedModel
from ...nodes.writing.sampling import MajorityWriter
from ...state.stopping import rounds_allowed
from ...state.threads.kind import kind_of
from ...state.typed_answer import ANSWER_TYPE
from ..datasets.scorers import VOTED_ANSWERS
from .methods import Method, preset_method, until_accepted

if TYPE_CHECKING:
    from ...graphs.loop import RefineGraph
    from ...state.critique import AnyVerifier

__all__ = ["LONGER", "baselines", "checks_of", "own_graph", "parts_of"]


def own_graph(subject: Any, *, verifiers: Sequence[AnyVerifier] = (), critics: Sequence[Any] = ()) -> RefineGraph:
    """Return a graph that answers a task, of whatever does.

    Args:
        subject: A graph of redraft's, which stays as it is; another graph, an agent or a chain, which with judges
            revises its own answers; or a function of the task, which with judges is asked again.
        verifiers: Programs that judge the answers of a subject that is no graph of redraft's.
        critics: Who else judges them.

    Raises:
        ValueError: A graph of redraft's has its own judges.
        TypeError: It answers nothing.
    """
    if hasattr(subject, "channels") and kind_of(subject).fingerprint:
        if verifiers or critics:
            raise ValueError("a graph of redraft judges by its own critics: build it with these")
        return cast("RefineGraph", subject)
    judges = [*map(verifier_critic, verifiers), *critics]
    first: Any
    again: Any
    if isinstance(subject, Runnable):
        first, again = agent_writer(subject, told=wishes(judges)), agent_reviser(subject)
    elif callable(subject):
        first = again = _asking(subject)
    else:
        raise TypeError(f"a graph, an agent or a function of the task answers it, not {subject!r:.200}")
    judged: dict[str, Any] = {} if judges else {"check": first_draft_only, "limits": {"max_rounds": 0}}
    named = getattr(subject, "name", None) or name_of(subject)
    # It names folders too.
    name = named if re.fullmatch(r"[\w.-]+", named) else "own"
    return build_refine_graph(generate=first, refine=again, critics=judges, name=name, **judged)


def _asking(function: Callable[[str], Any]) -> Callable[[Mapping[str, Any]], Any]:
    """Return a writer that asks a function of the task."""
    if inspect.iscoroutinefunction(function):

        async def awaited(state: Mapping[str, Any]) -> Any:
            return await function(state["task"])

        return awaited
    return lambda state: function(state["task"])


def parts_of(graph: Any) -> LoopParts | None:
    """Return the parts that a loop was wired from; `None` of a graph that is none."""
    return getattr(kind_of(graph), "parts", None)


def checks_of(graph: Any) -> list[Any]:
    """Return the programs that judge in a graph, without those that know the gold answers."""
    parts = parts_of(graph)
    return [] if parts is None else [one.call for one in parts.critics if one.verifier and not one.oracle]


def baselines(graph: Any, kind: str) -> list[Method]:
    """Return what the graph is held against: the same writer and critics, and nothing revised.

    Beside them a graph is held against its own first drafts, which cost no further call. Samples are twice as many as
    the drafts that the graph may write, so that they can be cut to its tokens afterwards.

    Args:
        graph: Where it is no loop of redraft's, there are none.
        kind: Of the problems, by which samples vote.
    """
    parts = parts_of(graph)
    if parts is None:
        return []
    samples = 2 * (1 + rounds_allowed(parts.limits))
    judges = [one.call for one in parts.critics if not one.human and one.name != ANSWER_TYPE]
    once: dict[str, Any] = {"generate": parts.first, "refine": parts.sample, "critics": []}
    once |= {"answer_type": parts.answer_type, "check": first_draft_only, "limits": {"max_rounds": 0}}
    wirings: dict[str, dict[str, Any]] = {}
    if isinstance(parts.first, PromptedModel):
        longer = copy(parts.first)
        longer.told += LONGER
        wirings["longer-call"] = {**once, "generate": longer}
        if (reader := VOTED_ANSWERS.get(kind)) is not None:
            writer = MajorityWriter(parts.sample.model, parts.first, samples=samples, answer=reader)  # type: ignore[union-attr]
            wirings[f"majority-{samples}"] = {**once, "generate": writer}
    if judges:
        choosing = {"critics": judges, "check": until_accepted, "limits": {"max_rounds": samples - 1}}
        wirings[f"best-of-{samples}"] = {**once, **choosing}
    return [
        replace(preset_method(name, build_refine_graph(name=name, **wiring)), rounds=wiring["limits"]["max_rounds"])
        for name, wiring in wirings.items()
    ]


LONGER = """

Take your time before you answer. Between <think> and </think>, plan the answer, write it, check it against everything \
that is asked for, and correct what is wrong. Behind </think> stands the final answer, and nothing else."""
"""Told with the task to a model that is to use its tokens in one longer call."""
