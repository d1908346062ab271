"""What does the journal cost, in CPU microseconds a model call, and what does it save where checkpoints come last?

The same runs on SQLite: a checkpoint after each step without and with the journal, and one at the end with it
(`durability="exit"`). Interleaved repeats, medians, CPU time of the whole process.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

__all__ = ["main"]

WAYS: dict[str, dict[str, Any]] = {
    "each step, no journal": {"durability": "sync", "journal": False},
    "each step, journal": {"durability": "sync", "journal": True},
    "at the end, journal": {"durability": "exit", "journal": True},
}


def cpu_s(runs: int, rounds: int, *, durability: Any, journal: bool) -> float:
    """CPU seconds of so many runs at once, and nothing else."""
    from redraft.graphs.loop import build_refine_graph
    from redraft.models import ScriptedModel
    from redraft.state import Critique, open_checkpointer

    def critic(task: str, draft: str, history: Any, /) -> Critique:
        return Critique("Once more.", accepted=False)

    async def go(saver: Any) -> float:
        numbers = itertools.count()
        # One function, not as many texts: a scripted model's settings are its script, and are part of what is hashed.
        model = ScriptedModel([lambda messages: f"{next(numbers)} " + "word " * 200] * (runs * (rounds + 1)))
        graph = build_refine_graph(model, critics=[critic], checkpointer=saver, journal=journal)
        given: Any = {"task": "Write.", "limits": {"max_rounds": rounds}}
        start = time.process_time()
        configs: list[Any] = [{"configurable": {"thread_id": f"r{number}"}} for number in range(runs)]
        await asyncio.gather(*[graph.ainvoke(given, config, durability=durability) for config in configs])
        return time.process_time() - start

    with tempfile.TemporaryDirectory() as folder, open_checkpointer(Path(folder) / "runs.sqlite") as saver:
        return asyncio.run(go(saver))


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    calls = given.runs * (given.rounds + 1)
    for how in WAYS.values():  # what is imported on the way is not measured
        cpu_s(1, 1, **how)
    found: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(given.repeats):
        for name, how in WAYS.items():
            found[name].append(cpu_s(given.runs, given.rounds, **how))
    print(f"{'checkpoints':<24}{'CPU µs a call':>15}{'ratio':>8}")
    first = statistics.median(next(iter(found.values())))
    for name, seconds in found.items():
        middle = statistics.median(seconds)
        print(f"{name:<24}{middle / calls * 1e6:>15,.0f}{middle / first:>8.2f}")
    print(f"\n{given.runs} runs at once, {calls} calls, {given.repeats} repeats; {platform.machine()}, ", end="")
    print(f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
