"""Methods to compare: baselines, and refining judged by the model, a program or the gold answer. Internal."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal

from ...graphs.code_problems import (
    CODE_ARMS,
    CODE_CRITIC_PROMPT,
    CODE_GENERATE_PROMPT,
    CODE_REFINE_PROMPT,
    CODE_RETRY_PROMPT,
)
from ...graphs.loop import build_refine_graph
from ...graphs.math_problems import (
    FEW_SHOT_PROMPT,
    MATH_ARMS,
    MATH_CRITIC_PROMPT,
    MATH_GENERATE_PROMPT,
    MATH_REFINE_PROMPT,
    PROGRAM_REFINE_PROMPT,
)
from ...graphs.writing import WRITING_ARMS, WRITING_GENERATE_PROMPT, WRITING_REFINE_PROMPT, WRITING_TASK
from ...nodes.critics.critics import VerifierCritic, model_critic, verifier_critic
from ...nodes.critics.program_critic import PROGRAM_PROMPTS
from ...nodes.generate import GENERATE_PROMPT
from ...nodes.refine import REFINE_PROMPT
from ...nodes.runtime.dual import Do, DualCallable
from ...nodes.verify.text_verifiers import uses_words
from ...nodes.writing.adaptive import AdaptiveWriter
from ...nodes.writing.adding_words import CLAUSE_PROMPT, WordAddingWriter, joined
from ...nodes.writing.evidence_writer import EvidenceWriter
from ...nodes.writing.prompt_files import check_prompt
from ...nodes.writing.prompt_injection import fenced_messages
from ...nodes.writing.prompts import PromptedModel, chat_prompt, reseeded
from ...nodes.writing.sampling import MajorityWriter, sampled
from ...state.critique import Critique
from ...state.stopping import rounds_allowed
from ...state.summary import latest_draft, open_drafts, rounds
from .voted_answers import VOTED_ANSWERS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import Runnable

    from ...graphs.loop import RefineGraph
    from ...state.choices import Arm
    from ..datasets.dataset import Dataset, Problem

__all__ = ["BASELINES", "METHODS", "Kind", "Method", "build_method", "check_methods", "knows_gold"]

Kind = Literal["numeric", "code", "words", "exact"]

METHODS: Mapping[str, str] = {
    "zero-shot": "one call",
    "few-shot": "one call after worked examples (word problems only)",
    "majority-N": "N samples and a vote (numbers and exact answers only)",
    "best-of-N": "up to N independent samples, the one that a program finds best",
    "blind-N": "one call, then N times asked again without feedback",
    "self-refine-N": "N rounds of feedback by the model itself, or by --critic",
    "program-N": "N rounds of feedback by a program: another program must agree, tests must pass, words must occur",
    "adaptive": "fresh samples and revisions by what has worked, judged as in program-N; stops where nothing is left",
    "clauses-N": "one call, then N clauses with the next words in turn, without feedback (words only)",
    "oracle-refine-N": "N rounds that stop on the gold answer; marked as such everywhere",
}
"""Names, N from 1 up, and what each does."""

BASELINES = ("zero-shot", "few-shot", "majority", "best-of", "blind", "clauses")
"""Methods without feedback, by the name before N."""

MOST = 100


@dataclass(frozen=True)
class Method:
    """A method ready to run on problems of one kind."""

    name: str
    graph: RefineGraph
    rounds: int
    """How often a draft is revised at most."""
    oracle: bool
    """Whether it knows the gold answers."""
    prompts: Mapping[str, str]
    """All prompts that it asks with, by name."""

    @property
    def prompts_sha256(self) -> str:
        """Hash of all prompts: a run is not resumed with others."""
        return hashlib.sha256("\0".join(self.prompts.values()).encode()).hexdigest()


@dataclass(frozen=True)
class Family:
    """The prompts and critics for problems of one kind."""

    generate: str
    refine: str
    critic: str | None
    """Of the model that judges; `None`: the default prompt."""
    stop_phrase: str | None
    answer: Callable[[str], Any] | None
    """Reads the answer that samples vote on; `None`: texts can't vote."""
    programs: Callable[[BaseChatModel], Sequence[Any]] | None
    """Critics that check by program."""
    reviser: Callable[[Any, str], Any] | None = None
    """Makes a reviser, of a model and the prompt `refine`, that knows what to do with what programs found."""
    after_programs: Mapping[str, str] = field(default_factory=dict)
    """The further prompts that it asks with, by name."""
    program_prompts: Mapping[str, str] = field(default_factory=dict)
    """The prompts that `programs` ask with, by name."""
    arms: Sequence[Arm] = ()
    """Of `adaptive`: `sample`, `revise` and `rewrite`, which is the reviser without what `reviser` makes of it."""
    adaptive_rounds: int = 0
    """How often `adaptive` revises at most."""

    def with_prompts(self, own: Mapping[str, str]) -> Family:
        """Return it with other prompts, by the names in `Method.prompts`."""
        after = {name: own.get(name, text) for name, text in self.after_programs.items()}
        written = {name: own.get(name, text) for name, text in self.program_prompts.items()}
        # A reviser calls its further prompt by another name.
        further = {("clause_prompt" if name == "clause" else "evidence_prompts"): text for name, text in after.items()}
        return replace(
            self,
            generate=own.get("generate", self.generate),
            refine=own.get("refine", self.refine),
            critic=own.get("critic", self.critic),
            reviser=self.reviser and partial(self.reviser, **further),
            after_programs=after,
            programs=partial(_agreeing_program, prompts=[*written.values()]) if written else self.programs,
            program_prompts=written,
        )


