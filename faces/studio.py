"""The graphs that `langgraph.json` names. LangGraph's own server and Studio bring a checkpointer of their own.

The model is the one that `REDRAFT_MODEL` names, as `chat_model` reads it; without it, the embedded model. A name that
is no model raises an error when a graph is asked for.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .recipe import Recipe

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph

__all__ = [
    "agent",
    "code",
    "few_shot",
    "majority_5",
    "math",
    "reasoning",
    "refine",
    "refine_with_a_person",
    "retrieval",
    "rubric",
    "travel",
    "writing",
    "zero_shot",
]


def refine() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the general loop, in which the model judges itself."""
    return _served("refine")


def refine_with_a_person() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the general loop, which pauses after the model has judged and asks whoever watches."""
    return _served("refine", critics=("self",), human=True)


def math() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the graph for word problems; an independently written program must agree."""
    return _served("math")


def code() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the graph for Python functions, judged by the examples and asserts in the task."""
    return _served("code")


def writing() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the graph for texts, in which the model judges itself."""
    return _served("writing")


def agent() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return an agent that can calculate, whose answer is judged and refined."""
    return _served("agent", tools=("calculate",))


def reasoning() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the graph that drafts, criticises and improves three times."""
    return _served("reasoning")


def retrieval() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the search over the text and Markdown files of `REDRAFT_DOCUMENTS`; without it, of the working folder."""
    return _served("retrieval", folder=os.environ.get("REDRAFT_DOCUMENTS") or ".")


def rubric() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the graph that scores its answers on four weighted dimensions."""
    return _served("rubric")


def travel() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the trip planner."""
    return _served("travel")


def zero_shot() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the baseline of one call."""
    return _served("zero-shot")


def few_shot() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the baseline of one call after worked examples."""
    return _served("few-shot")


def majority_5() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the baseline of five samples and a vote."""
    return _served("majority-5")


def _served(preset: str, **options: Any) -> CompiledStateGraph[Any, Any, Any, Any]:
    return Recipe.given(preset=preset, model=os.environ.get("REDRAFT_MODEL") or "local", **options).build(None)
