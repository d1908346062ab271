"""`RefineMiddleware`: an agent of LangChain's whose answers are judged before they are given."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Annotated, Any, NotRequired

import pytest
from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    ModelCallLimitMiddleware,
    ToolCallLimitMiddleware,
    hook_config,
)
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import Runnable
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from pydantic import BaseModel
from redraft import (
    Critique,
    RefineMiddleware,
    Thread,
    build_refine_graph,
    human_critic,
    open_checkpointer,
    uses_words,
    verifier_critic,
)
from redraft.graphs.agent import build_agent_graph
from redraft.models import ScriptedModel
from redraft.nodes import uses_tools

ASK: Any = {"messages": [("user", "What is 17 times 3?")]}
ONE: Any = {"configurable": {"thread_id": "one"}}


class CallingModel(ScriptedModel):
    """A scripted model whose replies `calls(…)` call tools."""

    def bind_tools(self, tools: Any, **_: Any) -> Runnable[Any, Any]:
        return self.bind()

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        result = super()._generate(messages, stop, run_manager, **kwargs)
        message: Any = result.generations[0].message
        said, called, listed = message.content.partition("CALL ")
        if called:
            message.content, message.tool_calls = said.strip(), json.loads(listed)
        return result


def calls(*tools: tuple[str, dict[str, Any]]) -> str:
    """A reply that calls tools."""
    listed = [
        {"name": name, "args": args, "id": f"{name}-{at}", "type": "tool_call"} for at, (name, args) in enumerate(tools)
    ]
    return f"CALL {json.dumps(listed)}"


@tool
def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers."""
    return a * b


MULTIPLY = calls(("multiply", {"a": 17, "b": 3}))
LAMP = verifier_critic(uses_words("lamp"))


def scoring(scores: dict[str, float], *, enough: float = 1.0) -> Any:
    """A critic that scores drafts by a word in them, and counts how often it is asked."""

    def judge(task: str, draft: str, history: Any) -> Critique:
        judge.asked.append(draft)  # type: ignore[attr-defined]
        score = next(value for word, value in scores.items() if word in draft)
        return Critique(f"worth {score}", score >= enough, score)

    judge.asked = []  # type: ignore[attr-defined]
    return judge


def told(output: Any) -> dict[str, Any]:
    found: dict[str, Any] = output["messages"][-1].response_metadata["redraft"]
    return found


def record(agent: Any, config: Any = ONE) -> list[Any]:
    return list(agent.get_state(config).values["_refine_events"])


def kinds(events: Any) -> list[str]:
    return [event["kind"] for event in events]


def test_what_fails_goes_back_into_the_agents_own_loop(run: Any) -> None:
    """An answer that a verifier rejects is mended by the agent itself, which calls its tools again; all calls count."""
    model = CallingModel([MULTIPLY, "It is 51.", MULTIPLY, "The lamp says 51."])
    agent = create_agent(model, [multiply], middleware=[RefineMiddleware([LAMP])], checkpointer=InMemorySaver())
    output = run(agent, ASK, ONE)

    assert output["messages"][-1].text == "The lamp says 51."
    assert {name: told(output)[name] for name in ("stop_reason", "rounds", "score", "accepted_by")} == {
        **{"stop_reason": "accepted", "rounds": 1, "score": 1.0, "accepted_by": "uses_words"}
    }
    assert told(output)["usage"]["calls"] == len(model.calls) == 4
    assert told(output)["usage"]["total_tokens"] == sum(
        message.usage_metadata["total_tokens"] for message in output["messages"] if isinstance(message, AIMessage)
    )
    assert "These words are missing: lamp." in model.calls[2][-1].text
    assert [type(message) for message in output["messages"][4:]] == [HumanMessage, AIMessage, ToolMessage, AIMessage]
    # Nobody is shown what is ours, and nobody can give it.
    assert output.keys() == {"messages"}
    assert not {name for name in agent.get_input_jsonschema()["properties"] if "refine" in name}
    events = record(agent)
    assert kinds(events) == ["task", "draft", "critique", "verdict", "revision", "critique", "verdict"]
    assert [step["step"] for step in events[4]["steps"]] == ["model", "tool_call", "tool_result", "model"]


