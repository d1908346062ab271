"""`math`: Self-Refine on word problems whose answer is a number, and the baselines it must beat.

A solution ends in `#### answer`. By default it is accepted when a program that the model writes without seeing it gives
the same number: a model that is asked about its own solution says yes nearly always.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from ..nodes.arithmetic import arithmetic_holds
from ..nodes.critics import model_critic
from ..nodes.numeric_answers import extract_number
from ..nodes.program_critic import program_critic
from ..nodes.sampling import MajorityWriter
from .loop import build_refine_graph

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.language_models import BaseChatModel

    from ..nodes.sandbox import Sandbox

__all__ = [
    "FEW_SHOT_PROMPT",
    "MATH_CRITIC_PROMPT",
    "MATH_GENERATE_PROMPT",
    "MATH_REFINE_PROMPT",
    "build_few_shot_graph",
    "build_majority_graph",
    "build_math_graph",
    "build_zero_shot_graph",
]

MathCritic = Literal["program", "self"]


def build_math_graph(
    model: BaseChatModel,
    *,
    critic: MathCritic | BaseChatModel = "program",
    critics: Sequence[Any] | None = None,
    sandbox: Sandbox | None = None,
    generate_prompt: str | None = None,
    **options: Any,
) -> Any:
    """Return the loop for word problems whose answer is a number.

    Args:
        model: Writes solutions and programs.
        critic: `"program"`: an independently written program must agree. `"self"`: the model judges itself and replies
            SOLUTION_IS_CORRECT or names the errors, as the published method does. A model: that one judges.
        critics: Your own critics in their place.
        sandbox: Runs the programs; default: `Sandbox()`.
        generate_prompt: Default: `MATH_GENERATE_PROMPT`.
        options: Everything else that `build_refine_graph` takes.

    Raises:
        ValueError: At build: `critic` is unknown, or as in `build_refine_graph`.
        SandboxUnavailableError: At build: `"program"` is asked for where nothing can run programs safely.
    """
    if critics is None:
        critics = _critics(model, critic, sandbox)
    return build_refine_graph(
        model,
        critics=critics,
        generate_prompt=generate_prompt or MATH_GENERATE_PROMPT,
        **{"refine_prompt": MATH_REFINE_PROMPT, "name": "math", **options},
    )


def build_zero_shot_graph(model: BaseChatModel, **options: Any) -> Any:
    """Return the baseline of one call: the solution as the model writes it, judged by nobody."""
    return _baseline(model, "zero-shot", generate_prompt=MATH_GENERATE_PROMPT, **options)


def build_few_shot_graph(model: BaseChatModel, **options: Any) -> Any:
    """Return the baseline of one call with worked examples before the problem."""
    return _baseline(model, "few-shot", generate_prompt=FEW_SHOT_PROMPT, **options)


def build_majority_graph(model: BaseChatModel, *, samples: int = 5, temperature: float = 0.7, **options: Any) -> Any:
    """Return the baseline of several samples and a vote: the answer is a solution with the most frequent number."""
    writer = MajorityWriter(
        model, MATH_GENERATE_PROMPT, samples=samples, answer=extract_number, temperature=temperature
    )
    return _baseline(model, f"majority-{samples}", generate=writer, **options)


def _baseline(model: BaseChatModel, name: str, **options: Any) -> Any:
    limits: Mapping[str, Any] = {"max_rounds": 0}
    return build_refine_graph(model, **{"critics": [], "limits": limits, "name": name, **options})


def _critics(model: BaseChatModel, critic: MathCritic | BaseChatModel, sandbox: Sandbox | None) -> list[Any]:
    if critic == "program":
        from ..nodes.sandbox import Sandbox

        return [program_critic(model, sandbox or Sandbox(), steps=arithmetic_holds(required=False))]
    if isinstance(critic, str) and critic != "self":
        raise ValueError(f"critic must be 'program', 'self' or a chat model, not {critic!r}")
    judge = model if isinstance(critic, str) else critic
    return [model_critic(judge, prompt=MATH_CRITIC_PROMPT, stop_phrase="SOLUTION_IS_CORRECT", structured=False)]


MATH_GENERATE_PROMPT = """\
Solve this problem step by step, in plain words and without code. Write each calculation as a sum, such as \
3 * 4 = 12. End with a line that is "#### " and the answer as a bare number.

Problem: {task}"""

MATH_CRITIC_PROMPT = """\
Check this solution of a word problem, step by step: does each step follow from the problem, is each calculation \
right, and is what was asked for what is answered?

Problem: {task}

Solution:
{draft}

If everything is right, reply with exactly SOLUTION_IS_CORRECT and nothing else. Otherwise name each error and what \
would be right; do not write the whole solution anew."""

MATH_REFINE_PROMPT = """\
Problem: {task}

Earlier attempts:
{history}

Current solution:
{draft}

Feedback on it:
{feedback}

Read the problem again, sentence by sentence, and solve it anew with the feedback in mind, in plain words and without \
code. Write each calculation as a sum, such as 3 * 4 = 12. End with a line that is "#### " and the answer as a bare \
number."""

FEW_SHOT_PROMPT = """\
Solve the last problem step by step, as in the examples.

Problem: A baker fills 6 trays with 8 rolls each and sells 29 rolls. How many rolls are left?
Solution: The baker makes 6 * 8 = 48 rolls. After selling 29 there are 48 - 29 = 19 rolls.
#### 19

Problem: Mira reads 14 pages a day on weekdays and twice as many on each day of the weekend. How many pages does she \
read in a week?
Solution: On five weekdays she reads 5 * 14 = 70 pages. On a weekend day she reads 2 * 14 = 28 pages, so on two days \
2 * 28 = 56 pages. In the week she reads 70 + 56 = 126 pages.
#### 126

Problem: A ticket costs $12, and children pay 25% less. What do two adults and three children pay?
Solution: A child's ticket is 12 * 0.25 = 3 dollars cheaper, so it costs 12 - 3 = 9 dollars. Two adults pay \
2 * 12 = 24 dollars and three children pay 3 * 9 = 27 dollars. Together they pay 24 + 27 = 51 dollars.
#### 51

Problem: {task}
Solution:"""
