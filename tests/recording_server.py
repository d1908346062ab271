"""A small HTTP server that keeps what is asked of it and answers in JSON, in place of LangSmith, say."""

from __future__ import annotations

import gzip
import json
import re
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Asked(NamedTuple):
    """One request."""

    method: str
    path: str
    query: dict[str, list[str]]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class RecordingServer:
    """Its address, and what was asked of it."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = answers
        """By a regular expression of `METHOD path`: what is answered, or a function of the request."""
        self.asked: list[Asked] = []
        self.url = ""

    def to(self, pattern: str) -> list[Asked]:
        """Return the requests whose `METHOD path` matches."""
        return [one for one in self.asked if re.fullmatch(pattern, f"{one.method} {one.path}")]

    @property
    def told(self) -> bytes:
        """All bodies that were sent here."""
        return b"\n".join(one.body for one in self.asked)


@contextmanager
def recording_server(answers: Mapping[str, Any]) -> Iterator[RecordingServer]:
    """Serve on a free port of this machine until the block ends; what has no answer is answered by 404."""
    recorded = RecordingServer(answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            url = urlsplit(self.path)
            asked = Asked(self.command, url.path, parse_qs(url.query), body)
            recorded.asked.append(asked)
            line = f"{asked.method} {asked.path}"
            found = next((value for key, value in recorded.answers.items() if re.fullmatch(key, line)), None)
            found = found(asked) if callable(found) else found
            sent = b"" if found is None else json.dumps(found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        do_GET = do_POST = do_PATCH = do_PUT = answer

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    recorded.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield recorded
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
