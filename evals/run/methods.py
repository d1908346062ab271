"""Methods to compare: baselines, and refining judged by the model, a program or the gold answer. Internal."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.runnables import Runnable

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
    first_draft_only,
)
from ...graphs.preset import Preset
from ...graphs.registry import build_preset, find_preset, registered
from ...graphs.writing import WRITING_ARMS, WRITING_GENERATE_PROMPT, WRITING_REFINE_PROMPT, WRITING_TASK
from ...nodes.critics.critics import VerifierCritic, model_critic, verifier_critic
from ...nodes.critics.program_critic import PROGRAM_PROMPTS
from ...nodes.critics.registry import known_critics
from ...nodes.fingerprint import OF_ALL
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
from ...state.threads.kind import kind_of
from ..datasets.scorers import VOTED_ANSWERS, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from langchain_core.language_models import BaseChatModel

    from ...graphs.loop import RefineGraph
    from ...state.choices import Arm
    from ..datasets.dataset import Dataset, Problem

__all__ = [
    "BASELINES",
    "METHODS",
    "Kind",
    "Method",
    "build_method",
    "check_methods",
    "find_method",
    "knows_gold",
    "preset_method",
]

MOST = 100


@dataclass(frozen=True)
class Method:
    """A method ready to run on problems of one kind."""

    name: str
    graph: RefineGraph
    rounds: int | None
    """How often a draft is revised at most; `None`: as its preset has it."""
    oracle: bool
    """Whether it knows the gold answers."""
    prompts: Mapping[str, str]
    """All prompts that it asks with, by name; of a preset the fingerprint of its graph."""

    @property
    def limits(self) -> dict[str, int]:
        """The limits that its name says."""
        return {} if self.rounds is None else {"max_rounds": self.rounds}

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
    examples: str | None = None
    """The prompt with worked examples."""
    clause: str | None = None
    """The prompt for a clause with further words."""
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


@dataclass(frozen=True)
class Asked:
    """The arguments that a method is wired with."""

    family: Family
    count: int
    """N of its name."""
    model: BaseChatModel
    judge: Any
    """A model, or a critic in its place."""
    own: Mapping[str, str] = field(default_factory=dict)
    """Prompts of the caller's, also in place of those that the family has no part in."""
    oracle: Callable[[str, str], bool] | None = None

    def prompted(self, prompt: str, **options: Any) -> PromptedModel:
        """Return a writer that samples: a model that is sure of itself writes the same again."""
        return PromptedModel(sampled(self.model), prompt, **{"what": "refine_prompt", **options})


Wired = tuple[dict[str, str], dict[str, Any]]
"""The prompts of a method by name, and the arguments of `build_refine_graph` that wire it; `rounds` is its limit."""


class MethodKind(NamedTuple):
    """A method as it is declared."""

    name: str
    """`NAME-N` stands for `NAME-1` to `NAME-100`."""
    line: str
    """What it does."""
    wire: Callable[[Asked], Wired]
    needs: str = ""
    """The field of `Family` that it can't do without."""
    baseline: bool = False
    """Nobody gives feedback."""


def find_method(name: str) -> tuple[MethodKind | Preset, int]:
    """Return the method of this name and its N: one of the evaluation's own, else a preset.

    Raises:
        ValueError: There is no such method.
    """
    numbered = re.fullmatch("(.+-)([1-9][0-9]{0,2})", name)
    if (own := KINDS.get(name)) is not None and not name.endswith("-N"):
        return own, 0
    if numbered and f"{numbered[1]}N" in KINDS and int(numbered[2]) <= MOST:
        return KINDS[f"{numbered[1]}N"], int(numbered[2])
    presets = [preset.name for preset in registered() if not preset.own_command and preset.name not in KINDS]
    if name in presets:
        return find_preset(name), 0
    raise ValueError(
        f"there is no method {name!r}; known are {', '.join(METHODS)}, with N from 1 to {MOST}, and the graphs "
        f"{', '.join(presets)}"
    )


def check_methods(names: Sequence[str], kind: Kind) -> None:
    """Raise ValueError unless each method is known and makes sense for problems of this kind.

    Raises:
        ValueError: One does not; the message says which, and what would.
    """
    if not names:
        raise ValueError(f"no method is named; known are {', '.join(METHODS)}, and the graphs of `redraft run`")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{twice[0]} is named twice")
    for name in names:
        declared, _ = find_method(name)
        if isinstance(declared, MethodKind) and declared.needs and getattr(FAMILIES[kind], declared.needs) is None:
            raise ValueError(f"{name} {LACKING[declared.needs].format(kind=kind)}")


LACKING = {
    "examples": "has worked examples for word problems only; these problems are of kind {kind}",
    "answer": "needs answers that can be counted; these problems are of kind {kind}",
    "clause": "adds words; these problems are of kind {kind}",
    "programs": "needs a program that checks; there is none for problems of kind {kind}",
}
"""Said where a family lacks the field that a method needs."""


