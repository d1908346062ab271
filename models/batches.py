"""Calls of many runs in batches, which OpenAI and Anthropic answer within a day at half the price. Internal.

A call waits where its HTTP request would leave; see `redraft.models.batched`. When none came for some seconds, those
that wait are submitted together. A file keeps what was submitted, as hashes and ids: a process that opens the same file
again, and makes the same calls, waits for that batch and submits nothing twice.
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple, Protocol, Self

from .._files import appended

__all__ = ["BATCHES", "CALL", "OK", "Batches", "Reply", "Service", "State"]


CALL: ContextVar[str] = ContextVar("redraft_call", default="")
"""The call that is made here, the same again after a restart: equal requests of two calls get two replies."""

BATCHES: ContextVar[Batches | None] = ContextVar("redraft_batches", default=None)
"""Where every model that `chat_model` builds here has its calls collected."""


class Reply(NamedTuple):
    """A reply in a batch: status and JSON, as the same call by itself has them."""

    status: int
    body: Any


class State(NamedTuple):
    """A batch under way."""

    done: int
    ended: bool
    refused: str = ""
    """Why all of it was refused."""


class Service(Protocol):
    """Batch interface of a provider, as an account uses it."""

    passing: tuple[type[Exception], ...]
    """Errors of a connection or a server that is down, after which the same is tried again."""

    async def submit(self, mark: str, path: str, calls: Mapping[str, Any]) -> str:
        """Submit the bodies of these calls to a path, and return the batch's id."""

    async def candidates(self, batch: Batch) -> list[str]:
        """Return the ids of batches of which one may be this."""

    async def look(self, batch_id: str) -> State:
        """Return how far a batch is."""

    async def replies(self, batch_id: str) -> dict[str, Reply]:
        """Return the replies of a batch that ended; a call without one was not made."""


@dataclass
class Batch:
    """Calls that are submitted together."""

    calls: dict[str, Any]
    """Bodies by the ids of their calls; of an earlier process only the ids."""
    mark: str = field(default_factory=lambda: token_hex(12))
    """Distinguishes it at the provider before it has an id."""
    id: str | None = ""
    """At the provider; empty until it is known, `None` where it never came there."""
    at: float = field(default_factory=time.time)
    """When it was to be submitted, in seconds since 1970."""
    waiting: Counter[str] = field(default_factory=Counter)
    """Who waits for which call."""
    latest: float = 0.0
    """When the last call came, by the monotonic clock."""
    bytes: int = 0
    task: asyncio.Task[dict[str, Reply]] | None = None


