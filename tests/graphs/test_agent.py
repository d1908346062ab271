"""The preset `agent`: what a base does once, with its tools, and what is then asked without them."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import threading
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import create_react_agent
from langgraph.types import Command, interrupt
from langgraph.warnings import LangGraphDeprecatedSinceV10
from pydantic import PrivateAttr
from redraft.graphs.agent import build_agent_graph
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel, chat_model
from redraft.models.weights import smollm2_path
from redraft.nodes.agents.react import react_agent
from redraft.nodes.agents.tool_critics import calculator_tool, search_tool, tool_critic
from redraft.nodes.critics.critics import verifier_critic
from redraft.state import Critique, Limits, Thread, open_checkpointer
from redraft.state.open_state import conversation_of
from typing_extensions import TypedDict

TASK = "What is 17 times 3, plus 4?"
LAMP: Any = {"configurable": {"thread_id": "lamp"}}


class CallingModel(ScriptedModel):
    """A scripted model that calls tools: `calls(...)` is a reply, and `offered` says which tools each call had."""

    _offered: list[list[str]] = PrivateAttr(default_factory=list)

    @property
    def offered(self) -> list[list[str]]:
        return self._offered

    def bind_tools(self, tools: Any, **_: Any) -> Runnable[Any, Any]:
        return self.bind(tools=[getattr(one, "name", None) or one.__name__ for one in tools])

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        self._offered.append(kwargs.get("tools", []))
        result = super()._generate(messages, stop, run_manager, **kwargs)
        message: Any = result.generations[0].message
        if message.content.startswith("CUT "):
            message.response_metadata["finish_reason"] = "length"
        said, called, listed = message.content.partition("CALL ")
        if called:
            message.content, message.tool_calls = said.strip(), json.loads(listed)
        return result


def calls(*tools: tuple[str, dict[str, Any]], said: str = "") -> str:
    """A reply that calls tools."""
    listed = [{"name": name, "args": args, "id": f"{name}-{number}"} for number, (name, args) in enumerate(tools)]
    return f"{said} CALL {json.dumps(listed)}"


@tool
def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers."""
    return a * b


@tool
def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


@tool
def ask_boss(question: str) -> str:
    """Ask the boss, who may take a while to answer."""
    return str(interrupt({"ask": question}))


MULTIPLY = calls(("multiply", {"a": 17, "b": 3}))
ADD = calls(("add", {"a": 51, "b": 4}))


def kinds(output: Any) -> list[str]:
    return [event["kind"] for event in output["events"]]


def first_draft(output: Any) -> Any:
    return next(event for event in output["events"] if event["kind"] == "draft")


def test_the_agent_works_with_tools_once_and_is_then_refined_as_text(run: Any) -> None:
    """A model and its tools are enough: they write the first draft, and critic and refiner have no tools."""
    model = CallingModel([MULTIPLY, ADD, "55", "Say what it is the sum of.", "51 + 4 = 55", "No issues."])
    output = run(build_agent_graph(model=model, tools=[multiply, add]), {"task": TASK})

    assert (output["answer"], output["stop_reason"], output["accepted_by"]) == (
        "51 + 4 = 55",
        "accepted",
        "self (uncalibrated)",
    )
    assert model.offered == [["multiply", "add"]] * 3 + [[]] * 3
    assert model.calls[0] == [HumanMessage(TASK, id=model.calls[0][0].id)]
    assert "Request:\nWhat is 17 times 3, plus 4?\n\nAnswer:\n55" in model.calls[3][0].text
    assert "exactly these words and nothing else: no issues" in model.calls[3][0].text
    assert "Say what it is the sum of." in model.calls[4][0].text
    assert output["usage"]["calls"] == 6
    assert first_draft(output)["usage"]["calls"] == 3
    assert [(step["step"], step["text"]) for step in first_draft(output)["steps"]] == [
        ("model", ""),
        ("tool_call", 'multiply({"a": 17, "b": 3})'),
        ("tool_result", "51"),
        ("model", ""),
        ("tool_call", 'add({"a": 51, "b": 4})'),
        ("tool_result", "55"),
        ("model", "55"),
    ]


class TaskState(TypedDict, total=False):
    task: str
    draft: str


def chain(model: Any) -> Any:
    return ChatPromptTemplate.from_template("Answer: {task}") | model | StrOutputParser()


def prebuilt(model: Any) -> Any:
    with pytest.warns(LangGraphDeprecatedSinceV10):
        return create_react_agent(model, [multiply])


def graph_over_a_task(model: Any) -> Any:
    graph = StateGraph(TaskState)
    graph.add_node("write", lambda state: {"draft": model.invoke(state["task"]).text})
    graph.add_edge(START, "write")
    return graph.compile()


def function(model: Any) -> Any:
    return RunnableLambda(lambda values: model.invoke(values["task"]))


def refined(model: Any) -> Any:
    return build_refine_graph(model, critics=[verifier_critic(lambda *_: Critique("", True))])


