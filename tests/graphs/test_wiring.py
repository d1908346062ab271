"""The graph is an ordinary LangGraph graph, and any node can be replaced."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import Any, TypedDict

import pytest
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from redraft.graphs import (
    build_adaptive_graph,
    build_agent_graph,
    build_branching_graph,
    build_code_graph,
    build_majority_graph,
    build_math_graph,
    build_pipeline_graph,
    build_reasoning_graph,
    build_rubric_graph,
    build_writing_graph,
    build_zero_shot_graph,
)
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.nodes import uses_words
from redraft.nodes.critics.critics import model_critic, verifier_critic
from redraft.nodes.writing.writers import from_runnable
from redraft.state import Critique, Event

TASK = "Write one short sentence that uses river and lamp."
WORDS = verifier_critic(uses_words("river", "lamp"))


def test_updates_custom_progress_and_tokens_stream() -> None:
    """A caller watches steps, progress and model tokens while the run goes on."""
    graph = build_refine_graph(ScriptedModel(["a river", "a river and a lamp"]), critics=[WORDS])
    seen: dict[str, list[Any]] = {"updates": [], "custom": [], "messages": []}
    for mode, item in graph.stream({"task": TASK}, stream_mode=["updates", "custom", "messages"]):
        seen[mode].append(item)

    assert [name for update in seen["updates"] for name in update] == [
        "prepare", "generate", "feedback", "check", "refine", "feedback", "check",
    ]  # fmt: skip
    assert [item["kind"] for item in seen["custom"] if item["kind"] != "start"] == [
        "draft", "critique", "verdict", "revision", "critique", "verdict",
    ]  # fmt: skip
    assert [item["node"] for item in seen["custom"] if item["kind"] == "start"] == [
        "generate", "feedback", "refine", "feedback",
    ]  # fmt: skip
    streamed = [chunk.text for chunk, metadata in seen["messages"] if metadata["langgraph_node"] == "refine"]
    assert len(streamed) > 1
    assert "".join(streamed).strip() == "a river and a lamp"


def test_models_and_verifiers_may_be_named_as_on_the_shell(scripted: Any) -> None:
    """Every builder takes the text that `--model` takes, and those that take verifiers the text of `--verify`."""
    words: Any = {"verifiers": ["uses_words:river,lamp"]}
    of_model: list[Any] = [
        partial(build_refine_graph, **words),
        partial(build_adaptive_graph, **words),
        partial(build_branching_graph, **words, branching_factor=1, depth=0),
        partial(build_reasoning_graph, **words),
        partial(build_writing_graph, **words),
        partial(build_rubric_graph, judge=scripted("no verdict")),
        partial(build_pipeline_graph, "SetTopic('Rivers') | UseDraft"),
        partial(build_math_graph, critics=[WORDS]),
        build_code_graph,
        build_zero_shot_graph,
        partial(build_majority_graph, samples=1),
        lambda model: build_agent_graph(model=model, **words),
    ]
    for build in of_model:
        graph = build(scripted("a river and a lamp"))
        given = {} if graph.get_name() == "pipeline" else {"task": TASK}
        assert "a river and a lamp" in graph.invoke(given)["answer"], graph.get_name()
    with pytest.raises(ValueError, match="model 'gpt-5-mini' is not known; accepted are"):
        build_refine_graph("gpt-5-mini")
    with pytest.raises(ValueError, match="uses_wrods"):
        build_refine_graph(ScriptedModel([]), verifiers=["uses_wrods:river"])


async def test_streaming_works_asynchronously() -> None:
    """The async stream shows the same progress."""
    graph = build_refine_graph(ScriptedModel(["a river and a lamp"]), critics=[WORDS])
    shown = [item["kind"] async for item in graph.astream({"task": TASK}, stream_mode="custom")]
    assert shown == ["start", "draft", "start", "critique", "verdict"]


def test_tokens_are_counted_while_streaming() -> None:
    """Streaming tokens does not lose the count of them."""
    model = ScriptedModel([{"text": "a river and a lamp", "input_tokens": 7, "output_tokens": 5}])
    graph = build_refine_graph(model, critics=[WORDS], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    list(graph.stream({"task": TASK}, config, stream_mode="messages"))
    assert graph.get_state(config).values["usage"]["total_tokens"] == 12


def test_the_drawing_shows_the_five_nodes_and_the_loop() -> None:
    """The graph draws itself: what a reader sees is the loop."""
    drawing = build_refine_graph(ScriptedModel([])).get_graph().draw_mermaid()
    for edge in ("prepare --> generate", "feedback --> check", "check -.-> refine", "refine --> feedback"):
        assert edge in drawing
    assert "check -.-> __end__" in drawing


class Outer(TypedDict, total=False):
    task: str
    answer: str
    stop_reason: str
    shouted: str


def outer_graph(inner: Any) -> Any:
    graph = StateGraph(Outer)
    graph.add_node("inner", inner)
    graph.add_node("shout", lambda state: {"shouted": state["answer"].upper()})
    graph.add_edge(START, "inner")
    graph.add_edge("inner", "shout")
    return graph.compile(checkpointer=InMemorySaver())


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_loop_is_a_node_in_a_bigger_graph(asynchronous: bool) -> None:
    """In a parent graph its answer flows on, and its checkpoints are the parent's."""
    inner = build_refine_graph(ScriptedModel(["a river", "a river, a lamp"]), critics=[WORDS])
    outer = outer_graph(inner)
    config: Any = {"configurable": {"thread_id": "1"}}
    given: Any = {"task": TASK}
    output = asyncio.run(outer.ainvoke(given, config)) if asynchronous else outer.invoke(given, config)

    assert (output["shouted"], output["stop_reason"]) == ("A RIVER, A LAMP", "accepted")
    namespaces = {stored.config["configurable"]["checkpoint_ns"] for stored in outer.checkpointer.list(config)}
    assert any(namespace.startswith("inner:") for namespace in namespaces)