def test_the_best_answer_is_given_and_not_the_last(run: Any) -> None:
    """A revision that is worse is not the answer: the agent is sent back to the better one, which also ends the run."""
    judge = scoring({"fair": 0.4, "good": 0.8, "bad": 0.1, "poor": 0.2})
    model = CallingModel(["a fair answer", "a good answer", "a bad answer", "a poor answer"])
    output = run(create_agent(model, middleware=[RefineMiddleware([judge], max_rounds=3)]), ASK)

    assert output["messages"][-1].text == "a good answer"
    assert (told(output)["stop_reason"], told(output)["score"], told(output)["rounds"]) == ("max_rounds", 0.8, 3)
    # The third call is about the last reply, the fourth about the better one before it.
    assert "a good answer" not in model.calls[2][-1].text
    assert "a good answer\n\nWhat was found in that one:\n\nworth 0.8" in model.calls[3][-1].text


@pytest.mark.parametrize(
    "verdict", ["There are no issues with style, but the total is wrong.", "Answer: no issues? I doubt it.", ""]
)
def test_no_verdict_accepts_by_a_phrase_in_it(run: Any, verdict: str) -> None:
    """A judge that says anything but the phrase alone accepts nothing; it is shown what the tools returned."""
    judge = ScriptedModel([verdict, "No issues."], model_name="judge")
    model = CallingModel([MULTIPLY, "It is 15.", "It is 51."])
    output = run(create_agent(model, [multiply], middleware=[RefineMiddleware([judge])]), ASK)

    assert (output["messages"][-1].text, told(output)["accepted_by"]) == ("It is 51.", "judge")
    assert 'called: multiply({"a": 17, "b": 3})\nresult: 51' in judge.calls[0][-1].text
    assert told(output)["usage"]["calls"] == 5


class City(BaseModel):
    """A city."""

    city: str
    people: int


def cities(*found: tuple[str, int]) -> list[str]:
    return [calls(("City", {"city": city, "people": people})) for city, people in found]


def test_a_structured_response_is_refined_as_data(run: Any) -> None:
    """Critics judge the data as JSON, and the best data comes back as an object of the class that was asked for."""
    judge = scoring({"Rome": 0.5, "Paris": 0.9, "Oslo": 0.1})
    model = CallingModel(cities(("Rome", 3), ("Paris", 2), ("Oslo", 1)))
    middleware = RefineMiddleware([judge], max_rounds=2)
    agent = create_agent(
        model, middleware=[middleware], response_format=ToolStrategy(City), checkpointer=InMemorySaver()
    )
    output = run(agent, ASK, ONE)

    assert output["structured_response"] == City(city="Paris", people=2)
    assert [json.loads(draft)["city"] for draft in judge.asked] == ["Rome", "Paris", "Oslo"]
    assert record(agent)[1]["schema"]["required"] == ["city", "people"]


def test_the_agent_preset_refines_data_too(run: Any) -> None:
    """Drafts are the data and not "Returning structured response: …"; a revision that does not fit is no draft."""
    base = create_agent(CallingModel(cities(("Rome", 3))), response_format=ToolStrategy(City))
    judge = scoring({"Rome": 0.5, "Paris": 0.9})
    model = ScriptedModel(['{"city": "Paris"}', '```json\n{"city": "Paris", "people": 2}\n```'])
    output = run(build_agent_graph(base, model=model, critic=judge, max_rounds=2), {"task": "Name a city."})

    assert json.loads(output["answer"]) == {"city": "Paris", "people": 2}
    assert [json.loads(draft) for draft in judge.asked[:1]] == [{"city": "Rome", "people": 3}]
    assert [event["rejected"] for event in output["events"] if event["kind"] == "revision"] == ["invalid", ""]
    assert '"required": ["city", "people"]' in model.calls[0][-1].text


