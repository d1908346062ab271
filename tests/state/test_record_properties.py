"""Whatever events, limits, critiques and scores there are, records grow at their end and folds stay within bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redraft.nodes.rubric.rubrics import Dimension, Judgement, Rubric, assess
from redraft.state.checked_channels import append_events
from redraft.state.critique import Critique
from redraft.state.events import broken_links, record
from redraft.state.limits import Limits, merged_limits
from redraft.state.stopping import STOP_REASONS, decide, spent_budget
from redraft.state.summary import (
    attempts,
    best_draft,
    current_run,
    latest_draft,
    open_drafts,
    rounds,
    usage_total,
)
from redraft.state.threads.diffs import diff_words
from redraft.state.usage import NO_USAGE, add_usage

texts = st.text(max_size=20)
anything: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
shares = st.floats(0, 1)
usages = st.fixed_dictionaries(
    {
        "input_tokens": st.integers(0, 99),
        "output_tokens": st.integers(0, 99),
        "total_tokens": st.integers(0, 199),
        "calls": st.integers(0, 3),
        "uncounted_calls": st.integers(0, 1),
        "cost_usd": st.none() | shares,
        "seconds": shares,
    },
    optional={"cache_read_tokens": st.integers(1, 99), "cache_write_tokens": st.integers(1, 99)},
)


@st.composite
def runs(draw: Any) -> list[dict[str, Any]]:
    """The news of a run as nodes write them: a task, a draft, what is said, and revisions."""
    news: list[dict[str, Any]] = [{"kind": "task", "round": 0, "by": "caller", "text": draw(texts)}]
    news[0]["options"] = {"order": 2} if draw(st.booleans()) else {}
    news.append({"kind": "draft", "round": 0, "by": "m", "text": draw(texts), "usage": draw(usages)})
    for number in range(draw(st.integers(0, 4)) + 1):
        if number:
            rejected = draw(st.sampled_from(["", "", "empty", "repeat"]))
            revised = {"kind": "revision", "round": number, "by": "m", "text": draw(texts), "rejected": rejected}
            news.append(revised | {"base": draw(st.integers(0, number - 1)), "usage": draw(usages)})
        for _ in range(draw(st.integers(0, 2))):
            said = {"accepted": draw(st.none() | st.booleans()), "score": draw(st.none() | shares)}
            kind = draw(st.sampled_from(["critique", "critique", "human"]))
            flags = {"verifier": True} if draw(st.booleans()) and kind == "critique" else {}
            news.append({"kind": kind, "round": number, "by": "c", "text": draw(texts), **said, **flags})
        news.append({"kind": "verdict", "round": number, "by": "check", "stop_reason": None})
    return news


def recorded(news: Any) -> tuple[list[Any], str]:
    state: dict[str, Any] = {}
    events: list[Any] = []
    for one in news:
        update = record(state, one)
        events = append_events(events, [update["events"]])
        state = update
    return events, state["head"]


@given(st.lists(runs(), min_size=1, max_size=2), st.integers(0, 4))
def test_a_record_is_the_same_in_whatever_portions_it_is_written(several: Any, cut: int) -> None:
    """One event at a time, or all at once: the same list with the same hashes, and older events stay as they were."""
    news = [{"at": "2026-01-01T00:00:00.000+00:00", **one} for run in several for one in run]
    events, head = recorded(news)
    assert record({}, *news) == {"events": events, "head": head}
    assert append_events(events[:cut], [events[cut : cut + 2], events[cut + 2 :]]) == events
    assert broken_links(events, head) == []


@given(runs(), st.data())
def test_a_changed_event_is_noticed(news: Any, data: Any) -> None:
    """One field of one event, or an event left out, or two that change places."""
    events, head = recorded(news)
    index = data.draw(st.integers(0, len(events) - 1))
    assert broken_links(
        [*events[:index], {**events[index], "text": events[index]["text"] + "!"}, *events[index + 1 :]], head
    )
    assert broken_links(events[:index] + events[index + 1 :], head)
    if index:
        swapped = [*events[: index - 1], events[index], events[index - 1], *events[index + 1 :]]
        assert broken_links(swapped, head)


@given(runs())
def test_folds_agree_with_one_another(news: Any) -> None:
    """The best draft is one of the drafts, none is better, and what the run cost is the sum of its events."""
    events, _ = recorded(news)
    found, best, latest = attempts(events), best_draft(events), latest_draft(events)
    assert best in found
    assert latest == found[-1] == best_draft(events, keep="last")
    assert all(one.score is None or 0 <= one.score <= 1 for one in found)
    if news[0]["options"]:
        assert best == max(found, key=lambda one: one.rank)
    elif all(one.judged for one in found):
        worth = [(one.accepted, -1.0 if one.score is None else one.score) for one in found]
        assert (best.accepted, -1.0 if best.score is None else best.score) == max(worth)  # type: ignore[union-attr]
    assert rounds(events) == sum(event["kind"] == "revision" for event in events)
    assert usage_total(events) == add_usage([event["usage"] for event in events])
    assert current_run([*events, *events]) == events


@given(st.lists(usages, max_size=5), st.integers(0, 5))
def test_usage_adds_up_in_any_order(several: Any, cut: int) -> None:
    """Tokens and calls exactly, an unknown price stays unknown, and nothing changes nothing."""
    whole = add_usage(several)
    parts = add_usage([add_usage(several[:cut]), add_usage(several[cut:]), NO_USAGE])
    for name in ("input_tokens", "output_tokens", "total_tokens", "calls", "uncounted_calls"):
        assert whole[name] == parts[name] == sum(one[name] for one in several)  # type: ignore[literal-required]
    for name in ("cache_read_tokens", "cache_write_tokens"):
        assert whole.get(name, 0) == parts.get(name, 0) == sum(one.get(name, 0) for one in several)
    assert (whole["cost_usd"] is None) == any(one["cost_usd"] is None for one in several)
    assert whole["seconds"] == pytest.approx(parts["seconds"])


@given(runs(), st.integers(0, 4), st.none() | st.integers(1, 300), st.none() | st.integers(1, 3), st.booleans())
def test_the_stop_logic_keeps_its_word(news: Any, most: int, tokens: Any, patience: Any, out_of_steps: bool) -> None:
    """It goes on only with rounds left, budget left and nothing accepted; and names a reason otherwise."""
    events, _ = recorded(news[:-1])
    limits = Limits(max_rounds=most, max_tokens=tokens, patience=patience)
    reason = decide(events, limits, out_of_steps=out_of_steps)
    assert reason is None or reason in STOP_REASONS
    assert (reason == "accepted") == any(one.accepted for one in open_drafts(events))
    if reason is None:
        assert rounds(events) < most
        assert spent_budget(events, limits) is None
        assert not out_of_steps


@given(st.dictionaries(st.sampled_from(list(Limits())) | texts, anything, max_size=4))
def test_limits_are_valid_or_refused(given_limits: Any) -> None:
    """Anything is either limits that make sense, and plain data, or a ValueError that says what is wrong."""
    try:
        found = Limits(**given_limits)
    except ValueError as error:
        told = str(error)
        assert told.startswith("limits: ")  # only what some examples raise
        return
    assert isinstance(found["max_rounds"], int)
    assert found["max_rounds"] >= 0
    assert all(value is None or value > 0 for name, value in found.items() if name != "max_rounds")
    assert Limits(**json.loads(json.dumps(found, allow_nan=False))) == found
    assert merged_limits(found, {}) == dict(found) == merged_limits(None, found)


@given(anything, anything)
def test_limits_over_limits_are_valid_or_refused(current: Any, changed: Any) -> None:
    """As above where something is put over limits, whatever it is."""
    try:
        found = merged_limits(current if isinstance(current, dict) else None, changed)
    except ValueError:
        return
    assert found == Limits(**found)


@given(anything, anything, anything, anything)
def test_a_critique_is_plain_data_or_refused(text: Any, accepted: Any, score: Any, evidence: Any) -> None:
    """A score is from 0 to 1, an acceptance a bool, and evidence fits a checkpoint; all else is a ValueError."""
    try:
        critique = Critique(text, accepted, score, evidence=evidence)
    except ValueError:
        return
    assert critique.accepted in (True, False, None)
    assert critique.score is None or 0.0 <= critique.score <= 1.0
    assert isinstance(critique.text, str)
    json.dumps(critique.evidence, allow_nan=False)


@given(
    st.dictionaries(
        st.sampled_from("abcd"),
        st.tuples(st.floats(1e-6, 1e6), st.booleans(), st.none() | shares, st.booleans()),
        min_size=1,
    ),
    shares,
)
def test_an_assessment_lies_between_its_scores(given_scores: Any, threshold: float) -> None:
    """The overall score is a mean; without a score, with a veto or a weak required dimension nothing is enough."""
    rubric = Rubric(
        dimensions=tuple(
            Dimension(name=name, weight=weight, required=required)
            for name, (weight, required, _, _) in given_scores.items()
        )
    )
    said = {name: Judgement(score=score, refused=refused) for name, (_, _, score, refused) in given_scores.items()}
    found = assess(rubric, said, threshold=threshold)
    known = [one.score for one in said.values() if one.score is not None]
    assert (found.overall_score is None) == (not known)
    if found.overall_score is not None:
        assert min(known) - 1e-9 <= found.overall_score <= max(known) + 1e-9
    assert found.proven_score is None or 0 <= found.proven_score <= 1
    if found.meets_threshold:
        assert len(known) == len(said)
        assert not any(one.refused for one in said.values())
        assert found.overall_score is not None
        assert found.overall_score >= threshold - 1e-8
    json.dumps(found.model_dump(), allow_nan=False)


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_diff_is_made_of_its_two_texts(before: str, after: str) -> None:
    """Without what was added it is the one, without what was removed the other, and of two equal ones all is same."""
    changes = diff_words(before, after).changes
    assert "".join(one.text for one in changes if one.kind != "added") == before
    assert "".join(one.text for one in changes if one.kind != "removed") == after
    assert all(one.kind == "same" for one in diff_words(before, before).changes)
