"""Responses: OpenAI's Responses API, requests as graph input and runs as its responses. Internal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from ...state.usage import NO_USAGE
from ..engine.runs import Run
from .openai_runs import ROLES, RequestRefusedError, StructuredFormat, call_item, calls_in, run_facts, unix_seconds
from .wire import RequestBody

__all__ = ["INSTRUCTIONS", "KEPT", "ResponseReply", "ResponseRequest", "messages_of", "response_id", "run_id_of"]

KEPT = "redraft_response"
"""Metadata of a run: what its response repeats of the request."""
INSTRUCTIONS = "instructions"
"""The id of the system message: those of one request are not carried over to the next."""
MOST_METADATA = 16


class _TextOptions(RequestBody):
    format: dict[str, Any] | None = None


class ResponseRequest(RequestBody):
    """The body of `POST /v1/responses`. What tunes one model call is ignored, as in chat completions."""

    model: str = Field(max_length=300)
    input: str | Annotated[list[dict[str, Any]], Field(min_length=1, max_length=1000)]
    instructions: str | None = None
    previous_response_id: str | None = Field(None, max_length=100)
    store: bool | None = True
    stream: bool | None = False
    text: _TextOptions | None = None
    metadata: dict[str, Annotated[str, Field(max_length=512)]] | None = Field(None, max_length=MOST_METADATA)
    limits: dict[str, Any] | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    background: bool | None = None
    conversation: str | dict[str, Any] | None = None
    prompt: dict[str, Any] | None = None

    def check_supported(self) -> None:
        """Refuse a request whose answer can't be given as it is asked for.

        Raises:
            RequestRefusedError: The request wants a conversation or a prompt of OpenAI's, or not to wait.
        """
        alternatives = {
            "background": "start a run of LangGraph's protocol for that: POST /threads/{thread_id}/runs",
            "conversation": "go on with previous_response_id",
            "prompt": "there are no stored prompts here",
        }
        for name, why in alternatives.items():
            if getattr(self, name):
                raise RequestRefusedError(f"{name} is not supported: {why}", param=name, code="unsupported_parameter")

    def kept(self) -> dict[str, Any]:
        """Return the fields that a response repeats."""
        names = ("model", "instructions", "previous_response_id", "metadata", "tools")
        form = self.text.format if self.text else None
        return {**{name: getattr(self, name) for name in names}, "format": form, "store": self.store is not False}


def messages_of(request: ResponseRequest) -> list[dict[str, Any]]:
    """Return the messages that a request holds, its instructions first.

    Args:
        request: The request.

    Raises:
        RequestRefusedError: An item is no message, or holds no text.
    """
    items = request.input
    messages: list[dict[str, Any]] = (
        [{"role": "system", "content": request.instructions, "id": INSTRUCTIONS}] if request.instructions else []
    )
    if isinstance(items, str):
        return [*messages, {"role": "user", "content": items}]
    for item in items:
        if item.get("type") == "reasoning":  # the progress that an earlier response told
            continue
        if (called := _of_tools(item)) is not None:
            messages.append(called)
            continue
        role = ROLES.get(str(item.get("role")))
        if item.get("type", "message") != "message" or role is None:
            kind = item.get("type", item.get("role"))
            raise RequestRefusedError(f"input may hold messages, not {kind!r:.40}", param="input")
        messages.append({"role": role, "content": _words(item.get("content"))})
    return messages


def _of_tools(item: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return an item about a tool as the message of chat completions; `None` where it is none."""
    if item.get("type") == "function_call":
        called = call_item(
            {
                "id": str(item.get("call_id")),
                "name": str(item.get("name")),
                "arguments": str(item.get("arguments") or "{}"),
            }
        )
        return {"role": "assistant", "content": "", "tool_calls": [called]}
    if item.get("type") == "function_call_output":
        return {"role": "tool", "content": _words(item.get("output")), "tool_call_id": str(item.get("call_id"))}
    return None


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    for part in parts:
        if not isinstance(part, dict) or part.get("type") not in TEXTS or not isinstance(part.get("text"), str):
            kind = part.get("type") if isinstance(part, dict) else part
            raise RequestRefusedError(f"input may hold text only, not {kind!r:.40}", param="input")
    return "".join(part["text"] for part in parts)


