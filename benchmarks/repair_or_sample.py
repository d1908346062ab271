"""What a repair adds to samples: other samples in the place of each repair of `adaptive` on code.

    python benchmarks/repair_or_sample.py evals/results/humaneval --model SPEC --out FILE

`adaptive` on code writes a draft, up to three samples where the visible tests reject it, and then one repair, which
is told what failed. Here each problem that came to the repair gets samples in its place, two at most, by the same model
and prompt, judged by the same visible tests; the first that they accept is the answer, or else the best by their score,
of equals the earliest. Two samples take more tokens than the repair, so the comparison favours them. They are kept in
`--out`. Without `--model` nobody is asked, and problems whose samples are missing are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

from redraft import Sandbox, chat_model
from redraft.evals.analysis.paired import paired, proportion
from redraft.evals.datasets.scorers import scorer
from redraft.evals.run.run_folder import find_runs
from redraft.graphs.code_problems import CODE_ARMS, CODE_GENERATE_PROMPT
from redraft.nodes.verify.code_checks import passes_visible_tests
from redraft.nodes.writing.prompts import chat_prompt, reseeded
from redraft.nodes.writing.replies import read_text
from redraft.nodes.writing.sampling import sampled

LAST = sum(arm.tries for arm in CODE_ARMS)
"""The round of the repair."""
SAMPLES = 2

Try = tuple[float, bool, int, bool]
"""The score that the visible tests give, whether they accept it, its tokens, and whether it is right."""


async def main() -> None:
    """Write the samples that are missing, and print what both ways bring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="with the records of `adaptive` on code")
    parser.add_argument("--model", help="as in `redraft run --model`; the one that the records name")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default 1, as of the records")
    parser.add_argument("--max-output-tokens", type=int, default=500, metavar="N", help="default 500")
    parser.add_argument("--concurrency", type=int, default=8, metavar="N", help="default 8")
    parser.add_argument("--out", type=Path, help="a line for each sample that is written now")
    args = parser.parse_args()
    records = next(run.records for run in find_runs([args.folder]) if run.info.method == "adaptive")
    repaired = {record.question_id: record for record in records if record.num_iterations == LAST}
    lines = args.out.read_text(encoding="utf-8").splitlines() if args.out and args.out.exists() else []
    there: dict[str, list[dict[str, Any]]] = {}
    for row in map(json.loads, lines):
        there.setdefault(row["id"], []).append(row)
    if args.model:
        await write([record for one, record in repaired.items() if one not in there], there, args)
    known = [record for record in records if record.question_id not in repaired or record.question_id in there]
    with_repair, with_samples, spent = [], [], []
    for record in known:
        tries = tries_of(record)
        own, others = chosen(tries), chosen(tries)
        if record.question_id in repaired:
            new: list[Try] = [
                (row["score"], row["accepted"], row["tokens"], row["right"]) for row in there[record.question_id]
            ]
            others = chosen(tries[:LAST] + new)
            spent.append((tries[LAST][2], sum(one[2] for one in new)))
        if own != (record.is_correct is True):
            raise SystemExit(f"the rule picks another answer than the run did: {record.question_id}")
        with_repair.append(own)
        with_samples.append(others)
    more = (fmean(record.total_tokens for record in known), sum(new - old for old, new in spent) / len(known))
    late = [one.question_id in repaired for one in known]
    for what, chose in (("all problems", [True] * len(known)), ("those that came to the repair", late)):
        ours = [one for one, take in zip(with_repair, chose, strict=True) if take]
        theirs = [one for one, take in zip(with_samples, chose, strict=True) if take]
        change = paired(theirs, ours)
        print(
            f"{what}: with the repair {share(ours)}, with samples in its place {share(theirs)}; alone right: ", end=""
        )
        print(f"{change.fixed} and {change.broken}, p = {change.mcnemar_p:.2g}")
    print(f"tokens a problem: {more[0]:,.0f} with the repair, {sum(more):,.0f} with samples in its place")


def tries_of(record: Any) -> list[Try]:
    """Return what was tried, in order."""
    rounds: dict[int, list[Any]] = {}
    for step in record.iterations_log:
        rounds.setdefault(step.iteration, []).append(step)
    return [
        (
            max((step.score for step in steps if step.score is not None), default=0.0),
            any(step.accepted is True for step in steps),
            sum(step.tokens_used for step in steps),
            steps[0].is_correct is True,
        )
        for _, steps in sorted(rounds.items())
    ]


def chosen(tries: list[Try]) -> bool:
    """Return True if the answer is right: the accepted one, or else the best by score, of equals the earliest."""
    return max(tries, key=lambda one: (one[1], one[0]))[3]


async def write(records: list[Any], there: dict[str, list[dict[str, Any]]], args: argparse.Namespace) -> None:
    """Write samples for each problem until one is accepted, judge them, and keep them."""
    model = sampled(chat_model(args.model, seed=args.seed, temperature=0.0, max_output_tokens=args.max_output_tokens))
    template, judge = (
        chat_prompt(CODE_GENERATE_PROMPT.replace("TESTS", ""), what="prompt", known=("task",))[0],
        scorer("code"),
    )
    room, verifier = asyncio.Semaphore(args.concurrency), passes_visible_tests(Sandbox())

    async def one(record: Any) -> None:
        rows: list[dict[str, Any]] = []
        messages = template.format_messages(task=record.question)
        async with room:
            for number in range(LAST, LAST + SAMPLES):
                reply = await reseeded(model, number, messages).ainvoke(messages)
                text = read_text(reply)
                critique = await asyncio.to_thread(verifier, record.question, text)
                right = await asyncio.to_thread(judge.is_correct, judge.gold_of(record.gold), text)
                rows.append({
                    "id": record.question_id,
                    "number": number,
                    "score": critique.score if critique and critique.score is not None else 0.0,
                    "accepted": bool(critique and critique.accepted),
                    "tokens": reply.usage_metadata["total_tokens"] if reply.usage_metadata else 0,
                    "right": right,
                    "text": text,
                })  # fmt: skip
                if rows[-1]["accepted"]:
                    break
        there[record.question_id] = rows
        if args.out:
            with args.out.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        print(f"{len(there)} problems", end="\r", file=sys.stderr, flush=True)

    await asyncio.gather(*map(one, records))


def share(values: list[bool]) -> str:
    """Return a share with its interval."""
    if not values:
        return "none"
    low, high = proportion(sum(values), len(values)).ci95
    return f"{sum(values)} of {len(values)} = {sum(values) / len(values):.1%} ({low:.1%}–{high:.1%})"


if __name__ == "__main__":
    asyncio.run(main())
