"""`redraft serve` on the embedded model answers every kind of client, and goes on after it was killed."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from langchain_openai import ChatOpenAI
from langgraph_sdk import get_sync_client
from redraft.models.http_clients import sync_client
from redraft.models.weights import smollm2_path

COMMAND = """
from redraft.faces.cli.main import main
from redraft.models import openai_chat, specs
specs._LOCAL_MAX_OUTPUT_TOKENS = 24  # any answer will do
served = openai_chat.served_model
openai_chat.served_model = lambda *address, **options: served(*address, **{**options, "temperature": 0})
main()
"""
ASKED: Any = [{"role": "user", "content": "Write one short sentence about rain."}]
BOUNDS: Any = {"limits": {"max_rounds": 0}}


@contextmanager
def started(forking: Any, cwd: Path) -> Iterator[tuple[str, Any]]:
    """A server in a process of its own, on SQLite; its address."""
    words = ["-c", COMMAND, "serve", "--port", "0", "--db", "runs.sqlite", "--model", "local"]
    process = forking.start(words, cwd=cwd, stderr=subprocess.PIPE)
    assert process.stderr
    try:
        line = process.stderr.readline()
        found = re.search(r"http://\S+?:\d+", line)
        assert found, line + process.stderr.read()
        yield found[0], process
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.mark.slow
@pytest.mark.embedded
@pytest.mark.skipif(not importlib.util.find_spec("xllamacpp"), reason="the local extra is not installed")
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_every_client_is_answered(forking: Any, tmp_path: Path) -> None:
    """The `openai` package whole and streamed, `ChatOpenAI`, and LangGraph's client each get an answer, right or wrong;
    a run that was under way when the process was killed is finished by the next one."""
    smollm2_path()
    with started(forking, tmp_path) as (url, process):
        http = sync_client("direct")
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", http_client=http)
        whole = client.chat.completions.create(model="redraft-zero-shot", messages=ASKED)
        assert whole.choices[0].message.content
        assert whole.usage
        assert whole.usage.completion_tokens > 0
        chunks = list(
            client.chat.completions.create(model="redraft-refine", messages=ASKED, stream=True, extra_body=BOUNDS)
        )
        deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
        assert "".join(delta.content or "" for delta in deltas)
        assert any(getattr(delta, "reasoning_content", None) for delta in deltas)
        chat = ChatOpenAI(base_url=f"{url}/v1", api_key="none", model="redraft-zero-shot", http_client=http)
        assert chat.invoke("Write one short sentence about rain.").text
        with get_sync_client(url=url) as sdk:
            name = sdk.threads.create()["thread_id"]
            task = {"task": ASKED[0]["content"], **BOUNDS}
            output: Any = sdk.runs.wait(name, "refine", input=task)
            assert output["answer"]
            assert output["stop_reason"] in ("accepted", "max_rounds", "no_progress")
            run = sdk.runs.create(name, "refine", input=task)
            for part in sdk.runs.join_stream(name, run["run_id"]):
                if part.event == "values" and len(part.data["events"]) > len(output["events"]):
                    break  # a first step is kept
        process.send_signal(signal.SIGKILL)
        process.wait()
    with started(forking, tmp_path) as (url, _), get_sync_client(url=url) as sdk:
        assert sdk.runs.join(name, run["run_id"])["answer"]  # type: ignore[call-overload]
        assert sdk.runs.get(name, run["run_id"])["status"] == "success"
