"""Structured output: an answer read out of a reply, whichever way its provider put it there. Internal."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from .thoughts import without_thought

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel, LanguageModelInput
    from langchain_core.messages import AIMessage
    from langchain_core.runnables import Runnable

__all__ = ["parse_structured", "schema_json", "structured_chain"]


def schema_json(schema: dict[str, Any] | type) -> dict[str, Any]:
    """Return a schema (pydantic class, TypedDict or JSON schema) as one plain dict, the same for every provider."""
    from langchain_core.utils.function_calling import convert_to_openai_tool

    return convert_to_openai_tool(schema)


def parse_structured(message: AIMessage, schema: dict[str, Any] | type) -> Any:
    """Return the answer in a reply: what the provider parsed, else its tool call's arguments, else its text as JSON.

    Raises:
        ValueError: The model refused, or there is no answer of this schema in the reply.
    """
    refusal = message.additional_kwargs.get("refusal")
    if refusal:
        raise ValueError(f"the model refused: {refusal}")
    answer = message.additional_kwargs.get("parsed")
    if answer is None and message.tool_calls:
        answer = message.tool_calls[0]["args"]
    if answer is None:
        try:
            answer = json.loads(without_thought(message.text))
        except ValueError as error:
            raise ValueError(f"the reply is not JSON: {message.text[:200]!r}") from error
    validate = getattr(schema, "model_validate", None)
    return answer if validate is None else validate(answer)


def structured_chain(
    model: BaseChatModel, schema: dict[str, Any] | type, *, include_raw: bool, **bound: Any
) -> Runnable[LanguageModelInput, Any]:
    """Return the model and the parsing of its replies; with `include_raw` errors are in `parsing_error`, not raised."""
    from langchain_core.runnables import RunnableLambda

    def with_raw(message: AIMessage) -> dict[str, Any]:
        try:
            return {"raw": message, "parsed": parse_structured(message, schema), "parsing_error": None}
        except ValueError as error:
            return {"raw": message, "parsed": None, "parsing_error": error}

    parse = with_raw if include_raw else partial(parse_structured, schema=schema)
    return (model.bind(**bound) if bound else model) | RunnableLambda(parse)
