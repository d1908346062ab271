"""Critics as the loop asks them: named, ranked, cheapest first. Internal."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...state.critique import Critique, Verifier
from ..human import HumanCritic, human_critic
from .model_critic import CRITIC_PROMPT, VERDICT_PROMPT, ModelCritic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.language_models import BaseChatModel

    from ...state.events import Event

__all__ = [
    "CALLABLE",
    "CRITIC_PROMPT",
    "VERDICT_PROMPT",
    "HumanCritic",
    "ModelCritic",
    "NamedCritic",
    "VerifierCritic",
    "human_critic",
    "in_order",
    "model_critic",
    "name_critics",
    "name_of",
    "read_critiques",
    "verifier_critic",
]

VERIFIER, CALIBRATED, CALLABLE, OTHER_MODEL, SELF, HUMAN = range(6)
"""Ranks, cheapest first."""


model_critic = ModelCritic
"""A critic that asks a model."""


@dataclass(frozen=True)
class VerifierCritic:
    """A verifier in the role of a critic."""

    verifier: Verifier
    name: str
    oracle: bool = False
    wants: str = ""
    """What it wants of a draft, where the verifier itself does not say it."""

    def __call__(self, task: str, draft: str, history: Sequence[Event], /) -> Critique | list[Critique]:
        """Check the draft; the history plays no part. An empty list where the verifier can't tell."""
        critique = self.verifier(task, draft)
        if critique is None:
            return []
        if not isinstance(critique, Critique):
            raise TypeError(f"the verifier {self.name!r} must return a Critique or None, not {critique!r}")
        if critique.score is None and critique.accepted is not None:
            return replace(critique, score=float(critique.accepted))
        return critique


def verifier_critic(
    verifier: Verifier, *, name: str | None = None, oracle: bool = False, wants: str = ""
) -> VerifierCritic:
    """Return a critic made from a program that checks. It is asked first, and decides.

    Args:
        verifier: `(task, draft) -> Critique`, pure. A critique without a score counts 1 when accepted, else 0. `None`
            says that it can't tell: the other critics are then asked.
        name: How events name it; default: the function's own name.
        oracle: The verifier knows the gold answer: every result that it touches says so.
        wants: What it wants, as a sentence about the draft: "It rhymes." Writers are told it with the task. Default:
            what a verifier of redraft's says of itself, else the first line of the function's docstring.

    Raises:
        TypeError: At build: the verifier is async.

    Example:
        >>> from redraft import Critique, verifier_critic
        >>> def short(task: str, draft: str) -> Critique:
        ...     return Critique("At most 20 characters.", accepted=len(draft) <= 20)
        >>> critic = verifier_critic(short)
        >>> critic("Write a title.", "Rain on a roof", []).accepted
        True
    """
    if inspect.iscoroutinefunction(verifier):
        raise TypeError("a verifier is a plain function; what must await something is a critic, (task, draft, history)")
    oracle = oracle or bool(getattr(verifier, "oracle", False))
    return VerifierCritic(verifier, name or name_of(verifier), oracle, wants)


@dataclass(frozen=True)
class NamedCritic:
    """A critic with its name and rank in the loop."""

    name: str
    call: Any
    rank: int
    takes_state: bool = False
    """It stands in for the whole feedback node: called with the state, it may return several critiques."""
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
    def yields(self) -> bool:
        """True where it is asked only if no verifier and no calibrated judge decided."""
        return self.rank in {CALIBRATED, CALLABLE, OTHER_MODEL, SELF} and not self.requirements

    @cached_property
    def uncalibrated(self) -> bool:
        """True for the model that judges its own drafts."""
        return self.rank == SELF

    @cached_property
    def oracle(self) -> bool:
        return bool(getattr(self.call, "oracle", False))


def name_critics(critics: Sequence[Any], *, model: BaseChatModel | None) -> list[NamedCritic]:
    """Return the critics ranked and with names that differ.

    Args:
        critics: Critics as a user gives them.
        model: The model that writes the drafts: a critic on it is `self`.

    Raises:
        TypeError: One is not callable.
    """
    named: list[NamedCritic] = []
    taken: dict[str, int] = {}
    for critic in critics:
        if not callable(critic) or not _takes_three(critic):
            raise TypeError(
                f"a critic is a callable (task, draft, history) -> Critique, not {critic!r}; "
                "a check of (task, draft) becomes one with verifier_critic(…), a model with model_critic(…)"
            )
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
    """Return the result of a critic as critiques.

    Raises:
        TypeError: It is neither a Critique, a mapping with its fields, nor a list of these.
    """
    critiques = []
    for one in result if isinstance(result, list | tuple) else [result]:
        critique = Critique(**one) if isinstance(one, dict) and "text" in one else one
        if not isinstance(critique, Critique):
            raise TypeError(f"the critic {by!r} must return a Critique, not {one!r}")
        critiques.append(critique)
    return critiques


def in_order(critics: Sequence[NamedCritic]) -> list[NamedCritic]:
    """Return the critics cheapest first: verifiers, calibrated judges, functions, models, the writer itself, people."""
    return sorted(critics, key=lambda critic: critic.rank)


def _takes_three(critic: Any) -> bool:
    try:
        inspect.signature(critic).bind("task", "draft", ())
    except TypeError:
        return False
    except ValueError:  # a builtin without a signature
        return True
    return True


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
