"""Seeds of replies: each prompt and each sample of it has its own, drawn from that of the model. Internal.

With one seed for all, a server gives the same reply to a prompt again and again; and where the prompts of a thousand
problems begin alike, all of them share the luck of one first word.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_core.runnables import Runnable

__all__ = ["reseeded"]

MOST = 2**31
"""Every provider takes a seed below it."""


def reseeded(model: Runnable[Any, AIMessage], number: int, messages: Sequence[BaseMessage]) -> Runnable[Any, AIMessage]:
    """Return a model with a seed for this sample of this prompt; one that was built without a seed as it is.

    Args:
        model: A chat model, or one with arguments bound.
        number: Of the reply among those to one task, from 0.
        messages: The prompt.
    """
    seed = getattr(getattr(model, "bound", model), "seed", None)
    if not isinstance(seed, int):
        return model
    drawn = hashlib.blake2b(
        "\0".join([str(seed), str(number), *map(str, (one.text for one in messages))]).encode("utf-8", "surrogatepass")
    )
    return model.bind(seed=int.from_bytes(drawn.digest()[:8]) % MOST)
