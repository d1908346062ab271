"""Plain chat completions by the short way through OpenAI's SDK.

`ChatOpenAI` asks with `client.chat.completions`, which walks through the types of every message before a request, and
builds typed objects from every reply that `ChatOpenAI` then turns into dicts again: half of what a call costs in CPU. A
`ChatOpenAI` whose `async_client` is a `PlainCompletions` sends the same request through the same client, with its
retries, time-outs, errors and connections, and reads the reply as the dict that it is. Whatever is not plain text in
and out (tools, a refusal, structured output, streams, headers of one's own) goes the SDK's usual way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openai import AsyncOpenAI

__all__ = ["PlainCompletions"]

_PLAIN = frozenset(
    [
        *("model", "messages", "stream", "extra_body", "temperature", "top_p", "seed", "stop", "n", "user"),
        *("max_tokens", "max_completion_tokens", "frequency_penalty", "presence_penalty"),
    ]
)
"""Parameters that are sent as they are given; a request with any other goes the usual way."""

_SPEAKING = frozenset(["role", "content", "refusal", "annotations"])
"""What a message that only says something may have; `None` and empty values beside it do no harm."""


class PlainCompletions:
    """Stands for `client.chat.completions` of an `AsyncOpenAI` in a `ChatOpenAI`."""

    def __init__(self, client: AsyncOpenAI) -> None:
        self._usual = client.chat.completions
        self.with_raw_response = _RawCompletions(client)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._usual, name)


class _RawCompletions:
    def __init__(self, client: AsyncOpenAI) -> None:
        self._client = client
        self._usual = client.chat.completions.with_raw_response

    def __getattr__(self, name: str) -> Any:
        return getattr(self._usual, name)

    async def create(self, **payload: Any) -> Any:
        """Send the request; what comes back has `headers`, and the reply in `parse()`.

        Raises:
            openai.OpenAIError: As the SDK raises it, after its retries.
        """
        if payload.get("stream") or not _PLAIN.issuperset(payload) or not _said(payload["messages"]):
            return await self._usual.create(**payload)
        body = {**payload, **(payload.pop("extra_body", None) or {})}
        body.pop("extra_body", None)
        raw = await self._client.post(
            "/chat/completions",
            cast_to=object,
            body=body,
            options={"headers": {"X-Stainless-Raw-Response": "true"}, "security": {"bearer_auth": True}},
        )
        return _RawReply(raw)


class _RawReply:
    """A reply that is read as a dict where it is plain."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def parse(self) -> Any:
        """Return the reply; as the SDK's typed object where a dict would lose something."""
        reply = self._raw.parse()
        if _is_plain(reply):
            return {"system_fingerprint": None, **reply}  # else it is "" where none was sent
        from openai.types.chat import ChatCompletion

        return self._raw.parse(to=ChatCompletion)


def _said(messages: Any) -> bool:
    """Whether the messages hold texts only."""
    return all(isinstance(message.get("content"), str) and "tool_calls" not in message for message in messages)


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
