"""Checks of a record before a run goes on with it: which graph began it, and whether it was edited. Internal.

A graph is known by its fingerprint, a flat dict of names and plain values. It stands on the `task` event, and on the
`change` or the `fork` from which another graph goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..events import CHANGE_KINDS, broken_links, record
from ..summary import current_run, rounds, run_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.types import StateSnapshot

    from ..events import Event
    from .kind import GraphKind

__all__ = [
    "ALLOW",
    "CHECKED",
    "FORM",
    "HASHED",
    "RELEASE",
    "ChangedGraphError",
    "EditedRecordError",
    "change_update",
    "changes",
    "compared",
    "differences",
    "fingerprint_in_force",
    "made_by",
    "refuse_edited",
]

ALLOW = "redraft_allow_changes"
"""Key of `config["configurable"]`: go on also with another graph than that which the run was begun with."""
CHECKED = "__redraft_checked"
"""Key of a config whose thread was looked at already."""
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


class EditedRecordError(ValueError):
    """A record that was changed after it was written is not forked."""


def compared(config: RunnableConfig) -> RunnableConfig:
    """Mark the config of a run whose thread was compared with its graph already, and is not read for that again."""
    return {**config, "configurable": {**config.get("configurable", {}), CHECKED: True}}


def fingerprint_in_force(events: Sequence[Event]) -> Mapping[str, Any]:
    """Return the fingerprint of the graph that runs the current task; empty in a record of format 1."""
    for event in reversed(current_run(events)):
        # On an event of another kind, which somebody else may have written, the field could hold anything.
        if event["kind"] in BEGUN_WITH and "fingerprint" in event:
            fingerprint: Mapping[str, Any] = event["fingerprint"]
            return fingerprint
    return {}


def differences(recorded: Mapping[str, Any], present: Mapping[str, Any]) -> list[str]:
    """Describe each difference between two graphs by its name; none where one of the fingerprints is empty.

    Prompts of two releases are not compared: redraft's own change from one to the next. Nor is what an earlier form
    of fingerprint did not tell.
    """
    if not recorded or not present:
        return []
    reasons: list[str] = []
    other_release = recorded.get(RELEASE) != present.get(RELEASE)
    other_form = recorded.get(FORM) != present.get(FORM)
    for name in dict.fromkeys((*recorded, *present)):
        was, now = recorded.get(name), present.get(name)
        if was == now or name in (RELEASE, FORM) or (other_release and name.startswith(PROMPT)):
            continue
        if (other_form and name not in recorded) or (name, was, now) == HEARD:
            continue
        if name not in recorded:
            reasons.append(f"{name} is new ({now!r})")
        elif name not in present:
            reasons.append(f"{name} is gone (was {was!r})")
        elif HASHED in f"{was}{now}":
            reasons.append(f"another {name}")
        else:
            reasons.append(f"{name} was {was!r}, is {now!r}")
    return reasons


def changes(kind: GraphKind, graph_name: str, snapshot: StateSnapshot) -> list[str]:
    """Describe each difference between a graph and the one that began the run; none where no run has begun."""
    if not kind.begun(snapshot):
        return []
    recorded = fingerprint_in_force(kind.read(snapshot.values))
    if recorded and not kind.fingerprint and kind.tells_its_fingerprint:
        return [f"{graph_name!r} is a graph of another kind"]
    return differences(recorded, kind.fingerprint)


def change_update(kind: GraphKind, snapshot: StateSnapshot, reasons: Sequence[str]) -> dict[str, Any]:
    """Return the update that records a change; empty for a graph that is not told from others."""
    if not kind.fingerprint:
        return {}
    events = kind.read(snapshot.values)
    event = {"kind": "change", "round": rounds(events), "by": "caller", "text": "; ".join(reasons)}
    return record(snapshot.values, {**event, **made_by(kind.fingerprint, kind.options, events)})


def made_by(
    fingerprint: Mapping[str, Any], options: Mapping[str, Any], events: Sequence[Event]
) -> dict[str, dict[str, Any]]:
    """Return the fields that say which graph a record goes on with; the order of its drafts stays."""
    order = {name: value for name, value in run_options(events).items() if name == "order"}
    return {"fingerprint": dict(fingerprint), "options": {**options, **order}}


def refuse_edited(kind: GraphKind, thread_id: str, values: Any) -> None:
    """Raise EditedRecordError where the record in a state's values was edited after it was written."""
    events = kind.read(values)
    if broken := broken_links(events, values.get("head") or "" if events else ""):
        raise EditedRecordError(
            f"the thread {thread_id!r} is not forked: its record was changed after it was written, at event "
            f"{broken[0]} ({events[broken[0]]['kind']}); replay() names all that differs"
        )
