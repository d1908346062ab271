"""Exports of observability platforms: LangSmith, Langfuse and Phoenix. Internal."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .entries import Entry, Log, as_text, flattened, round_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .sources import Source

__all__ = [
    "is_langfuse",
    "is_langsmith",
    "is_phoenix",
    "read_langfuse",
    "read_langsmith",
    "read_phoenix",
]

FEEDBACK = "feedback."
"""Where a column of LangSmith's CSV begins so, it is a score."""
LANGFUSE_IDS = (
    "datasetItemId",
    "metadata.dataset_item_id",
    "metadata.datasetItemId",
    "metadata.item_id",
    "metadata.question_id",
)
"""Fields that stay the same from run to run; a trace's own id does not."""
PHOENIX_COLUMN = re.compile(r"(?:annotation|eval|evals)[._](?P<name>.+?)[._](?P<part>score|label)")
NO_IDS = ("annotations", "output", "attributes.output")
"""Beginnings of Phoenix's fields that name no problem."""
PHOENIX_SPAN_IDS = (
    "attributes.metadata.question_id",
    "attributes.metadata.example_id",
    "attributes.metadata.dataset_example_id",
)


def is_langsmith(source: Source) -> bool:
    """Detect an experiment's rows, or runs with feedback, as LangSmith gives them."""
    return any(
        _is_langsmith_table(row) or _is_langsmith_row(row) or {"run_type", "feedback_stats"} <= row.keys()
        for row in source.head[:1]
    )


def read_langsmith(source: Source) -> Log:
    """Read the runs on examples of a data set, with a verdict for each key of feedback."""
    rows = list(source.rows())
    first = rows[0][1]
    if _is_langsmith_table(first):
        entries = [_from_table(where, row) for where, row in rows]
    elif _is_langsmith_row(first):
        entries = [_from_row(where, row) for where, row in rows]
    else:
        entries = _from_runs(rows)
    # An example that was run several times has a trial for each.
    runs: dict[tuple[str, int | None], int] = {}
    for at, entry in enumerate(entries):
        if example := as_text(entry.ids.get("example_id")):
            runs[example, entry.round] = trial = runs.get((example, entry.round), 0) + 1
            entries[at] = replace(entry, trial=trial)
    # A run's own id is another one in every experiment, so it names no problem unless it is asked for.
    return Log(source.path, "LangSmith export", entries, ("example_id",))


def _is_langsmith_table(row: dict[str, Any]) -> bool:
    return {"example_id", "execution_time"} <= row.keys() and any(name.startswith(FEEDBACK) for name in row)


def _is_langsmith_row(row: dict[str, Any]) -> bool:
    return {"run", "example", "evaluation_results"} <= row.keys() and isinstance(row["run"], dict)


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
    example, results = row["example"] if isinstance(row["example"], dict) else {}, row["evaluation_results"]
    listed = results.get("results") if isinstance(results, dict) else results
    scores = {
        as_text(result.get("key")): result.get("value") if result.get("score") is None else result.get("score")
        for result in listed or ()
        if isinstance(result, dict)
    }
    return replace(
        _from_run(where, row["run"], scores, example.get("id")), gold=as_text(example.get("outputs")) or None
    )


def _from_runs(rows: list[tuple[str, dict[str, Any]]]) -> list[Entry]:
    """Return the root runs, and in the place of one the runs within it that have feedback and say their round."""
    roots = {as_text(row.get("trace_id") or row.get("id")): row for _, row in rows if row.get("parent_run_id") is None}
    drafts: dict[str, list[Entry]] = {}
    for where, row in rows:
        trace, scores = as_text(row.get("trace_id") or row.get("id")), _feedback(row)
        metadata = (row.get("extra") or {}).get("metadata") or row.get("metadata") or {}
        number, child = round_of(metadata), row.get("parent_run_id") is not None
        if child and (number is None or not scores):
            continue
        entry = _from_run(where, row, scores, roots.get(trace, row).get("reference_example_id"))
        drafts.setdefault(trace, []).append(replace(entry, round=number if child else None))
    return [
        entry
        for entries in drafts.values()
        for entry in [draft for draft in entries if draft.round is not None] or entries
    ]


