"""Wording of numbers, verdicts and stop reasons, the same in every view. Internal."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ..problems import BadInputError

__all__ = [
    "STOPPED_BY",
    "STOP_WORDS",
    "amount",
    "checked_reason",
    "cost_words",
    "left_out",
    "mark",
    "money",
    "moved",
    "percent",
    "reason_style",
    "requirement_status",
    "said_nothing",
    "score_of",
    "seconds",
    "size",
    "stop_words",
    "stripped_words",
    "tokens_of",
    "usage_words",
    "who_of",
]

STOP_WORDS: Mapping[str | None, str] = {
    "accepted": "accepted",
    "max_rounds": "no rounds are left",
    "undecided": "nobody who may decide did",
    "no_progress": "the last revisions brought nothing better",
    "token_budget": "the token budget is spent",
    "cost_budget": "the cost budget is spent, or a price is not known",
    "time_budget": "the time budget is spent",
    "call_budget": "the server's ceiling of calls is reached",
    "quota": "the quota of the day is used up",
    "human": "a person ended the run",
    "failed": "an error ended the run",
    "quarantined": "it stopped the servers that ran it; a person may resume it",
    None: "unfinished",
}

STOPPED_BY = ("CancelledError", "GraphDrained", "KeyboardInterrupt")
"""Exceptions of a run that somebody stopped: it is unfinished, and nothing failed."""


def stop_words(reason: str | None) -> str:
    """Return a stop reason in words; a reason that is none of ours is returned as it is."""
    return STOP_WORDS.get(reason, str(reason))


def requirement_status(requirement: Mapping[str, Any]) -> str:
    """Return the status of a requirement, and the programs that tell it."""
    return " · ".join([requirement["status"], *requirement["verifiers"]])


def left_out(event: Mapping[str, Any]) -> str:
    """Name the path of a search that never began, and the reason."""
    reason = str(event.get("text"))
    why = "another path was accepted" if reason == "accepted" else stop_words(reason)
    return f"path {event.get('branch')} left out: {why}"


def who_of(event: Mapping[str, Any]) -> str:
    """Return the author of an event, with the refiner that wrote where there are several."""
    by, refiner = str(event.get("by") or ""), str(event.get("refiner") or "")
    return f"{by} ({refiner})" if refiner not in ("", by) else by


REJECTED_WORDS: Mapping[str, str] = {
    "empty": "it is empty",
    "refused": "the model refused",
    "meta": "it talks about the draft instead of being one",
    "repeat": "it repeats an earlier draft",
    "invalid": "it does not fit the schema",
    "unfinished": "the agent did not finish it",
    "notice": "no model wrote it",
}


def stripped_words(event: Mapping[str, Any]) -> str:
    """Return the words that the gate took off a reply, before and after the draft; empty where it took none."""
    stripped = event.get("stripped") or {}
    parts = [" ".join(str(stripped[place]).split()) for place in ("before", "after") if place in stripped]
    return "taken off: " + " … ".join(f"“{part}”" for part in parts) if parts else ""


def checked_reason(word: str | None) -> str | None:
    """Return a stop reason, or `unfinished`, as a user names it; `None` is not named.

    Raises:
        BadInputError: No thread can have stopped so.
    """
    reasons = [reason or "unfinished" for reason in STOP_WORDS]
    if word is not None and word not in reasons:
        raise BadInputError(f"no thread stops with {word!r}; known are {', '.join(reasons)}")
    return word


def amount(count: int, what: str) -> str:
    """Return `1 round`, `2 rounds`, `1,204 tokens`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def money(cost_usd: float | None) -> str:
    """Return dollars with the digits that matter, or `cost unknown`: an unknown price is never shown as 0."""
    if cost_usd is None:
        return "cost unknown"
    return (
        f"${cost_usd:.2f}"
        if cost_usd == 0 or cost_usd >= 1
        else f"${cost_usd:.2g}"
        if cost_usd < 0.01
        else f"${cost_usd:.3f}"
    )


def cost_words(totals: Mapping[str, Any]) -> list[str]:
    """Return the cost of a thread in words; empty where no call was counted, as after one that was stopped."""
    return [money(totals["total_cost_usd"])] if totals["total_calls"] else []


def moved(at: str, now: datetime | None = None) -> str:
    """Return a moment as a list shows it, by this machine's clock: the time of today, else the day.

    Args:
        at: ISO 8601 with an offset; anything else, out of a row that somebody changed, is shown as it is.
        now: Default: now.
    """
    try:
        moment = datetime.fromisoformat(at).astimezone()
    except (ValueError, OverflowError):
        return at[:16]
    today = (now or datetime.now().astimezone()).date()
    if moment.date() == today:
        return f"{moment:%H:%M}"
    return f"{moment:%b %d}" if moment.year == today.year else f"{moment:%b %Y}"


def size(count: int) -> str:
    """Return a number of bytes in the largest unit of which there is one."""
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"


def percent(share: float) -> str:
    """Return `58.3%`."""
    return f"{share:.1%}"


def seconds(value: float) -> str:
    """Return `0.8 s` or `2 min 05 s`."""
    if value < 100:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest:02d} s"


def score_of(score: float | None) -> str:
    """Return the score with two digits, or a dash."""
    return "–" if score is None else f"{score:.2f}"


def usage_words(usage: Mapping[str, Any]) -> list[str]:
    """Return the cost of a model call in words; empty where no model was called."""
    if not usage.get("calls"):
        return []
    return [tokens_of(usage) if usage["total_tokens"] else "tokens unknown", seconds(usage["seconds"])]


def tokens_of(usage: Mapping[str, Any]) -> str:
    """Return the number of tokens in words, and how many of them a provider read from its cache."""
    cached = usage.get("cache_read_tokens")
    return amount(usage["total_tokens"], "token") + (f", {cached:,} of them cached" if cached else "")


def mark(accepted: bool | None) -> tuple[str, str]:
    """Return the sign of a verdict and its style."""
    return {True: ("✓", "green"), False: ("✗", "red"), None: ("?", "yellow")}[accepted]


def said_nothing(event: Mapping[str, Any]) -> str:
    """Return the word that stands for a critique without a text."""
    if event.get("stop"):
        return "stopped the run"
    return {True: "accepts it", False: "rejects it", None: "gave no readable verdict"}[event.get("accepted")]


def reason_style(stop_reason: str | None) -> str:
    """Return the style of a stop reason."""
    return {"accepted": "green", "failed": "red", "quarantined": "red"}.get(stop_reason or "", "yellow")
