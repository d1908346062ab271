"""Rounds of a run: each draft, what was changed in it and why, what was said about it, and its score. Internal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from ...state.events import CRITIQUE_KINDS, DRAFT_KINDS, Event
from ...state.summary import Attempt, RunSummary, current_run, rounds, summary_of
from ...state.threads.diffs import diff_words
from .console import plain_table, printed, safe
from .timeline import event_row, totals
from .wording import score_of, who_of

__all__ = ["Rounds", "curve_of", "grouped", "place_of", "round_cards", "score_facts", "score_text"]


def round_cards(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return a card for each round of the current task, those of a search's paths one by one; the best is open.

    Args:
        events: The record of a thread.
    """
    cards = Rounds(current_run(events)).cards()
    if cards and not any(card["open"] for card in cards):
        cards[-1]["open"] = True
    return cards


class Rounds:
    """The rounds of a task, those of a search's paths one by one; they grow as its events come in.

    Args:
        run: The events so far; with a `task` among them the rounds begin anew.
    """

    def __init__(self, run: Iterable[Event] = ()) -> None:
        self._rounds: dict[tuple[int, str], list[Event]] = {}
        """The events of each, by its place, in the order in which they began."""
        self._paths: dict[str, RunSummary] = {}
        for event in run:
            self.take(event)

    def take(self, event: Event) -> None:
        """Add an event."""
        place = place_of(event)
        if event["kind"] == "task":
            self._rounds, self._paths = {}, {}
        else:
            self._rounds.setdefault(place, []).append(event)
        self._paths.setdefault(place[1], RunSummary()).take([event])

    def cards(self) -> list[dict[str, Any]]:
        """Return the cards of all rounds."""
        return [{**point, **self.texts(place)} for place, point in self.points().items()]

    def points(self) -> dict[tuple[int, str], dict[str, Any]]:
        """Return the part of each card that `curve_of` draws, by the round's place; none of an empty round."""
        drafts, bests, points = dict[tuple[int, str], Attempt](), set[tuple[int, str]](), {}
        for branch, summary in self._paths.items():
            drafts |= {(draft.round, branch): draft for draft in summary.attempts}
            bests |= {(answer.round, branch)} if (answer := summary.answer) else set()
        for place, here in self._rounds.items():
            if all(event["kind"] in ("verdict", *CRITIQUE_KINDS) for event in here):
                continue
            points[place] = {
                "name": f"Round {place[0]}" + (f", path {place[1]}" if place[1] else ""),
                "round": place[0],
                "score": drafts[place].score if place in drafts else None,
                "best": place in bests,
                "open": place in bests,
                **totals([event_row(event) for event in here]),
            }
        return points

    def texts(self, place: tuple[int, str]) -> dict[str, Any]:
        """Return the rest of a card: what was written, what it changed in the draft that it revises, what was said."""
        here, drafts = self._rounds[place], {draft.round: draft for draft in self._paths[place[1]].attempts}
        draft = drafts.get(place[0])
        written = [event for event in here if event["kind"] in DRAFT_KINDS]
        last: Mapping[str, Any] = written[-1] if written else {"kind": "", "text": ""}
        notes = [
            event
            for event in here
            if event["kind"] not in (*DRAFT_KINDS, *CRITIQUE_KINDS)
            # That it was accepted stands beside what accepted it.
            and (event["kind"] != "verdict" or event.get("stop_reason") not in (None, "accepted"))
        ]
        base = drafts.get(draft.base) if draft is not None and draft.base is not None else None
        text = draft.text if draft is not None else str(last["text"])
        return {
            "by": who_of(last),
            "what": str(last["kind"]),
            "base": base.round if base else None,
            "text": text,
            "changes": [(change.kind, change.text) for change in diff_words(base.text, text).changes] if base else [],
            "same": base is not None and base.text == text,
            "accepted": draft is not None and draft.accepted,
            "because": [event_row(critique) for critique in base.critiques] if base else [],
            "forkable": draft is not None,
            "rejected": [row for row in map(event_row, written) if row["verdict"]],
            "said": [event_row(event) for event in here if event["kind"] in CRITIQUE_KINDS],
            "notes": [event_row(event) for event in notes],
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


def curve_of(
    cards: Sequence[Mapping[str, Any]], *, least: int = 2, last: int = 1, most: int = 1
) -> dict[str, Any] | None:
    """Return the score of each round as a drawing's points, over bars of its tokens.

    Args:
        cards: The rounds.
        least: How many scores there must be, or there is no curve.
        last: The round that the axis goes to at least, so that several curves can be compared.
        most: The tokens that the highest bar stands for, at least.
    """
    scored = [card for card in cards if card["score"] is not None]
    if len(scored) < least:
        return None
    last = max(1, last, *(card["round"] for card in cards))
    most = max(1, most, *(card["total_tokens"] for card in cards))

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
    scores = ", ".join(f"{card['round']} {score_of(card['score'])}" for card in scored)
    return {
        "points": points,
        "bars": [
            {"x": round(x - wide / 2, 1), "y": BELOW + 22 - high, "width": wide, "height": high} for x, high in tall
        ],
        "last": last,
        "ends": (across(0), across(last)),
        "most_tokens": most,
        "described": f"Score by round: {scores or 'nobody scored a draft'}",
    }


def score_facts(records: Mapping[str, Sequence[Event]]) -> dict[str, Any]:
    """Return the scores and tokens of threads by round, each with its curve, all of one scale.

    Args:
        records: Thread id → its events.
    """
    threads: list[dict[str, Any]] = []
    for name, events in records.items():
        summary = summary_of(events)
        scores = {draft.round: draft.score for draft in summary.attempts}
        tokens = [0] * (rounds(events) + 1)
        for event in current_run(events):
            tokens[min(event["round"], len(tokens) - 1)] += event["usage"]["total_tokens"]
        best = summary.answer.round if summary.answer else None
        cards = [
            {"round": number, "score": scores.get(number), "total_tokens": tokens[number], "best": number == best}
            for number in range(len(tokens))
        ]
        spent = list(enumerate(accumulate(tokens)))
        threads.append({"thread_id": name, "scores": list(scores.items()), "tokens": spent, "cards": cards})
    every = [card for one in threads for card in one["cards"]]
    scale = {"last": max(card["round"] for card in every), "most": max(card["total_tokens"] for card in every)}
    return {"threads": [{**one, "curve": curve_of(one["cards"], least=0, **scale)} for one in threads]}


def score_text(facts: Mapping[str, Any]) -> str:
    """Return the numbers as a table in plain text: a line a thread and round."""
    from rich.text import Text

    table = plain_table("thread", "round", "score", "", "tokens so far", right=("round", "score", "tokens so far"))
    for one in facts["threads"]:
        scores = dict(one["scores"])
        for number, spent in one["tokens"]:
            name = safe(one["thread_id"]) if number == one["tokens"][0][0] else ""
            bar = "█" * round(20 * (scores.get(number) or 0))
            score = score_of(scores[number]) if number in scores else ""
            table.add_row(Text(name), str(number), score, bar, f"{spent:,}")
    return printed(table)
