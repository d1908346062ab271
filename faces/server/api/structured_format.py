"""Structured output as OpenAI's clients ask for it: a JSON Schema becomes a verifier of the run. Internal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ....nodes.critics.structured_replies import unfenced
from .chat_completions import RequestRefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..engine.assistants import Assistant

__all__ = ["StructuredFormat", "format_of"]

OBJECT = {"type": "object"}


class StructuredFormat:
    """The form that an answer must have.

    Args:
        schema: Its JSON Schema.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = schema
        self._spec = f"json_schema:{json.dumps(schema, ensure_ascii=False)}"

    @property
    def instruction(self) -> str:
        """What the writer is told."""
        shown = json.dumps(self.schema, ensure_ascii=False)
        return (
            f"Reply with JSON that fits this JSON Schema, and with nothing else: no fence, no words around it.\n{shown}"
        )

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
        from ....nodes.verify.verifiers import verifier

        text = unfenced(answer).strip()
        critique = verifier(self._spec)("", text)
        if critique is not None and critique.accepted:
            return text, None
        why = "" if critique is None else f": {critique.text[:500]}"
        return None, f"no draft fits the schema that was asked for{why}"


def format_of(given: Mapping[str, Any] | None, *, param: str) -> StructuredFormat | None:
    """Return the form that a request asks for: `response_format` of chat completions, or `text.format`; `None`: text.

    Raises:
        RequestRefusedError: It is none.
    """
    kind = (given or {"type": "text"}).get("type")
    if given is None or kind == "text":
        return None
    if kind == "json_object":
        return StructuredFormat(OBJECT)
    held = given.get("json_schema", given)
    schema = held.get("schema") if isinstance(held, dict) else None
    if kind != "json_schema" or not isinstance(schema, dict):
        raise RequestRefusedError(f"{param} is text, json_object, or json_schema with a schema", param=param)
    return StructuredFormat(schema)
