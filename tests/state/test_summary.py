"""What is read off a record: the same, however the record grew."""

from __future__ import annotations

import copy
import json
import pickle
import random
from typing import Any

import pytest
from redraft.state.checked_channels import append_events
from redraft.state.events import Record, frozen, record
from redraft.state.limits import limits_in_force
from redraft.state.retrievals import latest_retrieval
from redraft.state.stopping import decide, since_verdict
from redraft.state.summary import (
    attempts,
    best_draft,
    latest_draft,
    oracle_touched,
    rounds,
    run_options,
    usage_total,
)
from redraft.state.usage import NO_USAGE

LIMITS = {"max_rounds": 3, "patience": 2, "max_tokens": 500}


def everything(events: Any) -> dict[str, Any]:
    return {
        "attempts": attempts(events),
        "best": best_draft(events),
        "last": best_draft(events, keep="last"),
        "latest": latest_draft(events),
        "rounds": rounds(events),
        "usage": usage_total(events),
        "scores": [(draft.round, draft.score) for draft in attempts(events)],
        "options": run_options(events),
        "oracle": oracle_touched(events),
        "limits": limits_in_force(events),
        "since": list(since_verdict(events)),
        "retrieval": latest_retrieval(events, since=2),
        "reason": decide(events, LIMITS),
    }


def an_event(chance: random.Random, number: int) -> dict[str, Any]:
    kind = chance.choice(
        ["task", "draft", *["revision"] * 4, *["critique"] * 6, *["verdict"] * 3, "human", "retrieval", "failure"]
    )
    event: dict[str, Any] = {
        "kind": kind,
        "round": number,
        "by": chance.choice("abc"),
        "text": f"text {chance.randrange(20)}",
        "usage": {**NO_USAGE, "total_tokens": chance.randrange(9), "cost_usd": chance.choice([0.1, 0.2, None])},
    }
    if kind in ("draft", "revision") and chance.random() < 0.2:
        event["rejected"] = chance.choice(["empty", "repeat"])
    if kind == "revision":
        event["base"] = chance.randrange(number + 1)
    if kind in ("critique", "human"):
        event |= {"accepted": chance.choice([True, False, None]), "score": chance.choice([None, 0.2, 0.5, 1.0])}
        if chance.random() < 0.2:
            event["verifier"] = True
        if chance.random() < 0.1:
            event["oracle"] = True
    if kind == "task" or (kind == "verdict" and chance.random() < 0.3):
        event["limits"] = {"max_rounds": chance.randrange(9)}
    if kind == "task":
        event["options"] = {"asks": chance.random() < 0.5, "order": chance.choice([1, 2])}
    return event


@pytest.mark.parametrize("seed", range(10))
def test_a_record_that_grew_reads_as_one_that_is_read_whole(seed: int) -> None:
    """After every step, and in any order of questions, each answer is that of a fresh look at the whole record."""
    chance = random.Random(seed)
    grown, head = append_events([], []), ""
    whole: list[Any] = []
    for number in range(30):
        update = record({"head": head}, *(an_event(chance, number) for _ in range(chance.randint(0, 3))))
        head = update.get("head", head)
        grown = append_events(grown, [update.get("events", [])])
        whole += update.get("events", [])
        if chance.random() < 0.4:
            fresh = json.loads(json.dumps(whole))
            assert everything(grown) == everything(fresh)
            assert everything(frozen(grown)) == everything(fresh)


def test_two_records_that_grew_out_of_one_do_not_mix() -> None:
    """A path that is read does not change what another one, from the same draft, is read as."""
    update = record({}, {"kind": "task", "round": 0, "by": "c"}, {"kind": "draft", "round": 0, "by": "m", "text": "a"})
    trunk = append_events([], [update["events"]])
    assert latest_draft(trunk) is not None
    paths = []
    for text in ("b", "c"):
        revision = {"kind": "revision", "round": 1, "by": "m", "text": text, "base": 0}
        paths.append(append_events(trunk, [record(update, revision)["events"]]))
    assert [[one.text for one in attempts(path)] for path in paths] == [["a", "b"], ["a", "c"]]
    assert [one.text for one in attempts(trunk)] == ["a"]


