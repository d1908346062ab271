"""A model server that fails on purpose: it speaks OpenAI's protocol, and answers a set share of requests with a fault.

`python benchmarks/fault_server.py --rate 0.2 --seed 1` prints the address to give to `chat_model` or `--model`, and
when it is stopped with Ctrl-C how often it did what. `--kinds timeout drip` picks the faults; all are in `KINDS`.

Which request fails, and how, follows from the seed, the body of the request and how often that body came before: the
same in every run, whatever the order in which requests arrive.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import socket
import struct
import threading
import time
from collections import Counter
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["KINDS", "Attempt", "FaultServer", "healthy_text"]

KINDS = {
    "429": "too many requests, and no word on when to come back",
    "429_retry_after": "too many requests, with Retry-After",
    "500": "an internal error",
    "503": "unavailable",
    "timeout": "no answer, on an open connection",
    "reset": "the connection is reset in the middle of the reply",
    "truncated": "the reply ends in the middle; a stream ends as if it were whole",
    "invalid_json": "the reply is cut JSON, of the announced length",
    "empty_choices": "a completion without a choice",
    "refusal": "the model refuses, by the protocol's own mark",
    "wrong_type": "a page of HTML, with status 200",
    "drip": "a byte now and then, and never the reply",
    "drip_headers": "the same, from the first header on",
}
"""What can go wrong, and what the client sees then."""
STATUS = {"429": 429, "429_retry_after": 429, "500": 500, "503": 503}
PAGE = "<html><body><h1>Sign in to this network</h1></body></html>"
REFUSAL = "This request is against the rules."
MOST_DRIPS = 1200
MODEL = "fault-test"


@dataclass
class Attempt:
    """One request that arrived."""

    call: str
    """Which call of a client it belongs to: the body of the request, and how many calls had that body before."""
    number: int
    """The client's own count of its attempts at the call, from 0 (`x-stainless-retry-count`)."""
    fault: str | None
    began: float
    """When it had arrived, on the monotonic clock; `ended`, just before the answer was written."""
    ended: float | None = None
    asked: str = ""
    """The last message of the request."""


def healthy_text(request: dict[str, Any], digest: str) -> str:
    """Return what the model says when nothing fails: a draft, or a verdict that accepts two drafts in three."""
    if "response_format" in request:
        good = int(digest[:4], 16) % 3 > 0
        said = f"{'Right' if good else 'Mend'} {digest[:12]}."
        return json.dumps({"feedback": said, "score": 1.0 if good else 0.3, "accepted": good})
    return f"Thinking of {digest[:12]}.\nThe answer is {digest[12:24]}."


