"""Token matching: a sampling baseline cut to another method's tokens, from its recorded samples. Internal."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from ...nodes.writing.voting import majority_text
from ..run.voted_answers import VOTED_ANSWERS
from .round_rates import attempt_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...state.summary import Attempt
    from ..run.result_record import ResultRecord
    from ..run.run_folder import Run, RunInfo

__all__ = ["SLACK", "Matched", "match_tokens"]

SLACK = 1.05
"""The baseline may cost this many times the tokens that it is matched to."""


@dataclass(frozen=True)
class Matched:
    """A baseline as it would have done with fewer samples."""

    samples: float
    """How many samples a problem had at most, on average."""
    tokens: float
    """Mean tokens a problem."""
    verdicts: dict[str, bool]
    """By the problem's id, whether its answer is right."""


def match_tokens(run: Run, ids: Sequence[str], tokens: float) -> Matched | None:
    """Return a majority or best-of-N with as many samples as these tokens pay for, or `None` for any other run.

    Every problem has as many samples as all can have; one more has a part of them, in the order of the SHA-256 of their
    ids, for which the mean stays within `SLACK` of `tokens`.

    Args:
        run: The baseline.
        ids: The problems that it is compared on.
        tokens: Mean tokens a problem of the other method.
    """
    records = {one.question_id: one for one in run.records}
    steps = {name: _prefixes(records[name], run.info) for name in ids}
    if not steps or not all(steps.values()):
        return None
    count = dict.fromkeys(ids, 1)

    def mean() -> float:
        return fmean(steps[name][min(count[name], len(steps[name])) - 1][0] for name in ids)

    order = sorted(ids, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    spent = mean() * len(ids)
    for number in range(2, max(map(len, steps.values())) + 1):
        for name in order:
            # A problem that was accepted earlier draws no further sample.
            extra = steps[name][number - 1][0] - steps[name][number - 2][0] if number <= len(steps[name]) else 0
            if spent + extra > SLACK * tokens * len(ids):
                break
            spent += extra
            count[name] = number
        else:
            continue
        break
    verdicts = {name: steps[name][min(count[name], len(steps[name])) - 1][1] for name in ids}
    return Matched(fmean(count.values()), mean(), verdicts)


def _prefixes(record: ResultRecord, info: RunInfo) -> list[tuple[int, bool]]:
    """Return, for one sample, two, and so on, the tokens that they took and whether the answer was right."""
    answer = VOTED_ANSWERS.get(info.kind) if info.method.startswith("majority-") else None
    if answer is None:
        return _best_so_far(record) if info.method.startswith("best-of-") else []
    samples = record.iterations_log[0].samples if record.iterations_log else []
    texts, spent = [one.text for one in samples], 0
    found: list[tuple[int, bool]] = []
    for number, sample in enumerate(samples, start=1):
        if sample.tokens_used is None:  # a server that counts no tokens
            return []
        spent += sample.tokens_used
        winner = samples[texts.index(majority_text(texts[:number], answer))]
        found.append((spent, winner.is_correct is True))
    return found


def _best_so_far(record: ResultRecord) -> list[tuple[int, bool]]:
    found: list[tuple[int, bool]] = []
    best: Attempt | None = None
    spent, right = 0, False
    log = record.iterations_log
    for draft in [step for step in log if step.type != "feedback"]:
        said = [step for step in log if step.type == "feedback" and step.iteration == draft.iteration]
        spent += draft.tokens_used + sum(step.tokens_used for step in said)
        if not draft.rejected:
            attempt = attempt_of(record, draft)
            if best is None or attempt.rank > best.rank:
                best, right = attempt, draft.is_correct is True
        found.append((spent, right))
    return found