def test_generate_can_be_a_callable_a_chain_an_agent_or_a_graph() -> None:
    """Whatever writes the first draft, its text is the draft and its tokens are counted."""
    model = ScriptedModel([{"text": "a river, a lamp", "input_tokens": 3, "output_tokens": 4}] * 3)
    agent = StateGraph(MessagesState)
    agent.add_node("talk", lambda state: {"messages": [model.invoke(state["messages"])]})
    agent.add_edge(START, "talk")
    chain = ChatPromptTemplate.from_template("Do this: {task}") | model
    writers = [
        (lambda state: "a river, a lamp", 0),
        (lambda state: {"draft": "a river, a lamp"}, 0),
        (chain, 1),
        (agent.compile(), 1),
        (from_runnable(agent.compile(), given="messages"), 1),
        (build_refine_graph(ScriptedModel(["a river", "a river, a lamp"]), critics=[WORDS]), 2),
    ]
    for writer, calls in writers:
        output = build_refine_graph(ScriptedModel([]), generate=writer, critics=[WORDS]).invoke({"task": TASK})
        assert (output["answer"], output["stop_reason"]) == ("a river, a lamp", "accepted")
        assert output["usage"]["calls"] == calls
    assert model.calls[0][0].text == f"Do this: {TASK}"
    assert model.calls[1][0].text == TASK


def test_an_agent_that_refines_is_shown_its_draft_and_the_feedback() -> None:
    """An agent in the place of `refine` gets the conversation so far."""
    model = ScriptedModel(["a river, a lamp"])
    agent = StateGraph(MessagesState)
    agent.add_node("talk", lambda state: {"messages": [model.invoke(state["messages"])]})
    agent.add_edge(START, "talk")
    graph = build_refine_graph(ScriptedModel(["a river"]), refine=agent.compile(), critics=[WORDS])
    assert graph.invoke({"task": TASK})["answer"] == "a river, a lamp"
    assert [message.text for message in model.calls[0]] == [TASK, "a river", "These words are missing: lamp."]


def test_a_graph_that_takes_neither_task_nor_messages_is_refused_when_built() -> None:
    """A writer of the wrong shape is named before anything runs."""

    class Other(TypedDict):
        number: int

    other = StateGraph(Other)
    other.add_node("n", lambda state: {"number": 1})
    other.add_edge(START, "n")
    with pytest.raises(ValueError, match=r"takes \['number'\]: a writer takes 'messages' or 'task'"):
        build_refine_graph(ScriptedModel([]), generate=other.compile())


