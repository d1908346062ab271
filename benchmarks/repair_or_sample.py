"""What a repair adds to samples: other samples in the place of each repair of `adaptive` on code.

    python benchmarks/repair_or_sample.py evals/results/humaneval --model SPEC --out FILE

`adaptive` on code writes a draft, up to three samples where the visible tests reject it, and then one repair, which
is told what failed. Here each problem that came to the repair gets samples in its place, two at most, by the same model
and prompt, judged by the same visible tests; the first that they accept is the answer, or else the best by their score,
of equals the earliest. Two samples take more tokens than the repair, so the comparison favours them. They are kept in
`--out`. Without `--model` nobody is asked, and problems whose samples are missing are left out.

`--different` asks another question: do different prompts find what one prompt does not? Each problem whose draft the
visible tests rejected gets, in the place of its three samples, one with a plan first, one that works the given example
out first, and one at a temperature of 1. Both ways are without the repair then.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from redraft import Sandbox, chat_model
from redraft.evals.analysis.paired import paired
from redraft.evals.datasets.scorers import scorer
from redraft.evals.run.run_folder import find_runs
from redraft.graphs.code_problems import CODE_ARMS, CODE_GENERATE_PROMPT
from redraft.nodes.verify.code_checks import passes_visible_tests
from redraft.nodes.writing.prompts import chat_prompt, reseeded
from redraft.nodes.writing.replies import read_text
from redraft.nodes.writing.sampling import sampled
from rows import share

LAST = sum(arm.tries for arm in CODE_ARMS)
"""The round of the repair."""
PLAN = "\n\nFirst write a plan of three lines as comments, then the function."
EXAMPLE = "\n\nFirst work the given example out step by step in comments, then write the function."


class Question(NamedTuple):
    """What is written in the place of what."""

    first: int
    """The round from which on other tries take the place of the recorded ones."""
    end: int | None
    """The round before which the recorded ones end, too; `None`: all of them."""
    ways: list[tuple[str, float]]
    """What stands behind the prompt of each try, and its temperature."""
    ours: str
    theirs: str
    those: str
    """The problems that came to it."""


REPAIR = Question(LAST, None, [("", 0.7)] * 2, "with the repair", "with samples", "those that came to the repair")
PROMPTS = Question(
    1,
    LAST,
    [(PLAN, 0.7), (EXAMPLE, 0.7), ("", 1.0)],
    "with the samples",
    "with different ones",
    "those whose draft was rejected",
)


class Try(NamedTuple):
    """A draft, a sample or a repair, and what came of it."""

    score: float
    """What the visible tests give, 0–1."""
    accepted: bool
    tokens: int
    right: bool


async def main() -> None:
    """Write the samples that are missing, and print what both ways bring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="with the records of `adaptive` on code")
    parser.add_argument("--model", help="as in `redraft run --model`; the one that the records name")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default 1, as of the records")
    parser.add_argument("--max-output-tokens", type=int, default=500, metavar="N", help="default 500")
    parser.add_argument("--concurrency", type=int, default=8, metavar="N", help="default 8")
    parser.add_argument("--different", action="store_true", help="other prompts in the place of the samples")
    parser.add_argument("--out", type=Path, help="a line for each sample that is written now")
    args = parser.parse_args()
    records = next((run.records for run in find_runs([args.folder]) if run.info.method == "adaptive"), None)
    if records is None:
        raise SystemExit(f"{args.folder} has no records of adaptive")
    question = PROMPTS if args.different else REPAIR
    late = {record.question_id for record in records if record.num_iterations >= question.first}
    lines = args.out.read_text(encoding="utf-8").splitlines() if args.out and args.out.exists() else []
    there: dict[str, list[dict[str, Any]]] = {}
    for row in map(json.loads, lines):
        there.setdefault(row["id"], []).append(row)
    if args.model:
        await write([one for one in records if one.question_id in late - there.keys()], there, args, question)
    known = [record for record in records if record.question_id not in late - there.keys()]
    compare("all problems", known, there, question)
    compare(question.those, [record for record in known if record.question_id in late], there, question)


def compare(what: str, records: list[Any], there: dict[str, list[dict[str, Any]]], question: Question) -> None:
    """Print how many are right, and what they cost, with the recorded tries and with others."""
    whole = [tries_of(record) for record in records]
    if any(chosen(tries) != (one.is_correct is True) for one, tries in zip(records, whole, strict=True)):
        raise SystemExit("the rule picks other answers than the run did")
    if not records:
        print(f"{what}: none")
        return
    ours = [tries[: question.end] for tries in whole]
    theirs = [[*tries[: question.first], *samples_of(there, one)] for one, tries in zip(records, whole, strict=True)]
    change = paired([*map(chosen, theirs)], [*map(chosen, ours)])
    print(f"{what}: {question.ours} {share(map(chosen, ours))},", end=" ")
    print(f"{question.theirs} in their place {share(map(chosen, theirs))};")
    print(f"  alone right {change.fixed} and {change.broken}, p = {change.mcnemar_p:.2g};", end=" ")
    print("tokens a problem {:,.0f} and {:,.0f}".format(*(fmean(map(tokens, way)) for way in (ours, theirs))))


def tries_of(record: Any) -> list[Try]:
    """Return what was tried, in order."""
    rounds: dict[int, list[Any]] = {}
    for step in record.iterations_log:
        rounds.setdefault(step.iteration, []).append(step)
    return [
        Try(
            score=max((step.score for step in steps if step.score is not None), default=0.0),
            accepted=any(step.accepted is True for step in steps),
            tokens=sum(step.tokens_used for step in steps),
            right=steps[0].is_correct is True,
        )
        for _, steps in sorted(rounds.items())
    ]


def samples_of(there: dict[str, list[dict[str, Any]]], record: Any) -> list[Try]:
    """Return what was written now for a problem; nothing where it did not come to that."""
    return [
        Try(row["score"], row["accepted"], row["tokens"], row["right"]) for row in there.get(record.question_id, ())
    ]


def chosen(tries: list[Try]) -> bool:
    """Return True if the answer is right: the accepted one, or else the best by score, of equals the earliest."""
    return max(tries, key=lambda one: (one.accepted, one.score)).right


def tokens(tries: list[Try]) -> int:
    """Return the tokens of all tries."""
    return sum(one.tokens for one in tries)


async def write(
    records: list[Any], there: dict[str, list[dict[str, Any]]], args: argparse.Namespace, question: Question
) -> None:
    """Write samples for each problem until one is accepted, judge them, and keep them."""
    model = chat_model(args.model, seed=args.seed, temperature=0.0, max_output_tokens=args.max_output_tokens)
    about: Any = {"what": "prompt", "known": ("task",)}
    tries = [
        (sampled(model, temperature), chat_prompt(CODE_GENERATE_PROMPT.replace("TESTS", behind), **about)[0])
        for behind, temperature in question.ways
    ]
    room, judge, verifier = asyncio.Semaphore(args.concurrency), scorer("code"), passes_visible_tests(Sandbox())

    async def one(record: Any) -> None:
        rows: list[dict[str, Any]] = []
        async with room:
            for number, (sampler, template) in enumerate(tries, question.first):
                messages = template.format_messages(task=record.question)
                reply = await reseeded(sampler, number, messages).ainvoke(messages)
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


if __name__ == "__main__":
    asyncio.run(main())
