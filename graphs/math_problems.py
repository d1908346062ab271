"""Preset `math`: Self-Refine on word problems whose answer is a number, and the baselines it must beat. Internal.

A solution ends in `#### answer`. By default it is accepted when a program that the model writes without seeing it gives
the same number: a model that is asked about its own solution says yes nearly always.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from langchain_core.runnables import Runnable

from ..models.specs import as_model
from ..nodes.arguments import refuse
from ..nodes.critics.critics import model_critic
from ..nodes.critics.program_critic import OUTVOTED, AdoptingWriter, program_critic
from ..nodes.verify.numeric_answers import extract_number
from ..nodes.writing.prompts import Prompts, chat_prompt, seen_by_refiner
from ..nodes.writing.sampling import MajorityWriter, sampled
from ..nodes.writing.writers import AdaptiveWriter, EvidenceWriter
from ..state.stopping import Arm
from .loop import TASK_ONLY, RefineGraph, build_refine_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from langchain_core.language_models import BaseChatModel

    from ..nodes.programs import ProgramRunner
    from ..state.critique import Critic

    MathCritic = Literal["program", "self"] | BaseChatModel | Critic

__all__ = [
    "FEW_SHOT_PROMPT",
    "MATH_ARMS",
    "MATH_CRITIC_PROMPT",
    "MATH_GENERATE_PROMPT",
    "MATH_REFINE_PROMPT",
    "PROGRAM_REFINE_PROMPT",
    "build_few_shot_graph",
    "build_majority_graph",
    "build_math_graph",
    "build_zero_shot_graph",
]


MATH_ARMS = (Arm("revise", tries=1, needs=OUTVOTED),)
"""Where programs agree against a draft, their number is taken; else nothing is worth a try, and they vote."""


def build_math_graph(
    model: BaseChatModel | str,
    *,
    critic: MathCritic | Sequence[MathCritic] = "program",
    critics: Sequence[Any] | None = None,
    sandbox: ProgramRunner | None = None,
    critic_prompt: Prompts | None = None,
    evidence_prompt: Prompts | None = None,
    program_prompts: Sequence[str] = (),
    **options: Any,
) -> RefineGraph:
    """Return the loop for word problems whose answer is a number.

    Args:
        model: Writes solutions and programs.
        critic: `"program"`: an independently written program must agree. `"self"`: the model judges itself and replies
            SOLUTION_IS_CORRECT or names the errors, as the published method does, and the last solution is the answer
            unless `keep=` says otherwise. A model: that one judges in this way.
            Any other critic, `human_critic()` say: itself. Several: all are asked, and all must accept.
        critics: Your own critics in their place.
        sandbox: Runs the programs; default: `Sandbox()`.
        critic_prompt: Of `"self"` or the model that judges; default: `MATH_CRITIC_PROMPT`.
        evidence_prompt: Of a revision after programs disagreed; default: `refine_prompt` where it is given, else
            `PROGRAM_REFINE_PROMPT`. Where neither is given and programs alone judge, the number that they agree on is
            taken, and nobody is asked.
        program_prompts: Of the programs, templates over `task` in their turn; default: those of `program_critic`.
        options: Everything else that `build_refine_graph` takes.

    Raises:
        ValueError: At build: `critic` is unknown, `program_prompts` stand where no program is written, or as in
            `build_refine_graph`.
        SandboxUnavailableError: At build: `"program"` is asked for where nothing can run programs safely.

    Example:
        >>> from redraft import build_math_graph
        >>> from redraft.models import ScriptedModel
        >>> graph = build_math_graph(ScriptedModel(["3 * 4 = 12", "```python\\nprint(3 * 4)\\n```"]))
        >>> graph.invoke({"task": "Ann has 3 bags of 4 pears. How many pears is that?"})["stop_reason"]
        'accepted'
    """
    refuse(options, {"answer_type": "has no use here: the answer of a solution is its last line, a number"})
    model = as_model(model)
    several: Sequence[MathCritic] = critic if isinstance(critic, list | tuple) else [critic]  # type: ignore[list-item]
    replaced = critics is not None or "feedback" in options
    if critic_prompt is not None and (replaced or critic == "program"):
        raise ValueError("critic_prompt= is for critic='self' or a model that judges; nothing here would read it")
    if program_prompts and (replaced or "program" not in several):
        raise ValueError("program_prompts= is for critic='program'; nothing here would read it")
    if own_judge := critics is None and options.get("feedback") is None:
        critics = [
            _critic(model, one, sandbox, critic_prompt or MATH_CRITIC_PROMPT, program_prompts) for one in several
        ]
        if critic == "self" or isinstance(critic, Runnable):
            # A judge without scores: the published method answers with the last solution.
            options.setdefault("keep", "last")
    # Who is asked at the end alone takes nothing from the vote.
    votes = own_judge and [one for one in several if getattr(one, "ask", "") != "unaccepted"] == ["program"]
    revise = _reviser(model, options, evidence_prompt, votes=votes)
    defaults: dict[str, Any] = {
        **TASK_ONLY,
        "generate_prompt": MATH_GENERATE_PROMPT,
        "refine": revise,
        "name": "math",
    }
    if votes:
        writer = AdaptiveWriter({"revise": revise}, MATH_ARMS)
        defaults |= {"refine": writer, "keep": "vote", "limits": {"max_rounds": 1}}
    return build_refine_graph(model, critics=critics, **{**defaults, **options})


def build_zero_shot_graph(model: BaseChatModel | str, **options: Any) -> RefineGraph:
    """Return the baseline of one call: the solution as the model writes it, judged by nobody."""
    return _baseline(model, "zero-shot", MATH_GENERATE_PROMPT, options)


def build_few_shot_graph(model: BaseChatModel | str, **options: Any) -> RefineGraph:
    """Return the baseline of one call with worked examples before the problem."""
    return _baseline(model, "few-shot", FEW_SHOT_PROMPT, options)


def build_majority_graph(
    model: BaseChatModel | str,
    *,
    samples: int = 5,
    temperature: float = 0.7,
    read_answer: Callable[[str], Hashable | None] = extract_number,
    **options: Any,
) -> RefineGraph:
    """Return the baseline of several samples and a vote: the answer is a solution with the most frequent number.

    Args:
        model: Asked `samples` times at once.
        samples: How often, 1 or more.
        temperature: Sampling temperature of the calls.
        read_answer: Reads the answer that is voted on out of a solution; `None` casts no vote. Default: its number.
        options: Everything else that `build_refine_graph` takes.

    Raises:
        ValueError: At build: `samples` is below 1.
    """
    prompt = options.pop("generate_prompt", MATH_GENERATE_PROMPT)
    model = as_model(model)
    writer = MajorityWriter(model, prompt, samples=samples, answer=read_answer, temperature=temperature)
    return _baseline(model, f"majority-{samples}", prompt, {"generate": writer, **options})


def _baseline(model: BaseChatModel | str, name: str, prompt: str, options: dict[str, Any]) -> RefineGraph:
    defaults = {**TASK_ONLY, "generate_prompt": prompt, "critics": [], "check": first_draft_only, "name": name}
    return build_refine_graph(model, **{**defaults, **options})


def first_draft_only(state: Mapping[str, Any]) -> str:
    """Stop after the first draft, whatever rounds the limits allow: a baseline is never revised."""
    return "max_rounds"


def _reviser(
    model: BaseChatModel, options: dict[str, Any], evidence_prompt: Prompts | None, *, votes: bool
) -> EvidenceWriter:
    """Return what revises, and take its prompt, which also stands in for the one after programs, out of the options."""
    seen = seen_by_refiner(options)
    own = options.pop("refine_prompt", None)
    after_programs = evidence_prompt or own
    kind = AdoptingWriter if votes and not after_programs else EvidenceWriter
    prompt = MATH_REFINE_PROMPT if own is None else own
    # Sampled, since a model that is sure of itself writes the same solution again.
    evidence: dict[str, Any] = {"evidence": "programs", "evidence_prompts": after_programs or PROGRAM_REFINE_PROMPT}
    return kind(sampled(model), prompt, **evidence, **seen)


def _critic(
    model: BaseChatModel, critic: MathCritic, sandbox: ProgramRunner | None, prompt: Prompts, programs: Sequence[str]
) -> Any:
    if critic == "program":
        from ..nodes.programs import default_sandbox

        chat_prompt(programs or "", what="program_prompts")
        return program_critic(model, sandbox or default_sandbox(), prompts=programs or None)
    if critic == "self":
        judge = model
    elif isinstance(critic, Runnable):
        judge = critic
    elif callable(critic):
        return critic
    else:
        raise ValueError(f"critic must be 'program', 'self', a chat model or a critic, not {critic!r}")
    # In words and not as structured output, which the published method has none of.
    return model_critic(judge, prompt=prompt, stop_phrase="SOLUTION_IS_CORRECT", structured=False, what="critic_prompt")


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

PROGRAM_REFINE_PROMPT = """\
Problem: {task}

About an earlier solution:
{feedback}

Write the solution step by step, in plain words and without code. Write each calculation as a sum, such as 3 * 4 = 12. \
End with a line that is "#### " and the answer as a bare number."""
"""After programs disagreed: shown its own wrong solution, a small model writes it again whatever they compute."""

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
