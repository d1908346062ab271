"""`refine` and `agent` are chats: messages in and out, each turn refined, the thread's turns remembered."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessageChunk, HumanMessage, RemoveMessage, SystemMessage
from langgraph.channels import EphemeralValue
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from redraft.graphs import build_agent_graph, build_math_graph, build_refine_graph
from redraft.models import ScriptedModel
from redraft.state import Thread, checked_channels, open_checkpointer
from redraft.state.open_state import ConversationInput, conversation_of
from redraft.state.schema import RefineState

CHAT: Any = {"configurable": {"thread_id": "chat"}}
TURNS = [("one", "first"), ("two", "second"), ("three", "third")]


def build(kind: str, model: Any, saver: Any) -> Any:
    if kind == "agent":
        return build_agent_graph(model=model, checkpointer=saver)
    return build_refine_graph(model, checkpointer=saver)


def said(output: Any) -> list[tuple[str, str]]:
    return [(message.type, message.text) for message in output["messages"]]


def asked(messages: Any) -> str:
    return "\n".join(message.text for message in messages)


@pytest.mark.parametrize("kind", ["refine", "agent"])
def test_each_turn_is_refined_and_remembered(run: Any, kind: str) -> None:
    """New messages go in, the whole conversation comes out, writer, critic and refiner are told what was said before,
    and a task on its own knows nothing of it."""
    model = ScriptedModel(["first", "no issues", "draft", "Too short.", "second", "no issues", "solo", "no issues"])
    with open_checkpointer("memory") as saver:
        graph = build(kind, model, saver)
        system = {"role": "system", "content": "Be brief."}
        run(graph, {"messages": [system, {"role": "user", "content": "one"}]}, CHAT)
        # A system message that comes with every turn is said once.
        output = run(graph, {"messages": [system, HumanMessage("two")]}, CHAT)
        assert said(output) == [
            ("system", "Be brief."), ("human", "one"), ("ai", "first"), ("human", "two"), ("ai", "second")
        ]  # fmt: skip
        assert (output["answer"], output["rounds"], output["stop_reason"]) == ("second", 1, "accepted")
        for call in model.calls[2:6]:
            assert all(part in asked(call) for part in ("Be brief.", "one", "first", "two"))
        alone = run(graph, {"task": "three"}, CHAT)
        assert "first" not in asked(model.calls[6]) + asked(model.calls[7])
        assert (alone["answer"], said(alone)) == ("solo", said(output))
        assert Thread(graph, "chat").replay().matches
        tasks = [event["text"] for event in alone["events"] if event["kind"] == "task"]
    assert tasks == ["one", "two", "three"]


def test_a_conversation_given_whole_is_not_heard_twice(run: Any) -> None:
    """A client that sends all that was said, with ids or without, adds its last message and nothing else."""
    model = ScriptedModel(["first", "no issues", "second", "no issues", "third", "no issues"])
    with open_checkpointer("memory") as saver:
        graph = build("refine", model, saver)
        output = run(graph, {"messages": [("user", "one")]}, CHAT)
        whole = [("user", "one"), ("assistant", "first"), ("user", "two")]
        output = run(graph, {"messages": whole}, CHAT)
        output = run(graph, {"messages": [*output["messages"], ("user", "three")]}, CHAT)
    assert said(output) == [pair for user, answer in TURNS for pair in (("human", user), ("ai", answer))]
    assert [one["content"] for one in conversation_of(output["events"])] == ["one", "first", "two", "second", "three"]


def test_a_fork_and_a_rerun_of_a_turn_know_what_was_said_before() -> None:
    """A fork's own answer takes the place of its parent's, and a rerun is told the conversation."""
    model = ScriptedModel(["first", "no issues", "second", "no issues", "changed", "no issues", "again", "no issues"])
    with open_checkpointer("memory") as saver:
        graph = build("refine", model, saver)
        graph.invoke({"messages": "one"}, CHAT)
        graph.invoke({"messages": "two"}, CHAT)
        fork = Thread(graph, "chat").fork(at=0, feedback="Longer.")
        assert said(graph.get_state(fork.config).values)[-1] == ("human", "two")
        fork.resume()
        assert said(graph.get_state(fork.config).values)[-2:] == [("human", "two"), ("ai", "changed")]
        Thread(graph, "chat").rerun(thread_id="again")
        assert "first" in asked(model.calls[6])
        again = graph.get_state({"configurable": {"thread_id": "again"}}).values
    assert said(again) == [("human", "one"), ("ai", "first"), ("human", "two"), ("ai", "again")]


def test_a_graph_that_is_no_chat_refuses_messages() -> None:
    """Messages to a preset without conversation are refused, and no earlier task of the thread runs again."""
    model = ScriptedModel(["A 1", "no issues"] * 4)
    with open_checkpointer("memory") as saver:
        graph = build_math_graph(model, critic="self", checkpointer=saver)
        graph.invoke({"task": "What is 1?"}, CHAT)
        calls = len(model.calls)
        with pytest.raises(ValueError, match="'math' is no chat: give it a task"):
            graph.invoke({"messages": "What is 2?"}, CHAT)
        with pytest.raises(ValueError, match="no user message"):
            build_refine_graph(model, checkpointer=saver).invoke({"messages": []} | {"messages": [("ai", "x")]}, CHAT)
        assert len(model.calls) == calls


class EarlierState(RefineState, total=False):
    """The state of a release that kept no conversation."""

    messages: Annotated[Any, EphemeralValue]


def test_messages_that_an_earlier_release_left_waiting_are_heard() -> None:
    """A thread whose messages wait since before conversations were kept goes on with them, not with its old task."""
    model = ScriptedModel(["old", "no issues", "first", "no issues"])
    with open_checkpointer("memory") as saver:
        earlier = build_refine_graph(
            model, checkpointer=saver, state_schema=EarlierState, input_schema=ConversationInput
        )
        earlier.invoke({"task": "An old task."}, CHAT)
        earlier.invoke({"messages": [("user", "one")]}, CHAT, interrupt_before=["prepare"])
        graph = build("refine", model, saver)
        Thread(graph, "chat").resume()
        assert said(graph.get_state(CHAT).values) == [("human", "one"), ("ai", "first")]
        assert asked(model.calls[2]) == "one"


def test_a_long_chat_is_read_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of turns are put together without a look at all earlier ones for each; an edit or a removal is found."""
    looked: list[int] = []

    def counted(left: Any, right: Any) -> Any:
        looked.append(len(left) + len(right))
        return add_messages(left, right)

    monkeypatch.setattr(checked_channels, "add_messages", counted)
    turns = [[HumanMessage(f"turn {number}"), AIMessageChunk(f"reply {number}")] for number in range(300)]
    messages = checked_channels.add_turns([], turns)
    assert sum(looked) <= 2 * len(messages)
    assert [message.id for message in messages] == [str(number) for number in range(600)]
    assert {message.type for message in messages} == {"human", "ai"}

    system = SystemMessage("Be brief.")
    changes: list[Any] = [
        [system, HumanMessage("one more")],
        [HumanMessage("mended", id="3"), HumanMessage("behind it")],
        [HumanMessage("twice", id="same"), HumanMessage("said once", id="same")],
        [RemoveMessage("4"), RemoveMessage("unknown"), system],
        {"role": "user", "content": "as a dict"},
        {"no": "message"},
    ]
    at_once = checked_channels.add_turns(messages, changes)
    one_by_one = messages
    for change in changes:
        one_by_one = checked_channels.add_turns(one_by_one, [change])
    assert at_once == one_by_one
    texts = [message.text for message in at_once]
    assert (texts[3], texts[4], len(texts)) == ("mended", "reply 2", 604)
    assert texts[-5:] == ["Be brief.", "one more", "behind it", "said once", "as a dict"]
    anew = checked_channels.add_turns(at_once, [[RemoveMessage(REMOVE_ALL_MESSAGES), HumanMessage("anew")]])
    assert [message.text for message in anew] == ["anew"]


def test_a_chat_grows_as_its_turns_do(tmp_path: Any) -> None:
    """Each turn stores its own messages: twice as many turns take about twice the bytes."""
    sizes = []
    for turns in (10, 20):
        model = ScriptedModel(["word " * 200, "no issues"] * turns)
        path = tmp_path / f"{turns}.sqlite"
        with open_checkpointer(str(path)) as saver:
            graph = build("refine", model, saver)
            for turn in range(turns):
                output = graph.invoke({"messages": f"{turn} " * 100}, CHAT)
            assert len(output["messages"]) == 2 * turns
        with open_checkpointer(str(path)) as saver:
            again = asyncio.run(build("refine", model, saver).aget_state(CHAT)).values
            assert said(again) == said(output)
        sizes.append(path.stat().st_size)
    assert sizes[1] / sizes[0] < 2.2
