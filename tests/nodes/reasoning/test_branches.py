"""Branches: immutable lines of work over one record."""

from __future__ import annotations

from functools import partial

import pytest
from redraft.nodes.reasoning.branches import Branch, Draft, Final, ReasoningCritique, SelfCritique, self_critique
from redraft.state.events import record


def worked(*kinds: tuple[str, str], topic: str = "Tests", **more: object) -> Branch:
    """A branch on which these events happened."""
    branch = Branch("main").with_topic(topic)
    for number, (kind, text) in enumerate(kinds):
        event = {"kind": kind, "round": number, "by": "someone", "text": text, **more}
        branch = branch.extended(record({"head": branch.head}, event)["events"])
    return branch


def test_reasoning_events_are_the_texts_and_what_was_said_about_them() -> None:
    """A reader gets drafts, critiques and finals in order; verdicts and retrievals are left out."""
    branch = worked(
        ("retrieval", "q"), ("draft", "a"), ("critique", "b"), ("verdict", "v"), ("revision", "c"), ("human", "d")
    )
    assert branch.reasoning_events() == [Draft("a"), ReasoningCritique("b"), Final("c"), ReasoningCritique("d")]
    assert [event.kind for event in branch.reasoning_events()] == ["draft", "critique", "final", "critique"]


def test_a_revision_that_is_no_draft_is_no_final() -> None:
    """What is rejected is in the record, and shows up neither as a draft nor as an improved text."""
    drafted = worked(("draft", "a"))
    assert drafted.reasoning_events() == [Draft("a")]
    refused = {"kind": "revision", "round": 1, "by": "someone", "text": "I can't.", "rejected": "refused"}
    assert drafted.extended(record({"head": drafted.head}, refused)["events"]).reasoning_events() == [Draft("a")]
    assert worked(("draft", "I can't."), rejected="refused").reasoning_events() == []


def test_a_new_topic_begins_anew_and_the_old_record_stays() -> None:
    """The branch is about the new topic only, while nothing of the earlier work is lost."""
    old = worked(("draft", "a"))
    new = old.with_topic("Rain")
    assert (new.topic, new.latest, new.reasoning_events()) == ("Rain", None, [])
    assert new.events[: len(old.events)] == old.events
    assert (old.topic, old.latest and old.latest.text) == ("Tests", "a")


def test_every_method_leaves_the_branch_as_it_was() -> None:
    """What is done with a branch gives another one; the one at hand never changes under its reader."""
    branch = worked(("draft", "a"))
    before = (branch.name, branch.events, branch.query, branch.documents, branch.tools)
    others = [branch.named("b"), branch.with_query("q"), branch.with_documents(list), branch.with_tools(len)]
    assert (branch.name, branch.events, branch.query, branch.documents, branch.tools) == before
    assert [other.events for other in others] == [branch.events] * 4


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: Branch(" "), "needs a name"),
        (lambda: Branch("main").with_topic(""), "topic is blank"),
        (lambda: Branch("main").with_topic("x", limits={"max_tokens": -1}), "max_tokens=-1"),
        (lambda: worked(("draft", "a")).extended(worked(("draft", "b")).events), "don't follow"),
        (lambda: self_critique(Branch("main").with_topic("x").events), "no draft"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: object, says: str) -> None:
    """A blank topic, a limit that can't hold, or events of another record are refused by name."""
    with pytest.raises(ValueError, match=says):
        wrong()  # type: ignore[operator]


def test_a_run_becomes_a_branch_unless_its_record_was_edited() -> None:
    """The output of a graph can be taken up as a branch; one that somebody edited is noticed."""
    branch = worked(("draft", "a"), ("critique", "b"))
    assert Branch.of_run("main", {"events": list(branch.events)}).events == branch.events
    edited = [dict(event) for event in branch.events]
    edited[1]["text"] = "forged"
    with pytest.raises(ValueError, match=r"events \[1\] of the record were edited"):
        Branch.of_run("main", {"events": edited})


@pytest.mark.parametrize(
    ("score", "rating"), [(0.9, "high"), (0.8, "high"), (0.5, "medium"), (0.2, "low"), (None, "unknown")]
)
def test_confidence_is_the_score_of_the_last_text(score: float | None, rating: str) -> None:
    """The confidence is what the critic gave the text that is shown, in a word that says unknown where it gave none."""
    branch = worked(("draft", "a"), ("critique", "b"), ("revision", "c"), ("critique", "d"), score=score)
    assert self_critique(branch.events) == SelfCritique("a", "b", "c", 1, score)
    assert self_critique(branch.events).rating == rating


def test_the_limits_in_force_are_the_branchs() -> None:
    """A run that was given more room hands that on, not what it began with."""
    branch = worked(("draft", "a"))
    verdict = {"kind": "verdict", "round": 0, "by": "check", "limits": {"max_tokens": 7}}
    branch = branch.extended(record({"head": branch.head}, verdict)["events"])
    assert branch.state()["limits"]["max_tokens"] == 7


def test_a_branch_can_be_a_key_and_notices_an_edited_event() -> None:
    """Equal branches have one hash; a record that someone changed in place is refused before anything is paid."""
    branch = worked(("draft", "a"), ("critique", "b"))
    assert {branch: 1}[branch.with_tools(len)] == 1
    output = {"events": [dict(event) for event in branch.events]}
    taken = Branch.of_run("main", output)
    output["events"][1]["text"] = "forged"
    assert taken.state()["events"][1]["text"] == "a"
    for index in (0, 2):
        edited = worked(("draft", "a"), ("critique", "b"))
        edited.events[index]["text"] = "forged"
        readers = (
            edited.state,
            edited.reasoning_events,
            partial(edited.extended, []),
            *(partial(getattr, edited, name) for name in ("topic", "latest", "best")),
        )
        for read in readers:
            with pytest.raises(ValueError, match=rf"events \[{index}\] of the branch 'main' were edited"):
                read()


def test_a_topic_is_a_text_and_drops_the_query_of_the_last() -> None:
    """A query belongs to the topic that it was set for; characters that no database holds are left out."""
    branch = worked(("draft", "a")).with_query("q\ud800")
    assert (branch.query, branch.with_topic("other\x00").query, branch.with_topic("other\x00").topic) == (
        "q?", "", "other",
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"a topic is a text.*None"):
        branch.with_topic(None)  # type: ignore[arg-type]