def test_feedback_check_and_prepare_can_be_replaced() -> None:
    """One's own feedback, stop logic and preparation take their places; unknown keys are not lost silently."""
    seen: list[str] = []

    def prepare(state: Any) -> Any:
        return {"events": [{"kind": "retrieval", "text": "three passages"}]}

    def feedback(state: Any) -> Any:
        seen.append(state["events"][-1]["text"])
        return [Critique("one", accepted=False, by="style"), {"text": "two", "accepted": False, "score": 0.5}]

    def check(state: Any, runtime: Runtime[Any], *, config: RunnableConfig, store: Any, writer: Any = None) -> Any:
        writer({"kind": "mine", "place": (runtime.context, config["metadata"]["langgraph_node"], store)})
        return "max_rounds" if len(seen) == 2 else None

    graph = build_refine_graph(
        ScriptedModel(["a", "b"]), prepare=prepare, feedback=feedback, check=check, checkpointer=InMemorySaver()
    )
    place: Any = {"configurable": {"thread_id": "1"}}
    streamed = [*graph.stream({"task": TASK}, place, context="here", stream_mode="custom")]
    # What LangGraph gives a node by its parameters' names, a function in the place of one is given.
    assert [item["place"] for item in streamed if item.get("kind") == "mine"] == [("here", "check", None)] * 2
    output = graph.get_state(place).values
    assert seen == ["a", "b"]
    assert [event["kind"] for event in output["events"][:3]] == ["task", "retrieval", "draft"]
    assert [event["by"] for event in output["events"] if event["kind"] == "critique"] == ["style", "feedback"] * 2
    assert output["stop_reason"] == "max_rounds"
    for wrong in (
        {"generate": lambda: "x"},
        {"refine": {"mend": lambda state, more: "x"}},
        {"finish": lambda a, b: {}},
    ):
        with pytest.raises(TypeError, match=r"is a callable that takes the state, and may take config, runtime"):
            build_refine_graph(ScriptedModel([]), **wrong)  # type: ignore[arg-type]


def test_a_check_that_returns_a_typo_is_named() -> None:
    """A stop reason that does not exist is refused; it would end the run silently."""
    with pytest.raises(ValueError, match="'acepted'; a stop reason is None or one of failed, accepted"):
        build_refine_graph(ScriptedModel(["a"]), critics=[WORDS], check=lambda state: "acepted").invoke({"task": TASK})


MENDING = ["Mend {draft}: {feedback}", "Mend again {draft}: {feedback}"]


def test_prompts_can_differ_by_round() -> None:
    """The first critique can be asked for in other words than the later ones; so can revisions."""
    judge = ScriptedModel(["bad", "bad", "bad"])
    model = ScriptedModel(["a", "b", "c"])
    critic = model_critic(judge, prompt=["First look: {draft}", "Look again: {draft}"])
    graph = build_refine_graph(model, critics=[critic], refine_prompt=MENDING)
    graph.invoke({"task": TASK, "limits": {"max_rounds": 2}})
    assert [call[0].text for call in judge.calls] == ["First look: a", "Look again: b", "Look again: c"]
    assert [call[0].text for call in model.calls[1:]] == ["Mend a: bad", "Mend again a: bad"]


@pytest.mark.parametrize(
    "prompt",
    [
        "Mend {draft:>3000000000}",
        "Mend {draft!r}",
        "Mend {draft!a:{task}}",
        "Mend {draft.__class__}",
        [MENDING[0], ChatPromptTemplate.from_messages([("system", "Mend."), ("human", "{draft:>3000000000}")])],
        ChatPromptTemplate.from_messages([("human", [{"type": "text", "text": "Mend {draft:>3000000000}"}])]),
    ],
    ids=str,
)
def test_a_prompt_names_its_variables_and_no_more(prompt: Any) -> None:
    """A prompt file that would make 3 GB of a draft, or write out its class, is refused when the graph is built."""
    with pytest.raises(ValueError, match=r"refine_prompt.*(stands alone in its braces|f-string template)"):
        build_refine_graph(ScriptedModel([]), refine_prompt=prompt)


@pytest.mark.parametrize(
    ("given", "lacks"),
    [
        ({"refine_prompt": ""}, "refine_prompt lacks {draft} and {feedback}"),
        ({"refine_prompt": "{task} {draft}"}, "refine_prompt lacks {feedback}"),
        ({"refine_prompt": [MENDING[0], "{feedback}"]}, "refine_prompt[1] lacks {draft}"),
        ({"refine_prompt": "{{draft}} {feedback}"}, "a text has single braces, and mustache is a ChatPromptTemplate"),
        ({"critic_prompt": ["{draft}", "{task}"]}, "critic_prompt[1] lacks {draft}"),
    ],
)
def test_a_prompt_without_what_it_is_about_is_refused(given: Any, lacks: str) -> None:
    """Nobody is asked to judge a draft, or to revise one, without being shown it and what was found."""
    with pytest.raises(ValueError, match=re.escape(lacks)):
        build_refine_graph(ScriptedModel([]), **given)
    build_refine_graph(ScriptedModel([]), refine_prompt="{task}, but mind: {feedback}")  # written anew, and not blind


