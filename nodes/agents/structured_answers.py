"""Structured answers of agents: data that is refined as JSON, and must go on fitting its schema. Internal."""

from __future__ import annotations

import json
from dataclasses import is_dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from pydantic import BaseModel, TypeAdapter

from ...state.summary import current_run
from ..critics.structured_replies import unfenced
from ..verify.json_schema import matches_json_schema
from ..writing.prompts import PromptedModel
from ..writing.replies import read_text

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig

    from ...state.critique import Verifier
    from ...state.events import Event
    from ..runtime.dual import Do

__all__ = ["AnswerRefiner", "as_json", "like", "misfit", "normalized", "schema_in", "schema_of"]


def as_json(data: Any) -> str:
    """Return a structured response as JSON text."""
    plain = data if isinstance(data, dict) else TypeAdapter(type(data)).dump_python(data, mode="json")
    return json.dumps(plain, ensure_ascii=False, indent=2, default=str)


def schema_of(data: Any) -> dict[str, Any]:
    """Return the JSON Schema that a structured response fits; of a plain dict, that it has these keys."""
    if isinstance(data, BaseModel) or is_dataclass(data):
        return TypeAdapter(type(data)).json_schema()
    return {"type": "object", "required": sorted(data)} if isinstance(data, dict) else {}


def like(known: Any, text: str) -> Any:
    """Return the data in a text as an object of the same class as another structured response.

    Raises:
        ValueError: The text does not fit.
    """
    data = json.loads(unfenced(text))
    return data if known is None or isinstance(known, dict) else TypeAdapter(type(known)).validate_python(data)


def schema_in(events: Sequence[Event]) -> dict[str, Any] | None:
    """Return the schema of the current task's drafts; `None` where they are text."""
    schemas = (event["schema"] for event in reversed(current_run(events)) if "schema" in event)
    return next(schemas, None)


def normalized(text: str) -> str:
    """Return JSON as `as_json` writes it, out of a fence too; another text as it is."""
    try:
        return json.dumps(json.loads(unfenced(text)), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text


def misfit(text: str, schema: Mapping[str, Any]) -> bool:
    """Return whether a text is not JSON that fits a schema.

    Without the package `jsonschema`, only the outermost type and keys are looked at.
    """
    try:
        return not _verifier(json.dumps(schema))("", text).accepted  # type: ignore[union-attr]
    except ImportError:
        pass
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return True
    return schema.get("type") == "object" and not (
        isinstance(data, dict) and set(schema.get("required", ())) <= data.keys()
    )


@lru_cache(maxsize=8)
def _verifier(schema: str) -> Verifier:
    return matches_json_schema(json.loads(schema))


class AnswerRefiner(PromptedModel):
    """A model that revises an agent's answer; data is revised as data."""

    def messages(self, state: Mapping[str, Any]) -> list[BaseMessage]:
        """Return the messages that the model is asked with."""
        messages, schema = super().messages(state), schema_in(state["events"])
        return messages if schema is None else [*messages, HumanMessage(AS_DATA.format(schema=json.dumps(schema)))]

    def logic(self, input: Mapping[str, Any], config: RunnableConfig | None) -> Generator[Do, Any, AIMessage]:  # noqa: A002
        reply = yield from super().logic(input, config)
        if schema_in(input["events"]) is None:
            return reply
        return reply.model_copy(update={"content": normalized(read_text(reply))})


AS_DATA = """\
The answer is data. Reply with one JSON object that fits this JSON Schema, and nothing else:
{schema}"""
