"""Checks of stored values against types, and of limits against their ranges. Internal."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, get_args

from .events import FORMAT, EventKind
from .limits import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import TypeAdapter, ValidationError

__all__ = ["check_values"]

LIMITED = {"limits", "events"}
"""Channels in which limits stand, which have ranges besides types."""
KINDS = get_args(EventKind)
SHOWN_CHARACTERS = 80


def check_values(adapter: TypeAdapter[Any], *several: Mapping[str, Any]) -> None:
    """Raise ValueError unless each channel holds a value of its type, in each of several states.

    The message names the channel, what it holds and what would be right.
    """
    from pydantic import ValidationError

    for values in several:
        _refuse_later_format(values.get("events"))
        try:
            # Strict: lenient, pydantic takes "3" for 3, and what is used is the value as it is stored.
            adapter.validate_python(values, strict=True)
        except ValidationError as error:
            raise ValueError(_explained(error)) from None
        for channel in LIMITED & values.keys():
            for limits in _limits_in(channel, values[channel]):
                try:
                    # With its type: 1 and True are equal, and the cache would take one for the other.
                    _check_limits(*((name, type(value), value) for name, value in limits.items()))
                except (ValueError, TypeError) as error:
                    raise ValueError(f"its channel {channel!r} holds limits that make no sense: {error}") from None


def _refuse_later_format(events: Any) -> None:
    """Raise ValueError where a later release wrote events: by the rules of this one they could mean another thing."""
    for event in events if isinstance(events, list) else ():
        found = event.get("format") if isinstance(event, dict) else None
        if isinstance(found, int) and found > FORMAT:
            raise ValueError(
                f"a later redraft wrote it, in record format {found}; this one reads up to {FORMAT}: upgrade redraft"
            )


@lru_cache
def _check_limits(*limits: tuple[str, type, Any]) -> None:
    """Raise an error unless the limits make sense; a thread has the same ones in all its checkpoints."""
    Limits(**{name: value for name, _, value in limits})


def _limits_in(channel: str, value: Any) -> Sequence[Mapping[str, Any]]:
    if channel == "limits":
        return [value]
    return [event["limits"] for event in value if "limits" in event]


def _explained(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    channel, *path = first["loc"]
    # Of an event, its kind stands behind its place.
    path = [
        part
        for before, part in zip([channel, *path], path, strict=False)
        if not isinstance(before, int) or part not in KINDS
    ]
    where = ".".join(str(part) for part in path)
    if first["type"] == "missing":
        return f"its channel {channel!r} lacks {where}"
    if first["type"] == "union_tag_not_found":
        return f"its channel {channel!r} lacks {where}.kind"
    if first["type"] == "union_tag_invalid":
        context = first["ctx"]
        expected = context["expected_tags"]
        return f"its channel {channel!r} holds at {where}.kind {context['tag']!r}, which should be one of {expected}"
    shown = repr(first["input"])
    shown = shown if len(shown) <= SHOWN_CHARACTERS else f"{shown[: SHOWN_CHARACTERS - 1]}…"
    right = first["msg"].removeprefix("Input ")
    return f"its channel {channel!r} holds {f'at {where} ' if where else ''}{shown}, which {right}"
