"""A model asked with `ainvoke` sends and says what it does with `invoke`, by a shorter way that costs half the CPU."""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING, Any

import openai
import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic import BaseModel
from redraft.models import chat_model

if TYPE_CHECKING:
    from collections.abc import Callable

SENT = ("authorization", "content-type", "accept", "x-stainless-retry-count", "x-stainless-read-timeout")
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
MESSAGES: dict[str, list[Any]] = {
    "text": [SystemMessage("Be brief."), HumanMessage("Ünïcode ☂ of 2 { lines }\nhere")],
    "conversation": [HumanMessage("a"), AIMessage("b"), HumanMessage("c")],
    "parts": [HumanMessage([{"type": "text", "text": "in parts"}])],
    "tool result": [
        HumanMessage("a"),
        AIMessage("", tool_calls=[{"name": "add", "args": {"a": 1}, "id": "c1"}]),
        ToolMessage("2", tool_call_id="c1"),
    ],
}
REPLIES: dict[str, Any] = {
    "text": "Ein Satz – mit ☂.",
    "nothing": "",
    "cut short": {"text": "Once upon", "finish_reason": "length"},
    "filtered": {"text": "", "finish_reason": "content_filter"},
    "refusal": {"message": {"content": None, "refusal": "I won't."}},
    "tool calls": {"message": {"content": None, "tool_calls": [CALL]}, "finish_reason": "tool_calls"},
    "no content": {"message": {"content": None}},
}


def facts(message: AIMessage) -> Any:
    """All that a message says; the SDK's typed way writes `None` where nothing was sent."""
    return without_none(message.model_dump(exclude={"id": True, "response_metadata": {"id"}}))


def without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_none(one) for key, one in value.items() if one is not None}
    return value


def both(model: Any, asked: Any) -> tuple[Any, Any]:
    """What the model says by `ainvoke`, and by `invoke`, which goes the SDK's usual way."""
    return asyncio.run(model.ainvoke(asked)), model.invoke(asked)


@pytest.mark.parametrize("asked", MESSAGES)
def test_the_same_request_is_sent(serve: Callable[..., Any], asked: str) -> None:
    """Messages, settings and headers reach the server as they did."""
    server = serve(lambda _: "ok")
    both(chat_model(server.spec, temperature=0.5, seed=7, max_output_tokens=9), MESSAGES[asked])
    short, usual = server.requests
    assert short == usual
    assert (short["max_tokens"], short["seed"], short["temperature"]) == (9, 7, 0.5)
    ours, theirs = ({name: text for name, text in sent.items() if name in SENT} for sent in server.headers)
    assert ours == theirs


@pytest.mark.parametrize("reply", REPLIES)
def test_the_same_reply_is_read(serve: Callable[..., Any], reply: str) -> None:
    """A text, a refusal, tool calls or nothing at all: the message is the same, with its tokens."""
    short, usual = both(chat_model(serve(lambda _: copy.deepcopy(REPLIES[reply])).spec), "x")
    assert facts(short) == facts(usual)
    assert short.usage_metadata["total_tokens"] >= 1


def test_a_refusal_is_still_marked(serve: Callable[..., Any]) -> None:
    """Whoever looks for a refusal finds it."""
    short, _ = both(chat_model(serve(lambda _: REPLIES["refusal"]).spec), "x")
    assert short.additional_kwargs["refusal"] == "I won't."


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (404, openai.NotFoundError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
    ],
)
def test_the_same_errors_are_raised(serve: Callable[..., Any], status: int, error: type[Exception]) -> None:
    """An HTTP error comes as the SDK's own, and as the same kind of it either way."""
    model = chat_model(serve(lambda _: {"status": status}).spec, max_retries=0)
    with pytest.raises(error) as short:
        asyncio.run(model.ainvoke("x"))
    with pytest.raises(error) as usual:
        model.invoke("x")
    assert type(short.value) is type(usual.value)


@pytest.mark.parametrize(
    "first", [{"status": 429, "headers": {"retry-after-ms": "1"}}, {"status": 503}, {"drop": True}]
)
def test_retries_are_the_sdks(serve: Callable[..., Any], first: dict[str, Any]) -> None:
    """What passes is tried again, what is refused is not, and each attempt says its number."""
    server = serve([first, "ok"])
    assert asyncio.run(chat_model(server.spec, max_retries=1).ainvoke("x")).text == "ok"
    assert [sent["x-stainless-retry-count"] for sent in server.headers] == ["0", "1"]
    refused = serve([{"status": 400}, "never"])
    with pytest.raises(openai.BadRequestError):
        asyncio.run(chat_model(refused.spec, max_retries=3).ainvoke("x"))
    assert len(refused.requests) == 1


def test_a_late_reply_ends_in_a_timeout(serve: Callable[..., Any]) -> None:
    """`timeout_s` holds on this way too."""
    model = chat_model(serve(lambda _: {"text": "late", "delay_s": 1.0}).spec, max_retries=0, timeout_s=0.05)
    with pytest.raises(openai.APITimeoutError):
        asyncio.run(model.ainvoke("x"))


@pytest.mark.parametrize(
    "body", [{"choices": None}, {"choices": []}, {"object": "chat.completion"}, [], "text"], ids=str
)
def test_a_reply_that_is_none_raises_alike(serve: Callable[..., Any], body: Any) -> None:
    """A server that answers something else is told apart from a model that says nothing."""
    model = chat_model(serve(lambda _: {"status": 201, "body": body}).spec, max_retries=0)
    found: list[Any] = []
    for ask in (lambda: asyncio.run(model.ainvoke("x")), lambda: model.invoke("x")):
        try:
            found.append(ask())
        except Exception as error:
            found.append(error)
    assert isinstance(found[0], Exception)
    assert type(found[0]) is type(found[1])


def test_what_is_not_plain_goes_the_usual_way(serve: Callable[..., Any]) -> None:
    """Streams, tools and structured output work on the same model."""

    class Sum(BaseModel):
        total: int

    async def streamed(model: Any) -> str:
        return "".join([chunk.text async for chunk in model.astream("x")])

    server = serve(lambda request: '{"total": 3}' if "response_format" in request else "one two")
    model = chat_model(server.spec)
    assert asyncio.run(streamed(model)) == "one two"
    assert asyncio.run(model.with_structured_output(Sum).ainvoke("x")) == Sum(total=3)
    tools = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}]
    assert asyncio.run(model.bind_tools(tools).ainvoke("x")).text == "one two"
    assert [
        sorted({"stream", "tools", "response_format"} & {k for k in sent if sent[k]}) for sent in server.requests
    ] == [
        ["stream"],
        ["response_format"],
        ["tools"],
    ]
