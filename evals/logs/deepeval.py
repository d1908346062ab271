"""Test runs of DeepEval: the JSON that it keeps in its results folder. Internal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .entries import Entry, Log, as_text, is_number

if TYPE_CHECKING:
    from .sources import Source

__all__ = ["is_deepeval", "read_deepeval"]


def is_deepeval(source: Source) -> bool:
    """Return True if a file is a test run of DeepEval."""
    if source.kind != "json" or not isinstance(source.document, dict):
        return False
    return any("metricsData" in case for _, case in _cases(source.document)[:1])


def read_deepeval(source: Source) -> Log:
    """Return the test cases; `success`, that of all metrics, is the verdict, and each metric's can be named."""
    entries: list[Entry] = []
    for where, case in _cases(source.document):
        metrics = [one for one in case.get("metricsData") or () if isinstance(one, dict)]
        scores: dict[str, Any] = {"success": case.get("success")}
        for one in metrics:
            name = as_text(one.get("name"))
            scores |= {f"{name}.success": one.get("success"), f"{name}.score": one.get("score")}
        name, asked = as_text(case.get("name")), as_text(case.get("input") or case.get("scenario"))
        failed = next((as_text(one["error"]) for one in metrics if one.get("error")), None)
        entries.append(
            Entry(
                where,
                {"name": name, "input": asked, "order": case.get("order")},
                scores,
                task=asked,
                text=as_text(case.get("actualOutput")),
                gold=as_text(case.get("expectedOutput")) or None,
                cost_usd=float(case["tokenCost"]) if is_number(case.get("tokenCost")) else None,
                seconds=float(case["completionTime"]) if is_number(case.get("completionTime")) else 0.0,
                error=failed,
            )
        )
    numbered = any(re.fullmatch(r"(conversational_)?test_case_\d+", entry.ids["name"]) for entry in entries)
    # DeepEval numbers cases that were given no name, in the order in which they came.
    return Log(source.path, "DeepEval test run", entries, ("input",) if numbered else ("name",), ("success",))


def _cases(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    run = document.get("testRunData") if isinstance(document.get("testRunData"), dict) else document
    return [
        (f"{kind} {number}", case)
        for kind in ("testCases", "conversationalTestCases")
        for number, case in enumerate((run or {}).get(kind) or (), 1)
        if isinstance(case, dict)
    ]