@pytest.mark.parametrize("saver", ["langgraph", "sqlite"])
def test_a_person_is_asked_last_and_nobody_else_twice(run: Any, saver: str, tmp_path: Any, request: Any) -> None:
    """The run waits in any checkpointer; resumed, neither agent nor critics are asked again, and feedback goes back."""
    judge = scoring({"51": 0.6})
    model = CallingModel([MULTIPLY, "It is 51.", "Well, it is 51."])
    middleware = [RefineMiddleware([judge, human_critic()])]
    keeps: Any = InMemorySaver() if saver == "langgraph" else request.getfixturevalue("sqlite")
    agent = create_agent(model, [multiply], middleware=middleware, checkpointer=keeps)

    asked = run(agent, ASK, ONE)["__interrupt__"][0].value
    assert (asked["draft"], asked["critiques"][0]["text"]) == ("It is 51.", "worth 0.6")
    asked = run(agent, Command(resume="Be kinder."), ONE)["__interrupt__"][0].value
    assert asked["draft"] == "Well, it is 51."
    output = run(agent, Command(resume={"action": "edit", "draft": "It is 51, dear."}), ONE)

    assert (output["messages"][-1].text, told(output)["accepted_by"]) == ("It is 51, dear.", "human")
    assert judge.asked == ["It is 51.", "Well, it is 51."]
    assert len(model.calls) == 3
    assert "Be kinder." in model.calls[2][-1].text
    if saver == "sqlite":
        row = keeps.runs.get("one")
        assert (row.task, row.stop_reason, row.rounds) == ("What is 17 times 3?", "accepted", 2)
    replay = Thread(agent, "one").replay()
    assert (replay.matches, replay.output["answer"], replay.output["stop_reason"]) == (
        True,
        "It is 51, dear.",
        "accepted",
    )


@pytest.fixture
def sqlite(tmp_path: Any) -> Any:
    with open_checkpointer(f"{tmp_path}/runs.sqlite") as saver:
        yield saver


def test_no_call_begins_once_a_budget_is_spent(run: Any) -> None:
    """The budget covers the agent's own calls: one that is spent between two tool calls ends the run, and says so."""
    ran = []

    @tool
    def look(at: str) -> str:
        """Look."""
        ran.append(at)
        return at

    model = CallingModel([calls(("look", {"at": "a"})), calls(("look", {"at": "b"})), "never said"])
    middleware = RefineMiddleware([LAMP], limits={"max_tokens": 10})
    agent = create_agent(model, [look], middleware=[middleware], checkpointer=InMemorySaver())
    run(agent, ASK, ONE)

    assert (len(model.calls), ran) == (1, [])
    values = agent.get_state(ONE).values["_refine"]
    assert (values["stop_reason"], values["usage"]["calls"]) == ("token_budget", 1)


def test_what_a_subagent_uses_counts(run: Any) -> None:
    """A tool that runs another agent spends from the same budget, and no call of that agent begins beyond it."""
    helper = CallingModel([MULTIPLY, "never said"])
    inner = create_agent(helper, [multiply])

    @tool
    def delegate(request: str) -> str:
        """Ask the helper."""
        return str(inner.invoke({"messages": [("user", request)]})["messages"][-1].text)

    model = CallingModel(["It is 50.", calls(("delegate", {"request": "17 times 3"})), "never said"])
    middleware = RefineMiddleware([LAMP], limits={"max_tokens": 150})
    helper.replies[0] = {"text": MULTIPLY, "input_tokens": 100, "output_tokens": 100}
    output = run(create_agent(model, [delegate], middleware=[middleware]), ASK)

    assert (len(model.calls), len(helper.calls)) == (2, 1)
    assert (output["messages"][-1].text, told(output)["stop_reason"]) == ("It is 50.", "token_budget")
    assert told(output)["usage"]["calls"] == 3


def test_a_subagent_refines_for_itself(run: Any) -> None:
    """An agent with the middleware inside a tool of another with it keeps a record of its own."""
    inner = create_agent(
        CallingModel(["it is 51", "the lamp: 51"]), middleware=[RefineMiddleware([LAMP])], name="inner"
    )

    @tool
    def delegate(request: str) -> str:
        """Ask the helper."""
        return str(inner.invoke({"messages": [("user", request)]})["messages"][-1].text)

    model = CallingModel([calls(("delegate", {"request": "17 times 3"})), "The lamp of mine: 51."])
    outer = create_agent(model, [delegate], middleware=[RefineMiddleware([LAMP])], checkpointer=InMemorySaver())
    output = run(outer, ASK, ONE)

    assert (output["messages"][-1].text, told(output)["rounds"]) == ("The lamp of mine: 51.", 0)
    assert kinds(record(outer)) == ["task", "draft", "critique", "verdict"]
    assert record(outer)[1]["steps"][2]["text"] == "the lamp: 51"
    assert told(output)["usage"]["calls"] == 4


