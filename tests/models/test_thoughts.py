"""Thoughts at the head of a reply, in the forms that models give them."""

from __future__ import annotations

import pytest
from redraft.models.thoughts import without_thought

FORMS = (
    "<think>\n{}\n</think>\n\n",
    "<Thinking>{}</thinking>",
    "<thought>{}</thought>\n",
    "<reasoning>{}</reasoning>",
    "<seed:think>{}</seed:think>",
    "[THINK]{}[/THINK]",
    "◁think▷{}◁/think▷",
    "<|begin_of_thought|>{}<|end_of_thought|>\n\n<|begin_of_solution|>",
    "<|START_THINKING|>{}<|END_THINKING|><|START_RESPONSE|>",
    "<|channel>thought\n{}<channel|>",
    "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>",
    "analysis{}assistantfinal",
    "Here's my thought process:\n{}\nHere is my response:\n",
    "Here are my reasoning steps:\n{}\n[BEGIN FINAL RESPONSE]\n",
    "{}\n</think>\n\n",
    "  \n<think></think>\n<think>{}</think> ",
)
THOUGHT = "The user wants `<b>`.\n```python\nreturn 12\n```\n#### 12. No issues."


@pytest.mark.parametrize("form", FORMS)
def test_a_thought_that_leads_a_reply_is_left_out_in_each_form_that_models_give_it(form: str) -> None:
    """What follows is the reply, with the indent of its first line; cut off inside, or alone, nothing is."""
    thought = form.format(THOUGHT)
    for answer in ("The result is 15.", "return 1\n\nand </think> stays", "```\n<think>a</think>\n```"):
        assert without_thought(thought + answer) == answer
    assert without_thought(thought) == ""
    if thought.endswith("\n"):
        assert without_thought(f"{thought}    return x") == "    return x"
    opening = form.partition("{}")[0]
    if opening.lstrip().startswith(("<", "[", "◁")):
        assert without_thought(opening + THOUGHT) == ""


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("<|channel|>final<|message|>42<|return|>", "42"),
        ("<|begin_of_thought|>a<|end_of_thought|><|begin_of_solution|>42\n<|end_of_solution|>", "42"),
        ("They ask about `<think>` and end on `</think>`.\n</think>\n42", "42"),
    ],
)
def test_the_frame_of_an_answer_is_left_out_too(reply: str, answer: str) -> None:
    """Tokens of a chat template around the answer are no part of it."""
    assert without_thought(reply) == answer


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 7 \n",
        "Models wrap what they think in <think> and </think> tags.",
        "Close it with `</think>`.",
        'The tag "</think>" ends it.',
        "```xml\n<think>\n  a\n</think>\n```",
        "~~~\na</think>\n~~~\nThis fragment lacks its opening tag.",
        '{"feedback": "the draft lacks <b> before </think>", "accepted": false}',
        "def strip(reply):\n    return reply.split('</think>')[1]",
        "<thinker>a</thinker>",
        "[Think] A stage direction.",
        "Analysis of the poem",
        "Here is my thought process: 3 * 4 = 12\n#### 12",
    ],
)
def test_an_answer_that_only_speaks_of_such_tags_stays_as_it_is(text: str) -> None:
    """A task about HTML, or about reasoning models, keeps its answer to the letter."""
    assert without_thought(text) == text
