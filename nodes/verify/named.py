"""Verifiers carry the name that events show, and in words what they want."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...state.critique import Verifier

__all__ = ["named", "wanted"]


def named(check: Verifier, name: str, *, wants: str = "") -> Verifier:
    """Return the verifier, under the name of the factory that made it.

    Args:
        check: The verifier, a function.
        name: Shown in events.
        wants: A sentence that tells a writer what to do, so that a draft can be right the first time.
    """
    check.__name__, check.wants = name, wants  # type: ignore[attr-defined]  # a function can carry both
    return check


def wanted(check: object) -> str:
    """Return what a verifier wants, as a sentence; empty where it does not say."""
    return str(getattr(check, "wants", ""))
