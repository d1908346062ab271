"""An agent that revises its answers itself, with its tools: `refine="base"` of the preset `agent`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from redraft.graphs.agent import build_agent_graph
from redraft.models import ScriptedModel
from redraft.nodes import uses_tools, uses_words, verifier_critic
from redraft.nodes.agents.react import react_agent
from redraft.state import Critique, Thread, open_checkpointer

TASK = {"task": "What is 17 times 3, in words?"}
LAMP: Any = {"configurable": {"thread_id": "lamp"}}
WORDS = verifier_critic(uses_words("fifty-one"))


class CallingModel(ScriptedModel):
    """A scripted model that can be given tools; `CALL` in a reply calls `multiply`, `ASK` asks the boss."""

    def bind_tools(self, tools: Any, **_: Any) -> Runnable[Any, Any]:
        return self

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        result = super()._generate(*args, **kwargs)
        message: Any = result.generations[0].message
        asked = {"CALL": ("multiply", {"a": 17, "b": 3}), "ASK": ("ask_boss", {})}.get(message.content)
        if asked:
            name, given = asked
            message.content, message.tool_calls = "", [{"name": name, "args": given, "id": f"{name}-{len(self.calls)}"}]
        return result


@tool
def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers."""
    return a * b


@tool
def ask_boss() -> str:
    """Ask the boss."""
    return str(interrupt("Well?"))


def revisions(output: Any) -> list[Any]:
    return [event for event in output["events"] if event["kind"] == "revision"]


def said(messages: Any) -> list[tuple[str, str]]:
    return [(message.type, message.text.partition("\n")[0]) for message in messages]


FEEDBACK = "Your answer was checked, and can't be given yet. What was found:"
RETURN = "Your last reply was checked, and an earlier answer of yours is still the better one:"


def test_the_agent_looks_again_with_its_tools_where_a_fact_was_missing(run: Any) -> None:
    """An answer that no tool was called for goes back to the agent, which calls it; its steps and tokens are kept."""
    model = CallingModel(["It is 50.", "CALL", "It is 51."])
    graph = build_agent_graph(model=model, tools=[multiply], critic=uses_tools("multiply"), refine="base")
    output = run(graph, TASK)

    assert (output["answer"], output["stop_reason"], output["accepted_by"]) == ("It is 51.", "accepted", "uses_tools")
    (revision,) = revisions(output)
    assert [(step["step"], step["text"]) for step in revision["steps"]] == [
        ("model", ""),
        ("tool_call", 'multiply({"a": 17, "b": 3})'),
        ("tool_result", "51"),
        ("model", "It is 51."),
    ]
    assert (revision["usage"]["calls"], output["usage"]["calls"], revision["base"]) == (2, 3, 0)
    assert said(model.calls[1]) == [("human", TASK["task"]), ("ai", "It is 50."), ("human", FEEDBACK)]
    assert "These tools were not called with success: multiply." in model.calls[1][2].text


def test_steps_of_a_revision_are_streamed_with_its_round() -> None:
    """Whoever watches sees the second look as it happens, in the round and role of the refiner."""
    model = CallingModel(["It is 50.", "CALL", "It is 51."])
    graph = build_agent_graph(model=model, tools=[multiply], critic=uses_tools("multiply"), refine="base")
    items = [item for item in graph.stream(TASK, stream_mode="custom") if item["kind"] == "step"]
    assert [(item["round"], item["role"], item["step"]) for item in items] == [
        (0, "base", "model"),
        (1, "refiner", "model"),
        (1, "refiner", "tool_call"),
        (1, "refiner", "tool_result"),
        (1, "refiner", "model"),
    ]


def test_only_what_needs_tools_goes_to_the_agent(run: Any) -> None:
    """Beside a text refiner the agent revises what its critic objects to; wording costs one call without tools."""
    model = CallingModel(["It is 50.", "CALL", "It is 51.", "It is 51 euros."])
    graph = build_agent_graph(
        model=model,
        tools=[multiply],
        critic=[uses_tools("multiply"), verifier_critic(uses_words("51", "euros"))],
        critics_after="always",
        refine={"uses_tools": "base", "uses_words": "Say {draft} so: {feedback}"},
    )
    output = run(graph, TASK)
    by = [(one["refiner"], one["usage"]["calls"]) for one in revisions(output)]
    assert by == [("uses_tools", 2), ("uses_words", 1)]
    assert (output["answer"], output["stop_reason"]) == ("It is 51 euros.", "accepted")


def test_later_rounds_show_the_agent_what_it_answered_before(run: Any) -> None:
    """It reads its answers and what was found in each; where the last was worse, or none, the better one is shown."""
    model = CallingModel(["One.", "Two, fifty-one.", "No changes needed.", "Three, fifty-one: sea."])
    graph = build_agent_graph(
        react_agent(model), model=model, critic=verifier_critic(uses_words("fifty-one", "sea")), refine="base"
    )
    output = run(graph, TASK)
    assert output["stop_reason"] == "accepted"
    ask = [("human", TASK["task"]), ("ai", "One."), ("human", FEEDBACK)]
    assert said(model.calls[2]) == [*ask, ("ai", "Two, fifty-one."), ("human", FEEDBACK)]
    assert said(model.calls[3]) == [*ask, ("ai", "Two, fifty-one."), ("human", RETURN)]
    assert (
        "(Your last reply was not taken as an answer: it speaks about the answer instead of giving it.)"
        in model.calls[3][4].text
    )


