"""The stream mode `messages`: each message whole so far, as it grows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from langchain_core.messages import BaseMessage

__all__ = ["MessageParts"]


class MessageParts:
    """Puts the pieces of messages together."""

    def __init__(self) -> None:
        self._so_far: dict[str, Any] = {}

    def read(self, message: BaseMessage, metadata: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Give the events of one piece: `messages/metadata` for a new message, then `messages/partial` with what there
        is of it, or `messages/complete` with all of it."""
        from langchain_core.messages import BaseMessageChunk

        name = message.id or ""
        if name not in self._so_far:
            yield "messages/metadata", {name: {"metadata": dict(metadata)}}
        if not isinstance(message, BaseMessageChunk):
            self._so_far[name] = message
            yield "messages/complete", [message]
            return
        earlier = self._so_far.get(name)
        self._so_far[name] = message if earlier is None else earlier + message
        last = getattr(message, "chunk_position", None) == "last"
        yield "messages/complete" if last else "messages/partial", [self._so_far[name]]
