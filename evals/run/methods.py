"""Methods to compare: baselines, and refining judged by the model, a program or the gold answer. Internal."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.runnables import Runnable

from ...graphs.loop import RefineGraph, build_refine_graph
from ...graphs.preset import Preset
from ...graphs.registry import build_preset, find_preset, registered
from ...nodes.critics.critics import model_critic, verifier_critic
from ...nodes.fingerprint import OF_ALL
from ...nodes.writing.adding_words import CLAUSE_PROMPT, joined
from ...nodes.writing.prompt_injection import fenced_messages
from ...nodes.writing.prompts import chat_prompt, reseeded
from ...nodes.writing.sampling import sampled
from ...nodes.writing.writers import AdaptiveWriter
from ...state.critique import Critique
from ...state.dual import Do, DualCallable
from ...state.stopping import rounds_allowed
from ...state.summary import latest_draft, open_drafts, rounds
from ...state.threads.kind import kind_of
from ..datasets.scorers import Kind
from .families import FAMILIES, Setup

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from langchain_core.language_models import BaseChatModel

    from ..datasets.dataset import Dataset, Problem

__all__ = [
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
    """The most revisions; `None`: as its preset has it."""
    oracle: bool
    """True if it knows the gold answers."""
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


class MethodKind(NamedTuple):
    """A method as it is declared."""

    name: str
    """`NAME-N` stands for `NAME-1` to `NAME-100`."""
    line: str
    """Its help, in a few words."""
    wire: Callable[[Setup], dict[str, Any]]
    """Returns the arguments of its builder; `rounds` is its limit."""
    needs: str = ""
    """The field or prompt of `Family` that it can't do without."""
    baseline: bool = False
    """Nobody gives feedback."""
    preset: bool = False
    """Built by the preset of its name, to which `wire` gives what suits the kind; else by `build_refine_graph`."""


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
        if isinstance(declared, MethodKind) and declared.needs and FAMILIES[kind].lacks(declared.needs):
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
        options: Everything else that `build_refine_graph`, or the preset, takes (`prices`, `checkpointer`);
            `checkpoints` is `"round"` unless given.

    Raises:
        ValueError: As `check_methods`, `oracle-refine-N` without an oracle, or a prompt of `prompts` lacks a variable
            of the one that it stands in for, or uses another.
    """
    check_methods([name], kind)
    options.setdefault("checkpoints", "round")
    declared, count = find_method(name)
    if isinstance(declared, Preset):
        judges = [] if critic is None else [critic]
        return preset_method(name, build_preset(name, model, critics=judges, **options))
    judge = model if critic is None else critic
    setup = Setup(FAMILIES[kind], count, model, judge, prompts or {}, oracle)
    wiring = declared.wire(setup)
    limits = {"max_rounds": wiring.pop("rounds")}
    build: Any = partial(build_preset, name) if declared.preset else partial(build_refine_graph, name=name)
    graph = build(model, limits=limits, **{**wiring, **options})
    return Method(name, graph, limits["max_rounds"], declared is KINDS["oracle-refine-N"], setup.prompts)


def preset_method(name: str, graph: Any) -> Method:
    """Return a preset's graph as a method: its fingerprint tells it from one with other prompts, models or options."""
    parts = {key: value for key, value in kind_of(graph).fingerprint.items() if key not in OF_ALL}
    return Method(name, graph, None, False, {"fingerprint": json.dumps(parts, sort_keys=True)})


def knows_gold(data: Dataset) -> Callable[[str, str], bool]:
    """Return a judge by the gold answer of a task, for `oracle-refine-N`; it says yes or no only."""
    # By task, since that is all a critic is told; two problems may have the same one.
    by_task: dict[str, list[Problem]] = {}
    for problem in data.problems:
        by_task.setdefault(problem.task, []).append(problem)

    def right(task: str, draft: str) -> bool:
        return any(data.is_correct(problem, draft) for problem in by_task.get(task, ()))

    return right


def _zero_shot(setup: Setup) -> dict[str, Any]:
    return {"generate_prompt": setup.prompt("generate"), "rounds": 0}


def _few_shot(setup: Setup) -> dict[str, Any]:
    return {"generate_prompt": setup.prompt("generate", setup.family.examples), "rounds": 0}


def _majority(setup: Setup) -> dict[str, Any]:
    return {**_zero_shot(setup), "read_answer": setup.family.answer}


