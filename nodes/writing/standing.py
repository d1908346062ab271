"""Standing requirements as writers and judges are told them: behind the task, with what verifiers want. Internal."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ...state.summary import summary_of
from ..verify.text_verifiers import wish
from ..verify.verifiers import opened_file, stored_verifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...state.critique import Verifier
    from ...state.events import Event

__all__ = ["WISHES", "known_verifier", "standing"]

WISHES = "\n\nThe text must meet all of these:"


@lru_cache(maxsize=64)
def known_verifier(name: str) -> Verifier:
    """Return the verifier of a requirement, by its name in the record.

    Raises:
        ValueError: There is none of that name, or it opens a file: a record may come from somebody else.
        ImportError: It needs an extra that is not installed.
    """
    if opened_file(name):
        raise ValueError(f"{name!r} opens a file, and a record may be read anywhere: write the schema itself")
    return stored_verifier(name)


def standing(events: Sequence[Event], told: str = "") -> str:
    """Return what is put behind the task: what the verifiers want, and what people and forks asked for.

    Args:
        events: The record.
        told: What the verifiers want, as `wishes` has it.
    """
    summary = summary_of(events)
    lines: list[str] = []
    for text in summary.standing:
        lines += [text, *(wish(known_verifier(name)) for name in summary.asked[text].get("verifiers", ()))]
    listed = "".join(f"\n- {line}" for line in lines if line)
    return f"{told or WISHES}{listed}" if listed else told
