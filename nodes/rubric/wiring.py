"""Shared wiring of graphs with a rubric: judges, grounding, and the switch that turns refining off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..critics.critics import HumanCritic
from .critic import rubric_critic
from .grounding import Ground, Grounding
from .judges import JUDGE_PROMPT
from .preferences import Preferences, RememberingCritic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.language_models import BaseChatModel

    from .rubrics import Rubric

__all__ = ["rubric_wiring"]


def rubric_wiring(
    model: BaseChatModel, rubric: Rubric, options: Mapping[str, Any], *, grounds: Sequence[Ground] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments of `build_refine_graph` that wire a rubric, and the options that were none of its own.

    Args:
        model: Judges where nobody else is named.
        rubric: The dimensions.
        options: As `build_rubric_graph` takes them.
        grounds: What else is asked before the first draft.

    Raises:
        ValueError: An argument makes no sense.
        TypeError: A judge is not one, or `enabled` no bool.
    """
    rest = dict(options)
    enabled, store = rest.pop("enabled", True), rest.pop("store", None)
    if not isinstance(enabled, bool):
        raise TypeError(f"enabled must be True or False, not {enabled!r}")
    critics: Sequence[Any] = rest.pop("critics", None) or ()
    judge, prompt = rest.pop("judge", None), rest.pop("judge_prompt", JUDGE_PROMPT)
    own = {name: rest.pop(name) for name in OWN if name in rest}
    critic = rubric_critic(rubric, judge=model if judge is None else judge, prompt=prompt, **own)
    asked = [critic, *(_remembering(one) if store is not None else one for one in critics)]
    found = [*grounds, *([Preferences()] if store is not None else [])]
    wiring: dict[str, Any] = {"critics": asked if enabled else [], "store": store}
    if found:
        wiring["prepare"] = Grounding(*found, after=rest.pop("prepare", None))
    return (wiring if enabled else {**wiring, "check": _at_once}), rest


OWN = ("judges", "vote", "together", "threshold", "adaptive", "cache")
"""Options that `rubric_critic` takes as they are."""


def _remembering(critic: Any) -> Any:
    return RememberingCritic(critic.name) if type(critic) is HumanCritic else critic


def _at_once(state: Mapping[str, Any]) -> str:
    """Stop after the first draft, whatever rounds the limits allow."""
    return "max_rounds"