ASKED: list[Any] = []


def on_a_task(task: str) -> str:
    ASKED.append(task)
    return "fifty-one" if "missing" in task else "51"


async def on_messages(messages: Any) -> AIMessage:
    ASKED.append("\n".join(f"{one['role']}: {one['content']}" for one in messages))
    return AIMessage("fifty-one" if len(messages) > 1 else "51")


def chain() -> Any:
    model = ScriptedModel(["51", "fifty-one"])
    return ChatPromptTemplate.from_template("Answer: {task}") | model | StrOutputParser()


MODEL = ScriptedModel(["51", "fifty-one"] * 2)


@pytest.mark.parametrize("base", [on_a_task, on_messages, chain, MODEL], ids=["task", "messages", "chain", "model"])
def test_whatever_is_the_base_is_told_what_was_found(run: Any, base: Any) -> None:
    """A function, a prompt chain over the task and a chat model all see their answer and the feedback."""
    ASKED.clear()
    base = chain() if base is chain else base
    output = run(build_agent_graph(base, model=ScriptedModel([]), critic=WORDS, refine="base"), TASK)
    assert (output["answer"], output["stop_reason"]) == ("fifty-one", "accepted")
    for told in ASKED[1:]:
        assert told.index("17 times 3") < told.index("51") < told.index("These words are missing: fifty-one.")


def test_an_agent_that_waits_for_a_person_while_it_revises_goes_on_from_there(run: Any) -> None:
    """A tool's question pauses the round; answered, nothing is paid twice, and the record replays."""
    model = CallingModel(["It is 50.", "CALL", "ASK", "fifty-one, says the boss."])
    with open_checkpointer("memory") as saver:
        graph = build_agent_graph(
            model=model, tools=[multiply, ask_boss], critic=WORDS, refine="base", checkpointer=saver
        )
        assert run(graph, TASK, LAMP)["__interrupt__"][0].value == "Well?"
        output = run(graph, Command(resume="yes"), LAMP)
        assert Thread(graph, "lamp").replay().matches
    assert (output["answer"], output["usage"]["calls"], len(model.calls)) == ("fifty-one, says the boss.", 4, 4)
    assert [step["text"] for step in revisions(output)[0]["steps"] if step["step"] == "tool_result"] == ["51", "yes"]


@pytest.mark.parametrize(
    ("limits", "reason", "calls"), [({}, "failed", 6), ({"max_tokens": 30}, "token_budget", 2)], ids=["steps", "budget"]
)
def test_an_agent_that_is_stopped_while_it_revises_leaves_the_better_answer(
    run: Any, limits: Any, reason: str, calls: int
) -> None:
    """Out of steps or over the budget, the run ends with the first answer, and says what the second look cost."""
    model = CallingModel(["It is 50."] + ["CALL"] * 9)
    base = react_agent(model, [multiply]).with_config(recursion_limit=10)
    output = run(build_agent_graph(base, model=model, critic=WORDS, refine="base", limits=limits), TASK)
    assert (output["answer"], output["stop_reason"], output["usage"]["calls"]) == ("It is 50.", reason, calls)
    assert revisions(output)[0]["rejected"]
    assert revisions(output)[0]["incomplete"]


def test_data_stays_data_when_the_agent_revises_it(run: Any) -> None:
    """A structured response is judged as JSON, and so is the one that the agent gives in its place."""

    class Answers(MessagesState):
        structured_response: dict[str, Any]

    values = iter([50, 51])
    graph = StateGraph(Answers)
    graph.add_node("answer", lambda _: {"structured_response": {"value": next(values)}})
    graph.add_edge(START, "answer")

    def right(task: str, draft: str) -> Critique:
        return Critique("Not so.", accepted=json.loads(draft)["value"] == 51)

    base = graph.compile()
    output = run(build_agent_graph(base, model=ScriptedModel([]), critic=verifier_critic(right), refine="base"), TASK)
    assert (json.loads(output["answer"]), output["stop_reason"]) == ({"value": 51}, "accepted")
    assert revisions(output)[0]["schema"]["required"] == ["value"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"refine": "base", "refiner_prompt": "Again, {task}"}, "refiner_prompt lacks {feedback}"),
        ({"refine": len, "refiner_prompt": "{draft}{feedback}"}, "nothing here would read it"),
        ({"refine": {"a": "base"}, "refiner_prompt": "{draft}{feedback}"}, "nothing here would read it"),
        ({"refine": "bass"}, "refiner_prompt lacks {draft} and {feedback}"),
        ({"refine": {"a": "Mend {draft}"}}, "refiner_prompt of 'a' lacks {feedback}"),
    ],
)
def test_a_refiner_of_an_agent_that_makes_no_sense_is_refused(options: Any, says: str) -> None:
    """A prompt that nobody would read, or that hides what was found, shows when the graph is built."""
    with pytest.raises(ValueError, match=says):
        build_agent_graph(model=ScriptedModel([]), **options)
