"""Chat completions: OpenAI's requests as graph input, and runs as OpenAI's responses. Internal."""

from __future__ import annotations

from calendar import timegm
from time import strptime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from ....state.usage import NO_USAGE
from ..engine.conversations import conversation_input
from .wire import RequestBody, dumps

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ....graphs.preset import Conversation
    from ..engine.runs import Run
    from .structured_format import StructuredFormat

__all__ = [
    "DONE",
    "ChatMessage",
    "ChatReply",
    "ChatRequest",
    "RequestRefusedError",
    "call_item",
    "error_body",
    "graph_input",
    "model_data",
    "run_facts",
    "split_model",
    "sse",
    "unix_seconds",
]

PREFIX = "redraft-"


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
        for name, asked in wanted.items():
            if asked:
                raise RequestRefusedError(
                    f"{name} is not supported: a workflow answers once, in text",
                    param=name,
                    code="unsupported_parameter",
                )


def split_model(name: str, presets: Collection[str], upstream: Collection[str]) -> tuple[str, str | None]:
    """Return the preset and the upstream model (`None`: the server's own) that a model's name stands for.

    Args:
        name: `redraft-<preset>`, or `redraft-<preset>/<upstream model>`.
        presets: Those that are served.
        upstream: The models that callers may choose.

    Raises:
        RequestRefusedError: It stands for none; 404, as OpenAI answers.
    """
    preset, slash, model = name.removeprefix(PREFIX).partition("/")
    if not name.startswith(PREFIX) or preset not in presets or (slash and model not in upstream):
        raise RequestRefusedError(
            f"The model {name!r:.120} does not exist; GET /v1/models lists those that do.",
            param="model",
            code="model_not_found",
            status=404,
        )
    return preset, model if slash else None


def graph_input(
    messages: list[ChatMessage], conversation: Conversation, instruction: str = "", *, tools: bool = False
) -> dict[str, Any]:
    """Return what a graph is given for a conversation.

    The last user message is the task, and what comes after it is left out.

    Args:
        messages: As the client sent them.
        conversation: What of it the graph is told, as its preset says.
        instruction: Said before all.
        tools: Whether calls of the client's tools and their results are part of it.

    Raises:
        RequestRefusedError: There is no user message, it is blank, or a message is no text.
    """
    said = [(SPEAKER.get(message.role, ""), message.words()) for message in messages]
    asked = [index for index, (role, _) in enumerate(said) if role == "user"]
    if not asked or not said[asked[-1]][1].strip():
        raise RequestRefusedError("the last user message is the task, and there is none", param="messages")
    told: list[dict[str, Any]] = [
        {"role": role, "content": text} for role, text in said[: asked[-1] + 1] if role and text.strip()
    ]
    if tools:
        told = [found for message, (role, text) in zip(messages, said, strict=True) if (found := _said(message, text))]
    first = [{"role": "system", "content": instruction}] if instruction else []
    return conversation_input([*first, *told], conversation)


def _said(message: ChatMessage, text: str) -> dict[str, Any] | None:
    """Return a message with its calls, or the result of one."""
    if message.role == "tool":
        return {"role": "tool", "content": text, "tool_call_id": message.tool_call_id or ""}
    calls = {"tool_calls": message.tool_calls} if message.role == "assistant" and message.tool_calls else {}
    role = SPEAKER.get(message.role)
    return {"role": role, "content": text, **calls} if role and (calls or text.strip()) else None


SPEAKER = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
"""Roles as graphs know them; what tools said elsewhere is left out."""


