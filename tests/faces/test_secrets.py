"""A key that is used is seen nowhere: not in a database, a file, a page, a log, an error or an answer."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import subprocess
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from redraft.faces.cli.main import main
from redraft.models import chat_model

KEYS = {"a key by its looks": "sk-mqrked91f2e3d4c5b6zq9w8", "a key like any word": "mqrkedshapeless7f3eq9w8"}
MARKS = ("mqrk", "q9w8")
"""How each key begins and ends: what a provider may repeat of it, and nothing else says."""
ECHOES = {
    "nothing": lambda key: "Incorrect API key provided.",
    "all of it": lambda key: f"Incorrect API key provided: {key}. See {{'Authorization': 'Bearer {key}'}}",
    "its ends": lambda key: f"Incorrect API key provided: {key[:8]}************{key[-4:]}. You can find yours at …",
}
WHOLE = ECHOES["all of it"]
HARDER_KEY = pytest.mark.parametrize("key", [KEYS["a key like any word"]], indirect=True, ids=["a key like any word"])
"""For tests that take long: what only looks like a key is easier to find."""
AGENT = ("--graph", "agent", "--tool", "calculate")
TRAVEL = ("--graph", "travel")
DRAFT, CRITIQUE = "A boat at dawn.", "Name the month, please."


@pytest.fixture(params=KEYS.values(), ids=KEYS)
def key(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What stands in REDRAFT_API_KEY."""
    monkeypatch.setenv("REDRAFT_API_KEY", request.param)
    return str(request.param)


class Provider:
    """A server of models that wants the key, and from some call on refuses it as a provider does."""

    def __init__(self, serve: Callable[..., Any], key: str) -> None:
        self._key, self._serve = key, serve

    def __call__(self, *, good: int = 99, echo: Callable[[str], str] = WHOLE, status: int = 401) -> str:
        """The spec of a model that answers `good` calls and refuses the rest."""
        calls = iter(range(10**6))

        def reply(request: dict[str, Any]) -> Any:
            assert server.headers[-1]["authorization"] == f"Bearer {self._key}"
            if (number := next(calls)) < good:
                return DRAFT if number % 2 == 0 else CRITIQUE
            said = {"message": echo(self._key), "type": "invalid_request_error", "code": "invalid_api_key"}
            headers = {"www-authenticate": f"Bearer {self._key}", "retry-after-ms": "1"}
            return {"status": status, "body": {"error": said}, "headers": headers}

        server = self._serve(reply, api_key=self._key)
        return str(server.spec)


@pytest.fixture
def provider(serve: Callable[..., Any], key: str) -> Provider:
    """Makes models that are asked with the key."""
    return Provider(serve, key)


@pytest.fixture
def seen(shell: Callable[..., Any], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Callable[..., Any]]:
    """Calls the shell; in the end, the key is in nothing that was printed, logged or written."""
    caplog.set_level(logging.DEBUG)
    printed: list[str] = []

    def call(*words: str, code: int | None = None) -> Any:
        shown = shell(*words)
        printed.extend((shown.out, shown.err))
        assert code is None or shown.code == code, shown
        return shown

    yield call
    logged = [logging.Formatter().format(record) for record in caplog.records]
    assert_unseen("\n".join(printed), "\n".join(logged))
    assert_no_file(tmp_path)


def assert_unseen(*texts: str) -> None:
    for text in texts:
        for mark in MARKS:
            at = text.find(mark)
            assert at < 0, text[max(0, at - 200) : at + 100]


def assert_no_file(folder: Path) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    for path in files:
        held = path.read_bytes()
        for mark in MARKS:
            assert mark.encode() not in held, (path, held[max(0, held.find(mark.encode()) - 200) :][:300])


def _every_view(seen: Callable[..., Any], thread: str) -> None:
    for words in (("show", thread), ("history", thread), ("history", thread, "--json"), ("show", thread, "--json")):
        seen(*words)
    seen("threads", "--json")
    seen("tree", thread)
    seen("replay", thread, "--json")
    seen("html", thread, "-o", "page.html")


