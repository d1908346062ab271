"""Retrieval confidence: how probably what was found answers the query. Internal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..nodes.critics.critics import VerifierCritic
from ..state.critique import Critique
from ..state.summary import latest_draft
from .citations import reads_the_record
from .findings import confidence, distinct_sources, plan_of, ranked, rendered, withheld

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..state.critique import Verifier
    from ..state.events import Event

__all__ = ["ConfidenceCritic"]


@dataclass(frozen=True)
class ConfidenceCritic(VerifierCritic):
    """A verifier that scores passages by the confidence in them, 0–1, and accepts from the plan's threshold on.

    It reads the record and asks no model. Passages that a person wrote in place of those found are not measured, and
    accepted by others only.
    """

    verifier: Verifier = reads_the_record
    name: str = "confidence"

    def __call__(self, task: str, draft: str, history: Sequence[Event], /) -> Critique:
        """Measure the passages of the latest draft."""
        attempt = latest_draft(history)
        number, plan = attempt.round if attempt else 0, plan_of(history)
        if rendered(history, until=number) != draft:
            return Critique("These are not the passages that were found, so their similarity is not known.", None)
        found = ranked(history, until=number)
        value, threshold = confidence(found, plan), float(plan["threshold"])
        met = bool(found) and value >= threshold and not withheld(found, plan)
        documents = distinct_sources(found)
        text = (
            f"Confidence {value:.2f} {'meets' if met else 'is under'} {threshold:.2f}: "
            f"{len(found)} passages of {documents} documents."
        )
        if withheld(found, plan):
            text += " So little is taken for nothing found."
        evidence = {"confidence": value, "threshold": threshold, "passages": len(found), "documents": documents}
        return Critique(text, accepted=met, score=value, evidence=evidence)