@pytest.mark.parametrize("broken", ["model", "tool", "critic"])
def test_an_error_after_the_first_answer_loses_nothing(run: Any, broken: str) -> None:
    """The run ends as failed with the best answer so far, whoever raised; before the first one the error is raised."""

    @tool
    def look(at: str) -> str:
        """Look."""
        raise RuntimeError("out of order")

    def judge(task: str, draft: str, history: Any) -> Critique:
        if broken == "critic":
            raise RuntimeError("out of order")
        return Critique("more", accepted=False, score=0.5)

    wrong: Any = RuntimeError("out of order") if broken == "model" else calls(("look", {"at": "a"}))
    agent = create_agent(
        CallingModel(["first", wrong, "last"]),
        [look],
        middleware=[RefineMiddleware([judge])],
        checkpointer=InMemorySaver(),
    )
    output = run(agent, ASK, ONE)
    assert (output["messages"][-1].text, told(output)["stop_reason"]) == ("first", "failed")
    assert "out of order" in next(event["text"] for event in record(agent) if event["kind"] == "failure")

    early = create_agent(CallingModel([wrong]), [look], middleware=[RefineMiddleware([LAMP])])
    if broken != "critic":
        with pytest.raises(RuntimeError, match="out of order"):
            run(early, ASK)


@pytest.mark.parametrize("broken", ["model", "tool", "critic", "critic of a revision"])
def test_a_failed_run_goes_on_where_it_failed(run: Any, broken: str) -> None:
    """`Thread.resume` calls the model again, or the critic on the answer that it has; its answer takes the failed one's
    place, and the record is one that replays."""
    outages = iter([RuntimeError("out of order")])

    @tool
    def look(at: str) -> str:
        """Look."""
        raise next(outages)

    def judge(task: str, draft: str, history: Any) -> Critique:
        if broken == "critic" or (broken == "critic of a revision" and draft == "last"):
            for outage in outages:
                raise outage
        return Critique("more", accepted=draft == "last", score=float(draft == "last"))

    wrong = {"model": [RuntimeError("out of order")], "tool": [calls(("look", {"at": "a"}))]}.get(broken, [])
    agent = create_agent(
        CallingModel(["first", *wrong, "last"]),
        [look],
        middleware=[RefineMiddleware([judge])],
        checkpointer=InMemorySaver(),
    )
    assert told(run(agent, ASK, ONE))["stop_reason"] == "failed"
    thread = Thread(agent, "one")
    output: Any = thread.resume()
    assert (output["messages"][-1].text, told(output)["stop_reason"]) == ("last", "accepted")
    assert [message.text for message in output["messages"] if message.type == "ai" and message.text] == [
        "first",
        "last",
    ]
    drafts = [event["text"] for event in record(agent) if event["kind"] in ("draft", "revision") and event["text"]]
    assert drafts == ["first", "last"]
    assert thread.replay().matches
    assert thread.resume() == output  # it is finished


def test_a_result_that_can_not_be_kept_runs_its_tool_once(run: Any, sqlite: Any, monkeypatch: Any) -> None:
    """The agent is told so in place of the result, and the run ends; a resume would else run the tool each time."""
    ran = []

    @tool
    def look(at: str) -> str:
        """Look."""
        ran.append(at)
        return at * 100_000

    monkeypatch.setattr("redraft.state.storage.trust.LARGEST_VALUE", 50_000)
    agent = create_agent(
        CallingModel([calls(("look", {"at": "a"})), "a lamp"]),
        [look],
        middleware=[RefineMiddleware([LAMP])],
        checkpointer=sqlite,
    )
    output = run(agent, ASK, ONE)
    assert (output["messages"][-1].text, ran) == ("a lamp", ["a"])
    [message] = [message for message in output["messages"] if message.type == "tool"]
    assert message.status == "error"
    assert message.text.startswith("The tool ran, but its result can't be kept: a value of")


def test_no_recursion_error_reaches_a_user(run: Any) -> None:
    """Under a small recursion_limit the best answer so far comes back."""
    model = CallingModel([f"draft {number}" for number in range(50)])
    agent = create_agent(model, middleware=[RefineMiddleware([LAMP], max_rounds=40)])
    output = run(agent, ASK, {"recursion_limit": 25})

    assert (output["messages"][-1].text, told(output)["stop_reason"]) == ("draft 0", "max_rounds")


