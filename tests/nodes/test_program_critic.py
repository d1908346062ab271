"""The critic that writes a program of its own: what it accepts, and what it says otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from redraft.models import ScriptedModel
from redraft.nodes.program_critic import PROGRAM_PROMPTS, program_critic, read_program
from redraft.nodes.sandbox import Sandbox
from redraft.nodes.verifiers import arithmetic_holds
from redraft.state import Critique

TASK = "Ann has 2 bags of 3 nuts and eats one nut. How many are left?"
RIGHT, WRONG = "2 * 3 = 6, 6 - 1 = 5\n#### 5", "2 * 3 = 7\n#### 7"


def program(code: str) -> str:
    return f"Here it is.\n```python\n{code}\n```\nIt prints the answer."


def judge(sandbox: Sandbox, draft: str, reply: str, *, history: Any = (), **options: Any) -> Critique:
    return program_critic(ScriptedModel([reply]), sandbox, **options)(TASK, draft, history)


def test_agreement_accepts(sandbox: Sandbox) -> None:
    """A solution is accepted when a program written without seeing it prints the same number."""
    model = ScriptedModel([program("bags = 2\nprint(bags * 3 - 1)")])
    verdict = program_critic(model, sandbox)(TASK, RIGHT, ())
    assert (verdict.accepted, verdict.score) == (True, 1.0)
    assert verdict.evidence == {"program": "bags = 2\nprint(bags * 3 - 1)", "answer": "5"}
    asked = "".join(message.text for message in model.calls[0])
    assert TASK in asked
    assert "#### 5" not in asked


def test_disagreement_shows_the_refiner_both(sandbox: Sandbox) -> None:
    """When prose and program differ, the refiner reads both answers, the program, and the sum that is wrong."""
    verdict = judge(sandbox, WRONG, program("print(2 * 3 - 1)"), steps=arithmetic_holds(required=False))
    assert verdict.accepted is False
    for said in ("says 7", "gives 5", "print(2 * 3 - 1)", "2 * 3 = 7"):
        assert said in verdict.text


TROUBLE = {
    "no program": ("I would rather not.", "the reply held no program"),
    "an error": (program("print(1 / 0)"), "ZeroDivisionError"),
    "an endless loop": (program("while True: pass"), "time limit"),
    "no number": (program("print('five')"), "it printed no number"),
    "a way out": (program("import os\nos.system('echo 5')"), ""),
}


@pytest.mark.parametrize("case", TROUBLE)
def test_without_a_computed_number_nothing_is_accepted(case: str) -> None:
    """A program that fails, hangs, prints words or tries to leave confirms nothing; the user reads why."""
    reply, said = TROUBLE[case]
    verdict = judge(Sandbox(timeout_s=0.5), RIGHT, reply)
    assert verdict.accepted is False
    assert said in verdict.text
    assert verdict.evidence
    assert verdict.evidence["answer"] is None


def test_a_solution_without_a_number_is_told_how_to_end(sandbox: Sandbox) -> None:
    """A draft that gives no number is rejected with the form that is wanted."""
    verdict = judge(sandbox, "I can't say.", program("print(5)"))
    assert verdict.accepted is False
    assert "'#### '" in verdict.text


def test_each_time_another_style_of_program_is_asked_for(sandbox: Sandbox) -> None:
    """A second program is asked for in another way and sampled, so that it can differ from the first."""
    earlier: Any = [
        {"kind": "task", "round": 0, "by": "user", "text": TASK},
        {"kind": "draft", "round": 0, "by": "m", "text": WRONG},
        {"kind": "critique", "round": 0, "by": "program", "text": "", "accepted": False, "score": 0.5,
         "evidence": {"program": "print(5)", "answer": "5"}},
        {"kind": "revision", "round": 1, "by": "m", "text": RIGHT, "base": 0, "rejected": None},
    ]  # fmt: skip
    model = ScriptedModel([program("print(8)")])
    verdict = program_critic(model, sandbox)(TASK, RIGHT, earlier)
    assert model.calls[0][0].text == PROGRAM_PROMPTS[1].format(task=TASK)
    assert verdict.accepted is False
    assert verdict.score == 0.5  # two of 7, 5, 5 and 8: where nothing is accepted, the majority's answer scores best


def test_programs_are_read_out_of_replies() -> None:
    """The last fenced block is the program; bare code is one too; prose is none."""
    assert read_program("```\na = 1\n```\nor better\n```py\nprint(2)\n```") == "print(2)"
    assert read_program("```python\nprint(3)") == "print(3)"
    assert read_program("x = 4\nprint(x)") == "x = 4\nprint(x)"
    assert read_program("The answer is 5.") == ""
