"""Tool use as a score: which of the wanted tools an agent called for its answer. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...state.critique import Critic, Critique
from ...state.summary import current_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...state.events import Event

__all__ = ["uses_tools"]


def uses_tools(*names: str) -> Critic:
    """Return a critic that scores the share of these tools that an agent called without an error, and wants all.

    It reads the steps of the current task, so it is for `RefineMiddleware`, whose agent can call what is missing, and
    for `build_agent_graph` where `refine="base"` has the base do so; else that has called its tools once.

    Raises:
        ValueError: No tool is named, or one is blank.
    """
    wanted = list(dict.fromkeys(names))
    if not wanted or not all(isinstance(name, str) and name.strip() for name in wanted):
        raise ValueError(f"uses_tools takes the names of tools, not {names!r}")

    def judge(task: str, draft: str, history: Sequence[Event], /) -> Critique:
        steps = [step for event in current_run(history) for step in event.get("steps", ())]
        results = [step for step in steps if step["step"] == "tool_result"]
        worked = {step["tool"] for step in results if step.get("status") != "error"}
        failed = {step["tool"] for step in results} - worked
        missing = [f"{name} (it failed)" if name in failed else name for name in wanted if name not in worked]
        text = f"These tools were not called with success: {', '.join(missing)}." if missing else ""
        return Critique(text, accepted=not missing, score=1 - len(missing) / len(wanted))

    judge.__name__ = "uses_tools"
    return judge
