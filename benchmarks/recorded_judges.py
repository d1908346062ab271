"""A judge calibrated on one half of recorded solutions, held against the other half; asks no model.

    python benchmarks/recorded_judges.py ../shared/data/gsm8k_recorded_solutions.jsonl [--delta 0.5 | --expected]
    python benchmarks/recorded_judges.py --simulate

Each row has four solutions. One of them is the draft; its score is the share of the other three that end in the same
number. Halves are drawn again and again, so that it also says how often the promise is broken. *Pooled* is the share of
wrong among all that the other halves accept.

`--expected` takes the laxest threshold with (wrong + 1) / (accepted + 1) <= alpha, which is meant to keep the expected
share at alpha (LEC, arXiv 2512.01556); redraft does not offer it. `--simulate` says why, from known risks: `flat`,
where every threshold has a risk of 1.5 alpha, and `falling`, where the risk falls from 0.8 to 0 with the score.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path

import numpy as np
from redraft.evals.analysis.calibration import Scored, calibrate
from redraft.evals.analysis.paired import proportion
from redraft.nodes import extract_number, same_number
from redraft.nodes.critics.judge_file import THRESHOLDS, JudgePart

WRITERS = ("175b_verification", "175b_finetuning", "6b_verification", "6b_finetuning")
PART = JudgePart(spec="field:agreement", name="agreement", reading="score", votes=1)


def main() -> None:
    """Print a table: one line for each draft's writer and alpha."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--delta", type=float, default=0.1)
    parser.add_argument("--expected", action="store_const", dest="delta", const=None, help="promise the expected share")
    parser.add_argument("--simulate", action="store_true", help="no file: draws from known risks")
    parser.add_argument("--splits", type=int, default=500)
    parser.add_argument("--out", type=Path, help="write the rows with their scores here, for `redraft calibrate`")
    given = parser.parse_args()
    if given.simulate or given.file is None:
        simulate(given.splits)
        return
    rows = [json.loads(line) for line in given.file.read_text(encoding="utf-8").splitlines() if line.strip()]
    print("writer              alpha  base  first half: threshold, accepts, wrong | other half: wrong of accepted (95%)"
          ", right lost | splits: with a judge, broken (of all), mean wrong, mean right lost, pooled")  # fmt: skip
    for writer in WRITERS:
        right = np.array([row[writer]["is_correct"] for row in rows])
        answers = {name: [extract_number(row[name]["solution"]) for row in rows] for name in WRITERS}
        others = [name for name in WRITERS if name != writer]
        scores = np.array(
            [
                np.mean([same_number(answers[writer][at], answers[other][at]) for other in others])
                for at in range(len(rows))
            ]
        )
        if given.out and writer == WRITERS[0]:
            lines = [
                {
                    "task": row["question"],
                    "draft": row[writer]["solution"],
                    "right": bool(good),
                    "agreement": float(score),
                }
                for row, good, score in zip(rows, right, scores, strict=True)
            ]
            given.out.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        for alpha in (0.05, 0.1, 0.2, 0.3):
            print(line_of(writer, right, scores, alpha, given))


def line_of(writer: str, right: np.ndarray, scores: np.ndarray, alpha: float, given: argparse.Namespace) -> str:
    """Return one line: even rows against odd ones, then random halves."""
    first = np.arange(len(right)) % 2 == 0
    threshold, accepts, wrong, held = halves(right, scores, first, alpha, given.delta)
    told = f"{writer:18}  {alpha:5.2f}  {right.mean():.0%}   "
    if threshold is None:
        told += "no setting keeps alpha"
    else:
        kept, bad, lost, good = held
        share = proportion(bad, kept)
        low, high = share.ci95
        told += (
            f"{threshold:.2f}, {accepts}, {wrong} | {bad} of {kept} = {share.rate or 0:.1%} ({low:.1%}-{high:.1%}), "
        )
        told += f"{lost} of {good}"
    random, shares, losses, pooled = np.random.default_rng(0), [], [], []
    for _ in range(given.splits):
        found, *_, held = halves(right, scores, random.permutation(len(right)) % 2 == 0, alpha, given.delta)
        if found is not None:
            kept, bad, lost, good = held
            shares.append(bad / kept if kept else 0.0)
            losses.append(lost / good)
            pooled.append((bad, kept))
    if shares:
        broken = np.sum(np.array(shares) > alpha) / given.splits
        told += f" | {len(shares)} of {given.splits}, {broken:.1%}, {np.mean(shares):.1%}, {np.mean(losses):.1%}"
        wrong, kept = np.sum(pooled, axis=0)
        told += f", {wrong / kept:.1%}"
    return told


def halves(right, scores, first, alpha, delta):  # type: ignore[no-untyped-def]
    """Return what a calibration on one half chose, and how it did on the other."""
    threshold = threshold_of(right[first], scores[first], alpha, delta)
    if threshold is None:
        return None, 0, 0, None
    here = scores[first] >= threshold
    kept = scores[~first] >= threshold
    good = right[~first]
    held = (int(kept.sum()), int((kept & ~good).sum()), int((good & ~kept).sum()), int(good.sum()))
    return threshold, int(here.sum()), int((here & ~right[first]).sum()), held


def threshold_of(right, scores, alpha, delta):  # type: ignore[no-untyped-def]
    """Return the threshold of `redraft calibrate`, without a delta that of the expected share; `None` without one."""
    if delta is not None:
        found = calibrate([Scored(PART, scores[:, None])], right[:, None], alpha=alpha, delta=delta).chosen
        return None if found is None else found.threshold
    kept = scores[None, :] >= np.array(THRESHOLDS)[:, None]
    ok = np.flatnonzero((kept & ~right).sum(axis=1) + 1 <= alpha * (kept.sum(axis=1) + 1))
    return THRESHOLDS[ok[-1]] if len(ok) else None


def simulate(draws: int) -> None:
    """Print how often each promise finds a judge, and the share of wrong among all that these would accept."""
    chance = np.random.default_rng(3)
    print("risk     rows  alpha  promise     with a judge  wrong of accepted")
    fine = np.arange(101) / 100
    for kind, n, alpha in product(("flat", "falling"), (100, 200, 1000), (0.05, 0.1)):
        risk = np.full(101, 1.5 * alpha) if kind == "flat" else 0.8 * (1 - fine)
        for delta in (0.1, 0.5, None):
            found = []
            for _ in range(draws):
                at = chance.integers(0, 101, n)
                threshold = threshold_of(chance.random(n) >= risk[at], fine[at], alpha, delta)
                if threshold is not None:
                    found.append((risk[fine >= threshold].sum(), (fine >= threshold).sum()))
            wrong, kept = np.sum(found, axis=0) if found else (0, 0)
            promise = "expected" if delta is None else f"delta {delta:g}"
            told = f"{wrong / kept:.1%}" if kept else "-"
            print(f"{kind:8} {n:5} {alpha:6.2f}  {promise:10} {len(found):5} of {draws}  {told:>8}")


if __name__ == "__main__":
    main()
