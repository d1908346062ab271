"""Leases: one runner a thread, on every machine, held in the database of its checkpoints. Internal.

A lease is a row with a fencing token, which only grows. A write of a run names the token that the run was given, and
the database takes it, in the same transaction, where no later one was given since. So a runner that was lost for a
while, and whose thread another one took over, writes nothing any more, whatever it believes. The clock of the database
says whether a lease has expired.
"""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..dual import in_db_executor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .database_saver import DatabaseSaver

__all__ = [
    "BEAT_S",
    "FORGET_LEASE",
    "LAST_FENCE",
    "LEASE_S",
    "NOTHING_KEPT",
    "BusyThreadError",
    "LeaseDialect",
    "Leases",
    "LostLeaseError",
    "Runner",
    "alive",
    "this_process",
]

LEASE_S = 30.0
"""After so many seconds without a sign of life a lease may be taken over."""
BEAT_S = 8.0
"""How often a process renews the leases that it holds."""


class BusyThreadError(RuntimeError):
    """The thread is being run by another process, or elsewhere in this one."""

    elsewhere = False
    """Another process runs it, or did, and its lease has not expired yet."""


class LostLeaseError(BusyThreadError):
    """The thread was taken over by another run while this one gave no sign of life; nothing of this one is written."""

    elsewhere = True

    def __init__(self, thread_id: str) -> None:
        super().__init__(
            f"the thread {thread_id!r} was taken over by another run while this one gave no sign of life; "
            "what this one did since is not written"
        )


@dataclass(frozen=True)
class Runner:
    """One run of a thread, and the process that it runs in."""

    token: str
    """Of this one run; a later run of the thread has another, so a request never outlives the run it was meant for."""
    process: str
    """Host, process id and start of the process."""
    stop_requested: bool = False
    fence: int = 0
    """The fencing token."""
    fresh: bool = False
    """Nothing was kept of the thread when the lease was taken, no checkpoint and no reply; `False` also where that
    can't be told."""

    @property
    def described(self) -> str:
        """Return the process as a message names it."""
        if (parts := _PROCESS.fullmatch(str(self.process))) is None:
            return f"what its lease calls {str(self.process)!r:.80}, which is no process; that holds until it expires"
        host, pid, _ = parts.groups()
        return f"process {pid}" if host == socket.gethostname() else f"process {pid} on {host}"


