"""Wire formats: JSON of graph values, snapshots as LangGraph's clients read them, server-sent events. Internal."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterable, AsyncIterator, Collection, Iterable, Mapping
from typing import Annotated, Any

import orjson
from langgraph.types import StateSnapshot
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError, to_jsonable_python
from starlette.responses import Response

from ..engine.runs import BadRequestError, Run, ServerEvent

__all__ = [
    "MOST_METADATA",
    "Few",
    "Metadata",
    "Page",
    "RequestBody",
    "checked_metadata",
    "dumps",
    "event_bytes",
    "json_list",
    "json_response",
    "one_by_one",
    "plain",
    "selected",
    "sse",
    "thread_state",
]

MOST_METADATA = 16_384
"""Bytes of a thread's metadata or a run's: these are in every list, and a run's in each of its checkpoints."""
MOST_CONDITIONS = 100
"""Names of a filter, or of what is shown, as each is looked up in all that a caller keeps; and faults that are told."""
MOST_LISTED = 32 * 2**20
"""Bytes of a list: a short request is not answered by gigabytes, which would have to be held at once."""


class RequestBody(BaseModel, strict=True):
    """A request's body, read strictly: `"true"` is no boolean and `"5"` no number, as JSON has both."""

    @model_validator(mode="wrap")
    @classmethod
    def _faults(cls, body: Any, validate: Any) -> Any:
        """Refuse a body with many faults as a whole: a list of them takes longer than to find them."""
        try:
            return validate(body)
        except ValidationError as error:
            many = PydanticCustomError("many_faults", "there are too many faults to name")
            raise (error if error.error_count() <= MOST_CONDITIONS else many) from None


class Page(RequestBody):
    """The part of a list that is wanted."""

    limit: Annotated[int, Field(ge=1, le=1000)] = 10
    offset: Annotated[int, Field(ge=0, le=1_000_000)] = 0


def checked_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return metadata that are not too long; raises BadRequestError."""
    if len(dumps(metadata)) > MOST_METADATA:
        raise BadRequestError(f"metadata have at most {MOST_METADATA} bytes of JSON")
    return metadata


Metadata = Annotated[dict[str, Any], AfterValidator(checked_metadata)]


def few_names(names: Any) -> Any:
    """Return a filter, or names of fields, that are few; raises ValueError before each of many is looked at."""
    if isinstance(names, dict | list) and len(names) > MOST_CONDITIONS:
        raise ValueError(f"at most {MOST_CONDITIONS} names, not {len(names)}")
    return names


Few = BeforeValidator(few_names)


HIDDEN = frozenset({"raised", "redraft_recipe", "redraft_path_recipe"})
"""Metadata that may name files of the server; they are in states, and in what runs stream about their steps."""


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it.

    What a failed call said is left out of the record, and only its type is told: it may hold prompts, paths and keys.
    """
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, Mapping):
        if value.get("kind") == "failure" and "error" in value:
            value = {**value, "text": str(value["error"])}
        elif value.get("stop_reason") == "failed" and value.get("error"):
            value = {**value, "error": "a call failed; its event says where"}
        if value.get("structured_response") is not None:
            value = {**value, "structured_response": to_jsonable_python(value["structured_response"])}
        return {str(name): plain(part) for name, part in value.items() if name not in HIDDEN}
    if isinstance(value, list | tuple | set | frozenset) and not hasattr(value, "_asdict"):
        return [plain(part) for part in value]
    if hasattr(value, "model_dump"):
        return plain(value.model_dump())
    if type(value).__name__ == "Interrupt":
        return {"value": plain(value.value), "id": value.id}
    # Of anything else its name only: what it would say of itself may hold paths and keys.
    return type(value).__name__


def dumps(value: Any) -> bytes:
    """Return a value as JSON; a number that JSON can't hold becomes null."""
    data = plain(value)
    try:
        return orjson.dumps(data)
    except TypeError:  # half of a character, or a number beyond 64 bits, in what a model wrote
        return json.dumps(data).encode()


