"""Runs outlive the server: what was in flight when it was killed goes on when it is started again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from langgraph_sdk import get_sync_client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TASK = {"task": "Write about autumn."}


class Process:
    """`redraft serve` in a process of its own."""

    def __init__(self, forking: Any, *words: str, cwd: Path) -> None:
        program = "import warnings; warnings.simplefilter('error'); from redraft.faces.cli.main import main; main()"
        self.process = forking.start(["-c", program, "serve", *words], cwd=cwd, stderr=subprocess.PIPE)
        assert self.process.stderr
        line = self.process.stderr.readline()
        found = re.search(r"http://\S+?:\d+", line)
        assert found, line + self.process.stderr.read()
        self.url = found[0]

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        assert self.process.stderr
        self.told = self.process.stderr.read()
        self.process.stderr.close()
        return self.process.wait(20)


@pytest.fixture
def started(forking: Any) -> Any:
    """A context in which a server runs."""

    @contextmanager
    def _started(*words: str, cwd: Path) -> Iterator[Process]:
        process = Process(forking, *words, cwd=cwd)
        try:
            yield process
        finally:
            if process.process.poll() is None:
                process.end(signal.SIGKILL)

    return _started


@pytest.mark.one_of_each
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_runs_in_flight_go_on(serve: Callable[..., Any], started: Any, tmp_path: Path, number: int) -> None:
    """One run is in the middle and one waits when the process ends; the next process finishes both, and makes no call
    again that was answered."""
    calls: list[str] = []
    cut_off, killed = threading.Event(), threading.Event()

    def reply(request: dict[str, Any]) -> Any:
        asked = "\n".join(str(message["content"]) for message in request["messages"])
        calls.append(asked)
        if len(calls) == 3:
            cut_off.set()
            assert killed.wait(30)
        if "response_format" in request:  # a critic is asked
            good = "second" in asked
            return json.dumps({"feedback": "" if good else "Longer.", "score": float(good), "accepted": good})
        return "second" if "Longer." in asked else "first"

    model = serve(reply)
    words = ("--port", "0", "--db", "runs.sqlite", "--model", model.spec, "--max-runs", "1")
    with started(*words, cwd=tmp_path) as first, get_sync_client(url=first.url) as client:
        name = client.threads.create()["thread_id"]
        one = client.runs.create(name, "refine", input=TASK)
        two = client.runs.create(None, "refine", input={"task": "Write about spring."}, on_completion="keep")
        assert cut_off.wait(30)
        assert client.runs.get(two["thread_id"], two["run_id"])["status"] == "pending"
        code = first.end(number)
        killed.set()
        assert code == (0 if number == signal.SIGTERM else -9), first.told
    with started(*words, cwd=tmp_path) as second, get_sync_client(url=second.url) as client:
        output: Any = client.runs.join(name, one["run_id"])
        assert (output["answer"], output["stop_reason"]) == ("second", "accepted")
        assert client.runs.get(name, one["run_id"])["status"] == "success"
        later: Any = client.runs.join(two["thread_id"], two["run_id"])
        assert later["answer"] == "second"
        autumn = [asked for asked in calls if "autumn" in asked]
        assert len(autumn) == 5  # the call that was cut off is the only one made twice
        assert second.end(signal.SIGINT) == 0
        assert second.told == ""


def test_what_is_wrong_is_said_at_the_start(shell: Callable[..., Any], tmp_path: Path) -> None:
    """A server that can't be safe, can't listen or can't open its database doesn't start."""
    assert "a token is needed" in shell("serve", "--host", "0.0.0.0", "--model", "local").err
    short = tmp_path / "tokens"
    short.write_text("short\n")
    assert "at least 16" in shell("serve", "--token-file", str(short), "--model", "local").err
    short.write_text("\n")
    refused = shell("serve", "--token-file", str(short), "--model", "local")
    assert (refused.code, "there is no token" in refused.err) == (2, True)
    (tmp_path / "replies.jsonl").write_text('"x"\n')
    scripted = ("--model", f"scripted:{tmp_path / 'replies.jsonl'}")
    assert "does not exist" in shell("serve", "--db", "none/runs.sqlite", *scripted).err
    assert "is not known" in shell("serve", "--db", "memory", "--model", "nonsense").err
    assert shell("serve", "--port", "70000").code == 2


def test_a_port_in_use_is_said(shell: Callable[..., Any], started: Any, tmp_path: Path) -> None:
    """A second server on the same port says so, in one line."""
    (tmp_path / "replies.jsonl").write_text('"x"\n')
    words = ("--db", "memory", "--model", "scripted:replies.jsonl")
    with started("--port", "0", *words, cwd=tmp_path) as first:
        assert httpx.get(f"{first.url}/healthz").json() == {"ok": True}
        shown = shell("serve", "--port", first.url.rpartition(":")[2], *words)
    assert (shown.code, shown.err.count("\n")) == (2, 1)
    assert "can't listen on '127.0.0.1'" in shown.err
