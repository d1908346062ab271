"""A GGUF file runs inside the process, for this process alone, and ends with it."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from pydantic import BaseModel
from redraft.models import PriceTable, chat_model, embedded, provider_of
from redraft.models.weights import smollm2_path

if TYPE_CHECKING:
    from pathlib import Path

CALL = """
import sys, threading
from redraft.models import chat_model
model = chat_model("local", max_output_tokens=2000, max_retries=0)
"""

ENDINGS = {
    "answered": CALL + "assert model.invoke('Say hello.', max_tokens=5).text",
    "mid-answer in a thread": CALL
    + """
started = threading.Event()
def ask():
    for chunk in model.stream("Write a very long story."):
        started.set()
threading.Thread(target=ask, daemon=True).start()
started.wait()
""",
    "left mid-stream": CALL + "next(iter(model.stream('Write a very long story.')))",
    "Ctrl-C": CALL
    + """
for chunk in model.stream("Write a very long story."):
    raise KeyboardInterrupt
""",
    "waiting in a thread": CALL
    + """
import langchain_openai, openai
sent = threading.Event()
client = model.http_client
client.event_hooks = {"request": [lambda request: sent.set()]}
def ask():
    try:
        model.invoke("Write a very long story.")
    except openai.APIConnectionError:
        pass
threading.Thread(target=ask, daemon=True).start()
sent.wait()
""",
    "called while it ends": CALL
    + """
import openai
from redraft.models import embedded
sent, go = threading.Event(), threading.Event()
def hook(request):
    sent.set()
    go.wait()
model.http_client.event_hooks = {"request": [hook]}
def ask():
    try:
        model.invoke("Write a very long story.")
    except openai.APIConnectionError:
        pass
asking = threading.Thread(target=ask, daemon=True)
hang_up = embedded._hang_up
def hang_up_and_go_on(ports):
    hang_up(ports)
    go.set()
    asking.join(5)
embedded._hang_up = hang_up_and_go_on
asking.start()
sent.wait()
""",
    "another client waits": CALL
    + """
import http.client, json
connection = http.client.HTTPConnection(model.openai_api_base.split("/")[2])
headers = {"Authorization": "Bearer " + model.openai_api_key.get_secret_value(), "Content-Type": "application/json"}
body = {"messages": [{"role": "user", "content": "Write a very long story."}], "max_tokens": 3000}
connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
def wait():
    try:
        connection.getresponse().read()
    except (http.client.HTTPException, OSError):
        pass
