"""Chat model that answers from a list or a file: it stands in for a paid one in tests and examples. Internal."""

from __future__ import annotations

import json
import os  # as below
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable  # noqa: TC002  # with_fallbacks resolves return hints at run time
from pydantic import PrivateAttr

from .._files import read_file
from .schema_requests import structured_chain

if TYPE_CHECKING:
    from langchain_core.callbacks import CallbackManagerForLLMRun

__all__ = ["Reply", "ScriptedModel", "check_reply", "read_replies"]

Reply = str | dict[str, Any] | Exception | Callable[[list[BaseMessage]], str | dict[str, Any]]
"""A text; a dict of `text`, `input_tokens`, `output_tokens`, `finish_reason`, `structured`, `refusal`, `error`; an
exception to raise; or a function from the messages to a text or dict."""


class ScriptedModel(BaseChatModel):
    """Answers the first call with the first reply, the second with the second, from any thread, sync or async.

    `calls` holds the messages of each call so far. It streams word by word, and counts words as tokens where a reply
    gives no numbers. `with_structured_output` raises NotImplementedError, as many real models do, unless built with
    `structured=True`; then replies with `structured` (or a JSON text) are parsed by the schema.
    """

    replies: list[Any]
    structured: bool = False
    model_name: str = "scripted"
    _calls: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)

    def __init__(self, replies: Sequence[Reply], *, structured: bool = False, model_name: str = "scripted") -> None:
        """Keep the replies in the order of the calls they will answer.

        Raises:
            ValueError: A reply is of no known kind; the message says which.
        """
        for number, reply in enumerate(replies, start=1):
            check_reply(reply, where=f"reply {number}")
        super().__init__(replies=list(replies), structured=structured, model_name=model_name)  # type: ignore[call-arg]

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], *, structured: bool = False) -> Self:
        """Return a model with the replies of a file: one JSON string or object a line, or one JSON list.

        Raises:
            ValueError: The file can't be read, is empty, or a line is wrong; the message gives its number.
        """
        replies = read_replies(path)
        structured = structured or any(isinstance(reply, dict) and "structured" in reply for reply in replies)
        return cls(replies, structured=structured)

    @property
    def calls(self) -> list[list[BaseMessage]]:
        """Messages of every call so far, in order."""
        with self._lock:
            return list(self._calls)

    @property
    def _llm_type(self) -> str:
        return "redraft-scripted"

    def with_structured_output(
        self, schema: dict[str, Any] | type, *, include_raw: bool = False, **kwargs: Any
    ) -> Runnable[LanguageModelInput, Any]:
        """Return a runnable that gives instances of `schema`; with `include_raw`, dicts of raw, parsed, parsing_error.

        Raises:
            NotImplementedError: The model was not built with `structured=True`.
        """
        if not self.structured:
            raise NotImplementedError("this scripted model gives text only; build it with structured=True")
        return structured_chain(self, schema, include_raw=include_raw)

    def _next(self, messages: list[BaseMessage]) -> AIMessage:
        with self._lock:
            index = len(self._calls)
            self._calls.append(list(messages))
        if index >= len(self.replies):
            raise IndexError(
                f"call {index + 1} of a scripted model, but only {len(self.replies)} replies were scripted"
            )
        reply = self.replies[index]
        if isinstance(reply, Exception):
            raise reply
        if callable(reply):
            reply = reply(list(messages))
        fields = reply if isinstance(reply, dict) else {"text": reply}
        if "error" in fields:
            raise RuntimeError(fields["error"])
        return _message(fields, messages, self.model_name)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._next(messages))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        message = self._next(messages)
        for word in re.findall(r"\s*\S+\s*$|\s*\S+|\s+", str(message.content)):
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=word))
            if run_manager:
                run_manager.on_llm_new_token(word, chunk=chunk)
            yield chunk
        yield ChatGenerationChunk(
            message=AIMessageChunk(
                content="",
                additional_kwargs=message.additional_kwargs,
                response_metadata=message.response_metadata,
                usage_metadata=message.usage_metadata,
                chunk_position="last",
            )
        )


def _message(fields: dict[str, Any], messages: list[BaseMessage], model_name: str) -> AIMessage:
    kinds = {"parsed": "structured", "refusal": "refusal"}
    extra = {theirs: fields[ours] for theirs, ours in kinds.items() if ours in fields}
    text = fields.get("text")
    if text is None:
        text = json.dumps(fields["structured"], ensure_ascii=False) if "structured" in fields else ""
    tokens_in = fields.get("input_tokens", sum(len(str(message.content).split()) for message in messages))
    tokens_out = fields.get("output_tokens", len(text.split()))
    return AIMessage(
        content=text,
        additional_kwargs=extra,
        response_metadata={"model_name": model_name, "finish_reason": fields.get("finish_reason", "stop")},
        usage_metadata={
            "input_tokens": tokens_in,
            "output_tokens": tokens_out,
            "total_tokens": tokens_in + tokens_out,
        },
    )


def read_replies(path: str | os.PathLike[str]) -> list[Any]:
    """Return the replies of a file: one JSON string or object a line, or one JSON list.

    Raises:
        ValueError: The file can't be read, is empty, or a line is wrong; the message gives its number.
    """
    try:
        text = read_file(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"scripted replies {str(path)!r} can't be read: {error}") from error
    where = f"scripted replies {str(path)!r}"
    if text.lstrip().startswith("["):
        try:
            pairs = [(f"reply {number}", reply) for number, reply in enumerate(json.loads(text), start=1)]
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{where} are not a JSON list: {error}") from error
    else:
        pairs = []
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                try:
                    pairs.append((f"line {number}", json.loads(line)))
                except (ValueError, RecursionError) as error:
                    raise ValueError(f"{where}, line {number}: not JSON: {error}") from error
    if not pairs:
        raise ValueError(f"{where}: no reply in it")
    for place, reply in pairs:
        check_reply(reply, where=f"{where}, {place}")
    return [reply for _, reply in pairs]


def check_reply(reply: object, *, where: str) -> None:
    """Raise ValueError unless `reply` is a valid scripted reply; the message begins with `where`."""
    if isinstance(reply, str | Exception) or (callable(reply) and not isinstance(reply, type)):
        return
    if not isinstance(reply, dict) or not reply:
        raise ValueError(f"{where}: {reply!r:.80} is not a string or an object with some of {sorted(_KEYS)}")
    if unknown := sorted(set(reply) - _KEYS):
        raise ValueError(f"{where}: unknown {unknown[0]!r}; known are {sorted(_KEYS)}")
    for name in ("text", "finish_reason", "refusal", "error"):
        if not isinstance(reply.get(name, ""), str):
            raise ValueError(f"{where}: {name} must be a string, not {reply[name]!r}")  # noqa: TRY004
    for name in ("input_tokens", "output_tokens"):
        count = reply.get(name, 0)
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise ValueError(f"{where}: {name} must be a whole number from 0 up, not {count!r}")


_KEYS = {"text", "input_tokens", "output_tokens", "finish_reason", "structured", "refusal", "error"}
