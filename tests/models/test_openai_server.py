"""The tests' own model server can be trusted to count the calls of a client that was killed."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openai
import pytest
from redraft.models import chat_model

if TYPE_CHECKING:
    from collections.abc import Callable

SERVER_FILE = Path(__file__).parents[1] / "openai_server.py"

CLIENT = """
import sys
from redraft.models import chat_model
print("asking", flush=True)
chat_model(sys.argv[1], max_retries=0).invoke("slow please")
"""


def test_as_a_process_it_answers_by_rules_and_logs(forking: Any, tmp_path: Path) -> None:
    """A killed client's paid call is in the log, with its start and its end."""
    replies, log = tmp_path / "replies.json", tmp_path / "log.jsonl"
    replies.write_text(json.dumps([{"contains": "slow", "reply": "late", "delay_s": 0.2}, {"default": "other"}]))
    command = [sys.executable, str(SERVER_FILE), "--replies", str(replies), "--log", str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            spec = server.stdout.readline().strip()
            client = forking.start(["-c", CLIENT, spec], stdout=subprocess.PIPE)
            while not log.exists() or "start" not in log.read_text():
                assert client.poll() is None
            client.kill()
            client.communicate()
            assert chat_model(spec).invoke("anything").text == "other"
            assert chat_model(spec).invoke("slow please").text == "late"
            # An end is logged after the answer is on its way.
            while '"n": 3, "status"' not in log.read_text():
                assert server.poll() is None
        finally:
            server.terminate()
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert [entry["n"] for entry in entries if entry["event"] == "start"] == [1, 2, 3]
    assert {entry["n"] for entry in entries if entry["event"] == "end"} >= {2, 3}
    assert entries[0]["request"]["messages"][-1]["content"] == "slow please"


def test_it_lists_its_model_and_wants_its_key(serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers /v1/models, and with a key of its own refuses others."""
    server = serve(lambda request: request["messages"][-1]["content"][::-1], api_key="right")
    with urllib.request.urlopen(f"{server.base_url}/models") as response:
        assert json.load(response)["data"][0]["id"] == "test-model"
    with pytest.raises(openai.AuthenticationError):
        chat_model(server.spec).invoke("abc")
    monkeypatch.setenv("REDRAFT_API_KEY", "right")
    assert chat_model(server.spec).invoke("abc").text == "cba"
    assert len(server.requests) == 2
