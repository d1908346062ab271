"""Critics as the loop asks them: named, ranked, cheapest first, with those of types and requirements. Internal."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...state.critique import AnyVerifier, Critique
from ...state.dual import DualCallable
from ...state.summary import Attempt, summary_of
from ...state.typed_answer import ANSWER_TYPE
from ..human import HumanCritic, human_critic
from ..runtime.killable import off_loop
from ..verify.text_verifiers import wish
from ..verify.verifiers import stored_verifier
from ..writing.prompts import VARIABLES, known_verifier, refuse_unknown
from .model_critic import CRITIC_PROMPT, VERDICT_PROMPT, ModelCritic

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from langchain_core.language_models import BaseChatModel

    from ...state.critique import Verifier
    from ...state.events import Event
    from ..verify.answer_type import AnswerType

__all__ = [
    "CALLABLE",
    "CRITIC_PROMPT",
    "VERDICT_PROMPT",
    "HumanCritic",
    "ModelCritic",
    "NamedCritic",
    "VerifierCritic",
    "about_untold",
    "human_critic",
    "in_order",
    "model_critic",
    "name_critics",
    "name_of",
    "own_checks",
    "read_critiques",
    "takes",
    "takes_state",
    "typed_judges",
    "verifier_critic",
]

VERIFIER, CALIBRATED, CALLABLE, OTHER_MODEL, SELF, HUMAN = range(6)
"""Ranks, cheapest first."""


model_critic = ModelCritic
"""A critic that asks a model."""


@dataclass(frozen=True)
class VerifierCritic:
    """A verifier in the role of a critic."""

    verifier: AnyVerifier
    name: str
    oracle: bool = False
    wants: str = ""
    """What it wants of a draft, where the verifier itself does not say it."""

    @cached_property
    def takes_state(self) -> bool:
        return takes_state(self.verifier)

    def __call__(
        self, task: str, draft: str, history: Sequence[Event], /, state: Mapping[str, Any] | None = None
    ) -> Critique | list[Critique]:
        """Check the draft; the history plays no part. An empty list where the verifier can't tell."""
        own: dict[str, Any] = {"state": state or {}} if self.takes_state else {}
        verdict: Any = self.verifier(task, draft, **own)
        if verdict is None:
            return []
        wants = self.wants or wish(self.verifier)
        critique = _critique_of(verdict, mend=f"The draft does not pass {self.name!r}{f': {wants}' if wants else ''}")
        if critique is None:
            raise TypeError(f"the verifier {self.name!r} must return {VERDICTS}, not {verdict!r}")
        if critique.score is None and critique.accepted is not None:
            return replace(critique, score=float(critique.accepted))
        return critique

    async def acall(
        self, task: str, draft: str, history: Sequence[Event], /, state: Mapping[str, Any] | None = None
    ) -> Critique | list[Critique]:
        """Check it beside the event loop: with an argument of a caller's it may take long."""
        return await off_loop(self, task, draft, history, state)


def _critique_of(verdict: Any, *, mend: str) -> Critique | None:
    """Return the critique that a truth value or a score stands for, also one with a text; `None` where it is neither.

    Args:
        verdict: What a verifier, or a function in the critics' place, returned.
        mend: The text of a rejection that has none.
    """
    if isinstance(verdict, Critique):
        return verdict
    said, text = verdict if _is_pair(verdict) else (verdict, "")
    try:
        score = math.nan if isinstance(said, str) else float(said)  # also of numpy's
    except (TypeError, ValueError):
        return None
    return Critique((text or mend) if score < 1 else text, score == 1, score) if 0 <= score <= 1 else None


def _is_pair(verdict: Any) -> bool:
    return isinstance(verdict, tuple) and len(verdict) == 2 and isinstance(verdict[1], str)


