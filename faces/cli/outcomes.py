"""Results of runs, as JSON and in the terminal. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..problems import command
from ..views.wording import STOP_WORDS, amount, money, reason_style, score_of, seconds, tokens_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..views.console import Screen

__all__ = ["RESULT_KEYS", "outcome_data", "show_outcome"]

RESULT_KEYS = ("answer", "stop_reason", "rounds", "score", "accepted_by", "oracle", "usage")


def outcome_data(values: Mapping[str, Any], *, thread_id: str) -> dict[str, Any]:
    """Return the result of a run as JSON holds it."""
    known = {"thread_id": thread_id, "task": values.get("task") or "", **{key: values.get(key) for key in RESULT_KEYS}}
    if sources := _sources(values):
        known["sources"] = sources
    return {**known, "self_critique": values["self_critique"]} if "self_critique" in values else known


def show_outcome(screen: Screen, values: Mapping[str, Any], *, thread_id: str, db: str) -> None:
    """Print the answer, why the run stopped, and what it cost."""
    reason = values.get("stop_reason")
    usage = values.get("usage") or {}
    screen.line("")
    screen.line(("answer", "bold"))
    screen.block(values.get("answer") or "(none: nothing was drafted)", indent=2)
    for one in _sources(values):
        places = [one["source"] or "unnamed source", *(f"{key} {one[key]}" for key in ("page", "line") if key in one)]
        told = ", ".join(places) + (f" · {one['url']}" if "url" in one else "")
        screen.line((f"  [{one['number']}] {told}", "dim"))
    screen.line("")
    why = _why(values) or STOP_WORDS.get(reason, "")
    by = f" by {values['accepted_by']}" if reason == "accepted" else "" if reason is None else f": {why}"
    screen.line((str(reason or "unfinished"), f"bold {reason_style(reason)}"), by)
    facts = [amount(values.get("rounds") or 0, "round"), f"score {score_of(values.get('score'))}"]
    if usage:
        facts += [tokens_of(usage), money(usage["cost_usd"]), seconds(usage["seconds"])]
    screen.line((" · ".join(facts), "dim"))
    if db != "memory":
        screen.line(("thread ", "dim"), thread_id, (f" · {command('history', thread_id, db=db)}", "dim"))


def _why(values: Mapping[str, Any]) -> str:
    """Return what the record says about the end of a run without rounds, which a pipeline has none of, say."""
    events = values.get("events") or []
    if values.get("stop_reason") != "max_rounds" or not events or events[-1]["kind"] != "verdict":
        return ""
    text: str = events[-1]["text"].rstrip(".")
    return text[:1].lower() + text[1:]


def _sources(values: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return what the answer cites."""
    # What reads a record is imported with it.
    from ...state.retrievals import cited_sources

    return cited_sources(values.get("answer") or "", values.get("events") or [])
