"""Checks of what builders are given, and the words in which they refuse it. Internal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel

__all__ = ["check_lists", "checked_count", "checked_share", "checked_temperature", "refuse"]


def checked_count(name: str, value: Any, *, least: int) -> int:
    """Return `value`; raise ValueError unless it is a whole number from `least` up."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number from {least} up, not {value!r}")
    return int(value)


def check_lists(**given: Any) -> None:
    """Raise TypeError where an argument is one thing in place of a list of such things."""
    for name, value in given.items():
        # A chat model is pydantic's, which gives its fields one by one.
        if isinstance(value, str | Mapping | BaseModel) or not isinstance(value, Iterable | None):
            raise TypeError(f"{name} must be a list, as in {name}=[…], not {value!r:.200}")


def checked_share(name: str, value: Any) -> float:
    """Return `value`; raise ValueError unless it is a number from 0 to 1."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise ValueError(f"{name} must be between 0 and 1, not {value!r}")
    return value


def checked_temperature(name: str, value: Any) -> None:
    """Raise TypeError unless `value` is a number or `None`, and ValueError where it is below 0."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and value >= 0):
        return
    kind = ValueError if isinstance(value, int | float) and not isinstance(value, bool) else TypeError
    raise kind(f"{name} must be a number from 0 up, or None, not {value!r}")


def refuse(options: Mapping[str, Any], reasons: Mapping[str, str]) -> None:
    """Raise ValueError if an option was given that a preset can't pass on; `reasons` say why, by the option's name."""
    if wrong := next((name for name in reasons if name in options), None):
        raise ValueError(f"{wrong}= {reasons[wrong]}")
