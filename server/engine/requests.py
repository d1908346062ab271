"""Validation of run requests and state updates, before anything is kept and against the limits. Internal."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, get_type_hints

from ...graphs.preset import Conversation
from ...nodes.prepare import required
from ...state.checked_channels import given_messages
from ...state.checked_values import DATA_ERRORS, check_update
from ...state.events import AGENT_RECORD, AGENT_VALUES, record, task_event
from ...state.limits import MOST_TOKENS, merged_limits
from ...state.schema import RefineInput, RefineState
from ...state.threads.kind import kind_of
from ...state.threads.snapshots import schemas_of
from ...state.typed_answer import ANSWER_SCHEMA
from ..settings import Settings
from .runs import BadRequestError, Submission

__all__ = ["MODES", "can_be_id", "can_be_served", "checked_id", "checked_modes", "checked_request",
           "checked_update", "conversation_input", "given_to", "task_of"]  # fmt: skip

MOST_REQUIRED = 50
"""Texts that a run's input may require."""
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
MODES = {"values": "values", "updates": "updates", "custom": "custom", "messages": "messages",
         "messages-tuple": "messages", "tasks": "tasks", "checkpoints": "checkpoints", "debug": "debug",
         "tools": "tools", "events": "events"}  # fmt: skip
"""The stream modes that are served, and what LangGraph calls each; it has `events` by another way in."""
BOUNDS: dict[str, tuple[Any, float, float]] = {
    "top_k": (int, 1, MOST_TOKENS),
    "confidence_threshold": (int | float, 0, 1),
}
"""The numbers that a search may be given for a single call: their type, the least and the most."""


def can_be_id(name: str) -> bool:
    """Return True for an id that a database can be asked for, also one that only the shell or Python could make."""
    return name.isprintable() and 0 < len(name) <= 512


def checked_id(name: object) -> str:
    """Return an id of a thread.

    Raises:
        BadRequestError: It is none.
    """
    if not isinstance(name, str) or not ID.fullmatch(name):
        raise BadRequestError("an id has 1 to 128 letters, digits and . _ : -, and starts with a letter or digit")
    return name


def can_be_served(thread_id: str) -> bool:
    """Return True for a thread id that the API takes; the shell may have made others."""
    return ID.fullmatch(thread_id) is not None


def checked_request(
    settings: Settings, graph: Any, conversation: Conversation, submission: Submission
) -> dict[str, Any]:
    """Return a checked submission as it is stored: plain data.

    Args:
        settings: Whose limits hold.
        graph: What it runs on.
        conversation: What of `messages` the graph is told, where it takes none: as in `task_of`.
        submission: What is asked for.

    Raises:
        BadRequestError: Something makes no sense or is not allowed.
    """
    fields = given_to(graph)
    values, place = submission.input, submission.checkpoint_id
    if isinstance(values, dict) and values.get("messages") and "messages" not in fields:
        _check_messages(values["messages"], settings.max_task_characters)
        task = {"task": task_of(values["messages"], conversation)} if values.get("task") is None else {}
        values = {**{name: value for name, value in values.items() if name != "messages"}, **task}
    typed = ANSWER_SCHEMA in kind_of(graph).options
    values = checked_input(values, settings, typed=typed) if values is not None else {}
    if unknown := [name for name in values if name not in fields]:
        raise BadRequestError(f"input takes no {unknown[0]!r:.80}; it takes {', '.join(sorted(fields))}")
    command = submission.command
    return {
        "input": values or None,
        "command": checked_command(command, settings, graph) if command is not None else None,
        "config": {} if submission.recursion_limit is None else {"recursion_limit": submission.recursion_limit},
        "checkpoint_id": None if place is None else checked_id(place),
        "stream_modes": checked_modes(submission.stream_modes),
        "subgraphs": bool(submission.subgraphs),
        "interrupt_before": _nodes(submission.interrupt_before, graph.nodes),
        "interrupt_after": _nodes(submission.interrupt_after, graph.nodes),
        **({} if submission.webhook is None else {"webhook": submission.webhook}),
    }


def given_to(graph: Any) -> list[str]:
    """Return the fields of a graph's state that callers give: those of an input, without what the program alone says of
    a run, such as its record, its head, why it stopped and who accepted, whatever graph has them as an input."""
    fields = graph.builder.schemas[graph.builder.input_schema]
    return [name for name in fields if not (kind_of(graph).keeps_record and name in SAID)]


