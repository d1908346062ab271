"""Results of promptfoo: the JSON file of `promptfoo eval -o`, or its JSONL. Internal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .entries import Entry, Log, as_text, is_number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .sources import Source

__all__ = ["is_promptfoo", "read_promptfoo"]

ERROR = 2
"""`failureReason` of a result that has no answer; 1 is an assertion that failed."""


def is_promptfoo(source: Source) -> bool:
    """Return True if a file has results as promptfoo writes them."""
    rows = _listed(source) if source.kind == "json" else source.head
    return any(isinstance(row, dict) and {"success", "vars", "prompt", "provider"} <= row.keys() for row in rows[:1])


def read_promptfoo(source: Source) -> Log:
    """Return the results, those of each prompt and provider apart; `success` is the verdict."""
    rows: Iterable[tuple[str, Any]] = (
        ((f"result {n}", one) for n, one in enumerate(_listed(source), 1)) if source.kind == "json" else source.rows()
    )
    found = [(where, row) for where, row in rows if isinstance(row, dict)]
    parts = [(_prompt(row), _provider(row)) for _, row in found]
    named = [len({part[at] for part in parts}) > 1 for at in (0, 1)]
    entries = [
        Entry(
            where,
            {"vars": as_text(row.get("vars")), "testIdx": row.get("testIdx"), **_description(row)},
            {"success": row.get("success"), "score": row.get("score"), **(row.get("namedScores") or {})},
            method=" · ".join(part for part, needed in zip(names, named, strict=True) if needed),
            task=as_text((row.get("prompt") or {}).get("raw")) if isinstance(row.get("prompt"), dict) else "",
            text=as_text((row.get("response") or {}).get("output")),
            model=names[1],
            tokens=int(
                (row.get("tokenUsage") or (row.get("response") or {}).get("tokenUsage") or {}).get("total") or 0
            ),
            cost_usd=float(row["cost"]) if is_number(row.get("cost")) and row["cost"] >= 0 else None,
            seconds=(row.get("latencyMs") or 0) / 1000,
            # A failed assertion stands there too; it is a verdict and no error.
            error=(as_text(row.get("error")) or None) if row.get("failureReason") == ERROR else None,
        )
        for (where, row), names in zip(found, parts, strict=True)
    ]
    tests = [(entry.method, entry.ids["vars"]) for entry in entries]
    # The variables name a test wherever it stands in its file; the number only where two tests share them.
    ids = ("vars",) if len(set(tests)) == len(tests) else ("testIdx",)
    config = source.document.get("config") if source.kind == "json" and isinstance(source.document, dict) else None
    title = as_text(config.get("description")) if isinstance(config, dict) else ""
    return Log(source.path, "promptfoo results", entries, ids, ("success",), dataset=title)


def _listed(source: Source) -> list[Any]:
    found = source.document
    for _ in range(2):
        found = found.get("results") if isinstance(found, dict) else found
    return found if isinstance(found, list) else []


def _prompt(row: dict[str, Any]) -> str:
    prompt = row.get("prompt")
    return as_text(prompt.get("label") or row.get("promptIdx")) if isinstance(prompt, dict) else as_text(prompt)


def _provider(row: dict[str, Any]) -> str:
    provider = row.get("provider")
    return as_text(provider.get("label") or provider.get("id")) if isinstance(provider, dict) else as_text(provider)


def _description(row: dict[str, Any]) -> dict[str, Any]:
    case = row.get("testCase")
    # promptfoo numbers the tests that have no description of their own.
    told = as_text(case.get("description")) if isinstance(case, dict) else ""
    return {"description": told} if told and not re.fullmatch(r"Test #\d+", told) else {}