def build_method(
    name: str,
    kind: Kind,
    model: BaseChatModel,
    *,
    critic: Any = None,
    oracle: Callable[[str, str], bool] | None = None,
    prompts: Mapping[str, str] | None = None,
    **options: Any,
) -> Method:
    """Return a method for problems of one kind. One graph serves all of them.

    Args:
        name: One of `METHODS`, or of a preset.
        kind: Of the problems.
        model: Writes.
        critic: Judges in `self-refine-N` and in presets: a model, or a critic such as a calibrated judge. Default: the
            model itself, or as the preset has it.
        oracle: `(task, draft) -> whether the gold answer is met`, for `oracle-refine-N`.
        prompts: Stand in for the method's own, by the names in `Method.prompts`; those that it has not are left out.
        options: Everything else that `build_refine_graph`, or the preset, takes (`prices`, `checkpointer`).

    Raises:
        ValueError: As `check_methods`, `oracle-refine-N` without an oracle, or a prompt of `prompts` lacks a variable
            of the one that it stands in for, or uses another.
    """
    check_methods([name], kind)
    declared, count = find_method(name)
    if isinstance(declared, Preset):
        judges = [] if critic is None else [critic]
        return preset_method(name, build_preset(name, model, critics=judges, **options))
    asked = Asked(FAMILIES[kind], count, model, model if critic is None else critic, oracle=oracle)
    texts, wiring = declared.wire(asked)
    if own := {one: text for one, text in (prompts or {}).items() if one in texts}:
        for one, text in own.items():
            check_prompt(one, text, texts[one])
        texts, wiring = declared.wire(replace(asked, family=asked.family.with_prompts(own), own=own))
    limits = {"max_rounds": wiring.pop("rounds")}
    graph = build_refine_graph(model, name=name, limits=limits, **{**wiring, **options})
    return Method(name, graph, limits["max_rounds"], declared is KINDS["oracle-refine-N"], texts)


def preset_method(name: str, graph: Any) -> Method:
    """Return a preset's graph as a method: its fingerprint tells it from one with other prompts, models or options."""
    made = {key: value for key, value in kind_of(graph).fingerprint.items() if key not in OF_ALL}
    return Method(name, graph, None, False, {"fingerprint": json.dumps(made, sort_keys=True)})


def knows_gold(data: Dataset) -> Callable[[str, str], bool]:
    """Return a judge by the gold answer of a task, for `oracle-refine-N`; it says yes or no only."""
    # By task, since that is all a critic is told; two problems may have the same one.
    by_task: dict[str, list[Problem]] = {}
    for problem in data.problems:
        by_task.setdefault(problem.task, []).append(problem)

    def right(task: str, draft: str) -> bool:
        return any(data.is_correct(problem, draft) for problem in by_task.get(task, ()))

    return right


def _zero_shot(asked: Asked) -> Wired:
    ask = asked.family.generate
    return {"generate": ask}, {"generate_prompt": ask, "critics": [], "check": first_draft_only, "rounds": 0}


def _few_shot(asked: Asked) -> Wired:
    examples = asked.own.get("generate", asked.family.examples or "")
    return {"generate": examples}, {**_zero_shot(asked)[1], "generate_prompt": examples}


def _majority(asked: Asked) -> Wired:
    prompts, wiring = _zero_shot(asked)
    voted: Any = asked.family.answer
    writer = MajorityWriter(asked.model, asked.family.generate, samples=asked.count, answer=voted)
    return prompts, {**wiring, "generate": writer}


def _best_of(asked: Asked) -> Wired:
    programs: Any = asked.family.programs
    fresh = asked.prompted(asked.family.generate, what="generate_prompt")
    wiring = {"generate": fresh, "refine": fresh, "critics": programs(asked.model), "check": _until_accepted}
    # N samples are a draft and N - 1 revisions, each written from the task alone.
    return {"generate": asked.family.generate, **asked.family.program_prompts}, {**wiring, "rounds": asked.count - 1}


def _unjudged(asked: Asked, name: str, prompt: str, refine: Any) -> Wired:
    """Wire a baseline of N further calls: nobody judges, so the last answer counts."""
    ask = asked.family.generate
    wiring = {"generate_prompt": ask, "refine": refine, "critics": [], "keep": "last", "check": _until_accepted}
    return {"generate": ask, name: prompt}, {**wiring, "rounds": asked.count}


def _blind(asked: Asked) -> Wired:
    prompt = asked.own.get("refine", BLIND_PROMPT)
    return _unjudged(asked, "refine", prompt, asked.prompted(prompt, what="blind prompt", keep="last"))


def _clauses(asked: Asked) -> Wired:
    prompt = asked.own.get("clause", asked.family.clause or "")
    return _unjudged(asked, "clause", prompt, ClausesInTurn(sampled(asked.model), prompt))