class FaultServer:
    """Serves until its `with` block ends; `attempts` holds what arrived, in order.

    Args:
        rate: Share of requests that fail.
        seed: Of the draws.
        kinds: Faults to draw from, all alike.
        first: What becomes of the first requests, one after another: a kind, or `None`; after them `rate` holds.
        text: What a request that does not fail is answered with, from the request and a hash of its body.
        retry_after_s: What `429_retry_after` asks for.
        drip_s: Seconds between two bytes of a drip.
        hold_s: After so many seconds a request without an answer is given up; a client should have left by then.
        port: 0 takes a free one.
    """

    def __init__(
        self,
        *,
        rate: float = 0.2,
        seed: int = 0,
        kinds: Iterable[str] = tuple(KINDS),
        first: Sequence[str | None] = (),
        text: Callable[[dict[str, Any], str], str] = healthy_text,
        retry_after_s: float = 1.0,
        drip_s: float = 0.05,
        hold_s: float = 60.0,
        port: int = 0,
    ) -> None:
        self.rate, self.seed, self.kinds, self.first, self.text = rate, seed, list(kinds), list(first), text
        for kind in [*self.kinds, *(kind for kind in self.first if kind)]:
            if kind not in KINDS:
                raise ValueError(f"{kind!r} is no fault; known are {', '.join(KINDS)}")
        if not 0 <= rate <= 1:
            raise ValueError(f"rate must be a share from 0 to 1, not {rate!r}")
        self.retry_after_s, self.drip_s, self.hold_s = retry_after_s, drip_s, hold_s
        self.attempts: list[Attempt] = []
        self.said: set[str] = set()
        """Every text that was sent whole, in a reply without a fault."""
        self._lock = threading.Lock()
        self._seen: Counter[str] = Counter()
        self._calls: Counter[str] = Counter()
        self._http = _Server(("127.0.0.1", port), _Handler)
        self._http.faults = self
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def spec(self) -> str:
        """The spec for `chat_model`."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1#{MODEL}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def calls(self) -> dict[str, list[Attempt]]:
        """Return the attempts at each call, in order."""
        with self._lock:
            found: dict[str, list[Attempt]] = {}
            for attempt in self.attempts:
                found.setdefault(attempt.call, []).append(attempt)
            return found

    def arrived(self, request: dict[str, Any], body: bytes, number: int) -> tuple[Attempt, str]:
        """Note a request, and return what becomes of it, with the hash of its body."""
        digest = hashlib.sha256(body).hexdigest()
        with self._lock:
            self._seen[digest] += 1
            self._calls[digest] += number == 0
            if len(self.attempts) < len(self.first):
                fault = self.first[len(self.attempts)]
            else:
                draw = random.Random(f"{self.seed} {digest} {self._seen[digest]}")
                fault = draw.choice(self.kinds) if draw.random() < self.rate else None
            call = f"{digest} {self._calls[digest]}"
            attempt = Attempt(call, number, fault, time.monotonic(), asked=str(request["messages"][-1]["content"]))
            self.attempts.append(attempt)
        return attempt, digest

    def answered(self, attempt: Attempt, text: str) -> None:
        """Note that the answer begins to be written."""
        with self._lock:
            attempt.ended = time.monotonic()
            if attempt.fault is None:
                self.said.add(text)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    faults: FaultServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay silent: clients that leave are what this is about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Stay silent."""

    def do_POST(self) -> None:
        faults = self.server.faults
        body = self.rfile.read(int(self.headers["content-length"]))
        request = json.loads(body)
        attempt, digest = faults.arrived(request, body, int(self.headers.get("x-stainless-retry-count", "0")))
        text = faults.text(request, digest)
        faults.answered(attempt, text)
        try:
            self._answer(attempt.fault, request, digest, text)
        except OSError:  # the client left
            self.close_connection = True

    def _answer(self, fault: str | None, request: dict[str, Any], digest: str, text: str) -> None:
        streamed = bool(request.get("stream"))
        whole = _stream(request, digest, text, fault) if streamed else _reply(request, digest, text, fault)
        type_ = "text/event-stream" if streamed else "application/json"
        if fault in STATUS:
            wait = {"Retry-After": f"{self.server.faults.retry_after_s:g}"} if fault == "429_retry_after" else {}
            error = {"error": {"message": f"scripted fault {fault}", "type": "scripted"}}
            self._whole(STATUS[fault], "application/json", json.dumps(error).encode(), wait)
        elif fault == "timeout":
            self._until_left()
        elif fault == "wrong_type":
            self._whole(200, "text/html; charset=utf-8", PAGE.encode())
        elif fault in ("drip", "drip_headers"):
            self._drip(type_, b": wait\n\n" if streamed else b" ", whole, headers=fault == "drip_headers")
        elif fault == "reset" or (fault == "truncated" and not streamed):
            self._head(200, type_, {"Content-Length": str(len(whole))})
            self.wfile.write(whole[: len(whole) // 2])
            self._leave(reset=fault == "reset")
        else:
            self._whole(200, type_, whole)

    def _head(self, status: int, type_: str, more: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": type_, **more}.items():
            self.send_header(name, value)
        self.end_headers()

    def _whole(self, status: int, type_: str, data: bytes, more: dict[str, str] | None = None) -> None:
        self._head(status, type_, {"Content-Length": str(len(data)), **(more or {})})
        self.wfile.write(data)

    def _until_left(self) -> None:
        """Wait until the client closes the connection."""
        self.close_connection = True
        self.connection.settimeout(self.server.faults.hold_s)
        with contextlib.suppress(TimeoutError):
            self.connection.recv(1)

    def _drip(self, type_: str, drop: bytes, whole: bytes, *, headers: bool) -> None:
        """Send one drop after another, each of them in good time for who only looks at the time between two."""
        pause = threading.Event()
        drops = [b"HTTP/1.1 200 OK\r\nX-Slow: ", *[b"x"] * MOST_DRIPS, b"\r\n"] if headers else []
        if not headers:
            self._head(200, type_, {"Content-Length": str(len(drop) * MOST_DRIPS + len(whole))})
            drops = [drop] * MOST_DRIPS + [whole]
        self.close_connection = True
        for one in drops:
            self.wfile.write(one)
            pause.wait(self.server.faults.drip_s)

    def _leave(self, *, reset: bool) -> None:
        self.close_connection = True
        if reset:  # closed for good at once, with the linger time of 0 that makes it a reset
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            os.close(self.connection.detach())


def _reply(request: dict[str, Any], digest: str, text: str, fault: str | None) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if fault == "refusal":
        message |= {"content": None, "refusal": REFUSAL}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    choices = [] if fault == "empty_choices" else [choice]
    data = json.dumps(_head(request, digest, "chat.completion") | {"choices": choices, "usage": _usage(request, text)})
    return data.encode()[: len(data) // 2 if fault == "invalid_json" else None]


def _stream(request: dict[str, Any], digest: str, text: str, fault: str | None) -> bytes:
    head = _head(request, digest, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": None}

    if fault == "refusal":
        said = [chunk({"role": "assistant", "refusal": REFUSAL})]
    else:
        said = [chunk({"role": "assistant", "content": ""})] + [chunk({"content": f"{word} "}) for word in text.split()]
    if fault == "truncated":
        return _events(said[: len(said) // 2])
    said = [head | {"choices": []}] if fault == "empty_choices" else [*said, chunk({}, "stop")]
    if (request.get("stream_options") or {}).get("include_usage"):
        said.append(head | {"choices": [], "usage": _usage(request, text)})
    data = _events(said)
    if fault == "invalid_json":
        return data[: len(data) // 2].rstrip(b'}"\n') + b"\n\n" + DONE
    return data + DONE


DONE = b"data: [DONE]\n\n"


def _events(said: Sequence[dict[str, Any]]) -> bytes:
    return b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in said)


def _head(request: dict[str, Any], digest: str, kind: str) -> dict[str, Any]:
    return {"id": digest[:16], "object": kind, "created": 1, "model": request.get("model", MODEL)}


def _usage(request: dict[str, Any], text: str) -> dict[str, int]:
    asked = sum(len(str(message.get("content")).split()) for message in request["messages"])
    return {"prompt_tokens": asked, "completion_tokens": len(text.split()), "total_tokens": asked + len(text.split())}


def main() -> None:
    """Serve until Ctrl-C, and print what was done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=0.2, help="share of requests that fail (default: 0.2)")
    parser.add_argument("--seed", type=int, default=0, help="of the draws (default: 0)")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS, metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--port", type=int, default=8912, help="0 takes a free one (default: 8912)")
    parser.add_argument("--retry-after-s", type=float, default=1.0, metavar="S", help="in Retry-After (default: 1)")
    given = parser.parse_args()
    server = FaultServer(
        rate=given.rate, seed=given.seed, kinds=given.kinds, retry_after_s=given.retry_after_s, port=given.port
    )
    with server, contextlib.suppress(KeyboardInterrupt):
        print(server.spec, flush=True)
        threading.Event().wait()
    for kind, times in Counter(attempt.fault or "answered" for attempt in server.attempts).most_common():
        print(f"{times:>7}  {kind}")


if __name__ == "__main__":
    main()
