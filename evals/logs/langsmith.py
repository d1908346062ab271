"""Exports of LangSmith: experiments as CSV or rows, and runs. Internal."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .entries import Entry, Log, as_text, flattened, is_number, round_of

if TYPE_CHECKING:
    from .sources import Source

__all__ = ["is_langsmith", "read_langsmith"]

FEEDBACK = "feedback."


def is_langsmith(source: Source) -> bool:
    """Return True if a file has an experiment's rows, or runs with feedback, as LangSmith gives them."""
    return any(_is_table(row) or _is_row(row) or _is_run(row) for row in source.head[:1])


def read_langsmith(source: Source) -> Log:
    """Return the runs on examples of a data set, with a verdict for each key of feedback."""
    rows = list(source.rows())
    first = rows[0][1]
    if _is_table(first):
        entries = [_from_table(where, row) for where, row in rows]
    elif _is_row(first):
        entries = [_from_row(where, row) for where, row in rows]
    else:
        entries = _from_runs(rows)
    # A run's own id is another one in every experiment, so it names no problem unless it is asked for.
    entries = _numbered(entries)
    return Log(source.path, "LangSmith export", entries, ("example_id",))


def _is_table(row: dict[str, Any]) -> bool:
    return {"example_id", "execution_time"} <= row.keys() and any(name.startswith(FEEDBACK) for name in row)


def _is_row(row: dict[str, Any]) -> bool:
    return {"run", "example", "evaluation_results"} <= row.keys() and isinstance(row["run"], dict)


def _is_run(row: dict[str, Any]) -> bool:
    return {"run_type", "feedback_stats"} <= row.keys()


def _from_table(where: str, row: dict[str, Any]) -> Entry:
    def part(name: str) -> str:
        return as_text({key.removeprefix(name): value for key, value in row.items() if key.startswith(name)} or "")

    return Entry(
        where,
        {"example_id": row.get("example_id"), "id": row.get("id"), **_inputs(row)},
        {name.removeprefix(FEEDBACK): value for name, value in row.items() if name.startswith(FEEDBACK)},
        task=part("inputs."),
        text=part("outputs."),
        gold=part("reference.") or None,
        seconds=_number(row.get("execution_time")) or 0.0,
        error=as_text(row.get("error")) or None,
    )


def _from_row(where: str, row: dict[str, Any]) -> Entry:
    run, example = row["run"], row["example"] if isinstance(row["example"], dict) else {}
    results = row["evaluation_results"]
    listed = results.get("results") if isinstance(results, dict) else results
    scores = {
        as_text(one.get("key")): one.get("value") if one.get("score") is None else one.get("score")
        for one in listed or ()
        if isinstance(one, dict)
    }
    return _run(where, run, scores, example_id=example.get("id"), gold=example.get("outputs"))


def _from_runs(rows: list[tuple[str, dict[str, Any]]]) -> list[Entry]:
    """Return the root runs, and in the place of one the runs within it that have feedback and say their round."""
    roots = {as_text(row.get("trace_id") or row.get("id")): row for _, row in rows if row.get("parent_run_id") is None}
    drafts: dict[str, list[Entry]] = {}
    for where, row in rows:
        trace, feedback = as_text(row.get("trace_id") or row.get("id")), row.get("feedback_stats") or {}
        metadata = (row.get("extra") or {}).get("metadata") or row.get("metadata") or {}
        number, child = round_of(metadata), row.get("parent_run_id") is not None
        if child and (number is None or not feedback):
            continue
        root = roots.get(trace, row)
        scores = {key: one.get("avg") if isinstance(one, dict) else one for key, one in feedback.items()}
        if isinstance(feedback, dict):
            for key, one in feedback.items():
                # A category has no average.
                if isinstance(one, dict) and one.get("avg") is None and len(one.get("values") or {}) == 1:
                    scores[key] = next(iter(one["values"]))
        entry = _run(where, row, scores, example_id=root.get("reference_example_id"), number=number if child else None)
        drafts.setdefault(trace, []).append(entry)
    found: list[Entry] = []
    for entries in drafts.values():
        found += [one for one in entries if one.round is not None] or entries
    return found


def _run(
    where: str,
    run: dict[str, Any],
    scores: dict[str, Any],
    *,
    example_id: Any,
    gold: Any = None,
    number: int | None = None,
) -> Entry:
    tokens, cost = run.get("total_tokens"), _number(run.get("total_cost"))
    return Entry(
        where,
        {"example_id": example_id, "id": run.get("id"), **_inputs({"inputs": run.get("inputs") or {}})},
        scores,
        round=number,
        task=as_text(run.get("inputs")),
        text=as_text(run.get("outputs")),
        gold=as_text(gold) or None,
        tokens=int(tokens) if is_number(tokens) and tokens is not None else 0,
        cost_usd=cost,
        error=as_text(run.get("error")) or None,
    )


def _numbered(entries: list[Entry]) -> list[Entry]:
    """Return the entries with the number of the repetition where an example was run several times."""
    seen: dict[tuple[str, int | None], int] = {}
    found = []
    for entry in entries:
        key = as_text(entry.ids.get("example_id")), entry.round
        seen[key] = seen.get(key, 0) + 1
        found.append(replace(entry, trial=seen[key]) if key[0] else entry)
    return found


def _inputs(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in flattened(row).items() if name.startswith("inputs.")}


def _number(value: Any) -> float | None:
    try:
        return None if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None