@pytest.mark.parametrize("build", [chain, prebuilt, graph_over_a_task, function, refined, react_agent])
def test_any_runnable_can_be_the_base(run: Any, build: Any) -> None:
    """A chain, a prebuilt agent, a graph over a task, a function, a loop of ours: its answer is the first draft."""
    base, model = CallingModel(["fifty-five"]), ScriptedModel(["Use digits.", "55", "no issues"])
    output = run(build_agent_graph(build(base), model=model), {"task": TASK})

    assert (len(base.calls), len(model.calls)) == (1, 3)
    assert TASK in base.calls[0][-1].text
    assert (first_draft(output)["text"], output["answer"]) == ("fifty-five", "55")
    assert [step["text"] for step in first_draft(output)["steps"]] == ["fifty-five"]
    assert first_draft(output)["usage"]["calls"] == 1


def test_an_agent_with_retries_still_gets_messages(run: Any) -> None:
    """What wraps an agent, such as `with_retry()`, takes what the agent takes."""
    base = CallingModel([MULTIPLY, "51"])
    graph = build_agent_graph(react_agent(base, [multiply]).with_retry(), model=ScriptedModel(["no issues"]))
    output = run(graph, {"task": TASK})
    assert output["answer"] == "51"
    assert [step["step"] for step in first_draft(output)["steps"]] == ["model", "tool_call", "tool_result", "model"]


def test_messages_that_no_model_of_langchain_made_are_steps_too(run: Any) -> None:
    """A graph that calls a model in its own way is watched through its state."""
    graph = StateGraph(MessagesState)
    graph.add_node("one", lambda _: {"messages": [AIMessage("Thinking.")]})
    graph.add_node("two", lambda _: {"messages": [AIMessage("51")]})
    graph.add_edge(START, "one")
    graph.add_edge("one", "two")
    output = run(build_agent_graph(graph.compile(), model=ScriptedModel(["no issues"])), {"task": TASK})
    assert [step["text"] for step in first_draft(output)["steps"]] == ["Thinking.", "51"]


CONVERSATION = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is 17 times 3?"},
    {"role": "assistant", "content": "51"},
    {"role": "user", "content": "And plus 4?"},
]


@pytest.mark.parametrize("objects", [False, True])
def test_a_conversation_can_be_the_input(run: Any, objects: bool) -> None:
    """The agent gets the whole conversation, and its last user message is the task."""
    from langchain_core.messages import convert_to_messages

    given = convert_to_messages(CONVERSATION) if objects else CONVERSATION
    model = CallingModel(["55", "no issues", "12", "no issues"])
    with open_checkpointer("memory") as saver:
        graph = build_agent_graph(model=model, tools=[add], checkpointer=saver)
        output = run(graph, {"messages": given}, LAMP)
        values = graph.get_state(LAMP).values
        again = run(graph, {"task": "What is 3 times 4?"}, LAMP)
        rerun = [message.text for message in model.calls[2]]

    assert [message.text for message in model.calls[0]] == [one["content"] for one in CONVERSATION]
    assert output["events"][0]["text"] == values["task"] == "And plus 4?"
    said = "Instructions: Be brief.\n\nUser: What is 17 times 3?\n\nAssistant: 51\n\n(Now the user asks:)\nAnd plus 4?"
    assert said in model.calls[1][0].text
    assert "17" not in model.calls[3][0].text
    assert conversation_of(values["events"]) == CONVERSATION
    assert [(one.type, one.text) for one in values["messages"][-2:]] == [("human", "And plus 4?"), ("ai", "55")]
    assert (again["answer"], rerun) == ("12", ["What is 3 times 4?"])


def test_who_judges_and_revises_is_told_what_was_said_before(run: Any) -> None:
    """A question such as "And plus 4?" is understood in its conversation by model critics, tool critics and refiner."""
    model, checker = CallingModel(["54", "55"]), CallingModel(["Add again.", "no issues"])
    other = ScriptedModel(["Hm.", "no issues"])
    critics = [tool_critic(checker, [calculator_tool()]), other]
    run(build_agent_graph(model=model, critic=critics), {"messages": CONVERSATION})
    for asked in (model.calls[1], checker.calls[0], other.calls[0], other.calls[1]):
        assert "User: What is 17 times 3?\n\nAssistant: 51" in asked[0].text


def test_a_chain_can_place_the_conversation(run: Any) -> None:
    """A prompt with a place for `messages` gets them."""
    prompt = ChatPromptTemplate.from_messages([("system", "Sum up."), ("placeholder", "{messages}")])
    model = ScriptedModel(["55", "no issues"])
    run(build_agent_graph(prompt | model, model=model), {"messages": CONVERSATION})
    assert [message.text for message in model.calls[0]] == ["Sum up.", *(one["content"] for one in CONVERSATION)]


@pytest.mark.parametrize("given", [{"messages": [{"role": "assistant", "content": "51"}]}, {"messages": [7]}, {}])
def test_an_input_without_a_task_is_refused(run: Any, given: Any) -> None:
    """No user message, nothing that is a message, nothing at all: no call is made."""
    model = CallingModel([])
    with pytest.raises(ValueError, match=r"messages|task must be"):
        run(build_agent_graph(model=model), given)
    assert not model.calls


def test_a_rerun_has_the_conversation_again() -> None:
    """`rerun` gives the agent what it was given first."""
    model = CallingModel(["55", "no issues", "Fifty-five.", "no issues"])
    with open_checkpointer("memory") as saver:
        graph = build_agent_graph(model=model, checkpointer=saver)
        graph.invoke({"messages": CONVERSATION}, LAMP)
        Thread(graph, "lamp").rerun(thread_id="again")
    assert [one.text for one in model.calls[2]] == [one.text for one in model.calls[0]]


