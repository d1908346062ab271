"""The reviser that adds a clause with missing words: when it does, what it asks, and what becomes of the reply."""

from __future__ import annotations

from typing import Any

import pytest
from redraft.graphs.writing import CLAUSE_PROMPT, build_writing_graph
from redraft.models import ScriptedModel
from redraft.nodes.writing.adding_words import WordAddingWriter

WORDS = ["lamp", "river", "goat", "drum", "kettle", "roof"]
TASK = {"task": "Write one sentence."}


def texts(output: Any) -> list[str]:
    return [event["text"] for event in output["events"] if event["kind"] in ("draft", "revision")]


def test_many_missing_words_are_added_as_a_clause(run: Any) -> None:
    """A draft that misses more than three words is kept as it is, and a clause with them is put to its end."""
    model = ScriptedModel(["A lamp by the river.", '"and a goat, a drum, a kettle on the roof."'])
    output = run(build_writing_graph(model, words=WORDS), TASK)
    assert output["answer"] == "A lamp by the river, and a goat, a drum, a kettle on the roof."
    assert output["stop_reason"] == "accepted"
    assert model.calls[1][0].text == CLAUSE_PROMPT.format(words="goat, drum, kettle, roof")


def test_a_few_missing_words_are_rewritten_first_and_added_next(run: Any) -> None:
    """One missing word is left to rewriting; when that brought nothing better, it is added to the best draft."""
    start = "A lamp, a goat, a drum and a kettle on the roof."
    model = ScriptedModel([start, "A lamp and a goat.", "by the river"])
    output = run(build_writing_graph(model, words=WORDS), TASK)
    assert "Current text:\n" + start in model.calls[1][0].text
    assert model.calls[2][0].text == CLAUSE_PROMPT.format(words="river")
    assert output["answer"] == "A lamp, a goat, a drum and a kettle on the roof, by the river."


def test_five_words_are_asked_for_at_once(run: Any) -> None:
    """A clause is asked to use five words, and the rest waits for the next round."""
    words = [f"w{number}" for number in range(12)]
    model = ScriptedModel(["Nothing yet.", "And " + " ".join(words[:5]), "w5 w6 w7 w8 w9", "w10 w11"])
    output = run(build_writing_graph(model, words=words), TASK)
    asked = [call[0].text.partition("stands: ")[2].partition("\n")[0] for call in model.calls[1:]]
    assert asked == [", ".join(words[:5]), ", ".join(words[5:10]), "w10, w11"]
    assert output["answer"] == "Nothing yet, and w0 w1 w2 w3 w4, w5 w6 w7 w8 w9, w10 w11."


@pytest.mark.parametrize("reply", ["I'm sorry, but I can't help with that.", "  ", "...", "“”", "No changes needed."])
def test_what_is_no_clause_is_a_rejected_revision(run: Any, reply: str) -> None:
    """A refusal, nothing at all or talk about the task is never put to the end of a text."""
    model = ScriptedModel(["A lamp.", reply])
    output = run(build_writing_graph(model, words=WORDS, limits={"max_rounds": 1}), TASK)
    assert (output["answer"], texts(output)[0]) == ("A lamp.", "A lamp.")
    assert texts(output)[1] in (reply, "")
    assert [event["rejected"] for event in output["events"] if event["kind"] == "revision"] != [""]


def test_a_reply_that_begins_with_the_draft_is_a_whole_text(run: Any) -> None:
    """A model that repeats the draft before its clause does not double it, and no mark stands before a comma."""
    whole = "A lamp! And a river, a goat, a drum, a kettle on the roof."
    output = run(build_writing_graph(ScriptedModel(["A lamp!", whole]), words=WORDS), TASK)
    assert (output["answer"], output["stop_reason"]) == (whole, "accepted")
    model = ScriptedModel(["A lamp!", "river goat drum kettle roof?"])
    assert run(build_writing_graph(model, words=WORDS), TASK)["answer"] == "A lamp, river goat drum kettle roof."


def test_beside_other_constraints_or_without_a_prompt_a_text_is_always_rewritten(run: Any) -> None:
    """A clause could break a pattern or a length, so it is for words alone; and a user can switch it off."""
    for options in ({"max_words": 9}, {"clause_prompt": None}):
        model = ScriptedModel(["A lamp.", "Lamp, river, goat, drum, kettle, roof."])
        output = run(build_writing_graph(model, words=WORDS, **options), TASK)
        assert output["answer"] == "Lamp, river, goat, drum, kettle, roof."


def test_what_makes_no_sense_is_refused_at_build() -> None:
    """A template with unknown variables or a clause of no words names the argument."""
    with pytest.raises(
        ValueError, match=r"clause_prompt uses unknown variables \['feedback'\]; known are words, draft"
    ):
        build_writing_graph(ScriptedModel([]), words=WORDS, clause_prompt="{feedback}")
    with pytest.raises(ValueError, match="at_once must be 1 or more, not 0"):
        WordAddingWriter(ScriptedModel([]), "{draft} {feedback}", clause_prompt="{words}", at_once=0)
