"""Exports of Langfuse: traces with their scores, one trace with its observations, or scores alone. Internal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .entries import ROUND_FIELDS, Entry, Log, as_text, flattened, is_number, round_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .sources import Source

__all__ = ["is_langfuse", "read_langfuse"]

IDS = (
    "datasetItemId",
    "metadata.dataset_item_id",
    "metadata.datasetItemId",
    "metadata.item_id",
    "metadata.question_id",
)
"""Fields that stay the same from run to run; a trace's own id does not."""


def is_langfuse(source: Source) -> bool:
    """Return True if a file has traces or scores as Langfuse exports them."""
    rows = _data(source.document) if source.kind == "json" else source.head
    return any(isinstance(row, dict) and (_is_score(row) or _is_trace(row)) for row in rows[:1])


def read_langfuse(source: Source) -> Log:
    """Return the traces, or what of them was scored, with a verdict for each score's name."""
    rows = (
        [(f"entry {n}", row) for n, row in enumerate(_data(source.document), 1) if isinstance(row, dict)]
        if source.kind == "json"
        else list(source.rows())
    )
    if _is_score(rows[0][1]):
        entries = _scored(source, rows)
    else:
        entries = [entry for where, row in rows for entry in _drafts(source, where, row)]
    return Log(source.path, "Langfuse export", entries, IDS)


def _data(document: Any) -> list[Any]:
    """Return the rows of a document: a list, an answer of the API with `data`, or one trace."""
    if isinstance(document, dict):
        if isinstance(document.get("data"), list):
            return list(document["data"])
        trace = document.get("trace")
        return [{**trace, **document}] if isinstance(trace, dict) else [document]
    return document if isinstance(document, list) else []


def _is_score(row: dict[str, Any]) -> bool:
    return {"traceId", "name", "value", "dataType"} <= row.keys()


def _is_trace(row: dict[str, Any]) -> bool:
    scores = _read(row.get("scores"))
    listed = isinstance(scores, list) and all(isinstance(one, dict) and "name" in one for one in scores)
    return {"id", "timestamp", "input", "output"} <= row.keys() and listed


def _drafts(source: Source, where: str, row: dict[str, Any]) -> Iterator[Entry]:
    """Yield a trace; and before it, where its observations say which round they are, one draft for each."""
    observations = {
        one["id"]: one for one in _read(row.get("observations")) or () if isinstance(one, dict) and "id" in one
    }
    rounds: dict[int, list[dict[str, Any]]] = {}
    whole: list[dict[str, Any]] = []
    texts: dict[int, Any] = {}
    for score in _read(row.get("scores")) or ():
        seen = observations.get(score.get("observationId"))
        number = None if seen is None else round_of(_metadata(seen), ROUND_FIELDS)
        if seen is not None and number is not None:
            rounds.setdefault(number, []).append(score)
            texts[number] = seen
        elif score.get("observationId") is None:
            whole.append(score)
    common: dict[str, Any] = {
        "where": where,
        "ids": {name: value for name, value in flattened({**row, "metadata": _metadata(row)}).items() if _names(name)},
        "task": as_text(_read(row.get("input"))),
    }
    if rounds:
        for number in sorted(rounds):
            seen = texts[number]
            used = seen.get("usage") or seen.get("usageDetails") or {}
            yield Entry(
                **common,
                scores=_values(source, where, rounds[number]),
                round=number,
                text=as_text(_read(seen.get("output"))),
                model=as_text(seen.get("model")),
                tokens=int(used.get("total") or 0) if isinstance(used, dict) else 0,
            )
        return
    latency, cost = row.get("latency"), row.get("totalCost")
    yield Entry(
        **common,
        scores=_values(source, where, whole),
        text=as_text(_read(row.get("output"))),
        seconds=float(latency) if is_number(latency) and latency is not None else 0.0,
        cost_usd=float(cost) if is_number(cost) and cost is not None else None,
    )


def _scored(source: Source, rows: list[tuple[str, dict[str, Any]]]) -> list[Entry]:
    """Return an entry for each scored trace or observation, with all its scores."""
    together: dict[tuple[str, str], tuple[str, list[dict[str, Any]]]] = {}
    for where, row in rows:
        key = as_text(row.get("traceId")), as_text(row.get("observationId"))
        together.setdefault(key, (where, []))[1].append(row)
    return [
        Entry(
            where,
            {
                **{name: value for name, value in flattened(scores[0]).items() if name.startswith("metadata.")},
                "traceId": scores[0].get("traceId"),
                "observationId": scores[0].get("observationId"),
            },
            _values(source, where, scores),
            round=round_of(_metadata(scores[0])),
        )
        for where, scores in together.values()
    ]


def _values(source: Source, where: str, scores: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for score in scores:
        name, value = as_text(score.get("name")), score.get("value")
        if score.get("dataType") == "BOOLEAN":
            value = {"1": True, "1.0": True, "0": False, "0.0": False}.get(str(value), value)
        elif score.get("dataType") == "CATEGORICAL":
            value = score.get("stringValue", value)
        if found.get(name, value) != value:
            raise ValueError(
                f"{source.path}, {where}: two scores named {name!r} differ; a draft each is told apart by a number in "
                "the observation's metadata, round"
            )
        found[name] = value
    return found


def _metadata(row: dict[str, Any]) -> dict[str, Any]:
    found = _read(row.get("metadata"))
    return found if isinstance(found, dict) else {}


def _read(value: Any) -> Any:
    """Return a cell of a CSV export as the JSON that it holds."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _names(name: str) -> bool:
    return name in ("id", "name", "sessionId", "input", "datasetItemId") or name.startswith(("metadata.", "input."))
