"""How what a database holds is refused: by the name of its thread and checkpoint."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["BadCheckpointError", "naming", "refusal"]


class BadCheckpointError(ValueError):
    """What is stored of a thread is no checkpoint, or is one that is not to be trusted. None of it is used."""


DATA_ERRORS = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, NotImplementedError, RecursionError)
"""What data of the wrong form makes code raise that expects another."""


@contextmanager
def naming(place: Callable[[], Mapping[str, Any]]) -> Iterator[None]:
    """Within the block, an error of the data names whose they are.

    Args:
        place: Tells the `thread_id` and, where it is known, the `checkpoint_id`.

    Raises:
        BadCheckpointError: What was read is refused.
    """
    try:
        yield
    except BadCheckpointError:
        raise
    except DATA_ERRORS as error:
        form = "" if isinstance(error, ValueError) else "it has not the form of a checkpoint: "
        raise refusal(place(), f"{form}{error or type(error).__name__}") from error


def refusal(place: Mapping[str, Any], reason: str) -> BadCheckpointError:
    """Return the error that refuses what stands at a place."""
    which = f", checkpoint {place['checkpoint_id']!r}" if place.get("checkpoint_id") else ""
    within = f" in {place['checkpoint_ns']!r}" if place.get("checkpoint_ns") else ""
    told = f"what the database holds of thread {place.get('thread_id')!r}{which}{within} is refused: {reason}"
    return BadCheckpointError(told)
