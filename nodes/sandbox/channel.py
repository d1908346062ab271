"""The two pipes between a locked child and the process that started it, seen from the child. Internal."""

from __future__ import annotations

import json
import os
from typing import Any

__all__ = ["Channel"]


class Channel:
    """Frames of JSON, each after its length in four bytes; requests come on file descriptor 0."""

    def __init__(self, reply_fd: int) -> None:
        """Answer on `reply_fd`."""
        self._reply_fd = reply_fd

    def receive(self) -> Any:
        """The next request; the process ends when there will be none."""
        return json.loads(self._take(int.from_bytes(self._take(4), "big")))

    def send(self, message: dict[str, Any]) -> None:
        """Write `message`, all of it."""
        text = json.dumps(message, separators=(",", ":")).encode()
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
