"""OpenAI's structured output and the client's own tools, as options of a run. Internal.

A JSON Schema becomes a verifier of the run. Tools are offered to the base agent, and called by whoever asked.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ...nodes.critics.structured_replies import unfenced
from ...state.summary import current_run
from ..engine.call_options import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..engine.assistants import Assistant

__all__ = ["RequestRefusedError", "StructuredFormat", "call_item", "calls_in", "format_of", "functions_of"]


class RequestRefusedError(ValueError):
    """A request that asks for what can't be done.

    Args:
        message: What is wrong, and what would be right.
        param: The field of the request.
        code: OpenAI's name for it.
        status: The HTTP status.
    """

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.param = param
        self.code = code
        self.status = status


class StructuredFormat:
    """The form that an answer must have.

    Args:
        schema: Its JSON Schema.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        text = json.dumps(schema, ensure_ascii=False)
        self._spec = f"json_schema:{text}"
        self.instruction = (
            f"Reply with JSON that fits this JSON Schema, and with nothing else: no fence, no words around it.\n{text}"
        )
        """For the writer."""

    def options(self, assistant: Assistant, *, param: str) -> dict[str, Any]:
        """Return the options of the run whose drafts it decides on.

        Raises:
            RequestRefusedError: Programs do not judge the drafts of this workflow.
        """
        preset = assistant.preset
        if preset.no_verifiers or assistant.served.build is not None or assistant.served.documents:
            why = preset.no_verifiers or "its drafts are not judged by programs"
            raise RequestRefusedError(
                f"{param} is not supported by redraft-{assistant.id}: {why}", param=param, code="unsupported_parameter"
            )
        return {"verifiers": [self._spec]}

    def read(self, answer: str) -> tuple[str | None, str | None]:
        """Return an answer that fits, else why there is none: what doesn't fit is never given as if it did."""
        from ...nodes import verifier

        text = unfenced(answer).strip()
        critique = verifier(self._spec)("", text)
        if critique is not None and critique.accepted:
            return text, None
        why = "" if critique is None else f": {critique.text[:500]}"
        return None, f"no draft fits the schema that was asked for{why}"


def format_of(requested: Mapping[str, Any] | None, *, param: str) -> StructuredFormat | None:
    """Return the form that a request asks for: `response_format` of chat completions, or `text.format`; `None`: text.

    Raises:
        RequestRefusedError: It is none.
    """
    kind = (requested or {"type": "text"}).get("type")
    if requested is None or kind == "text":
        return None
    if kind == "json_object":
        return StructuredFormat({"type": "object"})
    nested = requested.get("json_schema", requested)
    schema = nested.get("schema") if isinstance(nested, dict) else None
    if kind != "json_schema" or not isinstance(schema, dict):
        raise RequestRefusedError(f"{param} is text, json_object, or json_schema with a schema", param=param)
    return StructuredFormat(schema)


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
    fields = tool.get("function", tool)
    function = {name: fields[name] for name in ("name", "description", "parameters") if fields.get(name) is not None}
    return {"type": "function", "function": function}


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


def call_item(call: Mapping[str, str]) -> dict[str, Any]:
    """Return a call of a client's tool as a message has it."""
    function = {"name": call["name"], "arguments": call["arguments"]}
    return {"id": call["id"], "type": "function", "function": function}
