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
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from rows import Row, add_options, finish
from soak_counts import Counts, settled

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

PACKAGES = ("redraft", "langgraph", "langchain-core", "langchain-openai", "openai", "aiohttp")


async def soaked(spec: str, folder: str, *, runs: int, batch: int) -> list[Row]:
    """Make the runs, and return the rows."""
    from redraft import build_refine_graph, chat_model, open_checkpointer
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
