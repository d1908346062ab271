"""Chat models of OpenAI, and of every other server that speaks its protocol. Internal.

`ChatOpenAI` with three differences. It takes nothing for a reply that is none, and says of each error what went wrong
(`WholeChat`): a stream that ends in the middle would pass for a whole reply; a page of HTML, cut JSON or a completion
without a choice comes out as an `IndexError`, a `JSONDecodeError` or an `AttributeError`; and a connection that was
reset is a "Connection error." like any other. It sends other servers no control tokens (`ServedChat`). And where it is
awaited it takes a short way through OpenAI's SDK (`plain_completions`).
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx2
import openai
from langchain_openai import ChatOpenAI
from pydantic import PrivateAttr, SecretStr

from .control_tokens import CONTROL, control_pattern, without_control_tokens
from .hedging import HEDGES
from .http_clients import Route, async_client, sync_client
from .server_replies import BrokenReplyError, broken, check_key, fault_in, fault_in_body

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from langchain_core.language_models import LanguageModelInput
    from langchain_core.outputs import ChatGenerationChunk, ChatResult


__all__ = ["Instead", "ServedChat", "WholeChat", "openai_clients", "openai_model", "plain_completions", "served_model"]


def openai_model(name: str, *, max_output_tokens: int | None, **settings: Any) -> ChatOpenAI:
    """Return OpenAI's own model `name`, with the key in OPENAI_API_KEY.

    Raises:
        ValueError: The key is missing.
    """
    clients = openai_clients(
        f"model 'openai:{name}' needs a key in the environment variable OPENAI_API_KEY; "
        "without one, use the embedded model: 'local'"
    )
    limit: dict[str, Any] = {} if max_output_tokens is None else {"max_tokens": max_output_tokens}
    model = WholeChat(model=name, **clients, **limit, **_common(**settings))
    model.async_client = plain_completions(model.root_async_client)
    return model


def served_model(
    name: str,
    base_url: str,
    api_key: str,
    *,
    route: Route,
    control_tokens: tuple[str, ...] = (),
    max_output_tokens: int | None,
    **settings: Any,
) -> ChatOpenAI:
    """Return the model `name` of the server at `base_url`, which is sent `api_key` and nothing else about who asks.

    Of its control tokens none is sent in a message, nor of those of known models.
    """
    # ChatOpenAI renames max_tokens to max_completion_tokens, which many compatible servers do not know.
    body: dict[str, Any] = {"extra_body": {"max_tokens": max_output_tokens}} if max_output_tokens is not None else {}
    model = ServedChat(
        model=name,
        base_url=base_url,
        api_key=SecretStr(api_key),
        openai_proxy=None,
        use_responses_api=False,
        **body,
        **_shared_clients(route),
        **_common(**settings),
    )
    model._control = control_pattern(control_tokens)
    # The SDK reads these from OPENAI_ORG_ID, OPENAI_PROJECT_ID and OPENAI_CUSTOM_HEADERS: OpenAI's business only.
    for client in (model.root_client, model.root_async_client):
        client.organization = client.project = None
        client._custom_headers = {}
    model.async_client = plain_completions(model.root_async_client)
    return model


def openai_clients(without_key: str) -> dict[str, Any]:
    """Return the HTTP clients for OpenAI itself, as LangChain's classes take them.

    Raises:
        ValueError: There is no key in OPENAI_API_KEY, as `without_key` says, or none that can be sent.
    """
    if not os.environ.get("OPENAI_API_KEY"):
        raise ValueError(without_key)
    check_key(os.environ["OPENAI_API_KEY"], name="OPENAI_API_KEY")
    # With a proxy of its own, LangChain builds its own clients and refuses others.
    return {} if os.environ.get("OPENAI_PROXY") else _shared_clients("default")


def _shared_clients(route: Route) -> dict[str, Any]:
    return {"http_client": sync_client(route), "http_async_client": async_client(route)}


def _common(*, temperature: float | None, seed: int | None, max_retries: int, timeout_s: float) -> dict[str, Any]:
    settings = {"temperature": temperature, "seed": seed}
    return {
        **{name: value for name, value in settings.items() if value is not None},
        "max_retries": max_retries,
        "timeout": timeout_s,
        # Else a pause of two minutes between tokens ends a slow local model's reply; timeout_s holds for streams too.
        "stream_chunk_timeout": None,
        "stream_usage": True,
    }


class WholeChat(ChatOpenAI):
    """`ChatOpenAI` that raises a `BrokenReplyError` for what is no whole reply, streamed or not."""

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        with self._explained():
            return super()._generate(*args, **kwargs)

    async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
        with self._explained():
            if (hedges := HEDGES.get()) is None:
                return await super()._agenerate(*args, **kwargs)
            return await hedges.first_of(self.model_name, partial(super()._agenerate, *args, **kwargs))

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        ended = self._use_responses_api({**kwargs, **self.model_kwargs})  # whose events end otherwise
        with self._explained():
            for chunk in super()._stream(*args, **kwargs):
                ended = ended or _ends(chunk)
                yield chunk
        if not ended:
            raise BrokenReplyError(CUT)

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        ended = self._use_responses_api({**kwargs, **self.model_kwargs})
        with self._explained():
            async for chunk in super()._astream(*args, **kwargs):
                ended = ended or _ends(chunk)
                yield chunk
        if not ended:
            raise BrokenReplyError(CUT)

    def _create_chat_result(self, response: Any, generation_info: dict[str, Any] | None = None) -> ChatResult:
        if fault := fault_in(response):
            raise self._broken(fault)
        return super()._create_chat_result(response, generation_info)

    def _convert_chunk_to_generation_chunk(self, chunk: dict[str, Any], *args: Any) -> ChatGenerationChunk | None:
        converted = super()._convert_chunk_to_generation_chunk(chunk, *args)
        choices = chunk.get("choices") or (chunk.get("chunk") or {}).get("choices") or [{}]
        if converted is not None and (refusal := (choices[0].get("delta") or {}).get("refusal")):
            converted.message.additional_kwargs["refusal"] = refusal  # as in a reply that is not streamed
        return converted

    def schema_arguments(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments that ask for JSON of a schema.

        As part of the body, so that a reply that was cut short comes back as it is, where the SDK's own way raises.
        """
        form = {"name": "answer", "schema": schema}
        if self._use_responses_api({**self.model_kwargs}):
            return {"text": {"format": {"type": "json_schema", **form}}}
        return {
            "extra_body": {**(self.extra_body or {}), "response_format": {"type": "json_schema", "json_schema": form}}
        }

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise what is raised inside with a message that says what went wrong."""
        try:
            yield
        except openai.APIConnectionError as error:
            error.message = _failed_connection(error)
            # `str(error)` reads the arguments, not the message.
            error.args = (error.message,)
            raise
        except openai.OpenAIError:
            raise
        except Exception as error:
            response = getattr(error, "response", None)  # LangChain's note, where it could not make out what came
            unreadable = "its JSON can't be read" if isinstance(error, json.JSONDecodeError) else None
            fault = unreadable if response is None else fault_in_body(response)
            if fault is None:
                raise
            raise self._broken(fault) from error

    def _broken(self, fault: str) -> BrokenReplyError:
        key = self.openai_api_key.get_secret_value() if isinstance(self.openai_api_key, SecretStr) else ""
        return broken(fault, key=key)


CUT = "The server's stream ended before the reply did: nothing said that it was whole"


def _failed_connection(error: openai.APIConnectionError) -> str:
    """Return the error of a failed connection, which says how often it was tried."""
    retries = int(error.request.headers.get("x-stainless-retry-count", "0"))
    attempts = f" (attempt {retries + 1}, the last one)" if retries else ""
    if isinstance(error, openai.APITimeoutError):
        limit_s = error.request.extensions.get("timeout", {}).get("read")
        return f"Request timed out: no whole reply{'' if limit_s is None else f' within {limit_s:g} s'}{attempts}"
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, httpx2.RequestError):
        cause = cause.__cause__
    return f"Connection error{f': {cause}' if cause is not None and str(cause) else ''}{attempts}"


def _ends(chunk: ChatGenerationChunk) -> bool:
    return bool((chunk.generation_info or {}).get("finish_reason"))


class ServedChat(WholeChat):
    """Sends every message without control tokens; see `without_control_tokens`."""

    _control: Any = PrivateAttr(default=CONTROL)

    def _get_request_payload(
        self, input_: LanguageModelInput, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        payload: dict[str, Any] = super()._get_request_payload(input_, stop=stop, **kwargs)
        return {**payload, "messages": without_control_tokens(payload["messages"], self._control)}


def plain_completions(client: openai.AsyncOpenAI) -> Any:
    """Return plain chat completions by a short way through OpenAI's SDK: half the CPU of a call.

    `ChatOpenAI` asks with `client.chat.completions`, which walks through the types of every message before a request,
    and builds typed objects from every reply that `ChatOpenAI` then turns into dicts again. Put in its place as
    `async_client`, this sends the same request through the same client, with its retries, time-outs, errors and
    connections, and reads the reply as the dict that it is. Whatever is not plain text in and out (tools, a refusal,
    structured output, streams, headers of one's own) goes the SDK's usual way.
    """
    usual = client.chat.completions

    async def create(**payload: Any) -> Any:
        texts_only = all(isinstance(m.get("content"), str) and "tool_calls" not in m for m in payload["messages"])
        if payload.get("stream") or not _PLAIN.issuperset(payload) or not texts_only:
            return await usual.with_raw_response.create(**payload)
        extra_body = payload.pop("extra_body", None) or {}
        raw: Any = await client.post(
            "/chat/completions",
            cast_to=object,
            body={**payload, **extra_body},
            # The SDK's own mark of a call that wants the response with its headers.
            options={"headers": {"X-Stainless-Raw-Response": "true"}, "security": {"bearer_auth": True}},
        )
        return Instead(raw, parse=lambda: _parsed(raw))

    return Instead(usual, with_raw_response=Instead(usual.with_raw_response, create=create))


class Instead:
    """An object with some attributes of its own, and else those of another."""

    def __init__(self, usual: Any, **own: Any) -> None:
        self._usual = usual
        vars(self).update(own)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._usual, name)


def _parsed(raw: Any) -> Any:
    """Return a reply as a dict, or as the SDK's typed object where a dict would lose something."""
    reply = raw.parse()
    if _is_plain(reply):
        return {"system_fingerprint": None, **reply}  # else it is "" where none was sent
    from openai.types.chat import ChatCompletion

    return raw.parse(to=ChatCompletion)


_PLAIN = frozenset(
    [
        *("model", "messages", "stream", "extra_body", "temperature", "top_p", "seed", "stop", "n", "user"),
        *("max_tokens", "max_completion_tokens", "frequency_penalty", "presence_penalty"),
    ]
)
"""Parameters that are sent as they are given; a request with any other goes the usual way."""

_SPEAKING = frozenset(["role", "content", "refusal", "annotations"])
"""What a message that only says something may have; `None` and empty values beside it do no harm."""


def _is_plain(reply: Any) -> bool:
    if not isinstance(reply, dict) or reply.get("error") or not isinstance(reply.get("usage") or {}, dict):
        return False
    choices = reply.get("choices")
    return isinstance(choices, list) and bool(choices) and all(map(_says, choices))


def _says(choice: Any) -> bool:
    message: Mapping[str, Any] | None = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict) or not isinstance(message.get("content"), str) or message.get("refusal"):
        return False
    return message.get("role") == "assistant" and not any(message[name] for name in message if name not in _SPEAKING)
