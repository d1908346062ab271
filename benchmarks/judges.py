"""Which judge separates right drafts from wrong ones, and at what cost: AUC and tokens a draft, on a real model.

    python benchmarks/judges.py labelled.jsonl --model http://127.0.0.1:8911/v1#NAME --limit 100 --votes 5

The rows hold task, draft and right, as `redraft calibrate` reads them. With `other`, another draft of the same task,
the two are compared in both orders as well: 1 where the draft wins in both, 0 where the other does, else 0.5. Rows are
kept in `--out` as they come in; the same command goes on with what is there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.callbacks import get_usage_metadata_callback
from redraft.evals.analysis.judged_drafts import SAMPLING, LabelledDraft, read_labelled
from redraft.models import chat_model
from redraft.nodes.critics.calibrated import ask_votes, judge_critic
from redraft.nodes.search.ranking import PairwiseJudge
from redraft.state import Critique
from redraft.state.dual import adrive
from scipy.stats import rankdata

if TYPE_CHECKING:
    from collections.abc import Callable

JUDGES = ("self", "logprob:self", "checklist:self", "program", "pairwise")


def main() -> None:
    """Judge the rows, and print a line for each judge and number of votes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--judges", default=",".join(JUDGES))
    parser.add_argument("--votes", type=int, default=5, help="of self; its first vote is shown by itself too")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--max-output-tokens", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("judged.jsonl"))
    given = parser.parse_args()
    drafts = read_labelled(given.file, limit=given.limit)
    asyncio.run(judge_all(drafts, given))
    show(drafts, given.out)


async def judge_all(drafts: list[LabelledDraft], given: argparse.Namespace) -> None:
    """Ask each judge about each draft that it was not asked about yet, and append what it says."""
    model = chat_model(given.model, max_output_tokens=given.max_output_tokens, seed=given.seed)
    known = {(row["judge"], row["problem"]) for row in rows_of(given.out)}
    gate = asyncio.Semaphore(given.concurrency)

    async def one(name: str, ask: Callable[[LabelledDraft], Any], draft: LabelledDraft) -> None:
        async with gate:
            start = perf_counter()
            with get_usage_metadata_callback() as used:
                try:
                    said = await adrive(ask(draft))
                except ValueError as error:  # a model without log-probabilities, say: the other judges go on
                    print(f"{name}, row {draft.problem}: {error}")
                    return
            tokens = sum(usage["total_tokens"] for usage in used.usage_metadata.values())
        line = {
            "judge": name,
            "problem": draft.problem,
            "said": [[one.accepted, one.score] for one in said],
            "tokens": tokens,
            "seconds": round(perf_counter() - start, 3),
        }
        with given.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    for name in given.judges.split(","):
        votes = given.votes if name == "self" else 1
        if name == "pairwise":
            judge = PairwiseJudge(model)

            def ask(draft: LabelledDraft, judge: PairwiseJudge = judge) -> Any:
                found = yield from judge.logic(draft.task, draft.draft, draft.row["other"])
                score = {"first": 1.0, "second": 0.0, None: 0.5}[found.winner]
                return [Critique("", None, score)]

            asked = [draft for draft in drafts if "other" in draft.row]
        else:
            critic = judge_critic(name, model, chat_model)

            def ask(draft: LabelledDraft, critic: Any = critic, votes: int = votes) -> Any:
                warm = SAMPLING if votes > 1 else None
                return ask_votes(critic, draft.task, draft.draft, (), votes=votes, temperature=warm)

            asked = drafts
        todo = [draft for draft in asked if (name, draft.problem) not in known]
        await asyncio.gather(*(one(name, ask, draft) for draft in todo))
        print(f"{name}: {len(todo)} judged")


def rows_of(out: Path) -> list[dict[str, Any]]:
    """Return what was judged before."""
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()] if out.exists() else []


def show(drafts: list[LabelledDraft], out: Path) -> None:
    """Print AUC with a bootstrap interval, what is accepted of right and wrong, tokens and seconds."""
    right_of = {draft.problem: draft.right for draft in drafts}
    rows = [row for row in rows_of(out) if row["problem"] in right_of]
    columns = f"{'AUC (95%)':>18} {'accepts right':>14} {'accepts wrong':>14} {'tokens':>7} {'seconds':>8}"
    print(f"{'judge':26} {'n':>4} {columns}")
    for name in dict.fromkeys(row["judge"] for row in rows):
        own = [row for row in rows if row["judge"] == name]
        right = np.array([right_of[row["problem"]] for row in own])
        yes = np.array([[accepted is True for accepted, _ in row["said"]] for row in own], dtype=float)
        score = np.array([row["said"][0][1] or 0.0 for row in own])
        lines = {f"{name}, score": (score, 1), f"{name}, verdict": (yes[:, 0], 1)}
        if yes.shape[1] > 1:
            lines[f"{name}, {yes.shape[1]} votes"] = (yes.mean(axis=1), yes.shape[1])
        for label, (numbers, votes) in lines.items():
            tokens = np.mean([row["tokens"] for row in own]) * votes / yes.shape[1]
            seconds = np.mean([row["seconds"] for row in own]) * votes / yes.shape[1]
            good, bad = numbers[right] > 0.5, numbers[~right] > 0.5
            print(f"{label:26} {len(own):4} {auc_words(numbers, right):>18} {good.sum():6} of {right.sum():4} "
                  f"{bad.sum():6} of {(~right).sum():4} {tokens:7.0f} {seconds:8.1f}")  # fmt: skip


def auc_words(numbers: np.ndarray, right: np.ndarray) -> str:
    """Return the area under the curve with a 95% percentile bootstrap."""
    if right.all() or not right.any():
        return "-"
    random, found = np.random.default_rng(0), []
    for _ in range(1000):
        at = random.integers(len(right), size=len(right))
        if right[at].any() and not right[at].all():
            found.append(auc(numbers[at], right[at]))
    low, high = np.quantile(found, [0.025, 0.975])
    return f"{auc(numbers, right):.2f} ({low:.2f}-{high:.2f})"


def auc(numbers: np.ndarray, right: np.ndarray) -> float:
    """Return the chance that a right draft has the greater number; ties count half."""
    good, bad = right.sum(), (~right).sum()
    return float((rankdata(numbers)[right].sum() - good * (good + 1) / 2) / (good * bad))


if __name__ == "__main__":
    main()
