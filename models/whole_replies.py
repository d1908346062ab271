"""`ChatOpenAI` that takes nothing for a reply that is none, and says of each error what went wrong.

A stream that ends in the middle, with nothing to say that it was cut, would pass for a whole reply; a page of HTML, cut
JSON or a completion without a choice comes out as an `IndexError`, a `JSONDecodeError` or an `AttributeError`, by who
stumbles over it first; and a connection that was reset is a "Connection error." like any other.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx2
import openai
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from .broken_replies import BrokenReplyError, broken, fault_in, fault_in_body

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from langchain_core.outputs import ChatGenerationChunk, ChatResult

__all__ = ["WholeChat"]


class WholeChat(ChatOpenAI):
    """Raises a `BrokenReplyError` for what is no whole reply, streamed or not."""

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        with self._told():
            return super()._generate(*args, **kwargs)

    async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
        with self._told():
            return await super()._agenerate(*args, **kwargs)

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        ended = self._use_responses_api({**kwargs, **self.model_kwargs})  # whose events end otherwise
        with self._told():
            for chunk in super()._stream(*args, **kwargs):
                ended = ended or _ends(chunk)
                yield chunk
        if not ended:
            raise BrokenReplyError(CUT)

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        ended = self._use_responses_api({**kwargs, **self.model_kwargs})
        with self._told():
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
        found = super()._convert_chunk_to_generation_chunk(chunk, *args)
        choices = chunk.get("choices") or (chunk.get("chunk") or {}).get("choices") or [{}]
        if found is not None and (refusal := (choices[0].get("delta") or {}).get("refusal")):
            found.message.additional_kwargs["refusal"] = refusal  # as in a reply that is not streamed
        return found

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Let what is raised inside say what went wrong."""
        try:
            yield
        except openai.APIConnectionError as error:
            error.message = _timed_out(error) if isinstance(error, openai.APITimeoutError) else _disconnected(error)
            error.args = (error.message,)
            raise
        except openai.OpenAIError:
            raise
        except Exception as error:
            response = getattr(error, "response", None)  # LangChain's note, where it could not make out what came
            if response is not None:
                fault = fault_in_body(response)
            else:
                fault = "its JSON can't be read" if isinstance(error, json.JSONDecodeError) else None
            if fault is None:
                raise
            raise self._broken(fault) from error

    def _broken(self, fault: str) -> BrokenReplyError:
        key = self.openai_api_key.get_secret_value() if isinstance(self.openai_api_key, SecretStr) else ""
        return broken(fault, key=key)


CUT = "The server's stream ended before the reply did: nothing said that it was whole"


def _timed_out(error: openai.APIConnectionError) -> str:
    limit_s = error.request.extensions.get("timeout", {}).get("read")
    within = "" if limit_s is None else f" within {limit_s:g} s"
    return f"Request timed out: no whole reply{within}{_attempts(error)}"


def _disconnected(error: openai.APIConnectionError) -> str:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, httpx2.RequestError):
        cause = cause.__cause__
    why = f": {cause}" if cause is not None and str(cause) else ""
    return f"Connection error{why}{_attempts(error)}"


def _attempts(error: openai.APIConnectionError) -> str:
    retries = int(error.request.headers.get("x-stainless-retry-count", "0"))
    return f" (attempt {retries + 1}, the last one)" if retries else ""


def _ends(chunk: ChatGenerationChunk) -> bool:
    return bool((chunk.generation_info or {}).get("finish_reason"))
