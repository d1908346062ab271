"""Chat models that answer from a file of recorded replies, without a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence  # noqa: TC003  # with_fallbacks resolves these hints at run time
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import LanguageModelInput  # noqa: TC002  # as above
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, messages_from_dict
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable  # noqa: TC002  # as above
from langchain_core.tools import BaseTool  # noqa: TC002  # as above
from pydantic import PrivateAttr

from .structured import parse_structured, schema_json, structured_chain
from .tape import Call, Tape
from .taped import ASKED, Taped

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

__all__ = ["ReplayModel"]


class ReplayModel(Taped):
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
        self, path: str | os.PathLike[str], *, model: str | None = None, settings: dict[str, Any] | None = None
    ) -> None:
        """Read the calls in `path`.

        Args:
            path: The file that a `RecordingModel` wrote.
            model: Answer as this one of the recorded models; needed only where several were asked the same.
            settings: Answer as recorded under these settings (`temperature`, `max_output_tokens`, `seed`), likewise.

        Raises:
            ValueError: There is no such record, or it has no calls of that model and those settings.
        """
        tape = Tape(path)
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
        """This model asked with tools, as it was recorded."""
        return self.bind(**{ASKED: {"tools": [schema_json(tool) for tool in tools], **kwargs}})  # type: ignore[arg-type]

    def with_structured_output(
        self, schema: dict[str, Any] | type, *, include_raw: bool = False, **kwargs: Any
    ) -> Runnable[LanguageModelInput, Any]:
        """The recorded structured answers as instances of `schema`.

        Raises:
            NotImplementedError: No structured output was recorded.
        """
        if not self._any_structured:
            raise NotImplementedError(f"no structured output was recorded in {str(self._tape.path)!r}")
        asked = {ASKED: {"schema": schema_json(schema)}}
        return structured_chain(
            self, lambda message: parse_structured(message, schema), include_raw=include_raw, **asked
        )

    def _answer(self, messages: list[BaseMessage], stop: list[str] | None, options: dict[str, Any]) -> AIMessage:
        request, occurrence = self._position(messages, stop, options)
        found = [call for call in self._tape.find(request, occurrence) if _fits(call, self._only, self.settings)]
        start = str(messages[-1].content)[:120] if messages else ""
        if not found:
            times = "" if occurrence == 0 else f" {occurrence + 1} times"
            raise LookupError(f"this call was not recorded{times} in {str(self._tape.path)!r}: {start!r}")
        if len(found) > 1:
            models = sorted({call.model for call in found})
            raise LookupError(
                f"this call was recorded with several models or settings ({', '.join(models)}) in "
                f"{str(self._tape.path)!r}; name one, e.g. {f'replay:{self._tape.path}#{models[0]}'!r}: {start!r}"
            )
        reply = found[0].reply
        if "unparseable" in reply:
            raise ValueError(reply["unparseable"])
        (message,) = messages_from_dict([reply["message"]])
        assert isinstance(message, AIMessage)  # noqa: S101  # only replies are ever written
        message.response_metadata.setdefault("model_name", found[0].model)  # so that records name who was asked then
        return message

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._answer(messages, stop, kwargs))])

    def _stream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        message = self._answer(messages, stop, kwargs)
        chunk = ChatGenerationChunk(message=_chunk_of(message))
        if run_manager:
            run_manager.on_llm_new_token(message.text, chunk=chunk)
        yield chunk


def _fits(call: Call, model: str | None, settings: dict[str, Any]) -> bool:
    same = all(call.settings.get(name) == value for name, value in settings.items())
    return same and (model is None or call.model == model)


def _chunk_of(message: AIMessage) -> AIMessageChunk:
    return AIMessageChunk(**message.model_dump(exclude={"type"}), chunk_position="last")
