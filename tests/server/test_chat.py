"""LangGraph's chat clients talk to `refine` and `agent`: new messages in, the thread's conversation out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.errors import UnprocessableEntityError
from redraft.models import ScriptedModel

Served = Callable[..., tuple[str, Any]]


@pytest.fixture
def chat(served: Served) -> Iterator[tuple[Any, ScriptedModel]]:
    """A client, and the model behind the server."""
    model = ScriptedModel(["A boat.", "no issues", "A long boat.", "no issues", "A raft.", "no issues"])
    with get_sync_client(url=served(model)[0]) as client:
        yield client, model


def user(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def said(values: Any) -> list[tuple[str, str]]:
    return [(message["type"], message["content"]) for message in values["messages"]]


def test_a_thread_is_a_conversation(chat: Any) -> None:
    """Each turn is refined and remembered, the values hold the conversation while the run goes on, and a turn that is
    asked anew from an earlier checkpoint takes the place of what came after it."""
    client, model = chat
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, "refine", input=user("Write about a boat."))
    parts = client.runs.stream(thread, "refine", input=user("Longer."))
    values = [part.data for part in parts if part.event == "values"]
    assert said(values[1])[-1] == ("human", "Longer.")
    turns = [("human", "Write about a boat."), ("ai", "A boat."), ("human", "Longer."), ("ai", "A long boat.")]
    assert said(values[-1]) == said(client.threads.get_state(thread)["values"]) == turns
    assert all(part in model.calls[2][0].text for part in ("Write about a boat.", "A boat.", "Longer."))
    history = client.threads.get_history(thread, limit=50)
    # As a chat's page edits its first message: from the checkpoint before the one that first has it.
    first = next(state for state in reversed(history) if state["values"].get("messages"))
    other = client.runs.wait(thread, "refine", input=user("Write about a raft."), checkpoint=first["parent_checkpoint"])
    assert said(other) == [("human", "Write about a raft."), ("ai", "A raft.")]


def test_a_preset_that_is_no_chat_takes_the_last_message_as_its_task(chat: Any) -> None:
    """Messages to a preset without conversation are its next task, and never run the thread's old one again; what are
    no messages is refused before anything is called."""
    client, model = chat
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, "zero-shot", input={"task": "Write about a boat."})
    output = client.runs.wait(thread, "zero-shot", input=user("Write about a raft."))
    tasks = [event["text"] for event in output["events"] if event["kind"] == "task"]
    assert tasks == ["Write about a boat.", "Write about a raft."]
    calls = len(model.calls)
    for assistant in ("zero-shot", "refine"):
        for wrong in ([{"role": "assistant", "content": "x"}], [{"content": "x"}], [{"role": "user", "content": 7}]):
            with pytest.raises(UnprocessableEntityError, match="messages"):
                client.runs.create(thread, assistant, input={"messages": wrong})
    assert len(model.calls) == calls


def test_a_chat_streams_what_writers_write_and_no_verdicts(chat: Any) -> None:
    """A chat's page shows every streamed message as one of its own: a critic's reply is none. The stream of a task has
    it, as LangGraph's own has."""
    client, _ = chat

    def nodes(asked: dict[str, Any]) -> set[str]:
        parts = client.runs.stream(None, "refine", input=asked, stream_mode=["values", "messages-tuple"])
        return {part.data[1]["langgraph_node"] for part in parts if part.event == "messages"}

    assert nodes(user("Write about a boat.")) == {"generate", "check"}  # which says the answer
    assert nodes({"task": "Write about a boat."}) == {"generate", "feedback"}
