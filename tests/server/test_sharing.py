"""The server, the shell and other servers share a database, and don't get in each other's way."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.server import Engine, Settings
from redraft.server.engine.records import open_records
from redraft.server.engine.runs import Caller, QueueFullError, Run, Submission
from redraft.server.engine.thread_records import ThreadRecord
from redraft.state import open_checkpointer

if TYPE_CHECKING:
    from collections.abc import Callable

LOCAL = Caller("local")
REFINE = {"assistant_id": "refine", "input": {"task": "Write about autumn."}}


def test_the_shell_and_the_server_see_the_same_threads(
    start_server: Callable[..., Any], scripted: Callable[..., str], shell: Callable[..., Any]
) -> None:
    """A thread that the shell made is read and run over HTTP, and one made over HTTP is replayed in the shell; who has
    a token sees none of the shell's."""
    made = shell("run", "Write.", "--model", scripted("shell draft", "no issues"), "--thread", "from-shell", "--json")
    assert made.code == 0
    server = start_server(db="runs.sqlite")
    with httpx.Client(base_url=server.url, timeout=30) as client:
        found = client.post("/threads/search", json={}).json()
        assert [(one["thread_id"], one["values"]["answer"]) for one in found] == [("from-shell", "shell draft")]
        assert client.post("/threads/from-shell/runs/wait", json=REFINE).json()["answer"] == "second draft"
        client.post("/threads", json={"thread_id": "from-http"})
        client.post("/threads/from-http/runs/wait", json=REFINE)
    listed = json.loads(shell("threads", "--json").out)
    assert {row["thread_id"] for row in listed} == {"from-shell", "from-http"}
    assert json.loads(shell("replay", "from-http", "--json").out)["matches"] is True
    server.stop()
    guarded = start_server(db="runs.sqlite", tokens=("a-token-0123456789",))
    headers = {"Authorization": "Bearer a-token-0123456789"}
    with httpx.Client(base_url=guarded.url, headers=headers) as client:
        assert client.post("/threads/search", json={}).json() == []
        assert client.get("/threads/from-shell").status_code == 404
        assert client.post("/threads", json={"thread_id": "from-shell"}).status_code == 409
        assert client.post("/threads/other/runs/wait", json=REFINE).status_code == 404


def test_redraft_stop_reaches_a_run_of_the_server(
    start_server: Callable[..., Any], shell: Callable[..., Any], talking: Any
) -> None:
    """`redraft stop` ends a run that the server has under way, after the step it is in; it goes on when asked to."""
    server = start_server(db="runs.sqlite")
    talking.gate.clear()
    with httpx.Client(base_url=server.url, timeout=30) as client:
        client.post("/threads", json={"thread_id": "mine"})
        run = client.post("/threads/mine/runs", json=REFINE).json()
        while not talking.model.calls:
            pass
        assert shell("stop", "mine").code == 0
        talking.gate.set()
        client.get(f"/threads/mine/runs/{run['run_id']}/join")
        assert client.get(f"/threads/mine/runs/{run['run_id']}").json()["status"] == "interrupted"
        assert client.get("/threads/mine").json()["status"] == "interrupted"
        again = client.post("/threads/mine/runs/wait", json={"assistant_id": "refine"}).json()
    assert again["answer"] == "second draft"


async def test_two_servers_share_a_database(tmp_path: Any) -> None:
    """A run of one server is not taken by another that lives, which can tell how it stands."""
    settings = Settings(db=str(tmp_path / "runs.sqlite"))
    gate = asyncio.Event()

    class Waiting(ScriptedModel):
        async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
            await gate.wait()
            return await super()._agenerate(*args, **kwargs)

    one = Engine(settings, build_model=lambda spec: Waiting(["draft", "no issues"]))
    two = Engine(settings, build_model=lambda spec: ScriptedModel(["another"]))
    await one.start()
    await two.start()
    run = await one.submit(LOCAL, Submission(assistant="refine", input=REFINE["input"], keep=True))
    await two.tending._take_over()
    assert (two.queue.running, await two.queue.queued()) == (0, 0)
    seen = await two.run(LOCAL, run.id)
    assert seen.status in ("pending", "running")
    gate.set()
    assert (await one.join(run))["answer"] == "draft"
    assert (await two.join(seen))["answer"] == "draft"
    await one.stop()
    await two.stop()