def test_each_turn_of_a_thread_is_a_run_of_its_own(run: Any) -> None:
    """The next message of the user is the next task; its judge is told what was said before, without the drafts."""
    judge = ScriptedModel(["No.", "No issues.", "No issues."], model_name="judge")
    model = CallingModel(["It is 15.", "It is 51.", "It is 102."])
    agent = create_agent(model, middleware=[RefineMiddleware([judge])], checkpointer=InMemorySaver())
    run(agent, ASK, ONE)
    output = run(agent, {"messages": [("user", "And twice that?")]}, ONE)

    assert (output["messages"][-1].text, told(output)["rounds"]) == ("It is 102.", 0)
    asked = judge.calls[2][-1].text
    assert "User: What is 17 times 3?\n\nAssistant: It is 51.\n\n(Now the user asks:)\nAnd twice that?" in asked
    assert "It is 15." not in asked
    thread = Thread(agent, "one")
    assert thread.replay().matches
    assert [step.stop_reason for step in thread.history()][-1] == "accepted"


def test_a_turn_that_another_middleware_ends_stays_as_it_is(run: Any) -> None:
    """What a guard says no model wrote: it is a turn of its own, nobody judges it, and the model is not called."""

    class Guard(AgentMiddleware[Any, Any]):
        @hook_config(can_jump_to=["end"])
        def before_agent(self, state: Any, runtime: Any) -> Any:
            if "weather" in state["messages"][-1].text:
                return {"messages": [AIMessage("I can only multiply.")], "jump_to": "end"}
            return None

    model = CallingModel(["The lamp says 51."])
    middleware = [Guard(), RefineMiddleware([LAMP], max_rounds=1)]
    agent = create_agent(model, middleware=middleware, checkpointer=InMemorySaver())
    run(agent, ASK, ONE)
    output = run(agent, {"messages": [("user", "And the weather?")]}, ONE)

    assert [message.text for message in output["messages"] if message.type == "ai"] == [
        *("The lamp says 51.", "I can only multiply.")
    ]
    assert (told(output)["stop_reason"], told(output)["rounds"]) == ("failed", 0)
    assert [event["text"] for event in record(agent) if event["kind"] == "task"] == [
        *("What is 17 times 3?", "And the weather?")
    ]


@pytest.mark.parametrize("drafted", [False, True])
@pytest.mark.parametrize("limit", [ModelCallLimitMiddleware, ToolCallLimitMiddleware])
def test_a_notice_that_a_limit_is_reached_is_no_answer(run: Any, limit: Any, drafted: bool) -> None:
    """Though it fits the check nobody judges it, no call follows it, and the draft before it is the answer."""
    asked: list[str] = []

    def few(task: str, draft: str) -> Critique:
        asked.append(draft)
        return Critique("", accepted=draft != "First draft.")

    allowed = (2 if drafted else 1) if limit is ModelCallLimitMiddleware else 1
    model = CallingModel([*(["First draft."] if drafted else []), MULTIPLY, MULTIPLY, "more", "more"])
    agent = create_agent(
        model,
        [multiply],
        middleware=[RefineMiddleware([verifier_critic(few)]), limit(run_limit=allowed, exit_behavior="end")],
        checkpointer=InMemorySaver(),
    )
    output = run(agent, ASK, ONE)

    assert (told(output)["stop_reason"], told(output)["accepted_by"]) == ("failed", None)
    assert asked == ["First draft."] * drafted
    assert len(model.calls) == 1 + drafted + (limit is ToolCallLimitMiddleware)
    assert (output["messages"][-1].text == "First draft.") == drafted
    news = [event for event in record(agent) if event["kind"] in ("draft", "revision")]
    assert news[-1]["rejected"] == "notice"
    assert "call limit" in news[-1]["incomplete"]
    assert Thread(agent, "one").replay().matches