class Leases:
    """The leases of a saver's threads: one runner a thread, at most. They are a table beside `runs`.

    Each method is one statement, so each is atomic.

    Args:
        saver: Of the database: it reads and writes.
    """

    def __init__(self, saver: DatabaseSaver) -> None:
        self._saver = saver
        self._dialect = saver.lease_dialect
        # The table is made before something is written, so that who only reads changes no database.
        self.is_set_up = False
        self.db_executor = saver.db_executor
        """Where the async twins run; `None` where nothing can make them wait."""

    def set_up(self) -> None:
        """Make the table where it is not there."""
        if not self.is_set_up:
            self._saver._set_up_leases()
            self.is_set_up = True

    aset_up = in_db_executor(set_up)

    def take(self, thread_id: str, runner: Runner, *, seconds: float = LEASE_S, follows: int = 0) -> Runner | None:
        """Return the runner with the new lease that it has; `None` where somebody else's has not expired.

        Args:
            thread_id: The thread.
            runner: The run that wants it.
            seconds: How long the lease holds; with 0 nobody has it from now on.
            follows: The token of a lease that is known to be nobody's any more.
        """
        self.set_up()
        return _taken(
            runner, self._saver._query_lease(self._dialect.take, _taking(thread_id, runner, seconds, follows))
        )

    async def atake(
        self, thread_id: str, runner: Runner, *, seconds: float = LEASE_S, follows: int = 0
    ) -> Runner | None:
        """Async twin of `take`."""
        if not self.is_set_up:
            await self.aset_up()
        return _taken(
            runner, await self._saver._aquery_lease(self._dialect.take, _taking(thread_id, runner, seconds, follows))
        )

    def get(self, thread_id: str) -> Runner | None:
        """Return the runner of the thread; `None` where nobody runs it."""
        statement = (
            "SELECT token, process, asked, fence FROM redraft_leases "  # noqa: S608
            f"WHERE thread_id = %(thread_id)s AND {self._dialect.holds}"
        )
        rows = self._read(statement, {"thread_id": thread_id, "longest": 2 * LEASE_S})
        return Runner(rows[0][0], rows[0][1], bool(rows[0][2]), rows[0][3]) if rows else None

    def request_stop(self, thread_id: str, token: str) -> bool:
        """Ask this run to stop after the step it is in; `False` where it has ended."""
        statement = (
            "UPDATE redraft_leases SET asked = 1 WHERE thread_id = %(thread_id)s AND token = %(token)s RETURNING token"
        )
        return bool(self._saver._query_lease(statement, {"thread_id": thread_id, "token": token}))

    def standing(self, fences: Sequence[int]) -> dict[int, bool]:
        """Return those of these tokens that are the latest of their threads, and whether their runs are to stop."""
        statement = f"SELECT fence, asked FROM redraft_leases WHERE {self._dialect.among}"  # noqa: S608
        rows = self._read(statement, {"fences": self._dialect.as_array(fences)})
        return dict(rows)  # type: ignore[arg-type]  # 0 and 1

    def renew(self, fences: Sequence[int], seconds: float = LEASE_S) -> None:
        """Keep those of these leases that nobody else took; 0 seconds gives them up.

        One that was not given up keeps off whatever is not written under it, also when it has expired.
        """
        until = f"{self._dialect.now} + %(seconds)s" if seconds else "0"
        statement = f"UPDATE redraft_leases SET expires_at = {until} WHERE {self._dialect.among} RETURNING fence"  # noqa: S608
        self._saver._query_lease(statement, {"fences": self._dialect.as_array(fences), "seconds": seconds})

    def forget(self, thread_id: str) -> None:
        """Forget a thread; what holds a token of it writes nothing any more."""
        self.set_up()
        self._saver._query_lease(FORGET_LEASE, {"thread_id": thread_id})

    aget = in_db_executor(get)
    arequest_stop = in_db_executor(request_stop)
    arenew = in_db_executor(renew)

    def _read(self, statement: str, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        try:
            return self._saver._query_lease(statement, values)
        except self._saver.lease_table_missing as error:
            if "redraft_leases" not in str(error):
                raise
            return ()  # of an older release, or of LangGraph's own saver


NOTHING_KEPT = """NOT EXISTS (SELECT 1 FROM checkpoints WHERE thread_id = %(thread_id)s)
        AND NOT EXISTS (SELECT 1 FROM redraft_journal WHERE thread_id = %(thread_id)s)"""
LAST_FENCE = 2**62
"""A token from here on was none of ours: it takes no part in the count."""
FORGET_LEASE = "DELETE FROM redraft_leases WHERE thread_id = %(thread_id)s RETURNING thread_id"


def _taking(thread_id: str, runner: Runner, seconds: float, follows: int) -> Mapping[str, Any]:
    return {
        "thread_id": thread_id,
        "token": runner.token,
        "process": runner.process,
        "seconds": seconds,
        "held": 1 if seconds else 0,
        "follows": follows,
        "longest": 2 * LEASE_S,
    }


def _taken(runner: Runner, rows: Sequence[Sequence[Any]]) -> Runner | None:
    return replace(runner, fence=rows[0][0], fresh=bool(rows[0][1])) if rows else None


@dataclass(frozen=True)
class LeaseDialect:
    """SQL that differs between the databases."""

    set_up: str
    take: str
    """Returns the fencing token, and whether it can be told that nothing is kept of the thread."""
    now: str
    """The database's clock, in seconds since the epoch."""
    among: str
    """The condition that a row has one of the tokens in the parameter `fences`."""
    as_array: Callable[[Sequence[int]], Any]
    """From tokens to the value of that parameter."""

    @property
    def holds(self) -> str:
        """The condition that a lease has not expired. One beyond `longest` was taken before the clock was set back."""
        return f"expires_at > {self.now} AND expires_at <= {self.now} + %(longest)s"


def alive(process: str) -> bool | None:
    """Return True if a process still runs; `None` where that can't be known: on another machine, or on Windows."""
    if (parts := _PROCESS.fullmatch(str(process))) is None:  # whoever wrote it, redraft did not
        return None
    host, number, rest = parts.groups()
    start, _, machine = rest.partition("@")
    # Names of hosts are no names of machines: containers share one, or have one each.
    if machine != _machine() if machine else host != socket.gethostname():
        return None
    if Path("/proc/self/stat").exists():
        return _started(int(number)) == start
    if os.name == "nt":  # where signal 0 is Ctrl-C
        return None
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    # It runs, as another user.
    except PermissionError:
        return True
    return True


_PROCESS = re.compile(r"(.*):([0-9]{1,9}):([^:]*)", re.DOTALL)
"""A process as it is named in the table."""


def this_process() -> str:
    """Return the name of this process in the table: its host, its number, and when and where it started."""
    return _named(os.getpid(), socket.gethostname())


@cache
def _named(pid: int, host: str) -> str:
    machine = _machine()
    return f"{host}:{pid}:{_started(pid) or ''}" + (f"@{machine}" if machine else "")


@cache
def _machine() -> str:
    """Return an id of this boot of the machine and its namespace of process ids; empty where that can't be told.

    Processes with the same id see each other's process ids.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}-{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """Return the start time of a process, which tells it from a later one of the same number; `None` where it died."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name before it may hold anything
    # A zombie runs nothing any more. The fields after the name begin with the third; the start is the 22nd.
    return None if fields[0] in "ZX" else fields[19]