# An agent that was interrupted, or stopped before it had finished


def test_an_interrupt_in_the_base_pauses_the_whole_and_resumes(run: Any, tmp_path: Any) -> None:
    """A tool that waits for a person pauses the run; the answer goes on from there, and all counts once."""
    model = CallingModel([MULTIPLY, calls(("ask_boss", {"question": "Plus 4?"})), "55, says the boss.", "no issues"])
    with open_checkpointer(str(tmp_path / "runs.sqlite")) as saver:
        graph = build_agent_graph(model=model, tools=[multiply, ask_boss], checkpointer=saver)
        paused = run(graph, {"task": TASK}, LAMP)
        asked = [one.value for one in paused["__interrupt__"]]
        waiting = graph.get_state(LAMP).next
        output = run(graph, Command(resume="yes"), LAMP)
        replay = Thread(graph, "lamp").replay()

    assert (asked, waiting) == ([{"ask": "Plus 4?"}], ("generate",))
    assert kinds(paused) == ["task"]
    assert (output["answer"], output["stop_reason"], len(model.calls)) == ("55, says the boss.", "accepted", 4)
    assert output["usage"]["calls"] == 4
    assert output["usage"]["total_tokens"] == sum(
        len(" ".join(message.text for message in call).split()) for call in model.calls
    ) + sum(len(reply.split()) for reply in model.replies)
    steps = [step["text"] for step in first_draft(output)["steps"] if step["step"] != "model"]
    assert steps == ['multiply({"a": 17, "b": 3})', "51", 'ask_boss({"question": "Plus 4?"})', "yes"]
    assert replay.matches


def test_after_a_pause_only_what_is_new_is_streamed() -> None:
    """The stream of the resumed run goes on where the one before ended."""
    model = CallingModel([MULTIPLY, calls(("ask_boss", {"question": "?"})), "55", "no issues"])
    with open_checkpointer("memory") as saver:
        graph = build_agent_graph(model=model, tools=[multiply, ask_boss], checkpointer=saver)
        first = [item["text"] for item in stream(graph, {"task": TASK}) if item["kind"] == "step"]
        then = [item["text"] for item in stream(graph, Command(resume="yes")) if item["kind"] == "step"]
    assert first == ["", 'multiply({"a": 17, "b": 3})', "51", "", 'ask_boss({"question": "?"})']
    assert then == ["yes", "55"]


def loops(limit: int = 4) -> Any:
    return react_agent(CallingModel([f"Step. {MULTIPLY}"] * 9), [multiply]).with_config(recursion_limit=limit)


def gives_up() -> Any:
    with pytest.warns(LangGraphDeprecatedSinceV10):
        return create_react_agent(CallingModel([MULTIPLY] * 9), [multiply]).with_config(recursion_limit=4)


def cut_off() -> Any:
    return react_agent(CallingModel([MULTIPLY, "CUT The product of 17 and"]), [multiply])


def chain_cut_off() -> Any:
    return chain(CallingModel(["CUT The product of 17 and"]))