SAID = (get_type_hints(RefineState).keys() - get_type_hints(RefineInput)) | {AGENT_RECORD, AGENT_VALUES}
"""The fields of a record."""


def checked_input(
    values: object, settings: Settings, *, default_rounds: int = 3, typed: bool = False
) -> dict[str, Any]:
    """Return the input of a run.

    Args:
        values: What the caller gives: `task`, or `messages` where the preset takes some, `draft` and `limits`.
        settings: Whose limits hold.
        default_rounds: Revisions where nobody says how many; fewer, where fewer are allowed.
        typed: Whether drafts are of a type: then `draft` may be any JSON.

    Raises:
        BadRequestError: It is no input, or more than is allowed.
    """
    if not isinstance(values, dict) or not values:
        raise BadRequestError('input must be an object with a "task"')
    if "task" not in values and "messages" not in values:
        raise BadRequestError('input needs a "task": a text')
    checked_values(values, settings, typed=typed)
    if "task" in values and not values["task"].strip():
        raise BadRequestError("task must be a text that is not blank")
    if settings.max_rounds < default_rounds and "max_rounds" not in (values.get("limits") or {}):
        return {**values, "limits": {**(values.get("limits") or {}), "max_rounds": settings.max_rounds}}
    return dict(values)


def checked_values(values: object, settings: Settings, *, typed: bool = False) -> dict[str, Any]:
    """Return values that may be written into a state; `typed` as in `checked_input`.

    Raises:
        BadRequestError: They are none, or more than is allowed.
    """
    if not isinstance(values, dict):
        raise BadRequestError("values must be an object")
    longest = settings.max_task_characters
    for name in ("task", "draft", "feedback"):
        text = values.get(name, "")
        if typed and name == "draft" and not isinstance(text, str):
            text = json.dumps(text)
        if not isinstance(text, str):
            raise BadRequestError(f"{name} must be a text")
        if len(text) > longest:
            raise BadRequestError(f"{name} is too long: at most {longest} characters")
    for name, (kind, least, most) in BOUNDS.items():
        value = values.get(name, least)
        if isinstance(value, bool) or not isinstance(value, kind) or not least <= value <= most:
            raise BadRequestError(f"{name} must be a number between {least} and {most:g}")
    if (messages := values.get("messages")) is not None:
        _check_messages(messages, longest)
    _check_required(values.get("require", ()), longest)
    if (limits := values.get("limits")) is not None:
        if not isinstance(limits, dict):
            raise BadRequestError("limits must be an object")
        try:
            rounds = merged_limits(None, limits)["max_rounds"]
        except ValueError as error:
            raise BadRequestError(str(error)[:500]) from None
        if "max_rounds" in limits and rounds > settings.max_rounds:
            raise BadRequestError(f"max_rounds is at most {settings.max_rounds} on this server")
    _check_numbers(values)
    return dict(values)


def _check_required(asked: object, longest: int) -> None:
    """Refuse what is required where it makes no sense, or is more than is allowed."""
    try:
        texts = [event["text"] for event in required(asked)]
    except ValueError as error:
        raise BadRequestError(str(error)[:500]) from None
    if len(texts) > MOST_REQUIRED or sum(map(len, texts)) > longest:
        raise BadRequestError(f"require is too long: at most {MOST_REQUIRED} texts, {longest} characters together")


def checked_update(update: object, settings: Settings, graph: Any) -> dict[str, Any]:
    """Return a state update that says nothing which only the program may say, and that the thread can be read with
    afterwards, whoever reads it.

    Args:
        update: What the caller gives.
        settings: Whose limits hold.
        graph: Whose typed state it is of.

    Raises:
        BadRequestError: It holds values of other types, or a field that is none of an input.
    """
    values, kind = checked_values(update, settings), kind_of(graph)
    fields = sorted({*given_to(graph), *kind.own, *(("feedback",) if kind.forkable else ())})
    try:
        if schemas := schemas_of(graph):
            check_update({name: values[name] for name in values.keys() - kind.own}, schemas, also=fields)
    except DATA_ERRORS as error:
        raise BadRequestError(f"this can't be written: {error}"[:500]) from None
    if kind.keeps_record and (others := sorted(values.keys() - set(fields))):
        raise BadRequestError(f"a caller writes {', '.join(fields)}; {others[0]!r:.80} is the program's to say")
    return values


