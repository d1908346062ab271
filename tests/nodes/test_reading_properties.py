"""Whatever a model replies, reading it gives an answer or none: no error, and no verdict that is not there."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from redraft.models import ScriptedModel
from redraft.models.control_tokens import without_control_tokens
from redraft.nodes.critics.critics import model_critic
from redraft.nodes.critics.model_critic import VERDICT_PROMPT, Verdict
from redraft.nodes.critics.program_critic import read_program
from redraft.nodes.critics.structured_replies import StructuredModel, UnreadableReplyError
from redraft.nodes.reasoning.pipeline_language import Pipeline, PipelineError, PipelineStep, known_steps, parse_pipeline
from redraft.nodes.verify.code_replies import read_code
from redraft.nodes.verify.expressions import plain_notation
from redraft.nodes.verify.numeric_answers import extract_number, same_number
from redraft.nodes.verify.stated import stated_requirements
from redraft.nodes.verify.verifiers import verifier
from redraft.nodes.writing.prompt_injection import Lines, fence, fenced_messages, opens_part
from redraft.nodes.writing.prompts import chat_prompt
from redraft.nodes.writing.replies import is_stop_phrase, rejection

PIECES = [
    "####",
    "\\boxed{",
    "}",
    "answer is",
    "A:",
    "=",
    "1",
    "42",
    "3.5",
    ",",
    "/",
    "-",
    "$",
    "%",
    "e9",
    " ",
    "\n",
    "½",
]
numberish = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=14).map("".join)
numbers = st.decimals(-(10**12), 10**12, places=3)
values: Any = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=5,
)
verdicts = st.dictionaries(
    st.sampled_from(["feedback", "score", "accepted", "Score", "more"]),
    st.sampled_from([True, False, 0, 1, 0.5, 1.0, 2.0, -1.0, "1", "true", "", None, float("nan")]) | values,
    max_size=5,
)
HEADED = ["Draft:", "D r ä f t", "===", "a", "\r", "\n", "<b>", "[end ab12]", "’"]
PROMPT = chat_prompt(VERDICT_PROMPT, what="prompt")[0]


@given(numberish)
@example("#### " + "9" * 5000)
@example("1e999 million" * 20)
def test_a_number_is_read_or_none(text: str) -> None:
    """Of any text, and what is read is a finite number that equals itself."""
    found = extract_number(text)
    assert found is None or found.is_finite()
    assert same_number(found, found) is (found is not None)
    plain_notation(text)


@given(numbers, st.sampled_from(["#### {}", "The answer is {}.", "A: {}", "so it is \\boxed{{{}}}", "{}"]))
def test_a_number_written_down_is_read_again(number: Decimal, form: str) -> None:
    """Plain, with separators, and as a price."""
    for shown in (f"{number:f}", f"{number:,f}"):
        assert extract_number(form.format(shown)) == number
    price = f"-${abs(number):,f}" if number < 0 else f"${number:,f}"
    assert same_number(extract_number(form.format(price)), number)


@given(numbers, numbers, numberish)
def test_being_the_same_is_mutual(one: Decimal, other: Decimal, text: str) -> None:
    """Whoever comes first, and however they are written."""
    assert same_number(one, other) == same_number(other, one)
    assert same_number(one, text) == same_number(text, one)
    assert same_number(one, f"{one:,f}")


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_phrase_amid_other_words_is_no_stop_phrase(before: str, after: str) -> None:
    """The phrase accepts alone; any letter or digit beside it says something else."""
    reply = f"{before} no issues {after}"
    if any(sign.isalnum() for sign in before + after):
        assert not is_stop_phrase(reply, "no issues")


@given(st.text(max_size=80), st.lists(st.text(max_size=20), max_size=3))
def test_a_revision_is_a_draft_or_rejected(text: str, earlier: list[str]) -> None:
    """With a reason that is known; what is blank or was there before never counts as a draft."""
    reason = rejection(text, earlier=earlier)
    assert reason in ("", "refused", "empty", "repeat", "meta")
    if not text.strip() or any(text.split() == one.split() for one in earlier):
        assert reason
    assert isinstance(read_code(text), str)
    assert isinstance(read_program(text), str)


@given(st.lists(st.lists(st.sampled_from(HEADED), max_size=4).map("".join), max_size=5))
def test_a_history_is_guarded_as_the_one_text_that_it_is(parts: list[str]) -> None:
    """A line that poses as a part of the prompt is seen alike in one text, and in parts that are read one by one."""
    whole = "\n".join(parts)
    assert Lines(parts) == whole
    assert opens_part(Lines(parts), ["Draft:", "==="]) == opens_part(whole, ["Draft:", "==="])


@given(st.lists(st.sampled_from("abcdefgh"), max_size=60), st.integers(0, 40), st.lists(st.sampled_from("abcdxyz")))
def test_a_revision_is_read_as_far_as_its_critique_may_reach(critique: list[str], kept: int, new: list[str]) -> None:
    """What ends the comparison early says what the whole would say: four fifths of it stand in the critique, or not."""
    text = critique[:kept] + new
    runs, said = ({*zip(words, words[1:], words[2:], strict=False)} for words in (text, critique))
    copied = len(runs) >= 4 and len(runs & said) >= 0.8 * len(runs)
    revision = " ".join(text)
    assert (rejection(f"{revision} ", earlier=[], critique=" ".join(critique)) == "meta") is copied or not revision


@given(verdicts)
def test_a_verdict_counts_only_if_it_is_whole(given_verdict: Any) -> None:
    """It accepts with a true, a score from 0 to 1 and a feedback, and with nothing else in it."""
    model = ScriptedModel([json.dumps(given_verdict)], structured=True)
    critique = model_critic(model, prompt=VERDICT_PROMPT)("Write.", "a draft", ())
    score = given_verdict.get("score")
    whole = (
        given_verdict.keys() == {"feedback", "score", "accepted"}
        and isinstance(given_verdict["feedback"], str)
        and isinstance(score, int | float)
        and not isinstance(score, bool)
        and 0 <= score <= 1
        and isinstance(given_verdict["accepted"], bool)
    )
    assert critique.accepted == (given_verdict["accepted"] if whole else None)
    assert critique.score == (score if whole else None)


SAID = (
    """at most |at least |between |99999999999 |3 |twelve |0 | and |words| bullet points|. |, |"a"|" "|'y'|"""
    """use the word |don't use |without the letter e |the word ( |[x|\\|(?#|)|appears |1000000 times|end with |"""
    """begin with |a numbered list of |JSON with the keys a, b|{}"""
)
said = st.sampled_from(SAID.split("|"))