def _refining(asked: Asked) -> Wired:
    family = asked.family
    wiring = {"generate_prompt": family.generate, "refine": asked.prompted(family.refine), "rounds": asked.count}
    return {"generate": family.generate, "refine": family.refine}, wiring


def _oracle_refine(asked: Asked) -> Wired:
    if asked.oracle is None:
        raise ValueError("oracle-refine needs the gold answers: give oracle=")
    prompts, wiring = _refining(asked)
    return prompts, {**wiring, "critics": [verifier_critic(_gold(asked.oracle), name="gold", oracle=True)]}


def _program(asked: Asked) -> Wired:
    family, programs = asked.family, asked.family.programs
    prompts, wiring = _refining(asked)
    if family.reviser is not None:
        wiring["refine"] = family.reviser(sampled(asked.model), family.refine)
    wiring["critics"] = programs(asked.model) if programs is not None else []
    return {**prompts, **family.after_programs, **family.program_prompts}, wiring


def _adaptive(asked: Asked) -> Wired:
    family = asked.family
    prompts, wiring = _program(asked)
    writers = {
        "sample": asked.prompted(family.generate, what="generate_prompt"),
        "rewrite": asked.prompted(family.refine, memory="last"),
        "revise": wiring["refine"],
        "repair": wiring["refine"],
    }
    refine = AdaptiveWriter({arm.name: writers[arm.name] for arm in family.arms}, family.arms)
    return prompts, {**wiring, "refine": refine, "keep": "vote", "rounds": family.adaptive_rounds}


def _self_refine(asked: Asked) -> Wired:
    family = asked.family
    prompts, wiring = _refining(asked)
    # The published method revises the last draft, and answers with it.
    wiring |= {"refine": asked.prompted(family.refine, keep="last"), "keep": "last"}
    if not isinstance(asked.judge, Runnable):
        return prompts, {**wiring, "critics": [asked.judge]}
    stop: dict[str, Any] = (
        {} if family.stop_phrase is None else {"stop_phrase": family.stop_phrase, "structured": False}
    )
    critic = model_critic(asked.judge, prompt=family.critic, **stop)  # type: ignore[arg-type]
    # The default prompt depends on whether the judge has structured output.
    prompt: Any = critic.templates[0].messages[0]
    return {**prompts, "critic": prompt.prompt.template}, {**wiring, "critics": [critic]}


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
    from ...sandbox import Sandbox

    return [program_critic(model, Sandbox(), prompts=prompts)]


def _visible_tests(model: BaseChatModel) -> list[Any]:
    return [known_critics()["tests"].build(model, "")]


def _wanted_words(model: BaseChatModel) -> list[VerifierCritic]:
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
        FEW_SHOT_PROMPT,
        None,
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
        None,
        None,
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
        None,
        CLAUSE_PROMPT,
        partial(WordAddingWriter, clause_prompt=CLAUSE_PROMPT),
        {"clause": CLAUSE_PROMPT},
        arms=WRITING_ARMS,
        adaptive_rounds=10,
    ),
    "exact": Family(GENERATE_PROMPT, REFINE_PROMPT, None, None, VOTED_ANSWERS["exact"], None),
}

KINDS: Mapping[str, MethodKind] = {
    kind.name: kind
    for kind in (
        MethodKind("zero-shot", "one call", _zero_shot, baseline=True),
        MethodKind("few-shot", "one call after worked examples (word problems only)", _few_shot, "examples", True),
        MethodKind(
            "majority-N", "N samples and a vote (numbers and exact answers only)", _majority, "answer", baseline=True
        ),
        MethodKind(
            "best-of-N", "up to N independent samples, the one that a program finds best", _best_of, "programs", True
        ),
        MethodKind("blind-N", "one call, then N times asked again without feedback", _blind, baseline=True),
        MethodKind("self-refine-N", "N rounds of feedback by the model itself, or by --critic", _self_refine),
        MethodKind(
            "program-N",
            "N rounds of feedback by a program: another program must agree, tests must pass, words must occur",
            _program,
            "programs",
        ),
        MethodKind(
            "adaptive",
            "fresh samples and revisions by what has worked, judged as in program-N; stops where nothing is left",
            _adaptive,
            "programs",
        ),
        MethodKind(
            "clauses-N",
            "one call, then N clauses with the next words in turn, without feedback (words only)",
            _clauses,
            "clause",
            baseline=True,
        ),
        MethodKind(
            "oracle-refine-N", "N rounds that stop on the gold answer; marked as such everywhere", _oracle_refine
        ),
    )
}

METHODS: Mapping[str, str] = {name: kind.line for name, kind in KINDS.items()}
"""The evaluation's own methods, N from 1 up, and what each does. Presets are methods too, by their names."""

BASELINES = tuple(name.removesuffix("-N") for name, kind in KINDS.items() if kind.baseline)
"""Methods without feedback, by the name before N."""