def _feedback(run: dict[str, Any]) -> dict[str, Any]:
    """Return a run's feedback: each key's average, or the only category that was given under it."""
    scores = {}
    for key, given in (run.get("feedback_stats") or {}).items():
        stats = given if isinstance(given, dict) else {"avg": given}
        categories = list(stats.get("values") or ())
        scores[key] = categories[0] if stats.get("avg") is None and len(categories) == 1 else stats.get("avg")
    return scores


def _from_run(where: str, run: dict[str, Any], scores: dict[str, Any], example_id: Any) -> Entry:
    return Entry(
        where,
        {"example_id": example_id, "id": run.get("id"), **_inputs({"inputs": run.get("inputs") or {}})},
        scores,
        task=as_text(run.get("inputs")),
        text=as_text(run.get("outputs")),
        tokens=int(_number(run.get("total_tokens")) or 0),
        cost_usd=_number(run.get("total_cost")),
        error=as_text(run.get("error")) or None,
    )


def _inputs(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in flattened(row).items() if name.startswith("inputs.")}


def _number(value: Any) -> float | None:
    try:
        return None if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None


def is_langfuse(source: Source) -> bool:
    """Detect traces with their scores, one trace with its observations, or scores alone, as Langfuse exports them."""
    rows = _langfuse_rows(source.document) if source.kind == "json" else source.head
    return any(isinstance(row, dict) and (_is_score(row) or _is_trace(row)) for row in rows[:1])


def read_langfuse(source: Source) -> Log:
    """Read the traces, or what of them was scored, with a verdict for each score's name."""
    rows = (
        [(f"entry {n}", row) for n, row in enumerate(_langfuse_rows(source.document), 1) if isinstance(row, dict)]
        if source.kind == "json"
        else list(source.rows())
    )
    if _is_score(rows[0][1]):
        entries = _from_scores(source, rows)
    else:
        entries = [entry for where, row in rows for entry in _from_trace(source, where, row)]
    return Log(source.path, "Langfuse export", entries, LANGFUSE_IDS)


def _langfuse_rows(document: Any) -> list[Any]:
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
    scores = _cell(row.get("scores"))
    listed = isinstance(scores, list) and all(isinstance(score, dict) and "name" in score for score in scores)
    return {"id", "timestamp", "input", "output"} <= row.keys() and listed


def _from_trace(source: Source, where: str, row: dict[str, Any]) -> Iterator[Entry]:
    """Yield a trace; or one draft for each round that its observations name."""
    observations = {
        observation["id"]: observation
        for observation in _cell(row.get("observations")) or ()
        if isinstance(observation, dict) and "id" in observation
    }
    scored: dict[int | None, list[dict[str, Any]]] = {None: []}
    drafts: dict[int, Any] = {}
    for score in _cell(row.get("scores")) or ():
        observation = observations.get(score.get("observationId"), {})
        number = round_of(_metadata(observation))
        if number is not None:
            drafts[number] = observation
        elif score.get("observationId") is not None:
            continue
        scored.setdefault(number, []).append(score)
    flat = flattened({**row, "metadata": _metadata(row)})
    common: dict[str, Any] = {
        "where": where,
        "ids": {
            name: value
            for name, value in flat.items()
            if name in ("id", "name", "sessionId", "input", "datasetItemId") or name.startswith(("metadata.", "input."))
        },
        "task": as_text(_cell(row.get("input"))),
    }
    for number, draft in sorted(drafts.items()):
        used = draft.get("usage") or draft.get("usageDetails") or {}
        yield Entry(
            **common,
            scores=_values(source, where, scored[number]),
            round=number,
            text=as_text(_cell(draft.get("output"))),
            model=as_text(draft.get("model")),
            tokens=int(used.get("total") or 0) if isinstance(used, dict) else 0,
        )
    if drafts:
        return
    yield Entry(
        **common,
        scores=_values(source, where, scored[None]),
        text=as_text(_cell(row.get("output"))),
        seconds=_number(row.get("latency")) or 0.0,
        cost_usd=_number(row.get("totalCost")),
    )


