"""Critiques of a model: what they cost, whether they are about the draft, and what a revision after them is worth.

Takes the first drafts of a file of `everyday.py`. The model judges each in two ways, as `model_critic` asks by default
(feedback in one text) and with `points=True` (at most three points, each with words of the draft); where it rejects, it
revises the draft once, at temperature 0, told the task, the draft and the critique. Critic and writer are not told
the checks; the checks' mean score tells what a revision is worth, and whether the verdict was right. Each draft is a
line of `--out` for each way; called again with the same file, what is there is not asked again.

    python benchmarks/critiques.py tasks.jsonl --runs runs.jsonl --model http://127.0.0.1:8911/v1#NAME --out out.jsonl
    python benchmarks/critiques.py tasks.jsonl --out out.jsonl
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
from everyday import repeated, share
from everyday_more import flips, read
from langchain_core.callbacks import BaseCallbackHandler
from redraft import build_refine_graph, chat_model, model_critic, verifier_critic
from redraft.nodes.critics.points import Point, borne_out
from redraft.nodes.verify.verifiers import verifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.outputs import LLMResult

Row = dict[str, Any]
WAYS: dict[str, dict[str, Any]] = {"feedback": {}, "points": {"points": True}}


QUOTED = re.compile(r"[\"“‘]([^\"“”‘’]{2,})[\"”’]|(?<!\w)'([^']{2,})'(?!\w)")


class Replies(BaseCallbackHandler):
    """Keeps the replies of a model as they came."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        """Keep one."""
        message: Any = response.generations[0][0].message  # type: ignore[union-attr]
        used = message.usage_metadata or {}
        self.rows.append({"reply": message.text, "tokens": used["total_tokens"], "written": used["output_tokens"]})


async def main() -> None:
    """Ask what is not in the file yet, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", type=Path, help="JSONL of `id`, `task` and `checks`")
    parser.add_argument("--runs", type=Path, help="of `everyday.py`, with the first drafts")
    parser.add_argument("--model", help="as in `redraft run --model`; without it, the report of what is there")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=[*WAYS])
    parser.add_argument("--limit", type=int, metavar="N", help="the first N tasks alone")
    parser.add_argument("--concurrency", type=int, default=8, metavar="N", help="default 8")
    parser.add_argument("--max-tokens", type=int, default=300, metavar="N", help="of a reply; default 300")
    parser.add_argument("--out", type=Path, required=True, help="a line for each critique")
    args = parser.parse_args()
    tasks = {row["id"]: row for row in read(args.tasks)[: args.limit]}
    there = {(row["id"], row["way"]): row for row in read(args.out)}
    room = asyncio.Semaphore(args.concurrency)

    async def one(row: Row, draft: str, way: str) -> None:
        async with room:
            there[row["id"], way] = await judged(row, draft, way, args)
        with args.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(there[row["id"], way], ensure_ascii=False) + "\n")
        print(f"{len(there)} critiques", end="\r", file=sys.stderr, flush=True)

    if args.model:
        drafts = {run["id"]: run["drafts"][0]["text"] for run in read(args.runs) if run["method"] == "first"}
        waiting = [(key, way) for key in tasks if key in drafts for way in args.ways if (key, way) not in there]
        await asyncio.gather(*(one(tasks[key], drafts[key], way) for key, way in waiting))
    report([row for (key, _), row in there.items() if key in tasks])


async def judged(row: Row, draft: str, way: str, args: argparse.Namespace) -> Row:
    """Return a critique of a draft, and the revision after it where it rejects."""
    replies = Replies()
    model = chat_model(args.model, seed=1, temperature=0.0, max_output_tokens=args.max_tokens)
    model.callbacks = [replies]
    critic = model_critic(model, **WAYS[way])
    graph = build_refine_graph(model, critics=[critic], judge_last=False, limits={"max_rounds": 1})
    output = await graph.ainvoke({"task": row["task"], "draft": draft})
    checks = [verifier_critic(verifier(spec)) for spec in row["checks"]]

    def score(text: str) -> float:
        return fmean(check(row["task"], text, ()).score or 0.0 for check in checks)  # type: ignore[union-attr]

    done: Row = {"id": row["id"], "way": way, "draft": draft, **replies.rows[0], "before": score(draft)}
    done["after"] = done["before"]
    for event in output["events"]:
        if event["kind"] == "critique":
            done |= {name: event.get(name) for name in ("accepted", "score", "text")}
        elif event["kind"] == "revision":
            done |= {"revision": event["text"], "rejected": event.get("rejected", "")}
            done["after"] = done["before"] if event.get("rejected") else score(event["text"])
    return done


def quotes(row: Row) -> list[str]:
    """Return the words that a critique quotes: those of its points, or what stands in quotation marks."""
    try:
        feedback = json.loads(row["reply"])["feedback"]
    except (ValueError, KeyError, TypeError):
        return []
    if isinstance(feedback, str):
        return [words for words in map("".join, QUOTED.findall(feedback)) if words.strip()]
    return [point["quote"] for point in feedback if point["quote"].strip()]


def report(rows: Sequence[Row]) -> None:
    """Print a block for each way, and the comparison on drafts that both judged."""
    by_way = {way: {row["id"]: row for row in rows if row["way"] == way} for way in WAYS}
    both = sorted(by_way["feedback"].keys() & by_way["points"].keys())
    print(f"{len(both)} first drafts that were judged in both ways\n")
    for way, by_id in by_way.items():
        done = [by_id[key] for key in both]
        if not done:
            continue
        real = [within(words, row["draft"]) for row in done for words in quotes(row)]
        rejected = [row for row in done if row["accepted"] is False]
        print(f"{way}: {fmean(row['written'] for row in done):.0f} tokens written a critique,", end=" ")
        print(f"{fmean(row['tokens'] for row in done):.0f} with the prompt")
        print(f"  could not be read: {sum(row['accepted'] is None for row in done)}")
        print(
            f"  runs of three words repeated: {fmean(repeated(row['reply']) for row in done):.1%} of the reply,", end=""
        )
        print(f" {fmean(repeated(row['text']) for row in done):.1%} of what the writer reads")
        print(f"  passages quoted that are in the draft: {share(real)}")
        wrong, right = ([row for row in done if (row["before"] == 1) is is_right] for is_right in (False, True))
        print(f"  wrong drafts rejected: {share(row['accepted'] is False for row in wrong)}")
        print(f"  right drafts accepted: {share(row['accepted'] is True for row in right)}")
        if rejected:
            gain = fmean(row["after"] - row["before"] for row in rejected)
            mended = share(row["after"] == 1 for row in rejected if row["before"] < 1)
            print(f"  revisions: {len(rejected)}, checks' score {gain:+.3f} a revision; wrong drafts mended: {mended}")
            print(f"    broken: {sum(row['after'] < 1 for row in rejected if row['before'] == 1)}", end="; ")
            print(f"no new draft: {sum(bool(row['rejected']) for row in rejected)}")
    if both:
        gains = [difference(by_way, key) for key in both]
        print(f"\nchecks' score after it, points less feedback: {np.mean(gains):+.3f} a draft, p = {flips(gains):.2g}")


def difference(by_way: dict[str, dict[str, Row]], key: str) -> float:
    """Return how much better the checks find what came of the points than what came of the feedback."""
    return float(by_way["points"][key]["after"] - by_way["feedback"][key]["after"])


def within(words: str, draft: str) -> bool:
    """Tell if words are in a draft, as the critic reads it."""
    return bool(borne_out([Point(quote=words, problem="wrong", better="")], draft))


if __name__ == "__main__":
    asyncio.run(main())
