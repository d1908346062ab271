"""Webhooks: a request to the address that a caller named, when a run has ended. Internal.

A caller names the address, so that it leads to no machine that the caller could not reach without the server: every
address of its host is a public one, it is looked up once and then connected to, and no redirect is followed.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..engine.background import Background
from ..engine.records import now
from ..engine.runs import LOG, BadRequestError, Run
from .wire import dumps

__all__ = ["Webhooks", "checked_webhook"]

LONGEST = 2000
AT_ONCE = 4
"""Requests under way of one caller's; nobody waits for another's."""
MOST_WAITING = 256
"""Ends of one caller's runs that are still to be told; what comes beyond is not kept."""
TIMEOUT_S = 10.0
"""Of one request, from the look-up of its host to its answer's headers, however slowly it is answered."""
PAUSES_S = (1.0, 5.0)
"""Before it is tried again."""


class _BlockedError(Exception):
    """The host leads where it may not."""


def checked_webhook(url: str, allowed: Sequence[str]) -> str:
    """Return the address of a webhook as it is kept.

    Args:
        url: What the caller gives.
        allowed: Hosts that may be inside one's own network.

    Raises:
        BadRequestError: It is no address, or one of this machine or its network.
    """
    import httpx2

    try:
        address = httpx2.URL(url)
    except httpx2.InvalidURL:
        address = httpx2.URL("")
    if address.scheme not in ("http", "https") or not address.host or len(url) > LONGEST:
        raise BadRequestError(f"webhook is an http or https address of at most {LONGEST} characters")
    if address.userinfo:
        raise BadRequestError("leave the password out of the webhook's address")
    try:
        named = ipaddress.ip_address(address.host)
    except ValueError:  # a name, which is looked up when it is used
        return url
    if address.host not in allowed and not _is_public(named):
        raise BadRequestError(NOT_PUBLIC)
    return url


NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def _is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Return True for a public address whose IPv4 form, where a gateway would use one, is public too."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.sixtofour or address.ipv4_mapped
        if address in NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None and not _is_public(inner):
            return False
    return address.is_global and not address.is_multicast


NOT_PUBLIC = "a webhook leads to a public address; --allow-webhook HOST allows one in the server's own network"


class Webhooks:
    """Calls the webhooks of runs that ended, some of each caller's at a time, in the background.

    Args:
        run_json: Returns a run as clients read it.
        allowed: Hosts that may be inside one's own network.
    """

    def __init__(self, run_json: Callable[[Run], Mapping[str, Any]], allowed: Sequence[str]) -> None:
        self._run_json = run_json
        self._allowed = frozenset(allowed)
        self._turns: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(AT_ONCE))
        self._waiting = Counter[str]()
        self._background = Background()

    def finished(self, run: Run, output: Mapping[str, Any] | None) -> None:
        """Call the webhook of a run that ended, where it has one."""
        if (url := run.request.get("webhook")) and self._waiting[run.caller.id] >= MOST_WAITING:
            LOG.warning("the webhook of run %s is not called: %d of its caller's wait", run.id, MOST_WAITING)
        elif url:
            self._waiting[run.caller.id] += 1
            body = dumps({**self._run_json(run), "values": output, "webhook_sent_at": now()})
            self._background.do(self._call(url, run.id, run.caller.id, body))

    async def _call(self, url: str, run_id: str, caller: str, body: bytes) -> None:
        try:
            for pause in (*PAUSES_S, None):
                try:
                    # Its turn ends before the pause; the client's own time limit is for each piece that it reads.
                    async with self._turns[caller], asyncio.timeout(TIMEOUT_S):
                        status = await self._post(url, body)
                except _BlockedError:
                    LOG.warning("the webhook of run %s leads into this network, and is not called", run_id)
                    return
                except Exception as error:  # whatever goes wrong between here and there
                    status, outcome = 0, type(error).__name__
                else:
                    outcome = f"status {status}"
                if 200 <= status < 300:
                    return
                # What the caller got wrong stays wrong.
                if pause is None or 300 <= status < 500:
                    LOG.warning("the webhook of run %s can't be called: %s", run_id, outcome)
                    return
                await asyncio.sleep(pause)
        finally:
            self._waiting[caller] -= 1

    async def _post(self, url: str, body: bytes) -> int:
        import httpx2

        target = httpx2.URL(url)
        port = target.port or {"http": 80, "https": 443}[target.scheme]
        entries = await asyncio.get_running_loop().getaddrinfo(target.host, port, type=socket.SOCK_STREAM)
        addresses = [str(entry[4][0]).partition("%")[0] for entry in entries]
        if target.host not in self._allowed and not all(_is_public(ipaddress.ip_address(one)) for one in addresses):
            raise _BlockedError
        # The address that was looked at is the one that is connected to; the certificate is still the host's.
        async with (
            httpx2.AsyncClient(timeout=TIMEOUT_S, trust_env=False, follow_redirects=False) as client,
            client.stream(
                "POST",
                target.copy_with(host=addresses[0]),
                content=body,
                headers={"Host": target.netloc.decode(), "Content-Type": "application/json", "User-Agent": "redraft"},
                extensions={"sni_hostname": target.host},
            ) as response,
        ):
            return int(response.status_code)  # what it says is not read
