"""A server that stands still is replaced, and what stopped two of them is taken up by nobody but a person."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from redraft.models import ScriptedModel
from redraft.server import Engine, Settings
from redraft.server.engine.ownership import LOCAL
from redraft.server.engine.runs import Run
from redraft.server.engine.thread_records import ThreadRecord
from redraft.state.storage.leases import this_process

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SERVE = """
import ctypes, os
from redraft.faces.cli.main import main
from redraft.nodes.verify import verifiers

def build(words):
    def verifier(task, draft):
        if os.path.exists("hang"):
            ctypes.PyDLL(None).sleep(600)  # as `re` does, it keeps the lock of the interpreter
        return verifiers._words(words)(task, draft)
    return verifier

verifiers.OWN = (*verifiers.OWN, verifiers.VerifierKind("hangs", build, "WORD"))
main()
"""
HANGING = {
    "assistant_id": "refine",
    "input": {"task": "Name a river.", "draft": "A river.", "limits": {"max_rounds": 0}},
    "context": {"verifiers": ["hangs:river"]},
    "on_completion": "keep",
}
BESIDE = {"assistant_id": "zero-shot", "input": {"task": "Name a boat."}, "on_completion": "keep"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes of POSIX")
def test_a_run_that_stops_servers_is_set_aside(
    forking: Any, shell: Callable[..., Any], tmp_path: Path, serve: Callable[..., Any]
) -> None:
    """A server that holds the interpreter's lock is killed and followed, at the same address; the run that stopped two
    is an error that says so, over HTTP, on the page and at the shell, and goes on when a person resumes it. A run
    beside it that waited for its model goes on by itself."""
    (tmp_path / "hang").touch()
    gate = threading.Event()

    def reply(request: dict[str, Any]) -> str:
        assert gate.wait(120)
        return "A boat."

    words = ["--port", "0", "--db", "runs.sqlite", "--model", serve(reply).spec, "--watchdog", "6"]
    process = forking.start(["-c", SERVE, "serve", *words], cwd=tmp_path, stderr=subprocess.PIPE)
    try:
        url = re.search(r"http://\S+?:\d+", process.stderr.readline())[0]  # type: ignore[index]
        with httpx.Client(base_url=url, timeout=60) as client:
            beside, run = _asked(client, "/runs", BESIDE), _asked(client, "/runs", HANGING)
            of_run = f"/threads/{run['thread_id']}/runs/{run['run_id']}"
            while (found := _asked(client, of_run))["status"] in ("pending", "running"):
                time.sleep(0.1)
            assert (found["status"], found["error"]["error"]) == ("error", "QuarantinedRunError")
            assert _asked(client, f"/threads/{run['thread_id']}")["status"] == "error"
            gate.set()
            joined = _asked(client, f"/threads/{beside['thread_id']}/runs/{beside['run_id']}/join")
            assert joined["answer"] == "A boat."
            assert "stopped two servers" in _asked(client, f"/page/threads/{run['thread_id']}")["html"]
        process.send_signal(signal.SIGTERM)
        told = process.stderr.read()
        assert process.wait(20) == 0, told
        assert told.count("gave no sign of life for 6 s and was killed") >= 2
        assert told.count("in verifier") >= 2  # the stack of where it stood
        assert "stopped two servers" in told
    finally:
        gate.set()
        process.kill()
        process.wait()
        process.stderr.close()
    assert "quarantined" in shell("threads", "--db", "runs.sqlite").out
    (tmp_path / "hang").unlink()
    resumed = forking.run(["-c", SERVE, "resume", run["thread_id"], "--db", "runs.sqlite"], cwd=tmp_path)
    assert (resumed.returncode, "A river." in resumed.stdout) == (0, True), resumed.stderr


def _asked(client: httpx.Client, path: str, body: Any = None) -> Any:
    """Ask until a server answers: one that is killed drops its connections."""
    while True:
        try:
            reply = client.get(path) if body is None else client.post(path, json=body)
        except httpx.TransportError:
            continue
        assert reply.status_code == 200, reply.text
        return reply.json()


async def test_a_process_that_stands_still_is_followed(tmp_path: Any, forking: Any) -> None:
    """The run of a process that lives and has not said so for 45 seconds goes on in another, unless it speaks again,
    as it does where the whole machine slept."""
    engine = Engine(
        Settings(db=str(tmp_path / "runs.sqlite")), build_model=lambda spec: ScriptedModel(["draft", "no issues"])
    )
    await engine.start()
    other = forking.start(["-c", "import time; time.sleep(60)"])
    try:
        name = _name_of(other.pid)
        request = {"input": {"task": "Write."}, "stream_modes": ["values"], "subgraphs": False}
        silent = await engine.db.read(engine.records.clock) - 60
        run = Run("r", "t", "refine", LOCAL, "2999", request, status="running", updated_at="2999", process=name)
        run.beat = silent
        engine.records.add_thread(ThreadRecord("t", "local", "refine", {}, "idle", "2999", "2999"))
        engine.records.add_run(run)
        await engine.tending._take_over()
        engine.records.beat(name, beat=silent + 60)
        await engine.tending._take_over()
        assert (await engine.run(LOCAL, "r")).status == "running"
        assert engine.queue.running == 0
        engine.records.beat(name, beat=silent)
        for _ in range(2):
            await engine.tending._take_over()
        assert (await engine.join(await engine.run(LOCAL, "r")))["answer"] == "draft"
    finally:
        other.kill()
        other.wait()
        await engine.stop()


def _name_of(pid: int) -> str:
    """Return the name of another process as it would have it."""
    from redraft.state.storage import leases

    host = this_process().rsplit(":", 2)[0]
    return leases._named(pid, host)
