"""Rates of rounds and of critics against the gold answers. Internal.

A draft is right or wrong, and open or done. In a round an open draft is accepted (more often, one hopes, when it is
right) or given up, and is done; else it is revised, which fixes some wrong drafts and breaks some right ones:

    open right ──accept_right──→ done right        open wrong ──accept_wrong──→ done wrong
    open right ──broken──→ open wrong              open wrong ──fixed──→ open right

`diagnosis.py` predicts further rounds, from the moves of single problems.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from ...state.summary import Attempt
from ..run.result_record import worth_of
from .paired import CHANCE, Proportion, Row, fisher_p, proportion

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..run.result_record import Iteration, ResultRecord
    from ..run.run_folder import Run

__all__ = [
    "CriticRow",
    "RoundRates",
    "answers_right",
    "answers_worth",
    "attempt_of",
    "critic_rows",
    "drafts_right",
    "rejected_revisions",
    "round_limit",
    "round_rates",
    "tokens_by_round",
]

TOGETHER = "all together"


def drafts_right(record: ResultRecord) -> list[bool]:
    """Return for every round True if the draft at its end is right: the first draft, then one for each revision.

    A revision that is no draft leaves the one before in force. A draft without a verdict is wrong, and there are none
    where an error came before the first. A first draft that is written anew stands for the one before.
    """
    rights: list[bool] = []
    for step in record.iterations_log:
        if step.type == "initial_generation":
            rights = [step.is_correct is True]
        elif step.type == "refinement" and rights:
            rights.append(rights[-1] if step.rejected else step.is_correct is True)
    return rights


def answers_right(record: ResultRecord) -> list[bool]:
    """Return for every round whether the answer is right that the run would have given, had it ended there."""
    return [worth == 1 for worth in answers_worth(record)]


def answers_worth(record: ResultRecord) -> list[float]:
    """Return for every round the score of the answer that the run would have given, had it ended there.

    That is the best draft so far by `redraft.state.summary.draft_rank`, of equal ones the earlier, or the latest where
    nobody judged any, and none before there is a draft. After the last round it is the answer that was given, whatever
    order was in force then.
    """
    attempts: list[tuple[Attempt, float]] = []
    scores: list[float] = []
    for step in record.iterations_log:
        if step.type == "initial_generation":
            attempts, scores = [], []
        elif step.type == "feedback" or not scores:
            continue
        if not step.rejected:
            attempts.append((attempt_of(record, step), worth_of(step)))
        judged = any(attempt.judged for attempt, _ in attempts)
        best = max(attempts, key=lambda attempt: attempt[0].rank) if judged else attempts[-1] if attempts else None
        scores.append(0.0 if best is None else best[1])
    return [*scores[:-1], worth_of(record)] if scores else []


def attempt_of(record: ResultRecord, draft: Iteration) -> Attempt:
    """Return a recorded draft with its critiques, as the run itself ranked it."""
    critiques: list[dict[str, Any]] = [
        {"kind": "critique", "accepted": step.accepted, "score": step.score, "verifier": step.verifier}
        for step in record.iterations_log
        if step.type == "feedback" and step.iteration == draft.iteration
    ]
    return Attempt(draft.iteration, draft.solution, draft.by, None, tuple(critiques))  # type: ignore[arg-type]


def tokens_by_round(record: ResultRecord) -> list[int]:
    """Return for every round the tokens spent until its end, the judgement of its draft included."""
    rounds = len(drafts_right(record))
    spent = [sum(step.tokens_used for step in record.iterations_log if step.iteration <= at) for at in range(rounds)]
    # What no step names, as calls that failed, belongs to the whole.
    return [*spent[:-1], record.total_tokens]


def round_limit(run: Run) -> int:
    """Return the limit of rounds of a run; where it has none on record, the rounds that were played."""
    limit = run.info.limits.get("max_rounds")
    played = max((len(drafts_right(record)) - 1 for record in run.records), default=0)
    return limit if isinstance(limit, int) else max(played, 0)


def rejected_revisions(record: ResultRecord) -> set[int]:
    """Return the rounds whose revision is no draft; 1 is the first revision."""
    revisions = [step for step in record.iterations_log if step.type == "refinement"]
    return {number for number, step in enumerate(revisions, 1) if step.rejected}


class RoundRates(Row):
    """The fate of drafts that a round was left for, all rounds together."""

    accept_right: Proportion = Field(description="Of the right drafts, those accepted, which ended the run.")
    accept_wrong: Proportion = Field(description="Of the wrong drafts, those accepted, which ended the run.")
    give_up: Proportion = Field(description="Of the drafts not accepted, those not revised: no progress, a budget.")
    fixed: Proportion = Field(description="Of the wrong drafts that were revised, those right afterwards.")
    broken: Proportion = Field(description="Of the right drafts that were revised, those wrong afterwards.")


def round_rates(records: Iterable[ResultRecord], *, max_rounds: int) -> RoundRates:
    """Return the rates of a run, measured on drafts that its limits allowed to revise.

    Args:
        records: Results of one method.
        max_rounds: Its limit: a draft of that round had no round left, and counts nowhere.
    """
    seen: list[tuple[bool, bool, bool | None]] = []  # right, accepted, right after the revision
    for record in records:
        rights = drafts_right(record)
        for number, right in enumerate(rights[:max_rounds]):
            last = number + 1 == len(rights)
            accepted = last and record.stop_reason == "accepted"
            seen.append((right, accepted, None if last else rights[number + 1]))
    declined = [(right, then) for right, accepted, then in seen if not accepted]

    def accepts(which: bool) -> Proportion:
        verdicts = [accepted for right, accepted, _ in seen if right is which]
        return proportion(sum(verdicts), len(verdicts))

    def turns(which: bool) -> Proportion:
        changed = [then is not right for right, then in declined if right is which and then is not None]
        return proportion(sum(changed), len(changed))

    return RoundRates(
        accept_right=accepts(True),
        accept_wrong=accepts(False),
        give_up=proportion(sum(then is None for _, then in declined), len(declined)),
        fixed=turns(False),
        broken=turns(True),
    )


class CriticRow(Row):
    """One critic in one run, against the gold answers. A draft that it judged twice counts twice."""

    critic: str = Field(
        description="Its name in the record, or `all together`: a draft is accepted when all accept it."
    )
    method: str = Field(description="Label of the method that asked it.")
    oracle: bool = Field(description="In this run a critic knew the gold answers.")
    verifier: bool = Field(description="A program that checks, not an opinion.")
    right: int = Field(ge=0, description="Right drafts that it judged.")
    wrong: int = Field(ge=0, description="Wrong drafts that it judged.")
    unlabelled: int = Field(ge=0, description="Drafts that it judged and that have no verdict by the gold answer.")
    unreadable: int = Field(ge=0, description="Of right and wrong, verdicts that can't be read. They accept nothing.")
    false_accept: Proportion = Field(description="Of the wrong drafts, those it accepted.")
    false_reject: Proportion = Field(description="Of the right drafts, those it did not accept.")
    fisher_p: float = Field(
        ge=0, le=1, description="Fisher's exact two-sided test: are right drafts accepted as often?"
    )
    better_than_chance: bool = Field(description="It accepts right drafts more often than wrong ones, p <= 0.05.")
    warning: str | None = Field(description="Why its acceptance is worth nothing here; null where it is.")


class AcceptanceRow(Row):
    """What the answers of one run are worth by who accepted them."""

    by: str | None = Field(description="Who accepted them; null: nobody did, so that they are left to a person.")
    method: str = Field(description="Label of the method.")
    answers: Proportion = Field(description="Of all its answers, these.")
    wrong: Proportion = Field(description="Of these, the wrong ones.")


def acceptance_rows(run: Run, *, label: str) -> list[AcceptanceRow]:
    """Return a row for each who accepted answers of a run, the most first, then one for the answers left; or none.

    Args:
        run: The run. Where no answer was accepted there is no row.
        label: How the rows name its method.
    """
    wrong: dict[str | None, list[bool]] = {}
    for record in run.records:
        by = record.accepted_by if record.is_correct_per_feedback else None
        wrong.setdefault(by, []).append(record.is_correct is not True)
    if set(wrong) <= {None}:
        return []
    return [
        AcceptanceRow(
            by=by,
            method=label,
            answers=proportion(len(verdicts), len(run.records)),
            wrong=proportion(sum(verdicts), len(verdicts)),
        )
        for by, verdicts in sorted(wrong.items(), key=lambda item: (item[0] is None, -len(item[1]), item[0]))
    ]


def critic_rows(run: Run, *, label: str) -> list[CriticRow]:
    """Return a row for each critic of a run, in the order of their names, and one for all where they are several.

    The drafts of later rounds are those that the critics did not accept before: the rates are those of the drafts that
    were judged, not of all that the model writes.

    Args:
        run: The run.
        label: How the rows name its method.
    """
    by_critic: dict[str, list[Iteration]] = {}
    drafts: list[list[Iteration]] = []
    for record in run.records:
        by_draft: dict[tuple[int, str], list[Iteration]] = {}
        for step in record.iterations_log:
            if step.type == "feedback":
                by_critic.setdefault(step.by or "unnamed", []).append(step)
                by_draft.setdefault((step.iteration, step.solution), []).append(step)
        drafts += by_draft.values()
    rows = [
        _critic_row(
            [(step.is_correct, step.accepted) for step in steps],
            critic=name,
            label=label,
            oracle=run.oracle,
            verifier=all(step.verifier for step in steps),
        )
        for name, steps in sorted(by_critic.items())
    ]
    if len(rows) > 1:
        joint = [(steps[0].is_correct, _joint([step.accepted for step in steps])) for steps in drafts]
        verifiers = all(row.verifier for row in rows)
        rows.append(_critic_row(joint, critic=TOGETHER, label=label, oracle=run.oracle, verifier=verifiers))
    return rows


def _joint(verdicts: list[bool | None]) -> bool | None:
    """Return the verdict of all: one rejection rejects, and `None` without one where a verdict can't be read."""
    if False in verdicts:
        return False
    return None if None in verdicts else True


