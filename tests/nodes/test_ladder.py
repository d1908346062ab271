"""The ladder: how a draft that programs rejected is mended, rung by rung."""

from __future__ import annotations

from typing import Any

import pytest
from redraft import Critique, build_refine_graph, uses_words, verifier_critic
from redraft.models import ScriptedModel
from redraft.nodes import Arm, has_length
from redraft.nodes.critics.critics import model_critic
from redraft.nodes.refine import REFINE_PROMPT
from redraft.nodes.verify.text_verifiers import matches, wish

TASK = {"task": "Write about a river."}
SHORT = has_length(max_words=8)


def revisions(output: Any) -> list[Any]:
    return [event for event in output["events"] if event["kind"] == "revision"]


def asked(model: ScriptedModel) -> list[str]:
    return [str(call[0].text) for call in model.calls]


def test_a_draft_that_is_too_long_loses_a_sentence_and_costs_no_call(run: Any) -> None:
    """What a program can put right is put right for nothing, and the record says that it was an edit."""
    model = ScriptedModel(["A river is wide. It runs on and on to the sea. It shines."])
    output = run(build_refine_graph(model, verifiers=[SHORT]), TASK)
    assert (output["answer"], output["stop_reason"], len(model.calls)) == ("A river is wide. It shines.", "accepted", 1)
    (revision,) = revisions(output)
    assert (revision["refiner"], revision["by"], revision["usage"]["calls"]) == ("edit", "edit", 0)


def test_an_edit_of_white_space_alone_is_no_repeat(run: Any) -> None:
    """A text whose lines alone were wrong is put right, though word by word it is the draft before."""
    model = ScriptedModel(["A river runs, and shines."])
    output = run(build_refine_graph(model, verifiers=[matches(r"^[^\n]+\n[^\n]+$")]), TASK)
    assert (output["answer"], output["stop_reason"], len(model.calls)) == ("A river runs,\nand shines.", "accepted", 1)


def test_each_rung_is_another_way_to_ask(run: Any) -> None:
    """First what is lacking is added, then the draft is out of sight, then the task alone; each verdict says which."""
    model = ScriptedModel(["A lake.", "It is blue.", "A pond.", "A brook.", "A sea.", "A bay."])
    output = run(build_refine_graph(model, verifiers=[uses_words("river")]), {**TASK, "limits": {"max_rounds": 9}})
    assert [revision["refiner"] for revision in revisions(output)] == ["mend", "rewrite", "sample", "sample", "sample"]
    first, mend, rewrite, sample, *_ = asked(model)
    assert mend.startswith("Text:\nA lake.\n\nWrite one short sentence that could stand next in this text")
    assert revisions(output)[0]["text"] == "A lake. It is blue."
    assert "A lake." not in rewrite
    assert "- Use this word exactly as written: river." in rewrite
    assert sample == first
    assert output["stop_reason"] == "no_progress"
    why = "No way to go on is left: mend (1), rewrite (1), sample (3) brought nothing better."
    assert output["events"][-1]["text"] == why


def test_a_sentence_with_a_forbidden_word_is_rewritten_alone(run: Any) -> None:
    """The model sees that sentence and no other; the rest of the text stays letter for letter."""
    quiet = matches(r"(?s)^(?!.*[Ll]oud).*$")
    model = ScriptedModel(["A storm. It is Loud and long. It ends.", "Sure, here it is:\nIt roars and is long."])
    output = run(build_refine_graph(model, verifiers=[quiet, has_length(min_words=8)]), TASK)
    assert (output["answer"], output["stop_reason"]) == ("A storm. It roars and is long. It ends.", "accepted")
    first, anew = asked(model)
    assert '- It does not use "loud".' in first
    assert "It is Loud and long." in anew
    assert "A storm." not in anew
    assert revisions(output)[0]["refiner"] == "mend"


@pytest.mark.parametrize(
    ("pattern", "word"),
    [(r"(?i)^(?!.*\bice cream\b).*$", "ice cream"), ("^(?!.*very)", "very"), ("^(?!.*a|b)", ""), ("^- very$", "")],
)
def test_a_pattern_that_forbids_a_word_says_which(pattern: str, word: str) -> None:
    """Its wish is in words where it forbids one and nothing else."""
    assert wish(matches(pattern)).startswith(f'It does not use "{word}".') is bool(word)


def test_what_a_model_wrote_is_edited_where_all_verifiers_then_accept(run: Any) -> None:
    """A reply that is right but for a preface or a sentence too many counts, and its event says that it was edited."""
    model = ScriptedModel(["A lake.", "Sure, here it is, as short as wanted:\nA river runs by."])
    graph = build_refine_graph(model, verifiers=[uses_words("river"), SHORT], rungs=[Arm("rewrite", tries=1)])
    output = run(graph, TASK)
    assert output["answer"] == "A river runs by."
    assert revisions(output)[0]["edited"] is True


