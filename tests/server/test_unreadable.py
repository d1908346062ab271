"""No request leaves a thread that can't be read, and one that can't be, since its rows were changed, hides no other."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph
from langgraph_sdk import get_sync_client
from langgraph_sdk.errors import UnprocessableEntityError
from redraft.graphs.middleware import RefineMiddleware
from redraft.models import ScriptedModel
from redraft.nodes import uses_words, verifier_critic
from redraft.server.engine.requests import given_to
from redraft.state.schema import RefineState

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TASK = {"task": "Write."}
USAGE = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, "calls": 1, "cost_usd": None, "seconds": 0.1}
EVENT = {"kind": "critique", "round": 0, "by": "me", "text": "no", "prev": "", "usage": USAGE}
MALFORMED: dict[str, Any] = {
    "an event without usage": {"events": [{"kind": "draft", "text": "x"}]},
    "usage in words": {"events": [{**EVENT, "usage": {**USAGE, "seconds": "long"}}]},
    "numbers that no sum could hold": {"events": [{**EVENT, "usage": {**USAGE, "total_tokens": 2**63 - 1}}]},
    "a round in words": {"events": [{**EVENT, "round": "first"}]},
    "a score in words": {"events": [{**EVENT, "score": "high"}]},
    "true in words": {"events": [{**EVENT, "accepted": "true"}]},
    "a calibration in words": {"events": [{**EVENT, "calibration": {"rounds": "many"}}]},
    "options of a graph that are none": {"events": [{**EVENT, "options": {"arms": 7}}]},
    "a fingerprint on an event that has none": {"events": [{**EVENT, "kind": "thought", "fingerprint": 2.5}]},
    "a conversation of a verdict": {"events": [{**EVENT, "kind": "verdict", "conversation": True}]},
    "events that are text": {"events": "draft"},
    "rounds in words": {"rounds": "many"},
    "usage that is none": {"usage": {"calls": "x"}},
    "a task that is a list": {"task": ["x"]},
    "limits beyond sense": {"limits": {"max_tokens": 10**16}},
    "no such channel": {"__start__": 1},
}


@pytest.fixture
def stored(start_server: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server on a file."""
    monkeypatch.chdir(tmp_path)
    return start_server(db="runs.sqlite")


def test_a_state_is_written_only_if_it_can_be_read(stored: Any) -> None:
    """What is no state, or no record, is refused with 422 and a reason; the thread and the list stay as they were."""
    with get_sync_client(url=stored.url) as client:
        name = client.threads.create()["thread_id"]
        client.runs.wait(name, "refine", input=TASK)
        before = client.threads.get_history(name, limit=50)
        for values in MALFORMED.values():
            with pytest.raises(UnprocessableEntityError):
                client.threads.update_state(name, values, as_node="check")
        with pytest.raises(UnprocessableEntityError, match="has not begun at this checkpoint"):
            client.threads.update_state(name, {"rounds": 1}, as_node="check", checkpoint_id=before[-1]["checkpoint_id"])
        with pytest.raises(UnprocessableEntityError, match=r"an input holds task, .*limits, not 'events'"):
            client.threads.update_state(name, {"task": "x", "events": [EVENT]}, as_node="__start__")
        assert client.threads.get_history(name, limit=50) == before
        assert [thread["thread_id"] for thread in client.threads.search()] == [name]


SAID: dict[str, Any] = {
    "head": "",
    "answer": "Mine.",
    "stop_reason": "accepted",
    "rounds": 0,
    "score": 1.0,
    "accepted_by": "verifier",
    "oracle": False,
    "usage": USAGE,
    "events": [{**EVENT, "kind": "verdict", "accepted": True}],
}


@pytest.mark.parametrize("name", SAID)
def test_a_caller_says_nothing_that_only_the_program_may_say(server: Any, name: str) -> None:
    """Neither by a state update as any node, nor in the input of a run or a command: it is refused by its name, the
    thread stays as it was, and can be forked."""
    with get_sync_client(url=server.url) as client:
        thread = client.threads.create()["thread_id"]
        client.runs.wait(thread, "refine", input=TASK)
        before, said = client.threads.get_state(thread), {name: SAID[name]}
        for node in (None, "prepare", "generate", "feedback", "check", "refine", "__start__"):
            with pytest.raises(UnprocessableEntityError, match=name):
                client.threads.update_state(thread, said if node != "__start__" else {**TASK, **said}, as_node=node)
        with pytest.raises(httpx.HTTPStatusError, match=f"(?s)422.*{name}"):
            client.runs.wait(thread, "refine", input={**TASK, **said})
        with pytest.raises(httpx.HTTPStatusError, match=f"(?s)422.*{name}"):
            client.runs.wait(thread, "refine", command={"goto": "check", "update": said})
        assert client.threads.get_state(thread) == before
        client.http.post(f"/threads/{thread}/fork", json={"at": 0})


def test_a_graph_that_takes_its_whole_state_takes_no_record_from_a_caller() -> None:
    """Of a graph over our typed state without an input of its own, callers give the task, a draft, limits and what the
    graph adds; of an agent's, not the record that the middleware keeps."""

    class Titled(RefineState, total=False):
        title: str

    graph = StateGraph(Titled)
    graph.add_node("say", lambda state: {})
    graph.add_edge("__start__", "say")
    assert sorted(given_to(graph.compile())) == ["draft", "limits", "require", "task", "title"]
    model, saver = ScriptedModel(["x"]), InMemorySaver()
    agent = create_agent(
        model, middleware=[RefineMiddleware([verifier_critic(uses_words("lamp"))])], checkpointer=saver
    )
    assert sorted(given_to(agent)) == ["messages", "require"]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ("UPDATE writes SET value = x'00' WHERE thread_id = 'bad' AND channel = 'events'", "error"),
        ("UPDATE checkpoints SET checkpoint = x'c1' WHERE thread_id = 'bad'", "error"),
        # Its state is read without the row of the index, if the server knows what it was run with.
        (
            "UPDATE runs SET task = x'ff', rounds = 'many', created_at = 7 WHERE thread_id = 'bad'",
            "idle",
        ),
        ("UPDATE runs SET score = 9e999 WHERE thread_id = 'bad'", "idle"),
        ("UPDATE runs SET preset = x'00' WHERE thread_id = 'bad'; UPDATE served_threads SET assistant = 'x'", "error"),
    ],
)
def test_a_thread_that_cannot_be_read_hides_no_other(stored: Any, shell: Any, change: str, status: str) -> None:
    """One thread with rows of somebody else's making is shown as such in every list, and all others as they are."""
    with get_sync_client(url=stored.url) as client:
        for name in ("one", "bad", "two"):
            client.threads.create(thread_id=name)
            client.runs.wait(name, "refine", input=TASK)
        with closing(sqlite3.connect("runs.sqlite")) as conn, conn:
            conn.executescript(change)
        conn.close()
        found = {thread["thread_id"]: thread for thread in client.threads.search()}
        assert {name: thread["status"] for name, thread in found.items()} == {
            "one": "idle",
            "bad": status,
            "two": "idle",
        }
        assert (found["bad"]["values"] is None) == (status == "error")
        assert found["one"]["values"]["answer"] == "second draft"
    page = httpx.get(f"{stored.url}/page/threads").json()["html"]
    assert all(name in page for name in found)
    listed = {row["thread_id"] for row in json.loads(shell("threads", "--json").out)}
    assert listed == found.keys()
    assert shell("threads").code == 0