def verifier_critic(
    verifier: AnyVerifier | str, *, name: str | None = None, oracle: bool = False, wants: str = ""
) -> VerifierCritic:
    """Return a critic made from a program that checks. It is asked first, and decides.

    Args:
        verifier: `(task, draft)`, pure; one with a parameter `state` is given the state too. It returns `True` or
            `False`, a score from 0 to 1 (1 passes), either also with what to mend (`(False, "Name the river.")`), or a
            `Critique`, which without a score counts 1 when accepted, else 0. `None` says that it can't tell: the other
            critics are then asked. Anything else raises TypeError at its first call. Or a text, as `--verify` takes
            it: `"uses_words:river,lamp"`.
        name: How events name it; default: the function's own name.
        oracle: The verifier knows the gold answer: every result that it touches says so.
        wants: What it wants, as a sentence about the draft: "It rhymes." Writers are told it with the task. Default:
            what a verifier of redraft's says of itself, else the first line of the function's docstring.

    Raises:
        TypeError: At build: the verifier is async, or takes other arguments.
        ValueError: At build: a text names no verifier.

    Example:
        >>> from redraft import verifier_critic
        >>> def short(task: str, draft: str) -> tuple[bool, str]:
        ...     return len(draft) <= 20, "At most 20 characters."
        >>> critic = verifier_critic(short)
        >>> critic("Write a title.", "Rain on a roof", []).accepted
        True
    """
    if isinstance(verifier, str):
        verifier = stored_verifier(verifier)
    if inspect.iscoroutinefunction(verifier):
        raise TypeError("a verifier is a plain function; what must await something is a critic, (task, draft, history)")
    if not takes(verifier, "task", "draft"):
        raise TypeError(f"a verifier is a callable (task, draft), which may take state too, not {verifier!r}")
    oracle = oracle or bool(getattr(verifier, "oracle", False))
    return VerifierCritic(verifier, name or name_of(verifier), oracle, wants)


@dataclass(frozen=True)
class NamedCritic:
    """A critic with its name and rank in the loop."""

    name: str
    call: Any
    rank: int
    takes_state: bool = False
    """It stands in for the whole feedback node: called with the state, whose `draft` it judges, it may return several
    critiques."""
    checks: tuple[NamedCritic, ...] = ()
    """Of a person: the verifiers, which check what the person writes."""
    requirements: tuple[str, ...] = ()
    """It is asked about these alone, and not about the task."""

    @cached_property
    def verifier(self) -> bool:
        return self.rank == VERIFIER

    @cached_property
    def human(self) -> bool:
        return self.rank == HUMAN

    @cached_property
    def named_state(self) -> bool:
        """True where it is given the state beside the usual arguments."""
        return takes_state(self.call)

    @cached_property
    def yields(self) -> bool:
        """True where it is asked only if no verifier and no calibrated judge decided."""
        return self.rank in {CALIBRATED, CALLABLE, OTHER_MODEL, SELF} and not self.requirements

    @cached_property
    def is_model(self) -> bool:
        return self.rank in {OTHER_MODEL, SELF} and not self.takes_state and not self.requirements

    @cached_property
    def uncalibrated(self) -> bool:
        """True for the model that judges its own drafts."""
        return self.rank == SELF

    @cached_property
    def oracle(self) -> bool:
        return bool(getattr(self.call, "oracle", False))


def name_critics(
    critics: Sequence[Any], *, model: BaseChatModel | None, own: Collection[str] = ()
) -> list[NamedCritic]:
    """Return the critics ranked and with names that differ.

    Args:
        critics: Critics as a user gives them.
        model: The model that writes the drafts: a critic on it is `self`.
        own: Keys of the state that their prompts may name.

    Raises:
        TypeError: One is not callable.
        ValueError: A prompt uses unknown variables.
    """
    named: list[NamedCritic] = []
    taken: dict[str, int] = {}
    for critic in critics:
        if not takes(critic, "task", "draft", ()):
            raise TypeError(
                f"a critic is a callable (task, draft, history) -> Critique, not {critic!r}; "
                "a check of (task, draft) becomes one with verifier_critic(…), a model with model_critic(…)"
            )
        for part in (critic, *getattr(critic, "critics", ())):
            for template in getattr(part, "templates", ()):
                what = f"{getattr(part, 'what', 'prompt')} of the critic {name_of(part)!r}"
                refuse_unknown(template, (*VARIABLES, *own), what=what)
        rank = _rank(critic, model)
        name = "self" if rank == SELF and not critic.given_name else name_of(critic)
        taken[name] = taken.get(name, 0) + 1
        name = name if taken[name] == 1 else f"{name}-{taken[name]}"
        # A question names who is asked: of two people with one name, an answer would be taken for either's.
        call = replace(critic, name=name) if rank == HUMAN and critic.name != name else critic
        named.append(NamedCritic(name, call, rank))
    checks = tuple(one for one in named if one.verifier)
    return [replace(one, checks=checks) if one.human else one for one in named]


def read_critiques(result: Any, *, by: str) -> list[Critique]:
    """Return the result of a critic, or of a function in the critics' place, as critiques.

    Raises:
        TypeError: It is neither a Critique, a mapping with its fields, a verdict as a verifier's, nor a list of these.
    """
    critiques = []
    for one in result if isinstance(result, list | tuple) and not _is_pair(result) else [result]:
        verdict = Critique(**one) if isinstance(one, dict) and "text" in one else one
        critique = _critique_of(verdict, mend=f"The draft does not pass {by!r}")
        if critique is None:
            raise TypeError(f"the critic {by!r} must return {VERDICTS.rpartition(' or ')[0]}, not {one!r}")
        critiques.append(critique)
    return critiques