threading.Thread(target=wait, daemon=True).start()
""",
}


class Weather(BaseModel):
    """The weather."""

    sunny: bool


@pytest.mark.embedded
async def test_it_answers() -> None:
    """`local` writes text, streams it, fills a schema and counts its tokens, sync and async."""
    model = chat_model("local", temperature=0, seed=1, max_output_tokens=12)
    message = model.invoke("Say hello.")
    assert message.text
    assert message.usage_metadata is not None
    assert 0 < message.usage_metadata["output_tokens"] <= 12
    chunks = [chunk async for chunk in model.astream("Say hello.")]
    assert len([chunk for chunk in chunks if chunk.text]) > 1
    assert any(chunk.usage_metadata for chunk in chunks)
    roomy = chat_model("local", temperature=0, seed=1, max_output_tokens=200)  # white space between the tokens counts
    assert isinstance(roomy.with_structured_output(Weather).invoke("It is sunny today."), Weather)


@pytest.mark.embedded
def test_it_costs_nothing_known() -> None:
    """The embedded model has no price."""
    model = chat_model("local")
    assert provider_of(model) is None
    assert PriceTable().cost_usd("smollm2-135m-instruct", input_tokens=1, output_tokens=1) is None


@pytest.mark.embedded
def test_one_server_for_all() -> None:
    """Two models, in any thread, share one server; a call more than it has slots waits its turn."""
    with ThreadPoolExecutor(4) as pool:
        models = list(pool.map(lambda _: chat_model("local", max_output_tokens=3), range(4)))
    assert len({model.openai_api_base for model in models}) == 1  # type: ignore[attr-defined]

    async def ask_all() -> int:
        return len(await asyncio.gather(*(model.ainvoke("Hi") for model in models)))

    assert asyncio.run(ask_all()) == 4


def _get(url: str, *, key: str | None, origin: str, method: str = "GET") -> tuple[int, dict[str, str]]:
    headers = {"Origin": origin} | ({"Authorization": f"Bearer {key}"} if key else {})
    request = urllib.request.Request(url, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, dict(response.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers)


@pytest.mark.embedded
@pytest.mark.parametrize("origin", ["http://evil.example", "http://localhost:3000", "http://127.0.0.1:3000", "null"])
def test_web_pages_cant_use_it(origin: str) -> None:
    """Without the key there is no answer, and a browser shows no page what it answered."""
    server = embedded.serve_gguf(smollm2_path(), model_name="smollm2-135m-instruct")
    root = server.base_url.removesuffix("/v1")
    assert server.base_url.startswith("http://127.0.0.1:")
    assert server.api_key not in repr(server)
    for key, method, path, status in [
        (server.api_key, "GET", "/v1/models", 200),
        (None, "GET", "/v1/models", 401),
        ("wrong", "GET", "/v1/models", 401),
        (None, "OPTIONS", "/v1/chat/completions", 200),
        (server.api_key, "GET", "/slots", 501),
        (server.api_key, "GET", "/metrics", 501),
        (None, "GET", "/", 404),
    ]:
        found, headers = _get(root + path, key=key, origin=origin, method=method)
        assert (path, found) == (path, status)
        # A browser compares the allowed origin with the page's own; an empty one equals none.
        assert headers.get("Access-Control-Allow-Origin", "") == ""
        assert headers.get("Access-Control-Allow-Credentials", "false") == "false"
        assert headers.get("Access-Control-Allow-Headers", "") == ""


@pytest.mark.one_of_each
@pytest.mark.embedded
@pytest.mark.parametrize("how", ENDINGS)
def test_the_process_ends_cleanly(how: str) -> None:
    """However a program ends, with an answer under way or not, it ends at once and without a crash or a word."""
    done = subprocess.run([sys.executable, "-c", ENDINGS[how]], capture_output=True, text=True, timeout=60, check=False)
    interrupted = how == "Ctrl-C"
    assert done.returncode == (-2 if interrupted else 0), done.stderr
    assert done.stdout == ""
    if how in ("answered", "left mid-stream"):
        assert done.stderr == ""


@pytest.mark.embedded
def test_a_damaged_model_is_an_error(tmp_path: Path) -> None:
    """A cut-short GGUF file is refused with a sentence, not a crash."""
    whole = smollm2_path()
    for length in (4, 4000, 4_000_000):
        cut = tmp_path / f"cut{length}.gguf"
        with whole.open("rb") as source:
            cut.write_bytes(source.read(length))
        with pytest.raises(ValueError, match="damaged or cut short"):
            chat_model(f"gguf:{cut}")


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    """A file that is no GGUF model is named."""
    text = tmp_path / "model.gguf"
    text.write_text("hello")
    with pytest.raises(ValueError, match="is not a GGUF file"):
        chat_model(f"gguf:{text}")
    with pytest.raises(ValueError, match="no GGUF file at"):
        chat_model(f"gguf:{tmp_path}")


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without xllamacpp the message gives the command, before anything is downloaded."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "xllamacpp" else find(name, *a))
    with pytest.raises(ImportError, match=r'pip install "\.\[local\]"'):
        chat_model("local")


def test_without_a_library_of_the_system_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a fresh machine without libgomp the message names its package, before anything is downloaded."""
    broken = tmp_path / "xllamacpp.py"
    broken.write_text("raise ImportError('libgomp.so.1: cannot open shared object file: No such file or directory')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "xllamacpp", raising=False)
    monkeypatch.setenv("REDRAFT_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ImportError, match=r"apt-get install libgomp1 .*dnf install libgomp "):
        chat_model("local")
    assert not (tmp_path / "cache").exists()
    broken.write_text("raise ImportError('another reason')")
    with pytest.raises(ImportError, match=r"^another reason$"):
        chat_model("local")


@pytest.mark.parametrize(("cores", "load", "threads"), [(1, 0, 1), (2, 0.2, 1), (8, 0, 7), (8, 5.2, 3), (8, 30, 1)])
def test_it_computes_on_idle_cores(monkeypatch: pytest.MonkeyPatch, cores: int, load: float, threads: int) -> None:
    """The model computes on the cores that are idle when it is loaded, one at least, and leaves one to others."""
    monkeypatch.setattr("os.process_cpu_count", lambda: cores, raising=False)
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    assert embedded._idle_cores() == threads


@pytest.mark.parametrize("given", ["0", "-1", "two", "1.5", "9" * 9, "٣"])
def test_a_setting_that_makes_no_sense_is_refused(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    """Settings of local models are whole numbers from 1 up; another is named before anything is loaded."""
    monkeypatch.setenv("REDRAFT_LOCAL_SLOTS", given)
    with pytest.raises(ValueError, match="REDRAFT_LOCAL_SLOTS must be a whole number from 1"):
        chat_model("local")


@pytest.mark.embedded
def test_writer_and_critic_keep_their_prompts() -> None:
    """A GGUF model that two callers ask in turn reads what each repeats once, and says what came from its cache."""
    texts = ("A river. " * 30, "Is there a lamp? " * 20)
    model = chat_model(f"gguf:{smollm2_path()}", temperature=0, max_output_tokens=1)
    told = [model.invoke(f"{text}{number}").usage_metadata for number in (1, 2) for text in texts]
    assert all(one and one["input_token_details"]["cache_read"] > 0.9 * one["input_tokens"] for one in told[2:])