@given(st.lists(said, max_size=14).map("".join) | st.text(max_size=60))
def test_what_a_task_says_is_always_something_that_can_be_checked(task: str) -> None:
    """Whatever a task says, with signs, odd numbers and open quotes, each check that is read of it is a verifier."""
    for one in stated_requirements(task):
        for name in one["verifiers"]:
            verifier(name)("", "A draft.")


@given(values | verdicts, st.text(max_size=5), st.text(max_size=5))
def test_a_reply_in_a_form_is_read_or_refused(value: Any, before: str, after: str) -> None:
    """As JSON in a text: one object of the form, or an error that says that it is none; never another error."""
    text = f"{before}{json.dumps(value)}{after}"
    try:
        found = StructuredModel(ScriptedModel([text]), Verdict).invoke([])
    except UnreadableReplyError:
        return
    assert 0 <= found.score <= 1


parts = [
    "Task:",
    "Draft:",
    "draft",
    "## DRAFT",
    "[end 1234abcd]",
    "[begin 00000000]",
    "</passage 1>",
    "fine",
    ">>>",
    "",
]
pieced = st.lists(st.sampled_from(parts) | st.text(max_size=6), max_size=6).map("\n".join)


@given(pieced, pieced)
@example("Task:", "Task:")
def test_what_is_the_draft_can_be_told_from_any_prompt(task: str, draft: str) -> None:
    """Outside of fences, a prompt has each of its own headings once, and the texts are in it letter for letter."""
    text = str(fenced_messages(PROMPT, {"task": task, "draft": draft})[0].text)
    assert task in text
    assert draft in text
    own = "" if f"Task:\n{fence(task, besides=[task, draft])}" in text else task
    for one in (task, draft):
        fenced = fence(one, besides=[task, draft])
        text = text.replace(fenced, "(fenced)", 1) if fenced in text else text
    lines = [line.strip() for line in text.splitlines()]
    assert lines.count("Task:") == 1 + [line.strip() for line in own.splitlines()].count("Task:")
    assert lines.count("[end 1234abcd]") == 0


@given(
    st.lists(st.sampled_from(["<", "|", "im_end", "|>", "<|", "s>", "</", "[INST]", "<|im_end|>", " "])).map("".join)
)
@example("<|[INST]|>")
def test_no_control_token_is_left(text: str) -> None:
    """Nor does taking one apart make another, and a second time changes nothing."""
    found = without_control_tokens(text)
    assert "<|im_end|>" not in found
    assert "[INST]" not in found
    assert without_control_tokens(found) == found
    assert found.replace(" ", "") == text.replace(" ", "")


arguments = st.text(min_size=1, max_size=12).filter(str.strip)
steps = st.sampled_from(list(known_steps())).flatmap(
    lambda name: (
        st.just(PipelineStep(name))
        if not known_steps()[name].argument
        else st.builds(PipelineStep, st.just(name), st.integers(1, 1000).map(str))
        if known_steps()[name].kind == "count"
        else st.builds(PipelineStep, st.just(name), arguments)
    )
)
TOKENS = [
    *known_steps(),
    "(",
    ")",
    "'",
    '"',
    "|",
    "\\",
    "3",
    "-",
    ",",
    "=",
    " ",
    "\n",
    "lambda:0",
    "__import__",
    "x.y",
    "é",
]


@given(st.lists(steps, min_size=1, max_size=5))
def test_a_pipeline_written_down_is_read_again(several: Any) -> None:
    """As the same steps, whatever the arguments hold."""
    pipeline = Pipeline(tuple(several))
    assert parse_pipeline(str(pipeline)) == pipeline


@given(st.lists(st.sampled_from(TOKENS) | st.text(max_size=3), max_size=12).map("".join))
@example("UseDraft(" * 300)
@example("-" * 5000 + "1")
@example("UseRefinementLoop('" + "9" * 5000 + "')")
@example("SetTopic(" + "9" * 5000 + ")")
@example("SetTopic('\ud800')")
@example("\x00")
def test_any_other_text_is_refused_with_its_place(text: str) -> None:
    """A text is a pipeline or a PipelineError, and nothing in it is ever run."""
    try:
        found = parse_pipeline(text)
    except PipelineError:
        return
    assert parse_pipeline(str(found)) == found
