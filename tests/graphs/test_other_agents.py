"""Agents of other frameworks, and plain functions, as the base of the preset `agent`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel
from redraft.graphs.agent import build_agent_graph
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.nodes.critics.critics import verifier_critic
from redraft.nodes.verify.text_verifiers import uses_words

TASK = "What is 17 times 3?"
SAID = [
    {"role": "user", "content": "Hello."},
    {"role": "assistant", "content": "Hi."},
    {"role": "user", "content": TASK},
]
USED: Any = {"input_tokens": 3000, "output_tokens": 12, "total_tokens": 3012}


class Answer(BaseModel):
    value: int


def refine(base: Any, *replies: str, **options: Any) -> Any:
    return build_agent_graph(base, model=ScriptedModel(replies or ["no issues"]), **options)


def first(output: Any) -> Any:
    return next(event for event in output["events"] if event["kind"] == "draft")


def steps(output: Any) -> list[tuple[str, str]]:
    return [(step["step"], step["text"]) for step in first(output)["steps"]]


async def on_a_task(task: str) -> str:
    return f"51, for you asked: {task}"


def on_messages(messages: list[dict[str, Any]]) -> AIMessage:
    return AIMessage(f"51, of {len(messages)}", usage_metadata=USED)


async def with_usage(task: str) -> Any:
    return {"answer": "51", "usage": {"input_tokens": 3000, "output_tokens": 12}, "model": "gpt-5-mini"}


class Runs:
    """An agent of some framework: it has a `run`."""

    def run(self, task: str) -> Any:
        return SimpleNamespace(output="51", usage=SimpleNamespace(input_tokens=3000, output_tokens=12))


def a_graph() -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("one", lambda _: {"messages": [AIMessage("51", usage_metadata=USED)]})
    graph.add_edge(START, "one")
    return graph.compile()


@pytest.mark.parametrize(
    ("base", "says", "tokens"),
    [
        (on_a_task, f"51, for you asked: {TASK}", 0),
        (on_messages, "51, of 1", 3012),
        (with_usage, "51", 3012),
        (Runs(), "51", 3012),
        (a_graph(), "51", 3012),
        (ScriptedModel([{"text": "51", "input_tokens": 3000, "output_tokens": 12}]), "51", 3012),
    ],
)
def test_any_agent_can_be_the_base_and_its_tokens_count(run: Any, base: Any, says: str, tokens: int) -> None:
    """A function, async or not, an object with a `run`, a graph without LangChain's models and a chat model all write
    the first draft; what they say of their tokens stands in the usage, and a budget that is spent lets no critic begin.
    """
    if isinstance(base, ScriptedModel):
        base = ScriptedModel(base.replies * 2)
    output = run(refine(base), {"task": TASK})
    assert (output["answer"], output["stop_reason"]) == (says, "accepted")
    assert (first(output)["usage"]["total_tokens"], first(output)["usage"]["calls"]) == (tokens, int(tokens > 0))
    if tokens:
        bounded = run(refine(base, limits={"max_tokens": 100}), {"task": TASK})
        assert (bounded["stop_reason"], bounded["usage"]["calls"]) == ("token_budget", 1)


def test_a_function_of_messages_is_given_the_conversation_and_one_of_a_task_is_told_of_it(run: Any) -> None:
    """In a chat such an agent knows what was said before."""
    assert run(refine(on_messages), {"messages": SAID})["answer"] == "51, of 3"
    assert "Assistant: Hi." in run(refine(on_a_task), {"messages": SAID})["answer"]


def test_a_writer_that_calls_a_model_in_its_own_way_is_counted_too(run: Any) -> None:
    """`generate=` and `refine=` that return a message count as a base does."""
    graph = build_refine_graph(
        generate=lambda _: AIMessage("a", usage_metadata=USED),
        refine=lambda _: AIMessage("b", usage_metadata=USED),
        critics=[verifier_critic(uses_words("b"))],
    )
    assert run(graph, {"task": TASK})["usage"]["total_tokens"] == 6024


@pytest.mark.parametrize("base", ["agent", 3, Runs])
def test_what_is_no_agent_is_refused_when_the_graph_is_built(base: Any) -> None:
    """The message says what can be a base."""
    with pytest.raises(TypeError, match="base is a Runnable, a chat model, an agent of pydantic-ai"):
        refine(base)


def pydantic_agent(script: Any, **options: Any) -> Any:
    ai = pytest.importorskip("pydantic_ai")
    from pydantic_ai.models.function import FunctionModel

    agent = ai.Agent(FunctionModel(script), **options)
    agent.tool_plain(multiply)
    return agent


def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers."""
    return a * b


