"""Chat completions for every tool that speaks OpenAI's protocol: the model's name picks the workflow. Internal.

`redraft-<preset>` is run with the server's model, `redraft-<preset>/<upstream model>` with one of those that the server
allows. The run's progress comes as `reasoning_content`, its answer as `content`, `usage` counts all of its calls, and
`metadata` names its thread, stop reason and rounds. Whoever closes the connection cancels the run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import Field

from ...graphs.preset import Conversation
from ...state.usage import NO_USAGE
from ..engine.requests import conversation_input
from ..engine.runs import Run, Submission
from ..progress_text import progress
from .guards import KnownCaller, KnownEngine
from .openai_runs import (
    ROLES,
    OpenAIRoute,
    RequestRefusedError,
    StructuredFormat,
    answered,
    call_item,
    calls_in,
    error_body,
    format_of,
    functions_of,
    model_data,
    presets,
    problem_of,
    reasoning,
    run_facts,
    split_model,
    unix_seconds,
)
from .problems import Answers, answers
from .wire import RequestBody, sse

__all__ = ["ChatMessage", "ChatRequest", "graph_input", "router"]

ENDS: Answers = {
    200: {"content": {"text/event-stream": {}}, "description": "The answer, or with `stream` its pieces."},
    **answers(409, 429, 502, 504),
}
router = APIRouter(prefix="/v1", route_class=OpenAIRoute, tags=["OpenAI"], responses=answers(404))


class _Part(RequestBody):
    type: str
    text: str | None = None


class ChatMessage(RequestBody):
    """One message of a conversation. Other fields are left alone."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[_Part] | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None

    def words(self) -> str:
        """Return the text of the message.

        Raises:
            RequestRefusedError: It has parts that are no text.
        """
        if isinstance(self.content, list):
            if other := [part.type for part in self.content if part.type != "text"]:
                raise RequestRefusedError(
                    f"messages may hold text only, not {other[0]!r:.40}", param="messages", code="unsupported_value"
                )
            return "".join(part.text or "" for part in self.content)
        return self.content or ""


class _StreamOptions(RequestBody):
    include_usage: bool = False


class ChatRequest(RequestBody):
    """The body of `POST /v1/chat/completions`.

    `temperature`, `seed`, `max_completion_tokens` and all else that tunes one model call is ignored: a workflow makes
    many calls, with the settings it was built with. What would change the shape of the answer and can't be given is
    refused. `limits` is ours (`extra_body={"limits": {"max_rounds": 1, "max_tokens": 4000}}` in OpenAI's client).
    """

    model: str = Field(max_length=300)
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=1000)]
    stream: bool | None = False
    stream_options: _StreamOptions | None = None
    limits: dict[str, Any] | None = None
    n: int | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    functions: list[Any] | None = None
    response_format: dict[str, Any] | None = None
    logprobs: bool | None = None
    modalities: list[str] | None = None
    audio: dict[str, Any] | None = None

    def check_supported(self) -> None:
        """Refuse a request whose answer can't be given as it is asked for.

        Raises:
            RequestRefusedError: The request wants several answers, log probabilities or sound.
        """
        wanted = {
            "n": self.n not in (None, 1),
            "functions": bool(self.functions),
            "logprobs": bool(self.logprobs),
            "modalities": bool(set(self.modalities or ()) - {"text"}),
            "audio": self.audio is not None,
        }
        for name, is_wanted in wanted.items():
            if is_wanted:
                raise RequestRefusedError(
                    f"{name} is not supported: a workflow answers once, in text",
                    param=name,
                    code="unsupported_parameter",
                )


@router.get("/models")
async def models(engine: KnownEngine, caller: KnownCaller) -> dict[str, Any]:
    """Return the workflows that can be named as models."""
    names = [
        name if spec is None else f"{name}/{spec}"
        for name in presets(engine)
        for spec in (None, *engine.settings.models)
    ]
    return {"object": "list", "data": model_data(names)}


@router.get("/models/{name:path}")
async def model(name: str, engine: KnownEngine, caller: KnownCaller) -> dict[str, Any]:
    """Return one of them."""
    preset, upstream = split_model(name, presets(engine), engine.settings.models)
    return model_data([preset if upstream is None else f"{preset}/{upstream}"])[0]


@router.post("/chat/completions", responses=ENDS)
async def chat(body: ChatRequest, request: Request, engine: KnownEngine, caller: KnownCaller) -> Response:
    """Run a workflow on the last user message, and return its answer, whole or as a stream."""
    body.check_supported()
    preset, upstream = split_model(body.model, presets(engine), engine.settings.models)
    assistant, form = engine.presets.get(preset), format_of(body.response_format, param="response_format")
    functions = functions_of(body.tools, body.tool_choice, assistant)
    options = {**(form.options(assistant, param="response_format") if form else {}), **functions}
    values = graph_input(body.messages, assistant.preset.conversation, tools=bool(functions))
    if body.limits is not None:
        values["limits"] = body.limits
    # Kept, since the reply names the thread, which can be read and forked then.
    run = await engine.submit(
        caller,
        Submission(
            assistant=preset, input=values, keep=True, stream_modes=("custom",), model=upstream, options=options
        ),
    )
    reply = ChatReply(run, body.model, form)
    counted = body.stream_options is not None and body.stream_options.include_usage
    return await answered(
        request, engine, run, events=reply.pieces(counted=counted) if body.stream else None, whole=reply.whole
    )


