"""Samples of lm-evaluation-harness: `samples_*.jsonl`. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .entries import Entry, Log, as_text, is_number

if TYPE_CHECKING:
    from .sources import Source

__all__ = ["is_lm_eval", "read_lm_eval"]

OWN = {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"}


def is_lm_eval(source: Source) -> bool:
    """Return True if a file has samples as the harness logs them."""
    return any({"doc_id", "doc", "resps", "filtered_resps"} <= row.keys() for row in source.head[:1])


def read_lm_eval(source: Source) -> Log:
    """Return the samples; a document judged through several filters has a verdict for each metric and filter."""
    merged: dict[str, Entry] = {}
    for where, row in source.rows():
        through = as_text(row.get("filter")) or "none"
        names = row.get("metrics") or [name for name, value in row.items() if name not in OWN and _is_score(value)]
        # The harness itself writes a result's name so: `exact_match,strict-match`.
        scores = {f"{name},{through}": row.get(name) for name in names if isinstance(name, str)}
        key = as_text(row.get("doc_id"))
        if key in merged and not scores.keys() & merged[key].scores.keys():
            merged[key].scores.update(scores)
            continue
        # Two rows of one filter are two results for one document: kept apart, and refused later.
        merged[f"{key} {where}" if key in merged else key] = Entry(
            where,
            {"doc_id": row.get("doc_id"), "doc_hash": row.get("doc_hash")},
            scores,
            task=_prompt(row.get("arguments")) or as_text(row.get("doc")),
            text=_reply(row.get("filtered_resps")),
            gold=as_text(row.get("target")) or None,
        )
    return Log(source.path, "lm-evaluation-harness samples", list(merged.values()), ("doc_id",))


def _is_score(value: Any) -> bool:
    return is_number(value) or isinstance(value, bool)


def _prompt(arguments: Any) -> str:
    if isinstance(arguments, dict):
        first = next(iter(arguments.values()), None)
        return as_text(first.get("arg_0")) if isinstance(first, dict) else ""
    while isinstance(arguments, list) and arguments:
        arguments = arguments[0]
    return as_text(arguments or "")


def _reply(found: Any) -> str:
    while isinstance(found, list) and len(found) == 1:
        found = found[0]
    return as_text(found)
