"""Connection bounds: time for a request's headers, and how many connections a peer may hold. Internal.

uvicorn has a limit for all connections together and none for what comes before a request, so that whoever opens enough
of them and sends nothing would shut everybody out.
"""

from __future__ import annotations

import ipaddress
import logging
from asyncio import TimerHandle
from collections import OrderedDict, defaultdict
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from .settings import Settings

__all__ = ["MOST_CONNECTIONS", "server_options"]

LOG = logging.getLogger("redraft.server")
MOST_CONNECTIONS = 4096
MOST_HALF_OPEN = 256
"""Connections whose first request is not whole yet; those of clients are for milliseconds."""


def server_options(settings: Settings) -> dict[str, Any]:
    """Return uvicorn's configuration."""
    return {
        "http": _bounded(Connections(header_s=settings.max_header_seconds, most=settings.max_connections_a_peer)),
        "log_level": "warning",
        "access_log": False,
        "server_header": False,
        "timeout_keep_alive": 30,
        "timeout_graceful_shutdown": 2,
        "limit_concurrency": MOST_CONNECTIONS,
        "ws": "none",
    }


class Connections:
    """The connections of a server by peer. Where there are too many, the oldest that asks for nothing is closed.

    Args:
        header_s: Seconds within which a request's headers must have arrived.
        most: Connections of a peer. Of these only requests that are being served are never closed; where all are, a
            further one is.
    """

    def __init__(self, *, header_s: float, most: int) -> None:
        self._header_s = header_s
        self._most = most
        self._peers: defaultdict[str, set[Any]] = defaultdict(set)
        self._idle: defaultdict[str, OrderedDict[Any, None]] = defaultdict(OrderedDict)
        """Connections without a request, half-open ones among them, the oldest first."""
        self._timers: dict[Any, TimerHandle] = {}
        """Of those that are half-open."""

    def opened(self, connection: Any) -> None:
        peer = _peer(connection)
        self._peers[peer].add(connection)
        self._idle[peer][connection] = None
        self.wait(connection)
        if len(self._peers[peer]) > self._most:
            self._close_oldest(peer, "a peer holds as many connections as it may")
        if len(self._timers) > MOST_HALF_OPEN:
            half_open = {
                peer: sum(connection in self._timers for connection in idle) for peer, idle in self._idle.items()
            }
            # Whoever opens them loses them, and nobody else.
            self._close_oldest(max(half_open, key=lambda peer: half_open[peer]), "too many connections send no request")

    def wait(self, connection: Any) -> None:
        """Give a connection so many seconds for the headers of its next request."""
        if connection not in self._timers:
            self._timers[connection] = connection.loop.call_later(self._header_s, self._close, connection)

    def began(self, connection: Any) -> None:
        """Note that a request's headers are whole."""
        self._idle[_peer(connection)].pop(connection, None)
        self._stop_timer(connection)

    def rest(self, connection: Any) -> None:
        """Note that a request is answered; how long a connection may rest then is uvicorn's to say."""
        self._idle[_peer(connection)][connection] = None

    def lost(self, connection: Any) -> None:
        peer = _peer(connection)
        self._stop_timer(connection)
        if peer in self._peers:
            self._peers[peer].discard(connection)
            self._idle[peer].pop(connection, None)
            if not self._peers[peer]:
                del self._peers[peer], self._idle[peer]

    def _stop_timer(self, connection: Any) -> None:
        if (timer := self._timers.pop(connection, None)) is not None:
            timer.cancel()

    def _close_oldest(self, peer: str, why: str) -> None:
        LOG.debug("%s", why)
        # The newest is among them, and is closed where all others are being served.
        self._close(next(iter(self._idle[peer])))

    def _close(self, connection: Any) -> None:
        connection.transport.abort()
        self.lost(connection)


def _peer(connection: Any) -> str:
    """Return the peer of a connection: its IPv4 address, or the IPv6 network (/64) of one customer."""
    host = connection.client[0] if connection.client else ""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return str(host)
    return str(address) if address.version == 4 else str(ipaddress.ip_network((address, 64), strict=False))


def _bounded(connections: Connections) -> type[Any]:
    """Return uvicorn's protocol with these bounds."""

    class BoundedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            connections.opened(self)

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            super().data_received(data)
            if self.cycle is not before:
                connections.began(self)
            elif before is None or before.response_complete:
                connections.wait(self)

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.cycle.response_complete and not self.transport.is_closing():
                connections.rest(self)

        def connection_lost(self, exc: Exception | None) -> None:
            connections.lost(self)
            super().connection_lost(exc)

    return BoundedProtocol
