"""Cost of the journal in CPU microseconds a model call, and its savings where checkpoints come last.

The same runs on SQLite, and on PostgreSQL where a server is given or installed: a checkpoint after each step without
and with the journal, and one at the end with it (`durability="exit"`). Interleaved repeats, medians, CPU time of the
whole process; a database server's own is not in it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import statistics
import sys
import time
from typing import Any

from databases import new_database, postgres_server
from rows import Row, add_options, at_most, finish, left_out

__all__ = ["main"]

WAYS: dict[str, dict[str, Any]] = {
    "each step, no journal": {"durability": "sync", "journal": False},
    "each step, journal": {"durability": "sync", "journal": True},
    "at the end, journal": {"durability": "exit", "journal": True},
}


def cpu_s(server: str | None, runs: int, rounds: int, *, durability: Any, journal: bool) -> float:
    """CPU seconds of so many runs at once, and nothing else."""
    from redraft import Critique, build_refine_graph, open_checkpointer
    from redraft.models import ScriptedModel

    def critic(task: str, draft: str, history: Any, /) -> Critique:
        return Critique("Once more.", accepted=False)

    async def go(saver: Any) -> float:
        numbers = itertools.count()
        # One function, not as many texts: a scripted model's settings are its script, and are part of what is hashed.
        model = ScriptedModel([lambda messages: f"{next(numbers)} " + "word " * 200] * ((runs + 1) * (rounds + 1)))
        graph = build_refine_graph(model, critics=[critic], checkpointer=saver, journal=journal)
        given: Any = {"task": "Write.", "limits": {"max_rounds": rounds}}
        await graph.ainvoke(given, {"configurable": {"thread_id": "first"}}, durability=durability)
        gc.collect()
        start = time.process_time()
        configs: list[Any] = [{"configurable": {"thread_id": f"r{number}"}} for number in range(runs)]
        await asyncio.gather(*[graph.ainvoke(given, config, durability=durability) for config in configs])
        return time.process_time() - start

    with new_database(server) as place, open_checkpointer(place) as saver:
        return asyncio.run(go(saver))


def measure(place: str, server: str | None, *, runs: int, rounds: int, repeats: int) -> list[Row]:
    """A row for each way."""
    calls = runs * (rounds + 1)
    for how in WAYS.values():  # what is imported on the way is not measured
        cpu_s(server, 1, 1, **how)
    found: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(repeats):
        for name, how in WAYS.items():
            found[name].append(cpu_s(server, runs, rounds, **how))
    first, *_ = found.values()
    rows = []
    for name, seconds in found.items():
        ratio = statistics.median(one / other for one, other in zip(seconds, first, strict=True))
        spent = statistics.median(seconds) / calls * 1e6
        note = f"{ratio:.2f} × no journal; {runs} runs at once"
        what = f"CPU per call, {place}, checkpoints {name}"
        rows.append(at_most(what, spent, None, unit="µs", n=repeats, note=note))
    return rows


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--repeats", type=int, help="default: 15; --quick: 5")
    parser.add_argument("--postgres", metavar="URL", help="a server where databases may be made")
    given = parser.parse_args()
    size = {"runs": given.runs, "rounds": given.rounds, "repeats": given.repeats or (5 if given.quick else 15)}
    rows = measure("SQLite", None, **size)
    with postgres_server(given.postgres) as server:
        if server:
            rows += measure("PostgreSQL", server, **size)
        else:
            rows.append(left_out("CPU per call, PostgreSQL", "install PostgreSQL, or give --postgres URL"))
    return finish(rows, given.json)


if __name__ == "__main__":
    sys.exit(main())
