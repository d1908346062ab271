"""A real HTTP server that speaks OpenAI's chat-completions protocol on loopback, with scripted replies.

In a test: `with OpenAIServer(["first reply", "second"]) as server: chat_model(server.spec)`.
As its own process, for tests that kill the client: `python tests/openai_server.py --replies FILE --log FILE`; the first
line on standard output is the address to give to `chat_model`.

A reply is a text, or a dict: `text`, `input_tokens`, `output_tokens`, `delay_s`, `message` (fields merged into the
reply's message, e.g. `tool_calls` or `refusal`), `finish_reason`, `system_fingerprint`, `prompt_tokens_details` (of the
usage), `no_stream_usage` (a stream
says nothing of its tokens, though it is asked), or for an HTTP error
`status`, `headers`, `body`, or `drop: true` to close the connection without an answer. A list gives one reply to each
request in turn; a function is called with the parsed request. The log is JSON Lines, flushed line by line:
`{"event": "start", "n": 1, "request": …}` when a request came in, `{"event": "end", "n": 1, "status": 200}` when its
answer was written.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

__all__ = ["OpenAIServer", "reply_by_rules"]

Reply = str | dict[str, Any]
Replies = Sequence[Reply] | Callable[[dict[str, Any]], Reply]

MODEL = "test-model"


class OpenAIServer:
    """Serves until its `with` block ends; `requests` and `headers` hold what clients sent, in order of arrival."""

    def __init__(
        self,
        replies: Replies,
        *,
        log_path: str | Path | None = None,
        delay_s: float = 0.0,
        api_key: str | None = None,
        port: int = 0,
    ) -> None:
        """Open the port; `api_key=None` accepts any key, `delay_s` is waited before each reply."""
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self._replies = replies
        self._delay_s = delay_s
        self._api_key = api_key
        self._lock = threading.Lock()
        self._log = Path(log_path).open("a", encoding="utf-8") if log_path else None  # noqa: SIM115
        self._http = _Server(("127.0.0.1", port), _Handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    @property
    def spec(self) -> str:
        return f"{self.base_url}#{MODEL}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
        if self._log:
            self._log.close()

    def serve_forever(self) -> None:
        self._http.serve_forever()

    def take(self, request: dict[str, Any], headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """The number of a request that just arrived, and the reply to it."""
        with self._lock:
            self.requests.append(request)
            self.headers.append(headers)
            number = len(self.requests)
            self._write({"event": "start", "n": number, "request": request})
        if self._api_key is not None and headers.get("authorization") != f"Bearer {self._api_key}":
            return number, {"status": 401, "body": {"error": {"message": "wrong key", "type": "auth"}}}
        if callable(self._replies):
            reply = self._replies(request)
        elif number <= len(self._replies):
            reply = self._replies[number - 1]
        else:
            reply = {"status": 400, "body": {"error": {"message": f"no reply scripted for request {number}"}}}
        fields = {"text": reply} if isinstance(reply, str) else dict(reply)
        time.sleep(fields.get("delay_s", self._delay_s))
        return number, fields

    def done(self, number: int, status: int) -> None:
        with self._lock:
            self._write({"event": "end", "n": number, "status": status})

    def _write(self, entry: dict[str, Any]) -> None:
        if self._log:
            self._log.write(json.dumps(entry) + "\n")
            self._log.flush()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Else a test that opens many connections at once has some refused.
    request_queue_size = 256
    owner: OpenAIServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Headers and body are two writes, which Nagle's algorithm would hold 40 ms apart.
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Stay silent; the log file has it all."""

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (BrokenPipeError, ConnectionResetError):
            # The client was killed or gave up: that is what some tests are about.
            self.close_connection = True

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self._json(200, {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "tests"}]})
        else:
            self._json(404, {"error": {"message": f"no {self.path}"}})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path != "/v1/chat/completions":
            self._json(404, {"error": {"message": f"no {self.path}"}})
            return
        request = json.loads(body)
        number, reply = self.server.owner.take(request, {name.lower(): value for name, value in self.headers.items()})
        status = int(reply.get("status", 200))
        if reply.get("drop"):
            self.close_connection = True
        elif status != 200:
            error = {"error": {"message": f"scripted error {status}", "type": "scripted"}}
            self._json(status, reply.get("body", error), reply.get("headers", {}))
        elif request.get("stream"):
            self._stream(request, reply, number)
        else:
            self._json(200, _completion(request, reply, number))
        self.server.owner.done(number, 0 if reply.get("drop") else status)

    def _json(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, request: dict[str, Any], reply: dict[str, Any], number: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in [*_chunks(request, reply, number), "[DONE]"]:
            text = event if isinstance(event, str) else json.dumps(event)
            data = f"data: {text}\n\n".encode()
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")


def _usage(request: dict[str, Any], reply: dict[str, Any]) -> dict[str, Any]:
    asked = sum(len(str(message.get("content", "")).split()) for message in request.get("messages", []))
    tokens_in = reply.get("input_tokens", asked)
    tokens_out = reply.get("output_tokens", len(reply.get("text", "").split()))
    cached = {"prompt_tokens_details": reply["prompt_tokens_details"]} if "prompt_tokens_details" in reply else {}
    counted = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}
    return counted | cached


