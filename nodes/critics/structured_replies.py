"""Structured replies. Internal.

Asked for as structured output where the model has it, as JSON in the text elsewhere.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from pydantic import BaseModel, ValidationError

from ...models.schema_requests import parse_structured, unfenced
from ...state.dual import Do
from ..runtime.step import DualRunnable
from ..writing.replies import marked_refusal, read_text

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import RunnableConfig

__all__ = [
    "Structured",
    "StructuredModel",
    "UnreadableReplyError",
    "structured_model",
]

Structured = bool | Literal["auto"]
Form = TypeVar("Form", bound=BaseModel)


class UnreadableReplyError(ValueError):
    """A reply is not of the form that was asked for. It is never asked for again; the caller says what that means."""


class StructuredModel(DualRunnable["Sequence[BaseMessage]", Form]):
    """A model whose replies come back as one pydantic class.

    Args:
        model: Any chat model. Without structured output of its own it is shown the JSON schema, and its whole reply
            must be one JSON object, bare or in one code fence: one that it quotes is none of its own.
        form: The class of the replies.

    Raises:
        UnreadableReplyError: At run: the reply can't be read as `form`.
    """

    def __init__(self, model: BaseChatModel, form: type[Form]) -> None:
        self.model = model
        self.form = form
        self._native = _native(model, form, "auto")

    def logic(self, input: Sequence[BaseMessage], config: RunnableConfig | None) -> Generator[Do, Any, Form]:  # noqa: A002
        model, messages = self._native or self.model, list(input)
        if self._native is None:
            schema = json.dumps(self.form.model_json_schema())
            messages.append(HumanMessage(f"{AS_JSON}\n{schema}"))
        try:
            reply = yield Do(model.invoke, model.ainvoke, (messages,))
        except _unreadable_errors() as error:
            raise UnreadableReplyError(str(error)) from error
        return self._read(reply)

    def _read(self, reply: Any) -> Form:
        raw = reply if self._native is None else reply.get("raw")
        if refusal := marked_refusal(raw):
            raise UnreadableReplyError(refusal)
        text = "" if raw is None else read_text(raw)
        try:
            if self._native is not None and _names_a_key_twice(raw):
                raise ValueError(TWICE)  # noqa: TRY301
            fields = _json_object(text) if self._native is None else _parsed(reply)
            return self.form.model_validate(fields.model_dump() if isinstance(fields, BaseModel) else fields)
        except (ValueError, RecursionError):  # its words say more than pydantic's
            bare = text.strip()
            excerpt = bare if len(bare) <= MOST_SHOWN else f"{bare[:MOST_SHOWN]}…"
            raise UnreadableReplyError(f"it has not the form that was asked for: {excerpt!r}") from None


def _json_object(text: str) -> dict[str, Any]:
    """Return the JSON object that a whole text is, bare or in one code fence.

    Raises:
        ValueError: It is none, or names a key twice: which of the two is meant, nobody can say.
    """
    value = json.loads(unfenced(text), object_pairs_hook=_keys_once)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004  as what json raises
    return value


def _keys_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError(TWICE)
    return value


def _names_a_key_twice(raw: Any) -> bool:
    """Return whether a structured reply, in its text or in what it calls, names a key twice.

    Parsers keep the last one, so that `{"accepted": false, "accepted": true}` would accept.
    """
    calls = raw.additional_kwargs.get("tool_calls") if isinstance(raw, BaseMessage) else None
    arguments = [(call.get("function") or {}).get("arguments") for call in calls or ()]
    for text in [read_text(raw) if raw is not None else "", *arguments]:
        try:
            _json_object(str(text))
        except (ValueError, RecursionError) as error:
            if str(error) == TWICE:
                return True
    return False


def _parsed(reply: Mapping[str, Any]) -> Any:
    """Return the data of a structured reply, read as that of a typed draft is; else what the provider's parser read.

    Args:
        reply: The `raw` reply, and what was `parsed` of it: after a thought, a parser may have read the thought.
    """
    raw = reply.get("raw")
    if isinstance(raw, AIMessage):
        with suppress(ValueError, RecursionError):
            return parse_structured(raw, {})
    return None if raw is not None and read_text(raw) != raw.text else reply.get("parsed")


def structured_model(
    model: BaseChatModel, form: type[Form], structured: Structured = "auto"
) -> StructuredModel[Form] | None:
    """Return the model asked for structured output, or `None` where text is asked for.

    Args:
        model: The model.
        form: What a reply is read as.
        structured: `True` asks for it, `False` asks for text, `"auto"` for structured output where the model has it.

    Raises:
        NotImplementedError: `structured` is `True` and the model has none.
    """
    return None if _native(model, form, structured) is None else StructuredModel(model, form)


def _native(model: BaseChatModel, form: type[BaseModel], structured: Structured) -> Any:
    """Return the model bound to a form, with its raw reply beside; `None` where text is asked for."""
    if structured is False:
        return None
    try:
        # A plain JSON schema, not the class: with the class the OpenAI client parses by itself and raises on a reply
        # that is cut short, where we want to read it as no reply of this form.
        return model.with_structured_output(form.model_json_schema(), include_raw=True)
    except (NotImplementedError, AttributeError) as error:  # a wrapper such as `with_retry()` has no such method
        if structured == "auto":
            return None
        raise NotImplementedError(f"structured=True, but the model has no structured output: {error}") from error


def _unreadable_errors() -> tuple[type[Exception], ...]:
    """Return the errors that mean a reply was not of its form, as opposed to no reply.

    JSON that is nested too deeply to be read raises a RecursionError.
    """
    from json import JSONDecodeError

    from langchain_core.exceptions import OutputParserException
    from openai import LengthFinishReasonError

    return (OutputParserException, ValidationError, JSONDecodeError, LengthFinishReasonError, RecursionError)


AS_JSON = "Reply with one JSON object of this JSON schema, and nothing else:"
TWICE = "a key stands there twice"
MOST_SHOWN = 300
"""Characters of an unreadable reply that a message shows."""
