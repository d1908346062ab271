"""Tools of an OpenAI client go to the base agent: it calls them, the client runs them, and the answer is refined."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import openai
import pytest
from langchain_openai import ChatOpenAI
from redraft.models import ScriptedModel, chat_model
from redraft.models.http_clients import sync_client

Served = Callable[..., tuple[str, Any]]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "weather", "description": "Weather of a city.", "parameters": SCHEMA}
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bonn"}'}}
ASKED = "What is the weather in Bonn?"
VERDICT = '{"feedback": "Say it in a sentence.", "score": 0.4, "accepted": %s}'


def provider_reply(request: Any) -> Any:
    """The provider behind the server: it calls the tool, answers with its result, and finds fault once."""
    last = str(request["messages"][-1]["content"])
    if "response_format" in request:
        good = any(f"Answer:\n{text}" in last for text in ("It rains in Bonn.", "No tool."))
        return VERDICT % ("true" if good else "false")
    if "Say it in a sentence." in last:
        return "It rains in Bonn."
    if request["messages"][-1]["role"] == "tool":
        return f"Weather: {last}"
    names = [tool["function"]["name"] for tool in request["tools"]]
    return {"message": {"tool_calls": [CALL]}, "finish_reason": "tool_calls"} if "weather" in names else "No tool."


@pytest.fixture
def provider(serve: Any) -> Any:
    return serve(provider_reply)


@pytest.fixture
def ask(served: Served, provider: Any) -> openai.OpenAI:
    url, _ = served(chat_model(provider.spec, max_retries=0))
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", http_client=sync_client("direct"))


@pytest.mark.parametrize("stream", [False, True])
def test_chat_completions_hand_calls_to_the_client(ask: Any, provider: Any, stream: bool) -> None:
    """The base agent is offered the client's tools beside its own; a call of one ends the reply, and with its result
    the agent answers, and the answer is refined."""
    tools: Any = [{"type": "function", "function": WEATHER}]
    asked: dict[str, Any] = {"model": "redraft-agent", "tools": tools}
    messages: list[Any] = [{"role": "user", "content": ASKED}]
    if stream:
        with ask.chat.completions.stream(messages=messages, **asked) as events:
            done = events.get_final_completion()
    else:
        done = ask.chat.completions.create(messages=messages, **asked)
    (call,) = done.choices[0].message.tool_calls
    assert (done.choices[0].finish_reason, call.function.name) == ("tool_calls", "weather")
    assert json.loads(call.function.arguments) == {"city": "Bonn"}
    assert [tool["function"]["name"] for tool in provider.requests[0]["tools"]] == ["calculate", "weather"]
    back = {"role": "assistant", "tool_calls": [CALL | {"id": call.id}]}
    messages += [back, {"role": "tool", "tool_call_id": call.id, "content": "rain"}]
    answer = ask.chat.completions.create(messages=messages, **asked)
    assert [message["role"] for message in provider.requests[1]["messages"]] == ["user", "assistant", "tool"]
    assert answer.choices[0].message.content == "It rains in Bonn."
    assert (answer.metadata["stop_reason"], answer.metadata["rounds"]) == ("accepted", "1")


def test_responses_hand_calls_to_the_client(ask: Any, provider: Any) -> None:
    """The same over the Responses API: results go on from the response that called, in its thread, streamed or not, and
    LangChain's `ChatOpenAI` binds its tools to it."""
    tools: Any = [{"type": "function", **WEATHER}]
    hello = ask.responses.create(model="redraft-agent", input="Hello.", instructions="Be kind.")
    before = {"model": "redraft-agent", "previous_response_id": hello.id}
    with ask.responses.stream(**before, input=ASKED, tools=tools) as events:
        first = next(event.response for event in events if event.type == "response.completed")
    call = next(item for item in first.output if item.type == "function_call")
    assert (call.name, call.arguments) == ("weather", '{"city": "Bonn"}')
    result: Any = [{"type": "function_call_output", "call_id": call.call_id, "output": "rain"}]
    asked: dict[str, Any] = {"model": "redraft-agent", "tools": tools, "input": result}
    for store in (False, True):
        answer = ask.responses.create(**asked, previous_response_id=first.id, store=store)
        assert answer.output_text == "It rains in Bonn."
        told = next(one["messages"] for one in reversed(provider.requests) if one["messages"][-1]["role"] == "tool")
        assert [one["role"] for one in told] == ["user", "assistant", "user", "assistant", "tool"]
    assert answer.metadata["thread_id"] == first.metadata["thread_id"]
    after = ask.responses.create(model="redraft-agent", input="And now?", previous_response_id=answer.id)
    assert "It rains in Bonn." in json.dumps(provider.requests[-2]["messages"])
    assert after.status == "completed"
    model = ChatOpenAI(
        base_url=str(ask.base_url), api_key="none", model="redraft-agent", http_client=sync_client("direct"),
        use_responses_api=True,
    )  # fmt: skip
    assert model.bind_tools(tools).invoke(ASKED).tool_calls[0]["args"] == {"city": "Bonn"}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"model": "redraft-refine"}, "tools is not supported by redraft-refine: it writes texts"),
        ({"tool_choice": "required"}, "tool_choice is auto or none"),
        ({"tools": [{"type": "web_search"}]}, "tools may be functions, not 'web_search'"),
        ({"tools": [{"type": "function", "name": "a b"}]}, "functions: function.name"),
        ({"tools": [{"type": "function", "name": "calculate"}]}, "can't be run on this server"),
    ],
)
def test_tools_that_can_not_be_called_are_refused(served: Served, changed: Any, says: str) -> None:
    """A workflow without an agent, a tool that is none, or one with the name of the agent's own: a sentence says so."""
    model = ScriptedModel([])
    url, _ = served(model)
    ask = openai.OpenAI(base_url=f"{url}/v1", api_key="none", http_client=sync_client("direct"))
    asked = {"model": "redraft-agent", "input": "x", "tools": [{"type": "function", **WEATHER}]}
    with pytest.raises(openai.BadRequestError, match=says):
        ask.responses.create(**{**asked, **changed})
    assert not model.calls
