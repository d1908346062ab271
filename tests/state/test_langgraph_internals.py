"""Each private name of LangGraph that redraft relies on does what it is relied on for, on a real graph.

A test that fails after an update of LangGraph names what moved: `redraft.state.langgraph_internals` says what to do.
"""

from __future__ import annotations

import operator
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, TypedDict

import ormsgpack
import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.channels.last_value import LastValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import RunControl
from langgraph.types import Command, Overwrite, Send, interrupt
from redraft.state import langgraph_internals as internals

LAMP: Any = {"configurable": {"thread_id": "lamp"}}


class Words(TypedDict, total=False):
    words: Annotated[list[str], operator.add]


def compiled(nodes: dict[str, Any], edges: list[tuple[Any, str]], **options: Any) -> Any:
    builder = StateGraph(Words)
    for name, node in nodes.items():
        builder.add_node(name, node)
    for start, end in edges:
        builder.add_edge(start, end)
    return builder.compile(**options)


def one_node(node: Any, **options: Any) -> Any:
    return compiled({"one": node}, [(START, "one"), ("one", END)], **options)


def channels(saver: Any, source: str = "loop") -> set[str]:
    """All channels that checkpoints of this source hold a value of."""
    return {
        name
        for stored in saver.list(LAMP)
        if stored.metadata["source"] == source
        for name in stored.checkpoint["channel_values"]
    }


@pytest.fixture
def place() -> dict[str, Any]:
    """The `configurable` that a node of a graph with a saver is given."""
    seen: dict[str, Any] = {}

    def look(state: Words, config: RunnableConfig) -> Words:
        seen.update(config["configurable"])
        return {"words": ["a"]}

    saver, control = InMemorySaver(), RunControl()
    one_node(look, checkpointer=saver).invoke({"words": []}, LAMP, control=control)
    return {**seen, "saver": saver, "control": control}


def test_checkpointer(place: dict[str, Any]) -> None:
    """A node finds the saver in force."""
    # LangGraph may give a copy, which allows further types.
    assert place[internals.CHECKPOINTER].storage is place["saver"].storage


def test_runtime(place: dict[str, Any]) -> None:
    """A node finds the control of its run, the one that was given, and what is streamed goes through its writer."""
    assert place[internals.RUNTIME].control is place["control"]
    assert callable(place[internals.RUNTIME].stream_writer)


def test_read_and_task_id(place: dict[str, Any]) -> None:
    """The config of a task has both; that with which a saver is asked at the beginning of a run has neither."""
    assert callable(place[internals.READ])
    assert place[internals.TASK_ID]

    class Asked(InMemorySaver):
        def get_tuple(self, config: Any) -> Any:
            begun.append(config["configurable"])
            return super().get_tuple(config)

    begun: list[Any] = []
    one_node(lambda _: {"words": ["a"]}, checkpointer=Asked()).invoke({"words": []}, LAMP)
    assert internals.RUNTIME in begun[0]
    assert not {internals.READ, internals.TASK_ID} & begun[0].keys()


def test_resuming() -> None:
    """A graph inside another is told whether that goes on with what is in its thread."""
    seen = []

    def ask(state: Words, config: RunnableConfig) -> Words:
        seen.append(config["configurable"].get(internals.RESUMING))
        return {"words": [interrupt("which?")]}

    graph = one_node(one_node(ask), checkpointer=InMemorySaver())
    graph.invoke({"words": []}, LAMP)
    graph.invoke(Command(resume="a"), LAMP)
    assert [bool(one) for one in seen] == [False, True]


def test_durability() -> None:
    """A config says when a graph's checkpoints are written: at its end only, here."""
    saver = InMemorySaver()
    graph = one_node(lambda _: {"words": ["a"]}, checkpointer=saver)
    told = {"configurable": {**LAMP["configurable"], internals.DURABILITY: "exit"}}
    graph.invoke({"words": []}, told)
    assert len(list(saver.list(LAMP))) == 1
    graph.invoke({"words": []}, LAMP)
    assert len(list(saver.list(LAMP))) > 2


def test_input_channel() -> None:
    """An input stands there until a node takes it, and is what is next till then."""
    saver = InMemorySaver()
    graph = one_node(lambda _: {"words": ["a"]}, checkpointer=saver)
    graph.invoke({"words": ["b"]}, LAMP)
    (first,) = [one for one in saver.list(LAMP) if one.metadata["source"] == "input"]
    assert first.checkpoint["channel_values"][internals.INPUT_CHANNEL] == {"words": ["b"]}
    assert graph.get_state(first.config).next == (internals.INPUT_CHANNEL,)


def test_branch_to() -> None:
    """The channel of a node is there while the node is still to run, and gone afterwards."""
    saver = InMemorySaver()
    graph = one_node(lambda _: {"words": ["a"]}, checkpointer=saver)
    graph.invoke({"words": []}, LAMP, interrupt_before=["one"])
    held = saver.get_tuple(LAMP).checkpoint["channel_values"]  # type: ignore[union-attr]
    assert f"{internals.BRANCH_TO}one" in held
    graph.invoke(None, LAMP)
    held = saver.get_tuple(LAMP).checkpoint["channel_values"]  # type: ignore[union-attr]
    assert not [name for name in held if name.startswith(internals.AHEAD)]


