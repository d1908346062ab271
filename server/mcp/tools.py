"""MCP tools: each served preset with typed arguments, and the type of what all of them return. Internal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Optional

from mcp import types
from pydantic import BaseModel, Field, create_model

from ..engine.assistants import Assistant
from ..engine.call_options import MOST, call_options
from ..settings import Settings

__all__ = ["ANSWER", "RESUME", "PresetTool", "ToolResult", "listed", "preset_tools"]


class ToolResult(BaseModel, extra="forbid"):
    """The result of every tool."""

    thread_id: str = Field(description="The thread of the run: it can be gone on with, read, replayed and forked.")
    run_id: str
    status: Literal["finished", "waiting"] = Field(description="waiting: a person is asked; see question.")
    answer: str = Field(description="The best draft, accepted or not.")
    stop_reason: str | None = Field(
        description="Why the run ended: accepted, max_rounds, no_progress, undecided, human, failed, token_budget, "
        "cost_budget, time_budget, call_budget or quota; null while it waits."
    )
    accepted_by: str | None = Field(description="Who accepted the answer; null: nobody, so that it may be wrong.")
    score: float | None = Field(description="Of the answer, 0 to 1; null where nobody scored it.")
    rounds: int = Field(description="How often the draft was revised.")
    usage: dict[str, int | float | None] = Field(description="Tokens, calls, dollars (null: not known) and seconds.")
    question: dict[str, Any] | None = Field(
        None, description="What the person is asked: the draft, what critics said of it, and what can be replied."
    )


class Arguments(BaseModel, extra="forbid", strict=True):
    """The arguments that every preset takes."""

    draft: str | None = Field(None, description="A first draft of yours: none is written, and this one is judged.")
    thread_id: str | None = Field(None, description="A thread of an earlier call that gets this task as its next.")
    patience: int | None = Field(None, ge=1, description="Stop after so many rounds without a better score.")
    max_tokens: int | None = Field(None, ge=1, description="Budget of tokens, all model calls together.")
    max_cost_usd: float | None = Field(None, gt=0, description="Budget of US dollars.")
    max_seconds: float | None = Field(None, gt=0, description="Budget of seconds spent in calls.")


LIMITS = ("max_rounds", "patience", "max_tokens", "max_cost_usd", "max_seconds")
INPUTS = ("task", "draft", "top_k", "confidence_threshold")


class Answer(BaseModel, extra="forbid", strict=True):
    """A person's answer."""

    thread_id: str = Field(description="The thread that waits for a person.")
    action: Literal["accept", "edit", "feedback", "stop"] = Field(
        description="accept the draft; edit: text takes its place; feedback: text says what to change; stop the run."
    )
    text: str | None = Field(None, description="The whole new text, what to change, or why.")
    score: float | None = Field(None, ge=0, le=1, description="Of the draft.")


class Resumed(BaseModel, extra="forbid", strict=True):
    """A thread that goes on."""

    thread_id: str = Field(description="A thread whose run was cancelled, failed or ran out of a budget.")


@dataclass(frozen=True)
class PresetTool:
    """A preset as a tool."""

    assistant: Assistant
    arguments: type[BaseModel]
    tool: types.Tool

    def request(self, arguments: BaseModel) -> dict[str, Any]:
        """Return the fields of a `Submission` for checked arguments."""
        set_by_caller = {name: value for name, value in arguments.model_dump(exclude_unset=True).items()
                         if value is not None}  # fmt: skip
        limits = {name: set_by_caller.pop(name) for name in LIMITS if name in set_by_caller}
        inputs = {name: set_by_caller.pop(name) for name in INPUTS if name in set_by_caller}
        return {
            "assistant": self.assistant.id,
            "input": {**inputs, **({"limits": limits} if limits else {})},
            "thread_id": set_by_caller.pop("thread_id", None),
            "model": set_by_caller.pop("model", None),
            "options": set_by_caller,
        }


def preset_tools(assistants: Mapping[str, Assistant], settings: Settings) -> dict[str, PresetTool]:
    """Return the tools by name: of every preset that is listed, but those whose own `human` option says the same."""
    tools: dict[str, PresetTool] = {}
    for assistant in assistants.values():
        name = assistant.served.tool if assistant.served.tool is not None else assistant.id
        if not name or not assistant.served.listed or assistant.options.get("human"):
            continue
        # A pipeline may have been given the name of a tool.
        name = f"pipeline-{name}" if name in (*tools, ANSWER, RESUME) else name
        arguments = _arguments(assistant, settings)
        tools[name] = PresetTool(assistant, arguments, _tool(name, assistant.served.line, arguments))
    return tools


def listed(tools: Mapping[str, PresetTool]) -> list[types.Tool]:
    """Return all tools as a client lists them."""
    return [
        *(tool.tool for tool in tools.values()),
        *(_tool(name, line, model) for name, (line, model) in OTHERS.items()),
    ]


ANSWER, RESUME = "answer", "resume"
OTHERS: Mapping[str, tuple[str, type[BaseModel]]] = {
    ANSWER: (
        "Answers what a thread asks a person, and goes on with it. The answer is the person's, not yours.",
        Answer,
    ),
    RESUME: ("Goes on with a thread where it stands.", Resumed),
}
"""The tools beside the presets, each with a sentence and its arguments."""


def _arguments(assistant: Assistant, settings: Settings) -> type[BaseModel]:
    rounds = f"Revisions at most; 0 judges the first draft only. Default: {min(3, settings.max_rounds)}."
    fields: dict[str, Any] = {
        "task": (str, Field(min_length=1, max_length=settings.max_task_characters, description="What is to be done.")),
        "max_rounds": (int | None, Field(None, ge=0, le=settings.max_rounds, description=rounds)),
    }
    if settings.models:
        named = (settings.model, *settings.models) if settings.model in settings.models else settings.models
        kind: Any = Literal[named]
        fields["model"] = (kind | None, Field(None, description="Another model than the server's own."))
    if assistant.served.documents:
        enough = "Score from which what was found will do."
        fields |= {
            "top_k": (int | None, Field(None, ge=1, le=MOST, description="Passages to find.")),
            "confidence_threshold": (float | None, Field(None, ge=0, le=1, description=enough)),
        }
    fields |= {
        name: (Optional[field.annotation], field)  # noqa: UP045
        for name, field in call_options(assistant, settings).model_fields.items()
    }
    return create_model("Arguments", __base__=Arguments, **fields)


def _tool(name: str, line: str, arguments: type[BaseModel]) -> types.Tool:
    return types.Tool(
        name=name,
        title=name.replace("-", " ").replace("_", " ").capitalize(),
        description=line,
        inputSchema=_schema(arguments),
        outputSchema=RESULT,
        annotations=types.ToolAnnotations(readOnlyHint=False, destructiveHint=False, idempotentHint=False),
    )


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of arguments; one that may be left out is of its type, and not of null besides."""
    schema = model.model_json_schema()
    for field in schema["properties"].values():
        field.pop("title", None)
        if kinds := [kind for kind in field.pop("anyOf", ()) if kind.get("type") != "null"]:
            field.update(kinds[0])
        if field.get("default", "") is None:
            del field["default"]
    return {name: part for name, part in schema.items() if name not in ("title", "description")}


RESULT = ToolResult.model_json_schema()
