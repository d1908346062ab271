"""Rounds of a run: each draft, what was changed in it and why, what was said about it, and its score. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...state.events import CRITIQUE_KINDS, DRAFT_KINDS
from ...state.summary import RunSummary, current_run
from ...state.threads.diffs import diff_words
from .timeline import event_row, totals
from .wording import score_of, who_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...state.events import Event

__all__ = ["curve_of", "grouped", "place_of", "round_card", "round_cards"]


def round_cards(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return a card for each round of the current task, those of a search's paths one by one; the best is open.

    Args:
        events: The record of a thread, or what a run that is under way has sent so far.
    """
    run = current_run(events)
    places = dict.fromkeys(place_of(event) for event in run if event["kind"] != "task")
    cards = [card for place in places if (card := round_card(run, place))]
    if cards and not any(card["open"] for card in cards):
        cards[-1]["open"] = True
    return cards


def round_card(run: Iterable[Event], place: tuple[int, str]) -> dict[str, Any] | None:
    """Return the card of one round; `None` where there is nothing to show.

    Args:
        run: The events of the task.
        place: Its number, and the path where it is one of a search.
    """
    number, branch = place
    path = [event for event in run if place_of(event)[1] == branch]
    here = [event for event in path if event["round"] == number and event["kind"] != "task"]
    written = [event for event in here if event["kind"] in DRAFT_KINDS]
    notes = list(filter(_is_note, here))
    if not written and all(event["kind"] == "verdict" for event in notes):
        return None
    last: Mapping[str, Any] = written[-1] if written else {"kind": "", "text": ""}
    return {
        "name": f"Round {number}" + (f", path {branch}" if branch else ""),
        "round": number,
        "by": who_of(last),
        "what": str(last["kind"]),
        **_drafted(RunSummary().grown(path), number, str(last["text"])),
        "rejected": [row for row in map(event_row, written) if row["verdict"]],
        "said": [event_row(event) for event in here if event["kind"] in CRITIQUE_KINDS],
        "notes": [event_row(event) for event in notes],
        **totals([event_row(event) for event in here]),
    }


def _is_note(event: Event) -> bool:
    """Tell if an event stands below a round: that it was accepted stands beside what accepted it."""
    if event["kind"] == "verdict":
        return event.get("stop_reason") not in (None, "accepted")
    return event["kind"] not in (*DRAFT_KINDS, *CRITIQUE_KINDS)


def _drafted(summary: RunSummary, number: int, written: str) -> dict[str, Any]:
    """Return the part of a card on the draft of its round, compared with the one that it revises.

    Args:
        summary: Of the path.
        number: The round.
        written: The text to show where that is no draft.
    """
    drafts = {draft.round: draft for draft in summary.attempts}
    draft = drafts.get(number)
    base = drafts.get(draft.base) if draft is not None and draft.base is not None else None
    text = draft.text if draft is not None else written
    is_best = summary.answer is not None and summary.answer.round == number
    return {
        "base": base.round if base else None,
        "text": text,
        "changes": [(change.kind, change.text) for change in diff_words(base.text, text).changes] if base else [],
        "same": base is not None and base.text == text,
        "score": draft.score if draft else None,
        "accepted": draft is not None and draft.accepted,
        "because": [event_row(critique) for critique in base.critiques] if base else [],
        "forkable": draft is not None,
        "best": is_best,
        "open": is_best,
    }


def grouped(cards: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """Return the rounds in groups: many in a row that are neither first, best nor last under a name, others without."""
    groups: list[tuple[str, list[Mapping[str, Any]]]] = []
    for at, card in enumerate(cards):
        ends = at in (0, len(cards) - 1) or card["open"]
        if groups and not ends and not any(each["open"] for each in groups[-1][1]) and groups[-1][1][0] is not cards[0]:
            groups[-1][1].append(card)
        else:
            groups.append(("", [card]))
    return [
        (f"{inside[0]['name']} to {inside[-1]['name'].lower()}" if len(inside) >= FOLDED else "", inside)
        for _, inside in groups
    ]


FOLDED = 4
"""Rounds in a row, from which on they are folded into one line."""


def place_of(event: Mapping[str, Any]) -> tuple[int, str]:
    """Return the round of an event, and the path where it is one of a search."""
    return event["round"], str(event.get("branch") or "")


WIDTH, HEIGHT, LEFT, TOP, BELOW = 330, 76, 24, 8, 96
"""Of the curve, in the units of its drawing: 1 is a pixel on a phone."""


def curve_of(cards: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the score of each round as a drawing's points, over bars of its tokens; `None` of a single score."""
    scored = [card for card in cards if card["score"] is not None]
    if len(scored) < 2:
        return None
    last: int = max(1, *(card["round"] for card in cards))
    most = max(1, *(card["total_tokens"] for card in cards))

    def across(number: float) -> float:
        return round(LEFT + 6 + (WIDTH - 12) * number / last, 1)

    points = [
        {
            "x": across(card["round"]),
            "y": round(TOP + HEIGHT * (1 - card["score"]), 1),
            "round": card["round"],
            "score": card["score"],
            "best": card["best"],
        }
        for card in scored
    ]
    wide = round(min(10.0, 0.7 * WIDTH / (last + 1)), 1)
    tall = [(across(card["round"]), round(22 * card["total_tokens"] / most, 1)) for card in cards]
    return {
        "points": points,
        "bars": [
            {"x": round(x - wide / 2, 1), "y": BELOW + 22 - high, "width": wide, "height": high} for x, high in tall
        ],
        "last": last,
        "ends": (across(0), across(last)),
        "most_tokens": most,
        "described": "Score by round: " + ", ".join(f"{card['round']} {score_of(card['score'])}" for card in scored),
    }
