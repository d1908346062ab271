"""Calls that take long and are asked twice: the slowest runs with `hedge` ÷ without, and what it costs.

A server in a process of its own, the one with the tail of `run_many.py`, answers 98% of the calls in 0.4 s and the rest
in ten times that. Each run drafts and is judged: two calls, a fixed number of runs at once, without hedging first. p99
is of a run's seconds; calls are those that the server counted, and tokens those that the runs were told.
"""

from __future__ import annotations

import argparse
import json
import sys
import urllib.request
from statistics import quantiles

from redraft import build_refine_graph, chat_model, run_many
from rows import add_options, at_most, finish
from run_many import TAIL, served

AT_ONCE = 24


def measured(runs: int, *, hedge: bool) -> tuple[float, int, int]:
    """Return the 99th percentile of a run's seconds, the calls that the server answered, and the tokens counted."""
    with served(TAIL[0]) as url:
        model = chat_model(f"{url}#m")
        graph = build_refine_graph(model, critics=[model], limits={"max_rounds": 0})
        tasks = [f"Write {number}." for number in range(runs)]
        results = run_many(graph, tasks, concurrency=AT_ONCE, hedge=hedge)
        request = urllib.request.Request(f"{url}/counts", data=b"{}", method="POST")
        with urllib.request.urlopen(request) as response:
            calls = json.load(response)["calls"] - 1
    if failed := [result["error"] for result in results if result["error"]]:
        raise RuntimeError(failed[0])
    seconds = quantiles([result["seconds"] for result in results], n=100)[98]
    return seconds, calls, sum(result["usage"]["total_tokens"] for result in results)


def main(arguments: list[str] | None = None) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--runs", type=int, default=600)
    given = parser.parse_args(arguments)
    runs = 200 if given.quick else given.runs
    plain, hedged = measured(runs, hedge=False), measured(runs, hedge=True)
    shown = [
        at_most(f"{what}, with hedged calls ÷ without", with_it / without, limit, unit="ratio", n=runs)
        for what, with_it, without, limit in zip(
            ("p99 of a run's seconds", "calls that the server answered", "tokens that were counted"),
            hedged,
            plain,
            (0.6, 1.05, 1.05),
            strict=True,
        )
    ]
    return finish(shown, given.json)


if __name__ == "__main__":
    sys.exit(main())
