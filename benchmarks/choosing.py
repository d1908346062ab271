"""Simulations from known truths: does `redraft choose` pick well, and does `redraft gate` cry wolf?

    python benchmarks/choosing.py [--draws 200] [--rows 300]

`choose`: seven candidates with the given chances of a right answer, correlated over the rows by a common difficulty
(0.6). A draw is *bad* where the candidate that was picked is worse than the best by more than 5 points, and *false*
where one was dropped for another that is not better (or, of a cheaper one, worse by the margin or more). *Calls* are
those made, as a share of playing all seven on all rows: one play of the graph shows all its rounds, and one of the
samples all their numbers, and nothing is played once its candidates are dropped.

`gate`: pairs of right and wrong with the given difference and share of changed verdicts. *Wrong* is a verdict that is
not so, though it is looked at after every row. *Rows* is the mean until a verdict, and beside it the rows of a test of
fixed size (McNemar's, exact, one-sided, 5%) that finds the loss as often.
"""

from __future__ import annotations

import argparse
import math
import random
from statistics import NormalDist, fmean

from redraft.evals.choosing import Race
from redraft.evals.gating import sequential
from scipy.stats import binom

__all__ = ["main"]

NAMES = ("one-call", "longer-call", "refine-1", "refine-2", "refine-3", "samples-2", "samples-4")
CALLS = {"one-call": 1, "longer-call": 1, "refine-1": 2, "refine-2": 3, "refine-3": 4, "samples-2": 2, "samples-4": 4}
TOKENS = {**CALLS, "longer-call": 2}
PLAYS = (("one-call", "refine-1", "refine-2", "refine-3"), ("samples-2", "samples-4"), ("longer-call",))
"""The candidates that one play shows."""
TRUTHS = {
    "all alike": (0.5,) * 7,
    "one better by 6": (0.5, 0.5, 0.5, 0.5, 0.56, 0.5, 0.5),
    "one better by 10": (0.5, 0.5, 0.5, 0.5, 0.6, 0.5, 0.5),
    "one call is best": (0.6, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5),
    "each round gains 5": (0.5, 0.5, 0.55, 0.6, 0.65, 0.55, 0.6),
    "samples gain": (0.5, 0.5, 0.55, 0.55, 0.55, 0.6, 0.7),
    "everyday texts": (0.48, 0.5, 0.75, 0.86, 0.93, 0.7, 0.85),
}
MARGIN = 0.05
LOSSES = ((0.0, 0.2), (0.0, 0.4), (-0.1, 0.2), (-0.15, 0.3), (-0.2, 0.3))
MOST = 400


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200, metavar="N", help="default 200")
    parser.add_argument("--rows", type=int, default=300, metavar="N", help="rows to choose by; default 300")
    args = parser.parse_args()
    print(f"choose, {args.draws} draws of {args.rows} rows\n\ntruth                  bad    false  calls  decided")
    shares = []
    for truth, chances in TRUTHS.items():
        chance = random.Random(1)
        draws = [drawn(dict(zip(NAMES, chances, strict=True)), args.rows, chance) for _ in range(args.draws)]
        bad, false, calls, decided = (fmean(column) for column in zip(*draws, strict=True))
        shares.append(calls)
        print(f"{truth:20}  {bad:5.1%}  {false:6.1%}  {calls:5.0%}  {decided:7.0%}", flush=True)
    print(f"{'mean':20}  {'':5}  {'':6}  {fmean(shares):5.0%}")
    print(f"\ngate, {args.draws} draws of at most {MOST} rows, margin 5 points")
    print("\nloss  changed  worse  held   wrong  rows  fixed size of equal power")
    for difference, changed in LOSSES:
        gated(difference, changed, args.draws)


def drawn(chances: dict[str, float], rows: int, chance: random.Random) -> tuple[bool, bool, float, bool]:
    """Return if a draw picked badly, claimed what is not so, its share of calls, and if it was decided."""
    race, calls, normal = Race(NAMES, margin=MARGIN), 0, NormalDist()
    bounds = {name: normal.inv_cdf(share) for name, share in chances.items()}
    for _ in range(rows):
        calls += sum(max((CALLS[name] for name in play if name in race.alive), default=0) for play in PLAYS)
        common = math.sqrt(0.6) * chance.gauss()
        right = {name: common + math.sqrt(0.4) * chance.gauss() < bound for name, bound in bounds.items()}
        race.add({name: (TOKENS[name], float(right[name])) for name in race.alive})
        if len(race.alive) == 1:
            break
    best, choice = max(chances.values()), race.choice()
    claims = [(name, why.split()[0], "better" in why) for name, why in race.dropped.items()]
    false = any(
        chances[other] <= chances[name] if better else chances[other] <= chances[name] - MARGIN
        for name, other, better in claims
    )
    return chances[choice] < best - MARGIN - 1e-9, false, calls / (rows * sum(CALLS.values())), len(race.alive) == 1


def gated(difference: float, changed: float, draws: int) -> None:
    """Print a row of the second table."""
    chance, verdicts, lengths = random.Random(2), [], []
    weights = ((changed + difference) / 2, (changed - difference) / 2, 1 - changed)
    for _ in range(draws):
        verdict, n = sequential(chance.choices((1.0, -1.0, 0.0), weights, k=MOST), margin=MARGIN)
        verdicts.append(verdict)
        lengths.append(n)
    worse, held = (verdicts.count(one) / draws for one in ("worse", "held"))
    wrong = worse if difference >= 0 else held if difference <= -MARGIN else 0.0
    fixed = fixed_size(difference, changed, worse) if difference < 0 else None
    saved = "" if fixed is None else f"{fixed}: {1 - fmean(lengths) / fixed:.0%} fewer"
    print(f"{difference:4.2f}  {changed:7.1f}  {worse:5.1%}  {held:5.1%}  {wrong:5.1%}  {fmean(lengths):4.0f}  {saved}")


def fixed_size(difference: float, changed: float, power: float) -> int:
    """Return the rows of an exact test of fixed size that finds a loss with this power."""
    share = (changed + difference) / 2 / changed
    for rows in range(20, 5000, 5):
        changes = range(rows + 1)
        found = sum(
            binom.pmf(number, rows, changed) * binom.cdf(binom.ppf(0.05, number, 0.5) - 1, number, share)
            for number in changes
        )
        if found >= min(power, 0.999):
            return rows
    return 5000


if __name__ == "__main__":
    main()
