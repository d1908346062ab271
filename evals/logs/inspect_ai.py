"""Inspect logs: `.eval` (a zip of JSON) and `.json`. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .entries import Entry, Log, as_text, flattened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .sources import Source

__all__ = ["is_inspect", "read_inspect"]

LETTERS: dict[str, bool | float] = {"C": True, "I": False, "N": False, "P": 0.5}
"""Correct, incorrect, no answer, partially correct."""
START = "_journal/start.json"


def is_inspect(source: Source) -> bool:
    """Detect an Inspect log."""
    if source.kind == "zip":
        return any(name in source.names for name in ("header.json", START))
    return source.kind == "json" and isinstance(source.document, dict) and {"eval", "plan"} <= source.document.keys()


def read_inspect(source: Source) -> Log:
    """Read the samples of an Inspect log; each score between attempts is a round."""
    if source.kind == "zip":
        header = source.member("header.json" if "header.json" in source.names else START)
        names = [name for name in source.names if name.startswith("samples/")]
        samples: Iterable[tuple[str, Any]] = ((name, source.member(name)) for name in names)
    else:
        header = source.document
        samples = ((f"sample {n}", sample) for n, sample in enumerate(header.get("samples") or (), 1))
    info = header.get("eval") or {}
    data = info.get("dataset") or {}
    entries: list[Entry] = []
    went_on = several = False
    for where, sample in samples:
        if not isinstance(sample, dict):
            raise ValueError(f"{source.path}, {where}: a sample is an object, not {type(sample).__name__}")  # noqa: TRY004
        drafts = list(_drafts(where, sample, str(info.get("model", ""))))
        several |= len(drafts) > 1
        went_on |= any(True in entry.scores.values() for entry in drafts[:-1])
        entries += drafts
    # The header lists solvers under `plan`; the journal's start keeps them there too.
    steps = [step.get("solver", "") for step in (header.get("plan") or {}).get("steps") or ()]
    return Log(
        source.path,
        "Inspect log",
        entries,
        ("id",),
        dataset=str(data.get("name") or info.get("task") or ""),
        # An agent is a chain of steps, of which the last one names it.
        method=str(info.get("solver") or (steps[-1] if steps else "")),
        asked=len(data.get("sample_ids") or ()),
        # A scorer knows the target. Where nothing went on after a right draft, the score is what stopped it.
        told_the_score=several and not went_on,
    )


def _drafts(where: str, sample: dict[str, Any], model: str) -> Iterator[Entry]:
    """Yield the drafts of a sample: those scored on the way, then the answer."""
    output = sample.get("output") or {}
    usage = sample.get("model_usage") or {}
    scores = {name: score for name, score in (sample.get("scores") or {}).items() if isinstance(score, dict)}
    final = {key: value for name, score in scores.items() for key, value in _values(name, score.get("value")).items()}
    choices = output.get("choices") or ()
    completion = (choices[0].get("message") or {}).get("content") if choices else output.get("completion")
    answer = next((as_text(score["answer"]) for score in scores.values() if score.get("answer")), "")
    error = sample.get("error")
    common: dict[str, Any] = {
        "where": where,
        "ids": {"id": sample.get("id")},
        "trial": sample.get("epoch"),
        "task": _input(sample.get("input")),
        "gold": as_text(sample.get("target")) or None,
        "model": model,
        "error": as_text(error.get("message")) if isinstance(error, dict) else as_text(error) or None,
    }
    tokens = sum(int(used.get("total_tokens") or 0) for used in usage.values() if isinstance(used, dict))
    rounds, written_since = _scored_on_the_way(sample, scores)
    if rounds and not written_since:
        rounds.pop()  # the answer, which is scored once more at the end
    for number, (values, draft, spent) in enumerate(rounds):
        yield Entry(**common, scores=values, round=number, text=draft, tokens=spent)
    spent_before = sum(spent for _, _, spent in rounds)
    yield Entry(
        **common,
        scores=final,
        round=len(rounds) if rounds else None,
        text=answer or _content(completion),
        tokens=max(tokens - spent_before, 0),
        seconds=float(sample.get("total_time") or 0.0),
    )


def _scored_on_the_way(
    sample: dict[str, Any], scores: dict[str, Any]
) -> tuple[list[tuple[dict[str, Any], str, int]], bool]:
    """Return the values, answer and tokens of each draft scored before the end, and True if a draft came after them."""
    # The event names no scorer: with several it would be a guess whose value it is.
    if len(scores) != 1:
        return [], False
    name = next(iter(scores))
    rounds: list[tuple[dict[str, Any], str, int]] = []
    spent, written = 0, False
    for event in sample.get("events") or ():
        if not isinstance(event, dict):
            continue
        if event.get("event") == "model":
            used = (event.get("output") or {}).get("usage") or {}
            spent, written = spent + int(used.get("total_tokens") or 0), True
        elif event.get("event") == "score" and event.get("intermediate"):
            score = event.get("score") or {}
            rounds.append((_values(name, score.get("value")), as_text(score.get("answer")), spent))
            spent, written = 0, False
    return rounds, written


def _values(name: str, value: Any) -> dict[str, Any]:
    """Return the verdicts in a score's value, which may be an object of several."""
    if isinstance(value, dict):
        return {f"{name}.{key}": _letter(part) for key, part in flattened(value).items()}
    return {name: _letter(value)}


def _letter(value: Any) -> Any:
    return LETTERS.get(value, value) if isinstance(value, str) else value


def _input(value: Any) -> str:
    if isinstance(value, list):
        return "\n\n".join(_content(message.get("content")) for message in value if isinstance(message, dict))
    return as_text(value)


def _content(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(as_text(part.get("text")) for part in value if isinstance(part, dict) and part.get("text"))
    return as_text(value)
