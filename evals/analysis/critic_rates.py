"""False-accept and false-reject rates of critics, against the gold answers. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from .paired import CHANCE, Proportion, Row, fisher_p, proportion

if TYPE_CHECKING:
    from ..run.result_record import Iteration
    from ..run.run_folder import Run

__all__ = ["CriticRow", "critic_rows"]

TOGETHER = "all together"


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


def critic_rows(run: Run, *, label: str) -> list[CriticRow]:
    """Return a row for each critic of a run, in the order of their names, and one for all where they are several.

    The drafts of later rounds are those that the critics did not accept before: the rates are those of the drafts that
    were judged, not of all that the model writes.

    Args:
        run: The run.
        label: How the rows name its method.
    """
    said: dict[str, list[Iteration]] = {}
    drafts: list[list[Iteration]] = []
    for record in run.records:
        by_draft: dict[tuple[int, str], list[Iteration]] = {}
        for step in record.iterations_log:
            if step.type == "feedback":
                said.setdefault(step.by or "unnamed", []).append(step)
                by_draft.setdefault((step.iteration, step.solution), []).append(step)
        drafts += by_draft.values()
    rows = [
        _row(
            [(one.is_correct, one.accepted) for one in steps],
            critic=name,
            label=label,
            oracle=run.oracle,
            verifier=all(one.verifier for one in steps),
        )
        for name, steps in sorted(said.items())
    ]
    if len(rows) > 1:
        joint = [(steps[0].is_correct, _joint([one.accepted for one in steps])) for steps in drafts]
        verifiers = all(row.verifier for row in rows)
        rows.append(_row(joint, critic=TOGETHER, label=label, oracle=run.oracle, verifier=verifiers))
    return rows


def _joint(verdicts: list[bool | None]) -> bool | None:
    """Return the verdict of all: one rejection rejects, and `None` without one where a verdict can't be read."""
    if False in verdicts:
        return False
    return None if None in verdicts else True


def _row(
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