@HARDER_KEY
@pytest.mark.parametrize(
    ("graph", "good"),
    [
        ((), 99),
        ((), 2),
        ((), 1),
        ((), 0),
        (AGENT, 99),
        (AGENT, 1),
        (AGENT, 0),
        (("--graph", "reasoning"), 0),
        (TRAVEL, 99),
        (TRAVEL, 1),
        (TRAVEL, 0),
    ],
)
def test_a_run_shows_no_key(graph: tuple[str, ...], good: int, seen: Any, provider: Provider) -> None:
    """Whether a run succeeds, fails in the middle or at its start: nothing of it holds the key."""
    model = provider(good=good)
    shown = seen("run", "Write one.", "--model", model, *graph, "--thread", "one", "--max-rounds", "1")
    assert shown.code in ((0, 3) if good == 99 else (1,)), shown
    assert good or "Incorrect API key provided: ***" in shown.err
    _every_view(seen, "one")
    seen("resume", "one")


@HARDER_KEY
@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
@pytest.mark.parametrize("status", [401, 429])
def test_what_a_provider_repeats_of_it_is_left_out(echo: Any, status: int, seen: Any, provider: Provider) -> None:
    """A refusal that quotes the key, or its ends, is told without them, and still says what was wrong."""
    shown = seen("run", "Write one.", "--model", provider(good=0, echo=echo, status=status), "--thread", "one", code=1)
    assert "Incorrect API key provided" in shown.err
    _every_view(seen, "one")


@HARDER_KEY
@pytest.mark.parametrize("good", [99, 1, 0])
def test_an_agent_that_lives_on_shows_no_key(good: int, provider: Provider) -> None:
    """Neither its settings, nor what it says, nor what it remembers of a run that failed, over any preset."""
    from functools import partial

    from redraft.graphs.refining_agent import RefiningAgent
    from redraft.travel.graph import build_travel_graph

    model = chat_model(provider(good=good), max_retries=0)
    agent = RefiningAgent(partial(build_travel_graph, model), max_iterations=1)
    try:
        output = agent.invoke({"task": "Plan a day in Rome."})
    except Exception as error:
        assert good == 0
        assert_unseen("".join(traceback.format_exception(error)), repr(error))
    else:
        assert_unseen(json.dumps(output, default=str))
    assert_unseen(repr(agent), repr(vars(agent)), str(agent.graph), repr(agent.get_status()))


@pytest.mark.one_of_each
@HARDER_KEY
@pytest.mark.parametrize("good", [99, 0])
def test_an_evaluation_shows_no_key(good: int, seen: Any, provider: Provider) -> None:
    """Results, settings, reports and checkpoints of an evaluation hold no key, whether it went well or not."""
    words = ("--methods", "zero-shot,self-refine-1", "--limit", "2", "--out", "out", "--db", "runs.sqlite")
    seen("eval", "bundled", "--model", provider(good=good), *words)
    assert list(Path("out").rglob("run.json"))
    seen("report", "out")


@HARDER_KEY
@pytest.mark.parametrize("good", [99, 1, 0])
def test_a_pipeline_shows_no_key(good: int, seen: Any, provider: Provider) -> None:
    """Neither a pipeline's trace nor its record."""
    steps = "SetTopic('Rain') | UseDraft | UseCritique | UseImprove"
    seen("pipeline", steps, "--model", provider(good=good), "--trace", "--thread", "one")
    seen("pipeline", steps, "--model", provider(good=good), "--json", "--thread", "two")
    _every_view(seen, "one")


