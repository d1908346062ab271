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


def test_an_empty_stop_phrase_never_matches() -> None:
    """Silence accepts nothing."""
    assert not is_stop_phrase("", "")
    assert not is_stop_phrase("...", "no issues")
