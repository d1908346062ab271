"""Runs are streamed in every mode of LangGraph's platform, to Python's client and JavaScript's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.errors import UnprocessableEntityError

if TYPE_CHECKING:
    from collections.abc import Iterator

TASK = {"task": "Write about autumn."}


@pytest.fixture
def client(server: Any) -> Iterator[Any]:
    with get_sync_client(url=server.url) as client:
        yield client


@pytest.mark.parametrize("subgraphs", [False, True])
def test_every_step_is_told_while_it_is_made(client: Any, subgraphs: bool) -> None:
    """`debug`, `tasks` and `checkpoints` tell each step with its place in the thread, `events` each call inside it; the
    answer is the same, and nothing tells the server's recipe."""
    modes: Any = ["debug", "tasks", "checkpoints", "events", "messages-tuple", "updates"]
    thread = client.threads.create()["thread_id"]
    parts = list(client.runs.stream(thread, "refine", input=TASK, stream_mode=modes, stream_subgraphs=subgraphs))
    told: dict[str, list[Any]] = {mode: [part.data for part in parts if part.event == mode] for mode in modes}
    begun = [one["name"] for one in told["tasks"] if "input" in one]
    assert begun == ["prepare", "generate", "feedback", "check", "refine", "feedback", "check"]
    assert [one["name"] for one in told["tasks"] if "result" in one] == begun
    history = client.threads.get_history(thread, limit=50)
    places = [state["checkpoint"]["checkpoint_id"] for state in history][::-1]
    assert [one["checkpoint"]["checkpoint_id"] for one in told["checkpoints"]] == places
    assert [one["parent_checkpoint"]["checkpoint_id"] for one in told["checkpoints"][1:]] == places[:-1]
    assert {one["type"] for one in told["debug"]} == {"task", "task_result", "checkpoint"}
    kinds = {one["event"] for one in told["events"]}
    assert {"on_chain_start", "on_chain_end", "on_chat_model_start", "on_chat_model_end"} <= kinds
    assert [next(iter(one)) for one in told["updates"]] == begun
    assert client.threads.get_state(thread)["values"]["answer"] == "second draft"
    assert [part.data[0]["type"] for part in parts if part.event == "messages"]
    assert "redraft_recipe" not in json.dumps([part.data for part in parts])


def test_a_stream_is_joined_by_the_javascript_client(client: Any, server: Any) -> None:
    """JavaScript's client sends the modes as one list in JSON, and gets these modes alone; no list is refused."""
    run = client.runs.create(None, "refine", input=TASK, on_completion="keep", stream_mode=["values", "updates"])
    url = f"{server.url}/threads/{run['thread_id']}/runs/{run['run_id']}/stream"
    joined = httpx.get(url, params={"stream_mode": '["updates"]', "cancel_on_disconnect": "0"}).text
    assert {line[7:] for line in joined.splitlines() if line.startswith("event: ")} == {"metadata", "updates"}
    for wrong in ("[1]", "[", '["nothing"]', "[" * 2000):
        assert httpx.get(url, params={"stream_mode": wrong}).status_code == 422
    shown = httpx.get(f"{server.url}/threads/{run['thread_id']}/runs", params={"select": '["run_id"]'}).json()
    assert shown == [{"run_id": run["run_id"]}]
    with pytest.raises(UnprocessableEntityError, match="stream modes are values"):
        list(client.runs.stream(None, "refine", input=TASK, stream_mode="nothing"))
