"""The state of a loop with keys of the user's own: what comes in, stays and comes out. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NotRequired, get_type_hints

from langgraph.graph import StateGraph
from typing_extensions import TypedDict, is_typeddict

from .conversation import ConversationInput, ConversationOutput, ConversationState
from .schema import RefineInput, RefineOutput, RefineState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["FROM_RECORD", "open_schemas", "own_keys", "own_values", "schemas_with"]

FROM_RECORD = ("feedback", "history", "round", "context")
"""Variables of prompts that are read off the record, beside `task` and `draft`."""


def own_keys(state_schema: Any) -> dict[str, Any]:
    """Return the keys that a state adds to the loop's, with their types; none for `None`.

    Raises:
        TypeError: It is no TypedDict.
        ValueError: A key has the name of something else in prompts.
    """
    if state_schema is None:
        return {}
    if not is_typeddict(state_schema):
        raise TypeError(
            "state_schema is a TypedDict with keys of yours, or such a subclass of redraft.state.RefineState, "
            f"not {state_schema!r}"
        )
    keys = {key: kind for key, kind in _types(state_schema).items() if key not in LOOP_KEYS}
    if taken := [key for key in FROM_RECORD if key in keys]:
        raise ValueError(f"state_schema has a key {taken[0]!r}, which means something else in prompts: rename it")
    return keys


def open_schemas(state_schema: Any, input_schema: Any, *, chat: bool) -> tuple[Any, Any, Any]:
    """Return the schemas of a graph: of its state, its input and its output.

    Args:
        state_schema: Adds keys to the loop's state, or replaces some; or `None`.
        input_schema: Narrows the input; `None`: it takes what the loop takes, and every key of one's own.
        chat: Whether the input may be messages.

    Raises:
        TypeError: As of `own_keys`.
        ValueError: As of `own_keys`.
    """
    chat = chat if input_schema is None else "messages" in _types(input_schema)
    typed: Any = TypedDict  # type checkers know only those that are written down
    state: Any = ConversationState if chat else RefineState
    given: Any = ConversationInput if chat else RefineInput
    output: Any = ConversationOutput if chat else RefineOutput
    own, name = own_keys(state_schema), getattr(state_schema, "__name__", "")
    if state_schema is not None:
        state = typed(name, {**_types(state), **_types(state_schema)}, total=False)
        state.__module__ = state_schema.__module__  # not ours: its keys may hold what the user likes
    # Of LangGraph's managed values (how many steps remain) none may come in or go out.
    kept = {key: NotRequired[kind] for key, kind in own.items() if key in StateGraph(state).channels}
    if kept:
        given = typed(f"{name}Input", {**_types(given), **kept}, total=not chat)
        output = typed(f"{name}Output", {**_types(output), **kept})
        given.__module__ = output.__module__ = state_schema.__module__
    return state, given if input_schema is None else input_schema, output


def schemas_with(keys: Iterable[str]) -> tuple[Any, Any, Any]:
    """Return the schemas of a graph with those of these keys that are neither the loop's nor LangGraph's."""
    typed: Any = TypedDict
    own = {key: Any for key in keys if key not in (*LOOP_KEYS, *FROM_RECORD) and key.isidentifier() and key[0] != "_"}
    return open_schemas(typed("OwnKeys", own) if own else None, None, chat=True)


def own_values(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values in a state that are not the loop's."""
    return {key: value for key, value in state.items() if key not in LOOP_KEYS}


def _types(schema: Any) -> dict[str, Any]:
    return get_type_hints(schema, include_extras=True)


LOOP_KEYS = frozenset(_types(ConversationState))
