"""Tool calls written as text: which replies are calls, and which are answers."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from redraft.nodes.agents.react import read_text_calls

TOOLS = ("add", "look")


@pytest.mark.parametrize(
    ("text", "called"),
    [
        ('{"name": "add", "arguments": {"one": 1}}', [("add", {"one": 1})]),
        ('{"name": "look", "parameters": {}}', [("look", {})]),
        ('```json\n{"name": "add", "arguments": {"one": 1}}\n```', [("add", {"one": 1})]),
        ('<tool_call>\n{"name": "add", "arguments": {"one": 1}}\n</tool_call>', [("add", {"one": 1})]),
        (
            '<tool_call>{"name": "add", "arguments": {}}</tool_call>\n<tool_call>{"name": "look"}</tool_call>',
            [("add", {}), ("look", {})],
        ),
    ],
)
def test_a_reply_that_is_a_call_is_made(text: str, called: Any) -> None:
    """A local model that writes its call as JSON text gets it made like any other."""
    message = read_text_calls(AIMessage(text), TOOLS)
    assert [(call["name"], call["args"]) for call in message.tool_calls] == called
    assert message.text == ""
    assert len({call["id"] for call in message.tool_calls}) == len(called)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I would call add(1, 2).",
        'Call it like this: {"name": "add", "arguments": {"one": 1}}',
        '{"name": "remove", "arguments": {}}',
        '{"name": "add", "arguments": [1]}',
        '{"name": "add", "price": 3}',
        '[{"name": "add", "arguments": {}}]',
        '```json\n{"name": "add", "arguments": {}}\n```\nThat is how.',
        '<tool_call>{"name": "add"}</tool_call> and then 5.',
        '<tool_call>{"name": "add", </tool_call>',
        "[" * 100_000,
    ],
)
def test_a_reply_that_only_speaks_of_a_call_is_an_answer(text: str) -> None:
    """Words about a tool, an example of a call, or JSON of another kind stay what they are."""
    message = AIMessage(text)
    assert read_text_calls(message, TOOLS) is message


def test_real_calls_are_left_alone() -> None:
    """Where the provider gave calls, the text beside them is not read."""
    call = {"name": "add", "args": {}, "id": "1", "type": "tool_call"}
    message = AIMessage('{"name": "look"}', tool_calls=[call])
    assert read_text_calls(message, TOOLS) is message