@HARDER_KEY
@pytest.mark.parametrize("good", [99, 1, 0])
def test_a_traceback_shows_no_key(
    good: int, provider: Provider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    """`REDRAFT_DEBUG=1` shows where it failed, through every library, and not the key."""
    monkeypatch.setenv("REDRAFT_DEBUG", "1")
    monkeypatch.chdir(tmp_path)
    try:
        main(["run", "Write one.", "--model", provider(good=good), "--thread", "one", "--max-rounds", "1"])
    except SystemExit:
        pass
    except Exception:
        assert_unseen(traceback.format_exc())
    printed = capsys.readouterr()
    assert_unseen(printed.out, printed.err)
    assert_no_file(tmp_path)


@pytest.mark.parametrize(
    "words",
    [
        ("--model", "http://me:{key}@127.0.0.1:9/v1#m"),
        ("--model", "http://127.0.0.1:9/v1?api-key={key}#m"),
        ("--model", "http://{key}@127.0.0.1:99999/v1#m"),
        ("--model", "openai:m", "--critic", "https://me:{key}@nowhere/v1#m"),
        ("--model", "scripted:none.jsonl", "--db", "postgresql://me:{key}@127.0.0.1:9/x"),
        ("--model", "scripted:none.jsonl", "--db", "postgresql://127.0.0.1:9/x?password={key}"),
        ("--model", "scripted:none.jsonl", "--db", "postgres://me:{key}"),
        ("--model", "scripted:none.jsonl", "--db", "mysql://me:{key}@h/x"),
    ],
)
def test_an_address_with_a_key_is_told_without_it(words: tuple[str, ...], key: str, shell: Any, tmp_path: Path) -> None:
    """A key in an address is refused or unused, and what is said of it leaves it out."""
    (tmp_path / "kept").touch()
    shown = shell("run", "Write one.", *(word.format(key=key) for word in words), "--thread", "one")
    assert shown.code != 0
    assert_unseen(shown.out, shown.err)
    assert_no_file(tmp_path)


@pytest.mark.parametrize("bad", ["\n", "\r\nX-More: 1", "\0", "é", " "], ids=ascii)
@pytest.mark.parametrize("name", ["REDRAFT_API_KEY", "OPENAI_API_KEY"])
def test_a_key_that_no_header_can_hold_is_refused_unseen(
    name: str, bad: str, monkeypatch: pytest.MonkeyPatch, serve: Any
) -> None:
    """A key with a line break in it is refused when the model is built, by the name of its variable alone."""
    if bad == "\0":
        monkeypatch.setattr(os, "environ", {**os.environ, name: f"mqrked{bad}q9w8"})
    else:
        monkeypatch.setenv(name, f"mqrked{bad}q9w8")
    with pytest.raises(ValueError, match=name) as refused:
        chat_model(serve([]).spec if name == "REDRAFT_API_KEY" else "openai:gpt-5-mini")
    assert_unseen(str(refused.value), "".join(traceback.format_exception(refused.value)))


def test_a_model_shows_no_key(provider: Provider, tmp_path: Path) -> None:
    """Neither how a model is printed, nor as LangChain writes it down, nor what a recording keeps."""
    from langchain_core.load import dumps

    model = chat_model(provider(good=1), record=tmp_path / "tape.sqlite", max_retries=0)
    model.invoke("hello")
    with pytest.raises(Exception, match="Incorrect") as refused:
        model.invoke("again")
    inner = model.model if hasattr(model, "model") else model
    assert_unseen(repr(model), str(model), dumps(model), repr(inner), str(getattr(inner, "lc_attributes", "")))
    assert_unseen("".join(traceback.format_exception(refused.value)), repr(refused.value))
    assert_no_file(tmp_path)


@pytest.mark.parametrize("sync", [True, False])
def test_an_error_holds_no_key(sync: bool, provider: Provider) -> None:
    """Whoever looks into a provider's error, its body and its answer included, finds the key nowhere."""
    import openai

    model = chat_model(provider(good=0), max_retries=0)

    def streamed() -> None:
        list(model.stream("hello"))

    async def awaited() -> None:
        await model.ainvoke("hello")

    async def streamed_later() -> None:
        async for _ in model.astream("hello"):
            pass

    ways: list[Callable[[], Any]] = [lambda: model.invoke("hello"), streamed]
    if not sync:
        ways = [lambda: asyncio.run(awaited()), lambda: asyncio.run(streamed_later())]
    for way in ways:
        with pytest.raises(openai.AuthenticationError) as refused:
            way()
        error = refused.value
        answer = error.response
        assert error.status_code == 401
        assert error.code == "invalid_api_key"
        assert_unseen(str(error), repr(error), json.dumps(error.body), answer.text, str(answer.headers))
        assert "***" in error.message


@HARDER_KEY
@pytest.mark.parametrize("good", [99, 1, 0])
def test_traces_and_notebooks_show_no_key(good: int, provider: Provider) -> None:
    """Spans with all texts, and what a notebook displays of a graph and a thread, hold no key."""
    from langgraph.checkpoint.memory import InMemorySaver
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from redraft.faces.views.notebook import show, timeline
    from redraft.graphs.loop import build_refine_graph
    from redraft.server.tracing import instrument
    from redraft.state.threads.thread import Thread

    exporter = InMemorySpanExporter()
    model = chat_model(provider(good=good), max_retries=0)
    graph = build_refine_graph(model, checkpointer=InMemorySaver())
    with instrument(exporter=exporter, show_texts=True):
        try:
            graph.invoke({"task": "Write one.", "limits": {"max_rounds": 1}}, {"configurable": {"thread_id": "one"}})
        except Exception as error:
            assert_unseen(repr(error))
    spans = exporter.get_finished_spans()
    assert spans
    assert_unseen(*(span.to_json() for span in spans))
    for shown in (show(graph), show(Thread(graph, "one")), *([timeline(Thread(graph, "one"))] if good else [])):
        assert_unseen(str(shown), repr(shown), json.dumps(shown._repr_mimebundle_(), default=str))


@HARDER_KEY
def test_a_server_shows_no_key_and_no_token(provider: Provider, key: str, forking: Any, tmp_path: Path) -> None:
    """Not in what callers get, in its metrics, its database or its log: neither the models' key nor callers' tokens."""
    token, wrong = "mqrkedtoken-0123456789abcdefq9w8", "mqrkedwrong-0123456789abcdefq9w8"
    env = {**os.environ, "REDRAFT_SERVE_TOKENS": token, "REDRAFT_API_KEY": key}
    words = ("serve", "--port", "0", "--db", "runs.sqlite", "--model", provider(good=4))
    command = ["-c", "from redraft.faces.cli.main import main; main()", *words]
    told: list[str] = []
    with (
        (tmp_path / "server.log").open("w+") as log,
        forking.start(command, stderr=subprocess.PIPE, stdout=log.fileno(), cwd=tmp_path, env=env) as server,
    ):
        assert server.stderr
        first = server.stderr.readline()
        try:
            url = re.search(r"http://\S+?:\d+", first)
            assert url, first + server.stderr.read()
            with httpx.Client(base_url=url[0], timeout=60, headers={"Authorization": f"Bearer {token}"}) as caller:
                run = {"assistant_id": "refine", "input": {"task": "Write one.", "limits": {"max_rounds": 1}}}
                thread = caller.post("/threads", json={}).json()["thread_id"]
                paths = ("/runs/wait", f"/threads/{thread}/runs/wait", "/runs/wait", "/runs/stream")
                told += [caller.post(path, json=run).text for path in paths]
                chat = {"model": "refine", "messages": [{"role": "user", "content": "Write one."}]}
                told += [caller.post("/v1/chat/completions", json=chat).text]
                told += [caller.post("/v1/chat/completions", json=chat | {"stream": True}).text]
                paths = (f"/threads/{thread}/state", f"/threads/{thread}/history", "/metrics", "/info", "/ok")
                told += [caller.get(path).text for path in paths]
                told.append(caller.get(f"/threads/{wrong}?token={wrong}&api_key={wrong}").text)
                told.append(caller.post("/threads/search", json={"metadata": {}}).text)
            told.append(httpx.get(f"{url[0]}/threads/x", headers={"Authorization": f"Bearer {wrong}"}).text)
            told.append(httpx.get(f"{url[0]}/metrics?token={wrong}", headers={"X-Api-Key": wrong}).text)
        finally:
            server.terminate()
            rest = server.stderr.read()
            server.wait(20)
    assert "A boat" in "".join(told)
    assert "AuthenticationError" in rest + "".join(told)
    assert_unseen(first, rest, *told)
    assert_no_file(tmp_path)
