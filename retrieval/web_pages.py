"""Web pages by address: one at a time, bounded in size and time. Internal."""

from __future__ import annotations

import ipaddress
import socket
import time
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["fetched"]

MOST_BYTES = 20_000_000
MOST_SECONDS = 30.0
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
    import httpx2

    deadline = time.monotonic() + MOST_SECONDS
    try:
        with httpx2.Client(timeout=MOST_SECONDS, headers={"User-Agent": "redraft"}) as client:
            target = _checked(url, httpx2)
            public = _is_public(target.host)
            for _ in range(MOST_REDIRECTS + 1):
                with client.stream("GET", target) as response:
                    if response.has_redirect_location:
                        target = _checked(str(target.join(response.headers["location"])), httpx2)
                        if public and not _is_public(target.host):
                            raise ValueError(f"{url} leads to {target.host}, which is not in the public web")
                        continue
                    if response.status_code != 200:
                        raise ValueError(f"{url} can't be read: it answers with status {response.status_code}")
                    data = bytearray()
                    for piece in response.iter_bytes():
                        data += piece
                        if len(data) > MOST_BYTES:
                            raise ValueError(f"{url} can't be read: it has over {MOST_BYTES // 10**6} MB")
                        if time.monotonic() > deadline:
                            raise ValueError(f"{url} can't be read: it takes over {MOST_SECONDS:g} s")
                    return bytes(data), _kind(response.headers.get("content-type", ""), target.path, known, url)
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


def _is_public(host: str) -> bool:
    try:
        addresses = socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)
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
