"""Chat models that keep every reply in a file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence  # noqa: TC003  # with_fallbacks resolves these hints at run time
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, message_to_dict
from langchain_core.runnables import Runnable, RunnableBinding, RunnableParallel, RunnableSequence
from langchain_core.tools import BaseTool  # noqa: TC002  # as above

from .prices import provider_of
from .structured import schema_json
from .tape import Call, Tape
from .taped import ASKED, Taped, provider_options

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Iterator

    from langchain_core.outputs import ChatGenerationChunk, ChatResult

__all__ = ["RecordingModel"]


class RecordingModel(Taped):
    """A chat model whose replies are written to a SQLite file as they arrive; else it behaves as the model inside.

    A call is known by its messages, its options, the model and its settings, and by how many equal calls this object
    made before: sampling twice is two replies. Recording again to the same file replaces the calls that are made
    again. A reply that can't be parsed (ValueError) is kept as such; other errors are not, so a later success is.
    """

    inner: BaseChatModel

    def __init__(self, inner: BaseChatModel, path: str | os.PathLike[str]) -> None:
        """Wrap `inner` and write to `path`, which is made if missing."""
        can_stream = any(
            getattr(type(inner), name) is not getattr(BaseChatModel, name) for name in ("_stream", "_astream")
        )
        super().__init__(inner=inner, disable_streaming=not can_stream or inner.disable_streaming)  # type: ignore[call-arg]
        self._tape = Tape(path)

    @property
    def model_name(self) -> str:
        """The name of the model inside."""
        return str(self._get_ls_params().get("ls_model_name") or self.inner._llm_type)

    @property
    def _llm_type(self) -> str:
        return "redraft-recording"

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return self.inner._get_ls_params(stop=stop, **kwargs)

    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """The model inside with these tools, recorded.

        Raises:
            NotImplementedError: The model inside takes no tools.
        """
        bound = self.inner.bind_tools(tools, **kwargs)
        return self._rebound(bound, {"tools": [schema_json(tool) for tool in tools], **kwargs})  # type: ignore[arg-type]

    def with_structured_output(
        self, schema: dict[str, Any] | type, *, include_raw: bool = False, **kwargs: Any
    ) -> Runnable[LanguageModelInput, Any]:
        """The model inside with its own kind of structured output, recorded.

        Raises:
            NotImplementedError: The model inside gives text only, or builds its structured output in a way that can't
                be recorded.
        """
        chain = self.inner.with_structured_output(schema, include_raw=include_raw, **kwargs)
        return self._rebound(chain, {"schema": schema_json(schema)})

    def _rebound(self, runnable: Runnable[Any, Any], asked: dict[str, Any]) -> Runnable[Any, Any]:
        """The same runnable with this model in the place of the one inside."""
        if runnable is self.inner:
            return self.bind(**{ASKED: asked})
        if isinstance(runnable, RunnableBinding) and runnable.bound is self.inner:
            asked = asked | {"covers": sorted(runnable.kwargs)}
            return runnable.model_copy(update={"bound": self, "kwargs": {**runnable.kwargs, ASKED: asked}})
        if isinstance(runnable, RunnableSequence):
            return RunnableSequence(self._rebound(runnable.first, asked), *runnable.steps[1:])
        if isinstance(runnable, RunnableParallel) and len(runnable.steps__) == 1:
            return RunnableParallel({name: self._rebound(step, asked) for name, step in runnable.steps__.items()})
        raise NotImplementedError(f"structured output of {type(self.inner).__name__} can't be recorded")

    def _keep(self, messages: list[BaseMessage], stop: list[str] | None, options: dict[str, Any], reply: Any) -> None:
        request, occurrence = self._position(messages, stop, options)
        if isinstance(reply, ValueError):
            kept: dict[str, Any] = {"unparseable": str(reply)}
        else:
            kept = {"message": message_to_dict(reply)}
        call = Call(
            request=request,
            occurrence=occurrence,
            model=self.model_name,
            settings=self._settings(),
            provider=provider_of(self.inner),
            structured="schema" in (options.get(ASKED) or {}),
            reply=kept,
        )
        self._tape.write(call)

    def _settings(self) -> dict[str, Any]:
        params = self._get_ls_params()
        found = {
            "temperature": params.get("ls_temperature"),
            # servers that speak OpenAI's protocol are sent it in the body
            "max_output_tokens": params.get("ls_max_tokens")
            or (getattr(self.inner, "extra_body", None) or {}).get("max_tokens"),
            "seed": getattr(self.inner, "seed", None),
        }
        return {name: value for name, value in found.items() if value is not None}

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        try:
            result = self.inner._generate(messages, stop=stop, run_manager=run_manager, **provider_options(kwargs))
        except ValueError as error:
            self._keep(messages, stop, kwargs, error)
            raise
        self._keep(messages, stop, kwargs, result.generations[0].message)
        return result

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        try:
            result = await self.inner._agenerate(
                messages, stop=stop, run_manager=run_manager, **provider_options(kwargs)
            )
        except ValueError as error:
            await asyncio.to_thread(self._keep, messages, stop, kwargs, error)
            raise
        await asyncio.to_thread(self._keep, messages, stop, kwargs, result.generations[0].message)
        return result

    def _stream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        whole: ChatGenerationChunk | None = None
        try:
            for chunk in self.inner._stream(messages, stop=stop, run_manager=run_manager, **provider_options(kwargs)):
                whole = chunk if whole is None else whole + chunk
                yield chunk
        except ValueError as error:
            self._keep(messages, stop, kwargs, error)
            raise
        if whole is not None:
            self._keep(messages, stop, kwargs, _message_of(whole))

    async def _astream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        whole: ChatGenerationChunk | None = None
        try:
            async for chunk in self.inner._astream(
                messages, stop=stop, run_manager=run_manager, **provider_options(kwargs)
            ):
                whole = chunk if whole is None else whole + chunk
                yield chunk
        except ValueError as error:
            await asyncio.to_thread(self._keep, messages, stop, kwargs, error)
            raise
        if whole is not None:
            await asyncio.to_thread(self._keep, messages, stop, kwargs, _message_of(whole))


def _message_of(chunk: ChatGenerationChunk) -> AIMessage:
    fields = chunk.message.model_dump(exclude={"type", "tool_call_chunks", "chunk_position"})
    return AIMessage(**fields)
