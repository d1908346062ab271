"""Resources that the soak's process holds after each batch of runs: memory, tasks, threads, sockets, descriptors."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass

from rows import Row, at_most

__all__ = ["Counts", "Held", "settled"]

MEMORY_GOAL = 1.05
SETTLED_S = 5.0


@dataclass(frozen=True)
class Held:
    """The resources of the process at one moment."""

    memory: int
    """Resident, in bytes."""
    own_memory: int
    """What would be free if it ended, in bytes."""
    tasks: int
    """Beside the one that counts."""
    threads: int
    sockets: int
    descriptors: int
    """Sockets included."""
    blocks: int
    """Of memory that Python's objects have."""

    def __str__(self) -> str:
        memory = f"{self.memory / 2**20:.1f} MB resident, {self.own_memory / 2**20:.1f} MB its own"
        counts = f"{self.tasks} tasks, {self.threads} threads, {self.sockets} sockets, {self.descriptors} descriptors"
        return f"{memory}, {self.blocks:,} blocks, {counts}"

    @classmethod
    def now(cls) -> Held:
        """Collect the garbage and count."""
        import psutil

        gc.collect()
        process = psutil.Process()
        memory = process.memory_full_info()
        return cls(
            memory=memory.rss,
            own_memory=memory.uss,
            tasks=len(asyncio.all_tasks()) - 1,
            threads=process.num_threads(),
            sockets=len(process.net_connections("all")),
            descriptors=process.num_fds() if os.name == "posix" else process.num_handles(),
            blocks=sys.getallocatedblocks(),
        )


async def settled(expected: int = 0) -> None:
    """Return when no more tasks are under way than these, or after a while: what was let go of may take a moment."""
    loop = asyncio.get_running_loop()
    until = loop.time() + SETTLED_S
    while len(asyncio.all_tasks()) - 1 > expected and loop.time() < until:  # noqa: ASYNC110  (tasks tell nobody)
        await asyncio.sleep(0.01)


class Counts:
    """The resources of the process after each batch of runs, and the findings.

    Args:
        name: Of what runs.
        batch: Runs between two counts.
        threads_stay: Whether the number of threads is known to settle.
    """

    def __init__(self, name: str, batch: int, *, threads_stay: bool = True) -> None:
        self.name, self.batch, self.threads_stay = name, batch, threads_stay
        self.found: list[Held] = []
        self._objects: Counter[type] = Counter()
        self._cpu_s = time.process_time()

    def take(self, told: str = "") -> None:
        """Count, and say so. Objects are counted by type only now and at the end: that takes megabytes itself."""
        cpu_ms = 1000 * (time.process_time() - self._cpu_s) / self.batch
        self.found.append(Held.now())
        told = f"{self.found[-1]}{told}; {cpu_ms:.1f} ms of CPU a run"
        print(f"{len(self.found) * self.batch:>7,} runs: {told}", file=sys.stderr, flush=True)
        if len(self.found) == 1:
            self._objects = Counter(map(type, gc.get_objects()))
        self._cpu_s = time.process_time()

    def rows(self) -> list[Row]:
        """Return the last count against the second; where one is missed, say which objects became more numerous."""
        second, last = self.found[1], self.found[-1]
        runs, after = f"{self.name}, {len(self.found) * self.batch:,} runs", f"after {2 * self.batch:,}"
        note = f"{second.memory / 2**20:.1f} → {last.memory / 2**20:.1f} MB resident, "
        note += f"{second.own_memory / 2**20:.1f} → {last.own_memory / 2**20:.1f} MB its own, "
        note += f"{second.blocks:,} → {last.blocks:,} blocks of Python's"
        goal = MEMORY_GOAL if self.batch >= 1000 else None
        rows = [at_most(f"{runs}: memory at the end ÷ {after}", last.memory / second.memory, goal, note=note)]
        for what in ("tasks", "threads", "sockets", "descriptors"):
            before, now = getattr(second, what), getattr(last, what)
            limit = None if what == "threads" and not self.threads_stay else 0
            more = f"{runs}: {what} more than {after}"
            rows.append(at_most(more, now - before, limit, unit=what, note=f"{before} → {now}"))
        if any(row["met"] is False for row in rows):
            grown = Counter(map(type, gc.get_objects())) - self._objects
            lines = [f"{n:>8,} × {kind.__module__}.{kind.__qualname__}" for kind, n in grown.most_common(12)]
            print("\nobjects that became more:", *lines, sep="\n", file=sys.stderr)
        return rows