def test_an_agents_refusal_is_no_answer_and_its_preamble_is_stripped(run: Any) -> None:
    """A refusal that fits the check is told the agent; what stands around its next answer leaves the conversation."""
    model = CallingModel(["I'm sorry, but I can't help with that.", "Sure! Here's the answer:\n\nThe lamp says 51."])
    agent = create_agent(model, middleware=[RefineMiddleware([LAMP])], checkpointer=InMemorySaver())
    output = run(agent, ASK, ONE)

    assert (output["messages"][-1].content, told(output)["stop_reason"]) == ("The lamp says 51.", "accepted")
    assert "(Your last reply was not taken as an answer: it was a refusal.)" in output["messages"][-2].text
    assert "an earlier answer of yours" not in output["messages"][-2].text
    assert [event.get("rejected") for event in record(agent) if event["kind"] == "draft"] == ["refused"]


def test_an_agent_that_only_refuses_ends_within_its_rounds(run: Any) -> None:
    """Each refusal costs a round, and the last one is what the user reads, accepted by nobody."""
    model = CallingModel(["I can't help with that."] * 3)
    output = run(create_agent(model, middleware=[RefineMiddleware([LAMP], max_rounds=2)]), ASK)
    assert (output["messages"][-1].text, told(output)["stop_reason"]) == ("I can't help with that.", "max_rounds")
    assert len(model.calls) == 3


def test_what_a_middleware_makes_of_a_finished_answer_is_judged(run: Any) -> None:
    """One that writes the model's answer anew, as a message of its own, speaks for the model."""

    class Signed(AgentMiddleware[Any, Any]):
        def after_agent(self, state: Any, runtime: Any) -> Any:
            return {"messages": [AIMessage(f"{state['messages'][-1].text} Yours, the lamp.")]}

    agent = create_agent(CallingModel(["51."]), middleware=[RefineMiddleware([LAMP]), Signed()])
    output = run(agent, ASK)
    assert (output["messages"][-1].text, told(output)["stop_reason"]) == ("51. Yours, the lamp.", "accepted")


def test_nobody_hides_a_request_from_the_judge(run: Any) -> None:
    """A message that its sender marks as feedback of ours is the task all the same."""
    judge = ScriptedModel(["No issues."], model_name="judge")
    marked = HumanMessage("Tell a joke.", additional_kwargs={"lc_source": "redraft"})
    agent = create_agent(CallingModel(["Ha."]), middleware=[RefineMiddleware([judge])])
    run(agent, {"messages": [("user", "What is 17 times 3?"), marked]})
    assert "Tell a joke." in judge.calls[0][-1].text


def test_tool_use_is_a_score(run: Any) -> None:
    """An agent that answers without the tools it was to use is told which ones, and calls them."""
    model = CallingModel(["51", MULTIPLY, "It is 51."])
    refining = RefineMiddleware([uses_tools("multiply")])
    agent = create_agent(model, [multiply], middleware=[refining], checkpointer=InMemorySaver())
    output = run(agent, ASK, ONE)
    said = [(event["score"], event["text"]) for event in record(agent) if event["kind"] == "critique"]
    assert said == [(0.0, "These tools were not called with success: multiply."), (1.0, "")]
    assert (output["messages"][-1].text, told(output)["stop_reason"]) == ("It is 51.", "accepted")
    with pytest.raises(ValueError, match="names of tools"):
        uses_tools()


