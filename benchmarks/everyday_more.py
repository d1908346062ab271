"""Everyday texts, two questions more: what it is in a request that mends a draft, and which text a reader would choose.

`factors` writes a first draft of each task at temperature 0, not told what the checks want, and goes on with those that
a check rejects. Each is revised in eight ways, `--samples` times at 0.7: what the checks want is told with the task or
not, what failed is told or not, the draft stands in the request or not. No edit by program. The report gives the share
of texts that all checks accept, and what each of the three adds (the mean over tasks, signs flipped, two-sided).

`prefer` takes the runs of `everyday.py` whose first draft was rejected and mended, and asks a model which of the two it
would choose as an answer to the task. It is asked in both orders, and told neither the checks nor which is which. A
pair counts where both orders give the same text.

    python benchmarks/everyday_more.py factors tasks.jsonl --model http://127.0.0.1:8911/v1#NAME --out factors.jsonl
    python benchmarks/everyday_more.py prefer tasks.jsonl --runs runs.jsonl --model … --out prefer.jsonl
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
from redraft import chat_model, verifier_critic
from redraft.evals.analysis.paired import proportion
from redraft.nodes.mending.ladder import wishes
from redraft.nodes.verify.verifiers import verifier
from scipy.stats import binomtest, permutation_test

if TYPE_CHECKING:
    from collections.abc import Sequence

Row = dict[str, Any]
FACTORS = ("wish", "failure", "draft")
FIRST = "{task}{wish}\n\nReply with the text only: no preface, no comment."
REVISE = "{task}{wish}{draft}{failure}\n\nReply with the new text only: no preface, no comment."
PREFER = """\
Task: {task}

Answer 1:
{one}

Answer 2:
{two}

Which answer does the task better? Reply with 1 or 2 only."""


async def main() -> None:
    """Run what is not in the file yet, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["factors", "prefer"])
    parser.add_argument("tasks", type=Path, nargs="+", help="JSONL of `id`, `task` and `checks`")
    parser.add_argument("--model", help="as in `redraft run --model`; without it, the report of what is there")
    parser.add_argument("--runs", type=Path, help="of `everyday.py`, for `prefer`")
    parser.add_argument("--samples", type=int, default=2, metavar="N", help="for `factors`; default 2")
    parser.add_argument("--concurrency", type=int, default=8, metavar="N", help="default 8")
    parser.add_argument("--out", type=Path, required=True, help="a line for each reply")
    args = parser.parse_args()
    rows = {row["id"]: row for path in args.tasks for row in read(path)}
    asked = Asked(args.model, args.out, args.concurrency)
    if args.what == "factors":
        await factors(rows, asked, args.samples)
    else:
        await prefer(rows, asked, read(args.runs))


