"""Threads are streamed over LangChain's event protocol, as `client.threads.stream` and `useStream` read it."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from langgraph_sdk import get_client
from redraft.models import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

TASK = {"task": "Write about autumn."}
EVERYTHING = ["values", "updates", "messages", "tools", "lifecycle", "input", "checkpoints", "tasks", "custom"]


@pytest.fixture
async def aconnect() -> AsyncIterator[Callable[..., Any]]:
    clients: list[Any] = []
    yield lambda url, **options: clients.append(get_client(url=url, **options)) or clients[-1]  # type: ignore[func-returns-value]
    for client in clients:
        await client.aclose()


def sent(url: str, thread: str, method: str, /, **params: Any) -> dict[str, Any]:
    """What a command answers."""
    asked = {"id": 7, "method": method, "params": params}
    reply = httpx.post(f"{url}/threads/{thread}/commands", json=asked)
    assert reply.status_code == 200, reply.text
    assert reply.json()["id"] == 7
    found: dict[str, Any] = reply.json()
    return found


def seen(url: str, thread: str, *, ends: int = 1, **wanted: Any) -> list[dict[str, Any]]:
    """What a stream of a thread shows until so many runs have ended."""
    found: list[dict[str, Any]] = []
    body = {"channels": EVERYTHING, **wanted}
    with httpx.stream("POST", f"{url}/threads/{thread}/stream/events", json=body, timeout=20) as stream:
        for line in stream.iter_lines():
            if line.startswith("data: "):
                found.append(json.loads(line[6:]))
                ends -= is_end(found[-1])
            if not ends:
                return found
    raise AssertionError("the stream ended by itself")


def is_end(event: dict[str, Any]) -> bool:
    root = event["method"] == "lifecycle" and not event["params"]["namespace"]
    return root and event["params"]["data"]["event"] in ("completed", "failed", "interrupted")


async def test_the_python_client_streams_a_thread(server: Any, aconnect: Any) -> None:
    """`client.threads.stream` makes a thread, begins a run, and reads its states, its messages word by word, its steps
    and its output; a second run is read over the same stream."""
    client = aconnect(server.url)
    async with client.threads.stream(assistant_id="refine") as thread:
        assert (await thread.run.start(input=TASK))["run_id"]
        values, updates, messages = [], [], []
        async for kind, item in thread.interleave_projections(["values", "updates", "messages"]):
            {"values": values, "updates": updates, "messages": messages}[kind].append(item)
        assert values[-1]["answer"] == "second draft"
        steps = [next(iter(update)) for update in updates]
        assert steps == ["prepare", "generate", "feedback", "check", "refine", "feedback", "check"]
        assert [await message.text for message in messages] == [
            "first draft", "Name the month.", "second draft", "no issues"
        ]  # fmt: skip
        assert [message.node for message in messages] == ["generate", "feedback", "refine", "feedback"]
        assert (await thread.output)["answer"] == "second draft"
        await thread.run.start(input={"task": "Write about spring."})
        async for state in thread.values:
            last = state
        assert last["answer"] == "second draft"
        assert (await thread.agent.get_tree())["nodes"]
    assert len(await client.runs.list(thread.thread_id)) == 2


async def test_a_person_answers_over_the_stream(server: Any, aconnect: Any) -> None:
    """A question to a person ends the projections; the answer goes to it, and the run goes on to its end."""
    client = aconnect(server.url)
    async with client.threads.stream(assistant_id="refine-with-a-person") as thread:
        await thread.run.start(input=TASK)
        async for _ in thread.values:  # until somebody is asked
            pass
        assert thread.interrupted
        assert [one["value"]["draft"] for one in thread.interrupts] == ["first draft"]
        await thread.run.respond({"action": "edit", "draft": "My own."})
        assert (await thread.output)["answer"] == "My own."


def test_who_comes_again_sees_the_same_events(server: Any) -> None:
    """Each stream of a thread shows the same events by the same ids and growing numbers; `since` leaves out what
    came before, and channels, namespaces and depth choose among them."""
    first = sent(server.url, "a", "run.start", assistant_id="refine", input=TASK)
    everything = seen(server.url, "a")
    assert seen(server.url, "a") == everything
    numbers = [one["seq"] for one in everything]
    assert numbers == sorted(set(numbers))
    assert first["meta"]["applied_through_seq"] < numbers[0]
    assert len({one["event_id"] for one in everything}) == len(everything)
    assert {one["method"] for one in everything} == {"values", "updates", "messages", "lifecycle", "checkpoints",
                                                     "tasks", "custom"}  # fmt: skip
    middle = numbers[len(numbers) // 2]
    assert seen(server.url, "a", since=middle) == [one for one in everything if one["seq"] > middle]
    assert [one["params"]["data"]["event"] for one in seen(server.url, "a", channels=["lifecycle"])] == [
        "running", "completed"
    ]  # fmt: skip
    ends = [is_end(one) for one in seen(server.url, "a", namespaces=[[]], depth=0, channels=["lifecycle", "values"])]
    assert ends == [False] * (len(ends) - 1) + [True]
    history = httpx.post(f"{server.url}/threads/a/history", json={"limit": 50}).json()
    told = [one["params"]["data"] for one in everything if one["method"] == "checkpoints"]
    assert [one["id"] for one in told] == [state["checkpoint_id"] for state in reversed(history)]
    # A second run: who listens from before it sees it alone, without the end of the one before.
    second = sent(server.url, "a", "run.start", assistant_id="refine", input={"task": "Write about spring."})
    again = seen(server.url, "a", since=second["meta"]["applied_through_seq"])
    assert {one["event_id"].partition(":")[0] for one in again} == {second["result"]["run_id"]}
    fork = {"configurable": {"checkpoint_id": told[2]["id"], "thread_id": "another"}}
    sent(server.url, "a", "run.start", assistant_id="refine", config=fork)
    assert httpx.get(f"{server.url}/threads/a/state").json()["values"]["task"] == TASK["task"]


def test_a_run_that_fails_says_so(served: Any) -> None:
    """A failed run ends its stream's projections as failed, in a sentence that tells nothing of the server."""

    def fail(messages: Any) -> str:
        raise OSError("/etc/secret can't be opened")

    url, _ = served(ScriptedModel([fail]))
    sent(url, "a", "run.start", assistant_id="zero-shot", input=TASK)
    end = seen(url, "a")[-1]["params"]["data"]
    assert (end["event"], end["error"]) == ("failed", "the run failed; the server's log says why")


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("run.start", {"assistant_id": "nothing", "input": TASK}, "invalid_argument"),
    ("run.start", {"assistant_id": "refine", "input": {"task": ""}}, "invalid_argument"),
    ("run.start", {"input": TASK}, "invalid_argument"),
    ("run.start", {"assistant_id": "refine", "input": TASK, "metadata": {"a": "x" * 20_000}}, "invalid_argument"),
    ("run.start", {"assistant_id": "refine", "input": TASK, "config": {"configurable": {"model": "openai:x"}}},
     "invalid_argument"),
    ("input.respond", {"interrupt_id": "0" * 32, "response": "x"}, "no_such_interrupt"),
    ("input.respond", {"responses": []}, "invalid_argument"),
    ("state.fork", {}, "unknown_command"),
]  # fmt: skip