def test_join() -> None:
    """A node that waits for two others has a channel of its own."""
    saver = InMemorySaver()
    builder = StateGraph(Words)
    for name in ("one", "two", "three"):
        builder.add_node(name, lambda _: {"words": ["a"]})
    builder.add_edge(START, "one")
    builder.add_edge(START, "two")
    builder.add_edge(["one", "two"], "three")
    builder.compile(checkpointer=saver).invoke({"words": []}, LAMP, interrupt_before=["three"])
    held = saver.get_tuple(LAMP).checkpoint["channel_values"]  # type: ignore[union-attr]
    assert [name for name in held if name.startswith(internals.JOIN)]


def test_pregel_and_ahead() -> None:
    """What is sent to a node by `Send` stands in a channel of LangGraph's, one of those that say a node is to run."""
    saver = InMemorySaver()
    builder = StateGraph(Words)
    builder.add_node("one", lambda _: {"words": ["a"]})
    builder.add_node("two", lambda _: {"words": ["b"]})
    builder.add_edge(START, "one")
    builder.add_conditional_edges("one", lambda _: [Send("two", {})], ["two"])
    builder.compile(checkpointer=saver).invoke({"words": []}, LAMP, interrupt_before=["two"])
    sent = [name for name in channels(saver) if name.startswith(internals.PREGEL)]
    assert sent
    assert all(name.startswith(internals.AHEAD) for name in sent)


def test_pull() -> None:
    """The path of a task that an edge triggers begins with it."""
    seen: list[Any] = []

    def look(state: Words, config: RunnableConfig) -> Words:
        seen.append(config["metadata"]["langgraph_path"])
        return {"words": ["a"]}

    one_node(look).invoke({"words": []})
    assert seen == [(internals.PULL, "one")]


def test_missing() -> None:
    """A channel that nothing was written to is made of it, and its checkpoint is it."""
    channel = LastValue(str)
    assert channel.from_checkpoint(internals.MISSING).checkpoint() is internals.MISSING
    assert DeltaChannel(lambda old, new: old, list).from_checkpoint(internals.MISSING).get() == []


def test_get_overwrite() -> None:
    """An `Overwrite` is told from what is added, and gives what it puts in its place."""
    assert internals.get_overwrite(Overwrite(["a"])) == (True, ["a"])
    assert internals.get_overwrite(["a"])[0] is False


def test_delta_snapshot() -> None:
    """The value of a delta channel, as a checkpoint has it now and then, is one and holds the value."""
    held = DeltaChannel(lambda old, new: [*old, *(one for each in new for one in each)], list, snapshot_frequency=1)
    channel = held.from_checkpoint(internals.DeltaSnapshot(["a"]))
    assert channel.get() == ["a"]
    serde = JsonPlusSerializer()
    back = serde.loads_typed(serde.dumps_typed(internals.DeltaSnapshot(["a"])))
    assert isinstance(back, internals.DeltaSnapshot)
    assert back.value == ["a"]


def test_ensure_config() -> None:
    """A graph's own config and a caller's are put together, and what is below a node is given to what it calls."""
    one: Any = {"configurable": {"a": 1}}
    whole = internals.ensure_config(one, {"configurable": {"b": 2}})
    assert whole["configurable"] == {"a": 1, "b": 2}
    seen: list[Any] = []

    def look(state: Words) -> Words:
        seen.append(internals.ensure_config(None)["configurable"].get("thread_id"))
        return {"words": ["a"]}

    one_node(look, checkpointer=InMemorySaver()).invoke({"words": []}, LAMP)
    assert seen == ["lamp"]


def test_patch_configurable() -> None:
    """A part is changed; the rest, and the config that was given, stay."""
    given: Any = {"configurable": {"a": 1, "b": 2}, "tags": ["t"]}
    patched = internals.patch_configurable(given, {"b": None})
    assert patched == {"configurable": {"a": 1, "b": None}, "tags": ["t"]}
    assert given["configurable"]["b"] == 2


def test_msgpack_default_and_option() -> None:
    """What they write LangGraph's serializer writes, and reads: a checkpoint of ours is one of LangGraph's."""
    value = {"sent": Send("one", {"a": 1}), 3: "three"}
    data = ormsgpack.packb(value, default=internals.msgpack_default, option=internals.msgpack_option)
    serde = JsonPlusSerializer()
    assert serde.dumps_typed(value) == ("msgpack", data)
    assert serde.loads_typed(("msgpack", data)) == value


def test_safe_msgpack_types_and_methods() -> None:
    """They name what LangGraph builds in its strict mode: types by module and name, methods with those before them."""
    assert ("langgraph.types", "Send") in internals.SAFE_MSGPACK_TYPES
    assert ("langchain_core.messages.ai", "AIMessage") in internals.SAFE_MSGPACK_TYPES
    assert ("datetime", "datetime", "fromisoformat") in internals.SAFE_MSGPACK_METHODS
    assert ("os", "system") not in internals.SAFE_MSGPACK_TYPES


def test_every_name_has_a_test() -> None:
    """No name is relied on that none of these looks at."""
    here = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in internals.__all__ if f"internals.{name}" not in here] == []


def test_langgraph_is_imported_when_it_is_needed() -> None:
    """The names of channels and keys cost no import of LangGraph, which threads are listed without."""
    code = "import sys; from redraft.state.langgraph_internals import BRANCH_TO; print('langgraph' in sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_name_that_is_none() -> None:
    """The module has no other names than its own."""
    with pytest.raises(AttributeError, match="no attribute 'RUNTIMES'"):
        internals.RUNTIMES  # noqa: B018