def read(path: Path) -> list[Row]:
    """Return the lines of a file; none where there is no file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


class Asked:
    """Asks a model what the file does not have yet."""

    def __init__(self, model: str | None, out: Path, concurrency: int) -> None:
        self.there = {row["key"]: row for row in read(out)}
        self.model, self.out, self.room = model, out, asyncio.Semaphore(concurrency)

    async def __call__(self, key: str, prompt: str, *, seed: int, temperature: float, tokens: int) -> Row | None:
        """Return the reply with its tokens; `None` where the file lacks it and there is no model."""
        if key not in self.there and self.model:
            async with self.room:
                model = chat_model(self.model, seed=seed, temperature=temperature, max_output_tokens=tokens)
                reply = await model.ainvoke(prompt)
            used = reply.usage_metadata["total_tokens"] if reply.usage_metadata else 0
            self.there[key] = {"key": key, "text": reply.text.strip(), "tokens": used}
            with self.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(self.there[key], ensure_ascii=False) + "\n")
            print(f"{len(self.there)} replies", end="\r", file=sys.stderr, flush=True)
        return self.there.get(key)


async def factors(rows: dict[str, Row], asked: Asked, samples: int) -> None:
    """Revise rejected first drafts in eight ways, and report what each part of the request adds."""
    checks = {key: [verifier_critic(verifier(spec)) for spec in row["checks"]] for key, row in rows.items()}

    def failures(key: str, text: str) -> list[str]:
        told = [check(rows[key]["task"], text, ()) for check in checks[key]]
        return [one.text for one in told if one.accepted is not True]

    async def revised(key: str, draft: str, cell: Sequence[bool], seed: int) -> bool | None:
        wish, failure, sight = cell
        failed = "\n".join(f"- {text}" for text in failures(key, draft))
        prompt = REVISE.format(
            task=rows[key]["task"],
            wish=wishes(checks[key]) if wish else "",
            draft=f"\n\nAn earlier text, to be improved:\n{draft}" if sight else "",
            failure=f"\n\nWhat an earlier text got wrong:\n{failed}" if failure else "",
        )
        name = "".join(letter if on else "-" for letter, on in zip("wfd", cell, strict=True))
        reply = await asked(f"{key} {name} {seed}", prompt, seed=seed, temperature=0.7, tokens=300)
        return None if reply is None else not failures(key, reply["text"])

    async def one(key: str) -> dict[tuple[bool, ...], float] | None:
        prompt = FIRST.format(task=rows[key]["task"], wish="")
        first = await asked(f"{key} first", prompt, seed=0, temperature=0.0, tokens=300)
        if first is None or not failures(key, first["text"]):
            return None
        shares = {}
        for cell in product((False, True), repeat=3):
            done = await everyone(revised(key, first["text"], cell, seed) for seed in range(1, samples + 1))
            if None in done:
                return None
            shares[cell] = fmean(map(bool, done))
        return shares

    by_task = [shares for shares in await everyone(map(one, rows)) if shares]
    if not by_task:
        raise SystemExit("no rejected first draft has been revised in all eight ways yet")
    print(f"{len(by_task)} rejected first drafts of {len(rows)}, {samples} revisions each\n")
    for cell in product((False, True), repeat=3):
        told = [name for name, on in zip(FACTORS, cell, strict=True) if on]
        print(f"{' + '.join(told) or 'the task alone':24} {fmean(shares[cell] for shares in by_task):.0%}")
    print()
    for place, name in enumerate(FACTORS):
        gains = [fmean(value if cell[place] else -value for cell, value in one.items()) * 2 for one in by_task]
        print(f"{name:8} {np.mean(gains):+.1%}, p = {flips(gains):.2g}")


async def prefer(rows: dict[str, Row], asked: Asked, runs: list[Row]) -> None:
    """Ask which of first and mended draft is the better answer, and report."""
    pairs = {
        (run["id"], run["drafts"][0]["text"], run["answer"])
        for run in runs
        if run["method"] == "refine" and run["accepted"] and not run["drafts"][0]["accepted"]
    }

    async def one(key: str, first: str, mended: str) -> tuple[str, float | None]:
        chosen = []
        for order, (left, right) in {"as written": (first, mended), "turned": (mended, first)}.items():
            prompt = PREFER.format(task=rows[key]["task"], one=left, two=right)
            reply = await asked(f"{key} {order} {mended}", prompt, seed=0, temperature=0.0, tokens=4)
            if reply is None or reply["text"][:1] not in ("1", "2"):
                return key, None
            chosen.append((reply["text"][0] == "2") == (order == "as written"))
        return key, fmean(chosen)

    told = [(key, share) for key, share in await everyone(one(*pair) for pair in sorted(pairs)) if share is not None]
    firm = [share == 1 for _, share in told if share != 0.5]  # the two orders differ
    print(f"{len(pairs)} pairs of {len({key for key, *_ in pairs})} tasks; {len(told)} could be read")
    print(f"the same in both orders: {len(firm)}; of them mended preferred: {sum(firm)}", end="")
    low, high = proportion(sum(firm), len(firm)).ci95
    print(f", {sum(firm) / len(firm):.0%} ({low:.0%}–{high:.0%}), ", end="")
    print(f"p = {binomtest(sum(firm), len(firm)).pvalue:.2g} with pairs as independent")
    by_task = [fmean(share - 0.5 for key, share in told if key == one) for one in sorted({key for key, _ in told})]
    print(f"mean over tasks, one half where orders differ: {np.mean(by_task) + 0.5:.0%}, p = {flips(by_task):.2g}")


async def everyone(waiting: Any) -> list[Any]:
    """Return what all of them return, in order."""
    return await asyncio.gather(*waiting)


def flips(gains: Sequence[float]) -> float:
    """Return the p-value of a mean other than nought, signs flipped."""
    test = permutation_test((np.array(gains),), np.mean, permutation_type="samples", n_resamples=100_000, rng=1)
    return float(test.pvalue)


if __name__ == "__main__":
    asyncio.run(main())