def _best_of(setup: Setup) -> dict[str, Any]:
    fresh = setup.sampler(setup.prompt("generate"), what="generate_prompt")
    # N samples are a draft and N - 1 revisions, each written from the task alone.
    return {
        "generate": fresh,
        "refine": fresh,
        "critics": _programs(setup),
        "check": until_accepted,
        "rounds": setup.count - 1,
    }


def _unjudged(setup: Setup) -> dict[str, Any]:
    """Wire a baseline of N further calls: nobody judges, so the last answer counts."""
    return {
        "generate_prompt": setup.prompt("generate"),
        "critics": [],
        "keep": "last",
        "check": until_accepted,
        "rounds": setup.count,
    }


def _blind(setup: Setup) -> dict[str, Any]:
    wiring = _unjudged(setup)
    return {**wiring, "refine": setup.sampler(setup.prompt("refine", BLIND_PROMPT), what="blind prompt", keep="last")}


def _clauses(setup: Setup) -> dict[str, Any]:
    wiring = _unjudged(setup)
    return {**wiring, "refine": ClausesInTurn(sampled(setup.model), setup.prompt("clause"))}


def _refining(setup: Setup, **options: Any) -> dict[str, Any]:
    first = setup.prompt("generate")
    return {
        "generate_prompt": first,
        "refine": setup.sampler(setup.prompt("refine"), **options),
        "rounds": setup.count,
    }


def _oracle_refine(setup: Setup) -> dict[str, Any]:
    if setup.oracle is None:
        raise ValueError("oracle-refine needs the gold answers: give oracle=")
    return {**_refining(setup), "critics": [verifier_critic(_gold(setup.oracle), name="gold", oracle=True)]}


def _programs(setup: Setup) -> Sequence[Any]:
    return setup.family.programs(setup) if setup.family.programs else []


def _program(setup: Setup) -> dict[str, Any]:
    wiring = _refining(setup)
    if setup.family.reviser is not None:
        wiring["refine"] = setup.family.reviser(setup)
    return {**wiring, "critics": _programs(setup)}


def _adaptive(setup: Setup) -> dict[str, Any]:
    family, wiring = setup.family, _program(setup)
    writers = {
        "sample": setup.sampler(wiring["generate_prompt"], what="generate_prompt"),
        "rewrite": setup.sampler(setup.prompts["refine"], memory="last"),
        "revise": family.adopting(setup) if family.adopting else wiring["refine"],
        "repair": wiring["refine"],
    }
    refine = AdaptiveWriter({arm.name: writers[arm.name] for arm in family.arms}, family.arms)
    return {**wiring, "refine": refine, "keep": "vote", "rounds": family.adaptive_rounds}


def _self_refine(setup: Setup) -> dict[str, Any]:
    # The published method revises the last draft, and answers with it.
    wiring = {**_refining(setup, keep="last"), "keep": "last"}
    if not isinstance(setup.judge, Runnable):
        return {**wiring, "critics": [setup.judge]}
    judging: Any = partial(model_critic, setup.judge, **setup.family.judging)  # type: ignore[arg-type]
    # The default prompt depends on whether the judge has structured output.
    default: Any = judging(prompt=setup.family.prompts.get("critic")).templates[0].messages[0]
    return {**wiring, "critics": [judging(prompt=setup.prompt("critic", default.prompt.template))]}


def until_accepted(state: Mapping[str, Any]) -> str | None:
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
        listed = ", ".join([*words, *words][start : start + self.at_once])
        messages = fenced_messages(self.clause, {"words": listed, "draft": text})
        model = reseeded(self.model, rounds(events) + 1, messages)
        reply = yield Do(model.invoke, model.ainvoke, (messages,))
        return joined(text, reply)


BLIND_PROMPT = """\
{task}

Here is an earlier answer, which may or may not be right:
{draft}

Think about the task once more, and answer it anew. Reply in the same form."""

KINDS: Mapping[str, MethodKind] = {
    kind.name: kind
    for kind in (
        MethodKind("zero-shot", "one call", _zero_shot, baseline=True, preset=True),
        MethodKind(
            "few-shot", "one call after worked examples (word problems only)", _few_shot, "examples", True, preset=True
        ),
        MethodKind(
            "majority-N",
            "N samples and a vote (numbers and exact answers only)",
            _majority,
            "answer",
            True,
            preset=True,
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
