"""Chat completion responses: models, answers, stream chunks and errors in OpenAI's shapes."""

from __future__ import annotations

import json
from calendar import timegm
from time import strptime
from typing import TYPE_CHECKING, Any

from ....state.usage import NO_USAGE
from .chat_requests import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..engine.runs import Run

__all__ = ["DONE", "ChatReply", "error_body", "model_data", "sse"]

DONE = "data: [DONE]\n\n"
OWNER = "redraft"


class ChatReply:
    """The reply to one request, whole or in pieces.

    Args:
        run: The run behind it.
        model: As the client named it.
    """

    def __init__(self, run: Run, model: str) -> None:
        self._run = run
        self._head = {"id": f"chatcmpl-{run.id}", "created": _unix(run.created_at), "model": model}

    def whole(self, reasoning: str) -> dict[str, Any]:
        """Return the answer with the run's progress beside it, once the run has ended."""
        output = self._run.output or {}
        message = {
            "role": "assistant",
            "content": output.get("answer") or "",
            "refusal": None,
            "reasoning_content": reasoning,
        }
        choice = {"index": 0, "message": message, "finish_reason": self._finish_reason(), "logprobs": None}
        return {
            **self._head,
            "object": "chat.completion",
            "choices": [choice],
            "usage": self.usage(),
            "metadata": self.metadata(),
        }

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
        }

    def metadata(self) -> dict[str, str]:
        """Return thread, stop reason, rounds, score and who accepted; texts only, since clients expect no other."""
        output = self._run.output or {}
        told = {"thread_id": self._run.thread_id, "rounds": 0, **{name: output.get(name) for name in TOLD}}
        return {name: str(value) for name, value in told.items() if value is not None}

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {**self._head, "object": "chat.completion.chunk", "choices": choices}

    def _finish_reason(self) -> str:
        """A budget that is spent is to a run what a token limit is to a reply."""
        return "length" if str((self._run.output or {}).get("stop_reason")).endswith("_budget") else "stop"


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


def sse(data: Mapping[str, Any]) -> str:
    """Return data as one event of a stream."""
    return f"data: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n"


def _unix(moment: str) -> int:
    return timegm(strptime(moment[:19], "%Y-%m-%dT%H:%M:%S"))
