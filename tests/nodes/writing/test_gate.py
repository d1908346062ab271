"""The gate that every draft of a model passes: what a user no longer finds around a draft, or as one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from redraft import Thread, build_refine_graph, open_checkpointer, uses_words, verifier_critic
from redraft.graphs import build_adaptive_graph, build_agent_graph, build_branching_graph, build_writing_graph
from redraft.models import ScriptedModel
from redraft.nodes import has_length
from redraft.nodes.mending.edits import edited
from redraft.nodes.writing.gate import no_draft, opened

if TYPE_CHECKING:
    from collections.abc import Callable

REFUSAL = "I'm sorry, but I can't help with that."
TALK = "I'm ready to assist you. What's your task?"
SHORT = has_length(max_words=20)
TASK: Any = {"task": "Write a haiku about a lamp."}
DRESSED = "Sure! Here's a rewritten version:\n\nA lamp by the sea.\n\nLet me know if you'd like any changes!"


def _agent(model: Any, **more: Any) -> Any:
    return build_agent_graph(model=model, **more)


@pytest.mark.parametrize("reply", [REFUSAL, TALK])
def test_a_first_draft_that_is_none_is_asked_for_again_and_never_accepted(run: Any, reply: str) -> None:
    """A refusal that fits every check is in the record with the reason; the model is asked for the task once more."""
    model = ScriptedModel([reply, "A lamp by the sea."])
    output = run(build_refine_graph(model, verifiers=[SHORT]), TASK)
    assert (output["answer"], output["stop_reason"], output["rounds"]) == ("A lamp by the sea.", "accepted", 1)
    assert [(event["text"], event["rejected"]) for event in output["events"] if event.get("rejected")] == [
        (reply, "refused" if reply == REFUSAL else "meta")
    ]
    first, again = (call[-1].text for call in model.calls)
    assert first == again
    assert "base" not in next(event for event in output["events"] if event["kind"] == "revision")


@pytest.mark.parametrize("judged_by", ["verifier", "model"])
def test_where_nothing_but_refusals_come_they_are_shown_and_not_accepted(run: Any, judged_by: str) -> None:
    """What the model said last is the answer, no critic is asked, and the record replays."""
    model, judge = ScriptedModel([REFUSAL] * 3), ScriptedModel([])
    options: Any = {"verifiers": [SHORT]} if judged_by == "verifier" else {"critics": [judge]}
    with open_checkpointer("memory") as saver:
        graph = build_refine_graph(model, **options, checkpointer=saver)
        thread = Thread(graph, "one")
        output = run(graph, {**TASK, "limits": {"max_rounds": 2}}, thread.config)
        assert (output["answer"], output["stop_reason"], output["accepted_by"]) == (REFUSAL, "max_rounds", None)
        assert (len(model.calls), len(judge.calls), thread.replay().matches) == (3, 0, True)


def test_no_round_asks_once(run: Any) -> None:
    """Without rounds nothing is asked again."""
    model = ScriptedModel([REFUSAL])
    output = run(build_refine_graph(model, verifiers=[SHORT]), {**TASK, "limits": {"max_rounds": 0}})
    assert (output["answer"], output["stop_reason"], len(model.calls)) == (REFUSAL, "max_rounds", 1)


def test_what_stands_around_a_draft_is_stripped_and_kept_in_the_record(run: Any) -> None:
    """The first draft and a revision alike are judged, and given, without preamble and offer."""
    model = ScriptedModel([DRESSED, "Certainly! Here's the revised poem:\n\nA lamp by the river.", "no"])
    judged: list[str] = []

    def river(task: str, draft: str) -> Any:
        """It names the river."""
        judged.append(draft)
        return uses_words("river")(task, draft)

    output = run(build_refine_graph(model, critics=[verifier_critic(river)], refine_prompt="{draft} {feedback}"), TASK)
    assert output["answer"] == "A lamp by the river."
    assert judged == ["A lamp by the sea.", "A lamp by the river."]
    assert [event["stripped"] for event in output["events"] if "stripped" in event] == [
        {"before": "Sure! Here's a rewritten version:", "after": "Let me know if you'd like any changes!"},
        {"before": "Certainly! Here's the revised poem:"},
    ]


@pytest.mark.parametrize(
    "build",
    [build_adaptive_graph, build_writing_graph, build_branching_graph, _agent],
    ids=["adaptive", "writing", "branching", "agent"],
)
def test_presets_have_the_same_gate(build: Callable[..., Any]) -> None:
    """No preset accepts a refusal, and each asks again."""
    output = build(ScriptedModel([REFUSAL, *[DRESSED] * 9]), verifiers=[SHORT]).invoke(TASK)
    assert (output["answer"], output["stop_reason"]) == ("A lamp by the sea.", "accepted")


def test_a_ladder_mends_no_refusal() -> None:
    """A refusal on a rung is no draft either, also where leaving out a sentence of it would fit."""
    model = ScriptedModel(["word " * 9, "I'm sorry. I can't help with that.", "Two words."])
    output = build_refine_graph(model, verifiers=[has_length(max_words=3)]).invoke(TASK)
    assert (output["answer"], output["stop_reason"]) == ("Two words.", "accepted")


def test_the_callers_own_draft_is_taken_as_it_is(run: Any) -> None:
    """What a person gives to begin with is theirs, whatever it says."""
    output = run(build_refine_graph(ScriptedModel([]), verifiers=[SHORT]), {**TASK, "draft": REFUSAL})
    assert (output["answer"], output["stop_reason"]) == (REFUSAL, "accepted")


@pytest.mark.parametrize(
    "text",
    [
        "Sure as the tide the lamp returns,\nand nobody asks it why.",
        "Sure! Let's solve this step by step:\n\n1. 2 + 2 = 4",
        "I can't help you move on Saturday.",
        "I can't assist with the move on Saturday because I'm busy with work.",
        "I'm sorry, but I can't accept this job offer.",
        "Unfortunately, I can't write the report by Friday.",
        "Dear Anna,\n\nI have changed the plan.\n\nLet me know if you have any questions.",
        "Thank you for your order. Let me know if you need anything else.",
        "Here are the steps:\n1. Open the box.",
        "Here is the sun:\na lamp in the sky.",
        "The text is about bees and their work.",
        "The task is hard, but it can be done.",
        "I'm happy to help with the garden on Sunday.",
        "Please provide more details on the budget.",
        "As an assistant, I cannot approve the request on my own.",
        '{"note": "I can\'t help with that."}',
        "Here are the updated opening hours: Mon-Fri 9 to 5.",
        "Here is my updated address: 5 Main Street.",
        "What is your question? asked the oracle.",
        "What would you like to change about your current job?",
        "Please share the draft of your report before the meeting.",
        "I have revised the contract as requested and attached it.",
        "Dear Ann,\n\nThe tent is in the cellar.\n\nI hope this helps!",
        "Got it, thanks! See you at the gate.",
        "OK",
        "",
    ],
)
def test_what_may_be_a_draft_stays_one(text: str) -> None:
    """A letter may decline, and a poem may begin with Sure."""
    assert (opened(text), no_draft(text)) == ((text, {}), "")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("I’m sorry, but I can’t help with that.", "refused"),
        ("As an AI language model, I don't have access to the internet.", "refused"),
        ("I'm sorry, I can't assist with that request. If you have other questions, feel free to ask.", "refused"),
        ("Hello! How can I assist you today?", "meta"),
        ("Certainly! Please provide the draft you'd like me to improve.", "meta"),
        ("The text must have exactly three sentences.", "meta"),
        ("No preface, no comment.", "meta"),
        ("Got it.", "meta"),
        ("No changes needed.", "meta"),
        ("The draft is already perfect.", "meta"),
        ("The draft meets all requirements.", "meta"),
        ("Certainly! I'll rewrite it to be shorter.", "meta"),
        ("Sure, I can help with that! What should the note be about?", "meta"),
        ("I have revised the draft as requested.", "meta"),
        ("I can't write content that demeans people.", "refused"),
        ("Sure! Here's a rewritten version:", "meta"),
        ("Model call limits exceeded: run limit (1/1)", "notice"),
        ("'search' tool call limit reached: run limit exceeded (2/1 calls).", "notice"),
        ("Sorry, need more steps to process this request.", "notice"),
    ],
)
def test_what_is_no_draft_is_told(text: str, why: str) -> None:
    """Assistants decline, ask back, repeat what they were told, or stop, each in its own words."""
    assert no_draft(opened(text).text) == why


@pytest.mark.parametrize(
    "reply",
    [
        "Here's the revised text:\n\nThe lamp.",
        "**Revised version:**\n\nThe lamp.",
        "Of course! Here’s a friendlier version of it:\n\n---\n\nThe lamp.\n\n---\n\nWould you like me to shorten it?",
        "Sure thing! Here you go:\n\nThe lamp.",
        "Here is the corrected sentence: The lamp.",
        "I've rewritten the text to be friendlier:\n\nThe lamp.",
        "Absolutely! Here's your poem:\n\nThe lamp.\n\nI hope this helps! Let me know if you need anything else.",
        "The lamp.\n\nFeel free to adjust it to your needs!",
    ],
)
def test_preambles_and_offers_of_many_kinds_are_stripped(reply: str) -> None:
    """Only the draft is left, and what was around it is told."""
    text, stripped = opened(reply)
    assert text == "The lamp."
    assert stripped
    assert all(part in reply for part in stripped.values())


def test_an_edit_strips_what_only_a_check_can_tell() -> None:
    """Before a verifier any heading may go; without one it stays."""
    listed = "Three colours:\nred\nblue\ngreen"
    assert opened(listed).text == listed
    assert edited(listed, lambda text: (len(text.splitlines()) == 3, 0.0)) == "red\nblue\ngreen"


def test_it_holds_on_replies_labelled_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of true drafts of small models at least 99.5% pass as they are, and nine tenths of the rest are told."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    import draft_gate

    rows = draft_gate.replies()
    drafts = [draft_gate.told(row) for row in rows if row["label"] == "draft"]
    others = [draft_gate.told(row) for row in rows if row["label"] != "draft"]
    monkeypatch.delitem(sys.modules, "draft_gate")
    assert len(rows) >= 300
    assert sum(drafts) / len(drafts) >= 0.995
    assert sum(others) / len(others) >= 0.9


@pytest.mark.parametrize("before", ["**Draft:**", "Here's my attempt:", "Here you go:", "### Revised Version", ""])
def test_a_label_or_a_hope_alone_is_stripped(before: str) -> None:
    """A label over the draft goes, and a hope under it, also without the other."""
    reply = f"{before}\n\nA lamp by the sea." if before else "A lamp by the sea.\n\nI hope this helps!"
    stripped = {"before": before} if before else {"after": "I hope this helps!"}
    assert opened(reply) == ("A lamp by the sea.", stripped)