def check_methods(names: Sequence[str], kind: Kind) -> None:
    """Raise ValueError unless each method is known and makes sense for problems of this kind.

    Raises:
        ValueError: One does not; the message says which, and what would.
    """
    if not names:
        raise ValueError(f"no method is named; known are {', '.join(METHODS)}")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{twice[0]} is named twice")
    for name in names:
        base, _ = _parsed(name)
        family = FAMILIES[kind]
        if base == "few-shot" and kind != "numeric":
            raise ValueError(f"few-shot has worked examples for word problems only; these problems are of kind {kind}")
        if base == "majority" and family.answer is None:
            raise ValueError(f"{name} needs answers that can be counted; these problems are of kind {kind}")
        if base == "clauses" and kind != "words":
            raise ValueError(f"{name} adds words; these problems are of kind {kind}")
        if base in {"program", "best-of", "adaptive"} and family.programs is None:
            raise ValueError(f"{name} needs a program that checks; there is none for problems of kind {kind}")


def build_method(
    name: str,
    kind: Kind,
    model: BaseChatModel,
    *,
    critic: BaseChatModel | None = None,
    oracle: Callable[[str, str], bool] | None = None,
    prompts: Mapping[str, str] | None = None,
    accepts: Any = None,
    **options: Any,
) -> Method:
    """Return a method for problems of one kind. One graph serves all of them.

    Args:
        name: One of `METHODS`.
        kind: Of the problems.
        model: Writes.
        critic: Judges in `self-refine-N`; default: the model itself.
        oracle: `(task, draft) -> whether the gold answer is met`, for `oracle-refine-N`.
        accepts: A calibrated judge, in place of the critic of `self-refine-N`.
        prompts: Stand in for the method's own, by the names in `Method.prompts`; those that it has not are left out.
        options: Everything else that `build_refine_graph` takes (`prices`, `checkpointer`).

    Raises:
        ValueError: As `check_methods`, `oracle-refine-N` without an oracle, or a prompt of `prompts` lacks a variable
            of the one that it stands in for, or uses another.
    """
    check_methods([name], kind)
    base, count = _parsed(name)
    wired = partial(_wiring, base, count, model=model, judge=critic or model, oracle=oracle)
    asked, given = wired(FAMILIES[kind], {})
    if prompts:
        own = {one: text for one, text in prompts.items() if one in asked}
        for one, text in own.items():
            check_prompt(one, text, asked[one])
        asked, given = wired(FAMILIES[kind].with_prompts(own), own)
    if accepts is not None and base == "self-refine":
        asked = {one: text for one, text in asked.items() if one != "critic"}
        given["critics"] = [accepts]
    limits = {"max_rounds": given.pop("rounds")}
    graph = build_refine_graph(model, name=name, limits=limits, **{**given, **options})
    return Method(name, graph, limits["max_rounds"], base == "oracle-refine", asked)


def knows_gold(data: Dataset) -> Callable[[str, str], bool]:
    """Return what judges a draft by the gold answer of its task, for `oracle-refine-N`; it says yes or no only."""
    # By task, since that is all a critic is told; two problems may have the same one.
    by_task: dict[str, list[Problem]] = {}
    for problem in data.problems:
        by_task.setdefault(problem.task, []).append(problem)

    def right(task: str, draft: str) -> bool:
        return any(data.is_correct(problem, draft) for problem in by_task.get(task, ()))

    return right


