"""Retrieval confidence: how close what was found is to the query. Internal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...state.critique import Critique
from ...state.summary import latest_draft
from ..critics.critics import VerifierCritic
from .findings import confidence, distinct_sources, findings, plan_of, rendered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...state.critique import Verifier
    from ...state.events import Event

__all__ = ["ADAPTATION", "ConfidenceCritic", "adapted_threshold"]

ADAPTATION = {"simple": 0.1, "moderate": 0.0, "complex": -0.1}
"""A simple query is met in the words of one passage; what a complex one asks for is spread over several."""


def adapted_threshold(threshold: float, complexity: str) -> float:
    """Return the threshold for a query of that complexity: higher for a simple one, lower for a complex one."""
    return round(min(1.0, max(0.0, threshold + ADAPTATION[complexity])), 6)


def _unused(task: str, draft: str, /) -> None:
    return None


@dataclass(frozen=True)
class ConfidenceCritic(VerifierCritic):
    """A verifier that scores passages by their mean cosine similarity, 0–1, and accepts from the plan's threshold on.

    It reads the record and asks no model. Passages that a person wrote in place of those found are not measured, and
    accepted by others only.
    """

    verifier: Verifier = _unused
    name: str = "confidence"

    def __call__(self, task: str, draft: str, history: Sequence[Event], /) -> Critique:
        """Measure the passages of the latest draft."""
        attempt = latest_draft(history)
        found = findings(history, until=attempt.round if attempt else 0)
        if rendered(found) != draft:
            return Critique("These are not the passages that were found, so their similarity is not known.", None)
        value, threshold = confidence(found), float(plan_of(history)["threshold"])
        met = bool(found) and value >= threshold
        documents = distinct_sources(found)
        text = (
            f"Confidence {value:.2f} {'meets' if met else 'is under'} {threshold:.2f}: "
            f"{len(found)} passages of {documents} documents."
        )
        evidence = {"confidence": value, "threshold": threshold, "passages": len(found), "documents": documents}
        return Critique(text, accepted=met, score=value, evidence=evidence)
