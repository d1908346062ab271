"""The two pipes between a locked child and the process that started it, seen from the child. Internal."""

from __future__ import annotations

import json
import os
from typing import Any

__all__ = ["Channel"]


class Channel:
    """Frames, each after its length in four bytes: a letter for the kind, and JSON. Requests come on descriptor 0."""

    def __init__(self, reply_fd: int) -> None:
        """Answer on `reply_fd`."""
        self._reply_fd = reply_fd

    def receive(self) -> tuple[str, Any]:
        """The kind and the content of the next request; the process ends when there will be none."""
        data = self._take(int.from_bytes(self._take(4), "big"))
        return chr(data[0]), json.loads(data[1:])

    def send(self, kind: str, message: Any) -> None:
        """Write `message`, all of it."""
        text = kind.encode() + json.dumps(message, separators=(",", ":")).encode()
        rest = memoryview(len(text).to_bytes(4, "big") + text)
        while rest:
            rest = rest[os.write(self._reply_fd, rest) :]

    def _take(self, size: int) -> bytes:
        parts = []
        while size:
            part = os.read(0, min(size, 1 << 20))
            if not part:
                os._exit(0)
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