class Files(AgentMiddleware[Any, Any]):
    """The files of a deep agent in small: kept in the state, written by a tool."""

    class State(AgentState[Any]):
        files: NotRequired[Annotated[dict[str, Any], lambda old, new: {**old, **new}]]

    state_schema = State

    def __init__(self) -> None:
        super().__init__()

        @tool
        def write_file(path: str, content: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Any:
            """Write a file."""
            said = ToolMessage("Written.", tool_call_id=tool_call_id)
            return Command(update={"files": {path: {"content": content}}, "messages": [said]})

        self.tools = [write_file]


def deep(model: Any, kind: str, **options: Any) -> Any:
    refining = RefineMiddleware(**options)
    if kind == "in small":
        return create_agent(model, middleware=[refining, Files()], checkpointer=InMemorySaver())
    return create_deep_agent(model, middleware=[refining], checkpointer=InMemorySaver())


@pytest.mark.parametrize("kind", ["in small", "deepagents"])
def test_files_of_a_deep_agent_are_refined_with_its_answer(run: Any, kind: str) -> None:
    """The critics see the files that belong to the answer, the agent mends them with its tools, and where a worse
    version followed, the files of the best one are back in the state."""

    def write(text: str) -> str:
        key = "path" if kind == "in small" else "file_path"
        return calls(
            ("write_file", {key: "/report.md", "content": text}), ("write_file", {key: "/log", "content": text})
        )

    judge = scoring({"good": 0.8, "bad": 0.1, "none": 0.0})
    model = CallingModel([write("none"), "Written.", write("good"), "Mended.", write("bad"), "Mended again."])
    agent = deep(model, kind, critics=[judge], files="/report.md", max_rounds=2)
    output = run(agent, ASK, ONE)
    drafts = [event["text"] for event in record(agent) if event["kind"] in ("draft", "revision")]
    assert drafts[:2] == ["Written.\n\n(The file /report.md:)\nnone", "Mended.\n\n(The file /report.md:)\ngood"]
    assert (output["messages"][-1].text, told(output)["score"]) == ("Mended.", 0.8)
    assert [output["files"][path]["content"] for path in ("/report.md", "/log")] == ["good", "bad"]


def test_a_deep_agent_takes_it(run: Any) -> None:
    """`create_deep_agent` takes the middleware, and a subagent has one of its own."""
    model = CallingModel([calls(("task", {"description": "say lamp", "subagent_type": "helper"})), "51", "lamp 51"])
    helper = {"name": "helper", "description": "helps", "system_prompt": "Help.", "tools": []}
    helper |= {"model": CallingModel(["no", "a lamp"]), "middleware": [RefineMiddleware([LAMP])]}
    agent = create_deep_agent(
        model, subagents=[helper], middleware=[RefineMiddleware([LAMP])], checkpointer=InMemorySaver()
    )
    output = run(agent, ASK, ONE)

    assert (output["messages"][-1].text, told(output)["rounds"], told(output)["usage"]["calls"]) == ("lamp 51", 1, 5)
    assert record(agent)[1]["steps"][2]["text"] == "a lamp"


def test_an_answer_is_streamed_once() -> None:
    """Who streams messages sees each answer once, and the best one at the end where it was not the last."""
    judge = scoring({"good": 0.8, "bad": 0.1})
    agent = create_agent(CallingModel(["good", "bad"]), middleware=[RefineMiddleware([judge], max_rounds=1)])
    shown: dict[str, str] = {}
    for part, _ in agent.stream(ASK, stream_mode="messages"):
        if part.type in ("ai", "AIMessageChunk"):
            shown[str(part.id)] = shown.get(str(part.id), "") + part.text
    assert list(shown.values()) == ["good", "bad", "good"]


def test_a_crash_pays_no_call_of_the_agent_twice(run: Any, sqlite: Any) -> None:
    """A reply that came before the process died is found in the journal, and counts as it cost."""

    class Dying(AgentMiddleware[Any, Any]):
        died = False

        def _die(self) -> None:
            if not self.died:
                self.died = True
                raise SystemError("killed")

        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return (handler(request), self._die())[0]

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            return (await handler(request), self._die())[0]

    model = CallingModel(["lamp 51"])
    agent = create_agent(model, middleware=[Dying(), RefineMiddleware([LAMP])], checkpointer=sqlite)
    with pytest.raises(SystemError, match="killed"):
        run(agent, ASK, ONE)
    output = run(agent, None, ONE)
    assert (output["messages"][-1].text, len(model.calls)) == ("lamp 51", 1)
    assert (told(output)["usage"]["calls"], told(output)["usage"]["reused_calls"]) == (1, 1)


def test_events_are_streamed_as_they_happen() -> None:
    """`stream_mode="custom"` shows drafts, critiques and verdicts, as the loop does."""
    agent = create_agent(CallingModel(["51", "lamp 51"]), middleware=[RefineMiddleware([LAMP])])

    async def streamed() -> list[str]:
        return [item["kind"] async for item in agent.astream(ASK, stream_mode="custom") if item["kind"] != "start"]

    expected = ["draft", "critique", "verdict", "revision", "critique", "verdict"]
    assert asyncio.run(streamed()) == expected
    agent = create_agent(CallingModel(["51", "lamp 51"]), middleware=[RefineMiddleware([LAMP])])
    assert [item["kind"] for item in agent.stream(ASK, stream_mode="custom") if item["kind"] != "start"] == expected


def test_an_interrupt_of_a_tool_pauses_and_resumes(run: Any) -> None:
    """A pause inside the agent is LangGraph's own, and what was spent before it counts."""

    @tool
    def ask_boss(question: str) -> str:
        """Ask the boss."""
        return str(interrupt(question))

    model = CallingModel([calls(("ask_boss", {"question": "lamp?"})), "The boss says: lamp."])
    agent = create_agent(model, [ask_boss], middleware=[RefineMiddleware([LAMP])], checkpointer=InMemorySaver())
    assert run(agent, ASK, ONE)["__interrupt__"][0].value == "lamp?"
    output = run(agent, Command(resume="yes"), ONE)
    assert (told(output)["stop_reason"], told(output)["usage"]["calls"]) == ("accepted", 2)


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"critics": []}, ValueError, "nobody would judge"),
        ({"critics": ["good"]}, TypeError, "a critic is a callable"),
        ({"critics": [LAMP], "limits": {"rounds": 3}}, ValueError, "'rounds' is not a limit"),
        ({"critics": [LAMP], "feedback_prompt": "{grade}"}, ValueError, "unknown variables"),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_built(given: Any, error: Any, says: str) -> None:
    """The message names the value."""
    with pytest.raises(error, match=says):
        RefineMiddleware(**given)


