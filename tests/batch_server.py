"""A real HTTP server with the batch interfaces of OpenAI and Anthropic on loopback, beside their calls one by one.

In a test: `with BatchServer(lambda body: "4") as server: …`. A reply is a text, or a dict as in `openai_server`, with
`status` for an error, or `expire: true` for a call that a batch does not come to. A batch is under way for so many
looks, and then has ended; `refuse` is why none is taken, once it is looked at. What came is in `batches`, a list of
calls each, and in `singles`. With `--port`, a process of its own.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

__all__ = ["BatchServer"]


class BatchServer:
    """Serves until its `with` block ends."""

    def __init__(
        self, answer: Callable[[dict[str, Any]], Any], *, looks: int = 1, refuse: str = "", without: bool = False
    ) -> None:
        self.answer = answer
        self.looks = looks
        self.refuse = refuse
        self.without = without
        """Whether it has no batches at all."""
        self.lose: list[str] = []
        """For each batch to come: `before` or `after` it is taken, the connection is dropped."""
        self.batches: list[dict[str, Any]] = []
        self.singles: list[dict[str, Any]] = []
        self.files: list[str] = []
        self.lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._http.daemon_threads = True
        self._http.owner = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def spec(self) -> str:
        return f"{self.root}/v1#test-model"

    def calls(self) -> list[dict[str, Any]]:
        """The bodies of all calls in batches."""
        return [body for batch in self.batches for body in batch["calls"].values()]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def take(self, calls: dict[str, Any], metadata: Any, kind: str) -> dict[str, Any]:
        with self.lock:
            batch = {"id": f"{kind}_{len(self.batches) + 1}", "calls": calls, "metadata": metadata, "looks": 0}
            batch["at"] = time.time()
            self.batches.append(batch)
        return batch

    def found(self, batch_id: str) -> dict[str, Any] | None:
        return next((batch for batch in self.batches if batch["id"] == batch_id), None)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def owner(self) -> BatchServer:
        return self.server.owner  # type: ignore[attr-defined, no-any-return]

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Stay silent."""

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _send(self, status: int, body: object) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("retry-after-ms", "1")
        self.end_headers()
        self.wfile.write(data)

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length", 0)))

    def do_POST(self) -> None:
        path, body = urlsplit(self.path).path, self._body()
        if path == "/v1/files":
            # The one part of the form that has a file name.
            part = next(part for part in body.split(b"--" + self._boundary()) if b"filename=" in part)
            with self.owner.lock:
                self.owner.files.append(part.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n").decode())
                name = f"file_{len(self.owner.files) - 1}"
            self._send(200, {"id": name, "object": "file", "bytes": 1, "created_at": 1, "filename": "calls.jsonl"})
        elif path in ("/v1/batches", "/v1/messages/batches"):
            self._submit(json.loads(body), anthropic="messages" in path)
        else:
            call = json.loads(body)
            with self.owner.lock:
                self.owner.singles.append(call)
            self._send(*_answered(self.owner, call, anthropic="messages" in path))

    def _boundary(self) -> bytes:
        return str(self.headers["content-type"]).partition("boundary=")[2].encode()

    def _submit(self, body: Any, *, anthropic: bool) -> None:
        lose = self.owner.lose.pop(0) if self.owner.lose else ""
        if lose != "before":
            if anthropic:
                calls = {one["custom_id"]: one["params"] for one in body["requests"]}
            else:
                lines = self.owner.files[int(body["input_file_id"].removeprefix("file_"))].splitlines()
                calls = {entry["custom_id"]: entry["body"] for entry in map(json.loads, lines)}
            batch = self.owner.take(calls, body.get("metadata"), "msgbatch" if anthropic else "batch")
        if lose:
            self.close_connection = True
        else:
            self._send(200, _shown(self.owner, batch))

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if self.owner.without:
            self._send(404, {"error": {"message": f"no {url.path}"}})
            return
        parts = url.path.removeprefix("/v1/").removeprefix("messages/").split("/")
        if parts == ["batches"]:
            limit = int(parse_qs(url.query).get("limit", ["20"])[0])
            newest = [_shown(self.owner, batch) for batch in reversed(self.owner.batches)][:limit]
            ends = {"first_id": newest[0]["id"], "last_id": newest[-1]["id"]} if newest else {}
            self._send(200, {"object": "list", "data": newest, "has_more": False, **ends})
        elif parts[0] == "files":
            self._send(200, "\n".join(self._lines(parts[1])).encode())
        elif (batch := self.owner.found(parts[1])) is None:
            self._send(404, {"type": "error", "error": {"type": "not_found_error", "message": f"no {parts[1]}"}})
        elif parts[2:] == ["results"]:
            self._send(200, "\n".join(self._results(batch)).encode())
        else:
            batch["looks"] += 1
            self._send(200, _shown(self.owner, batch))

    def _lines(self, name: str) -> list[str]:
        """The lines of an output file `out_ID`, or of an error file `err_ID`."""
        kind, _, batch_id = name.partition("_")
        found = []
        for call, body in (self.owner.found(batch_id) or {"calls": {}})["calls"].items():
            status, reply = _answered(self.owner, body, anthropic=False)
            if (status == 200) == (kind == "out"):
                response = None if status == EXPIRED else {"status_code": status, "request_id": "r", "body": reply}
                error = {"code": "batch_expired", "message": "not in time"} if status == EXPIRED else None
                line = {"id": "l", "custom_id": call, "response": response, "error": error}
                found.append(json.dumps(line, ensure_ascii=False))
        return found[::-1]  # in no order that anyone may count on

    def _results(self, batch: dict[str, Any]) -> list[str]:
        found = []
        for call, body in batch["calls"].items():
            status, reply = _answered(self.owner, body, anthropic=True)
            if status == 200:
                result = {"type": "succeeded", "message": reply}
            elif status == EXPIRED:
                result = {"type": "expired"}
            else:
                result = {"type": "errored", "error": reply}
            found.append(json.dumps({"custom_id": call, "result": result}, ensure_ascii=False))
        return found[::-1]


EXPIRED = 0


def _shown(owner: BatchServer, batch: dict[str, Any]) -> dict[str, Any]:
    """A batch as its provider shows it."""
    ended, total = batch["looks"] > owner.looks, len(batch["calls"])
    if batch["id"].startswith("msgbatch"):
        counts = {"processing": 0 if ended else total, "succeeded": total if ended else 0}
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(batch["at"]))
        return {
            "id": batch["id"],
            "type": "message_batch",
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": {**counts, "errored": 0, "canceled": 0, "expired": 0},
            "created_at": at,
            "expires_at": at,
            "results_url": f"{owner.root}/v1/messages/batches/{batch['id']}/results" if ended else None,
        }
    status = ("failed" if owner.refuse else "completed") if ended else "in_progress"
    return {
        "id": batch["id"],
        "object": "batch",
        "endpoint": "/v1/chat/completions",
        "completion_window": "24h",
        "input_file_id": "file_0",
        "created_at": int(batch["at"]),
        "metadata": batch["metadata"],
        "status": status,
        "request_counts": {"total": total, "completed": total if ended else 0, "failed": 0},
        "errors": {"object": "list", "data": [{"message": owner.refuse}]} if status == "failed" else None,
        "output_file_id": f"out_{batch['id']}" if status == "completed" else None,
        "error_file_id": f"err_{batch['id']}" if status == "completed" else None,
    }


def _answered(owner: BatchServer, body: dict[str, Any], *, anthropic: bool) -> tuple[int, dict[str, Any]]:
    reply = owner.answer(body)
    fields = {"text": reply} if isinstance(reply, str) else dict(reply)
    if fields.get("expire"):
        return EXPIRED, {}
    if status := fields.get("status"):
        message = fields.get("message", f"scripted error {status}")
        kind = {400: "invalid_request_error", 500: "api_error", 529: "overloaded_error"}.get(status, "api_error")
        return status, {"type": "error", "error": {"type": kind, "message": message}}
    if anthropic:
        return 200, {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [{"type": "text", "text": fields["text"]}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 2},
        }
    message = {"role": "assistant", "content": fields["text"]}
    return 200, {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
    }