def test_writers_are_told_beforehand_what_is_wanted_unless_they_are_not_to_be(run: Any) -> None:
    """The first draft can be right the first time; with `tell_checks=False` the model is given the task alone."""
    for options, told in (({}, True), ({"tell_checks": False}, False)):
        model = ScriptedModel(["A river."])
        run(build_refine_graph(model, verifiers=[uses_words("river")], **options), TASK)
        assert ("must meet all of these:\n- It has the word" in asked(model)[0]) is told


def test_a_verifier_of_ones_own_has_a_wish(run: Any) -> None:
    """Its docstring's first line is told, or `wants=`; one that knows the gold answer tells nothing."""

    def rhymes(task: str, draft: str) -> Critique:
        """The last two lines rhyme.

        Not more than that.
        """
        return Critique("", accepted=True)

    for critic, told in (
        (verifier_critic(rhymes), "- The last two lines rhyme."),
        (verifier_critic(rhymes, wants="It rhymes."), "- It rhymes."),
        (verifier_critic(rhymes, oracle=True), ""),
        (verifier_critic(lambda task, draft: Critique("", accepted=True)), ""),
    ):
        model = ScriptedModel(["A river."])
        run(build_refine_graph(model, critics=[critic]), TASK)
        assert asked(model)[0] == f"{TASK['task']}" + (
            f"\n\nThe text must meet all of these:\n{told}\n\nReply with the text only: no preface, no comment."
            if told
            else ""
        )


def test_a_prompt_of_ones_own_stands_in_for_the_ladder(run: Any) -> None:
    """With `refine_prompt=` every revision is asked for with it, and nothing is edited."""
    model = ScriptedModel(["A river is wide. It runs on and on to the sea.", "A river."])
    output = run(build_refine_graph(model, verifiers=[SHORT], refine_prompt=REFINE_PROMPT), TASK)
    assert (output["answer"], "refiner" in revisions(output)[0]) == ("A river.", False)
    assert "words too long" in asked(model)[1]


def test_where_a_judge_objects_too_its_words_are_shown(run: Any) -> None:
    """A revision is then asked for with all that was said, the draft in sight."""
    judge = ScriptedModel(["Name the season.", "no issues"])
    model = ScriptedModel(["A river.", "A river in spring."])
    critics = [verifier_critic(SHORT), model_critic(judge, name="judge")]
    output = run(build_refine_graph(model, critics=critics, critics_after="always"), TASK)
    assert "Name the season." in asked(model)[1]
    assert output["answer"] == "A river in spring."


def test_a_verifier_that_breaks_ends_the_run_as_before(run: Any) -> None:
    """While edits are tried its error accepts nothing; asked about the draft, it ends the run with the best so far."""

    def fragile(task: str, draft: str) -> Critique:
        if draft != "A lake. It shines.":
            raise RuntimeError("no compiler")
        return Critique("Name a river.", accepted=False)

    model = ScriptedModel(["A lake. It shines.", "A river."])
    output = run(build_refine_graph(model, verifiers=[fragile]), TASK)
    assert output["stop_reason"] == "failed"


@pytest.mark.parametrize(
    ("pattern", "form"),
    [
        (r"^(- [^\n]+\n){2}- [^\n]+$", "- …\n- …\n- …"),
        (r"^1\. [^\n]+\n2\. [^\n]+$", "1. …\n2. …"),
        (r"(yes|no), \d{2}", "yes, …"),
    ],
)
def test_a_pattern_is_shown_as_an_example_of_its_form(pattern: str, form: str, run: Any) -> None:
    """A model reads lines and bullets more easily than a regular expression."""
    model = ScriptedModel(["x"])
    run(build_refine_graph(model, verifiers=[matches(pattern)], limits={"max_rounds": 0}), TASK)
    assert f"of this form, with words in place of each …:\n{form}" in asked(model)[0].replace("has this", "of this")


@pytest.mark.parametrize("pattern", [r"(?s)^(?!.*bitter|.*sour).*$", r"(a)\1", r".*", r"x{5000}"])
def test_a_pattern_that_no_example_can_show_is_told_as_it_is(pattern: str, run: Any) -> None:
    """What a pattern forbids, or refers back to, stays a regular expression."""
    model = ScriptedModel(["x"])
    run(build_refine_graph(model, verifiers=[matches(pattern)], limits={"max_rounds": 0}), TASK)
    assert f"It matches the regular expression {pattern}" in asked(model)[0]
