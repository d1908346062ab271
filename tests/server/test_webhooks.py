"""A webhook is told of a run's end, and leads to no machine that only the server reaches."""

from __future__ import annotations

import http.server
import json
import queue
import socketserver
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.errors import UnprocessableEntityError
from pydantic import ValidationError
from redraft.server import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

TASK = {"task": "Write about autumn."}
INSIDE = ("http://127.0.0.1/", "http://[::1]:80/", "https://10.0.0.8/x", "http://169.254.169.254/latest/meta-data",
          "http://192.168.1.1/", "http://[::ffff:127.0.0.1]/", "http://0.0.0.0/", "http://[64:ff9b::7f00:1]/",
          "http://[2002:7f00:1::]/", "http://224.0.0.1/")  # fmt: skip
WRONG = ("ftp://example.org/", "file:///etc/passwd", "example.org", "http://", "http://me:secret@example.org/",
         "http://example.org/" + "x" * 3000)  # fmt: skip


class Told:
    """A web server of this machine, with what it was told and what it answers."""

    def __init__(self) -> None:
        self.heard: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
        self.answers = [500, 200]
        told = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                told.heard.put((self.path, json.loads(body)))
                self.send_response(told.answers.pop(0))
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)


@pytest.fixture
def told() -> Iterator[Told]:
    found = Told()
    with found.server:
        thread = threading.Thread(target=found.server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield found
        found.server.shutdown()
        thread.join()


def test_a_webhook_is_called_when_its_run_ends(start_server: Any, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host that the owner allows is told of the run with its values, once more where it had trouble; a name that
    leads to this machine is not called, and no redirect is followed."""
    monkeypatch.setattr("redraft.server.api.webhooks.PAUSES_S", (0.0, 0.0))
    server = start_server(allow_webhooks=("127.0.0.1",))
    port = told.server.server_port
    with get_sync_client(url=server.url) as client:
        client.runs.wait(None, "refine", input=TASK, webhook=f"http://localhost:{port}/blocked")
        run = client.runs.create(None, "refine", input=TASK, webhook=f"http://127.0.0.1:{port}/hook?a=1")
        for _ in range(2):
            path, body = told.heard.get(timeout=20)
            assert (path, body["run_id"], body["status"]) == ("/hook?a=1", run["run_id"], "success")
            assert body["values"]["answer"] == "second draft"
        told.answers = [302, 200]
        client.runs.create(None, "refine", input=TASK, webhook=f"http://127.0.0.1:{port}/moved")
        assert told.heard.get(timeout=20)[0] == "/moved"
        told.answers = [200, 200]
        client.runs.create(None, "refine", input=TASK, webhook=f"http://127.0.0.1:{port}/last")
        assert told.heard.get(timeout=20)[0] == "/last"
    server.stop()
    assert told.heard.empty()


@pytest.fixture
def dripping() -> Iterator[tuple[int, queue.Queue[Any]]]:
    """A receiver that reads a request and never ends the headers of its answer; its port, and each of its callers."""
    ended, came = threading.Event(), queue.Queue[Any]()

    class Drip(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            came.put(self.client_address)
            with suppress(OSError):
                self.request.sendall(b"HTTP/1.1 200 OK\r\n")
                while not ended.wait(0.05):
                    self.request.sendall(b"X-More: 1\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Drip) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server.server_address[1], came
        ended.set()
        server.shutdown()
        thread.join()


def test_receivers_that_drip_keep_nobody_else_waiting(
    start_server: Any,
    told: Told,
    dripping: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """While every receiver of one caller's answers without end, another caller's webhook is called; of the first, no
    more wait to be told than may."""
    monkeypatch.setattr("redraft.server.api.webhooks.MOST_WAITING", 17)
    tokens = ("first-token-0123456789", "second-token-0123456789")
    server = start_server(allow_webhooks=("127.0.0.1",), tokens=tokens)
    port, came = dripping
    told.answers = [200]
    with get_sync_client(url=server.url, api_key=tokens[0]) as slow:
        for _ in range(20):
            slow.runs.wait(None, "refine", input=TASK, webhook=f"http://127.0.0.1:{port}/")
    came.get(timeout=20)
    with get_sync_client(url=server.url, api_key=tokens[1]) as client:
        client.runs.create(None, "refine", input=TASK, webhook=f"http://127.0.0.1:{told.server.server_port}/mine")
        assert told.heard.get(timeout=20)[0] == "/mine"
    assert "17 of its caller's wait" in caplog.text


def test_a_webhook_that_is_answered_without_end_is_given_up(
    start_server: Any, dripping: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A request has one time limit, however its answer comes: it is tried three times, and that is all."""
    monkeypatch.setattr("redraft.server.api.webhooks.PAUSES_S", (0.0, 0.0))
    monkeypatch.setattr("redraft.server.api.webhooks.TIMEOUT_S", 2.0)
    server, (port, came) = start_server(allow_webhooks=("127.0.0.1",)), dripping
    with get_sync_client(url=server.url) as client:
        client.runs.wait(None, "refine", input=TASK, webhook=f"http://127.0.0.1:{port}/")
        for _ in range(3):
            came.get(timeout=20)
        while "can't be called: TimeoutError" not in caplog.text:
            client.http.get("/healthz")
    server.stop()
    assert came.empty()


def test_a_webhook_leads_out(server: Any, talking: Any) -> None:
    """An address of this machine or its network, or none at all, is refused before the run is made."""
    with get_sync_client(url=server.url) as client:
        for url in (*INSIDE, *WRONG):
            with pytest.raises(UnprocessableEntityError, match="webhook"):
                client.runs.create(None, "refine", input=TASK, webhook=url)
    assert talking.model.calls == []
    with pytest.raises(ValidationError, match="its host"):
        Settings(allow_webhooks=("http://10.0.0.8/",))