def test_mustache_is_taken() -> None:
    """A template of LangChain's in another format works as it is, several messages and all."""
    messages = [("system", "Be kind."), ("human", "Mend {{{draft}}}{{#feedback}} for {{feedback}}{{/feedback}}")]
    prompt = ChatPromptTemplate.from_messages(messages, template_format="mustache")
    model = ScriptedModel(["a < {b}", "c"])
    judge = model_critic(ScriptedModel(["bad", "no issues"]))
    assert build_refine_graph(model, critics=[judge], refine_prompt=prompt).invoke({"task": TASK})["answer"] == "c"
    assert [message.text for message in model.calls[1]] == ["Be kind.", "Mend a < {b} for bad"]


@pytest.mark.parametrize(
    ("given", "says"),
    [({"max_tokens": 1}, "takes no 'max_tokens' but in limits"), ({"drafts": ""}, "takes no 'drafts'")],
)
def test_what_a_graph_does_not_take_is_refused(given: Any, says: str) -> None:
    """A limit that is given beside `limits`, or a key with a typo, is named in place of being dropped."""
    graph = build_refine_graph(ScriptedModel([]))
    with pytest.raises(ValueError, match=says):
        graph.invoke({"task": TASK, **given})
    with pytest.raises(ValueError, match=says):
        asyncio.run(graph.ainvoke({"task": TASK, **given}))


def test_braces_in_a_task_are_just_text() -> None:
    """A task or draft full of braces reaches the model as it is."""
    model = ScriptedModel(["{draft} {{x}}", "bad {task}", "done"])
    build_refine_graph(model).invoke({"task": "Explain {x: {y}}", "limits": {"max_rounds": 1}, })  # fmt: skip
    assert model.calls[0][0].text == "Explain {x: {y}}"
    assert "{draft} {{x}}" in model.calls[1][0].text


async def test_async_critics_work_in_both_worlds() -> None:
    """A critic may be async; it works under `ainvoke`, under `invoke`, and below a running loop as in a notebook."""

    async def critic(task: str, draft: str, history: list[Event]) -> Critique:
        await asyncio.sleep(0)
        return Critique("", accepted=True, score=1.0)

    graph = build_refine_graph(ScriptedModel(["a", "b", "c"]), critics=[critic])
    assert (await graph.ainvoke({"task": TASK}))["accepted_by"] == "critic"
    assert graph.invoke({"task": TASK})["accepted_by"] == "critic"
    assert (await asyncio.to_thread(graph.invoke, {"task": TASK}))["accepted_by"] == "critic"


def test_critics_are_asked_cheapest_first() -> None:
    """Functions come before other models, and the model's opinion of itself comes last."""
    order: list[str] = []
    model = ScriptedModel(["a draft", lambda _: order.append("self") or "no issues"])
    other = ScriptedModel([lambda _: order.append("other") or "no issues"], model_name="other")

    def tool(task: str, draft: str, history: Any) -> Critique:
        order.append("tool")
        return Critique("", accepted=True)

    output = build_refine_graph(model, critics=[model_critic(model), model_critic(other), tool]).invoke({"task": TASK})
    assert order == ["tool", "other", "self"]
    assert output["accepted_by"] == "tool, other, self (uncalibrated)"


def test_critics_after_always_asks_the_model_too() -> None:
    """With `critics_after="always"` a model may object to what the verifiers passed."""
    judge = ScriptedModel(["It is dull."])
    graph = build_refine_graph(
        ScriptedModel(["a river, a lamp"]), critics=[WORDS, model_critic(judge)], critics_after="always"
    )
    output = graph.invoke({"task": TASK, "limits": {"max_rounds": 0}})
    assert (output["stop_reason"], output["score"], len(judge.calls)) == ("max_rounds", 1.0, 1)


def test_a_structured_verdict_accepts() -> None:
    """A judge with structured output accepts by a field, not by a phrase."""
    judge = ScriptedModel(
        [{"text": "x", "structured": {"feedback": "", "score": 0.9, "accepted": True}}], structured=True
    )
    output = build_refine_graph(ScriptedModel(["a draft"]), critics=[model_critic(judge)]).invoke({"task": TASK})
    assert (output["stop_reason"], output["score"]) == ("accepted", 0.9)
