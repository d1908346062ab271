"""Seeds of samples: with one seed for all, a server gives the same reply to one prompt again and again. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage
    from langchain_core.runnables import Runnable

__all__ = ["reseeded"]


def reseeded(model: Runnable[Any, AIMessage], number: int) -> Runnable[Any, AIMessage]:
    """Return a model whose seed is raised by `number`; one that was built without a seed is given back as it is.

    Args:
        model: A chat model, or one with arguments bound.
        number: Of the reply among those to one prompt, from 0.
    """
    seed = getattr(getattr(model, "bound", model), "seed", None)
    return model if number == 0 or not isinstance(seed, int) else model.bind(seed=seed + number)