class Batches:
    """Collects the calls of many runs, submits them together, and gives each its reply, at half the price.

    The models that `chat_model` builds in its `with` block have their calls collected. OpenAI, Anthropic and servers
    with OpenAI's `/v1/batches` answer a batch within a day. Another process that opens the same file, and makes the
    same calls, waits for what was submitted; nothing is paid twice.

    Args:
        path: Where it is kept what was submitted, a line of JSON each; made if missing.
        tell: Called with a line for a person when a batch was submitted, and now and then until it has ended.
        quiet_s: How long no call must have come before those that wait are submitted.
        poll_s: How often it is looked whether a batch has ended, and a server that is down is tried again.
        most_calls: So many are submitted without further waiting.
        most_bytes: The same, of their bodies.

    Raises:
        ValueError: The file holds something else.

    Example:
        >>> from redraft import chat_model
        >>> from redraft.models import Batches, ScriptedModel
        >>> with Batches("night/batches.jsonl"):
        ...     chat_model(ScriptedModel(replies=["4"]))
        Traceback (most recent call last):
        ...
        ValueError: ScriptedModel takes no batches: openai:NAME, anthropic:NAME and servers with OpenAI's /v1/batches do
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        tell: Callable[[str], None] = lambda _: None,
        quiet_s: float = 5.0,
        poll_s: float = 30.0,
        most_calls: int = 10_000,
        most_bytes: int = 100_000_000,
    ) -> None:
        self.path = Path(path)
        self._tell = tell
        self._quiet_s = quiet_s
        self._poll_s = poll_s
        self._most = (most_calls, most_bytes)
        self._asked: Counter[str] = Counter()
        self._open: dict[tuple[str, str], Batch] = {}
        self._submitted = _read(self.path)
        self._torn = False
        # In a thread of its own, so that it outlives the loops of its callers.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._token = BATCHES.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        BATCHES.reset(self._token)
        self.close()

    def ask(self, service: Service, place: str, path: str, body: bytes) -> Future[Reply | None]:
        """Return the reply to a call when it is there, or `None` where it is to be asked by itself.

        Args:
            service: Who is asked.
            place: Whose model: only calls to the same place and path go into one batch.
            path: The path of the request.
            body: JSON.
        """
        asked = b"\0".join([CALL.get().encode(), place.encode(), path.encode(), body])
        name = hashlib.sha256(asked).hexdigest()[:48]
        return asyncio.run_coroutine_threadsafe(self._reply(service, (place, path), name, body), self._running())

    def close(self) -> None:
        """End the waiting. What was submitted stays so, and its replies come to whoever opens the file again."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            atexit.unregister(self.close)
            with suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(_cancel_others(), loop).result(_CLOSE_S)
            loop.call_soon_threadsafe(loop.stop)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._open.clear()
                self._asked.clear()
                self._submitted = _read(self.path)
                self._torn = self.path.exists() and not self.path.read_bytes().endswith(b"\n")
                threading.Thread(target=_run, args=[self._loop], name="redraft-batches", daemon=True).start()
                atexit.register(self.close)
            return self._loop

    async def _reply(self, service: Service, place: tuple[str, str], name: str, body: bytes) -> Reply | None:
        # Asked a second time by one process, the same call wants another reply.
        self._asked[name] += 1
        call = f"{name}-{self._asked[name]}"
        try:
            if (earlier := self._submitted.get(call)) is not None:
                earlier.task = earlier.task or asyncio.create_task(self._resumed(service, earlier))
                reply = (await asyncio.shield(earlier.task)).get(call)
                # What failed before the restart is asked anew.
                if reply is not None and reply.status == OK:
                    return reply
            return await self._collected(service, place, call, body)
        except asyncio.CancelledError:
            self._asked[name] -= 1
            raise
        except Exception as error:
            # Raised, it would look to the SDK like a lost connection, and the call would go out by itself.
            return Reply(_REFUSED, {"error": {"message": f"its batch came to nothing: {error!r}"}})

    async def _collected(self, service: Service, place: tuple[str, str], call: str, body: bytes) -> Reply | None:
        """Put a call into the batch that is open, and wait for its reply."""
        batch = self._open.get(place)
        if batch is None:
            batch = self._open[place] = Batch({})
            batch.task = asyncio.create_task(self._answered(service, place, batch))
        batch.calls[call] = json.loads(body)
        batch.bytes += len(body)
        batch.latest = time.monotonic()
        batch.waiting[call] += 1
        if len(batch.calls) >= self._most[0] or batch.bytes >= self._most[1]:
            del self._open[place]
        assert batch.task is not None  # noqa: S101
        try:
            return (await asyncio.shield(batch.task)).get(call)
        finally:
            batch.waiting[call] -= 1

    async def _answered(self, service: Service, place: tuple[str, str], batch: Batch) -> dict[str, Reply]:
        """Submit a batch when no further call comes, and return its replies."""
        while self._open.get(place) is batch and (left := batch.latest + self._quiet_s - time.monotonic()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(left)
        if self._open.get(place) is batch:
            del self._open[place]
        # Whoever was cancelled wants no reply.
        batch.calls = {call: body for call, body in batch.calls.items() if batch.waiting[call]}
        if not batch.calls:
            return {}
        batch.at = time.time()
        self._keep({"mark": batch.mark, "to": place[0], "at": batch.at, "calls": list(batch.calls)})
        try:
            batch.id = await self._at_last(service, lambda: service.submit(batch.mark, place[1], batch.calls), batch)
        except Exception as error:
            status, said = getattr(error, "status_code", None), getattr(error, "body", None)
            if status is None:
                raise
            self._keep({"mark": batch.mark, "id": None})
            return dict.fromkeys(batch.calls, Reply(status, said or {"error": {"message": str(error)}}))
        self._keep({"mark": batch.mark, "id": batch.id})
        batch.calls = dict.fromkeys(batch.calls)
        self._submitted |= dict.fromkeys(batch.calls, batch)
        calls = f"{len(batch.calls)} call{'s' * (len(batch.calls) > 1)}"
        self._tell(f"{batch.id}: {calls} in a batch, which may take a day; stopped here, --resume goes on with it")
        return await self._ended(service, batch)

    async def _resumed(self, service: Service, batch: Batch) -> dict[str, Reply]:
        """Return the replies of a batch of an earlier process."""
        if batch.id == "":
            batch.id = await self._at_last(service, lambda: self._found(service, batch))
            self._keep({"mark": batch.mark, "id": batch.id})
        if batch.id is None:
            return {}
        try:
            return await self._ended(service, batch)
        except Exception as error:
            if getattr(error, "status_code", None) != _GONE:
                raise
            self._tell(f"{batch.id} is no longer there, so its calls are made anew")
            return {}

    async def _ended(self, service: Service, batch: Batch) -> dict[str, Reply]:
        """Wait until a batch has ended, and return its replies."""
        told = 0
        while not (state := await self._at_last(service, lambda: service.look(str(batch.id)))).ended:
            if state.done * 10 // len(batch.calls) > told:
                told = state.done * 10 // len(batch.calls)
                self._tell(f"{batch.id}: {state.done} of {len(batch.calls)} calls done")
            await asyncio.sleep(self._poll_s)
        if state.refused:
            self._tell(f"{batch.id} was refused: {state.refused}")
            return dict.fromkeys(batch.calls, Reply(_REFUSED, {"error": {"message": state.refused}}))
        replies: dict[str, Reply] = await self._at_last(service, lambda: service.replies(str(batch.id)))
        right = sum(reply.status == OK for reply in replies.values())
        rest = (
            "" if right == len(batch.calls) else f", {len(batch.calls) - right} of {len(batch.calls)} without a reply"
        )
        self._tell(f"{batch.id} has ended{rest}")
        return replies

    async def _found(self, service: Service, batch: Batch) -> str | None:
        """Return the id of a batch that may have been submitted: the one with replies to its calls."""
        for candidate in await service.candidates(batch):
            while not (await service.look(candidate)).ended:  # noqa: ASYNC110  (the provider sends no event)
                await asyncio.sleep(self._poll_s)
            if batch.calls.keys() & (await service.replies(candidate)).keys():
                return candidate
        return None

    async def _at_last(
        self, service: Service, attempt: Callable[[], Coroutine[Any, Any, Any]], submitted: Batch | None = None
    ) -> Any:
        """Return what an attempt comes to, made again as long as the server or the way to it is down.

        Args:
            service: Whose errors are passing.
            attempt: What is done.
            submitted: The attempt submits this batch; one that seemed to fail may have come there.
        """
        failed = False
        while True:
            try:
                if failed and submitted and (found := await self._found(service, submitted)) is not None:
                    return found
                return await attempt()
            except service.passing as error:
                failed = True
                self._tell(f"{error}; tried again in {self._poll_s:g} s")
                await asyncio.sleep(self._poll_s)

    def _keep(self, line: Mapping[str, Any]) -> None:
        """Write a line, which is on the disk when this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with appended(self.path) as file:
            # On a line of its own, also after one that was cut short.
            file.write(("\n" * self._torn + json.dumps(line) + "\n").encode())
            os.fsync(file.fileno())
        self._torn = False


OK, _REFUSED, _GONE = 200, 400, 404
_CLOSE_S = 1.0


def _read(path: Path) -> dict[str, Batch]:
    """Return the batches of a file by the calls in them; of a call in several, the last."""
    batches: dict[str, Batch] = {}
    for number, line in enumerate(path.read_bytes().split(b"\n") if path.exists() else [], start=1):
        try:
            entry = json.loads(line)
        except ValueError:
            # A process died while it wrote this, so before it submitted, or before it noted an id, which is found.
            continue
        try:
            if "calls" in entry:
                batches[entry["mark"]] = Batch(dict.fromkeys(entry["calls"]), entry["mark"], at=entry["at"])
            else:
                batches[entry["mark"]].id = entry["id"]
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path}, line {number}: not of submitted batches ({error!r})") from None
    return {call: batch for batch in batches.values() for call in batch.calls}


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
