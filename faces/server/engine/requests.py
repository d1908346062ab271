"""Validation of run requests and state updates, before anything is kept and against the limits. Internal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ....nodes.passages import checked_threshold, checked_top_k
from ....state.checked_channels import DATA_ERRORS, check_update
from ....state.conversation import given_messages
from ....state.limits import MOST_TOKENS, merged_limits
from ....state.stopping import check_record
from ....state.threads.kind import kind_of
from ....state.threads.snapshots import schemas_of
from .conversations import task_of
from .runs import BadRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ....graphs.preset import Conversation
    from ....state.events import Event
    from ..settings import Settings

__all__ = ["MODES", "can_be_id", "can_be_served", "checked_id", "checked_modes", "checked_request", "checked_update"]

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
MODES = {"values": "values", "updates": "updates", "custom": "custom", "messages": "messages",
         "messages-tuple": "messages", "tasks": "tasks", "checkpoints": "checkpoints", "debug": "debug",
         "tools": "tools", "events": "events"}  # fmt: skip
"""The stream modes that are served, and what LangGraph calls each; it has `events` by another way in."""
NUMBERS = {"top_k": checked_top_k, "confidence_threshold": checked_threshold}
"""What a search may be given for a single call."""


def can_be_id(given: str) -> bool:
    """Return whether a database can be asked for it; the shell and Python may have made ids that no caller here can."""
    return given.isprintable() and 0 < len(given) <= 512


def checked_id(given: object) -> str:
    """Return an id of a thread.

    Raises:
        BadRequestError: It is none.
    """
    if not isinstance(given, str) or not ID.fullmatch(given):
        raise BadRequestError("an id has 1 to 128 letters, digits and . _ : -, and starts with a letter or digit")
    return given


def can_be_served(thread_id: str) -> bool:
    """Return whether the API takes a thread's id: the shell may have made one that it doesn't."""
    return ID.fullmatch(thread_id) is not None


def checked_request(
    settings: Settings,
    graph: Any,
    *,
    conversation: Conversation,
    input: Any,  # noqa: A002  (as LangGraph's clients name it)
    command: Any,
    config: Any,
    checkpoint: Mapping[str, Any] | None,
    stream_modes: str | Sequence[str] | None,
    subgraphs: bool,
    interrupt_before: Any,
    interrupt_after: Any,
) -> dict[str, Any]:
    """Return what a run is asked for as it is kept: plain data.

    Args:
        conversation: What of `messages` the graph is told, where it takes none: as in `task_of`.

    Raises:
        BadRequestError: Something makes no sense or is not allowed.
    """
    takes = graph.builder.schemas[graph.builder.input_schema]
    if isinstance(input, dict) and input.get("messages") and "messages" not in takes:
        _check_messages(input["messages"], settings.max_task_characters)
        told = {"task": task_of(input["messages"], conversation)} if input.get("task") is None else {}
        input = {**{name: value for name, value in input.items() if name != "messages"}, **told}  # noqa: A001
    given = checked_input(input, settings) if input is not None else {}
    if unknown := [name for name in given if name not in takes]:
        raise BadRequestError(f"input takes no {unknown[0]!r:.80}; it takes {', '.join(sorted(takes))}")
    return {
        "input": given or None,
        "command": checked_command(command, settings, graph) if command is not None else None,
        "config": _config(config),
        "checkpoint_id": _checkpoint_id(checkpoint),
        "stream_modes": checked_modes(stream_modes),
        "subgraphs": bool(subgraphs),
        "interrupt_before": _nodes(interrupt_before, graph.nodes),
        "interrupt_after": _nodes(interrupt_after, graph.nodes),
    }


def checked_input(given: object, settings: Settings, *, default_rounds: int = 3) -> dict[str, Any]:
    """Return the input of a run.

    Args:
        given: What the caller gives: `task`, or `messages` where the preset takes some, `draft` and `limits`.
        settings: Whose limits hold.
        default_rounds: Revisions where nobody says how many; fewer, where fewer are allowed.

    Raises:
        BadRequestError: It is no input, or more than is allowed.
    """
    if not isinstance(given, dict) or not given:
        raise BadRequestError('input must be an object with a "task"')
    if "task" not in given and "messages" not in given:
        raise BadRequestError('input needs a "task": a text')
    checked_values(given, settings)
    if "task" in given and not given["task"].strip():
        raise BadRequestError("task must be a text that is not blank")
    if settings.max_rounds < default_rounds and "max_rounds" not in (given.get("limits") or {}):
        return {**given, "limits": {**(given.get("limits") or {}), "max_rounds": settings.max_rounds}}
    return dict(given)


def checked_values(given: object, settings: Settings) -> dict[str, Any]:
    """Return values that may be written into a state.

    Raises:
        BadRequestError: They are none, or more than is allowed.
    """
    if not isinstance(given, dict):
        raise BadRequestError("values must be an object")
    most = settings.max_task_characters
    for name in ("task", "draft", "feedback"):
        text = given.get(name, "")
        if not isinstance(text, str):
            raise BadRequestError(f"{name} must be a text")
        if len(text) > most:
            raise BadRequestError(f"{name} is too long: at most {most} characters")
    for name, check in NUMBERS.items():
        if name in given:
            try:
                check(given[name])
            except ValueError as error:
                raise BadRequestError(str(error)[:500]) from None
    if (messages := given.get("messages")) is not None:
        _check_messages(messages, most)
    if (limits := given.get("limits")) is not None:
        _check_limits(limits, settings)
    _check_numbers(given)
    return dict(given)


def checked_update(given: object, settings: Settings, graph: Any, before: Sequence[Event]) -> dict[str, Any]:
    """Return a state update that the thread can be read with afterwards, whoever reads it.

    Args:
        given: What the caller gives.
        settings: Whose limits hold.
        graph: Whose typed state it is of.
        before: The record where it is written.

    Raises:
        BadRequestError: It holds values of other types, or events that make no record.
    """
    values = checked_values(given, settings)
    schemas = schemas_of(graph)
    if not schemas:
        return values
    try:
        check_update(values, schemas, also=("feedback",) if kind_of(graph).forkable else ())
        if values.get("events"):
            check_record([*before, *values["events"]])
    except DATA_ERRORS as error:
        raise BadRequestError(f"this can't be written: {error}"[:500]) from None
    return values


def checked_command(given: object, settings: Settings, graph: Any) -> dict[str, Any]:
    """Return what a `Command` is made of: `resume`, `update` and `goto`, where they are given.

    It goes to one node of those that the graph's kind lets callers enter at, once, and changes what an input may hold:
    each further one would be a run beside the run.

    Raises:
        BadRequestError: It is none, or more than that.
    """
    if not isinstance(given, dict):
        raise BadRequestError("command must be an object with resume, update or goto")
    found: dict[str, Any] = {}
    if given.get("resume") is not None:
        found["resume"] = given["resume"]
    if update := given.get("update"):
        if isinstance(update, list):
            pairs = all(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) for pair in update)
            if not pairs:
                raise BadRequestError("update must be an object")
            update = dict(update)
        inputs = graph.builder.schemas[graph.builder.input_schema]
        if isinstance(update, dict) and (others := sorted(update.keys() - inputs.keys())):
            raise BadRequestError(f"a command updates {', '.join(inputs)}, not {others[0]!r:.80}")
        found["update"] = checked_update(update, settings, graph, [])
    if goto := given.get("goto"):
        entries = kind_of(graph).entries
        named = goto if isinstance(goto, list) else [goto]
        if len(named) != 1 or named[0] not in entries:
            may = f"one of {', '.join(entries)}, by its name and once" if entries else "no node of this assistant"
            raise BadRequestError(f"goto names {may}")
        found["goto"] = named
    if not found:
        raise BadRequestError("command must hold resume, update or goto")
    return found


def checked_modes(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the stream modes, each once.

    Raises:
        BadRequestError: One is not served.
    """
    modes = [given] if isinstance(given, str) else list(given or ["values"])
    for mode in modes:
        if mode not in MODES:
            raise BadRequestError(f"stream modes are {', '.join(MODES)}")
    return tuple(dict.fromkeys(modes))


