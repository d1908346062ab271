"""Bounded reading of what a sandbox replies, which may be any lie that code can tell. Internal."""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["REPLY_BYTES", "TAMPERED", "read_json", "read_value", "read_words", "writable"]

REPLY_BYTES = 4 << 20
"""Longest reply; a larger one counts as too much output."""
WORDS_BYTES = 1 << 16
"""Longest reply that says what went wrong."""
MAX_TOKENS = 400_000
"""Brackets, commas, strings and numbers of a reply; a hundred bytes each at most, once read."""
MAX_DEPTH = 96
TAMPERED = "the process was tampered with: its reply is not plain data"

TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[][{},]|[^][{},":\s]++', re.DOTALL)
"""A quote that is never closed runs to the end, so that looking for the next one takes no second pass."""


def read_json(text: str) -> Any:
    """Return the JSON data in `text`, counted before any of it is built.

    Raises:
        ValueError: it is no JSON, nests too deep or holds too much.
    """
    depth = 0
    for number, token in enumerate(TOKEN.finditer(text)):
        first = text[token.start()]
        depth += (first in "[{") - (first in "]}")
        if number >= MAX_TOKENS or depth > MAX_DEPTH:
            raise ValueError("the reply is too much to read")
    # Half a surrogate pair can only come as an escape, and is one character once it is read.
    return json.loads(writable(json.dumps(json.loads(text), ensure_ascii=False)))


def read_value(text: str) -> tuple[Any, str | None]:
    """Return the value that a run replied with, and why there is none.

    Raises:
        ValueError: the reply is forged.
    """
    reply = read_json(text)
    if not isinstance(reply, dict) or set(reply) - {"value", "unplain"} or "value" not in reply:
        raise ValueError(TAMPERED)
    note = reply.get("unplain")
    if note is not None and not isinstance(note, str):
        raise ValueError(TAMPERED)
    return reply["value"], None if note is None else f"the value is not plain data: {note[:200]}"


def read_words(data: bytes) -> dict[str, str]:
    """Return a reply that is texts by name, such as what was raised.

    Raises:
        ValueError: the reply is forged.
    """
    words = read_json(data.decode()) if len(data) <= WORDS_BYTES else None
    if not isinstance(words, dict) or not all(isinstance(word, str) for word in words.values()):
        raise ValueError(TAMPERED)
    return words


def writable(text: str) -> str:
    """`text` as UTF-8 can hold it: half a surrogate pair, which no file or database takes, becomes U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
