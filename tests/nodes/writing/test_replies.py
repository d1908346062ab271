"""Reading replies: what is a draft, what is the stop phrase, what is neither."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from redraft.nodes.writing.replies import is_stop_phrase, read_text, rejection


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't come to your wedding. Our train is cancelled.\nYours, Ann",
        "No changes needed? Tell that to the river, which moves its bed each spring.",
        "The answer is 42.\n#### 42",
        "None of the lamps were lit.",
        "There are no issues with the boat, said the captain, and it sank.",
        "Here is the revised sentence: a lamp lit the river.",
        "Correct. #### 7",
        "7",
        "I cannot write this letter without thinking of the lamp you left burning by the river, the summer we met, "
        "and the long boats that went down without a light.",
    ],
)
def test_a_draft_that_looks_like_talk_is_still_a_draft(text: str) -> None:
    """Only a reply that is nothing but talk or refusal is rejected."""
    assert rejection(text, earlier=["something else"]) == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("I cannot assist with that request.", "refused"),
        ("Sorry, I can’t help with this.", "refused"),
        ("I am unable to provide that.", "refused"),
        ("No further revisions are necessary.", "meta"),
        ("*The answer is correct as is.*", "meta"),
        ("Nothing to change.", "meta"),
        ("Here is the revised draft:", "meta"),
        ("It looks good!", "meta"),
        ("a river", "repeat"),
        ("A RIVER", ""),
    ],
)
def test_talk_refusals_and_repeats_are_no_drafts(text: str, reason: str) -> None:
    """Each is told apart, so that the record says what the model did."""
    assert rejection(text, earlier=["a  river\n"]) == reason


CRITIQUE = """1. The text claims that boats sail at night, which no passage says.
2. It should name the harbour. Better: Three lamps stand along the quay of Brest, and none of them is lit.
3. The sum 3 + 4 * 2 = 14 is wrong; the result is 11: "so she pays eleven dollars for all of the pencils"."""
DRAFT = "Boats sail at night along the coast, and the men on them sing of lamps and of home."


@pytest.mark.parametrize(
    ("text", "critique", "reason"),
    [
        (CRITIQUE, CRITIQUE, "meta"),
        (f"**{CRITIQUE.upper()}**", CRITIQUE, "meta"),
        ("The text claims that boats sail at night, which no passage says.", CRITIQUE, "meta"),
        ("The text claims that boats sail at night, which no passage says! Name it.", CRITIQUE, "meta"),
        ("This is a sample of how to make a critique of it.", "This is a sample of how to make a critique.", "meta"),
        ("Three lamps stand along the quay of Brest, and none of them is lit.", CRITIQUE, ""),
        ("So she pays eleven dollars for all of the pencils.", CRITIQUE, ""),
        ("The result is 11", CRITIQUE, ""),
        ("11", CRITIQUE, ""),
        ("42", "It is not 41 but 42", ""),
        (DRAFT.replace("at night", "by day"), f"It should read {DRAFT.replace('at night', 'by day')}", ""),
        ("```python\ndef add(a, b):\n    return a + b + 0 * a\n```",
         "Wrong sign. Use\n```\ndef add(a, b):\n    return a + b + 0 * a\n```", ""),
        ("Boats sail at night, as the passages say; the text names the harbour of Brest and its lamps.", CRITIQUE, ""),
    ],
)  # fmt: skip
def test_a_revision_that_copies_the_critique_is_talk_about_the_task(text: str, critique: str, reason: str) -> None:
    """Whole or nearly; what the critique quotes or proposes, a short answer and a mended draft are revisions."""
    found = rejection(text, earlier=[DRAFT], critique=critique, known=[DRAFT, "Write of boats."])
    assert found == reason


def test_a_refusal_that_the_provider_marks_is_one_whatever_it_says() -> None:
    """A marked refusal or a filtered reply is no draft."""
    assert (
        rejection("Lovely.", earlier=[], result=AIMessage("Lovely.", additional_kwargs={"refusal": "no"})) == "refused"
    )
    filtered = AIMessage("Lovely.", response_metadata={"finish_reason": "content_filter"})
    assert rejection("Lovely.", earlier=[], result=filtered) == "refused"


def test_text_is_read_from_what_chains_agents_and_graphs_return() -> None:
    """A string, a message, an agent's messages, or an answer."""
    assert read_text("a") == read_text(AIMessage("a")) == read_text({"answer": "a"}) == read_text({"draft": "a"}) == "a"
    assert read_text({"messages": [HumanMessage("q"), AIMessage("a"), HumanMessage("later")]}) == "a"
    assert read_text(AIMessage([{"type": "text", "text": "a"}])) == "a"
    with pytest.raises(TypeError, match=r"not dict with keys \['other'\]"):
        read_text({"other": 1})


@pytest.mark.parametrize("reply", ["✅ No issues.", "- No issues", "• **No issues** 👍", "No issues ✔️"])
def test_a_phrase_with_a_mark_or_list_sign_is_still_the_whole_reply(reply: str) -> None:
    """Signs that approve say nothing else; a cross, or a second line, does."""
    assert is_stop_phrase(reply, "no issues")
    assert not is_stop_phrase(reply.replace("✅", "❌") + "\n- the sum is wrong", "no issues")
    assert not is_stop_phrase(f"❌ {reply}", "no issues")


def test_an_empty_stop_phrase_never_matches() -> None:
    """Silence accepts nothing."""
    assert not is_stop_phrase("", "")
    assert not is_stop_phrase("...", "no issues")