def calling(messages: Any, info: Any) -> Any:
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

    if len(messages) == 1:
        return ModelResponse(parts=[ToolCallPart("multiply", {"a": 17, "b": 3})])
    if info.output_tools:
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, {"value": 51})])
    return ModelResponse(parts=[TextPart("It is 51.")])


def looping(messages: Any, info: Any) -> Any:
    from pydantic_ai.messages import ModelResponse, ToolCallPart

    return ModelResponse(parts=[ToolCallPart("multiply", {"a": 17, "b": 3})])


def test_an_agent_of_pydantic_ai_is_refined(run: Any) -> None:
    """Its tool calls are steps, its tokens count for each reply, and its answer is refined as text."""
    output = run(refine(pydantic_agent(calling), "Say it in words.", "fifty-one", "no issues"), {"task": TASK})
    assert steps(output) == [
        ("model", ""),
        ("tool_call", 'multiply({"a": 17, "b": 3})'),
        ("tool_result", "51"),
        ("model", "It is 51."),
    ]
    assert (output["answer"], first(output)["usage"]["calls"], output["usage"]["calls"]) == ("fifty-one", 2, 5)
    assert first(output)["usage"]["input_tokens"] > 50
    assert first(output)["by"].startswith("function")


def test_data_of_an_agent_of_pydantic_ai_is_refined_as_data(run: Any) -> None:
    """An `output_type` is a structured response: it is judged as JSON and goes on fitting its schema."""
    agent = pydantic_agent(calling, output_type=Answer)
    output = run(refine(agent, "Add one.", "It is 52.", '{"value": 52}', "no issues"), {"task": TASK})
    assert [one.get("rejected") for one in output["events"] if one["kind"] == "revision"] == ["invalid", ""]
    assert output["answer"] == '{\n  "value": 52\n}'


def test_an_agent_that_met_a_limit_of_its_own_has_not_finished(run: Any) -> None:
    """It is not refined: the run says why, and what the agent used until then counts."""
    agent = pydantic_agent(looping)
    from pydantic_ai import UsageLimits
    from pydantic_ai.agent import WrapperAgent

    class Limited(WrapperAgent):  # type: ignore[misc]
        async def run(self, task: str) -> Any:  # type: ignore[override]
            return await self.wrapped.run(task, usage_limits=UsageLimits(request_limit=3))

    output = run(refine(Limited(agent)), {"task": TASK})
    assert (output["stop_reason"], output["usage"]["calls"]) == ("failed", 3)
    assert "UsageLimitExceeded" in first(output)["incomplete"]


def sdk_agent(*script: Any, **options: Any) -> Any:
    agents = pytest.importorskip("agents")
    from agents.testing import ModelStep
    from agents.testing import ScriptedModel as Scripted

    agents.set_tracing_disabled(True)
    used = agents.Usage(requests=1, input_tokens=100, output_tokens=5, total_tokens=105)
    steps = [ModelStep(output=[one], usage=used) for one in script]
    return agents.Agent("calculator", model=Scripted(steps), tools=[agents.function_tool(multiply)], **options)


def test_an_agent_of_the_openai_agents_sdk_is_refined(run: Any) -> None:
    """Its SDK's `Runner` runs it: tool calls are steps, its tokens count, and data is refined as data."""
    pytest.importorskip("agents")
    from agents.testing import assistant_message, function_call

    call = function_call("multiply", {"a": 17, "b": 3}, call_id="one")
    for kind, answer in ((None, "Fifty-one."), (Answer, '{"value": 51}')):
        agent = sdk_agent(call, assistant_message(answer), output_type=kind)
        output = run(refine(agent), {"messages": SAID})
        assert steps(output)[1:3] == [("tool_call", 'multiply({"a": 17, "b": 3})'), ("tool_result", "51")]
        assert (output["answer"].split(), output["stop_reason"]) == (
            answer.replace("{", "{ ").replace("}", " }").split(),
            "accepted",
        )
        assert (first(output)["usage"]["calls"], first(output)["usage"]["total_tokens"]) == (2, 210)
        assert ("schema" in first(output)) is (kind is Answer)