DONE = b"data: [DONE]\n\n"
OWNER = "redraft"


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
        self.calls: list[dict[str, str]] = []
        """Of the client's tools, which it is to make."""
        self._head = {"id": f"chatcmpl-{run.id}", "created": unix_seconds(run.created_at), "model": model}

    def whole(self, reasoning: str) -> dict[str, Any]:
        """Return the answer with the run's progress beside it, once the run has ended."""
        message: dict[str, Any] = {"role": "assistant", **self.answer(), "reasoning_content": reasoning}
        if self.calls:
            message |= {"content": None, "refusal": None, "tool_calls": [call_item(one) for one in self.calls]}
        choice = {"index": 0, "message": message, "finish_reason": self._finish_reason(), "logprobs": None}
        return {
            **self._head,
            "object": "chat.completion",
            "choices": [choice],
            "usage": self.usage(),
            "metadata": self.metadata(),
        }

    def answer(self) -> dict[str, str | None]:
        """Return the answer as `content`, or why there is none as `refusal`."""
        text = (self._run.output or {}).get("answer") or ""
        content, refusal = (text, None) if self._form is None else self._form.read(text)
        return {"content": content, "refusal": refusal}

    def delta(self) -> dict[str, Any]:
        """Return the answer, or the calls that the client is to make, as a piece has them."""
        if self.calls:
            return {"tool_calls": [{"index": number, **call_item(one)} for number, one in enumerate(self.calls)]}
        return {name: text for name, text in self.answer().items() if text is not None}

    def piece(self, **delta: Any) -> dict[str, Any]:
        """Return a chunk that carries this much more of the message."""
        return self._chunk([{"index": 0, "delta": delta, "finish_reason": None, "logprobs": None}])

    def last(self) -> dict[str, Any]:
        """Return the chunk that says why the answer ends here, and what became of the run."""
        choice = {"index": 0, "delta": {}, "finish_reason": self._finish_reason(), "logprobs": None}
        return {**self._chunk([choice]), "metadata": self.metadata()}

    def counted(self) -> dict[str, Any]:
        """Return the chunk with the usage, which comes after all others where the client wants it."""
        return {**self._chunk([]), "usage": self.usage()}

    def usage(self) -> dict[str, Any]:
        """Return the tokens of all model calls of the run together."""
        used = {**NO_USAGE, **((self._run.output or {}).get("usage") or {})}
        return {
            "prompt_tokens": used["input_tokens"],
            "completion_tokens": used["output_tokens"],
            "total_tokens": used["total_tokens"],
            "prompt_tokens_details": {"cached_tokens": used.get("cache_read_tokens", 0)},
        }

    def metadata(self) -> dict[str, str]:
        """Return thread, stop reason, rounds, score and who accepted; texts only, since clients expect no other."""
        return run_facts(self._run.thread_id, self._run.output or {})

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {**self._head, "object": "chat.completion.chunk", "choices": choices}

    def _finish_reason(self) -> str:
        """Return `length` for a spent budget, which is to a run what a token limit is to a reply."""
        if self.calls:
            return "tool_calls"
        return "length" if str((self._run.output or {}).get("stop_reason")).endswith("_budget") else "stop"


def call_item(made: Mapping[str, str]) -> dict[str, Any]:
    """Return a call of a client's tool as a message has it."""
    function = {"name": made["name"], "arguments": made["arguments"]}
    return {"id": made["id"], "type": "function", "function": function}


def run_facts(thread_id: str, output: Mapping[str, Any]) -> dict[str, str]:
    """Return what a reply tells of its run beside the answer."""
    told = {"thread_id": thread_id, "rounds": 0, **{name: output.get(name) for name in TOLD}}
    return {name: str(value) for name, value in told.items() if value is not None}


TOLD = ("stop_reason", "rounds", "score", "accepted_by")


def model_data(names: Iterable[str]) -> list[dict[str, Any]]:
    """Return models as `/v1/models` lists them.

    Args:
        names: Presets, or `preset/upstream model`.
    """
    return [{"id": f"{PREFIX}{name}", "object": "model", "created": 0, "owned_by": OWNER} for name in names]


def error_body(message: str, *, status: int, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """Return an error as OpenAI words it; the client makes an exception of its status."""
    kind = KINDS.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def sse(data: Mapping[str, Any]) -> bytes:
    """Return data as one event of a stream."""
    return b"data: %b\n\n" % dumps(data)


def unix_seconds(moment: str) -> int:
    """Return a moment as seconds since the epoch."""
    return timegm(strptime(moment[:19], "%Y-%m-%dT%H:%M:%S"))