def _head(request: dict[str, Any], number: int, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": 1, "model": request.get("model", MODEL)}


def _completion(request: dict[str, Any], reply: dict[str, Any], number: int) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply.get("text", ""), **reply.get("message", {})}
    finish = reply.get("finish_reason", "stop")
    choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
    said = {name: reply[name] for name in ("system_fingerprint",) if name in reply}
    return _head(request, number, "chat.completion") | {"choices": [choice], "usage": _usage(request, reply)} | said


def _chunks(request: dict[str, Any], reply: dict[str, Any], number: int) -> list[dict[str, Any]]:
    head = _head(request, number, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": None}

    words = reply.get("text", "").split(" ")
    pieces = [word if index == 0 else f" {word}" for index, word in enumerate(words)]
    found = [chunk({"role": "assistant", "content": "", **reply.get("message", {})})]
    found += [chunk({"content": piece}) for piece in pieces if piece] + [chunk({}, "stop")]
    if (request.get("stream_options") or {}).get("include_usage") and not reply.get("no_stream_usage"):
        found.append(head | {"choices": [], "usage": _usage(request, reply)})
    return found


def reply_by_rules(rules: list[dict[str, Any]], default: Reply) -> Callable[[dict[str, Any]], Reply]:
    """A function that gives the reply of the first rule whose `contains` is in the request's last message.

    `reply` of a rule is a text or a dict as above; `delay_s` may stand beside it.
    """

    def choose(request: dict[str, Any]) -> Reply:
        last = str(request["messages"][-1]["content"])
        for rule in rules:
            if rule["contains"] in last:
                reply = rule["reply"]
                fields = {"text": reply} if isinstance(reply, str) else dict(reply)
                return {"delay_s": rule["delay_s"], **fields} if "delay_s" in rule else fields
        return default

    return choose


def _from_file(path: Path) -> Replies:
    """A JSON list of texts, or of rules of which one may be `{"default": …}`."""
    found = json.loads(path.read_text(encoding="utf-8"))
    if any(isinstance(entry, dict) and ("contains" in entry or "default" in entry) for entry in found):
        default = next((entry["default"] for entry in found if "default" in entry), "OK")
        return reply_by_rules([entry for entry in found if "contains" in entry], default)
    return list(found)


def main() -> None:
    parser = argparse.ArgumentParser(description="An OpenAI-compatible server with scripted replies.")
    parser.add_argument("--replies", type=Path, required=True, help="JSON list of replies or rules")
    parser.add_argument("--log", type=Path, help="JSON Lines file of requests")
    parser.add_argument("--delay-s", type=float, default=0.0, help="seconds before each reply")
    parser.add_argument("--port", type=int, default=0, help="port to listen on; a free one when 0")
    given = parser.parse_args()
    server = OpenAIServer(_from_file(given.replies), log_path=given.log, delay_s=given.delay_s, port=given.port)
    print(server.spec, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
