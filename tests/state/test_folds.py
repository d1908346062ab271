"""What is read off a record: the best draft, rounds, scores, usage."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redraft.state.checked_channels import append_events
from redraft.state.events import broken_links, record, task_event
from redraft.state.stopping import STOP_REASONS, decide
from redraft.state.summary import attempts, best_draft, latest_draft, rounds, usage_total
from redraft.state.usage import NO_USAGE, add_usage


def chain(*events: dict[str, Any]) -> list[Any]:
    return record({}, *({"by": "test", "round": 0, **event} for event in events))["events"]


def draft(text: str, **fields: Any) -> dict[str, Any]:
    return {"kind": "draft", "text": text, **fields}


def revision(number: int, text: str, **fields: Any) -> dict[str, Any]:
    return {"kind": "revision", "round": number, "text": text, "base": number - 1, **fields}


def critique(
    number: int, score: float | None = None, *, accepted: bool | None = False, **fields: Any
) -> dict[str, Any]:
    return {"kind": "critique", "round": number, "score": score, "accepted": accepted, **fields}


TASK = {"kind": "task", "text": "Write."}


ACCEPTED = {"accepted": True}
KINDS = {
    "accepted": ({"score": 0.1, **ACCEPTED},),
    "accepted by a program": ({"score": None, "verifier": True, **ACCEPTED},),
    "scored higher": ({"score": 0.8},),
    "scored lower": ({"score": 0.3},),
    "scored without a verdict": ({"score": 0.3, "accepted": None},),
    "unjudged": (),
    "an opinion without a score": ({},),
    "an opinion that can't be read": ({"accepted": None},),
    "rejected, with a score": ({"score": 0.9, "verifier": True},),
    "rejected, with a lower score": ({"score": 0.0, "verifier": True}, {"score": 1.0}),
    "rejected without a score": ({"verifier": True},),
}
ORDERED = [
    {"accepted"}, {"accepted by a program"}, {"scored higher"}, {"scored lower", "scored without a verdict"},
    {"unjudged", "an opinion without a score", "an opinion that can't be read"},
    {"rejected, with a score"}, {"rejected, with a lower score"}, {"rejected without a score"},
]  # fmt: skip
PLACES = {name: place for place, names in enumerate(ORDERED) for name in names}


@given(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=6))
def test_one_order_decides_which_draft_is_the_best_and_of_equal_ones_the_earlier_stays(kinds: list[str]) -> None:
    """Accepted, then scored, then what nobody could judge, then what a verifier rejected, however they came."""
    events = [task_event("Write.", {}, {})]
    for number, kind in enumerate(kinds):
        events += [revision(number, f"{number} {kind}") if number else draft(f"0 {kind}")]
        events += [critique(number, **said) for said in KINDS[kind]]
    best = best_draft(chain(*events))
    expected = min(range(len(kinds)), key=lambda number: PLACES[kinds[number]])
    assert best is not None
    assert best.text == f"{expected} {kinds[expected]}"
    assert best.rank == max(attempt.rank for attempt in attempts(chain(*events)))


def test_a_task_from_before_the_order_was_noted_keeps_its_own() -> None:
    """A stored thread answers as it did: ties go to the latest, and an unjudged draft counts as the one it revises."""
    equal = chain(TASK, draft("a"), critique(0, 0.5), revision(1, "b"), critique(1, 0.5))
    assert best_draft(equal).text == "b"  # type: ignore[union-attr]
    opinion = chain(TASK, draft("a"), critique(0, 0.4), revision(1, "b"))
    assert best_draft(opinion).text == "b"  # type: ignore[union-attr]
    program = chain(TASK, draft("a"), critique(0, 0.4, verifier=True), revision(1, "b"))
    assert best_draft(program).text == "a"  # type: ignore[union-attr]


def test_several_drafts_of_one_round_are_judged_each_by_itself() -> None:
    """Where several revisions are open at once, a critique is about the draft of its round; one accepted is enough."""
    start = (task_event("Write.", {}, {"asks": True}), draft("a"), critique(0), {"kind": "verdict"})
    open_ones = (revision(1, "b"), revision(2, "c"), revision(3, "d"))
    assert decide(chain(*start, *open_ones), {"max_rounds": 9}) == "no_progress"  # nobody could judge any
    assert decide(chain(*start, *open_ones, critique(2, 0.5)), {"max_rounds": 9}) is None
    events = chain(*start, *open_ones, critique(3, 0.5), critique(1, 0.2), critique(2, 0.1, accepted=True))
    assert [(draft.round, draft.score) for draft in attempts(events)] == [(0, None), (1, 0.2), (2, 0.1), (3, 0.5)]
    assert (best_draft(events).text, decide(events, {"max_rounds": 9})) == ("c", "accepted")  # type: ignore[union-attr]
    after = chain(*events, {"kind": "verdict", "round": 3}, revision(4, "e"), critique(4, 0.1))
    assert decide(after, {"max_rounds": 9}) is None  # what was accepted before the last verdict did not end the run


def test_an_unreadable_opinion_accepts_nothing() -> None:
    """One critic of two who can't be read leaves the draft unaccepted."""
    events = chain(TASK, draft("a"), critique(0, 1.0, accepted=True), critique(0, accepted=None))
    assert attempts(events)[0].accepted is False