TEXTS = ("input_text", "output_text", "text")


def response_id(run_id: str) -> str:
    """Return the id of the response of a run."""
    return f"resp_{run_id.replace('-', '')}"


def run_id_of(name: str) -> str:
    """Return the id of the run behind a response; of anything else an id that no run has."""
    bare = name.removeprefix("resp_")
    is_ours = name.startswith("resp_") and len(bare) == 32 and bare.isalnum()
    return "-".join((bare[:8], bare[8:12], bare[12:16], bare[16:20], bare[20:])) if is_ours else "none"


class ResponseReply:
    """The response to one request, whole or as events.

    Args:
        run: The run behind it.
        form: The form that the answer must have, where it must have one.
    """

    def __init__(self, run: Run, form: StructuredFormat | None = None) -> None:
        self._run = run
        self._form = form
        self._kept: Mapping[str, Any] = run.metadata.get(KEPT) or {}
        self._number = -1
        self._bare = run.id.replace("-", "")

    async def whole(
        self, output: Mapping[str, Any], reasoning: str = "", problem: tuple[int, str] | None = None
    ) -> Any:
        """Return the response of a run that has ended.

        Args:
            output: The values that it ended with.
            reasoning: Its progress, in words.
            problem: Why it has no answer, where it has none.
        """
        reason = str(output.get("stop_reason"))
        spent = reason.endswith("_budget") or reason == "quota"
        status = "completed" if problem is None else "cancelled" if self._run.status == "interrupted" else "failed"
        cut = {"incomplete_details": {"reason": "max_output_tokens"}} if spent and problem is None else {}
        # A stream has begun with it by then.
        items = [self._thought(reasoning)] if reasoning or self._number >= 0 else []
        if calls := calls_in(output, self._run.options):
            items += [self._call(number, call) for number, call in enumerate(calls)]
        elif problem is None:
            items.append(await self._message(output, "incomplete" if cut else "completed"))
        used = {**NO_USAGE, **(output.get("usage") or {})}
        usage = {
            "input_tokens": used["input_tokens"],
            "input_tokens_details": {"cached_tokens": used.get("cache_read_tokens", 0)},
            "output_tokens": used["output_tokens"],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": used["total_tokens"],
        }
        response = {**self._empty("incomplete" if cut else status), **cut, "output": items, "usage": usage}
        facts = run_facts(self._run, output)
        error = {"code": ERRORS.get(problem[0], "server_error"), "message": problem[1]} if problem else None
        return {**response, "error": error, "metadata": {**(self._kept.get("metadata") or {}), **facts}}

    def begun(self) -> Iterator[dict[str, Any]]:
        """Yield the events that open a stream."""
        for kind in ("created", "in_progress"):
            yield self._event(f"response.{kind}", response=self.waiting())
        yield self._event("response.output_item.added", output_index=0, item={**self._thought(""), "summary": []})
        yield self._event(
            "response.reasoning_summary_part.added", **self._of_summary(), part={"type": "summary_text", "text": ""}
        )

    def thought(self, text: str) -> dict[str, Any]:
        """Return the event of some progress."""
        return self._event("response.reasoning_summary_text.delta", **self._of_summary(), delta=text)

    async def ended(
        self, output: Mapping[str, Any], reasoning: str, problem: tuple[int, str] | None
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the events that close a stream, after `whole`'s arguments."""
        response = await self.whole(output, reasoning, problem)
        yield self._event("response.reasoning_summary_text.done", **self._of_summary(), text=reasoning)
        part = {"type": "summary_text", "text": reasoning}
        yield self._event("response.reasoning_summary_part.done", **self._of_summary(), part=part)
        yield self._event("response.output_item.done", output_index=0, item=self._thought(reasoning))
        if problem is not None:
            yield self._event("response.failed", response=response)
            return
        calls = [item for item in response["output"] if item["type"] == "function_call"]
        for number, item in enumerate(calls, start=1):
            of_call = {"item_id": item["id"], "output_index": number}
            yield self._event("response.output_item.added", output_index=number, item={**item, "arguments": ""})
            yield self._event("response.function_call_arguments.delta", **of_call, delta=item["arguments"])
            yield self._event(
                "response.function_call_arguments.done", **of_call, arguments=item["arguments"], name=item["name"]
            )
            yield self._event("response.output_item.done", output_index=number, item=item)
        if calls:
            yield self._event(f"response.{response['status']}", response=response)
            return
        message = response["output"][-1]
        place = {"item_id": message["id"], "output_index": 1, "content_index": 0}
        yield self._event(
            "response.output_item.added", output_index=1, item={**message, "status": "in_progress", "content": []}
        )
        part = message["content"][0]
        kind, name = ("output_text", "text") if part["type"] == "output_text" else ("refusal", "refusal")
        more: dict[str, Any] = {"logprobs": []} if name == "text" else {}
        yield self._event("response.content_part.added", **place, part={**part, name: ""})
        yield self._event(f"response.{kind}.delta", **place, delta=part[name], **more)
        yield self._event(f"response.{kind}.done", **place, **{name: part[name]}, **more)
        yield self._event("response.content_part.done", **place, part=part)
        yield self._event("response.output_item.done", output_index=1, item=message)
        yield self._event(f"response.{response['status']}", response=response)

    def waiting(self) -> dict[str, Any]:
        """Return the response while the run goes on."""
        status = "queued" if self._run.status == "pending" else "in_progress"
        return {**self._empty(status), "metadata": self._kept.get("metadata") or {}}

    def _empty(self, status: str) -> dict[str, Any]:
        return {
            "id": response_id(self._run.id),
            "object": "response",
            "created_at": unix_seconds(self._run.created_at),
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": self._kept.get("instructions"),
            "model": self._kept.get("model"),
            "output": [],
            "parallel_tool_calls": False,
            "previous_response_id": self._kept.get("previous_response_id"),
            "store": self._kept.get("store", True),
            "temperature": None,
            "text": {"format": self._kept.get("format") or {"type": "text"}},
            "tool_choice": "auto" if self._kept.get("tools") else "none",
            "tools": self._kept.get("tools") or [],
            "top_p": None,
            "truncation": "disabled",
            "usage": None,
        }

    def _thought(self, text: str) -> dict[str, Any]:
        return {"id": f"rs_{self._bare}", "type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}

    async def _message(self, output: Mapping[str, Any], status: str) -> dict[str, Any]:
        answer = str(output.get("answer") or "")
        text, refusal = (answer, None) if self._form is None else await self._form.read(answer)
        part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        if refusal is not None:
            part = {"type": "refusal", "refusal": refusal}
        return {"id": f"msg_{self._bare}", "type": "message", "role": "assistant", "status": status, "content": [part]}

    def _call(self, number: int, call: Mapping[str, str]) -> dict[str, Any]:
        return {
            "id": f"fc_{self._bare}_{number}",
            "type": "function_call",
            "status": "completed",
            "call_id": call["id"],
            "name": call["name"],
            "arguments": call["arguments"],
        }

    def _of_summary(self) -> dict[str, Any]:
        return {"item_id": f"rs_{self._bare}", "output_index": 0, "summary_index": 0}

    def _event(self, kind: str, **fields: Any) -> dict[str, Any]:
        self._number += 1
        return {"type": kind, "sequence_number": self._number, **fields}


ERRORS = {429: "rate_limit_exceeded"}
