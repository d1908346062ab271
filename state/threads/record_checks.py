"""Checks of a record before a run goes on with it: which graph began it, and whether it was edited. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..events import broken_links, record
from ..summary import rounds, run_options
from .fingerprint import differences, fingerprint_in_force

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.types import StateSnapshot

    from ..events import Event
    from .kind import GraphKind

__all__ = ["ALLOW", "CHECKED", "EditedRecordError", "change_update", "changes", "compared", "made_by", "refuse_edited"]

ALLOW = "redraft_allow_changes"
"""Key of `config["configurable"]`: go on also with another graph than that which the run was begun with."""
CHECKED = "__redraft_checked"
"""Key of a config whose thread was looked at already."""


def compared(config: RunnableConfig) -> RunnableConfig:
    """Return the config of a run whose thread was compared with its graph already, and is not read for that again."""
    return {**config, "configurable": {**config.get("configurable", {}), CHECKED: True}}


class EditedRecordError(ValueError):
    """A record that was changed after it was written is not forked."""


def changes(kind: GraphKind, graph_name: str, snapshot: StateSnapshot) -> list[str]:
    """Return in what a graph differs from that which began the run; nothing where none has begun."""
    recorded = fingerprint_in_force(kind.read(snapshot.values))
    if not kind.begun(snapshot):
        return []
    if recorded and not kind.fingerprint and kind.tells_its_fingerprint:
        return [f"{graph_name!r} is a graph of another kind"]
    return differences(recorded, kind.fingerprint)


def change_update(kind: GraphKind, snapshot: StateSnapshot, found: Sequence[str]) -> dict[str, Any]:
    """Return the update that records a change; empty for a graph that is not told from others."""
    if not kind.fingerprint:
        return {}
    events = kind.read(snapshot.values)
    event = {"kind": "change", "round": rounds(events), "by": "caller", "text": "; ".join(found)}
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
