"""The critic that writes a program of its own: what it accepts, and what it says otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from redraft.models import ScriptedModel
from redraft.nodes.critics.program_critic import PROGRAM_PROMPTS, program_critic, read_program
from redraft.sandbox import Sandbox
from redraft.state import Critique

TASK = "Ann has 2 bags of 3 nuts and eats one nut. How many are left?"
RIGHT, WRONG = "2 * 3 = 6, 6 - 1 = 5\n#### 5", "2 * 3 = 7\n#### 7"


def program(code: str) -> str:
    return f"Here it is.\n```python\n{code}\n```\nIt prints the answer."


def judge(sandbox: Sandbox, draft: str, *replies: str, history: Any = (), **options: Any) -> tuple[Critique, int]:
    """Return the verdict, and how many programs were asked for."""
    model = ScriptedModel([program(reply) if "print" in reply else reply for reply in replies])
    verdict = program_critic(model, sandbox, **options)(TASK, draft, history)
    return verdict, len(model.calls)


def told(*texts: str, answers: tuple[str, ...]) -> Any:
    """Return the record of drafts, after the first of which programs gave these answers."""
    programs = [{"program": f"print({answer})", "answer": answer} for answer in answers]
    first, *later = texts
    return [
        {"kind": "task", "round": 0, "by": "user", "text": TASK},
        {"kind": "draft", "round": 0, "by": "m", "text": first},
        {"kind": "critique", "round": 0, "by": "program", "text": "", "accepted": False, "score": 0.5,
         "evidence": {"programs": programs}},
        *({"kind": "revision", "round": number, "by": "m", "text": text, "base": 0, "rejected": None}
          for number, text in enumerate(later, 1)),
    ]  # fmt: skip


def test_agreement_accepts(sandbox: Sandbox) -> None:
    """A solution is accepted when a program written without seeing it prints the same number."""
    model = ScriptedModel([program("bags = 2\nprint(bags * 3 - 1)")])
    verdict = program_critic(model, sandbox)(TASK, RIGHT, ())
    assert (verdict.accepted, verdict.score) == (True, 1.0)
    written = {"program": "bags = 2\nprint(bags * 3 - 1)", "answer": "5", "output": "5\n"}
    assert verdict.evidence == {"answer": "5", "programs": [written]}
    asked = "".join(message.text for message in model.calls[0])
    assert TASK in asked
    assert "#### 5" not in asked


def test_programs_against_a_solution_show_the_refiner_what_they_compute(sandbox: Sandbox) -> None:
    """Where programs agree with each other against the prose, the refiner reads theirs; a third one settles it."""
    verdict, asked = judge(sandbox, WRONG, "print(2 * 3 - 1)", "print(5)", "print(5)")
    assert (verdict.accepted, verdict.score, asked) == (False, 1 / 4, 3)
    for said in ("says 7", "3 programs", "give 5", "print(5)"):
        assert said in verdict.text
    assert verdict.evidence
    assert (verdict.evidence["answer"], verdict.evidence["outvoted"]) == ("7", "5")


def test_a_first_program_that_differs_is_outvoted(sandbox: Sandbox) -> None:
    """One wrong program does not reject a right solution: two others that agree with it accept it."""
    verdict, asked = judge(sandbox, RIGHT, "print(6)", "print(5)", "print(5)")
    assert (verdict.accepted, asked) == (True, 3)
    assert "2 of 3 programs" in verdict.text


def test_an_answer_is_accepted_only_where_it_leads_by_two(sandbox: Sandbox) -> None:
    """An answer that a program gave too is not accepted while drafts and programs have another one nearly as often."""
    verdict, asked = judge(sandbox, RIGHT, "print(6)", "print(8)", "print(5)")
    assert (verdict.accepted, asked, verdict.score) == (False, 3, 1 / 2)
    assert verdict.evidence
    assert "outvoted" not in verdict.evidence  # no other answer leads

    verdict, asked = judge(sandbox, WRONG, "print(5)", "print(8)", "print(5)")
    assert verdict.evidence
    assert (verdict.accepted, asked, verdict.evidence["outvoted"]) == (False, 3, "5")
    assert judge(sandbox, RIGHT, "print(6)", programs=1)[0].accepted is False


def test_a_fresh_sample_is_accepted_by_a_program_that_its_writer_never_saw(sandbox: Sandbox) -> None:
    """A sample that says 5 is a vote beside the programs that gave 5, where a revision could have copied it."""
    history = told(WRONG, RIGHT, answers=("5", "5"))
    assert judge(sandbox, RIGHT, history=history, programs=2)[0].accepted is False
    del history[-1]["base"]
    verdict, asked = judge(sandbox, RIGHT, history=history, programs=2)
    assert (verdict.accepted, asked) == (True, 0)


TROUBLE = {
    "no program": ("I would rather not.", "the reply held no program"),
    "an error": ("print(1 / 0)", "ZeroDivisionError"),
    "an endless loop": ("while True: pass\nprint()", "time limit"),
    "no number": ("print('five')", "it printed no number"),
    "a way out": ("import os\nos.system('print 5')", ""),
}


@pytest.mark.parametrize("case", TROUBLE)
def test_without_a_computed_number_nothing_is_accepted(case: str) -> None:
    """A program that fails, hangs, prints words or tries to leave confirms nothing; the user reads why."""
    reply, said = TROUBLE[case]
    verdict, _ = judge(Sandbox(timeout_s=0.5), RIGHT, reply, programs=1)
    assert verdict.accepted is False
    assert said in verdict.text
    assert verdict.evidence
    assert verdict.evidence["programs"][0]["answer"] is None


def test_a_program_that_fails_does_not_count_against_a_solution(sandbox: Sandbox) -> None:
    """After a program that printed nothing another one is asked for, and its agreement accepts."""
    verdict, asked = judge(sandbox, RIGHT, "print(1 / 0)", "print(5)")
    assert (verdict.accepted, asked) == (True, 2)


def test_a_solution_without_a_number_is_told_how_to_end(sandbox: Sandbox) -> None:
    """A draft that gives no number is rejected with the form that is wanted; what two programs say stands beside it."""
    verdict, asked = judge(sandbox, "I can't say.", "print(5)", "print(5)")
    assert (verdict.accepted, asked) == (False, 2)
    assert "'#### '" in verdict.text
    assert verdict.evidence
    assert verdict.evidence["outvoted"] == "5"


def test_a_revision_is_accepted_by_programs_that_agreed_before(sandbox: Sandbox) -> None:
    """Where three programs gave 5 and the revision says 5 too, nothing more is asked."""
    verdict, asked = judge(sandbox, RIGHT, history=told(WRONG, RIGHT, answers=("5", "5", "5")))
    assert (verdict.accepted, asked) == (True, 0)
    assert "3 of 3 programs" in verdict.text


def test_each_time_another_style_of_program_is_asked_for(sandbox: Sandbox) -> None:
    """The next program is asked for in another way, and without any agreement the majority's answer scores best."""
    model = ScriptedModel([program("print(8)")])
    history = told(WRONG, RIGHT, answers=("5",))
    verdict = program_critic(model, sandbox, programs=2)(TASK, RIGHT, history)
    assert (verdict.accepted, verdict.score) == (False, 1 / 3)  # of 7, 5 and 8
    assert [call[0].text for call in model.calls] == [PROGRAM_PROMPTS[1].format(task=TASK)]


