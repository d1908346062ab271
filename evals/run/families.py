"""What suits problems of one kind: prompts, critics, and how a reviser takes findings. Internal."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from ...graphs.code_problems import (
    CODE_ARMS,
    CODE_CRITIC_PROMPT,
    CODE_GENERATE_PROMPT,
    CODE_REFINE_PROMPT,
    CODE_RETRY_PROMPT,
)
from ...graphs.math_problems import (
    FEW_SHOT_PROMPT,
    MATH_ARMS,
    MATH_CRITIC_PROMPT,
    MATH_GENERATE_PROMPT,
    MATH_REFINE_PROMPT,
    PROGRAM_REFINE_PROMPT,
)
from ...graphs.writing import WRITING_ARMS, WRITING_GENERATE_PROMPT, WRITING_REFINE_PROMPT, WRITING_TASK
from ...nodes.critics.critics import verifier_critic
from ...nodes.critics.program_critic import PROGRAM_PROMPTS, AdoptingWriter, program_critic
from ...nodes.critics.registry import known_critics
from ...nodes.generate import GENERATE_PROMPT
from ...nodes.programs import default_sandbox
from ...nodes.refine import REFINE_PROMPT
from ...nodes.verify.text_verifiers import uses_words
from ...nodes.writing.adding_words import CLAUSE_PROMPT, WordAddingWriter
from ...nodes.writing.prompt_files import check_prompt
from ...nodes.writing.prompts import PromptedModel
from ...nodes.writing.sampling import sampled
from ...nodes.writing.writers import EvidenceWriter
from ..datasets.scorers import VOTED_ANSWERS, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langchain_core.language_models import BaseChatModel

    from ...state.critique import Critique
    from ...state.stopping import Arm

__all__ = ["FAMILIES", "Family", "Setup"]


@dataclass(frozen=True)
class Family:
    """The prompts and critics for problems of one kind."""

    prompts: Mapping[str, str]
    """By the names in `Method.prompts`."""
    answer: Callable[[str], Any] | None = None
    """Reads the answer that samples vote on; `None`: texts can't vote."""
    programs: Callable[[Setup], Sequence[Any]] | None = None
    """Makes the critics that check by program."""
    reviser: Callable[[Setup], Any] | None = None
    """Makes a reviser that knows what to do with the findings of programs."""
    adopting: Callable[[Setup], Any] | None = None
    """Makes the one of `adaptive` in its place, where that takes over what programs found."""
    examples: str | None = None
    """The prompt with worked examples."""
    judging: Mapping[str, Any] = field(default_factory=dict)
    """Options of `model_critic` for a model that judges."""
    arms: Sequence[Arm] = ()
    """Of `adaptive`: `sample`, `revise` and `rewrite`, which is the reviser without what `reviser` makes of it."""
    adaptive_rounds: int = 0
    """The most revisions of `adaptive`."""

    def lacks(self, need: str) -> bool:
        """Return True if it has neither a field nor a prompt of this name."""
        return need not in self.prompts and getattr(self, need, None) is None


@dataclass(frozen=True)
class Setup:
    """The parts that a method is wired from."""

    family: Family
    count: int
    """N of its name."""
    model: BaseChatModel
    judge: Any
    """A model, or a critic in its place."""
    overrides: Mapping[str, str]
    """The caller's prompts, by name, in place of the method's own."""
    oracle: Callable[[str, str], bool] | None = None
    prompts: dict[str, str] = field(default_factory=dict)
    """The prompts that the method asks with, in the order in which it was wired."""

    def prompt(self, name: str, default: str | None = None) -> str:
        """Return the caller's prompt of this name, else `default`, else the family's; the method asks with it.

        Raises:
            ValueError: The caller's lacks a variable of the one that it stands in for, or uses another.
        """
        own = self.family.prompts[name] if default is None else default
        self.prompts[name] = self.overrides.get(name, own)
        check_prompt(name, self.prompts[name], own)
        return self.prompts[name]

    def sampler(self, prompt: str, *, what: str = "refine_prompt", **options: Any) -> PromptedModel:
        """Return a writer that samples: a model that is sure of itself writes the same again."""
        return PromptedModel(sampled(self.model), prompt, what=what, **options)


