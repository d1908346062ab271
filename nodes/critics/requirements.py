"""Who tells if a draft meets a standing requirement: its own verifiers, or a judge that is asked about it. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...state.summary import summary_of
from ..writing.standing import known_verifier
from .critics import VERIFIER, NamedCritic, VerifierCritic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...state.critique import Critique, Verifier
    from ...state.events import Event
    from ...state.summary import Attempt

__all__ = ["about_untold", "own_checks"]


def own_checks(events: Sequence[Event]) -> list[NamedCritic]:
    """Return the verifiers that standing requirements have of their own, each once."""
    summary = summary_of(events)
    texts: dict[str, list[str]] = {}
    for text in summary.standing:
        for name in summary.asked[text].get("verifiers", ()):
            texts.setdefault(name, []).append(text)
    return [
        NamedCritic(name, VerifierCritic(_looked_up(name), name), VERIFIER, requirements=tuple(told))
        for name, told in texts.items()
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