def test_verifiers_make_the_score_where_there_are_any() -> None:
    """A program's score is not diluted by an opinion."""
    events = chain(TASK, draft("a"), critique(0, 0.5, verifier=True), critique(0, 1.0))
    assert [(draft.round, draft.score) for draft in attempts(events)] == [(0, 0.5)]


def test_folds_start_at_the_last_task() -> None:
    """A second task on a thread knows nothing of the first one's drafts, rounds and tokens."""
    used = {**NO_USAGE, "total_tokens": 9, "calls": 1}
    events = chain(TASK, draft("old", usage=used), critique(0, 1.0, accepted=True), revision(1, "old too"), TASK)
    assert (latest_draft(events), best_draft(events), rounds(events)) == (None, None, 0)
    assert usage_total(events)["calls"] == 0


def test_rejected_revisions_count_as_rounds_and_are_no_drafts() -> None:
    """What was not a draft costs a round and can't be the answer."""
    events = chain(TASK, draft("a"), critique(0), revision(1, "No changes needed.", rejected="meta"))
    assert (rounds(events), latest_draft(events).text) == (1, "a")  # type: ignore[union-attr]


def test_an_unknown_cost_stays_unknown() -> None:
    """A sum with one unknown price is unknown, not too small."""
    known: Any = {**NO_USAGE, "cost_usd": 0.5}
    unknown: Any = {**NO_USAGE, "cost_usd": None}
    assert add_usage([known, known])["cost_usd"] == 1.0
    assert add_usage([known, unknown, known])["cost_usd"] is None


def test_the_reducer_gives_the_same_record_in_whatever_batches() -> None:
    """Checkpoints may replay writes in larger batches than they were made in."""
    a, b, c = (chain(TASK), chain(draft("a")), chain(draft("b")))
    assert append_events(append_events([], [a]), [b, c]) == append_events([], [a, b, c])


def test_the_chain_of_hashes_finds_every_edit() -> None:
    """An untouched record has no broken links, whatever its text holds."""
    made = record({}, {"kind": "task", "round": 0, "by": "t", "text": "émoji 🌊 \x00 \ud800"})
    assert broken_links(made["events"], made["head"]) == []
    assert "\x00" not in made["events"][0]["text"]
    made["events"][0]["by"] = "someone else"
    assert broken_links(made["events"], made["head"]) == [0]


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([critique(0, accepted=True), {"kind": "failure"}], "failed"),
        ([critique(0, accepted=True), {**critique(0, accepted=True), "kind": "human", "stop": True}], "accepted"),
        ([{**critique(0), "kind": "human", "stop": True}], "human"),
        ([critique(0)], "token_budget"),
    ],
)
def test_reasons_outrank_each_other_in_the_stated_order(events: list[dict[str, Any]], reason: str) -> None:
    """With every budget spent and no rounds left, the first reason of the order is given."""
    used = {**NO_USAGE, "total_tokens": 9, "cost_usd": 9.0, "seconds": 9.0}
    limits = {"max_rounds": 0, "max_tokens": 1, "max_cost_usd": 1.0, "max_seconds": 1.0, "patience": None}
    assert decide(chain(TASK, draft("a", usage=used), *events), limits) == reason
    remaining = dict(limits)
    for key, expected in (
        ("max_tokens", "cost_budget"),
        ("max_cost_usd", "time_budget"),
        ("max_seconds", "max_rounds"),
    ):
        remaining[key] = None
        assert decide(chain(TASK, draft("a", usage=used), critique(0)), remaining) == expected
    assert list(STOP_REASONS) == [
        "failed", "accepted", "human", "token_budget", "cost_budget", "time_budget", "call_budget", "quota",
        "undecided", "no_progress", "max_rounds",
    ]  # fmt: skip
