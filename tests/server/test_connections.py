"""Whoever holds connections without asking for anything shuts nobody out."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HALF = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
HELD = b"POST /threads HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"


@pytest.fixture
def dial() -> Iterator[Callable[..., socket.socket]]:
    """Open a connection and send these bytes."""
    with ExitStack() as stack:

        def dial(url: str, sent: bytes) -> socket.socket:
            where = urlsplit(url)
            made = stack.enter_context(socket.create_connection((where.hostname, where.port), timeout=20))
            made.sendall(sent)
            return made

        yield dial


def was_closed(connection: socket.socket) -> bool:
    """Wait for the server to say something; `True` where it hangs up."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def read_answer(connection: socket.socket) -> None:
    """Read the whole answer of `/healthz`."""
    while b"true" not in connection.recv(4096):
        pass


def test_half_open_connections_shut_nobody_out(start_server: Callable[..., Any], dial: Any) -> None:
    """While somebody holds hundreds of connections with half a header, the oldest are closed and others are served."""
    server = start_server(max_header_seconds=600)
    first = [dial(server.url, HALF) for _ in range(300)]
    assert httpx.get(f"{server.url}/healthz", timeout=20).status_code == 200
    assert was_closed(first[0])
    first[-1].sendall(b"x\r\n\r\n")
    assert first[-1].recv(15) == b"HTTP/1.1 200 OK"


def test_headers_must_come_in_time(start_server: Callable[..., Any], dial: Any) -> None:
    """A header that does not end in time ends the connection, the first of one and a later one alike."""
    server = start_server(max_header_seconds=0.5)
    never, later = dial(server.url, HALF), dial(server.url, HALF + b"\r\n\r\n")
    read_answer(later)
    later.sendall(HALF)
    assert was_closed(never)
    assert was_closed(later)


def test_a_peer_holds_so_many_connections(start_server: Callable[..., Any], dial: Any) -> None:
    """Beyond its bound a peer's connections are closed: idle ones first, and never one that is being served."""
    server = start_server(max_connections_a_peer=3)
    held = [dial(server.url, HELD) for _ in range(2)]
    idle = dial(server.url, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    read_answer(idle)
    held.append(dial(server.url, HELD))
    assert was_closed(idle)
    assert was_closed(dial(server.url, HELD))
    for one in held:
        one.sendall(b'{"a": {}}')
        assert one.recv(15) == b"HTTP/1.1 200 OK"