def _agreeing_program(setup: Setup) -> Sequence[Any]:
    prompts = [setup.prompt(name) for name in setup.family.prompts if name.startswith("program_")]
    return [program_critic(setup.model, default_sandbox(), prompts=prompts)]


def _wanted_words(setup: Setup) -> Sequence[Any]:
    def words_of_task(task: str, draft: str, /) -> Critique | None:
        """Check the words that the task itself names."""
        start = WRITING_TASK.partition("{words}")[0]
        # A task in other words names none that could be looked for, so this decides nothing.
        if not task.startswith(start):
            return None
        critique: Critique | None = _uses(task.removeprefix(start))(task, draft)
        return critique

    return [verifier_critic(words_of_task)]


@lru_cache(maxsize=1024)
def _uses(listed: str) -> Any:
    return uses_words(*(word.strip() for word in listed.split(",")))


def _by_evidence(setup: Setup, *, evidence: str, kind: type[EvidenceWriter] = EvidenceWriter) -> EvidenceWriter:
    after = setup.prompt(f"refine_after_{evidence}")
    return kind(sampled(setup.model), setup.prompts["refine"], evidence=evidence, evidence_prompts=after)


def _adding_words(setup: Setup) -> WordAddingWriter:
    return WordAddingWriter(sampled(setup.model), setup.prompts["refine"], clause_prompt=setup.prompt("clause"))


FAMILIES: Mapping[Kind, Family] = {
    "numeric": Family(
        {
            "generate": MATH_GENERATE_PROMPT,
            "refine": MATH_REFINE_PROMPT,
            "critic": MATH_CRITIC_PROMPT,
            "refine_after_programs": PROGRAM_REFINE_PROMPT,
            **{f"program_{number}": prompt for number, prompt in enumerate(PROGRAM_PROMPTS, 1)},
        },
        answer=VOTED_ANSWERS["numeric"],
        programs=_agreeing_program,
        reviser=partial(_by_evidence, evidence="programs"),
        adopting=partial(_by_evidence, evidence="programs", kind=AdoptingWriter),
        examples=FEW_SHOT_PROMPT,
        judging={"stop_phrase": "SOLUTION_IS_CORRECT", "structured": False},
        arms=MATH_ARMS,
        adaptive_rounds=1,
    ),
    "code": Family(
        {
            # The only visible tests are those in the task itself.
            "generate": CODE_GENERATE_PROMPT.replace("TESTS", ""),
            "refine": CODE_REFINE_PROMPT.replace("TESTS", ""),
            "critic": CODE_CRITIC_PROMPT.replace("TESTS", ""),
            "refine_after_tests": CODE_RETRY_PROMPT.replace("TESTS", ""),
        },
        programs=lambda setup: [known_critics()["tests"].build(setup.model, "")],
        reviser=partial(_by_evidence, evidence="tests"),
        judging={"stop_phrase": "CODE_IS_CORRECT", "structured": False},
        arms=CODE_ARMS,
        adaptive_rounds=4,
    ),
    "words": Family(
        {
            "generate": WRITING_GENERATE_PROMPT.replace("CONSTRAINTS", ""),
            "refine": WRITING_REFINE_PROMPT.replace("CONSTRAINTS", ""),
            "clause": CLAUSE_PROMPT,
        },
        programs=_wanted_words,
        reviser=_adding_words,
        arms=WRITING_ARMS,
        adaptive_rounds=10,
    ),
    **dict.fromkeys(("score", "checks"), Family({"generate": GENERATE_PROMPT, "refine": REFINE_PROMPT})),
    "exact": Family({"generate": GENERATE_PROMPT, "refine": REFINE_PROMPT}, answer=VOTED_ANSWERS["exact"]),
}
