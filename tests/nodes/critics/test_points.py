"""A critique that can be used: few points, each about words of the draft, none twice."""

from __future__ import annotations

from typing import Any

import pytest
from redraft import build_refine_graph, model_critic
from redraft.models import ScriptedModel

TASK = "Describe a lantern."
DRAFT = 'The lantern is "small",\nand costs 29 euros.'


def point(quote: str, problem: str, better: str = "") -> dict[str, str]:
    return {"quote": quote, "problem": problem, "better": better}


def critique(*points: Any, accepted: bool = False) -> Any:
    feedback = points[0] if points and isinstance(points[0], str) else list(points)
    reply = {"structured": {"feedback": feedback, "score": 0.4, "accepted": accepted}}
    return model_critic(ScriptedModel([reply], structured=True), points=True)(TASK, DRAFT, ())


def test_the_writer_reads_three_points_at_most_and_none_twice() -> None:
    """Thirty points, most of them the same, become the worst three; what was left out is in the record."""
    several = [point("", f"Problem {number}.") for number in (1, 2, 1, 3, 2, 4)]
    told = critique(*several)
    assert told.text == "- Problem 1.\n- Problem 2.\n- Problem 3."
    assert told.evidence == {"left_out": ["Problem 4."]}
    assert told.accepted is False
    assert (
        critique(point("small", "Vague.", "big"), point("lantern", "vague", "Big.")).text
        == '"small": Vague. Better: big'
    )


@pytest.mark.parametrize(
    "quote",
    ["The lantern is small, and", "“the  LANTERN is ‘small’”", "`lantern`", "The lantern … 29 euros", "euros.)"],
)
def test_a_quote_is_found_whatever_its_marks(quote: str) -> None:
    """Case, white space, marks and an ellipsis do not keep a point from being about the draft."""
    assert "It is dull." in critique(point(quote, "It is dull.")).text


def test_a_point_about_other_words_is_left_out() -> None:
    """What the draft does not say can't be mended in it; what it lacks can."""
    told = critique(
        point("costs 39 euros", "The price is wrong.", "29 euros"),
        point("small", "It is vague.", "as big as a fist"),
        point("none", "Its light is not mentioned."),
    )
    assert told.text == '- "small": It is vague. Better: as big as a fist\n- Its light is not mentioned.'
    assert told.evidence == {"left_out": ['"costs 39 euros": The price is wrong. Better: 29 euros']}


def test_a_rejection_without_a_point_is_one_and_says_what_to_do() -> None:
    """A judge that quotes nothing real accepts nothing, and the writer is sent back to the task."""
    rejects = {"feedback": [point("a boat", "No boat was wanted.")], "score": 0.1, "accepted": False}
    judge = ScriptedModel([{"structured": rejects}, {"structured": {**rejects, "feedback": []}}], structured=True)
    writer = ScriptedModel([DRAFT, "A lantern of brass."])
    critics = [model_critic(judge, points=True)]
    output = build_refine_graph(writer, critics=critics, limits={"max_rounds": 1}).invoke({"task": TASK})
    critiques = [event for event in output["events"] if event["kind"] == "critique"]
    assert [event["accepted"] for event in critiques] == [False, False]
    assert output["stop_reason"] == "max_rounds"
    assert "no point of the critique is about words that stand in it" in writer.calls[1][0].text
    assert "boat" not in writer.calls[1][0].text


def test_an_acceptance_stays_one() -> None:
    """Points that are left out turn no verdict either way."""
    assert critique(point("a boat", "No boat was wanted."), accepted=True).accepted is True
    assert critique(accepted=True).text == ""


def test_a_judge_may_write_its_points_in_words() -> None:
    """Without structured output they are lines that begin with a label; a judge's own text stands as it is."""
    labelled = '**Quote:** "small"\n2. Problem: It is\n   vague.\nBetter: big\n\nQuote: a boat\nProblem: No boat.\n'
    model = ScriptedModel([labelled, "Say more.\nSay why it shines.\n\nSay why it shines.", "No issues."])
    critic = model_critic(model, points=True)
    assert critic(TASK, DRAFT, ()).text == '"small": It is vague. Better: big'
    assert critic(TASK, DRAFT, ()).text == "Say more.\nSay why it shines."
    assert critic(TASK, DRAFT, ()).accepted is True
    assert critique("Say more.").text == "Say more."


def test_without_points_a_critique_stays_as_it_is() -> None:
    """Nothing is left out of a critique that nobody asked points for, but what it says again and again."""
    said = 'Quote: "a boat"\nProblem: No boat was wanted.'
    model = ScriptedModel([said, "Say why. It costs 29.5 euros.\n" + "It has no name. " * 30])
    critic = model_critic(model)
    assert critic(TASK, DRAFT, ()).text == said
    assert critic(TASK, DRAFT, ()).text == "Say why. It costs 29.5 euros.\nIt has no name."
    assert model_critic(ScriptedModel(["Why? " * 9]), prompt="{draft}")(TASK, DRAFT, ()).text == "Why? " * 9


def test_a_prompt_of_ones_own_may_ask_for_points() -> None:
    """The replies are read alike, and the lines are the same as those of the default."""
    critic = model_critic(ScriptedModel(["Quote: small\nProblem: Vague."]), prompt="{task} {draft}", points=True)
    assert critic(TASK, DRAFT, ()).text == '"small": Vague.'