def test_a_record_that_somebody_changed_is_read_anew() -> None:
    """One who appends to the output of a run, cuts it or puts another event at its end sees that in what is read."""
    update = record({}, {"kind": "task", "round": 0, "by": "c"}, {"kind": "draft", "round": 0, "by": "m", "text": "a"})
    events = append_events([], [update["events"]])
    assert rounds(events) == 0
    events.append(record(update, {"kind": "revision", "round": 1, "by": "m", "text": "b", "base": 0})["events"][0])
    assert (rounds(events), latest_draft(events).text) == (1, "b")  # type: ignore[union-attr]
    events[-1] = {**events[-1], "text": "c"}
    assert latest_draft(events).text == "c"  # type: ignore[union-attr]
    del events[-1]
    assert (rounds(events), latest_draft(events).text) == (0, "a")  # type: ignore[union-attr]


@pytest.mark.parametrize("made", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_of_a_record_is_a_plain_list(made: Any) -> None:
    """What leaves the graph holds the events and nothing else; JSON has them as they are."""
    events = append_events([], [record({}, {"kind": "task", "round": 0, "by": "c"})["events"]])
    assert rounds(events) == 0
    assert isinstance(events, Record)
    assert type(made(events)) is list
    assert made(events) == events == json.loads(json.dumps(events))
    assert type(copy.deepcopy(frozen(events))) is tuple


def judged(number: int, text: str, **critique: Any) -> list[dict[str, Any]]:
    """A draft, and what one critic said of it."""
    kind = "revision" if number else "draft"
    said = {"kind": "critique", "round": number, "by": "c", "text": "", "accepted": False, "score": 0.5, **critique}
    return [{"kind": kind, "round": number, "by": "m", "text": text}, said]


def voted(*drafts: list[dict[str, Any]]) -> str:
    task = {"kind": "task", "round": 0, "by": "u", "text": "T", "options": {"order": 2, "keep": "vote"}}
    best = best_draft([task, *(event for draft in drafts for event in draft)], keep="vote")
    assert best
    return best.text


def test_where_nothing_is_accepted_drafts_and_programs_vote() -> None:
    """4 and 4.0 are one answer, 0 is one like any other, and of equal votes the earlier draft stays."""
    one, four, same = ({"evidence": {"answer": answer}} for answer in ("1", "4", "4.0"))
    program = {"evidence": {"answer": "0", "programs": [{"answer": "0"}, {"answer": None}]}}
    assert voted(judged(0, "one", **one), judged(1, "four", **four), judged(2, "same", **same)) == "four"
    assert voted(judged(0, "one", **one), judged(1, "zero", **program)) == "zero"
    assert voted(judged(0, "one", **one), judged(1, "four", **four)) == "one"
    assert voted(judged(0, "one", **one), judged(1, "four", **four | {"score": 0.6})) == "four"
    assert voted(judged(0, "none"), judged(1, "odd", evidence={"answer": "sNaN"})) == "odd"


def test_votes_save_no_rejected_draft_and_overrule_no_accepted_one() -> None:
    """A draft that a verifier rejected does not win by votes over one that stands, and acceptance goes before votes."""
    out = {"evidence": {"answer": "4"}, "verifier": True}
    assert voted(judged(0, "a", **out), judged(1, "b", **out), judged(2, "c", evidence={"answer": "1"})) == "c"
    yes = {"evidence": {"answer": "1"}, "accepted": True}
    assert voted(judged(0, "a", evidence={"answer": "4"}), judged(1, "b", evidence={"answer": "4.0"})) == "a"
    assert (
        voted(judged(0, "a", evidence={"answer": "4"}), judged(1, "b", evidence={"answer": "4"}), judged(2, "c", **yes))
        == "c"
    )
