"""The model that a builder is given: what it must be, and how it is asked for revisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.runnables import Runnable

from .sampling import sampled

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage

__all__ = ["require_model", "revising_model"]


def require_model(model: object, *, what: str = "model") -> None:
    """Return where this is something that answers messages.

    Raises:
        TypeError: It is not: the name of a model is not yet a model.
    """
    if not isinstance(model, Runnable):
        raise TypeError(f"{what} is a chat model, not {model!r}; redraft.models.chat_model(…) makes one of a spec")


def revising_model(model: BaseChatModel, temperature: float | None) -> Runnable[Any, AIMessage]:
    """Return the model as it is asked for revisions: sampled, since one that is sure of itself repeats itself.

    Args:
        model: The model.
        temperature: As in `sampled`; `None` leaves the model as it was built.

    Raises:
        TypeError: The temperature is no number.
        ValueError: It is below 0.
    """
    if temperature is None:
        return model
    if isinstance(temperature, bool) or not isinstance(temperature, int | float):
        raise TypeError(f"refine_temperature must be a number from 0 up, or None, not {temperature!r}")
    if not temperature >= 0:
        raise ValueError(f"refine_temperature must be a number from 0 up, or None, not {temperature!r}")
    return sampled(model, temperature)
