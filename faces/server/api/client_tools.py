"""Tools of a caller: offered to the base agent, and called by whoever asked. Internal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ....state.summary import current_run
from ..engine.call_options import FUNCTIONS
from .chat_completions import RequestRefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..engine.assistants import Assistant

__all__ = ["calls_in", "functions_of"]


def functions_of(tools: Sequence[Any] | None, choice: Any, assistant: Assistant) -> dict[str, Any]:
    """Return the options of a run whose base agent is offered tools of its caller's.

    Raises:
        RequestRefusedError: One is no function, the workflow has no agent, or one must be called.
    """
    if not tools or choice == "none":
        return {}
    if FUNCTIONS not in {option.name for option in assistant.preset.options}:
        raise RequestRefusedError(
            f"tools is not supported by redraft-{assistant.id}: it writes texts; redraft-agent has a base agent that "
            "calls tools",
            param="tools",
            code="unsupported_parameter",
        )
    if choice not in (None, "auto"):
        raise RequestRefusedError("tool_choice is auto or none: the agent itself decides", param="tool_choice")
    return {FUNCTIONS: [json.dumps(_function(tool), ensure_ascii=False) for tool in tools]}


def _function(tool: Any) -> dict[str, Any]:
    """Return a tool as chat completions have it; the Responses API has its fields side by side."""
    if not isinstance(tool, dict) or tool.get("type") != "function":
        kind = tool.get("type") if isinstance(tool, dict) else tool
        raise RequestRefusedError(f"tools may be functions, not {kind!r:.40}", param="tools")
    held = tool.get("function", tool)
    found = {name: held[name] for name in ("name", "description", "parameters") if held.get(name) is not None}
    return {"type": "function", "function": found}


def calls_in(output: Mapping[str, Any], options: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the calls that a run ended with, for its caller to make: each with `id`, `name` and `arguments`."""
    offered = {json.loads(spec)["function"]["name"] for spec in options.get(FUNCTIONS, ())}
    last = next((event for event in reversed(current_run(output.get("events") or [])) if "steps" in event), None)
    if last is None or not last.get("incomplete"):
        return []
    done = {step.get("id") for step in last["steps"] if step["step"] == "tool_result"}
    waiting = [step for step in last["steps"] if step["step"] == "tool_call" and step["id"] not in done]
    return [
        {"id": step["id"], "name": step["tool"], "arguments": json.dumps(step["args"], ensure_ascii=False)}
        for step in waiting
        if step["tool"] in offered
    ]
