"""Whatever a model's server does wrong, a call ends, within its time, with a reply that is whole or an error that says
why."""

from __future__ import annotations

import asyncio
import base64
import email
import json
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import openai
import pytest
from redraft.models import BrokenReplyError, chat_model
from redraft.models.openai_chat import WholeChat
from redraft.models.server_replies import key_masked

if TYPE_CHECKING:
    from collections.abc import Callable

SERVER = Path(__file__).parents[2] / "benchmarks" / "fault_server.py"
SCHEMA = {
    "title": "Verdict",
    "type": "object",
    "properties": {"accepted": {"type": "boolean"}},
    "required": ["accepted"],
}
LATE = ("timeout", "drip", "drip_headers")
FAULTS: dict[str, tuple[type[Exception], str]] = {
    "429": (openai.RateLimitError, "429"),
    "429_retry_after": (openai.RateLimitError, "429"),
    "500": (openai.InternalServerError, "500"),
    "503": (openai.InternalServerError, "503"),
    "timeout": (openai.APITimeoutError, "timed out: no whole reply within 0.1 s"),
    "drip": (openai.APITimeoutError, "timed out: no whole reply within 0.1 s"),
    "drip_headers": (openai.APITimeoutError, "timed out: no whole reply within 0.1 s"),
    "reset": (openai.APIConnectionError, "Connection error: "),
    "truncated": (openai.APIConnectionError, "Connection error: "),
    "invalid_json": (BrokenReplyError, "not JSON but"),
    "empty_choices": (BrokenReplyError, "there is no choice in"),
    "wrong_type": (BrokenReplyError, "<h1>Sign in to this network</h1>"),
}
IN_STREAMS = {
    "truncated": (BrokenReplyError, "stream ended before the reply did"),
    "invalid_json": (BrokenReplyError, "JSON can't be read"),
    "empty_choices": (BrokenReplyError, "stream ended before the reply did"),
    "wrong_type": (BrokenReplyError, "no stream but '<html><body><h1>Sign in"),
}
"""Where a stream says it otherwise."""
NOT_REPEATED = ("invalid_json", "empty_choices", "wrong_type", "refusal")
"""What comes with status 200 is not asked for again."""
IN_MID_STREAM = ("reset", "truncated", "drip")
"""Nor is a stream that has begun."""


async def _streamed(model: Any) -> str:
    return "".join([chunk.text async for chunk in model.astream("x")])


WAYS: dict[str, Callable[[Any], Any]] = {
    "invoke": lambda model: model.invoke("x").text,
    "ainvoke": lambda model: asyncio.run(model.ainvoke("x")).text,
    "structured invoke": lambda model: model.with_structured_output(SCHEMA, include_raw=True).invoke("x")["raw"].text,
    "structured ainvoke": lambda model: (
        asyncio.run(model.with_structured_output(SCHEMA, include_raw=True).ainvoke("x"))["raw"].text
    ),
    "stream": lambda model: "".join(chunk.text for chunk in model.stream("x")),
    "astream": lambda model: asyncio.run(_streamed(model)),
}


@pytest.mark.one_of_each("kind")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_that_stays_is_named(fail: Callable[..., Any], kind: str, way: str) -> None:
    """The error is of the kind that one expects, in plain words, after as many attempts as the policy allows."""
    streamed = "stream" in way
    error, words = IN_STREAMS.get(kind, FAULTS[kind]) if streamed else FAULTS[kind]
    server = fail(rate=1, kinds=[kind])
    model = chat_model(server.spec, max_retries=1, timeout_s=0.1 if kind in LATE else 60)
    with pytest.raises(error) as raised:
        WAYS[way](model)
    assert words in str(raised.value)
    once = kind in NOT_REPEATED or (streamed and kind in IN_MID_STREAM)
    sent = [attempt.number for attempt in server.attempts]
    if kind not in LATE:
        assert sent == ([0] if once else [0, 1])
    else:  # a busy machine may give up on a request before the server has it
        assert max(sent, default=0) <= 1
    if (kind, streamed) != ("drip", True):  # and on a stream before it has begun
        assert ("attempt 2" in str(raised.value)) == (not once and not kind[0].isdigit())


