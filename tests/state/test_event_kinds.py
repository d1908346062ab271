"""An event is of one kind: its JSON schema says so, and a stored one is checked by the fields of its kind."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from redraft.graphs.branching import build_branching_graph
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.state.checked_values import check_items
from redraft.state.events import Event, EventKind, EventOfKind
from redraft.state.schema import KnownEvent
from redraft.state.usage import NO_USAGE

COMMON: dict[str, Any] = {"round": 0, "by": "x", "text": "", "usage": NO_USAGE, "prev": ""}


@pytest.mark.parametrize("build", [build_refine_graph, build_branching_graph])
def test_the_json_schema_of_a_graph_tells_events_apart(build: Any) -> None:
    """A client of the server sees one type for each kind, and the field by which it tells them."""
    schema = build(ScriptedModel([])).get_output_jsonschema()
    (known,) = [one for one in schema["$defs"].values() if "discriminator" in one]
    assert known["discriminator"]["propertyName"] == "kind"
    assert set(known["discriminator"]["mapping"]) == set(get_args(EventKind))
    assert "branch" in schema["$defs"]["FailureEvent"]["properties"]
    assert "documents" not in schema["$defs"]["CritiqueEvent"]["properties"]


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("task", "limits", 3),
        ("draft", "rejected", 1),
        ("draft", "incomplete", False),
        ("critique", "verifier", "yes"),
        ("verdict", "best", "first"),
        ("verdict", "branch", 7),
        ("revision", "base", "0"),
        ("human", "stop", 1),
        ("retrieval", "documents", "none"),
        ("failure", "error", None),
    ],
)
def test_a_stored_event_is_checked_by_its_kind(kind: str, field: str, value: Any) -> None:
    """A field that its kind has must be of its type, and the message names event and field."""
    check_items("events", list[KnownEvent], [COMMON | {"kind": kind}])
    with pytest.raises(ValueError, match=rf"its channel 'events' holds at 0\.{field} "):
        check_items("events", list[KnownEvent], [COMMON | {"kind": kind, field: value}])


def test_every_kind_has_an_event_of_its_own() -> None:
    """What a reader of any event may ask for is what the kinds have between them."""
    kinds = get_args(EventOfKind)
    assert len(kinds) == len(get_args(EventKind))
    assert {name for one in kinds for name in one.__required_keys__ | one.__optional_keys__} == (
        Event.__required_keys__ | Event.__optional_keys__
    )
