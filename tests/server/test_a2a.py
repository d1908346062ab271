"""Other agents hand tasks to the assistants by the Agent2Agent protocol, here with the official client."""

from __future__ import annotations

import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from a2a.client import ClientConfig, ClientFactory
from a2a.helpers import get_artifact_text, get_message_text, new_data_part, new_text_part
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.errors import A2AError
from redraft.models import ScriptedModel
from redraft.server import Engine, Settings, create_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

TOKENS = ("first-token-0123456789", "second-token-0123456789")
GATE = threading.Event()


def reply(messages: list[Any]) -> str:
    asked = "\n".join(str(message.content) for message in messages)
    if "wait here" in asked:
        assert GATE.wait(30)
    return "no issues" if "no issues" in asked else "second draft" if "first draft" in asked else "first draft"


@pytest.fixture(scope="module")
def server(serving: Any) -> Iterator[Any]:
    """A server with two callers."""
    settings = Settings(db="memory", model="openai:writer", tokens=TOKENS)
    engine = Engine(settings, build_model=lambda spec: ScriptedModel([reply] * 500))
    with serving(create_app(settings, engine=engine)) as served:
        yield served


@asynccontextmanager
async def agent(
    server: Any, name: str = "refine", *, token: str = TOKENS[0], streaming: bool = False
) -> AsyncIterator[Any]:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:
        factory = ClientFactory(ClientConfig(httpx_client=http, streaming=streaming))
        yield await factory.create_from_url(f"{server.url}/a2a/{name}")


def said(*parts: Any, wait: bool = True, **about: str) -> SendMessageRequest:
    parts = tuple(new_text_part(part) if isinstance(part, str) else new_data_part(part) for part in parts)
    message = Message(message_id="m", role=Role.ROLE_USER, parts=parts, **about)
    return SendMessageRequest(message=message, configuration=SendMessageConfiguration(return_immediately=not wait))


async def sent(client: Any, request: SendMessageRequest) -> Any:
    return [event async for event in client.send_message(request)][-1].task


async def test_a_task_is_a_run_and_its_context_a_thread(server: Any) -> None:
    """An agent finds the assistant by its card, and gets the answer with who accepted it; it can be got again, also
    when another task has followed in its context and the server was started again."""
    async with agent(server) as client:
        data = {"options": {"verifiers": ["uses_words:second"]}, "limits": {"max_rounds": 2}}
        task = await sent(client, said("Write.", data))
        assert task.status.state == TaskState.TASK_STATE_COMPLETED
        assert get_artifact_text(task.artifacts[0]) == "second draft"
        about = task.artifacts[0].metadata
        assert (about["stop_reason"], about["accepted_by"], about["rounds"]) == ("accepted", "uses_words", 1)
        assert await client.get_task(GetTaskRequest(id=task.id)) == task
        # A second task in the same context is a further run of the same thread.
        again = await sent(client, said("Write more.", context_id=task.context_id))
        assert (again.context_id, again.id != task.id) == (task.context_id, True)
        listed = await client.list_tasks(ListTasksRequest(context_id=task.context_id))
        assert {one.id for one in listed.tasks} == {task.id, again.id}
        server.forget_runs()
        assert [await client.get_task(GetTaskRequest(id=one.id)) for one in (task, again)] == [task, again]
    headers = {"Authorization": f"Bearer {TOKENS[0]}"}
    async with httpx.AsyncClient(headers=headers, base_url=server.url) as http:
        thread = (await http.get(f"/threads/{task.context_id}/state")).json()
        assert thread["values"]["task"] == "Write more."
        card = (await http.get("/.well-known/agent-card.json", params={"assistant_id": "math"})).json()
        assert card["skills"][0]["id"] == "math"
        assert card["securityRequirements"]
        assert (await http.get("/a2a/nobody/.well-known/agent-card.json")).status_code == 404
        assert (await http.get("/.well-known/agent-card.json", headers={"Authorization": ""})).status_code == 401


async def test_a_stream_tells_each_step(server: Any) -> None:
    """An agent that streams hears of each round, then gets the artifact, and the state in which the task ended."""
    async with agent(server, streaming=True) as client:
        events = [event async for event in client.send_message(said("Write.", {"limits": {"max_rounds": 0}}))]
    kinds = [event.WhichOneof("payload") for event in events]
    assert kinds[0] == "task"
    assert kinds[-2:] == ["artifact_update", "status_update"]
    assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
    told = "\n".join(get_message_text(event.status_update.status.message) for event in events[1:-2])
    assert "first draft" in told


