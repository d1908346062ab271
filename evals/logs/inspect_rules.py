"""Inspect's scorers that are plain rules, for drafts that a log has no score of. Internal."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

from .entries import as_text

__all__ = ["scores_by_rule"]

AROUND = string.whitespace + string.punctuation
LOCATIONS: dict[str, Callable[[str, str], bool]] = {
    "begin": str.startswith,
    "end": str.endswith,
    "exact": str.__eq__,
    "any": str.__contains__,
}


def scores_by_rule(scorers: Any, text: str, target: Any) -> dict[str, Any] | None:
    """Return the values that a log's scorers give a text; `None` unless all are rules that need no model.

    Follows `match` (of texts) and `includes` of inspect_ai 0.3.
    """
    values: dict[str, Any] = {}
    targets = target if isinstance(target, list) else [target]
    for scorer in scorers:
        name, options = as_text(scorer.get("name")).rpartition("/")[2], scorer.get("options") or {}
        if name not in ("match", "includes") or options.get("numeric"):
            return None
        pairs = [(text, as_text(one)) for one in targets]
        if options.get("ignore_case", True):
            pairs = [(whole.casefold(), part.casefold()) for whole, part in pairs]
        location = "any"
        if name == "match":
            location = options.get("location", "end")
            pairs = [(whole.strip(AROUND), part.strip(AROUND)) for whole, part in pairs]
        values[name] = any(LOCATIONS[location](whole, part) for whole, part in pairs)
    return values or None