def _wiring(
    base: str,
    count: int,
    family: Family,
    own: Mapping[str, str],
    *,
    model: BaseChatModel,
    judge: BaseChatModel,
    oracle: Callable[[str, str], bool] | None,
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the prompts of a method by name, and the arguments that wire it.

    `own` are prompts that the caller gave: also in place of those that the family has no part in.
    """
    ask = family.generate
    once: dict[str, Any] = {"generate_prompt": ask, "critics": [], "check": _at_once, "rounds": 0}
    if base == "zero-shot":
        return {"generate": ask}, once
    if base == "few-shot":
        examples = own.get("generate", FEW_SHOT_PROMPT)
        return {"generate": examples}, {**once, "generate_prompt": examples}
    if base == "majority":
        assert family.answer is not None  # noqa: S101  # checked before
        return {"generate": ask}, {**once, "generate": MajorityWriter(model, ask, samples=count, answer=family.answer)}
    if base == "best-of":
        assert family.programs is not None  # noqa: S101  # checked before
        fresh = PromptedModel(sampled(model), ask, what="generate_prompt")
        wiring = {"generate": fresh, "refine": fresh, "critics": family.programs(model), "check": _until_accepted}
        # N samples are a draft and N - 1 revisions, each written from the task alone.
        return {"generate": ask, **family.program_prompts}, {**wiring, "rounds": count - 1}
    if base == "blind":
        # Nobody judges here, so the last answer counts.
        blind = own.get("refine", BLIND_PROMPT)
        again = PromptedModel(sampled(model), blind, what="blind prompt", keep="last")
        wiring = {"generate_prompt": ask, "refine": again, "critics": [], "keep": "last", "check": _until_accepted}
        return {"generate": ask, "refine": blind}, {**wiring, "rounds": count}
    if base == "clauses":
        clause = own.get("clause", CLAUSE_PROMPT)
        clauses = ClausesInTurn(sampled(model), clause)
        wiring = {"generate_prompt": ask, "refine": clauses, "critics": [], "keep": "last", "check": _until_accepted}
        return {"generate": ask, "clause": clause}, {**wiring, "rounds": count}
    # Sampled, since a model that is sure of itself writes the same again.
    refine: Any = PromptedModel(sampled(model), family.refine, what="refine_prompt")
    if base in {"program", "adaptive"} and family.reviser is not None:
        refine = family.reviser(sampled(model), family.refine)
    if base == "adaptive":
        writers = {
            "sample": PromptedModel(sampled(model), ask, what="generate_prompt"),
            "rewrite": PromptedModel(sampled(model), family.refine, what="refine_prompt", memory="last"),
            "revise": refine,
            "repair": refine,
        }
        refine = AdaptiveWriter({arm.name: writers[arm.name] for arm in family.arms}, family.arms)
    asked = {"generate": ask, "refine": family.refine}
    refining = {"generate_prompt": ask, "refine": refine, "rounds": count}
    if base == "oracle-refine":
        if oracle is None:
            raise ValueError("oracle-refine needs the gold answers: give oracle=")
        return asked, {**refining, "critics": [verifier_critic(_gold(oracle), name="gold", oracle=True)]}
    if base in {"program", "adaptive"}:
        assert family.programs is not None  # noqa: S101  # checked before
        prompts = {**asked, **family.after_programs, **family.program_prompts}
        given = {**refining, "critics": family.programs(model)}
        return prompts, {**given, "keep": "vote", "rounds": family.adaptive_rounds} if base == "adaptive" else given
    stop: dict[str, Any] = (
        {} if family.stop_phrase is None else {"stop_phrase": family.stop_phrase, "structured": False}
    )
    critic = model_critic(judge, prompt=family.critic, **stop)
    # The default prompt depends on whether the judge has structured output.
    prompt: Any = critic.templates[0].messages[0]
    # The published method revises the last draft, and answers with it.
    last = PromptedModel(sampled(model), family.refine, what="refine_prompt", keep="last")
    refining |= {"refine": last, "keep": "last"}
    return {**asked, "critic": prompt.prompt.template}, {**refining, "critics": [critic]}


def _parsed(name: str) -> tuple[str, int]:
    """Return a method's name without N, and N.

    Raises:
        ValueError: There is no such method.
    """
    if name in ("zero-shot", "few-shot", "adaptive"):
        return name, 0
    found = re.fullmatch(r"([a-z-]+)-([1-9][0-9]{0,2})", name)
    if not found or f"{found[1]}-N" not in METHODS or int(found[2]) > MOST:
        raise ValueError(f"there is no method {name!r}; known are {', '.join(METHODS)}, with N from 1 to {MOST}")
    return found[1], int(found[2])


def _at_once(state: Mapping[str, Any]) -> str:
    """Stop after the first draft, whatever rounds the limits allow."""
    return "max_rounds"


def _until_accepted(state: Mapping[str, Any]) -> str | None:
    """Go on to the last round, also where a sample repeats an earlier one, unless one is accepted."""
    if any(draft.accepted for draft in open_drafts(state["events"])):
        return "accepted"
    return "max_rounds" if rounds(state["events"]) >= rounds_allowed(state["limits"]) else None


def _gold(oracle: Callable[[str, str], bool]) -> Callable[[str, str], Critique]:
    def gold(task: str, draft: str, /) -> Critique:
        right = oracle(task, draft)
        # No more than that: the gold answer itself must not reach a prompt.
        return Critique("" if right else "The answer is wrong.", accepted=right)

    return gold


def _agreeing_program(model: BaseChatModel, prompts: Sequence[str] | None = None) -> list[Any]:
    from ...nodes.critics.program_critic import program_critic
    from ...nodes.sandbox import Sandbox

    return [program_critic(model, Sandbox(), prompts=prompts)]


def _visible_tests(model: BaseChatModel) -> list[VerifierCritic]:
    from ...nodes.sandbox import Sandbox
    from ...nodes.verify.code_checks import passes_visible_tests

    return [verifier_critic(passes_visible_tests(Sandbox()))]


def _wanted_words(model: BaseChatModel) -> list[VerifierCritic]:
    def words_of_task(task: str, draft: str, /) -> Critique | None:
        """Check the words that the task itself names."""
        start = WRITING_TASK.partition("{words}")[0]
        # A task in other words names none that could be looked for, so this decides nothing.
        if not task.startswith(start):
            return None
        found: Critique | None = _uses(task.removeprefix(start))(task, draft)
        return found

    return [verifier_critic(words_of_task)]


@lru_cache(maxsize=1024)
def _uses(listed: str) -> Any:
    return uses_words(*(word.strip() for word in listed.split(",")))


class ClausesInTurn(DualCallable[["Mapping[str, Any]"], Any]):
    """Adds clauses with the words of the task in turn: what decomposition does without feedback."""

    def __init__(self, model: Runnable[Any, Any], prompt: str = CLAUSE_PROMPT, *, at_once: int = 5) -> None:
        self.model = model
        self.at_once = at_once
        self.clause = chat_prompt(prompt, what="clause_prompt", known=("words", "draft"))[0]

    def logic(self, state: Mapping[str, Any], /) -> Generator[Do, Any, Any]:
        events = state["events"]
        words = [word.strip() for word in state["task"].rpartition(":")[2].split(",")]
        start = rounds(events) * self.at_once % len(words)
        draft = latest_draft(events)
        text = draft.text if draft else ""
        asked = {"words": ", ".join([*words, *words][start : start + self.at_once]), "draft": text}
        messages = fenced_messages(self.clause, asked)
        model = reseeded(self.model, rounds(events) + 1, messages)
        reply = yield Do(model.invoke, model.ainvoke, (messages,))
        return joined(text, reply)


BLIND_PROMPT = """\
{task}

Here is an earlier answer, which may or may not be right:
{draft}

Think about the task once more, and answer it anew. Reply in the same form."""

FAMILIES: Mapping[Kind, Family] = {
    "numeric": Family(
        MATH_GENERATE_PROMPT,
        MATH_REFINE_PROMPT,
        MATH_CRITIC_PROMPT,
        "SOLUTION_IS_CORRECT",
        VOTED_ANSWERS["numeric"],
        _agreeing_program,
        partial(EvidenceWriter, evidence="programs", evidence_prompts=PROGRAM_REFINE_PROMPT),
        {"refine_after_programs": PROGRAM_REFINE_PROMPT},
        {f"program_{number}": prompt for number, prompt in enumerate(PROGRAM_PROMPTS, 1)},
        arms=MATH_ARMS,
        adaptive_rounds=2,
    ),
    "code": Family(
        # The only visible tests are those in the task itself.
        CODE_GENERATE_PROMPT.replace("TESTS", ""),
        CODE_REFINE_PROMPT.replace("TESTS", ""),
        CODE_CRITIC_PROMPT.replace("TESTS", ""),
        "CODE_IS_CORRECT",
        None,
        _visible_tests,
        partial(EvidenceWriter, evidence="tests", evidence_prompts=CODE_RETRY_PROMPT.replace("TESTS", "")),
        {"refine_after_tests": CODE_RETRY_PROMPT.replace("TESTS", "")},
        arms=CODE_ARMS,
        adaptive_rounds=4,
    ),
    "words": Family(
        WRITING_GENERATE_PROMPT.replace("CONSTRAINTS", ""),
        WRITING_REFINE_PROMPT.replace("CONSTRAINTS", ""),
        None,
        None,
        None,
        _wanted_words,
        partial(WordAddingWriter, clause_prompt=CLAUSE_PROMPT),
        {"clause": CLAUSE_PROMPT},
        arms=WRITING_ARMS,
        adaptive_rounds=10,
    ),
    "exact": Family(GENERATE_PROMPT, REFINE_PROMPT, None, None, VOTED_ANSWERS["exact"], None),
}
