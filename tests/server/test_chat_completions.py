"""A conversation in OpenAI's form becomes the task that its sender meant; what can't be given is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from redraft.graphs.registry import find_preset
from redraft.server.api.chat_completions_api import ChatRequest, graph_input
from redraft.server.api.openai_runs import RequestRefusedError, split_model

SYSTEM = {"role": "system", "content": "Be brief."}
FIRST = {"role": "user", "content": "Write about 7 boats."}
ANSWER = {"role": "assistant", "content": "Seven boats."}
LAST = {"role": "user", "content": [{"type": "text", "text": "Make it "}, {"type": "text", "text": "8."}]}


def given(preset: str, *messages: Any) -> dict[str, Any]:
    request = ChatRequest(model="redraft-refine", messages=list(messages))
    return graph_input(request.messages, find_preset(preset).conversation)


@pytest.mark.parametrize("preset", ["writing", "math", "retrieval", "majority-5"])
def test_one_message_is_the_task(preset: str) -> None:
    """A single user message reaches every workflow as it was written."""
    assert given(preset, FIRST) == {"task": "Write about 7 boats."}


def test_what_was_said_before_comes_first() -> None:
    """A workflow that writes texts is told the instructions and the earlier turns, and then what is asked now."""
    task = given("writing", SYSTEM, FIRST, ANSWER, LAST, {"role": "assistant", "content": "A start"})["task"]
    parts = ["Instructions: Be brief.", "User: Write about 7 boats.", "Assistant: Seven boats.", "Make it 8."]
    assert [task.index(part) for part in parts] == sorted(task.index(part) for part in parts)
    assert task.endswith("Make it 8.")
    assert "A start" not in task


def test_programs_read_no_earlier_turns() -> None:
    """Where a program reads the task, the numbers and examples of earlier turns are not in it."""
    task = given("math", {**SYSTEM, "role": "developer"}, FIRST, ANSWER, LAST)["task"]
    assert "Be brief." in task
    assert "7" not in task
    assert given("retrieval", SYSTEM, FIRST, ANSWER, LAST) == {"task": "Make it 8."}


def test_agents_get_the_conversation() -> None:
    """A workflow that takes messages gets them, without what other tools said."""
    called = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    tool = {"role": "tool", "content": "42", "tool_call_id": "1"}
    messages = given("agent", SYSTEM, FIRST, called, tool, ANSWER, LAST)["messages"]
    assert messages == [SYSTEM, FIRST, ANSWER, {"role": "user", "content": "Make it 8."}]


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([SYSTEM], "there is none"),
        ([FIRST, {"role": "user", "content": " \n"}], "there is none"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}], "'image_url'"),
    ],
)
def test_what_holds_no_task_is_refused(messages: list[Any], says: str) -> None:
    """Without a text that a user asks, there is no run."""
    with pytest.raises(RequestRefusedError, match=says):
        given("refine", *messages)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", 2),
        ("functions", [{}]),
        ("logprobs", True),
        ("modalities", ["audio"]),
        ("audio", {"voice": "x"}),
    ],
)
def test_what_can_not_be_given_is_refused(field: str, value: Any) -> None:
    """A request for several answers or another kind of answer is refused by name, not answered otherwise."""
    with pytest.raises(RequestRefusedError, match=f"{field} is not supported"):
        ChatRequest(model="redraft-refine", messages=[FIRST], **{field: value}).check_supported()


def test_settings_of_one_call_are_ignored() -> None:
    """What clients send by default does no harm."""
    settings = {"temperature": 0.2, "max_completion_tokens": 5, "top_p": 1, "n": 1, "tools": [], "seed": 3}
    ChatRequest(
        model="m", messages=[FIRST], response_format={"type": "text"}, modalities=["text"], **settings
    ).check_supported()


@pytest.mark.parametrize("messages", [[], [{"role": "oracle", "content": "x"}], [{"role": "user", "content": 7}], "x"])
def test_malformed_messages_are_refused(messages: Any) -> None:
    """Messages that are none are refused when they are read."""
    with pytest.raises(ValidationError):
        ChatRequest(model="m", messages=messages)


def test_names_of_models() -> None:
    """A name is a workflow, and where the server allows it an upstream model, whose name may hold slashes."""
    presets, upstream = ("math", "majority-5"), ("openai:gpt-5-mini", "http://h/v1#m")
    assert split_model("redraft-math", presets, upstream) == ("math", None)
    assert split_model("redraft-majority-5", presets, upstream) == ("majority-5", None)
    assert split_model("redraft-math/http://h/v1#m", presets, upstream) == ("math", "http://h/v1#m")


@pytest.mark.parametrize(
    "name",
    ["", "math", "redraft-", "redraft-code", "redraft-math/", "redraft-math/local", "gpt-5", "redraft-math/../x"],
)
def test_unknown_models_are_not_found(name: str) -> None:
    """A name that stands for nothing here is answered as OpenAI answers it."""
    with pytest.raises(RequestRefusedError, match="does not exist") as refused:
        split_model(name, ("math",), ("openai:gpt-5-mini",))
    assert (refused.value.status, refused.value.code) == (404, "model_not_found")
