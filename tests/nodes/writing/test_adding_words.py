"""Texts with many words: clauses for those that are missing, and a text anew where a clause brings nothing."""

from __future__ import annotations

from typing import Any

from redraft import build_writing_graph
from redraft.models import ScriptedModel
from redraft.state.threads.replay import replay_record

WORDS = ["river", "lamp", "boat", "rope", "mill", "dog"]
START = "A river runs."


def run(*replies: str) -> tuple[dict[str, Any], list[str]]:
    """Return the output, and by which way each revision was asked for."""
    model = ScriptedModel([START, *replies])
    output = build_writing_graph(model, words=WORDS).invoke({"task": "Use the words.", "limits": {"max_rounds": 9}})
    assert replay_record({**output, "head": ""}).output["stop_reason"] == output["stop_reason"]
    return output, ["clause" if "clause" in call[0].text else "rewriting" for call in model.calls[1:]]


def test_clauses_that_repeat_are_followed_by_a_text_anew() -> None:
    """Two clauses that bring no word are followed by a text anew, and since that gains words, by another one."""
    whole = "A lamp by the river, with a boat, rope, mill and dog."
    output, ways = run("No changes needed.", START, "A lamp by the river.", whole)
    rejected = [event["rejected"] for event in output["events"] if event["kind"] == "revision"]
    assert (output["stop_reason"], ways) == ("accepted", ["clause", "clause", "rewriting", "rewriting"])
    assert rejected[1:] == ["repeat", "", ""]
    assert output["answer"] == whole


def test_a_writer_that_repeats_in_every_way_is_ended() -> None:
    """The run stops as `no_progress` once clauses and a rewriting have all been in vain, and not before."""
    output, ways = run(START, START, START)
    assert (output["stop_reason"], output["answer"]) == ("no_progress", START)
    assert ways == ["clause", "clause", "rewriting"]