def _check_messages(messages: object, most: int) -> None:
    if isinstance(messages, str):
        messages = [messages]
    if not isinstance(messages, list) or not all(isinstance(message, str | dict) for message in messages):
        raise BadRequestError("messages must be a list")
    if sum(len(str(message)) for message in messages) > most:
        raise BadRequestError(f"messages are too long: at most {most} characters")
    try:
        given_messages(messages)
    except ValueError as error:
        raise BadRequestError(str(error)[:500]) from None


def _check_limits(limits: object, settings: Settings) -> None:
    if not isinstance(limits, dict):
        raise BadRequestError("limits must be an object")
    try:
        valid = merged_limits(None, limits)
    except ValueError as error:
        raise BadRequestError(str(error)[:500]) from None
    if "max_rounds" in limits and valid["max_rounds"] > settings.max_rounds:
        raise BadRequestError(f"max_rounds is at most {settings.max_rounds} on this server")


def _check_numbers(value: Any) -> None:
    """Refuse numbers whose sums no checkpoint could hold."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in parts:
        _check_numbers(part)
    if isinstance(value, int | float) and not abs(value) <= MOST_TOKENS:
        raise BadRequestError(f"a number is at most {MOST_TOKENS:.0e}")


def _config(config: Mapping[str, Any] | None) -> dict[str, Any]:
    # Nothing else is taken: with `configurable` a caller could name another's thread.
    found: dict[str, Any] = {}
    if not isinstance(config or {}, dict):
        raise BadRequestError("config must be an object")
    if (limit := (config or {}).get("recursion_limit")) is not None:
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= 10_000:
            raise BadRequestError("recursion_limit is a whole number from 1 to 10000")
        found["recursion_limit"] = limit
    return found


def _checkpoint_id(checkpoint: Mapping[str, Any] | None) -> str | None:
    given = (checkpoint or {}).get("checkpoint_id")
    return None if given is None else checked_id(given)


def _nodes(given: Any, nodes: Mapping[str, Any]) -> Any:
    if not given or given == "*":
        return given or None
    if not isinstance(given, list) or not all(isinstance(name, str) and name in nodes for name in given):
        raise BadRequestError("interrupt_before and interrupt_after name nodes of the graph, or are *")
    return given
