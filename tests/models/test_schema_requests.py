"""Schemas in requests: what providers are sent of them, and how their replies are read."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from redraft.models.schema_requests import sent_schema, structured_text

PAIRS = [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]


@pytest.mark.parametrize(
    "schema",
    [
        {"$defs": {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(30)}, "$ref": "#/$defs/a0"},
        {"$defs": {name: {"type": "array", "items": {"anyOf": PAIRS}} for name in "ab"}, "$ref": "#/$defs/a"},
        {"$defs": {"a": {"$ref": "#/$defs/a"}, "b": {"anyOf": PAIRS}}, "$ref": "#/$defs/b"},
        {"$ref": "#"},
        {"enum": ["x" * 30_000]},
    ],
)
def test_a_schema_that_would_hold_a_server_up_is_not_sent(schema: Any) -> None:
    """One whose readings multiply, as a caller may make it, is told in words alone."""
    assert sent_schema(schema) is None


def test_a_nested_schema_is_not_followed_for_ever() -> None:
    """A schema of thousands of levels is not sent, and raises nothing."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(5000):
        schema = {"items": schema}
    assert sent_schema(schema) is None


def test_costly_keywords_stay_behind() -> None:
    """Repetitions in patterns and large bounds, of which a grammar gets as large, are left to the check of the reply;
    what a recursive type has is sent."""
    text = {"type": "string", "pattern": "^((a{0,1000}){0,1000})$", "maxLength": 10**8, "format": "date"}
    node = {"type": "object", "properties": {"left": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}}
    schema = {"type": "object", "properties": {"text": text, "day": {"pattern": "^[0-9]{2}$"}}, "not": {}}
    sent = sent_schema({**schema, "$defs": {"node": node}})
    assert sent == {
        "type": "object",
        "properties": {"text": {"type": "string", "format": "date"}, "day": {"pattern": "^[0-9]{2}$"}},
        "$defs": {"node": node},
    }


def test_a_reply_is_read_whichever_way_it_came() -> None:
    """A tool call's arguments and what stands in the object around a list become the text; other replies stay."""
    shape: Any = {"type": "object", "properties": {"a": {"type": "integer"}}}
    call = AIMessage("", tool_calls=[{"name": "answer", "args": {"a": 1}, "id": "1"}])
    assert structured_text(call, shape).text == '{\n  "a": 1\n}'
    assert structured_text(AIMessage('{"answer": [1]}'), {"type": "array"}).text == "[\n  1\n]"
    assert structured_text(AIMessage('{"answer": [1'), {"type": "array"}).text == '{"answer": [1'