def waits() -> Any:
    """A graph that ends at the model, whatever it calls."""
    graph = StateGraph(MessagesState)
    model = CallingModel([f"Let me see. {MULTIPLY}"])
    graph.add_node("agent", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_edge(START, "agent")
    return graph.compile()


def silent() -> Any:
    return react_agent(CallingModel([MULTIPLY, ""]), [multiply])


def silent_loop() -> Any:
    return react_agent(CallingModel([MULTIPLY] * 9), [multiply]).with_config(recursion_limit=4)


@pytest.mark.parametrize(
    ("base", "answer", "says"),
    [
        (loops, "Step.", "ran out of steps"),
        (gives_up, "Sorry, need more steps to process this request.", "ran out of steps"),
        (cut_off, "CUT The product of 17 and", "cut off"),
        (chain_cut_off, "CUT The product of 17 and", "cut off"),
        (waits, "Let me see.", "waited for what it had called: multiply"),
        (silent, "", "without an answer"),
        (silent_loop, "", "ran out of steps"),
    ],
)
def test_an_agent_that_did_not_finish_is_not_refined(run: Any, base: Any, answer: str, says: str) -> None:
    """Out of steps, cut off, waiting for a tool, silent: what it said is the answer, the run failed and says why."""
    model = ScriptedModel([])
    output = run(build_agent_graph(base(), model=model), {"task": TASK}, {"recursion_limit": 25})

    assert not model.calls
    assert (output["answer"], output["stop_reason"], output["rounds"]) == (answer, "failed", 0)
    assert kinds(output) == ["task", "draft", "failure", "verdict"]
    assert says in output["events"][2]["text"]
    assert output["events"][2]["error"] == "AgentUnfinishedError"
    assert output["events"][2]["text"] == first_draft(output)["incomplete"]
    assert output["usage"]["calls"] >= 1


@pytest.mark.parametrize(("options", "most"), [({}, 50), ({"max_calls": 2}, 2)])
def test_the_default_agent_calls_tools_50_times_and_no_more(run: Any, options: Any, most: int) -> None:
    """A model that calls on and on ends the run after as many calls as it may make, and one more reply."""
    model = CallingModel([MULTIPLY] * 60)
    output = run(build_agent_graph(model=model, tools=[multiply], **options), {"task": TASK})
    made = [step for step in first_draft(output)["steps"] if step["step"] == "tool_result"]
    assert (output["stop_reason"], [step["status"] for step in made]) == ("failed", ["success"] * most + ["error"])
    assert len(model.calls) == most + 2


def test_an_answer_that_speaks_of_steps_is_an_answer(run: Any) -> None:
    """Only the whole of what the prebuilt agent says counts: an answer may quote it."""
    said = 'It said "Sorry, need more steps to process this request." and gave up.'
    output = run(build_agent_graph(model=CallingModel([said, "no issues"])), {"task": TASK})
    assert (output["answer"], output["stop_reason"]) == (said, "accepted")


def test_resuming_an_agent_that_did_not_finish_runs_it_again(run: Any, tmp_path: Any) -> None:
    """With what was missing at hand, `resume` lets the agent begin anew; its new draft stands for the old one."""
    base, model = CallingModel(["CUT The product", "The product of 17 and 3 is 51."]), ScriptedModel(["no issues"])
    with open_checkpointer(str(tmp_path / "runs.sqlite")) as saver:
        graph = build_agent_graph(react_agent(base), model=model, checkpointer=saver)
        failed = run(graph, {"task": TASK}, LAMP)
        thread = Thread(graph, "lamp")
        output = asyncio.run(thread.aresume()) if run.__name__ == "acall" else thread.resume()
        replay = thread.replay()

    assert (failed["stop_reason"], output["stop_reason"]) == ("failed", "accepted")
    assert (output["answer"], len(base.calls)) == ("The product of 17 and 3 is 51.", 2)
    assert "CUT" not in model.calls[0][0].text
    assert output["usage"]["calls"] == 3
    assert replay.matches


def test_a_person_can_have_an_unfinished_draft_refined() -> None:
    """A fork with feedback says what to make of it, and that is done."""
    model = ScriptedModel(["17 times 3 is 51.", "no issues"])
    with open_checkpointer("memory") as saver:
        graph = build_agent_graph(cut_off(), model=model, checkpointer=saver)
        assert graph.invoke({"task": TASK}, LAMP)["stop_reason"] == "failed"
        output = Thread(graph, "lamp").fork(at=0, feedback="Finish the sentence.").resume()
    assert (output["answer"], output["stop_reason"]) == ("17 times 3 is 51.", "accepted")
    assert "Finish the sentence." in model.calls[0][0].text


def test_no_call_of_the_agent_starts_once_a_budget_is_spent(run: Any) -> None:
    """The agent is stopped between two calls, and not refined; the run says which budget it was."""
    model = CallingModel([f"First this. {MULTIPLY}", f"Then that. {ADD}", "55"])
    graph = build_agent_graph(model=model, tools=[multiply, add])
    output = run(graph, {"task": TASK, "limits": {"max_tokens": 30}})

    assert len(model.calls) == 2
    assert (output["answer"], output["stop_reason"]) == ("Then that.", "token_budget")
    assert first_draft(output)["incomplete"] == "The token budget was spent before the agent had finished."
    assert output["usage"]["calls"] == 2


def test_a_larger_budget_lets_the_agent_begin_anew() -> None:
    """Nothing that is half done is refined when the limits are raised."""
    model = CallingModel([f"First this. {MULTIPLY}", ADD, "55", "no issues"])
    with open_checkpointer("memory") as saver:
        graph = build_agent_graph(model=model, tools=[multiply, add], checkpointer=saver)
        graph.invoke({"task": TASK, "limits": {"max_tokens": 9}}, LAMP)
        output = Thread(graph, "lamp").resume({"max_tokens": 10_000})
    assert (output["answer"], output["stop_reason"]) == ("55", "accepted")
    assert model.calls[1][-1].text == TASK


def test_an_error_in_the_base_is_raised_and_the_thread_goes_on_from_there(run: Any, tmp_path: Any) -> None:
    """What the agent had done before a tool broke is in its checkpoints: it is not done and paid for again."""
    broken = [True]

    @tool
    def shaky(a: int) -> str:
        """Fail once."""
        if broken.pop():
            raise OSError("no line")
        return f"{a} it is"

    model = CallingModel([MULTIPLY, calls(("shaky", {"a": 51})), "51", "no issues"])
    with open_checkpointer(str(tmp_path / "runs.sqlite")) as saver:
        graph = build_agent_graph(model=model, tools=[multiply, shaky], checkpointer=saver)
        with pytest.raises(OSError, match="no line"):
            run(graph, {"task": TASK}, LAMP)
        broken.append(False)
        output = run(graph, None, LAMP)
    assert (output["answer"], len(model.calls), output["usage"]["calls"]) == ("51", 4, 4)
    assert [step["text"] for step in first_draft(output)["steps"] if step["step"] == "tool_result"] == [
        "51",
        "51 it is",
    ]


# Actor and critic


def test_another_model_can_be_the_critic(run: Any) -> None:
    """The actor writes and revises, the critic judges; with a schema of its own it is asked for a verdict in that."""
    actor = CallingModel(["fifty-five", "55"])
    verdicts = [
        {"feedback": "Digits.", "score": 0.5, "accepted": False},
        {"feedback": "", "score": 1, "accepted": True},
    ]
    critic = ScriptedModel([{"structured": one} for one in verdicts], structured=True, model_name="judge")
    output = run(build_agent_graph(model=actor, critic=critic), {"task": TASK})

    assert (len(actor.calls), len(critic.calls)) == (2, 2)
    assert (output["answer"], output["accepted_by"], output["score"]) == ("55", "judge", 1.0)
    assert "STOP_PHRASE" not in critic.calls[0][0].text
    assert "no issues" not in critic.calls[0][0].text


def test_prompts_and_stop_phrase_are_arguments(run: Any) -> None:
    """A prompt of one's own is used as it is, with the stop phrase in it."""
    model = CallingModel(["55", "Longer.", "It is 55.", "All good!"])
    graph = build_agent_graph(
        model=model,
        critic_prompt="{draft}? Else: STOP_PHRASE",
        refiner_prompt="{draft}: {feedback} {round}",
        stop_phrase="ALL GOOD",
    )
    assert run(graph, {"task": TASK})["stop_reason"] == "accepted"
    assert [call[0].text for call in model.calls[1:]] == [
        "55? Else: ALL GOOD",
        "55: Longer. 0",
        "It is 55.? Else: ALL GOOD",
    ]


def test_rounds_are_bounded(run: Any) -> None:
    """`max_rounds` holds where the caller says nothing else, and the caller's limits hold before it."""
    replies = ["a", "More.", "b", "More.", "c", "More."]
    graph = build_agent_graph(model=CallingModel(replies), max_rounds=2)
    assert run(graph, {"task": TASK})["stop_reason"] == "max_rounds"
    model = CallingModel(["a", "More."])
    assert run(build_agent_graph(model=model), {"task": TASK, "limits": {"max_rounds": 0}})["answer"] == "a"


class Shelf(BaseRetriever):
    """Finds one passage, whatever is asked."""

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        return [Document(f"On {query}: 17 times 3 is 51.")]


def test_critics_with_tools_look_things_up_before_they_judge(run: Any) -> None:
    """Several must all accept; the one with tools is asked before the other model, and its evidence is kept."""
    actor, other = CallingModel(["50", "51"]), ScriptedModel(["Sure?", "no issues"])
    checker = CallingModel(
        [
            calls(("calculate", {"expression": "17 * 3"}), ("search", {"query": "products"})),
            "17 * 3 is 51.",
            calls(("calculate", {"expression": "17 * 3"})),
            "no issues",
        ]
    )
    critic = tool_critic(checker, [calculator_tool(), search_tool(Shelf())])
    output = run(build_agent_graph(model=actor, critic=[other, critic]), {"task": "What is 17 times 3?"})

    assert output["accepted_by"] == "tool_critic, scripted"
    first = next(event for event in output["events"] if event["kind"] == "critique")
    assert (first["by"], first["usage"]["calls"]) == ("tool_critic", 2)
    assert [step["text"] for step in first["evidence"]["steps"] if step["step"] == "tool_result"] == [
        "51",
        "On products: 17 times 3 is 51.",
    ]
    assert "17 * 3 is 51." in actor.calls[1][0].text


def resumed(run: Any, thread: Thread) -> Any:
    return asyncio.run(thread.aresume()) if run.__name__ == "acall" else thread.resume()


def test_a_critic_with_tools_judges_in_resumed_and_forked_threads(run: Any, tmp_path: Any) -> None:
    """Wherever a run goes on, the judge has its tools: nothing fails because the thread is resumed."""
    judge = CallingModel([RuntimeError("no line"), MULTIPLY, "no issues", MULTIPLY, "no issues"])
    with open_checkpointer(str(tmp_path / "runs.sqlite")) as saver:
        critic = tool_critic(judge, [multiply])
        graph = build_agent_graph(
            chain(ScriptedModel(["51"])), model=ScriptedModel([]), critic=critic, checkpointer=saver
        )
        assert run(graph, {"task": TASK}, LAMP)["stop_reason"] == "failed"
        output = resumed(run, Thread(graph, "lamp"))
        fork = Thread(graph, "lamp").fork(at=0, draft="It is 51.")
        assert (output["stop_reason"], resumed(run, fork)["stop_reason"]) == ("accepted", "accepted")
        assert Thread(graph, "lamp").replay().matches
    assert len(judge.calls) == 5


@pytest.mark.parametrize("checkpointer", [False, None])
def test_a_chain_that_calls_an_agent_goes_on_in_a_resumed_thread(run: Any, checkpointer: Any) -> None:
    """A graph inside a chain, with or without checkpoints, runs there as anywhere."""
    inner = CallingModel([RuntimeError("no line"), "51"])
    agent = react_agent(inner, [multiply], checkpointer=checkpointer)
    base = RunnableLambda(lambda values: agent.invoke({"messages": [("user", values["task"])]}))
    with open_checkpointer("memory") as saver:
        graph = build_agent_graph(base, model=ScriptedModel(["no issues"]), checkpointer=saver)
        with pytest.raises(RuntimeError, match="no line"):
            run(graph, {"task": TASK}, LAMP)
        assert resumed(run, Thread(graph, "lamp"))["answer"] == "51"


@tool(return_direct=True)
def look_up(word: str) -> str:
    """Look a word up; what it finds is the answer."""
    return f"{word}: 51"


@pytest.mark.parametrize("build", ["prebuilt", "own"])
def test_a_tool_that_returns_directly_gives_the_draft(run: Any, build: str) -> None:
    """Its result is the answer, judged like any other, and the model is not asked to repeat it."""
    model = CallingModel([calls(("look_up", {"word": "product"})), "never"])
    if build == "own":
        graph = build_agent_graph(model=model, tools=[look_up], critic=ScriptedModel(["no issues"]))
    else:
        with pytest.warns(LangGraphDeprecatedSinceV10):
            base = create_react_agent(model, [look_up])
        graph = build_agent_graph(base, model=ScriptedModel(["no issues"]))
    output = run(graph, {"task": TASK})
    assert (output["answer"], output["stop_reason"], len(model.calls)) == ("product: 51", "accepted", 1)


def test_a_critic_reads_what_a_tool_returns_directly(run: Any) -> None:
    """A judge goes on after such a tool: its result is no verdict."""
    judge = CallingModel([calls(("look_up", {"word": "product"})), "no issues"])
    graph = build_agent_graph(
        chain(ScriptedModel(["51"])), model=ScriptedModel([]), critic=tool_critic(judge, [look_up])
    )
    assert run(graph, {"task": TASK})["stop_reason"] == "accepted"


def test_a_chain_is_not_cut_off_by_another_call_of_its_own(run: Any) -> None:
    """What the chain returns was whole, though a model that it asked besides met its limit."""
    writer, guard = ScriptedModel(["It is 51."]), CallingModel(["CUT safe"])

    def answer(values: Any) -> str:
        text = writer.invoke(values["task"]).text
        guard.invoke(f"Is this safe? {text}")
        return str(text)

    output = run(build_agent_graph(RunnableLambda(answer), model=ScriptedModel(["no issues"])), {"task": TASK})
    assert (output["answer"], output["stop_reason"]) == ("It is 51.", "accepted")


def test_an_agent_with_a_memory_of_its_own_is_counted_once(run: Any) -> None:
    """Of the second task of a thread, steps and usage are those of the second task."""
    model = CallingModel([MULTIPLY, "51", ADD, "55"])
    base = react_agent(model, [multiply, add], checkpointer=True)
    with open_checkpointer("memory") as saver:
        graph = build_agent_graph(base, model=ScriptedModel(["no issues"] * 2), checkpointer=saver)
        outputs = [run(graph, {"task": task}, LAMP) for task in ("17 times 3?", "And plus 4?")]
    assert [output["usage"]["calls"] for output in outputs] == [3, 3]
    second = [event for event in outputs[1]["events"] if event["kind"] == "draft"][-1]
    assert [step["text"] for step in second["steps"] if step["step"] != "model"] == ['add({"a": 51, "b": 4})', "55"]
    assert "17 times 3?" in [message.text for message in model.calls[2]]


BIG = 2**64 + 13


@pytest.mark.parametrize("where", ["base", "critic"])
def test_numbers_of_any_size_can_be_called_with(run: Any, tmp_path: Any, where: str) -> None:
    """A number of more than 64 bits reaches the tool whole, and the checkpoint as text."""
    seen = []

    @tool
    def factor(n: int) -> str:
        """Factor a number."""
        seen.append(n)
        return "prime"

    caller = CallingModel([calls(("factor", {"n": BIG})), "no issues"])
    with open_checkpointer(str(tmp_path / "runs.sqlite")) as saver:
        if where == "base":
            graph = build_agent_graph(
                model=caller, tools=[factor], critic=ScriptedModel(["no issues"]), checkpointer=saver
            )
        else:
            graph = build_agent_graph(
                chain(ScriptedModel(["51"])),
                model=ScriptedModel([]),
                critic=tool_critic(caller, [factor]),
                checkpointer=saver,
            )
        output = run(graph, {"task": TASK}, LAMP)
        assert Thread(graph, "lamp").replay().matches
    assert (output["stop_reason"], seen) == ("accepted", [BIG])
    assert str(BIG) in json.dumps(output["events"])


@pytest.mark.parametrize(
    "given", ["And?", ("user", "And?"), {"role": "user", "content": "And?"}, HumanMessage("And?"), [("user", "And?")]]
)
def test_one_message_is_a_conversation_too(run: Any, given: Any) -> None:
    """A text, a pair, a dict or a message stands for a list of one."""
    output = run(
        build_agent_graph(chain(ScriptedModel(["55"])), model=ScriptedModel(["no issues"])), {"messages": given}
    )
    assert output["events"][0]["text"] == "And?"


@pytest.mark.parametrize("limits", [Limits(max_tokens=10_000), {"max_tokens": 10_000}, None])
def test_max_rounds_stands_over_the_limits(run: Any, limits: Any) -> None:
    """A `Limits` names every limit, also rounds that nobody thought of; `max_rounds=` is what was asked for."""
    model = ScriptedModel(["a", "More.", "b", "More.", "c", "More."])
    output = run(build_agent_graph(react_agent(model), model=model, max_rounds=1, limits=limits), {"task": TASK})
    assert (output["stop_reason"], output["rounds"]) == ("max_rounds", 1)


class Tepid(ScriptedModel):
    """A model built with a temperature; `asked` holds that of each call."""

    temperature: float = 0.0
    _asked: list[float] = PrivateAttr(default_factory=list)

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        self._asked.append(kwargs.get("temperature", self.temperature))
        return super()._generate(messages, stop, run_manager)


@pytest.mark.parametrize(
    ("options", "asked"), [({}, 0.7), ({"refine_temperature": 0.3}, 0.3), ({"refine_temperature": None}, 0.0)]
)
def test_how_revisions_are_sampled_is_an_argument(run: Any, options: Any, asked: float) -> None:
    """A repeated revision ends the run, so revisions are sampled; `None` keeps the temperature that was given."""
    model = Tepid(["More.", "b", "no issues"])
    run(build_agent_graph(chain(ScriptedModel(["a"])), model=model, **options), {"task": TASK})
    assert model._asked == [0.0, asked, 0.0]


@pytest.mark.parametrize("where", ["chain", "tool_critic"])
def test_a_budget_holds_inside_a_chain_and_a_judge(run: Any, where: str) -> None:
    """No model call starts once it is spent, whoever makes it; the run says which budget it was."""
    model = CallingModel([MULTIPLY] * 4 + ["no issues"])

    def loop(_: Any) -> Any:
        return [model.invoke("Again.") for _ in range(4)][-1]

    if where == "chain":
        graph = build_agent_graph(RunnableLambda(loop), model=ScriptedModel([]))
    else:
        critic = tool_critic(model, [multiply])
        graph = build_agent_graph(RunnableLambda(lambda _: "51"), model=ScriptedModel([]), critic=critic)
    output = run(graph, {"task": TASK, "limits": {"max_tokens": 5}})
    assert (output["stop_reason"], len(model.calls), output["usage"]["calls"]) == ("token_budget", 1, 1)


# Streams


def stream(graph: Any, given: Any, how: str = "stream", seen: Any = lambda item: item, **options: Any) -> list[Any]:
    """What a reader of the stream sees, each item as it comes."""
    options = {"stream_mode": "custom", **options}
    if how == "stream":
        return [seen(item) for item in graph.stream(given, LAMP, **options)]

    async def collect() -> list[Any]:
        return [seen(item) async for item in graph.astream(given, LAMP, **options)]

    return asyncio.run(collect())


@pytest.mark.parametrize("how", ["stream", "astream"])
def test_what_the_base_does_is_streamed_with_round_and_role(how: str) -> None:
    """Model messages, tool calls and results of the base come as they happen, then what critic and refiner say."""
    model = CallingModel(
        [calls(("multiply", {"a": 17, "b": 3}), ("divide", {"a": 1})), "51", "Say more.", "It is 51.", "no issues"]
    )
    items = stream(build_agent_graph(model=model, tools=[multiply]), {"task": TASK}, how)

    told = [(item["round"], item.get("role"), item["kind"], item.get("step", "")) for item in items]
    assert told == [
        (0, "base", "start", ""),
        (0, "base", "step", "model"),
        (0, "base", "step", "tool_call"),
        (0, "base", "step", "tool_call"),
        (0, "base", "step", "tool_result"),
        (0, "base", "step", "tool_result"),
        (0, "base", "step", "model"),
        (0, "base", "draft", ""),
        (0, "critic", "start", ""),
        (0, "critic", "critique", ""),
        (0, None, "verdict", ""),
        (1, "refiner", "start", ""),
        (1, "refiner", "revision", ""),
        (1, "critic", "start", ""),
        (1, "critic", "critique", ""),
        (1, None, "verdict", ""),
    ]
    steps = [item for item in items if item["kind"] == "step"]
    assert [(step["by"], step["status"]) for step in steps if step["step"] == "tool_result"] == [
        ("multiply", "success"),
        ("divide", "error"),
    ]
    draft = next(item for item in items if item["kind"] == "draft")
    assert [{**step, "kind": "step", "round": 0, "role": "base"} for step in draft["steps"]] == steps


@pytest.mark.parametrize("how", ["stream", "astream"])
def test_steps_come_while_the_base_still_works(how: str) -> None:
    """What is done is there to read before the next call of the base is made."""
    told = threading.Event()

    class WaitingModel(CallingModel):
        """Answers a second time only after the reader of the stream has the first tool's result."""

        def _generate(self, *given: Any, **options: Any) -> Any:
            assert not self.calls or told.wait(60), "the reader was told nothing"
            return super()._generate(*given, **options)

    def seen(item: Any) -> Any:
        if item.get("step") == "tool_result":
            told.set()
        return item.get("step"), item.get("by")

    model = WaitingModel([MULTIPLY, ADD, "55", "no issues"])
    items = stream(build_agent_graph(model=model, tools=[multiply, add]), {"task": TASK}, how, seen=seen)
    assert ("tool_result", "multiply") in items
    assert len(model.calls) == 4


@pytest.mark.parametrize("how", ["stream", "astream"])
def test_updates_of_the_base_are_streamed_as_those_of_a_subgraph(how: str) -> None:
    """`subgraphs=True` shows the base's own nodes; its steps stay items of the run itself."""
    model = CallingModel([MULTIPLY, "51", "no issues"])
    graph = build_agent_graph(model=model, tools=[multiply])
    items = stream(graph, {"task": TASK}, how, stream_mode=["updates", "custom"], subgraphs=True)

    inner = [next(iter(item)) for path, mode, item in items if path and mode == "updates"]
    assert inner == ["agent", "tools", "agent"]
    assert {path[0].partition(":")[0] for path, *_ in items if path} == {"generate"}
    assert not [item for path, mode, item in items if path and mode == "custom"]


# Threads


def test_forks_and_replays_never_run_the_base_again(run: Any, tmp_path: Any) -> None:
    """The base's checkpoints are the thread's; from its draft another feedback takes another way."""
    base = CallingModel([MULTIPLY, "51"])
    with open_checkpointer(str(tmp_path / "runs.sqlite")) as saver:
        model = ScriptedModel(["no issues", "LI", "no issues"])
        graph = build_agent_graph(react_agent(base, [multiply]), model=model, checkpointer=saver)
        output = run(graph, {"task": TASK}, LAMP)
        thread = Thread(graph, "lamp")
        inner = [
            one
            for one in saver.list({"configurable": {"thread_id": "lamp"}})
            if one.config["configurable"]["checkpoint_ns"]
        ]
        fork = thread.fork(at=0, feedback="In Roman numerals.", thread_id="roman")
        roman = asyncio.run(fork.aresume()) if run.__name__ == "acall" else fork.resume()
        assert thread.replay().matches
        assert fork.replay().matches
        assert thread.replay().output["answer"] == output["answer"] == "51"

    assert (roman["answer"], len(base.calls), len(model.calls)) == ("LI", 2, 3)
    assert first_draft(roman)["steps"] == first_draft(output)["steps"]
    assert inner
    assert all(one.config["configurable"]["checkpoint_ns"].startswith("generate:") for one in inner)


def test_the_preset_works_as_a_node_of_another_graph(run: Any) -> None:
    """As a subgraph it shares the task and the answer, and a pause inside passes through it."""
    model = CallingModel([calls(("ask_boss", {"question": "?"})), "55", "no issues"])

    class Outer(TypedDict, total=False):
        task: str
        answer: str

    outer = StateGraph(Outer)
    outer.add_node("agent", build_agent_graph(model=model, tools=[ask_boss]))
    outer.add_edge(START, "agent")
    with open_checkpointer("memory") as saver:
        graph = outer.compile(checkpointer=saver)
        assert run(graph, {"task": TASK}, LAMP)["__interrupt__"]
        assert run(graph, Command(resume="55"), LAMP)["answer"] == "55"


def create_graph_over(key: str) -> Any:
    graph = StateGraph(TypedDict("Own", {key: str}))  # type: ignore[misc]
    graph.add_node("write", lambda _: {})
    graph.add_edge(START, "write")
    return graph.compile()


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"base": react_agent(ScriptedModel([])), "tools": [add]}, ValueError, "tools= are for the default agent"),
        ({"base": react_agent(ScriptedModel([])), "max_calls": 3}, ValueError, "max_calls= is for the default agent"),
        ({"tools": [add], "max_calls": 0}, ValueError, "max_calls must be a whole number from 1"),
        ({"generate_prompt": "{task}"}, ValueError, "generate_prompt= has no place"),
        ({"base": create_graph_over("question")}, ValueError, "takes 'messages' or 'task'"),
        ({"critic": ScriptedModel([]), "critics": []}, ValueError, "one of them"),
        ({"critics": [lambda *_: None], "critic_prompt": "{draft}"}, ValueError, "critic_prompt="),
        ({"critic_prompt": "{draft} {code}"}, ValueError, "unknown variables"),
        ({"refiner_prompt": "{code}"}, ValueError, "unknown variables"),
        ({"max_rounds": -1}, ValueError, "max_rounds"),
        ({"critic": [3]}, TypeError, "a critic is a callable"),
        ({"tools": [add, add]}, ValueError, "one name"),
        ({"stop_phrase": " "}, ValueError, "stop_phrase"),
        ({"model": 7}, TypeError, "model is a chat model, or a text that names one .* not 7"),
        ({"refine_temperature": "hot"}, TypeError, "refine_temperature"),
        ({"refine_temperature": -1}, ValueError, "refine_temperature"),
    ],
)
def test_what_makes_no_sense_is_refused_when_the_graph_is_built(options: Any, error: Any, says: str) -> None:
    """A mistake shows at once, with the argument's name."""
    with pytest.raises(error, match=says):
        build_agent_graph(**{"model": CallingModel([]), **options})


def test_tools_need_a_model_that_can_call_them() -> None:
    """A model without tool calls says so when the graph is built."""
    with pytest.raises(NotImplementedError, match="can't call tools"):
        build_agent_graph(model=ScriptedModel([]), tools=[add])


@pytest.mark.embedded
@pytest.mark.skipif(not importlib.util.find_spec("xllamacpp"), reason="the local extra is not installed")
def test_the_embedded_model_refines_a_chain() -> None:
    """The preset works on the smallest model, which calls no tools, right or wrong."""
    smollm2_path()
    model = chat_model("local", max_output_tokens=24)
    prompt = ChatPromptTemplate.from_template("Answer in one short sentence. {task}")
    output = build_agent_graph(prompt | model, model=model).invoke(
        {"task": "Why is the sky dark at night?", "limits": {"max_rounds": 1}}
    )
    assert output["stop_reason"]
    assert first_draft(output)["steps"][0]["text"]