def in_order(critics: Sequence[NamedCritic]) -> list[NamedCritic]:
    """Return the critics cheapest first: verifiers, calibrated judges, functions, models, the writer itself, people."""
    return sorted(critics, key=lambda critic: critic.rank)


def takes_state(target: Any) -> bool:
    """Return True if a critic or verifier has a parameter `state`."""
    return "state" in getattr(_signature(target), "parameters", ())


def takes(target: Any, *arguments: Any) -> bool:
    """Return True if something can be called with these arguments, and the state by its name where it takes that."""
    signature = _signature(target)
    if signature is None:  # as of a builtin
        return callable(target)
    places = [*signature.parameters][len(arguments) :]
    try:
        signature.bind(*arguments, **({"state": {}} if "state" in places else {}))
    except TypeError:
        return False
    return True


def _signature(target: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(target.logic if isinstance(target, DualCallable) else target)
    except (TypeError, ValueError):
        return None


VERDICTS = "True, False, a score from 0 to 1, (False, 'what to mend'), a Critique or None"
"""What a verifier may return, in the words of an error."""


def _rank(critic: Any, model: BaseChatModel | None) -> int:
    if isinstance(critic, VerifierCritic):
        return VERIFIER
    if isinstance(critic, HumanCritic):
        return HUMAN
    if getattr(critic, "calibrated", False) is True:
        return CALIBRATED
    if isinstance(critic, ModelCritic):
        return SELF if critic.model is model else OTHER_MODEL
    return CALLABLE


def name_of(target: Any) -> str:
    """Return the name of a callable or an object."""
    return str(getattr(target, "name", None) or getattr(target, "__name__", None) or type(target).__name__)


def typed_judges(answer: AnswerType, judges: Sequence[Any]) -> list[Any]:
    """Return judges that are given the object where they take one, behind the program that looks at the type.

    Args:
        answer: The type.
        judges: Who judges, in order.
    """
    return [_type_critic(answer, judges), *(_given_object(answer, judge) for judge in judges)]


def _type_critic(answer: AnswerType, others: Sequence[Any]) -> VerifierCritic:
    """Return the critic that names the fields in which a draft is not of its type.

    Args:
        answer: The type.
        others: Who else judges: where some are no verifiers, it leaves what fits to them.
    """
    decides = all(isinstance(one, VerifierCritic) for one in others)

    def check(task: str, draft: str, /) -> Critique | None:
        critique = answer.verifier(task, draft)
        if critique is None or critique.accepted:
            return critique if decides else None
        # Below what one that fits has by this alone, whatever the others find in either.
        return replace(critique, score=(critique.score or 0.0) / (1 + len(others)) if decides else 0.0)

    check.__name__, check.wants = ANSWER_TYPE, answer.wants  # type: ignore[attr-defined]
    return VerifierCritic(check, ANSWER_TYPE)


def _given_object(answer: AnswerType, judge: Any) -> Any:
    """Return a judge that is given the object where it takes one."""
    if isinstance(judge, HumanCritic):
        return replace(judge, answer=answer)
    if isinstance(judge, VerifierCritic):
        return replace(judge, verifier=answer.taken(judge.verifier))
    return answer.taken(judge, without=())


def own_checks(events: Sequence[Event]) -> list[NamedCritic]:
    """Return the verifiers that standing requirements have of their own, each once."""
    summary = summary_of(events)
    texts: dict[str, list[str]] = {}
    for text in summary.standing:
        for name in summary.asked[text].get("verifiers", ()):
            texts.setdefault(name, []).append(text)
    return [
        NamedCritic(name, VerifierCritic(_looked_up(name), name), VERIFIER, requirements=tuple(texts_of))
        for name, texts_of in texts.items()
    ]


def _looked_up(name: str) -> Verifier:
    """Return a verifier that is looked up when it is asked: a name that nobody knows here fails like any other."""

    def check(task: str, draft: str, /) -> Critique | None:
        return known_verifier(name)(task, draft)

    return check


def about_untold(judge: NamedCritic, draft: Attempt, *, asks: bool) -> list[NamedCritic]:
    """Return the judge as it is asked about each requirement of which nobody has said whether a draft meets it.

    Only of a draft that is right apart from them; and only a judge that can be asked about one.
    """
    ask = getattr(judge.call, "about", None)
    if ask is None or not asks or judge.requirements or not draft.agreed:
        return []
    return [
        NamedCritic(f"{judge.name}: {' '.join(text.split())}", ask(text), judge.rank, requirements=(text,))
        for text in draft.unmet
        if not draft.told_of(text)
    ]
