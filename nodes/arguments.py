"""Checks of what builders are given, and the words in which they refuse it. Internal."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import update_wrapper
from typing import Any, get_args

from langchain_core.runnables import Runnable
from langgraph.config import get_config, get_store, get_stream_writer
from langgraph.runtime import get_runtime
from pydantic import BaseModel

from ..state.dual import DualCallable

__all__ = [
    "check_choices",
    "check_lists",
    "checked_count",
    "checked_share",
    "checked_temperature",
    "over_state",
    "refuse",
]


def checked_count(name: str, value: Any, *, least: int) -> int:
    """Return `value`; raise ValueError unless it is a whole number from `least` up."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number from {least} up, not {value!r}")
    return int(value)


def check_choices(**given: tuple[Any, Any]) -> None:
    """Raise ValueError where an argument is none of those that there are.

    Args:
        given: By name, what was given, and `bool` or the Literal that lists what there is.
    """
    for name, (value, kind) in given.items():
        choices = (True, False) if kind is bool else get_args(kind)
        if value not in choices:
            *first, last = map(repr, choices)
            raise ValueError(f"{name} must be {', '.join(first)} or {last}, not {value!r:.200}")


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


GIVEN: Mapping[str, Callable[[], Any]] = {
    "config": get_config,
    "runtime": get_runtime,
    "store": get_store,
    "writer": get_stream_writer,
}
"""What LangGraph gives a node that has a parameter of this name."""


def over_state(**given: Any) -> list[Any]:
    """Return functions over the state as such that take nothing else: what they ask for beside it, they are given.

    Args:
        given: By the arguments' names, functions that take the state, and `config`, `runtime`, `store` or `writer` by
            their names, as a node of LangGraph's does; `draft` is left to the caller. Several in a mapping are made so
            one by one. Anything else is returned as it is.

    Raises:
        TypeError: One can't be called so.
    """
    return [_over_state(one, what) for what, one in given.items()]


def _over_state(given: Any, what: str) -> Any:
    if isinstance(given, Mapping):
        return {name: _over_state(one, f"{what}[{name!r}]") for name, one in given.items()}
    if not callable(given) or isinstance(given, Runnable | DualCallable):
        return given
    try:
        signature = inspect.signature(given)
    except (TypeError, ValueError):  # as of a builtin
        return given
    further = [*signature.parameters][1:]
    unset = (inspect.Parameter.empty, None)
    names = [name for name in further if name in GIVEN and signature.parameters[name].default in unset]
    try:
        signature.bind({}, **dict.fromkeys([*names, *({"draft"} & {*further})]))
    except TypeError:
        ways = f"may take {', '.join(GIVEN)} too"
        raise TypeError(f"{what} is a callable that takes the state, and {ways}, not {given!r:.200}") from None
    if not names:
        return given

    def called(*state: Any) -> Any:
        return given(*state, **{name: GIVEN[name]() for name in names})

    return update_wrapper(called, given)
