"""The pipe language: what it reads, and how it points at what it can't."""

from __future__ import annotations

import warnings

import pytest
from redraft.nodes.reasoning.pipeline_language import (
    Pipeline,
    PipelineError,
    PipelineStep,
    SetQuery,
    SetTopic,
    UseCritique,
    UseDir,
    UseDraft,
    UseFinal,
    UseImprove,
    UseRefinementLoop,
    UseSelfCritique,
    parse_pipeline,
    step_help,
)


@pytest.mark.parametrize(
    ("text", "composed"),
    [
        ("SetTopic('Microservices') | UseRefinementLoop('3')", SetTopic("Microservices") | UseRefinementLoop(3)),
        ("SetTopic('a')|UseDraft|UseCritique|UseImprove", SetTopic("a") | UseDraft | UseCritique | UseImprove),
        (
            'SetTopic("it\'s") | SetQuery("q") | UseDir("docs") | UseFinal | UseSelfCritique',
            SetTopic("it's") | SetQuery("q") | UseDir("docs") | UseFinal | UseSelfCritique,
        ),
        (" SetTopic('a | b') \n | UseDraft() ", SetTopic("a | b") | UseDraft),
        ("SetTopic('Ü 漢') | (UseDraft | UseCritique)", (SetTopic("Ü 漢") | UseDraft) | UseCritique),
    ],
)
def test_the_text_and_python_say_the_same(text: str, composed: Pipeline) -> None:
    """A pipeline is the same written as a text or composed in Python, and prints as a text that reads back."""
    assert parse_pipeline(text) == composed == Pipeline.of(composed)
    assert parse_pipeline(str(composed)) == composed


@pytest.mark.parametrize(
    ("text", "says", "pointed_at"),
    [
        ("SetTopic('Mü') | UseDarft", "there is no step 'UseDarft'; did you mean UseDraft?", "UseDarft"),
        ("SetTopic('a') | UseRefinementLoop('x')", "a number of iterations from 1 to 1000", "UseRefinementLoop('x')"),
        ("SetTopic('a') | UseRefinementLoop('0')", "a number of iterations from 1 to 1000", "UseRefinementLoop('0')"),
        ("UseSelfCritique(2000)", "a number of iterations", "UseSelfCritique(2000)"),
        ("SetTopic | UseDraft", "SetTopic needs its topic", "SetTopic"),
        ("SetTopic('  ')", "the topic of SetTopic is blank", "SetTopic('  ')"),
        ("UseDraft('1')", "takes no argument", "UseDraft('1')"),
        ("SetTopic('a', 'b')", "takes one argument, the topic", "SetTopic('a', 'b')"),
        ("SetTopic(topic='a')", "is given by name", "'a'"),
        ("SetTopic(True)", "is no argument", "True"),
        ("SetTopic(f'{a}')", "is no argument", "f'{a}'"),
        ("UseDraft | 'x'", "is no step", "'x'"),
        ("UseDraft + UseCritique", "is no step", "UseDraft + UseCritique"),
        ("__import__('os').system('true')", "is no step", "__import__('os').system"),
        ("UseDraft | (lambda: 1)()", "is no step", "lambda: 1"),
    ],
)
def test_what_is_wrong_is_pointed_at_with_a_caret(text: str, says: str, pointed_at: str) -> None:
    """The message says what is wrong, and carets stand under the very words."""
    with pytest.raises(PipelineError) as raised:
        parse_pipeline(text)
    first, line, carets, *_ = str(raised.value).splitlines()
    assert says in first
    assert "".join(char for char, mark in zip(line, carets, strict=False) if mark == "^") == pointed_at


@pytest.mark.parametrize(
    "text", ["UseDraft(", "UseDraft || UseCritique", "UseDraft |", "| UseDraft", "Use Draft", "a = 1"]
)
def test_what_is_no_pipeline_at_all_is_shown_with_its_place(text: str) -> None:
    """A text that can't be read at all shows where reading stopped."""
    with pytest.raises(PipelineError, match=r"(?s)can't be read: .*\^"):
        parse_pipeline(text)


@pytest.mark.parametrize("text", ["(" * 5000 + "UseDraft" + ")" * 5000, "UseDraft |" * 9000, "", " \n ", "\0"])
def test_hostile_texts_are_refused_like_any_other(text: str) -> None:
    """A text that is nested, long, empty or binary is a wrong pipeline, and never a crash."""
    with pytest.raises(PipelineError):
        parse_pipeline(text)


def test_a_long_chain_is_read() -> None:
    """A thousand steps are no deeper than one."""
    assert len(parse_pipeline("|".join(["UseDraft"] * 1000)).steps) == 1000


def test_an_unknown_step_lists_the_known_ones() -> None:
    """Whoever mistypes a step sees all there are, each with what it does."""
    with pytest.raises(PipelineError) as raised:
        parse_pipeline("Nothing")
    assert step_help() in str(raised.value)
    assert all(name in step_help() for name in ("SetTopic('topic')", "UseFinal", "UseSelfCritique('1')"))


def test_an_odd_escape_in_a_text_is_the_users_own() -> None:
    r"""A Windows path such as 'C:\docs' is read without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parse_pipeline(r"UseDir('C:\docs')").steps[0].value == r"C:\docs"


def test_a_check_of_ones_own_is_pointed_at_too() -> None:
    """What only the caller can know, such as a missing folder, is shown at its place as well."""

    def check(step: PipelineStep) -> None:
        if step.name == "UseDir":
            raise PipelineError("there is no such folder")

    with pytest.raises(PipelineError, match=r"there is no such folder\n  UseDraft \| UseDir\('x'\)\n {13}\^{11}"):
        parse_pipeline("UseDraft | UseDir('x')", check=check)


@pytest.mark.parametrize(
    "wrong",
    [lambda: SetTopic("a", "b"), lambda: UseDraft(1), lambda: PipelineStep("No"), lambda: SetTopic(1.5)],  # type: ignore[arg-type]
)
def test_python_steps_are_checked_as_they_are_made(wrong: object) -> None:
    """A step called with what it does not take is refused where it is written."""
    with pytest.raises(PipelineError):
        wrong()  # type: ignore[operator]


def test_only_steps_and_pipelines_are_taken() -> None:
    """Something else between the bars, or in place of a pipeline, is a TypeError as anywhere in Python."""
    with pytest.raises(TypeError):
        _ = UseDraft | "UseCritique"  # type: ignore[operator]
    with pytest.raises(TypeError, match="steps with"):
        Pipeline.of("UseDraft")  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="SetTopic needs its topic"):
        Pipeline.of(SetTopic | UseDraft)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"UseRefinementLoop(0x{'f' * 5000})", "far too large"),
        (f"UseDraft(0x{'f' * 5000})", "far too large"),
        ("UseRefinementLoop(-1)", "from 1 to 1000, not '-1'"),
        ("SetTopic('a') | ", r"missing after this \|\n  SetTopic\('a'\) \|\n {16}\^$"),
    ],
)
def test_odd_numbers_and_a_bar_at_the_end_are_pointed_at(text: str, says: str) -> None:
    """No error of Python's own escapes, and the carets stand under what is meant."""
    with pytest.raises(PipelineError, match=says):
        parse_pipeline(text)


def test_what_is_no_text_is_refused() -> None:
    """By its value."""
    with pytest.raises(TypeError, match="not None"):
        parse_pipeline(None)  # type: ignore[arg-type]
