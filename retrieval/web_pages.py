"""Web pages by address: one at a time, bounded in size and time. Internal."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

__all__ = ["fetched"]

MOST_BYTES = 20_000_000
MOST_SECONDS = 30.0
"""For all of it: names, connections, headers, body and redirects."""
MOST_REDIRECTS = 5

KIND_OF = {
    "application/pdf": ".pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/x-ipynb+json": ".ipynb",
    "application/xhtml+xml": ".html",
    "text/html": ".html",
    "text/markdown": ".md",
    "text/x-rst": ".rst",
}
"""File endings by media type; for other text the name in the address says more."""


def fetched(url: str, *, known: Sequence[str]) -> tuple[bytes, str]:
    """Fetch an address, and return its data and its kind as a file ending.

    A redirect is followed within http and https; from a public address it may not lead to one on this machine or in its
    own network, which only the user may name.

    Args:
        url: The address.
        known: Endings that can be read.

    Raises:
        ValueError: It is no http or https address, holds a password, or can't be read; the message says why.
    """
    from anyio.from_thread import start_blocking_portal

    # In a thread of its own: the caller may be in an event loop. What interrupts it ends the request.
    with start_blocking_portal() as portal:
        return portal.call(_fetched, url, known)


async def _fetched(url: str, known: Sequence[str]) -> tuple[bytes, str]:
    import httpx2

    # Others unpack a few bytes to any size at once.
    headers = {"User-Agent": "redraft", "Accept-Encoding": "gzip, deflate"}
    try:
        async with asyncio.timeout(MOST_SECONDS), httpx2.AsyncClient(timeout=MOST_SECONDS, headers=headers) as client:
            target = _checked(url, httpx2)
            public = await _is_public(target.host)
            for _ in range(MOST_REDIRECTS + 1):
                async with client.stream("GET", target) as response:
                    if response.has_redirect_location:
                        target = _checked(str(target.join(response.headers["location"])), httpx2)
                        if public and not await _is_public(target.host):
                            raise ValueError(f"{url} leads to {target.host}, which is not in the public web")
                        continue
                    if response.status_code != 200:
                        raise ValueError(f"{url} can't be read: it answers with status {response.status_code}")
                    data = bytearray()
                    async for piece in response.aiter_bytes():
                        data += piece
                        if len(data) > MOST_BYTES:
                            raise ValueError(f"{url} can't be read: it has over {MOST_BYTES // 10**6} MB")
                    return bytes(data), _kind(response.headers.get("content-type", ""), target.path, known, url)
    except TimeoutError:
        raise ValueError(f"{url} can't be read: it takes over {MOST_SECONDS:g} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise ValueError(f"{url} can't be read: {type(error).__name__}: {error}") from None
    raise ValueError(f"{url} can't be read: it is redirected over {MOST_REDIRECTS} times")


def _checked(url: str, httpx2: Any) -> Any:
    """Return an address that may be asked."""
    address = httpx2.URL(url)
    if address.scheme not in ("http", "https") or not address.host:
        raise ValueError(f"{url!r} is no http or https address")
    if address.userinfo:
        raise ValueError(f"leave the password out of the address of {address.host}: it would stand in every record")
    return address


async def _is_public(host: str) -> bool:
    try:
        addresses = await asyncio.get_running_loop().getaddrinfo(host, None, proto=socket.IPPROTO_TCP)
    except OSError:
        # Behind a proxy names may be known to it alone; a bare name is of one's own network.
        return "." in host
    return all(ipaddress.ip_address(str(entry[4][0]).partition("%")[0]).is_global for entry in addresses)


def _kind(content_type: str, path: str, known: Sequence[str], url: str) -> str:
    media_type = content_type.partition(";")[0].strip().casefold()
    if media_type in KIND_OF:
        return KIND_OF[media_type]
    named = PurePosixPath(path).suffix.casefold()
    if named and named in known:
        return named
    if media_type.startswith("text/"):
        return ".txt"
    raise ValueError(f"{url} can't be read: it is {media_type or 'of a kind that the server does not say'}")
