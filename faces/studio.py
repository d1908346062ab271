"""The graphs that `langgraph.json` names. LangGraph's own server and Studio bring a checkpointer of their own.

The model is the one that `REDRAFT_MODEL` names, as `chat_model` reads it; without it, the embedded model.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .recipe import Recipe

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph

__all__ = ["refine"]


def refine() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the general loop, in which the model judges itself.

    Raises:
        BadInputError: `REDRAFT_MODEL` is not a model spec, or carries a credential.
        ValueError: As `chat_model`.
    """
    return Recipe.given(preset="refine", model=os.environ.get("REDRAFT_MODEL") or "local").build(None)
