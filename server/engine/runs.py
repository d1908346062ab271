"""One run of the server: where it stands, and what it has sent so far. Internal."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from ...state import Usage
from ...state.usage import NO_USAGE

__all__ = [
    "ENDED",
    "LOG",
    "TICK",
    "BadRequestError",
    "Caller",
    "NotThereError",
    "QueueFullError",
    "QuotaSpentError",
    "RefusedError",
    "Run",
    "RunStatus",
    "ServerEvent",
    "Submission",
    "TakenError",
    "tick",
]  # fmt: skip

LOG = logging.getLogger("redraft.server")
RunStatus: TypeAlias = Literal["pending", "running", "success", "error", "interrupted", "timeout"]
ENDED = ("success", "error", "interrupted", "timeout")
TOKENS = ("messages", "events")
"""Begin the names of events that hold tokens one by one."""
BOOT = secrets.token_hex(4)
"""Distinguishes the events of this process from those of one before it."""


class RefusedError(Exception):
    """A request that is not fulfilled; the message may be shown to the caller."""

    def __init__(self, message: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        """When it makes sense to ask again, where that is known."""


class BadRequestError(RefusedError, ValueError):
    """A request that makes no sense or is not allowed."""


class NotThereError(RefusedError, LookupError):
    """There is no such thing, or it is another caller's."""


class TakenError(RefusedError, RuntimeError):
    """The id is in use, or the thread is busy."""


class QueueFullError(RefusedError):
    """The queue of runs is full."""


class QuotaSpentError(RefusedError):
    """A caller has used up what they may use a day."""


@dataclass(frozen=True)
class Caller:
    """A caller of the server. The threads of one caller are invisible to another."""

    id: str
    """Fingerprint of the token; `local` where the server has no tokens."""


class ServerEvent(NamedTuple):
    """An event of a run's stream: `metadata`, a stream mode with a subgraph's namespace after `|`, or `error`."""

    event: str
    data: Any
    at: int = 0
    """Orders the events of a thread, whichever run and process sent them; see `tick`."""


TICK = 1000
_ticks = [0]


