"""Does a process that makes 20,000 runs keep anything of them: memory, tasks, threads, sockets, file descriptors?

One compiled refine graph over redraft's SQLite saver is run as a service would run it, 16 runs at once, by turns
(`benchmarks/soak_runs.py`): awaited, streamed by updates and by tokens, with `invoke` in threads; some fail before
their first draft, some fail later and are resumed, some are cancelled while they wait for the model, some are left by
whoever streamed them, some are forked. The model answers over HTTP from a process of its own. A thread is deleted once
500 runs have begun after it. After each thousand, when all runs have ended and the garbage is collected, everything
that the process holds is counted; what it holds after the last is compared with what it held after the second.

`--server` soaks `redraft serve` instead: see `benchmarks/soak_served.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rows import Row, add_options, at_most, finish

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Held", "main"]

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
    objects: Counter[str]
    """What the garbage collector knows of, by type."""

    def __str__(self) -> str:
        memory = f"{self.memory / 2**20:.1f} MB resident, {self.own_memory / 2**20:.1f} MB its own"
        counts = f"{self.tasks} tasks, {self.threads} threads, {self.sockets} sockets, {self.descriptors} descriptors"
        return f"{memory}, {counts}, {self.objects.total():,} objects"

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
            objects=Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects()),
        )


async def settled(expected: int = 0) -> None:
    """Return when no more tasks are under way than these, or after a while: what was let go of may take a moment."""
    loop = asyncio.get_running_loop()
    until = loop.time() + SETTLED_S
    while len(asyncio.all_tasks()) - 1 > expected and loop.time() < until:  # noqa: ASYNC110  (tasks tell nobody)
        await asyncio.sleep(0.01)


async def soaked(spec: str, folder: str, *, runs: int, batch: int) -> list[Held]:
    """Make the runs, and return what the process held after each batch."""
    from redraft.graphs.loop import build_refine_graph
    from redraft.models import chat_model
    from redraft.state import open_checkpointer
    from soak_runs import IN_THREADS, Service

    model = chat_model(spec)
    found = []
    async with open_checkpointer(str(Path(folder, "runs.sqlite"))) as saver:
        graph = build_refine_graph(model, checkpointer=saver, limits={"max_rounds": 2})
        with ThreadPoolExecutor(IN_THREADS, thread_name_prefix="soak") as threads:
            service = Service(graph, model, saver, threads)
            for made in range(batch, runs + 1, batch):
                await service.run(batch)
                await service.open_every_connection()
                await settled()
                found.append(Held.now())
                print(f"{made:>7,} runs: {found[-1]}", file=sys.stderr, flush=True)
    print(f"\nruns by kind: {dict(service.made)}\n", file=sys.stderr)
    return found


def rows_of(found: Sequence[Held], *, batch: int, name: str) -> list[Row]:
    """The rows: the last against the second, each measured after a whole batch of runs."""
    second, last = found[1], found[-1]
    runs = f"{name}, {len(found) * batch:,} runs"
    after = f"after {2 * batch:,}"
    note = f"{second.memory / 2**20:.1f} → {last.memory / 2**20:.1f} MB resident, "
    note += f"{second.own_memory / 2**20:.1f} → {last.own_memory / 2**20:.1f} MB its own"
    goal = MEMORY_GOAL if batch >= 1000 else None
    rows = [at_most(f"{runs}: memory at the end ÷ {after}", last.memory / second.memory, goal, note=note)]
    for what in ("tasks", "threads", "sockets", "descriptors"):
        before, now = getattr(second, what), getattr(last, what)
        rows.append(at_most(f"{runs}: {what} more than {after}", now - before, 0, unit=what, note=f"{before} → {now}"))
    return rows


def grown(found: Sequence[Held]) -> str:
    """Return which objects became more numerous since the second batch, the most first: a leak names itself."""
    more = found[-1].objects - found[1].objects
    return "\n".join(f"  {count:>8,} × {name}" for name, count in more.most_common(12))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--runs", type=int, metavar="N", help="default: 20000, --quick: 3000; --server: 2000, 1000")
    parser.add_argument("--batch", type=int, metavar="N", help="runs between two counts (default: 1000; --server: 250)")
    parser.add_argument("--server", action="store_true", help="soak a server instead")
    given = parser.parse_args(arguments)
    os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
    sizes: dict[str, Any] = {
        "runs": given.runs or ((1000 if given.quick else 2000) if given.server else (3000 if given.quick else 20_000)),
        "batch": given.batch or (250 if given.server else 1000),
    }
    if sizes["runs"] < 3 * sizes["batch"]:
        parser.error(f"--runs must be at least three times --batch, not {sizes['runs']} for {sizes['batch']}")
    from soak_model import served_model

    with served_model() as spec, tempfile.TemporaryDirectory() as folder:
        if given.server:
            from soak_served import soaked_server

            rows, found = asyncio.run(soaked_server(spec, folder, **sizes))
        else:
            found = asyncio.run(soaked(spec, folder, **sizes))
            rows = rows_of(found, batch=sizes["batch"], name="refine over SQLite")
    code = finish(rows, given.json, packages=PACKAGES)
    if code:
        print(f"\nobjects that became more:\n{grown(found)}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
