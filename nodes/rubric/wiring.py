"""What graphs with a rubric share: who is asked, what is known beforehand, and how refining is switched off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..critics import HumanCritic
from .grounding import Ground, Grounding
from .preferences import Preferences, RememberingCritic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langgraph.store.base import BaseStore

    from .critic import RubricCritic

__all__ = ["rubric_wiring"]


def rubric_wiring(
    critic: RubricCritic,
    *,
    critics: Sequence[Any] = (),
    enabled: bool = True,
    store: BaseStore | None = None,
    grounds: Sequence[Ground] = (),
) -> dict[str, Any]:
    """Return the arguments of `build_refine_graph` that wire a rubric.

    Args:
        critic: The rubric.
        critics: Asked beside it. Where there is a store, what a person says is kept there.
        enabled: `False` answers with the first draft, judged by nobody.
        store: Where preferences are kept and looked up.
        grounds: What else is asked before the first draft.
    """
    asked = [critic, *(_remembering(one) if store is not None else one for one in critics)]
    found = [*grounds, *([Preferences()] if store is not None else [])]
    wiring: dict[str, Any] = {"critics": asked if enabled else [], "store": store}
    if found:
        wiring["prepare"] = Grounding(*found)
    return wiring if enabled else {**wiring, "check": _at_once}


def _remembering(critic: Any) -> Any:
    return RememberingCritic(critic.name) if type(critic) is HumanCritic else critic


def _at_once(state: Mapping[str, Any]) -> str:
    """Stop after the first draft, whatever rounds the limits allow."""
    return "max_rounds"
