"""A critic with tools: what it may call, how often, and that only a verdict it gave counts."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable
from langchain_core.tools import tool
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.nodes.agents.react import ToolUsingModel
from redraft.nodes.agents.tool_critics import calculator_tool, python_tool, search_tool, tool_critic
from redraft.nodes.critics.critics import in_order, model_critic, name_critics, verifier_critic
from redraft.nodes.reasoning.steps import CommentCritic
from redraft.state import Critique, Thread, open_checkpointer


class CallingModel(ScriptedModel):
    """A scripted model that calls tools where a reply has CALL and a list of calls."""

    def bind_tools(self, tools: Any, **_: Any) -> Runnable[Any, Any]:
        return self

    def _next(self, messages: Any) -> Any:
        message: Any = super()._next(messages)
        said, called, listed = message.content.partition("CALL ")
        if called:
            message.content, message.tool_calls = said.strip(), json.loads(listed)
        return message


def calls(*expressions: str) -> str:
    return "CALL " + json.dumps([
        {"name": "calculate", "args": {"expression": one}, "id": str(number)} for number, one in enumerate(expressions)
    ])  # fmt: skip


@pytest.fixture(params=["sync", "async"])
def judge(request: pytest.FixtureRequest) -> Any:
    """Asks a critic about a draft."""

    def ask(critic: Any, draft: str = "It is 50.") -> Critique:
        task = "What is 17 times 3?"
        if request.param == "sync":
            return critic(task, draft, ())  # type: ignore[no-any-return]
        return asyncio.run(critic.acall(task, draft, ()))

    return ask


def results(critique: Critique) -> list[str]:
    steps = (critique.evidence or {}).get("steps", [])
    return [step["text"] for step in steps if step["step"] == "tool_result"]


def test_it_looks_things_up_and_then_judges(judge: Any) -> None:
    """What it calls and what comes back is the evidence; its last words are the verdict."""
    model = CallingModel([calls("17 * 3"), "It is 51, not 50."])
    said = judge(tool_critic(model, [calculator_tool()]))

    assert (said.accepted, said.text, results(said)) == (False, "It is 51, not 50.", ["51"])
    assert [step["step"] for step in said.evidence["steps"]] == ["tool_call", "tool_result"]
    assert "Draft:\nIt is 50." in model.calls[0][0].text
    assert model.calls[0][0].text.endswith("nothing else: no issues")
    assert [message.text for message in model.calls[1][1:]] == ["", "51"]


def test_without_a_call_there_is_no_evidence(judge: Any) -> None:
    """It need not call anything; only the whole reply accepts."""
    assert judge(tool_critic(CallingModel(["No issues."]), [calculator_tool()])).accepted is True
    said = judge(tool_critic(CallingModel(["No issues with the sum."]), [calculator_tool()]))
    assert (said.accepted, said.evidence) == (False, None)


def test_a_structured_verdict_is_asked_for_with_what_was_found(judge: Any) -> None:
    """A model with structured output is asked for it once, after the last tool, and sees its findings as text."""
    verdict = {"structured": {"feedback": "It is 51.", "score": 0.25, "accepted": False}}
    model = CallingModel([calls("17 * 3"), "It should be 51.", verdict], structured=True)
    said = judge(tool_critic(model, [calculator_tool()]))

    assert (said.accepted, said.score, said.text, results(said)) == (False, 0.25, "It is 51.", ["51"])
    assert "no issues" not in model.calls[0][0].text
    assert 'called: calculate({"expression": "17 * 3"})\nresult: 51\nIt should be 51.' in model.calls[2][-1].text


@pytest.mark.parametrize("structured", [False, True])
def test_calls_are_bounded(judge: Any, structured: bool) -> None:
    """Calls beyond the bound are refused, also within one message; then it must judge."""
    end: list[Any] = ["It is 51."]
    if structured:
        end = ["It is 51.", {"structured": {"feedback": "It is 51.", "score": 0, "accepted": False}}]
    model = CallingModel([calls("1 + 1"), calls("2 + 2", "3 + 3"), *end], structured=structured)
    said = judge(tool_critic(model, [calculator_tool()], max_calls=2))

    refused = "Not run: no tool calls are left. Answer now, from what you know."
    assert (results(said), said.accepted, said.text) == (["2", "4", refused], False, "It is 51.")


@pytest.mark.parametrize("same", [{"expression": "1 + 1"}, None])
def test_calls_of_one_id_are_counted_one_by_one(judge: Any, same: Any) -> None:
    """A model that gives all its calls one id gets no more of them than any other."""
    listed = [{"name": "calculate", "args": same or {"expression": f"{n} + 0"}, "id": "x"} for n in range(5)]
    model = CallingModel(["CALL " + json.dumps(listed), "It is 51."])
    said = judge(tool_critic(model, [calculator_tool()], max_calls=2))
    assert [result.startswith("Not run") for result in results(said)] == [False, False, True, True, True]


@pytest.mark.parametrize("structured", [False, True])
def test_one_that_goes_on_calling_has_given_no_verdict(judge: Any, structured: bool) -> None:
    """After a refusal it is asked once; a further call accepts nothing, and costs nothing more."""
    model = CallingModel(
        [calls("1 + 1"), calls("2 + 2"), "no issues " + calls("3 + 3"), "never"], structured=structured
    )
    said = judge(tool_critic(model, [calculator_tool()], max_calls=1))

    assert (said.accepted, len(model.calls)) == (None, 3)
    assert "went on calling tools" in said.text


@pytest.mark.parametrize("reply", [{"text": "fine, I think"}, {"text": '{"accepted": "yes"}'}, {"text": ""}])
def test_a_verdict_that_cannot_be_read_accepts_nothing(judge: Any, reply: Any) -> None:
    """It fails closed, and the evidence stays."""
    model = CallingModel([calls("17 * 3"), "Done.", reply], structured=True)
    said = judge(tool_critic(model, [calculator_tool()]))
    assert (said.accepted, results(said), len(model.calls)) == (None, ["51"], 3)
    assert judge(tool_critic(CallingModel([""]), [calculator_tool()])).accepted is None


def test_an_error_of_a_tool_is_told_to_the_model(judge: Any) -> None:
    """A tool that breaks, or that is not there, ends nothing."""

    @tool
    def calculate(expression: str) -> str:
        """Break."""
        raise OSError(f"no line for {expression}")

    listed = [*json.loads(calls("1 + 1").removeprefix("CALL ")), {"name": "look", "args": {}, "id": "x"}]
    model = CallingModel([f"CALL {json.dumps(listed)}", "no issues"])
    said = judge(tool_critic(model, [calculate]))
    assert said.accepted is True
    assert "no line for 1 + 1" in results(said)[0]
    assert "look is not a valid tool" in results(said)[1]


def test_it_ranks_between_verifiers_and_other_models() -> None:
    """Programs decide first, then critics with tools, then opinions."""
    model = CallingModel([])
    critics = [model_critic(model), model_critic(ScriptedModel([])), tool_critic(model, [calculator_tool()])]
    named = in_order(name_critics([*critics, verifier_critic(lambda *_: None, name="check")], model=model))
    assert [critic.name for critic in named] == ["check", "tool_critic", "scripted", "self"]


def test_prompts_of_ones_own_say_how_to_end(judge: Any) -> None:
    """`VERDICT` in a prompt becomes the instruction that fits the model; a template is used as it is."""
    model = CallingModel(["no issues", "no issues"])
    judge(tool_critic(model, [calculator_tool()], prompt="{draft} VERDICT", stop_phrase="{fine}"))
    assert model.calls[0][0].text.startswith("It is 50. Then name every error")
    assert model.calls[0][0].text.endswith("{fine}")
    template = ChatPromptTemplate.from_messages([("system", "Check."), ("human", "{draft}")])
    judge(tool_critic(model, [calculator_tool()], prompt=template))
    assert [message.text for message in model.calls[1]] == ["Check.", "It is 50."]


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"tools": []}, ValueError, "tools are empty"),
        ({"max_calls": 0}, ValueError, "max_calls"),
        ({"max_calls": True}, ValueError, "max_calls"),
        ({"prompt": "{code}"}, ValueError, "prompt lacks {draft}"),
        ({"stop_phrase": " "}, ValueError, "stop_phrase"),
        ({"structured": True}, NotImplementedError, "structured=True"),
        ({"tools": [calculator_tool(), calculator_tool()]}, ValueError, "one name"),
        ({"model": ScriptedModel([])}, NotImplementedError, "can't call tools"),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_built(options: Any, error: Any, says: str) -> None:
    """A mistake shows at once."""
    given = {"model": CallingModel([]), "tools": [calculator_tool()], **options}
    with pytest.raises(error, match=says):
        tool_critic(given.pop("model"), given.pop("tools"), **given)


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("17 * 3 + 4", "55"),
        ("(1,200 - 200) / 8", "125"),
        ("2 ^ 64", "18446744073709551616"),
        ("15% of 80", "12"),
        ("0.1 + 0.2", "0.3"),
        ("10 / 4", "2.5"),
        ("1 / 3", "1/3, about 0.333333333333"),
        ("-3 * 4", "-12"),
        ("10 ^ 20", "100000000000000000000"),
        ("2 / 0", "divides by zero"),
        ("__import__('os').getcwd()", "can't be read"),
        ("3 apples and 4 pears", "can't be read"),
        ("", "Give one arithmetic expression"),
        ("1" * 301, "Give one arithmetic expression"),
        ("(" * 150 + "1" + ")" * 149, "can't be read"),
    ],
)
def test_the_calculator_computes_exactly_or_says_why_not(expression: str, result: str) -> None:
    """Numbers come with all their digits, and nothing is evaluated as code."""
    answer = calculator_tool().invoke({"expression": expression})
    assert answer == result if result[-1].isdigit() else result in answer


def test_code_runs_in_the_sandbox(sandbox: Any) -> None:
    """What it prints, its last value or its error comes back, sync and async."""
    run = python_tool(sandbox)
    assert run.invoke({"code": "print(17 * 3)"}) == "51"
    assert asyncio.run(run.ainvoke({"code": "print(17 * 3)\n4"})) == "51\nvalue: 4"
    assert run.invoke({"code": "x = 1"}) == "It ran, and printed nothing."
    assert "ZeroDivisionError" in run.invoke({"code": "1 / 0"})
    assert "print" not in run.invoke({"code": "open('/etc/passwd').read()"})


class Shelf(BaseRetriever):
    """Finds one passage."""

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        return [Document(f"On {query}."), Document("More.")]


def test_search_asks_a_retriever() -> None:
    """Any LangChain retriever is a tool, sync and async."""
    search = search_tool(Shelf(), about="the handbook")
    assert search.invoke({"query": "lamps"}) == "On lamps.\n\nMore."
    assert asyncio.run(search.ainvoke({"query": "lamps"})) == "On lamps.\n\nMore."
    assert "the handbook" in search.description


@pytest.mark.parametrize("how", ["resume", "aresume"])
def test_a_model_with_tools_comments_in_a_resumed_thread(how: str) -> None:
    """A critic on `ToolUsingModel` goes on where the thread was stopped, as anywhere."""
    critic = CommentCritic(ToolUsingModel(CallingModel([calls("17 * 3"), "It is 51."]), [calculator_tool()]), "{draft}")
    with open_checkpointer("memory") as saver:
        graph = build_refine_graph(ScriptedModel(["50", "51"]), critics=[critic], judge_last=False, checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "1"}}
        graph.invoke({"task": "17 * 3?", "limits": {"max_rounds": 1}}, config, interrupt_before=["feedback"])
        thread = Thread(graph, "1")
        output = asyncio.run(thread.aresume()) if how == "aresume" else thread.resume()
    assert (output["stop_reason"], output["answer"]) == ("max_rounds", "51")
