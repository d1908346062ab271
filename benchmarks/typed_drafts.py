"""Typed drafts: how many rounds and tokens does it take to JSON that fits a schema, with the schema in the request?

Each line of the data is a task with a JSON Schema. Every run is `build_refine_graph(model, answer_type=schema)`, at
temperature 0.7, `--rounds` rounds at most, and differs by how the model is told of the schema:

    words     it stands in the prompt: what a model is asked that has no other way
    both      in the prompt, and in the request, of which llama.cpp makes a grammar: what redraft does
    request   in the request alone

Each run is a line of `--out`, with all drafts; called again with the same file, what is there is not asked again. The
report gives shares with 95% intervals (Wilson), and for rounds and tokens the mean over tasks with that of 10,000
bootstrap samples of the tasks.

    python benchmarks/typed_drafts.py benchmarks/typed_drafts.jsonl --model http://127.0.0.1:8911/v1#m --out out.jsonl
    python benchmarks/typed_drafts.py benchmarks/typed_drafts.jsonl --out out.jsonl --report
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
from redraft import build_refine_graph, chat_model
from redraft.nodes.verify.answer_type import AnswerType
from redraft.state.summary import attempts
from rows import share

if TYPE_CHECKING:
    from collections.abc import Sequence

Row = dict[str, Any]
WAYS = ("words", "both", "request")


def main() -> None:
    """Run what is not in the file yet, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", type=Path, help="JSONL of `id`, `task` and `schema`")
    parser.add_argument("--model", help="as in `redraft run --model`")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1], metavar="N")
    parser.add_argument("--rounds", type=int, default=2, metavar="N", help="default 2")
    parser.add_argument("--concurrency", type=int, default=4, metavar="N", help="default 4")
    parser.add_argument("--max-tokens", type=int, default=400, metavar="N", help="of a reply; default 400")
    parser.add_argument("--out", type=Path, required=True, help="a line for each run")
    parser.add_argument("--report", action="store_true", help="report what is there, and run nothing")
    args = parser.parse_args()
    rows = [json.loads(line) for line in args.tasks.read_text(encoding="utf-8").splitlines()]
    if not args.report:
        if not args.model:
            parser.error("--model is needed to run anything; --report shows what is there")
        asyncio.run(run(rows, args))
    report(rows, read(args.out), args.ways)


def read(path: Path) -> dict[tuple[str, str, int], Row]:
    """Return the runs of a file, by way, task and seed."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {(row["way"], row["id"], row["seed"]): row for row in map(json.loads, lines)}


async def run(rows: Sequence[Row], args: argparse.Namespace) -> None:
    """Run each task in each way with each seed, unless the file has it."""
    there, room = read(args.out), asyncio.Semaphore(args.concurrency)

    async def one(row: Row, way: str, seed: int) -> None:
        if (way, row["id"], seed) in there:
            return
        model = chat_model(args.model, seed=seed, temperature=0.7, max_output_tokens=args.max_tokens, timeout_s=3600)
        answer = AnswerType(row["schema"])
        if way == "words":
            answer.schema = None
        if way == "request":
            answer.wants = ""
        graph = build_refine_graph(model, answer_type=answer, limits={"max_rounds": args.rounds})
        async with room:
            output = await graph.ainvoke({"task": row["task"]})
        accepted = {draft.round for draft in attempts(output["events"]) if draft.accepted}
        drafts = [
            {"round": event["round"], "tokens": event["usage"]["total_tokens"], "text": event["text"]}
            | {"accepted": event["round"] in accepted, "rejected": event.get("rejected", "")}
            | {name: event[name] for name in ("refiner", "cut_off") if event.get(name)}
            for event in output["events"]
            if event["kind"] in ("draft", "revision")
        ]
        done = {"way": way, "id": row["id"], "seed": seed, "stop_reason": output["stop_reason"], "drafts": drafts}
        with args.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(done, ensure_ascii=False) + "\n")
        print(way, seed, row["id"], output["stop_reason"], len(drafts), file=sys.stderr, flush=True)

    # Task by task, so that the ways meet the same load.
    await asyncio.gather(*(one(row, way, seed) for seed in args.seeds for row in rows for way in args.ways))


def report(rows: Sequence[Row], runs: dict[tuple[str, str, int], Row], ways: Sequence[str]) -> None:
    """Print a line for each way, over the tasks and seeds that every way has."""
    ways = [way for way in ways if any(one == way for one, _, _ in runs)]
    shared = [
        (row["id"], seed)
        for row in rows
        for seed in sorted({seed for _, _, seed in runs})
        if all((way, row["id"], seed) in runs for way in ways)
    ]
    print(f"{len(shared)} runs each, of {len({task for task, _ in shared})} tasks\n")
    print(f"{'way':8} {'first draft fits':32} {'answer fits':32} {'model calls':20} tokens")
    for way in ways:
        done = [runs[way, task, seed] for task, seed in shared]
        by_task = [[runs[way, *key] for key in shared if key[0] == row["id"]] for row in rows]
        cells = [
            share(run["drafts"][0]["accepted"] for run in done),
            share(run["stop_reason"] == "accepted" for run in done),
            mean([fmean(calls(run) for run in listed) for listed in by_task if listed]),
            mean([fmean(tokens(run) for run in listed) for listed in by_task if listed]),
        ]
        print(f"{way:8} {cells[0]:32} {cells[1]:32} {cells[2]:20} {cells[3]}")


def calls(run: Row) -> int:
    """Return how often the model was asked in a run."""
    return sum(draft["tokens"] > 0 for draft in run["drafts"])


def tokens(run: Row) -> int:
    """Return the tokens of a run."""
    return sum(draft["tokens"] for draft in run["drafts"])


def mean(values: Sequence[float]) -> str:
    """Return a mean over tasks with its interval."""
    drawn = np.random.default_rng(1).choice(values, (10_000, len(values))).mean(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return f"{fmean(values):.4g} ({low:.4g}–{high:.4g})"


if __name__ == "__main__":
    main()
