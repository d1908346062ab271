"""Runs begin later where they are asked to, and roll back what another was doing on their thread."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.errors import NotFoundError, UnprocessableEntityError

TASK = {"task": "Write about autumn."}


def test_a_run_begins_later(start_server: Any, checkpointer_url: str) -> None:
    """A run with `after_seconds` waits, while another that was asked for after it is done on the same thread; then it
    begins by itself."""
    with get_sync_client(url=start_server(db=checkpointer_url).url) as client:
        client.threads.create(thread_id="a")
        later = client.runs.create("a", "refine", input={"task": "Later."}, after_seconds=2)
        assert client.runs.get("a", later["run_id"])["status"] == "pending"
        first = client.runs.create("a", "refine", input=TASK)
        assert client.runs.join("a", first["run_id"])["answer"] == "second draft"
        assert client.runs.get("a", later["run_id"])["status"] == "pending"
        assert client.runs.join("a", later["run_id"])["answer"] == "second draft"
        assert client.threads.get_state("a")["values"]["task"] == "Later."
        assert later["created_at"] > first["created_at"]
        cancelled = client.runs.create("a", "refine", input=TASK, after_seconds=600_000)
        client.runs.cancel("a", cancelled["run_id"])
        assert client.runs.get("a", cancelled["run_id"])["status"] == "interrupted"
        assert client.threads.get("a")["status"] == "idle"
        for wrong in (-1, 10**9):
            with pytest.raises(UnprocessableEntityError, match="after_seconds"):
                client.runs.create("a", "refine", input=TASK, after_seconds=wrong)


@pytest.mark.one_of_each
@pytest.mark.parametrize("before", [True, False])
def test_a_run_rolls_another_back(start_server: Any, talking: Any, checkpointer_url: str, before: bool) -> None:
    """With `multitask_strategy="rollback"` the thread goes on as if the run under way had never been: its events are in
    no state, and it is no longer there."""
    with get_sync_client(url=start_server(db=checkpointer_url).url) as client:
        for name in ("a", "untouched"):
            client.threads.create(thread_id=name)
            if before:
                client.runs.wait(name, "refine", input=TASK)
        talking.gate.clear()
        calls = len(talking.model.calls)
        rolled = client.runs.create("a", "refine", input={"task": "Write about spring."})
        waits = client.runs.create("a", "refine", input={"task": "Write about summer."})
        while len(talking.model.calls) == calls:  # its first checkpoints are written
            pass
        run = client.runs.create("a", "refine", input={"task": "Write about winter."}, multitask_strategy="rollback")
        talking.gate.set()
        assert client.runs.join("a", run["run_id"])["answer"] == "second draft"
        for gone in (rolled, waits):
            with pytest.raises(NotFoundError):
                client.runs.get("a", gone["run_id"])
        client.runs.wait("untouched", "refine", input={"task": "Write about winter."})
        found, wanted = (client.threads.get_state(name)["values"]["events"] for name in ("a", "untouched"))
        assert [(one["kind"], one["text"]) for one in found] == [(one["kind"], one["text"]) for one in wanted]
        assert client.runs.wait("a", "refine", input=TASK)["answer"] == "second draft"
        with pytest.raises(UnprocessableEntityError, match="answers the run under way"):
            client.runs.create("a", "refine", command={"resume": "accept"}, multitask_strategy="rollback")
