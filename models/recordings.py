"""Chat models that keep every reply in a SQLite file, and those that answer from such a file. Internal.

A file holds a row of plain JSON for each call, by the key of its request. The replies to the examples of README, docs
and notebooks are a text, a line a call, that is changed by `make record` only.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import (  # with_fallbacks resolves these hints at run time
    AsyncIterator,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import closing
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any, Self, TypeVar

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, message_to_dict, messages_from_dict
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableBinding, RunnableParallel, RunnableSequence
from langchain_core.tools import BaseTool  # noqa: TC002  # likewise
from pydantic import PrivateAttr

from .._files import check_schema, make_private
from .prices import provider_of
from .schema_requests import schema_json, structured_chain

__all__ = ["EXAMPLES", "Call", "ExampleTape", "RecordingModel", "ReplayModel", "Tape"]


T = TypeVar("T")


class _Taped(BaseChatModel):
    """A chat model with a tape, and a count of how often it was asked each request."""

    _tape: Tape = PrivateAttr()
    _seen: Counter[str] = PrivateAttr(default_factory=Counter)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)

    def _position(
        self, messages: list[BaseMessage], stop: list[str] | None, options: dict[str, Any]
    ) -> tuple[str, int]:
        """Return the key of a call, and how many equal calls came before it."""
        request = request_key(messages, stop, options)
        with self._lock:
            self._seen[request] += 1
            return request, self._seen[request] - 1


class RecordingModel(_Taped):
    """A chat model whose replies are written to a SQLite file as they arrive; else it behaves as the model inside.

    A call is known by its messages, its options, the model and its settings, and by how many equal calls this object
    made before: sampling twice is two replies. Recording again to the same file replaces the calls that are made
    again. A reply that can't be parsed (ValueError) is kept as such; other errors are not, so a later success is.
    """

    inner: BaseChatModel

    def __init__(self, inner: BaseChatModel, path: str | os.PathLike[str]) -> None:
        """Wrap `inner` and write to `path`, which is made if missing."""
        # LangChain would call our `_stream` also where the model inside has none.
        can_stream = any(
            getattr(type(inner), name) is not getattr(BaseChatModel, name) for name in ("_stream", "_astream")
        )
        super().__init__(inner=inner, disable_streaming=not can_stream or inner.disable_streaming)  # type: ignore[call-arg]
        self._tape = Tape(path)

    @property
    def model_name(self) -> str:
        """Name of the model inside."""
        return str(self._get_ls_params().get("ls_model_name") or self.inner._llm_type)

    @property
    def _llm_type(self) -> str:
        return "redraft-recording"

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return self.inner._get_ls_params(stop=stop, **kwargs)

    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return the model inside with these tools, recorded.

        Raises:
            NotImplementedError: The model inside takes no tools.
        """
        neutral = {"tools": [schema_json(tool) for tool in tools], **kwargs}  # type: ignore[arg-type]
        return self._rebound(self.inner.bind_tools(tools, **kwargs), neutral)

    def with_structured_output(
        self, schema: dict[str, Any] | type, *, include_raw: bool = False, **kwargs: Any
    ) -> Runnable[LanguageModelInput, Any]:
        """Return the model inside with its own kind of structured output, recorded.

        Raises:
            NotImplementedError: The model inside gives text only, or builds its structured output in a way that can't
                be recorded.
        """
        chain = self.inner.with_structured_output(schema, include_raw=include_raw, **kwargs)
        return self._rebound(chain, {"schema": schema_json(schema)})

    def recorded_arguments(self, arguments: Mapping[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
        """Return a provider's arguments that ask for a schema, in whose place the record has the schema itself."""
        return {**arguments, NEUTRAL: {"schema": schema_json(schema), "covers": sorted(arguments)}}

    def _rebound(self, runnable: Runnable[Any, Any], neutral: dict[str, Any]) -> Runnable[Any, Any]:
        """Return the same runnable with this model in the place of the one inside."""
        if runnable is self.inner:
            return self.bind(**{NEUTRAL: neutral})
        if isinstance(runnable, RunnableBinding) and runnable.bound is self.inner:
            neutral = neutral | {"covers": sorted(runnable.kwargs)}
            return runnable.model_copy(update={"bound": self, "kwargs": {**runnable.kwargs, NEUTRAL: neutral}})
        if isinstance(runnable, RunnableSequence):
            # The first step is the model; what parses its replies stays.
            return RunnableSequence(self._rebound(runnable.first, neutral), *runnable.steps[1:])
        if isinstance(runnable, RunnableParallel) and len(runnable.steps__) == 1:
            return RunnableParallel({name: self._rebound(step, neutral) for name, step in runnable.steps__.items()})
        raise NotImplementedError(f"structured output of {type(self.inner).__name__} can't be recorded")

    def _keep(
        self, messages: list[BaseMessage], stop: list[str] | None, options: dict[str, Any], reply: dict[str, Any]
    ) -> None:
        request, occurrence = self._position(messages, stop, options)
        params = self._get_ls_params()
        settings = {
            "temperature": params.get("ls_temperature"),
            # servers that speak OpenAI's protocol are sent it in the body
            "max_output_tokens": params.get("ls_max_tokens")
            or (getattr(self.inner, "extra_body", None) or {}).get("max_tokens"),
            "seed": getattr(self.inner, "seed", None),
        }
        call = Call(
            request=request,
            occurrence=occurrence,
            model=self.model_name,
            settings={name: value for name, value in settings.items() if value is not None},
            provider=provider_of(self.inner),
            structured="schema" in (options.get(NEUTRAL) or {}),
            reply=reply,
        )
        self._tape.write(call)

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        with _Taking(self, messages, stop, kwargs) as taking:
            return taking.take(
                self.inner._generate(messages, stop=stop, run_manager=run_manager, **provider_options(kwargs))
            )

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        async with _Taking(self, messages, stop, kwargs) as taking:
            return taking.take(
                await self.inner._agenerate(messages, stop=stop, run_manager=run_manager, **provider_options(kwargs))
            )

    def _stream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        with _Taking(self, messages, stop, kwargs) as taking:
            for chunk in self.inner._stream(messages, stop=stop, run_manager=run_manager, **provider_options(kwargs)):
                yield taking.take(chunk)

    async def _astream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        async with _Taking(self, messages, stop, kwargs) as taking:
            async for chunk in self.inner._astream(
                messages, stop=stop, run_manager=run_manager, **provider_options(kwargs)
            ):
                yield taking.take(chunk)


class _Taking:
    """The reply to one call, whole or in chunks, kept when `with` is left; a ValueError is kept in its place."""

    def __init__(self, model: RecordingModel, *call: Any) -> None:
        self._keep: Callable[[dict[str, Any]], None] = partial(model._keep, *call)
        self._parts: list[Any] = []

    def take(self, reply: T) -> T:
        """Return `reply`, which is kept if all goes well."""
        self._parts.append(reply.generations[0] if isinstance(reply, ChatResult) else reply)
        return reply

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, ValueError):
            self._keep({"unparseable": str(error)})
        elif error is None and self._parts:
            message = reduce(add, self._parts).message
            if isinstance(message, AIMessageChunk):
                message = AIMessage(**message.model_dump(exclude={"type", "tool_call_chunks", "chunk_position"}))
            self._keep({"message": message_to_dict(message)})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # In a thread, since SQLite would block the event loop.
        if error is None or isinstance(error, ValueError):
            await asyncio.to_thread(self.__exit__, kind, error, trace)


class ReplayModel(_Taped):
    """A chat model that answers from a file written by `RecordingModel` and never calls anything.

    Structured output works as recorded: where the model gave any, it is parsed from the recorded reply; where it gave
    none, `with_structured_output` raises NotImplementedError, so that callers ask for text as they did then.
    """

    model_name: str = "replay"
    settings: dict[str, Any]
    recorded_provider: str | None = None
    _only: str | None = PrivateAttr(default=None)
    _any_structured: bool = PrivateAttr(default=False)

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        model: str | None = None,
        settings: dict[str, Any] | None = None,
    ) -> None:
        """Read the calls in `path`.

        Args:
            path: The file that a `RecordingModel` wrote; without one, the replies to redraft's own examples.
            model: Answer as this one of the recorded models; needed only where several were asked the same.
            settings: Answer as recorded under these settings (`temperature`, `max_output_tokens`, `seed`), likewise.

        Raises:
            ValueError: There is no such record, or it has no calls of that model and those settings.
        """
        tape = ExampleTape(EXAMPLES) if path is None else Tape(path)
        wanted = {name: value for name, value in (settings or {}).items() if value is not None}
        calls = [call for call in tape.calls() if _fits(call, model, wanted)]
        if not calls:
            known = sorted({call.model for call in tape.calls()})
            raise ValueError(f"no calls of {model!r} with {wanted!r} in {str(path)!r}; recorded models: {known!r}")
        names, providers = {call.model for call in calls}, {call.provider for call in calls}
        super().__init__(  # type: ignore[call-arg]
            model_name=model or (names.pop() if len(names) == 1 else "replay"),
            settings=wanted,
            recorded_provider=providers.pop() if len(providers) == 1 else None,
        )
        self._tape = tape
        self._only = model
        self._any_structured = any(call.structured for call in calls)

    @property
    def _llm_type(self) -> str:
        return "redraft-replay"

    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return this model asked with tools, as it was recorded."""
        return self.bind(**{NEUTRAL: {"tools": [schema_json(tool) for tool in tools], **kwargs}})  # type: ignore[arg-type]

    def with_structured_output(
        self, schema: dict[str, Any] | type, *, include_raw: bool = False, **kwargs: Any
    ) -> Runnable[LanguageModelInput, Any]:
        """Return a runnable that gives the recorded structured answers as instances of `schema`.

        Raises:
            NotImplementedError: No structured output was recorded.
        """
        if not self._any_structured:
            raise NotImplementedError(f"no structured output was recorded in {str(self._tape.path)!r}")
        return structured_chain(self, schema, include_raw=include_raw, **{NEUTRAL: {"schema": schema_json(schema)}})

    def _answer(self, messages: list[BaseMessage], stop: list[str] | None, options: dict[str, Any]) -> AIMessage:
        request, occurrence = self._position(messages, stop, options)
        matches = [call for call in self._tape.find(request, occurrence) if _fits(call, self._only, self.settings)]
        start = str(messages[-1].content)[:120] if messages else ""
        if not matches:
            times = "" if occurrence == 0 else f" {occurrence + 1} times"
            own = f"this call was not recorded{times} in {str(self._tape.path)!r}"
            raise LookupError(f"{NOT_AN_EXAMPLE if isinstance(self._tape, ExampleTape) else own}: {start!r}")
        if len(matches) > 1:
            models = sorted({call.model for call in matches})
            raise LookupError(
                f"this call was recorded with several models or settings ({', '.join(models)}) in "
                f"{str(self._tape.path)!r}; name one, e.g. {f'replay:{self._tape.path}#{models[0]}'!r}: {start!r}"
            )
        reply = matches[0].reply
        if "unparseable" in reply:
            raise ValueError(reply["unparseable"])
        (message,) = messages_from_dict([reply["message"]])
        assert isinstance(message, AIMessage)  # noqa: S101  # only replies are ever written
        message.response_metadata.setdefault("model_name", matches[0].model)  # so that records name who was asked then
        return message

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._answer(messages, stop, kwargs))])

    def _stream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        fields = self._answer(messages, stop, kwargs).model_dump(exclude={"type"})
        chunk = ChatGenerationChunk(message=AIMessageChunk(**fields, chunk_position="last"))
        if run_manager:
            run_manager.on_llm_new_token(chunk.text, chunk=chunk)
        yield chunk


def _fits(call: Call, model: str | None, settings: dict[str, Any]) -> bool:
    same = all(call.settings.get(name) == value for name, value in settings.items())
    return same and (model is None or call.model == model)


@dataclass(frozen=True)
class Call:
    """One recorded call: the request, the how-many-th equal one it is, the model, and its reply as plain JSON data."""

    request: str
    occurrence: int
    model: str
    settings: dict[str, Any]
    provider: str | None
    structured: bool
    reply: dict[str, Any]


class Tape:
    """The calls in one file; each method opens and closes it, so a tape needs no closing and serves any thread."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Take the name of the file; it is made when the first call is written."""
        self.path = Path(path).expanduser()

    def write(self, call: Call) -> None:
        """Store a call; one with the same request, occurrence, model and settings is replaced."""
        row = (
            call.request,
            call.occurrence,
            call.model,
            json.dumps(call.settings, sort_keys=True),
            call.provider,
            int(call.structured),
            json.dumps(call.reply, ensure_ascii=False, default=_describe),
        )
        # `db` commits at the end of the block, and does not close; `closing` does.
        make_private(self.path)
        with closing(sqlite3.connect(self.path, timeout=30)) as db, db:
            check_schema(db, ["model_calls"], self.path)
            db.execute(_TABLE)
            db.execute("INSERT OR REPLACE INTO model_calls VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def find(self, request: str, occurrence: int) -> list[Call]:
        """Return the recorded calls of one request, one for each model and settings that was asked it."""
        return self._read("WHERE request = ? AND occurrence = ?", request, occurrence)

    def calls(self) -> list[Call]:
        """Return every recorded call, in the order of their first recording.

        Raises:
            ValueError: The file is no record of model calls.
        """
        return self._read("ORDER BY rowid")

    def _read(self, where: str, *values: object) -> list[Call]:
        query = "SELECT request, occurrence, model, settings, provider, structured, reply FROM model_calls "
        try:
            # Opened for reading only, so that a mistyped name does not leave an empty file behind.
            with closing(sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=ro", uri=True, timeout=30)) as db:
                check_schema(db, ["model_calls"], self.path)
                rows = db.execute(query + where, values).fetchall()
        except sqlite3.Error as error:
            raise ValueError(f"{str(self.path)!r} holds no recorded model calls: {error}") from error
        return [Call(r, n, m, json.loads(s), p, bool(st), json.loads(reply)) for r, n, m, s, p, st, reply in rows]


class ExampleTape(Tape):
    """Calls as text: a JSON object a line, with the beginning of the prompt for who reads it."""

    def _read(self, where: str, *values: object) -> list[Call]:
        rows = [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]
        calls = [Call(**{name: value for name, value in row.items() if name != "prompt"}) for row in rows]
        same = [call for call in calls if not values or call.request == values[0]]
        # At temperature 0, as they were recorded, equal requests have equal replies.
        return [call for call in same if (call.request, call.occurrence) == values] or same[: 1 if values else None]


EXAMPLES = Path(__file__).with_name("examples.jsonl")
"""What a model of 1.5B parameters replied to redraft's own examples."""

NOT_AN_EXAMPLE = (
    'the model "replay" answers what README, docs and notebooks ask, word for word, and not this; for tasks of your '
    'own take "local" or a model of yours (who changes an example: make record)'
)

_TABLE = """
CREATE TABLE IF NOT EXISTS model_calls (
    request TEXT NOT NULL, occurrence INTEGER NOT NULL, model TEXT NOT NULL, settings TEXT NOT NULL,
    provider TEXT, structured INTEGER NOT NULL, reply TEXT NOT NULL,
    PRIMARY KEY (request, occurrence, model, settings)
)
"""


def request_key(messages: Sequence[BaseMessage], stop: list[str] | None, options: dict[str, Any]) -> str:
    """Return the SHA-256 of a request: the messages without their ids and metadata, the stop words, the options.

    Of the options, the schema or tools stand in the place of a provider's way to ask for them.
    """
    neutral = options.get(NEUTRAL) or {}
    ignored = {*neutral.get("covers", ()), NEUTRAL, "stream_usage", "ls_structured_output_format"}
    named = {name: value for name, value in options.items() if name not in ignored}
    named |= {name: value for name, value in neutral.items() if name != "covers"}
    request = {"messages": [_plain(message) for message in messages], "stop": stop, "options": named}
    text = json.dumps(request, sort_keys=True, ensure_ascii=False, default=_describe)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(message: BaseMessage) -> dict[str, Any]:
    """Return a message's content; blocks that only carry a cache point become plain text again."""
    content: Any = message.content
    blocks = [block for block in content if isinstance(block, dict) and block.get("type") == "text"]
    if blocks and len(blocks) == len(content) and "cache_control" in blocks[0]:
        content = "".join(str(block.get("text")) for block in blocks)
    fields = {"type": message.type, "content": content, "name": message.name}
    return fields | {name: value for name in ("tool_calls", "tool_call_id") if (value := getattr(message, name, None))}


def _describe(value: object) -> object:
    """Return plain data for what JSON can't hold: a schema class by its schema, a parsed object by its fields."""
    if isinstance(value, type):
        describe = getattr(value, "model_json_schema", None)
        return describe() if describe else value.__qualname__
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if dump else repr(value)


NEUTRAL = "redraft_asked"
"""The option under which a schema or tools are bound in their neutral form, beside what a provider made of them."""


def provider_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a call without our own."""
    return {name: value for name, value in options.items() if name != NEUTRAL}