def test_without_langchain_the_error_says_what_to_install() -> None:
    """Only who uses the middleware needs LangChain's agents."""
    code = "import sys; sys.modules['langchain'] = None; import redraft.graphs; redraft.graphs.RefineMiddleware"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert 'ImportError: RefineMiddleware needs an extra: pip install ".[agents]" in a checkout' in found.stderr


def test_each_message_may_come_with_its_own_requirements(run: Any) -> None:
    """The agent is told them in its system prompt, programs and the judge tell of each, and the next has none."""
    met = {"number": 1, "missing": "", "met": True}
    judge = ScriptedModel(
        [{"structured": {"feedback": "", "criteria": [met], "score": 1, "accepted": True}}] * 2, structured=True
    )
    writer = ScriptedModel(["A lamp.", "A lamp for 29 euros.", "A boat."])
    agent = create_agent(writer, middleware=[RefineMiddleware([judge])], checkpointer=InMemorySaver())
    wishes: Any = ["It is about a lamp.", {"text": "It names the price.", "verifiers": ["uses_words:euros"]}]
    output = run(agent, {"messages": [("user", "Describe a lamp.")], "require": wishes}, ONE)
    assert output["messages"][-1].text == "A lamp for 29 euros."
    assert [one["status"] for one in told(output)["requirements"]] == ["satisfied", "satisfied"]
    assert writer.calls[0][0].text.startswith("The text must meet all of these:\n- It is about a lamp.\n- It names the")
    assert "require" not in output
    later = run(agent, {"messages": [("user", "Now a boat.")]}, ONE)
    assert (later["messages"][-1].text, told(later)["requirements"]) == ("A boat.", [])
    assert writer.calls[2][0].type == "human"


@pytest.mark.slow
def test_a_graph_is_a_tool_of_an_agent() -> None:
    """An agent gives a graph a task and is told the answer alone; a person in it is asked through the agent's run."""
    critics = [verifier_critic(uses_words("river", "lamp")), human_critic()]
    writing = build_refine_graph(ScriptedModel(["A lamp.", "A river."]), critics=critics)
    written = writing.as_tool(name="write", description="Writes a text.")
    assert list(written.args) == ["task"]
    model = CallingModel([calls(("write", {"task": "Of a river."})), "Here it is."])
    agent = create_agent(model, [written], checkpointer=InMemorySaver())
    asked = agent.invoke({"messages": [("user", "Write of a river.")]}, ONE)
    assert asked["__interrupt__"][0].value["draft"] == "A lamp."
    *_, told, last = agent.invoke(Command(resume="accept"), ONE)["messages"]
    assert (told.name, told.text, last.text) == ("write", "A lamp.", "Here it is.")
    whole = writing.as_tool(name="write", description="Writes a text.", arg_types={"task": str, "draft": str})
    assert sorted(whole.args) == ["draft", "task"]
