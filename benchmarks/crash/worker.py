"""The process that is killed: runs a method over numbered problems, as `redraft eval` does, and exits with 0 when done.

`worker.py MODEL DATABASE RESULTS --problems 200 --concurrency 16`
"""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path

os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")

from redraft import chat_model, open_checkpointer
from redraft.evals import Dataset, Problem, ResultFile, build_method, run_method
from redraft.models import ScriptedModel


async def work(given: argparse.Namespace) -> None:
    """Return when every problem has a result."""
    # What is imported on the way would keep the event loop from reading replies.
    await build_method("zero-shot", "exact", ScriptedModel(["warm"])).graph.ainvoke({"task": "Warm up."})
    problems = tuple(Problem(f"p{number}", f"Solve problem {number}.", "") for number in range(given.problems))
    data = Dataset("crash", "exact", "0" * 64, problems)
    async with open_checkpointer(given.database) as saver:
        method = build_method(given.method, data.kind, chat_model(given.model), checkpointer=saver)
        with ResultFile(given.results) as results:
            await run_method(method, data, results, concurrency=given.concurrency, run_id="crash")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("database")
    parser.add_argument("results", type=Path)
    parser.add_argument("--method", default="self-refine-3")
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--concurrency", type=int, default=16)
    asyncio.run(work(parser.parse_args()))


if __name__ == "__main__":
    main()