def graph_input(messages: list[ChatMessage], conversation: Conversation, *, tools: bool = False) -> dict[str, Any]:
    """Return a conversation as a graph's input.

    The last user message is the task, and what comes after it is left out.

    Args:
        messages: As the client sent them.
        conversation: What of it the graph is told, as its preset says.
        tools: Whether calls of the client's tools and their results are part of it.

    Raises:
        RequestRefusedError: There is no user message, it is blank, or a message is no text.
    """
    texts = [message.words() for message in messages]
    tasks = [index for index, message in enumerate(messages) if message.role == "user"]
    if not tasks or not texts[tasks[-1]].strip():
        raise RequestRefusedError("the last user message is the task, and there is none", param="messages")
    turns: list[dict[str, Any]] = []
    for message, text in zip(messages if tools else messages[: tasks[-1] + 1], texts, strict=False):
        turns += _taken(message, text, tools=tools)
    return conversation_input(turns, conversation)


def _taken(message: ChatMessage, text: str, *, tools: bool) -> list[dict[str, Any]]:
    """Return a message as graphs take it, in a list; an empty one for a message that says nothing to them."""
    if tools and message.role == "tool":
        return [{"role": "tool", "content": text, "tool_call_id": message.tool_call_id or ""}]
    calls_tools = tools and message.role == "assistant" and message.tool_calls
    calls = {"tool_calls": message.tool_calls} if calls_tools else {}
    role = ROLES.get(message.role)
    return [{"role": role, "content": text, **calls}] if role and (calls or text.strip()) else []


class ChatReply:
    """The reply to one request, whole or in pieces.

    Args:
        run: The run behind it.
        model: As the client named it.
        form: The form that the answer must have, where it must have one.
    """

    def __init__(self, run: Run, model: str, form: StructuredFormat | None = None) -> None:
        self._run = run
        self._form = form
        self._head = {"id": f"chatcmpl-{run.id}", "created": unix_seconds(run.created_at), "model": model}

    async def whole(self) -> dict[str, Any]:
        """Return the answer with the run's progress beside it, once the run has ended."""
        answer, finish_reason = await self._answer()
        message = {"role": "assistant", "content": None, "refusal": None, **answer}
        message["reasoning_content"] = await reasoning(self._run)
        choice = {"index": 0, "message": message, "finish_reason": finish_reason, "logprobs": None}
        return {
            **self._head,
            "object": "chat.completion",
            "choices": [choice],
            "usage": self._usage(),
            "metadata": run_facts(self._run, self._run.output or {}),
        }

    async def pieces(self, *, counted: bool) -> AsyncIterator[bytes]:
        """Give the chunks of a stream.

        Args:
            counted: Whether the client wants the usage, which comes after all others.
        """
        yield sse(self._piece({"role": "assistant", "content": ""}))
        async for text in progress(self._run):
            yield sse(self._piece({"reasoning_content": text}))
        if problem := problem_of(self._run):
            status, message = problem
            yield sse(error_body(message, status=status))
            return
        answer, finish_reason = await self._answer()
        if calls := answer.get("tool_calls"):
            answer = {"tool_calls": [{"index": number, **call} for number, call in enumerate(calls)]}
        yield sse(self._piece(answer))
        yield sse({**self._piece({}, finish_reason), "metadata": run_facts(self._run, self._run.output or {})})
        if counted:
            yield sse({**self._piece({}), "choices": [], "usage": self._usage()})
        yield b"data: [DONE]\n\n"

    async def _answer(self) -> tuple[dict[str, Any], str]:
        """Return the content of the message, and its finish reason.

        It is the calls that the client is to make, an answer as `content`, or why there is none as `refusal`.
        """
        output = self._run.output or {}
        if calls := calls_in(output, self._run.options):
            return {"tool_calls": [call_item(call) for call in calls]}, "tool_calls"
        text = output.get("answer") or ""
        content, refusal = (text, None) if self._form is None else await self._form.read(text)
        # A spent budget is to a run what a token limit is to a reply.
        finish_reason = "length" if str(output.get("stop_reason")).endswith("_budget") else "stop"
        return {"content": content} if refusal is None else {"refusal": refusal}, finish_reason

    def _piece(self, delta: Mapping[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        return {
            **self._head,
            "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}],
        }

    def _usage(self) -> dict[str, Any]:
        """Return the tokens of all model calls of the run together."""
        used = {**NO_USAGE, **((self._run.output or {}).get("usage") or {})}
        return {
            "prompt_tokens": used["input_tokens"],
            "completion_tokens": used["output_tokens"],
            "total_tokens": used["total_tokens"],
            "prompt_tokens_details": {"cached_tokens": used.get("cache_read_tokens", 0)},
        }
