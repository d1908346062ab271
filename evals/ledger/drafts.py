"""Which drafts of a problem were right, round by round."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..run.records import ResultRecord

__all__ = ["drafts_right", "rejected_revisions"]


def drafts_right(record: ResultRecord) -> list[bool]:
    """Return for every round whether the draft at its end is right: the first draft, then one for each revision.

    A revision that is no draft leaves the one before in force. A draft without a verdict is wrong, and there are none
    where an error came before the first. A first draft that is written anew stands for the one before.
    """
    found: list[bool] = []
    for step in record.iterations_log:
        if step.type == "initial_generation":
            found = [step.is_correct is True]
        elif step.type == "refinement" and found:
            found.append(found[-1] if step.rejected else step.is_correct is True)
    return found


def rejected_revisions(record: ResultRecord) -> set[int]:
    """Return the rounds whose revision is no draft; 1 is the first revision."""
    revisions = [step for step in record.iterations_log if step.type == "refinement"]
    return {number for number, step in enumerate(revisions, 1) if step.rejected}
