"""Schema in a request: a model bound so that its provider holds its reply to a JSON Schema. Internal.

OpenAI's protocol has `response_format`, of which llama.cpp's servers and the embedded model make a grammar; of other
providers LangChain's `with_structured_output` knows what they have. What is sent is a part of the schema: a program
checks the whole reply in any case, and a schema may be made to take a server hours.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from .prices import innermost
from .thoughts import without_thought

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel, LanguageModelInput
    from langchain_core.messages import AIMessage
    from langchain_core.runnables import Runnable

__all__ = [
    "GRAMMAR_FAILED",
    "bound_to_schema",
    "parse_structured",
    "refuses_schema",
    "schema_json",
    "sent_schema",
    "structured_chain",
    "structured_text",
    "unfenced",
]


def bound_to_schema(model: Runnable[Any, AIMessage], schema: Mapping[str, Any]) -> Runnable[Any, AIMessage] | None:
    """Return the model asked for JSON of a schema; `None` where its provider has no way to ask for it.

    Args:
        model: A chat model, also with arguments bound, or recorded.
        schema: The whole schema.
    """
    inner: Any = innermost(model)
    if (sent := sent_schema(schema)) is None:
        return None
    titled = {"title": NAME, "description": NAME, **sent}
    if (asks := getattr(type(inner), "schema_arguments", None)) is not None:
        arguments = asks(inner, sent)
    else:
        try:
            chain = inner.with_structured_output(titled)
        except (NotImplementedError, AttributeError, TypeError, ValueError, ImportError):
            return None
        # A chain of the model with its arguments, and of what reads the reply, which `structured_text` does here.
        arguments = getattr(getattr(chain, "first", None), "kwargs", None)
    recorder: Any = innermost(model, within=("bound",))
    if arguments and hasattr(type(recorder), "recorded_arguments"):
        arguments = recorder.recorded_arguments(arguments, titled)
    return model.bind(**arguments) if arguments else None


def sent_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the schema as a request has it: wrapped where it is no object; `None` where it is too long."""
    try:
        part: dict[str, Any] = _part(schema)
        defined = {f"#/{name}/{key}": one for name in DEFINITIONS for key, one in part.get(name, {}).items()}
        if len(json.dumps(part, default=str)) > LONGEST or _ways(part, defined, {}) > MOST_WAYS:
            return None
    except RecursionError:
        return None
    if part.get("type") == "object" and "properties" in part:
        return part
    defined = {name: part.pop(name) for name in DEFINITIONS if name in part}
    return {**defined, "type": "object", "properties": {NAME: part}, "required": [NAME], "additionalProperties": False}


def structured_text(reply: AIMessage, schema: Mapping[str, Any]) -> AIMessage:
    """Return a reply with its JSON as its text: out of a tool call, and of the object that holds what is none."""
    try:
        data = parse_structured(reply, dict(schema))
    except (ValueError, RecursionError):
        return reply  # cut off, or refused
    wrapped = isinstance(data, dict) and data.keys() == {NAME} and sent_schema(schema) != _part(schema)
    if not wrapped and not reply.tool_calls:
        return reply
    text = json.dumps(data[NAME] if wrapped else data, ensure_ascii=False, indent=2)
    return reply.model_copy(update={"content": text, "tool_calls": [], "invalid_tool_calls": []})


def refuses_schema(error: Exception) -> bool:
    """Return True if a provider may have refused a request for the schema in it.

    A record has no reply to a request that was refused, but one to what was asked in its place (LookupError).
    """
    return getattr(error, "status_code", None) in REFUSED or isinstance(error, NotImplementedError | LookupError)


def _part(schema: Any) -> Any:
    """Return the keywords of a schema that providers know, without what would cost a grammar much."""
    if not isinstance(schema, Mapping):
        return schema
    part: dict[str, Any] = {}
    for name, value in schema.items():
        if name in NAMED and isinstance(value, Mapping):
            part[name] = {key: _part(one) for key, one in value.items()}
        elif name in NESTED:
            several = isinstance(value, Sequence) and not isinstance(value, str)
            part[name] = [_part(one) for one in value] if several else _part(value)
        elif name in PLAIN or _is_cheap(name, value):
            part[name] = value
    return part


