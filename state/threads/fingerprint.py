"""Comparison of the graph that began a run with one that is to go on with it, by their fingerprints. Internal.

A fingerprint is a flat dict of names and plain values. It stands on the `task` event, and on the `change` or the `fork`
from which another graph goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..events import CHANGE_KINDS
from ..summary import current_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..events import Event

__all__ = ["FORM", "HASHED", "RELEASE", "ChangedGraphError", "differences", "fingerprint_in_force"]

RELEASE = "redraft"
"""The release that built the graph."""
FORM = "form"
"""A number that grows when a fingerprint tells more of the same graph."""
HASHED = "#"
"""Begins a hash, which stands for a text that is too long to be kept."""
PROMPT = "prompt of "
BEGUN_WITH = ("task", *CHANGE_KINDS)
"""Kinds of events that say which graph goes on from them."""
HEARD = ("prepare", "read_conversation", None)
"""Of agents, before every loop read conversations by itself."""


class ChangedGraphError(ValueError):
    """The graph is another one than that which the thread was begun with, and nobody agreed to that.

    Args:
        difference: In what it is another one.
        remedy: How the thread goes on all the same.
    """

    def __init__(self, difference: str, remedy: str = "") -> None:
        super().__init__(f"{difference}. {remedy}" if remedy else difference)
        self.difference = difference


def fingerprint_in_force(events: Sequence[Event]) -> Mapping[str, Any]:
    """Return the fingerprint of the graph that runs the current task; empty in a record of format 1."""
    # On an event of another kind, which somebody else may have written, the field could hold anything.
    told = [event for event in current_run(events) if event["kind"] in BEGUN_WITH and "fingerprint" in event]
    found: Mapping[str, Any] = told[-1]["fingerprint"] if told else {}
    return found


def differences(recorded: Mapping[str, Any], present: Mapping[str, Any]) -> list[str]:
    """Return in what two graphs differ, each by its name. None where one of the fingerprints is empty.

    Prompts of two releases are not compared: redraft's own change from one to the next. Nor is what an earlier form
    of fingerprint did not tell.
    """
    if not recorded or not present:
        return []
    told: list[str] = []
    other_release = recorded.get(RELEASE) != present.get(RELEASE)
    other_form = recorded.get(FORM) != present.get(FORM)
    for name in dict.fromkeys((*recorded, *present)):
        was, now = recorded.get(name), present.get(name)
        if was == now or name in (RELEASE, FORM) or (other_release and name.startswith(PROMPT)):
            continue
        if (other_form and name not in recorded) or (name, was, now) == HEARD:
            continue
        if HASHED in f"{was}{now}" and name in recorded and name in present:
            told.append(f"another {name}")
        elif name not in recorded:
            told.append(f"{name} is new ({now!r})")
        elif name not in present:
            told.append(f"{name} is gone (was {was!r})")
        else:
            told.append(f"{name} was {was!r}, is {now!r}")
    return told