async def test_a_question_to_a_person_asks_for_input(server: Any) -> None:
    """A task that waits for a person says so with the draft; the person's answer goes on with the same task."""
    async with agent(server, "refine-with-a-person") as client:
        task = await sent(client, said("Write."))
        assert task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        assert "first draft" in get_message_text(task.status.message)
        assert not task.artifacts
        with pytest.raises(A2AError, match="an edit needs the whole new text"):
            await sent(client, said({"action": "edit"}, task_id=task.id))
        ended = await sent(client, said({"action": "edit", "draft": "My own."}, task_id=task.id))
        assert (ended.id, ended.context_id) == (task.id, task.context_id)
        assert ended.status.state == TaskState.TASK_STATE_COMPLETED
        assert get_artifact_text(ended.artifacts[0]) == "My own."
        assert await client.get_task(GetTaskRequest(id=task.id)) == ended
        with pytest.raises(A2AError, match="asks for no input"):
            await sent(client, said("accept", task_id=task.id))


async def test_a_task_is_joined_and_cancelled(server: Any) -> None:
    """An agent that lost its stream joins the task again; one that cancels it ends the run, which pays no more."""
    GATE.clear()
    async with agent(server) as client, agent(server, streaming=True) as listening:
        task = await sent(client, said("Write: wait here.", wait=False))
        assert task.status.state in (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING)
        stream = listening.subscribe(SubscribeToTaskRequest(id=task.id))
        assert (await anext(stream)).task.id == task.id
        cancelled = await client.cancel_task(CancelTaskRequest(id=task.id))
        assert cancelled.status.state == TaskState.TASK_STATE_CANCELED
        last = [event async for event in stream][-1]
        assert last.status_update.status.state == TaskState.TASK_STATE_CANCELED
        GATE.set()
        with pytest.raises(A2AError, match="has ended"):
            await anext(listening.subscribe(SubscribeToTaskRequest(id=task.id)))
        with pytest.raises(A2AError, match="not under way"):
            await client.cancel_task(CancelTaskRequest(id=task.id))


async def test_a_task_is_its_callers_alone(server: Any) -> None:
    """Nobody gets, joins, answers or cancels another's task, nor begins one in another's context."""
    async with agent(server) as client:
        task = await sent(client, said("Write.", {"limits": {"max_rounds": 0}}))
    async with agent(server, token=TOKENS[1]) as other:
        with pytest.raises(A2AError, match="Task not found"):
            await other.get_task(GetTaskRequest(id=task.id))
        with pytest.raises(A2AError, match="Task not found"):
            await other.cancel_task(CancelTaskRequest(id=task.id))
        with pytest.raises(A2AError, match="Task not found"):
            await sent(other, said("accept", task_id=task.id))
        with pytest.raises(A2AError, match="in use"):
            await sent(other, said("Write.", context_id=task.context_id))
        with pytest.raises(A2AError, match="no such thread"):
            await other.list_tasks(ListTasksRequest(context_id=task.context_id))


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ((" ",), "not blank"),
        (("Write.", {"folder": "/etc"}), "not 'folder'"),
        (("Write.", {"options": {"verifiers": ["json_schema:/etc/passwd"]}}), "not for callers"),
        (("Write.", {"limits": {"max_rounds": 99}}), "at most 10"),
        (("Write.", {"model": "openai:other"}), "not among those"),
        (("Write.", {}, {}), "one object of data"),
    ],
)
async def test_a_bad_message_is_refused_in_a_sentence(server: Any, parts: Any, told: str) -> None:
    """A message that makes no sense, or asks for what is not a caller's, is an error that says what is wrong."""
    async with agent(server) as client:
        with pytest.raises(A2AError, match=told):
            await sent(client, said(*parts))


async def test_clients_of_the_older_protocol_are_served(server: Any) -> None:
    """`message/send` and `tasks/get`, as version 0.3 names them, work at the same address."""
    headers = {"Authorization": f"Bearer {TOKENS[0]}"}
    message = {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "Write."}]}
    async with httpx.AsyncClient(headers=headers, base_url=server.url, timeout=60) as http:

        async def asked(method: str, params: Any) -> Any:
            call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return (await http.post("/a2a/refine", json=call)).json()["result"]

        task = await asked("message/send", {"message": message})
        assert (task["kind"], task["status"]["state"]) == ("task", "completed")
        assert task["artifacts"][0]["parts"][0]["text"] == "first draft"
        assert (await asked("tasks/get", {"id": task["id"]}))["id"] == task["id"]
