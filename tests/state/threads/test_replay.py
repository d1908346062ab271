"""A record that was edited anywhere is noticed, and what differs is named."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.nodes import uses_words
from redraft.nodes.critics.critics import verifier_critic
from redraft.state import Thread
from redraft.state.threads.replay import replay_record


@pytest.fixture
def values() -> dict[str, Any]:
    """State of a finished run with a record of seven events."""
    graph = build_refine_graph(
        ScriptedModel(["a river", "a river, a lamp"]),
        critics=[verifier_critic(uses_words("river", "lamp"))],
        checkpointer=InMemorySaver(),
    )
    thread = Thread(graph, "1")
    graph.invoke({"task": "Write."}, thread.config)
    return copy.deepcopy(graph.get_state(thread.config).values)


@pytest.mark.parametrize("index", range(7))
def test_an_edited_text_is_named(values: dict[str, Any], index: int) -> None:
    """Whichever event's text is edited, the replay says which."""
    values["events"][index]["text"] += " (edited)"
    replay = replay_record(values)
    assert not replay.matches
    assert any(f"event {index} " in difference for difference in replay.differences)


def test_an_edited_answer_shows_both_texts(values: dict[str, Any]) -> None:
    """An edit of the answering draft shows what the run said and what the record says."""
    values["events"][4]["text"] = "a lie"
    assert "answer: the run says 'a river, a lamp', the record says 'a lie'" in replay_record(values).differences


def test_an_edited_score_is_named(values: dict[str, Any]) -> None:
    """A score that was raised afterwards shows in the score, and in its event."""
    values["events"][5]["score"] = 0.2
    differences = replay_record(values).differences
    assert "score: the run says 1.0, the record says 0.2" in differences
    assert any("event 5 (critique, round 1) was changed" in difference for difference in differences)


def test_an_edited_token_count_is_named(values: dict[str, Any]) -> None:
    """Tokens that were made to vanish show in the usage."""
    recorded = values["usage"]["total_tokens"]
    values["events"][1]["usage"]["total_tokens"] -= 1
    differences = replay_record(values).differences
    assert f"usage.total_tokens: the run says {recorded}, the record says {recorded - 1}" in differences


def test_an_edited_acceptance_is_named(values: dict[str, Any]) -> None:
    """An acceptance that was taken back changes the stop reason."""
    values["events"][5]["accepted"] = False
    assert any(difference.startswith("stop_reason:") for difference in replay_record(values).differences)


def test_a_removed_or_moved_event_is_noticed(values: dict[str, Any]) -> None:
    """The chain of hashes breaks where an event is missing."""
    removed = {**values, "events": values["events"][:2] + values["events"][3:]}
    assert any("event 1 " in difference for difference in replay_record(removed).differences)
    shortened = {**values, "events": values["events"][1:]}
    assert not replay_record(shortened).matches


def test_an_edited_result_is_noticed(values: dict[str, Any]) -> None:
    """The record also shows that the result was edited."""
    values["answer"] = "something else"
    assert any(difference.startswith("answer:") for difference in replay_record(values).differences)


def test_an_edited_task_is_noticed(values: dict[str, Any]) -> None:
    """The task in the state must be the one that the record says was run."""
    values["task"] = "something else"
    assert replay_record(values).differences == ("task: the run says 'something else', the record says 'Write.'",)


def test_limits_are_read_off_the_record(values: dict[str, Any]) -> None:
    """Limits of a run yet to come don't change what the last one came to."""
    values["limits"] = {"max_round": 5}
    assert replay_record(values).matches
