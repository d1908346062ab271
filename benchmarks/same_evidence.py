"""What revision adds to evidence: votes of the first draft and of programs, beside the run that also revised.

    python benchmarks/same_evidence.py evals/results/gsm8k_test --model http://127.0.0.1:8911/v1#NAME --out FILE

`adaptive` on word problems has a draft, programs written without seeing it, and revisions. Here the same draft and the
same first programs vote by a plain majority (of equals the earliest, the draft first), and nothing is revised. A run
that ended early lacks the second program and the third: they are written now, by the same model and prompts, the
third at 0.7, run in the sandbox, and kept in `--out`. Without `--model` nobody is asked, and what is missing is left
out. It was thought of when the results were known.

Votes that stop early are what `math` does since: `two agree` stops where any two answers are the same, `leads by two`
where one answer leads every other by two, and both after the draft and three programs. Of each folder, and of these
votes, it prints how many answers were wrong among those that were accepted, which a vote's are where it stopped early.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from redraft import Sandbox, chat_model
from redraft.evals.analysis.paired import paired
from redraft.evals.run.run_folder import find_runs
from redraft.nodes.critics.program_critic import PROGRAM_PROMPTS, Computed, read_program
from redraft.nodes.verify.numeric_answers import extract_number, same_number
from redraft.nodes.writing.prompts import chat_prompt, reseeded
from redraft.nodes.writing.replies import read_text
from redraft.nodes.writing.sampling import sampled
from rows import share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from decimal import Decimal

Row = dict[str, Any]


async def main() -> None:
    """Write the programs that are missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="each with the records of `adaptive`")
    parser.add_argument("--model", help="as in `redraft run --model`; the one that the records name")
    parser.add_argument("--programs", type=int, default=3, metavar="N", help="for a problem; default 3")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default 1, as of the records")
    parser.add_argument("--concurrency", type=int, default=8, metavar="N", help="default 8")
    parser.add_argument("--out", type=Path, help="a line for each program that is written now")
    args = parser.parse_args()
    for folder in args.folders:
        records = next(run.records for run in find_runs([folder]) if run.info.method == "adaptive")
        accepted = [record.is_correct is not True for record in records if record.stop_reason == "accepted"]
        wrong = f"wrong: {share(accepted)}" if accepted else "none"
        print(f"{folder.name}: accepted {len(accepted)} of {len(records)}, of them {wrong}")
        if any(step.programs for record in records for step in record.iterations_log):
            print()
            await votes(records, args)


async def votes(records: Any, args: argparse.Namespace) -> None:
    """Print how the answers of the first draft and of programs vote, beside the runs that revised."""
    lines = args.out.read_text(encoding="utf-8").splitlines() if args.out and args.out.exists() else []
    there = {(row["id"], row["number"]): row for row in map(json.loads, lines)}
    rows = [recorded(record) for record in records]
    missing = [
        (row, number)
        for row in rows
        for number in range(len(row["programs"]), args.programs)
        if (row["id"], number) not in there
    ]
    if args.model and missing:
        await write(missing, there, args)
    for row in rows:
        while new := there.get((row["id"], len(row["programs"]))):
            row["programs"].append((extract_number(new["answer"]) if new["answer"] else None, new["tokens"]))
    drafted = {row["id"]: row for row in rows}
    ways: dict[str, Callable[[Row], list[tuple[Any, int]] | None]] = {
        "the first draft": lambda row: [row["draft"]],
        "the first program alone": lambda row: row["programs"][:1] or None,
        "draft and the programs of round 0": lambda row: [row["draft"], *row["programs"][: row["recorded"]]],
        "draft and two programs": lambda row: (
            [row["draft"], *row["programs"][:2]] if len(row["programs"]) > 1 else None
        ),
        "draft and three programs": lambda row: [row["draft"], *row["programs"][:3]] if three(row) else None,
        "the same, until two agree": lambda row: early(row, agreed)[0] if three(row) else None,
        "the same, until one leads by two": lambda row: early(row, leads)[0] if three(row) else None,
        "two programs first, until two agree": lambda row: early(row, agreed, before=2)[0] if three(row) else None,
        "two programs first, till a lead of two": lambda row: early(row, leads, before=2)[0] if three(row) else None,
    }
    print(f"{'':38} {'n':>4}  {'right':26} tokens  `adaptive` on the same; alone right: it, the vote")
    for name, way in ways.items():
        told = {key: cast for key, row in drafted.items() if (cast := way(row))}
        if not told:
            continue
        right = {key: same_number(majority(cast), drafted[key]["gold"]) for key, cast in told.items()}
        spent = fmean(sum(tokens for _, tokens in cast) for cast in told.values())
        ours = {key: drafted[key]["right"] for key in told}
        change = paired([right[key] for key in told], [ours[key] for key in told])
        beside = f"{share(ours.values())} at {fmean(drafted[key]['tokens'] for key in told):,.0f}"
        print(f"{name:38} {len(told):>4}  {share(right.values()):26} {spent:6,.0f}  {beside}; ", end="")
        print(f"{change.fixed}, {change.broken}, p = {change.mcnemar_p:.2g}")
    rules = {"two agree": (agreed, 0), "leads by two": (leads, 0)}
    rules |= {f"{name}, two programs first": (stops, 2) for name, (stops, _) in rules.items()}
    for name, (stops, before) in rules.items():
        cast = [(row, *early(row, stops, before=before)) for row in rows if three(row)]
        wrong = [not same_number(majority(votes), row["gold"]) for row, votes, stopped in cast if stopped]
        print(f"{name}: accepted {len(wrong)} of {len(cast)}, of them wrong: {share(wrong) if wrong else 'none'}")
    stood = [any(same_number(one, row["gold"]) for one in row["all"]) for row in rows]
    print(f"a right answer stood among all drafts and programs of `adaptive`: {share(stood)}")


