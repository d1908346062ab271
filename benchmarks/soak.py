"""Does a process that makes 20,000 runs keep anything of them: memory, tasks, threads, sockets, file descriptors?

One compiled refine graph over redraft's SQLite saver is run as a service would run it, 16 runs at once, by turns
(`benchmarks/soak_runs.py`): awaited, streamed by updates and by tokens, with `invoke` in threads; some fail before
their first draft, some fail later and are resumed, some are cancelled while they wait for the model, some are left by
whoever streamed them, some are forked. The model answers over HTTP from a process of its own. A thread is deleted once
500 runs have begun after it. After each thousand, when all runs have ended and the garbage is collected, everything
that the process holds is counted; what it holds after the last is compared with what it held after the second. Memory
is what is resident, as the system says.

Then, in a process of its own, the same for `redraft serve`: see `benchmarks/soak_served.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rows import Row, add_options, at_most, finish

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Counts", "Held", "main", "settled"]

MEMORY_GOAL = 1.05
PACKAGES = ("redraft", "langgraph", "langchain-core", "langchain-openai", "openai", "aiohttp")
SETTLED_S = 5.0


@dataclass(frozen=True)
class Held:
    """What the process holds at one moment."""

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
    """What the process holds after each batch of runs, and what is said of it.

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


async def soaked(spec: str, folder: str, *, runs: int, batch: int) -> list[Row]:
    """Make the runs, and return the rows."""
    from redraft.graphs.loop import build_refine_graph
    from redraft.models import chat_model
    from redraft.state import open_checkpointer
    from soak_runs import IN_THREADS, Service

    model, counts = chat_model(spec), Counts("refine over SQLite", batch)
    with ThreadPoolExecutor(IN_THREADS, thread_name_prefix="soak") as threads:
        asyncio.get_running_loop().set_default_executor(threads)
        async with open_checkpointer(str(Path(folder, "runs.sqlite"))) as saver:
            graph = build_refine_graph(model, checkpointer=saver, limits={"max_rounds": 2})
            service = Service(graph, model, saver, threads)
            for _ in range(runs // batch):
                await service.run(batch)
                await service.fill()
                await settled()
                counts.take()
    print(f"\nruns by kind: {dict(service.made)}\n", file=sys.stderr)
    return counts.rows()


def in_process(which: str, words: Sequence[str]) -> list[Row]:
    """Return the rows of one half, soaked in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.json")
        subprocess.run(
            [sys.executable, __file__, which, "--json", str(path), *words], stdout=subprocess.DEVNULL, check=False
        )
        found: list[Row] = json.loads(path.read_text(encoding="utf-8"))
        return found


def main() -> int:
    """Print the table; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--runs", type=int, metavar="N", help="default: 20000, --quick: 3000; --server: 5000, 1500")
    parser.add_argument(
        "--batch", type=int, metavar="N", help="runs between two counts (default: 1000; quick server: 500)"
    )
    parser.add_argument("--graph", action="store_true", help="soak the graph alone")
    parser.add_argument("--server", action="store_true", help="soak the server alone")
    given = parser.parse_args()
    runs = given.runs or ((1500 if given.quick else 5000) if given.server else (3000 if given.quick else 20_000))
    batch = given.batch or (500 if given.server and given.quick else 1000)
    if given.graph == given.server:
        if given.runs or given.batch:
            parser.error("--runs and --batch are of one half: add --graph or --server")
        words = ["--quick"] if given.quick else []
        return finish([*in_process("--graph", words), *in_process("--server", words)], given.json, packages=PACKAGES)
    if runs < 3 * batch:
        parser.error(f"--runs must be at least three times --batch, not {runs} for {batch}")
    os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
    from soak_model import served_model

    with served_model() as spec, tempfile.TemporaryDirectory() as folder:
        if given.server:
            from soak_served import soaked_server

            rows = asyncio.run(soaked_server(spec, folder, runs=runs, batch=batch))
        else:
            rows = asyncio.run(soaked(spec, folder, runs=runs, batch=batch))
    return finish(rows, given.json, packages=PACKAGES)


if __name__ == "__main__":
    sys.exit(main())