def tick() -> int:
    """Return a number that grows with each call and each restart: microseconds since the epoch, or some more.

    Up to `TICK - 1` events that are made of one follow it before the next.
    """
    _ticks[0] = max(_ticks[0] + TICK, time.time_ns() // 1000)
    return _ticks[0]


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A run as it is asked for.

    Args:
        assistant: Id of the assistant.
        thread_id: Without it the run gets a thread of its own, which is deleted when it has ended.
        input: Of the graph; `None` goes on where the thread stands.
        command: `resume` answers an interrupt; `update` and `goto` as LangGraph's `Command`.
        recursion_limit: Of the graph's steps.
        checkpoint_id: Where to start, when not at the thread's end.
        stream_modes: What is sent: names of `MODES`.
        subgraphs: Whether subgraphs send too.
        model: Spec of another model than the server's, where that is allowed.
        options: Of the preset, those that callers may set: see `call_options`.
        metadata: Kept with the run.
        interrupt_before: Nodes to stop before, or `"*"`.
        interrupt_after: Nodes to stop after, or `"*"`.
        if_not_exists: `"create"` makes the thread.
        multitask: What to do with a thread that is busy: `"enqueue"`, `"reject"`, `"interrupt"`, or `"rollback"`,
            which goes on from where the thread stood before.
        keep: Whether a thread of the run's own is kept.
        after_s: Seconds before which it does not begin.
        webhook: Kept with its request, for who is told of its end.
    """

    assistant: str
    thread_id: str | None = None
    input: Any = None
    command: Any = None
    recursion_limit: int | None = None
    checkpoint_id: Any = None
    stream_modes: str | Sequence[str] | None = ("values",)
    subgraphs: bool = False
    model: str | None = None
    options: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] | None = None
    interrupt_before: Any = None
    interrupt_after: Any = None
    if_not_exists: str = "reject"
    multitask: str = "enqueue"
    keep: bool = False
    after_s: float = 0
    webhook: str | None = None


# Compared by identity: the queue has runs as keys, and `Engine.knows` asks for this very one.
@dataclass(eq=False)
class Run:
    """One run: what it was asked for, its status, and its events, which whoever joins late gets too."""

    id: str
    thread_id: str
    assistant: str
    caller: Caller
    created_at: str
    request: Mapping[str, Any] = field(default_factory=dict)
    """The request as it was submitted: input, command, config, checkpoint, stream_modes, subgraphs, options."""
    model: str | None = None
    """Spec of the model that the caller named; default: the server's."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    stateless: bool = False
    """Its thread is deleted when it has ended."""
    status: RunStatus = "pending"
    updated_at: str = ""
    output: dict[str, Any] | None = None
    """The values of the graph's output, and `__interrupt__` where it waits for a person."""
    used: Usage = field(default_factory=NO_USAGE.copy)
    """Usage of its model calls in this process, in all nodes; replies out of the journal were paid before."""
    error: dict[str, str] | None = None
    """`error` and `message`, fit to be shown."""
    submitted_at: float = field(default_factory=time.time)
    started_at: float | None = None
    """Seconds since the epoch, as the two beside it; `None` while it waits."""
    ended_at: float | None = None
    begun: bool = False
    """True once its input is in the thread: a process after that one goes on from the last checkpoint."""
    attempts: int = 1
    """Counts the processes that have had it since it last moved; one that was ended in an orderly way doesn't count."""
    process: str = ""
    """The process that runs it, by the name that a lease has for it, as it was read; empty where none does."""
    beat: float = 0.0
    """When that process last said that it lives, in seconds since the epoch, by the clock of the database; of a run
    that none has had when it may begin, 0 for at once."""
    log: list[ServerEvent | None] = field(default_factory=list)
    """Sent so far; only grows. `None` stands for what was forgotten, or was sent where this process can't see it."""
    stream: str = BOOT
    """Names the numbers of its events, so that a client who comes back is not given others for them."""
    here: bool = False
    """It is, or was, under way in this process."""
    is_behind: bool = False
    """It has ended elsewhere, and what it sent is still to come."""
    watch: Callable[..., AbstractContextManager[None]] | None = None
    """Keeps it current within a block while it is under way elsewhere."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when something is sent or the status changes next; then another takes its place."""

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of the preset that its caller set."""
        return cast("Mapping[str, Any]", self.request.get("options") or {})

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    @property
    def is_whole(self) -> bool:
        """It has ended, and its log has all that there is to know of what it sent."""
        return self.ended and not self.is_behind

    def send(self, event: str, data: Any) -> None:
        """Append an event, and wake who waits for it."""
        self.log.append(ServerEvent(event, data, tick()))
        self.wake()

    def wake(self) -> None:
        """Wake everybody who waits for this run."""
        # Whoever waits holds the old event; who comes next gets a new one.
        self.changed.set()
        self.changed = asyncio.Event()

    def forget_tokens(self) -> None:
        """Keep no tokens: they are most of what was sent, and all of them are in the values too."""
        # In place, since clients go on after an event by its number.
        self.log = [None if event is None or event.event.startswith(TOKENS) else event for event in self.log]

    def watched(self, *, events: bool = True) -> AbstractContextManager[None]:
        """Keep it current within the block: what it sends, or just how it ends."""
        return nullcontext() if self.watch is None else self.watch(self, events=events)

    async def wait(self) -> None:
        """Wait until it has ended."""
        with self.watched(events=False):
            while not self.ended:
                await self.changed.wait()

    def first(self, after: tuple[str, int] | None) -> int:
        """Return the number of the event that comes after one of this stream; 0 where that is none of this run's."""
        return after[1] + 1 if after is not None and after[0] == self.stream else 0

    async def follow(self, after: tuple[str, int] | None = None) -> AsyncIterator[tuple[int, ServerEvent]]:
        """Give each event with its number until the run has ended: from the first, or after one of a stream."""
        number: int | None = None
        with self.watched():
            while True:
                changed = self.changed
                if number is None and self.log:  # of which stream it is, is not known before
                    number = self.first(after)
                while number is not None and number < len(self.log):
                    if (event := self.log[number]) is not None:
                        yield number, event
                    number += 1
                if self.is_whole:
                    return
                await changed.wait()  # set already, where something came while this was read