def test_a_number_copied_from_the_only_program_accepts_nothing(sandbox: Sandbox) -> None:
    """A reviser who takes over what one program gave is not confirmed by that program: others must say so too."""
    history = told(WRONG, RIGHT, answers=("5",))
    assert judge(sandbox, RIGHT, programs=1, history=history)[0].accepted is False
    assert judge(sandbox, RIGHT, "print(5)", "print(5)", history=history)[0].accepted is True
    # A number that nobody gave before was not copied, and is a vote: one more program may be written, and confirms it.
    history = told("#### 7", "#### 5", answers=("6",))
    verdict, asked = judge(sandbox, "#### 5", "print(5)", "print(5)", programs=2, history=history)
    assert (verdict.accepted, asked) == (True, 2)


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "3"])
def test_no_programs_at_all_are_refused_at_build(sandbox: Sandbox, bad: Any) -> None:
    """A critic that may write no program could accept nothing, and is refused."""
    with pytest.raises(ValueError, match=f"programs must be a whole number from 1 up, not {bad!r}"):
        program_critic(ScriptedModel([]), sandbox, programs=bad)


WRONG_PARTS: list[tuple[dict[str, Any], str]] = [
    ({"model": None}, "model is a chat model, .* not None"),
    ({"sandbox": None}, "sandbox must be a Sandbox, not None"),
    ({"temperature": -1}, "temperature must be a number, 0 or more, not -1"),
    ({"temperature": float("nan")}, "temperature must be a number, 0 or more, not nan"),
    ({"temperature": "0.7"}, "temperature must be a number, 0 or more, not '0.7'"),
]


@pytest.mark.parametrize(("wrong", "says"), WRONG_PARTS, ids=[str(wrong) for wrong, _ in WRONG_PARTS])
def test_what_a_critic_can_not_be_made_of_is_refused_at_build(wrong: Any, says: str) -> None:
    """No run begins, and no draft is paid, with a judge that could only fail."""
    with pytest.raises((TypeError, ValueError), match=says):
        program_critic(**{"model": ScriptedModel([]), "sandbox": Sandbox(), **wrong})


def test_programs_are_read_out_of_replies() -> None:
    """The last fenced block is the program; bare code is one too; prose is none."""
    assert read_program("```\na = 1\n```\nor better\n```py\nprint(2)\n```") == "print(2)"
    assert read_program("```python\nprint(3)") == "print(3)"
    assert read_program("x = 4\nprint(x)") == "x = 4\nprint(x)"
    assert read_program("The answer is 5.") == ""
