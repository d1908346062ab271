"""How often "done" was false: what hidden checks said of the answers that the visible ones accepted. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from .paired import Proportion, proportion

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["FalseDone", "false_done"]


class FalseDone(BaseModel):
    """The verdicts of hidden checks on the answers of some threads."""

    accepted_failed: Proportion = Field(
        description="Of the answers that the visible checks accepted, those that a hidden one did not: "
        '"done" was false.'
    )
    rejected_passed: Proportion = Field(
        description="Of the answers that the visible checks did not accept, those that all hidden ones did."
    )
    failed: dict[str, int] = Field(description="How many answers each hidden check did not accept, by its command.")


def false_done(values: Iterable[Mapping[str, Any]]) -> FalseDone:
    """Return how often "done" was false.

    Args:
        values: The states of threads; those without hidden verdicts don't count.
    """
    passed: dict[bool, list[bool]] = {True: [], False: []}
    failed: dict[str, int] = {}
    for state in values:
        if verdicts := state.get("hidden"):
            passed[state.get("stop_reason") == "accepted"].append(all(one["accepted"] for one in verdicts))
            for one in verdicts:
                failed[one["check"]] = failed.get(one["check"], 0) + (not one["accepted"])
    return FalseDone(
        accepted_failed=proportion(passed[True].count(False), len(passed[True])),
        rejected_passed=proportion(passed[False].count(True), len(passed[False])),
        failed=failed,
    )
