"""The file a scripted model reads its replies from, and what counts as a reply."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os

__all__ = ["check_reply", "read_replies"]

_KEYS = {"text", "input_tokens", "output_tokens", "structured", "refusal", "error"}


def read_replies(path: str | os.PathLike[str]) -> list[Any]:
    """The replies of a file: one JSON string or object a line, or one JSON list.

    Raises:
        ValueError: The file can't be read, is empty, or a line is wrong; the message gives its number.
    """
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, RuntimeError, UnicodeDecodeError) as error:  # RuntimeError: ~ of nobody known
        raise ValueError(f"scripted replies {str(path)!r} can't be read: {error}") from error
    path = str(path)
    if text.lstrip().startswith("["):
        try:
            found = json.loads(text)
        except ValueError as error:
            raise ValueError(f"scripted replies {path!r} are not a JSON list: {error}") from error
        pairs = [(f"{path!r}, reply {number}", reply) for number, reply in enumerate(found, start=1)]
    else:
        pairs = []
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                try:
                    pairs.append((f"{path!r}, line {number}", json.loads(line)))
                except ValueError as error:
                    raise ValueError(f"scripted replies {path!r}, line {number}: not JSON: {error}") from error
    if not pairs:
        raise ValueError(f"scripted replies {path!r}: no reply in it")
    for where, reply in pairs:
        check_reply(reply, where=f"scripted replies {where}")
    return [reply for _, reply in pairs]


def check_reply(reply: object, *, where: str) -> None:
    """Nothing, for a reply that a scripted model can give.

    Raises:
        ValueError: It can't; the message begins with `where`.
    """
    if isinstance(reply, str | Exception) or (callable(reply) and not isinstance(reply, type)):
        return
    if not isinstance(reply, dict) or not reply:
        raise ValueError(f"{where}: {reply!r:.80} is not a string or an object with some of {sorted(_KEYS)}")
    if unknown := sorted(set(reply) - _KEYS):
        raise ValueError(f"{where}: unknown {unknown[0]!r}; known are {sorted(_KEYS)}")
    for name in ("text", "refusal", "error"):
        if not isinstance(reply.get(name, ""), str):
            raise ValueError(f"{where}: {name} must be a string, not {reply[name]!r}")  # noqa: TRY004
    for name in ("input_tokens", "output_tokens"):
        count = reply.get(name, 0)
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise ValueError(f"{where}: {name} must be a whole number from 0 up, not {count!r}")
