"""The lease of a thread: one runner at a time, who can be asked to stop."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from langgraph.runtime import RunControl

from ..storage.db_executor import in_db_executor
from ..storage.index_table import RunsTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Executor

__all__ = [
    "BusyThreadError",
    "Runner",
    "StopControl",
    "UnderWay",
    "UnderWayInMemory",
    "UnderWayTable",
    "alive",
    "begin",
    "this_process",
    "under_way",
]


class BusyThreadError(RuntimeError):
    """The thread is being run by another process, or elsewhere in this one."""


@dataclass(frozen=True)
class Runner:
    """Who runs a thread."""

    token: str
    """Of this one run; a later run of the thread has another, so a request never outlives the run it was meant for."""
    process: str
    """Host, process id and start of the process."""
    asked: bool = False
    """Whether it was asked to stop."""

    @property
    def told(self) -> str:
        """Return the process as a message names it."""
        host, pid, _ = self.process.rsplit(":", 2)
        return f"process {pid}" if host == socket.gethostname() else f"process {pid} on {host}"


class UnderWay(ABC):
    """One runner a thread, at most."""

    db_executor: Executor | None = None
    """Where the async twins run; `None` where nothing can make them wait."""

    @abstractmethod
    def add(self, thread_id: str, runner: Runner) -> bool:
        """Note who runs the thread; `False` where somebody is noted already."""

    @abstractmethod
    def get(self, thread_id: str) -> Runner | None:
        """Return who runs the thread."""

    @abstractmethod
    def ask(self, thread_id: str, token: str) -> bool:
        """Ask this run to stop after the step it is in; `False` where it has ended."""

    @abstractmethod
    def remove(self, thread_id: str, token: str) -> None:
        """Forget this run."""

    aadd = in_db_executor(add)
    aget = in_db_executor(get)
    aask = in_db_executor(ask)
    aremove = in_db_executor(remove)


class UnderWayTable(UnderWay):
    """The `UnderWay` of a database: a table beside `runs`. Each method is one statement, so each is atomic."""

    def __init__(
        self,
        query: Callable[[str, Mapping[str, Any]], Sequence[Sequence[Any]]],
        db_executor: Executor | None = None,
    ) -> None:
        self._query = query
        self.db_executor = db_executor

    def add(self, thread_id: str, runner: Runner) -> bool:
        values = {"thread_id": thread_id, "token": runner.token, "process": runner.process}
        return bool(
            self._query(
                "INSERT INTO runs_under_way (thread_id, token, process, asked) "
                "VALUES (%(thread_id)s, %(token)s, %(process)s, 0) ON CONFLICT (thread_id) DO NOTHING RETURNING token",
                values,
            )
        )

    def get(self, thread_id: str) -> Runner | None:
        statement = "SELECT token, process, asked FROM runs_under_way WHERE thread_id = %(thread_id)s"
        rows = self._query(statement, {"thread_id": thread_id})
        return Runner(rows[0][0], rows[0][1], bool(rows[0][2])) if rows else None

    def ask(self, thread_id: str, token: str) -> bool:
        statement = (
            "UPDATE runs_under_way SET asked = 1 WHERE thread_id = %(thread_id)s AND token = %(token)s RETURNING token"
        )
        return bool(self._query(statement, {"thread_id": thread_id, "token": token}))

    def remove(self, thread_id: str, token: str) -> None:
        statement = "DELETE FROM runs_under_way WHERE thread_id = %(thread_id)s AND token = %(token)s RETURNING token"
        self._query(statement, {"thread_id": thread_id, "token": token})


class UnderWayInMemory(UnderWay):
    """The `UnderWay` of a saver that no other process can reach."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runners: dict[str, Runner] = {}

    def add(self, thread_id: str, runner: Runner) -> bool:
        with self._lock:
            return self._runners.setdefault(thread_id, runner) is runner

    def get(self, thread_id: str) -> Runner | None:
        return self._runners.get(thread_id)

    def ask(self, thread_id: str, token: str) -> bool:
        with self._lock:
            found = self._runners.get(thread_id)
            if found is None or found.token != token:
                return False
            self._runners[thread_id] = Runner(token, found.process, asked=True)
            return True

    def remove(self, thread_id: str, token: str) -> None:
        with self._lock:
            if (found := self._runners.get(thread_id)) and found.token == token:
                del self._runners[thread_id]


_OF_OTHER_SAVERS: WeakKeyDictionary[Any, UnderWayInMemory] = WeakKeyDictionary()


def under_way(saver: Any) -> UnderWay:
    """Return who runs what in a saver's threads: for all processes where the saver is a database of ours."""
    runs = getattr(saver, "runs", None)
    if isinstance(runs, RunsTable):
        return UnderWayTable(runs.query, runs.db_executor)
    # By its runs where it has such: each graph is compiled with a copy of the saver, and they share these.
    return _OF_OTHER_SAVERS.setdefault(saver if runs is None else runs, UnderWayInMemory())


def begin(runs: UnderWay, thread_id: str, *, token: str | None = None) -> Runner:
    """Return this process as the runner of a thread. One that died, or of whom that can't be known, is followed.

    Args:
        runs: Who runs what.
        thread_id: The thread.
        token: Of this run, for who may have to `remove` it without having heard that it began; default: a new one.

    Raises:
        BusyThreadError: Somebody on this machine runs the thread right now.
    """
    runner = Runner(token or secrets.token_hex(8), this_process())
    while not runs.add(thread_id, runner):
        other = runs.get(thread_id)
        if other is None:
            continue
        if alive(other.process):
            raise BusyThreadError(f"the thread {thread_id!r} is being run right now, by {other.told}")
        runs.remove(thread_id, other.token)
    return runner


def alive(process: str) -> bool | None:
    """Return whether a process still runs; `None` where that can't be known: on another machine, or on Windows."""
    host, number, start = process.rsplit(":", 2)
    if host != socket.gethostname():
        return None
    if Path("/proc/self/stat").exists():
        return _started(int(number)) == start
    if os.name == "nt":  # where signal 0 is Ctrl-C
        return None
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def this_process() -> str:
    """Return how this process is named in the table: by its host, its number and when it started."""
    return f"{socket.gethostname()}:{os.getpid()}:{_started(os.getpid()) or ''}"


def _started(pid: int) -> str | None:
    """Return when a process started, by which it is told from a later one of the same number; `None` where it died."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name before it may hold anything
    return None if fields[0] in "ZX" else fields[19]


class StopControl(RunControl):
    """LangGraph's control of one run: asked between two steps, it looks whether someone wants the run to stop."""

    def __init__(self, runs: UnderWay, thread_id: str, runner: Runner) -> None:
        super().__init__()
        self._runs = runs
        self._thread_id = thread_id
        self._runner = runner

    @property
    def drain_requested(self) -> bool:
        """Whether the run ends before the next step: on request, or since another process took the thread over."""
        if self.drain_reason is None:
            found = self._runs.get(self._thread_id)
            if found is None or found.token != self._runner.token:
                self.request_drain("another process runs the thread now")
            elif found.asked:
                self.request_drain("stopped on request")
        return self.drain_reason is not None
