"""Verifiers carry the name that events show."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..state.critique import Verifier

__all__ = ["named"]


def named(check: Verifier, name: str) -> Verifier:
    """Return the verifier, under the name of the factory that made it."""
    check.__name__ = name  # type: ignore[attr-defined]  # a protocol has no __name__; a function has
    return check