def _from_scores(source: Source, rows: list[tuple[str, dict[str, Any]]]) -> list[Entry]:
    """Return the traces and observations that were scored, each with its scores together."""
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
    values: dict[str, Any] = {}
    for score in scores:
        name, value = as_text(score.get("name")), score.get("value")
        if score.get("dataType") == "BOOLEAN":
            value = {"1": True, "1.0": True, "0": False, "0.0": False}.get(str(value), value)
        elif score.get("dataType") == "CATEGORICAL":
            value = score.get("stringValue", value)
        if values.get(name, value) != value:
            raise ValueError(
                f"{source.path}, {where}: two scores named {name!r} differ; a draft each is told apart by a number in "
                "the observation's metadata, round"
            )
        values[name] = value
    return values


def _metadata(row: dict[str, Any]) -> dict[str, Any]:
    metadata = _cell(row.get("metadata"))
    return metadata if isinstance(metadata, dict) else {}


def _cell(value: Any) -> Any:
    """Return the JSON in a cell of a CSV export, or the cell itself."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def is_phoenix(source: Source) -> bool:
    """Detect runs of an experiment, as JSON or CSV, or spans with annotations, as Phoenix exports them."""
    return any(
        _is_phoenix_run(row)
        or ("context.span_id" in (flat := flattened(row)) and any(PHOENIX_COLUMN.fullmatch(name) for name in flat))
        for row in source.head[:1]
    )


def read_phoenix(source: Source) -> Log:
    """Read the runs or spans, with a verdict for each annotation's score and label."""
    rows = list(source.rows())
    runs = _is_phoenix_run(rows[0][1])
    fields = ("input", "output", "reference_output") if runs else ("attributes.input.value", "attributes.output.value")
    entries = []
    for where, row in rows:
        flat = flattened(row)
        task, text, *gold = (as_text(row[name] if name in row else flat.get(name)) for name in fields)
        entries.append(
            Entry(
                where,
                {
                    name: value
                    for name, value in flat.items()
                    if not (isinstance(value, list) or PHOENIX_COLUMN.fullmatch(name) or name.startswith(NO_IDS))
                },
                _annotations(row, flat),
                round=None if runs else round_of(flat, ("attributes.metadata.round", "attributes.metadata.revision")),
                trial=round_of(row, ("repetition_number",)),
                task=task,
                text=text,
                gold="".join(gold) or None,
                tokens=sum(round_of(row, (name,)) or 0 for name in ("prompt_token_count", "completion_token_count")),
                seconds=(_number(row.get("latency_ms")) or 0.0) / 1000,
                error=as_text(row.get("error")) or None,
            )
        )
    return Log(source.path, "Phoenix export", entries, ("example_id",) if runs else PHOENIX_SPAN_IDS)


def _is_phoenix_run(row: dict[str, Any]) -> bool:
    return {"example_id", "repetition_number"} <= row.keys() and ("annotations" in row or "trace_id" in row)


def _annotations(row: dict[str, Any], flat: dict[str, Any]) -> dict[str, Any]:
    scores: dict[str, Any] = {}
    for annotation in row.get("annotations") or ():
        if isinstance(annotation, dict):
            name = as_text(annotation.get("name"))
            scores |= {
                f"{name}.{part}": annotation[part] for part in ("score", "label") if annotation.get(part) is not None
            }
    for column, value in flat.items():
        if (match := PHOENIX_COLUMN.fullmatch(column)) and value is not None:
            scores[f"{match['name']}.{match['part']}"] = value
    return scores
