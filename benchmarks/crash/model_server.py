"""A model on loopback whose reply depends on the request alone, and which notes what it was asked and answered."""

from __future__ import annotations

import hashlib
import http.client
import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

__all__ = ["ModelServer"]


class ModelServer:
    """Speaks OpenAI's protocol until its `with` block ends.

    Args:
        delay_s: How long a reply takes at most; each takes half of it or more, by its request.
    """

    def __init__(self, *, delay_s: float) -> None:
        self.delay_s = delay_s
        self.answered: Counter[str] = Counter()
        """How often each request got its answer, by its hash."""
        self.in_flight = 0
        self.may_answer = threading.Event()
        """While this is clear, no reply is sent."""
        self.may_answer.set()
        self.asked: list[tuple[str, float]] = []
        """Each request that was ever answered: its hash, and when it came, on the monotonic clock."""
        self._answers: list[tuple[str, float]] = []
        self._connections = 0
        self._changed = threading.Condition()
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.model = self
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def spec(self) -> str:
        """The spec for `chat_model`."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1#crash-test"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def wait_for(self, more: int, *, alive: Any) -> bool:
        """Return when so many more requests are answered, or `False` once nobody is `alive` to ask."""
        with self._changed:
            wanted = self.answered.total() + more
            while self.answered.total() < wanted:
                if not alive():
                    return False
                self._changed.wait(0.05)
            return True

    def settle(self) -> None:
        """Return when everything that was ever sent here is answered, once nobody is left to send more."""
        probe = http.client.HTTPConnection(*self._http.server_address[:2])  # accepted after all that came before
        probe.request("GET", "/")
        probe.getresponse().read()
        probe.close()
        with self._changed:
            self._changed.wait_for(lambda: self._connections == 0)

    def answers(self) -> list[tuple[str, float]]:
        """Return what was answered since this was last called: each request's hash, and when on the monotonic clock."""
        with self._changed:
            found, self._answers = self._answers, []
            return found

    def connected(self, change: int) -> None:
        """Note a connection that was accepted, or ended."""
        with self._changed:
            self._connections += change
            self._changed.notify_all()

    def begin(self) -> None:
        """Note a request."""
        with self._changed:
            self.in_flight += 1
            self._changed.notify_all()

    def end(self, key: str, since: float) -> None:
        """Note an answer: it is paid, whether or not anybody is still there to read it."""
        with self._changed:
            self.asked.append((key, since))
            self.in_flight -= 1
            self.answered[key] += 1
            self._answers.append((key, time.monotonic()))
            self._changed.notify_all()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    model: ModelServer

    def process_request(self, request: Any, client_address: Any) -> None:
        self.model.connected(1)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.model.connected(-1)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Stay silent."""

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (BrokenPipeError, ConnectionResetError):  # the client was killed
            self.close_connection = True

    def do_GET(self) -> None:
        self.send_error(404)

    def do_POST(self) -> None:
        model, since = self.server.model, time.monotonic()
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        model.begin()
        asked = json.dumps([request["messages"], request.get("response_format")], sort_keys=True)
        key = hashlib.sha256(asked.encode()).hexdigest()
        time.sleep(model.delay_s * (0.5 + int(key[:4], 16) / 0x1FFFF))
        model.may_answer.wait()
        data = json.dumps(completion(request, key)).encode()
        model.end(key, since)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


FINISHED = ("stop", "tool_calls")


def completion(request: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the answer to a request, a function of it: a draft, a verdict that accepts one draft in three, or where
    there are tools, and none was called yet, a call of the first."""
    last = str(request["messages"][-1]["content"])
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if request.get("tools") and all(one["role"] != "tool" for one in request["messages"]):
        asked = {"name": request["tools"][0]["function"]["name"], "arguments": json.dumps({"word": key[:8]})}
        message["tool_calls"] = [{"id": f"call-{key[:12]}", "type": "function", "function": asked}]
    elif "response_format" in request or last.startswith("You check"):
        good = int(key[4:8], 16) % 3 == 0
        message["content"] = json.dumps(
            {"feedback": "" if good else f"Mend {key[:6]}.", "score": 1.0 if good else 0.3, "accepted": good}
        )
    else:
        message["content"] = f"Thinking of {key[:12]}.\nThe answer is {key[12:24]}"
    return {
        "id": key[:16],
        "object": "chat.completion",
        "created": 1,
        "model": request["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": FINISHED["tool_calls" in message]}],
        "usage": {"prompt_tokens": len(last.split()), "completion_tokens": 9, "total_tokens": len(last.split()) + 9},
    }
