"""Typed answers in the state: stored as JSON, an object to who reads them. Pure; the types come from outside. Internal.

A type has `parsed(text)`, the object in a text that is known to fit. A kind of graph has `known_type(schema, draft)`,
the call that returns the JSON of a draft, and raises ValueError, with the names of the fields, for what does not fit.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .summary import ANSWER_TYPE, RunSummary, current_run, run_options, summary_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .dual import Do, Logic
    from .events import Event

__all__ = [
    "ANSWER_SCHEMA",
    "ANSWER_TYPE",
    "checked_draft",
    "fitting",
    "schema_in",
    "structured_response",
]

ANSWER_SCHEMA = "answer_schema"
"""The option in a record that holds the schema of its drafts."""


def fitting(summary: RunSummary) -> str | None:
    """Return the text of the best draft; `None` where there is none, or it was found not to fit."""
    best = summary.answer
    return None if best is None or best.misfit else best.text


def structured_response(events: Sequence[Event], read: Callable[[str], Any] = json.loads) -> dict[str, Any]:
    """Return the object of an answer as a part of an output, which is empty where drafts are texts.

    Args:
        events: The record.
        read: Makes the object of its JSON; default: the data as it is.
    """
    summary = summary_of(events)
    if ANSWER_SCHEMA not in summary.options:
        return {}
    try:
        text = fitting(summary)
        return {"structured_response": None if text is None else read(text)}
    except (ValueError, RecursionError):
        return {"structured_response": None}


def schema_in(events: Sequence[Event]) -> dict[str, Any] | None:
    """Return the schema of the drafts that an agent wrote for the current task; `None` where they are text."""
    return next((event["schema"] for event in reversed(current_run(events)) if "schema" in event), None)


def checked_draft(events: Sequence[Event], draft: Any, known_type: Callable[[Any, Any], Do] | None) -> Logic[Any]:
    """Return a draft of somebody's own as the record has it: of typed drafts the JSON, of an object too.

    Args:
        events: The record.
        draft: The draft, or `None`.
        known_type: Returns the call that makes the JSON of a schema and an object or its text.

    Raises:
        ValueError: It does not fit; the message names the fields.
    """
    schema = run_options(events).get(ANSWER_SCHEMA)
    if draft is None or schema is None or known_type is None:
        if not isinstance(draft, str | None):
            raise ValueError(f"the draft must be a text, not {draft!r:.80}")
        return draft
    try:
        return (yield known_type(schema, draft))
    except ValueError as error:
        raise ValueError(f"the draft does not fit the answer's type: {error}") from None