def test_a_command_that_makes_no_sense_is_refused(server: Any, talking: Any) -> None:
    """A command is answered in the protocol's own words, and costs nothing."""
    httpx.post(f"{server.url}/threads", json={"thread_id": "a", "metadata": {"graph_id": "refine"}})
    for method, params, code in REFUSED:
        reply = sent(server.url, "a", method, **params)
        assert (reply["type"], reply["error"]) == ("error", code), reply
    assert talking.model.calls == []


def test_nobody_streams_the_thread_of_another(start_server: Any, tokens: Any, talking: Any) -> None:
    """A stream of another's thread shows nothing, whether it is there or not, and no command reaches it."""
    server = start_server(tokens=tokens)
    talking.gate.clear()
    mine, theirs = ({"X-Api-Key": token} for token in tokens)
    start = {"id": 1, "method": "run.start", "params": {"assistant_id": "zero-shot", "input": TASK}}
    assert httpx.post(f"{server.url}/threads/a/commands", json=start, headers=mine).json()["type"] == "success"
    for method in ("run.start", "input.respond", "agent.getTree"):
        asked = {**start, "method": method}
        reply = httpx.post(f"{server.url}/threads/a/commands", json=asked, headers=theirs).json()
        assert reply["type"] == "error"
    assert httpx.get(f"{server.url}/threads/a/stream", headers=theirs).status_code == 404
    body = {"channels": ["lifecycle", "values"]}
    with (
        httpx.stream("POST", f"{server.url}/threads/a/stream/events", json=body, headers=mine) as own,
        httpx.stream("POST", f"{server.url}/threads/a/stream/events", json=body, headers=theirs) as other,
        httpx.stream("POST", f"{server.url}/threads/b/stream/events", json=body, headers=theirs) as nothing,
    ):
        assert [own.status_code, other.status_code, nothing.status_code] == [200] * 3
        lines = own.iter_lines()
        assert next(lines) == "event: lifecycle"
        talking.gate.set()
        while "completed" not in next(lines):
            pass
        server.stop()
        for stream in (other, nothing):
            shown = b""
            with suppress(httpx.RemoteProtocolError):
                for piece in stream.iter_raw():
                    shown += piece
            assert shown == b""