def recorded(record: Any) -> Row:
    """Return the answers of a record: the first draft and the programs of its first round, each with its tokens."""
    first, *later = record.iterations_log
    opening = [step for step in later if step.iteration == 0 and step.programs]
    programs = [one for step in opening for one in step.programs]
    # The record has the tokens of a step; two programs took about as much each.
    each = sum(step.tokens_used for step in opening) // max(1, len(programs))
    answers = [step.predicted_answer for step in record.iterations_log]
    answers += [one["answer"] for step in record.iterations_log for one in map(fields, step.programs)]
    return {
        "id": record.question_id,
        "question": record.question,
        "gold": extract_number(record.gold),
        "right": record.is_correct is True,
        "tokens": record.total_tokens,
        "draft": (number(first.predicted_answer), first.tokens_used),
        "programs": [(number(fields(one)["answer"]), each) for one in programs],
        "recorded": len(programs),
        "all": [number(answer) for answer in answers],
    }


def fields(program: Any) -> Mapping[str, Any]:
    """Return a recorded program as a mapping."""
    return program if isinstance(program, dict) else program.model_dump()


def number(answer: str | None) -> Decimal | None:
    """Return a recorded answer as a number."""
    return extract_number(answer) if answer else None


def majority(answers: Iterable[tuple[Decimal | None, int]]) -> Decimal | None:
    """Return the answer with most votes, of equals the earliest."""
    counted = Counter(answer for answer, _ in answers if answer is not None)
    return max(counted, key=lambda one: counted[one]) if counted else None


def three(row: Row) -> bool:
    """Return True if a row has three programs."""
    return len(row["programs"]) > 2


def early(row: Row, stops: Callable[[Sequence[int]], bool], *, before: int = 0) -> tuple[list[tuple[Any, int]], bool]:
    """Return the votes that are cast until a rule stops, three programs at most, and whether it did.

    Args:
        row: A problem.
        stops: Takes how often each answer was given, most often first.
        before: So many of the programs vote before the draft is written.
    """
    cast: list[tuple[Any, int]] = []
    programs = row["programs"][:3]
    for vote in [*programs[:before], row["draft"], *programs[before:]]:
        cast.append(vote)
        counted = Counter(answer for answer, _ in cast if answer is not None)
        if stops([count for _, count in counted.most_common()]):
            return cast, True
    return cast, False


def agreed(counts: Sequence[int]) -> bool:
    """Stop where any two answers are the same."""
    return bool(counts) and counts[0] > 1


def leads(counts: Sequence[int]) -> bool:
    """Stop where one answer leads every other by two."""
    return bool(counts) and counts[0] - (counts[1] if len(counts) > 1 else 0) > 1


async def write(missing: list[tuple[Row, int]], there: dict[tuple[str, int], Row], args: argparse.Namespace) -> None:
    """Write and run programs, and keep each as it comes."""
    model = chat_model(args.model, seed=args.seed, temperature=0.0, max_output_tokens=400)
    templates = chat_prompt(PROGRAM_PROMPTS, what="prompts", needed=[])
    room, sandbox = asyncio.Semaphore(args.concurrency), Sandbox()

    async def one(row: Row, place: int) -> None:
        template = templates[place % len(templates)]
        messages = template.format_messages(
            task=row["question"], draft="", feedback="", history="", round=place, context=""
        )
        writer = reseeded(model if place < len(templates) else sampled(model), place, messages)
        async with room:
            reply = await writer.ainvoke(messages)
        program = read_program(read_text(reply))
        computed = Computed.of(program, await sandbox.arun(program) if program else None)
        tokens = reply.usage_metadata["total_tokens"] if reply.usage_metadata else 0
        key = (row["id"], place)
        there[key] = {"id": key[0], "number": place, "answer": computed.shown, "tokens": tokens, "program": program}
        if args.out:
            with args.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(there[key], ensure_ascii=False) + "\n")
        print(f"{len(there)} programs", end="\r", file=sys.stderr, flush=True)

    await asyncio.gather(*(one(row, place) for row, place in missing))


if __name__ == "__main__":
    asyncio.run(main())