def json_response(value: Any, headers: Mapping[str, str] | None = None, *, status: int = 200) -> Response:
    """Return a response that holds a value as JSON."""
    return Response(dumps(value), status, media_type="application/json", headers=headers)


async def json_list(values: AsyncIterable[Any]) -> Response:
    """Return a response that holds a list as JSON; raises BadRequestError where it would be too long.

    Others are served between its values.
    """
    parts: list[bytes] = []
    left = MOST_LISTED
    async for value in values:
        await asyncio.sleep(0)
        parts.append(dumps(value))
        left -= len(parts[-1])
        if left < 0:
            raise BadRequestError(
                f"these are more than {MOST_LISTED // 2**20} MB: ask for fewer (limit), or for fewer fields (select)"
            )
    return Response(b"[" + b",".join(parts) + b"]", media_type="application/json")


async def one_by_one(values: Iterable[Any]) -> AsyncIterator[Any]:
    """Yield the values for `json_list`."""
    for value in values:
        yield value


def selected(fields: dict[str, Any], names: Collection[str] | None) -> dict[str, Any]:
    """Return these fields of what is shown, or all."""
    return fields if names is None else {name: value for name, value in fields.items() if name in names}


def sse(data: Any, event: str = "", number: str | int = "") -> bytes:
    """Return an event of a stream.

    Args:
        data: What it holds.
        event: Its name; empty where it has none.
        number: What a client asks to go on after; empty where nobody can.
    """
    lines = [b"event: " + event.encode()] if event else []
    lines.append(b"data: " + dumps(data))
    lines += [b"id: " + str(number).encode()] if number != "" else []
    return b"\n".join(lines) + b"\n\n"


def event_bytes(run: Run, number: int, event: ServerEvent) -> bytes:
    """Return one event of a run's stream, which a client can ask to go on after."""
    return sse(event.data, event.event, f"{run.stream}-{number}")


def thread_state(snapshot: StateSnapshot) -> dict[str, Any]:
    """Return a snapshot as LangGraph's clients read it; every task has `state` and `checkpoint`."""
    checkpoint = _checkpoint(snapshot.config)
    parent = _checkpoint(snapshot.parent_config)
    tasks = [_task(task) for task in snapshot.tasks]
    return {
        "values": plain(snapshot.values),
        "next": list(snapshot.next),
        "tasks": tasks,
        "metadata": plain(snapshot.metadata or {}),
        "created_at": snapshot.created_at,
        "checkpoint": checkpoint,
        "parent_checkpoint": parent,
        "interrupts": [interrupt for task in tasks for interrupt in task["interrupts"]],
        "checkpoint_id": checkpoint["checkpoint_id"] if checkpoint else None,
        "parent_checkpoint_id": parent["checkpoint_id"] if parent else None,
    }


def _task(task: Any) -> dict[str, Any]:
    deeper, error = task.state, task.error
    # A checkpoint holds an error as text.
    kind = type(error).__name__ if isinstance(error, BaseException) else str(error).partition("(")[0][:100]
    is_config = isinstance(deeper, Mapping)
    return {
        "id": task.id,
        "name": task.name,
        "path": plain(task.path),
        "error": None if error is None else kind,
        "interrupts": plain(list(task.interrupts)),
        "checkpoint": _checkpoint(deeper) if is_config else None,
        "state": None if deeper is None or is_config else thread_state(deeper),
        "result": plain(task.result),
    }


def _checkpoint(config: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if not config:
        return None
    where = config["configurable"]
    return {
        "thread_id": where.get("thread_id"),
        "checkpoint_ns": where.get("checkpoint_ns", ""),
        "checkpoint_id": where.get("checkpoint_id"),
        "checkpoint_map": where.get("checkpoint_map") or {},
    }