def _critic_row(
    verdicts: list[tuple[bool | None, bool | None]], *, critic: str, label: str, oracle: bool, verifier: bool
) -> CriticRow:
    right = [accepted for correct, accepted in verdicts if correct is True]
    wrong = [accepted for correct, accepted in verdicts if correct is False]
    taken_right, taken_wrong = right.count(True), wrong.count(True)
    p = fisher_p(taken_right, len(right), taken_wrong, len(wrong))
    better = p <= CHANCE and taken_right * len(wrong) > taken_wrong * len(right)
    return CriticRow(
        critic=critic,
        method=label,
        oracle=oracle,
        verifier=verifier,
        right=len(right),
        wrong=len(wrong),
        unlabelled=len(verdicts) - len(right) - len(wrong),
        unreadable=(right + wrong).count(None),
        false_accept=proportion(taken_wrong, len(wrong)),
        false_reject=proportion(len(right) - taken_right, len(right)),
        fisher_p=p,
        better_than_chance=better,
        warning=None if better else _warning(taken_right, len(right), taken_wrong, len(wrong), p),
    )


def _warning(taken_right: int, right: int, taken_wrong: int, wrong: int, p: float) -> str:
    counts = f"accepted {taken_right} of {right} right and {taken_wrong} of {wrong} wrong drafts"
    # Of so few drafts even a perfect critic could not be told from chance.
    if fisher_p(right, right, 0, wrong) > CHANCE:
        return f"too few drafts to tell: {counts}"
    if p <= CHANCE:
        return f"worse than chance: {counts} (p = {p:.2g})"
    return f"no better than chance: {counts} (p = {p:.2g})"