def checked_command(command: object, settings: Settings, graph: Any) -> dict[str, Any]:
    """Return the checked parts of a `Command`: `resume`, `update` and `goto`, those that are there.

    It goes to one node of those that the graph's kind lets callers enter at, once, and changes what an input may hold:
    each further one would be a run beside the run.

    Raises:
        BadRequestError: It is none, or more than that.
    """
    if not isinstance(command, dict):
        raise BadRequestError("command must be an object with resume, update or goto")
    parts: dict[str, Any] = {}
    if command.get("resume") is not None:
        parts["resume"] = command["resume"]
    if update := command.get("update"):
        if isinstance(update, list):
            if not all(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) for pair in update):
                raise BadRequestError("update must be an object")
            update = dict(update)
        inputs = given_to(graph)
        if isinstance(update, dict) and (others := sorted(update.keys() - set(inputs))):
            raise BadRequestError(f"a command updates {', '.join(inputs)}, not {others[0]!r:.80}")
        parts["update"] = checked_update(update, settings, graph)
    if goto := command.get("goto"):
        entries = kind_of(graph).entries
        named = goto if isinstance(goto, list) else [goto]
        if len(named) != 1 or named[0] not in entries:
            may = f"one of {', '.join(entries)}, by its name and once" if entries else "no node of this assistant"
            raise BadRequestError(f"goto names {may}")
        parts["goto"] = named
    if not parts:
        raise BadRequestError("command must hold resume, update or goto")
    return parts


def checked_modes(names: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the stream modes, each once.

    Raises:
        BadRequestError: One is not served.
    """
    modes = [names] if isinstance(names, str) else list(names or ["values"])
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


def _check_numbers(value: Any) -> None:
    """Refuse numbers whose sums no checkpoint could hold."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in parts:
        _check_numbers(part)
    if isinstance(value, int | float) and not abs(value) <= MOST_TOKENS:
        raise BadRequestError(f"a number is at most {MOST_TOKENS:.0e}")


def _nodes(names: Any, nodes: Mapping[str, Any]) -> Any:
    if not names or names == "*":
        return names or None
    if not isinstance(names, list) or not all(isinstance(name, str) and name in nodes for name in names):
        raise BadRequestError("interrupt_before and interrupt_after name nodes of the graph, or are *")
    return names


def task_of(messages: Any, conversation: Conversation) -> str:
    """Return the task that a conversation is to a graph that takes no messages.

    The last user message is the task, and what comes after it is left out. What was said before, system messages first
    of all, is put before it; where programs read the task that is the system messages only, and a search gets its
    query and nothing else.

    Args:
        messages: In any of the forms that LangChain takes.
        conversation: What of it the graph is told, as its preset says.

    Raises:
        BadRequestError: They are none, or there is no user message.
    """
    try:
        read = given_messages(messages)
    except ValueError as error:
        raise BadRequestError(str(error)[:500]) from None
    turns = [{"role": ROLES[turn.type], "content": str(turn.text)} for turn in read if turn.type in ROLES]
    last = max(index for index, turn in enumerate(turns) if turn["role"] == "user")
    before, task = [turn for turn in turns[:last] if turn["content"].strip()], turns[last]["content"]
    if conversation == "none":
        before = []
    elif conversation == "system":
        before = [turn for turn in before if turn["role"] == "system"]
    if not before:
        return task
    from ...nodes.writing.prompts import in_context

    conversed = [*before, {"role": "user", "content": task}]
    events: Any = record({}, task_event(task, {}, {}, conversation=conversed))["events"]
    return in_context(task, events)


def conversation_input(messages: Any, conversation: Conversation) -> dict[str, Any]:
    """Return a conversation as a graph's input: the messages where it takes them, else a task.

    Raises:
        BadRequestError: They are none, or there is no user message.
    """
    return {"messages": messages} if conversation == "messages" else {"task": task_of(messages, conversation)}


ROLES = {"system": "system", "human": "user", "ai": "assistant"}
"""Types of messages as graphs know them; what tools said elsewhere is left out."""