async def test_a_run_that_is_cancelled_at_once_ends(talking: Any) -> None:
    """Cancelled before its first step, twice, or while it waits, a run ends as interrupted, and is counted once."""
    engine = Engine(
        Settings(db="memory", max_concurrent_runs=1, queue_length=1), build_model=lambda spec: talking.model
    )
    await engine.start()
    counted: list[str] = []
    engine.on_finished.append(lambda run, output: counted.append(run.id))
    runs = [await engine.submit(LOCAL, Submission(assistant="refine", input=REFINE["input"])) for _ in range(2)]
    with pytest.raises(QueueFullError):
        await engine.submit(LOCAL, Submission(assistant="refine", input=REFINE["input"]))
    for run in reversed(runs):  # the waiting one first: it would begin once the other has ended
        await asyncio.gather(*(engine.cancel(LOCAL, run.id) for _ in range(2)))
    assert [run.status for run in runs] == ["interrupted", "interrupted"]
    assert sorted(counted) == sorted(run.id for run in runs)
    assert [event async for _, event in runs[1].follow()] == []
    assert (await engine.join(await engine.submit(LOCAL, Submission(assistant="refine", input=REFINE["input"]))))[
        "answer"
    ] == "second draft"
    await engine.stop()


async def test_a_run_that_kills_its_servers_is_given_up(tmp_path: Any) -> None:
    """A run of which three processes died without a step further has failed, and says so; one that moved goes on, also
    where the clock of the server that died was ahead."""
    dead = f"{socket.gethostname()}:{2**22 + 1}:1"  # beyond the numbers that processes get
    settings = Settings(db=str(tmp_path / "runs.sqlite"))
    model = ScriptedModel(["draft", "no issues", "draft", "no issues", "draft"])
    engine = Engine(settings, build_model=lambda spec: model)
    await engine.start()
    await engine.stop()
    for attempts, moved, stood, answer in (
        *((2, False, False, "draft"), (3, False, False, None)),
        *((3, True, False, "draft"), (3, True, True, None)),
    ):
        with open_checkpointer(settings.db) as saver:
            records = open_records(saver)
            name = f"attempt-{attempts}-{moved}-{stood}"
            if moved:
                half: Any = {"configurable": {"thread_id": name}}
                build_refine_graph(model, checkpointer=saver).invoke(
                    REFINE["input"], half, interrupt_before=["feedback"]
                )
            records.add_thread(ThreadRecord(name, "local", "refine", {}, "idle", "2999", "2999"))
            request = {"input": REFINE["input"], "stream_modes": ["values"], "subgraphs": False}
            if stood:  # the last process took it when it had moved already
                request["stood_at"] = saver.runs.get(name).updated_at
            records.add_run(
                Run(name, name, "refine", LOCAL, "2999", request, status="running", updated_at="2999", begun=moved,
                    attempts=attempts, process=dead)
            )  # fmt: skip
        engine = Engine(settings, build_model=lambda spec: model)
        await engine.start()
        output = await engine.join(await engine.run(LOCAL, name))
        assert output.get("answer") == answer
        assert answer or output["__error__"]["error"] == "LostRunError"
        # The process that died of it where it stands now counts, also where it had moved before.
        assert not (moved and answer) or (await engine.run(LOCAL, name)).attempts == 2
        assert (await engine.owned.thread(LOCAL, name)).status == ("idle" if answer else "error")
        assert answer or not moved or engine.saver.runs.get(name).stop_reason == "quarantined"
        await engine.stop()
    assert len(model.calls) == 5


async def test_tokens_are_not_kept_for_ever(talking: Any) -> None:
    """Of a run that ended a while ago what was sent is there to be read, but its tokens."""
    engine = Engine(Settings(db="memory"), build_model=lambda spec: talking.model)
    await engine.start()
    run = await engine.submit(
        LOCAL, Submission(assistant="zero-shot", input=REFINE["input"], stream_modes=("updates", "messages-tuple"))
    )
    before = [event.event async for _, event in run.follow()]
    run.forget_tokens()
    after = [event.event async for _, event in run.follow()]
    assert "messages" in before
    assert after == [event for event in before if event != "messages"]
    await engine.stop()