def _is_cheap(name: str, value: Any) -> bool:
    if name == "pattern":
        return isinstance(value, str) and len(value) <= MOST_PATTERN and not COSTLY.search(value)
    return name in BOUNDS and isinstance(value, int | float) and abs(value) <= BOUNDS[name]


def _ways(part: Any, defined: Mapping[str, Any], known: dict[str, int]) -> int:
    """Return in how many ways a text may be read by a schema while it is written, each of which a grammar follows.

    Where the alternatives of a choice begin alike, they add up. What holds itself may do so at any depth.
    """
    if not isinstance(part, Mapping):
        return 1
    if isinstance(name := part.get("$ref"), str):
        if name not in known:
            known[name] = MOST_WAYS
            known[name] = _ways(defined.get(name, {"anyOf": [{}] * (MOST_WAYS + 1)}), defined, known)
        return known[name]
    inside = [part.get("items"), part.get("additionalProperties"), *part.get("properties", {}).values()]
    ways = [_ways(one, defined, known) for one in [*inside, *part.get("prefixItems", ())]]
    for choices in (part.get("anyOf", ()), part.get("oneOf", ())):
        alike: Counter[str] = Counter()
        for choice in choices:
            alike[_kind(choice, defined)] += _ways(choice, defined, known)
        ways.append(alike.pop("", 0) + max(alike.values(), default=0))
    return max(ways)


def _kind(part: Any, defined: Mapping[str, Any]) -> str:
    """Return the type of what fits a schema; empty where there may be several."""
    for _ in range(len(defined)):
        if isinstance(part, Mapping) and isinstance(part.get("$ref"), str):
            part = defined.get(part["$ref"], {})
    kind = part.get("type") if isinstance(part, Mapping) else None
    return kind.replace("integer", "number") if isinstance(kind, str) else ""


NAME = "answer"
MOST_WAYS = 50
LONGEST = 20_000
"""Characters of a schema that goes into a request."""
MOST_PATTERN = 100
COSTLY = re.compile(r"\(|[0-9]{3}|[*+}].*[*+}].*[*+}]")
"""In a pattern: a group, whose repetitions would multiply; a large number; three repetitions, which may overlap."""
DEFINITIONS = ("$defs", "definitions")
NAMED = frozenset([*DEFINITIONS, "properties"])
NESTED = frozenset(["items", "prefixItems", "anyOf", "oneOf", "additionalProperties"])
PLAIN = frozenset(["type", "required", "enum", "const", "$ref", "title", "description", "format", "default"])
BOUNDS = {
    **dict.fromkeys(["minLength", "maxLength", "minItems", "maxItems"], 200),
    **dict.fromkeys(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], 2**53),
}
"""The largest number of each keyword that is sent."""
GRAMMAR_FAILED = 500
"""The status of llama.cpp for a reply by a grammar that it can't read itself, one that was cut short, say."""
REFUSED = frozenset([400, 415, 422, 501, GRAMMAR_FAILED])


def schema_json(schema: dict[str, Any] | type) -> dict[str, Any]:
    """Return a schema (pydantic class, TypedDict or JSON schema) as one plain dict, the same for every provider."""
    from langchain_core.utils.function_calling import convert_to_openai_tool

    return convert_to_openai_tool(schema)


def unfenced(text: str) -> str:
    """Return the inside of the one code fence that a text is, or the text."""
    bare = text.strip()
    opened = FENCE_OPENED.match(bare)
    return bare[opened.end() : -3] if opened and bare.endswith("```", opened.end()) else text


def parse_structured(message: AIMessage, schema: dict[str, Any] | type) -> Any:
    """Return the answer in a reply: what the provider parsed, else its tool call's arguments, else its text as JSON,
    bare or in one code fence.

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
            answer = json.loads(unfenced(without_thought(message.text)))
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


FENCE_OPENED = re.compile(r"```(?:json)?[ \t]*+\n", re.IGNORECASE)