@pytest.mark.one_of_each("kind")
@pytest.mark.parametrize(
    ("kind", "way"),
    [
        (kind, way)
        for kind in FAULTS
        for way in WAYS
        if kind not in NOT_REPEATED and not ("stream" in way and kind in IN_MID_STREAM)
    ],
)
def test_a_fault_that_passes_is_retried(fail: Callable[..., Any], kind: str, way: str) -> None:
    """The second attempt's reply counts, with nothing of the first in it."""
    server = fail(rate=0, first=[kind])
    text = WAYS[way](chat_model(server.spec, max_retries=4, timeout_s=0.4 if kind in LATE else 60))
    assert text.split() in [said.split() for said in server.said]
    sent = [attempt.fault for attempt in server.attempts]
    assert sent == [kind, None] if kind not in LATE else sent[:2] == [kind, None]  # a busy machine may be late again
    assert {attempt.call for attempt in server.attempts} == {server.attempts[0].call}


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
def test_retry_after_is_waited_for(fail: Callable[..., Any], way: str) -> None:
    """A server that says when to come back is not asked before."""
    server = fail(rate=0, first=["429_retry_after"], retry_after_s=0.3)
    WAYS[way](chat_model(server.spec, max_retries=1, timeout_s=60))
    refused, again = server.attempts
    assert again.began - refused.ended >= 0.3


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
def test_an_hour_is_not_waited_for(fail: Callable[..., Any], way: str) -> None:
    """A server that is away for long is not asked again: the run ends, and can be resumed."""
    server = fail(rate=1, kinds=["429_retry_after"], retry_after_s=3600)
    with pytest.raises(openai.RateLimitError):
        WAYS[way](chat_model(server.spec, max_retries=3, timeout_s=60))
    assert len(server.attempts) == 1


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
def test_a_refusal_keeps_its_mark(fail: Callable[..., Any], way: str) -> None:
    """Whoever looks for a refusal finds it, streamed or not, and it is asked for once."""
    server = fail(rate=1, kinds=["refusal"])
    model = chat_model(server.spec, timeout_s=60)

    async def gathered() -> Any:
        found = [chunk async for chunk in model.astream("x")]
        return sum(found[1:], found[0])

    if way == "stream":
        first, *rest = model.stream("x")
        message: Any = sum(rest, first)
    elif way == "astream":
        message = asyncio.run(gathered())
    else:
        message = model.invoke("x") if way == "invoke" else asyncio.run(model.ainvoke("x"))
    assert message.additional_kwargs["refusal"] == "This request is against the rules."
    assert message.text == ""
    assert len(server.attempts) == 1


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_a_server_that_is_not_there_is_not_late(way: str) -> None:
    """A refused connection is told as one, sync and async, and not as a time-out."""
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        model = chat_model(f"http://127.0.0.1:{taken.getsockname()[1]}/v1#m", max_retries=0)
        with pytest.raises(openai.APIConnectionError, match=r"Connection error: .") as raised:
            WAYS[way](model)
    assert not isinstance(raised.value, openai.APITimeoutError)


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_a_broken_reply_shows_no_key(fail: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """A page that repeats the key of the request is quoted without it."""
    monkeypatch.setenv("REDRAFT_API_KEY", "abcdef-0123456789")
    monkeypatch.setattr("redraft_tests_fault_server.PAGE", "<p>You sent abcdef-0123456789</p>")
    server = fail(rate=1, kinds=["wrong_type"])
    with pytest.raises(BrokenReplyError, match=r"You sent \*\*\*"):
        WAYS[way](chat_model(server.spec))


def test_the_same_seed_fails_alike(fail: Callable[..., Any]) -> None:
    """Which request fails, and how, does not depend on the order in which they arrive."""
    request: dict[str, Any] = {"messages": [{"content": "x"}]}
    bodies = [str(number).encode() for number in range(200)]

    def faults(order: list[bytes], seed: int) -> dict[bytes, Any]:
        server = fail(rate=0.2, seed=seed)
        return {body: server.arrived(request, body, 0)[0].fault for body in order}

    assert faults(bodies, 1) == faults(bodies[::-1], 1)
    assert faults(bodies, 1) != faults(bodies, 2)
    assert 20 < sum(fault is not None for fault in faults(bodies, 1).values()) < 60


def test_the_server_that_fails_is_a_command() -> None:
    """Whoever starts it gets an address for `chat_model`, and at the end what it did."""
    command = [sys.executable, str(SERVER), "--port", "0", "--rate", "1", "--kinds", "503"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            spec = server.stdout.readline().strip()
            with pytest.raises(openai.InternalServerError, match="503"):
                chat_model(spec, max_retries=0).invoke("x")
        finally:
            server.send_signal(signal.SIGINT)
        assert server.stdout.read().split() == ["1", "503"]
    assert server.returncode == 0


def test_openais_own_models_are_read_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """What holds for a server of one's own holds for `openai:`."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none-at-all")
    assert isinstance(chat_model("openai:gpt-5-mini"), WholeChat)


def test_time_between_two_pieces_is_not_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who takes the pieces of a stream slowly has them all: only the server's time counts."""
    clock = [0.0]
    monkeypatch.setattr("redraft.models.http_clients.time", SimpleNamespace(monotonic=lambda: clock[0]))
    go_on = threading.Event()

    def serve(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection, connection.makefile("rb") as asked:
            head = email.message_from_bytes(b"".join(iter(asked.readline, b"\r\n")).partition(b"\r\n")[2])
            asked.read(int(head["content-length"]))  # with a part of it unread, closing would reset the connection
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
            connection.sendall(event({"role": "assistant", "content": "one"}))
            go_on.wait(30)
            connection.sendall(event({"content": " two"}) + event({}, "stop") + b"data: [DONE]\n\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=[listening])
        thread.start()
        model = chat_model(f"http://127.0.0.1:{listening.getsockname()[1]}/v1#m", timeout_s=30, max_retries=0)
        pieces = model.stream("x")
        found = next(pieces).text
        clock[0] += 1000
        go_on.set()
        found += "".join(piece.text for piece in pieces)
        thread.join()
    assert found == "one two"


def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    told = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps(told | {'choices': [choice]})}\n\n".encode()


@pytest.mark.parametrize("before", ["", "u", "us", "user:"])
@pytest.mark.parametrize("after", ["", "x", " and more"])
def test_a_refusal_repeats_no_part_of_the_key_in_any_writing(before: str, after: str) -> None:
    """A provider that echoes a key in base64, hex or escapes, with a name or not, or a part of it, shows none of it."""
    key = "any-Shape_of7key91f2+e3d4"
    data = f"{before}{key}{after}".encode()
    for said in (
        data.hex(),
        data.hex().upper(),
        base64.b64encode(data).decode(),
        base64.urlsafe_b64encode(data).decode(),
        "".join(f"%{one:02X}" for one in data),
        "".join(f"&#{one};" for one in data),
        "".join(f"&#x{one:04x};" for one in data),
    ):
        shown = key_masked(f"The key {said} is wrong.", key)
        assert shown.startswith("The key ")
        assert shown.endswith(" is wrong.")
        assert len(shown) < len("The key *** is wrong.") + -(-len(said) // len(data)) * len(before + after) + 4
    assert key_masked(f"It has {key[6:17]} within.", key) == "It has *** within."
    assert key_masked("Nothing of it.", key) == "Nothing of it."
