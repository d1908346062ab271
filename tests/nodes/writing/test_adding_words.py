"""The writer of missing words: rewriting, clauses, and what it tries when one of them repeats."""

from __future__ import annotations

from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.nodes.critics.critics import verifier_critic
from redraft.nodes.verify.text_verifiers import uses_words
from redraft.nodes.writing.adding_words import CLAUSE_PROMPT, WordAddingWriter
from redraft.state.threads.replay import replay_record

WORDS = ("river", "lamp", "boat", "rope")
START = "A river runs."


def run(*replies: str) -> tuple[dict, list[str]]:
    model = ScriptedModel([START, *replies])
    writer = WordAddingWriter(model, "Rewrite {draft}", clause_prompt=CLAUSE_PROMPT, few=3, at_once=2)
    graph = build_refine_graph(model, refine=writer, critics=[verifier_critic(uses_words(*WORDS))])
    output = graph.invoke({"task": "Use the words.", "limits": {"max_rounds": 9}})
    assert replay_record({**output, "head": ""}).output["stop_reason"] == output["stop_reason"]
    return output, ["clause" if "clause" in call[0].text else "rewriting" for call in model.calls[1:]]


def test_a_repeat_is_no_end_while_there_is_another_way() -> None:
    """A rewriting that repeats the draft is followed by a clause, and the words that were missing are found."""
    output, ways = run(START, "and a lamp lights the boat", "while a rope holds")
    assert (output["stop_reason"], ways) == ("accepted", ["rewriting", "clause", "clause"])
    assert output["answer"] == "A river runs, and a lamp lights the boat, while a rope holds."


def test_a_writer_that_repeats_in_every_way_is_ended() -> None:
    """The run stops as `no_progress` once rewriting and clauses have both repeated, and not before."""
    output, ways = run(START, "No changes needed.", START, START)
    assert [event["rejected"] for event in output["events"] if event["kind"] == "revision"][:1] == ["repeat"]
    assert (output["stop_reason"], output["answer"]) == ("no_progress", START)
    assert ways[:2] == ["rewriting", "clause"]
    assert "repeat" in {event["rejected"] for event in output["events"] if event.get("way") == "clause"}
