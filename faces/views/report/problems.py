"""Every problem of every run, as the report's browser of problems reads it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ....evals.analysis.round_rates import drafts_right
from ....state.threads.diffs import diff_words
from ..console import safe
from ..documents import LONGEST_COMPARED, LONGEST_SHOWN
from ..wording import REJECTED_WORDS, STOP_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ....evals.analysis.ledger import Run
    from ....evals.run.result_record import Iteration, ResultRecord

__all__ = ["LONGEST_COMPARED", "LONGEST_SHOWN", "OUTCOMES", "problems_data"]

OUTCOMES = {"fixed": "fixed", "broken": "broken", "kept_right": "kept right", "kept_wrong": "kept wrong"}
"""What became of the first draft, by the gold answer → the words for it."""


def problems_data(runs: Iterable[tuple[str, Run]]) -> dict[str, Any]:
    """Return plain data: `questions` (each text once), `outcomes` (the words for them) and `problems`.

    The problems stand in the order of the first run that has them, and each beside its twins of other methods. Control
    characters are made visible, and texts longer than `LONGEST_SHOWN` are cut, which the page says.

    Args:
        runs: Each with the label of its row in the ledger.
    """
    questions: dict[str, int] = {}
    places: dict[tuple[str, str], int] = {}
    found: list[tuple[int, dict[str, Any]]] = []
    for label, run in runs:
        for record in run.records:
            question = questions.setdefault(_shown(record.question), len(questions))
            place = places.setdefault((run.info.dataset_sha256, record.question_id), len(places))
            outcome = _outcome(record, right=run.verdicts[record.question_id])
            found.append((place, {"method": safe(label), "question": question, "outcome": outcome, **_problem(record)}))
    ordered = [problem for _, problem in sorted(found, key=lambda pair: pair[0])]
    return {"questions": list(questions), "outcomes": OUTCOMES, "problems": ordered}


def _outcome(record: ResultRecord, *, right: bool) -> str:
    """Return what the ledger counts a record as: a draft without a verdict, or none, is wrong."""
    was_right = drafts_right(record)[:1] == [True]
    if right:
        return "kept_right" if was_right else "fixed"
    return "broken" if was_right else "kept_wrong"


def _problem(record: ResultRecord) -> dict[str, Any]:
    return {
        "id": safe(record.question_id),
        "truth": _optional(record.ground_truth),
        "predicted": _optional(record.predicted_answer),
        "stop": safe(STOP_WORDS.get(record.stop_reason) or str(record.stop_reason)),
        "accepted_by": _optional(record.accepted_by),
        "tokens": record.total_tokens,
        "oracle": record.oracle,
        "error": _optional(record.error),
        "steps": list(_steps(record.iterations_log)),
    }


def _steps(log: Iterable[Iteration]) -> Iterator[dict[str, Any]]:
    draft: str | None = None
    for one in log:
        whole = (one.feedback or "") if one.type == "feedback" else one.solution
        text, changes, notes = _shown(whole), None, []
        if len(whole) > LONGEST_SHOWN:
            notes.append(f"Cut after {LONGEST_SHOWN:,} of {len(whole):,} characters; results.jsonl has the rest.")
        if one.type == "refinement" and not one.rejected and draft is not None:
            if max(len(draft), len(text)) <= LONGEST_COMPARED:
                changes = _changes(draft, text)
            else:
                notes.append(f"Not compared word by word: longer than {LONGEST_COMPARED:,} characters.")
        if one.type != "feedback" and not one.rejected:
            draft = text
        yield {
            "kind": one.type,
            "title": _title(one),
            "by": safe(one.by),
            "text": "" if changes else text,
            "changes": changes,
            "answer": _optional(one.predicted_answer),
            "correct": one.is_correct,
            "accepted": one.accepted,
            "score": one.score,
            "tokens": one.tokens_used,
            "rejected": REJECTED_WORDS.get(one.rejected, safe(one.rejected)),
            "note": " ".join(notes),
        }


def _title(step: Iteration) -> str:
    if step.type == "feedback":
        return f"Feedback on revision {step.iteration}" if step.iteration else "Feedback on the first draft"
    return f"Revision {step.iteration}" if step.iteration else "First draft"


def _shown(text: str) -> str:
    return safe(text[:LONGEST_SHOWN])


def _optional(text: str | None) -> str | None:
    return None if text is None else _shown(text)


@lru_cache(maxsize=512)
def _changes(before: str, after: str) -> tuple[tuple[str, str], ...]:
    return tuple((change.kind, change.text) for change in diff_words(before, after).changes)
