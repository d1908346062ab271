"""The state of a search: that of any run, with the plan and what was said before."""

from __future__ import annotations

from typing import Any, NotRequired

from ...state.schema import RefineInput, RefineState

__all__ = ["RetrievalInput", "RetrievalState"]


class RetrievalInput(RefineInput):
    """The input of a search. `conversation` stays with the thread until it is given again."""

    conversation: NotRequired[list[Any]]
    """What was said before the query, oldest first: texts, or mappings with `content`."""


class RetrievalState(RefineState, total=False):
    """The state of a search."""

    conversation: list[Any]
    plan: dict[str, Any]
    """How the query is searched for; the record holds it too."""
