"""SQLite file of recorded model calls, by the keys of their requests. Internal.

Plain JSON, one row a call.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._files import check_schema, make_private

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from langchain_core.messages import BaseMessage

__all__ = ["NEUTRAL", "Call", "Tape", "provider_options", "request_key"]


@dataclass(frozen=True)
class Call:
    """One recorded call: the request, the how-many-th equal one it is, the model, and its reply as plain JSON data."""

    request: str
    occurrence: int
    model: str
    settings: dict[str, Any]
    provider: str | None
    structured: bool
    reply: dict[str, Any]


class Tape:
    """The calls in one file; each method opens and closes it, so a tape needs no closing and serves any thread."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Take the name of the file; it is made when the first call is written."""
        self.path = Path(path).expanduser()

    def write(self, call: Call) -> None:
        """Store a call; one with the same request, occurrence, model and settings is replaced."""
        row = (
            call.request,
            call.occurrence,
            call.model,
            json.dumps(call.settings, sort_keys=True),
            call.provider,
            int(call.structured),
            json.dumps(call.reply, ensure_ascii=False, default=_describe),
        )
        # `db` commits at the end of the block, and does not close; `closing` does.
        make_private(self.path)
        with closing(sqlite3.connect(self.path, timeout=30)) as db, db:
            check_schema(db, ["model_calls"], self.path)
            db.execute(_TABLE)
            db.execute("INSERT OR REPLACE INTO model_calls VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def find(self, request: str, occurrence: int) -> list[Call]:
        """Return the recorded calls of one request, one for each model and settings that was asked it."""
        return self._read("WHERE request = ? AND occurrence = ?", request, occurrence)

    def calls(self) -> list[Call]:
        """Return every recorded call, in the order of their first recording.

        Raises:
            ValueError: The file is no record of model calls.
        """
        return self._read("ORDER BY rowid")

    def _read(self, where: str, *values: object) -> list[Call]:
        query = "SELECT request, occurrence, model, settings, provider, structured, reply FROM model_calls "
        try:
            # Opened for reading only, so that a mistyped name does not leave an empty file behind.
            with closing(sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=ro", uri=True, timeout=30)) as db:
                check_schema(db, ["model_calls"], self.path)
                rows = db.execute(query + where, values).fetchall()
        except sqlite3.Error as error:
            raise ValueError(f"{str(self.path)!r} holds no recorded model calls: {error}") from error
        return [Call(r, n, m, json.loads(s), p, bool(st), json.loads(reply)) for r, n, m, s, p, st, reply in rows]


_TABLE = """
CREATE TABLE IF NOT EXISTS model_calls (
    request TEXT NOT NULL, occurrence INTEGER NOT NULL, model TEXT NOT NULL, settings TEXT NOT NULL,
    provider TEXT, structured INTEGER NOT NULL, reply TEXT NOT NULL,
    PRIMARY KEY (request, occurrence, model, settings)
)
"""


def request_key(messages: Sequence[BaseMessage], stop: list[str] | None, options: dict[str, Any]) -> str:
    """Return the SHA-256 of a request: the messages without their ids and metadata, the stop words, the options.

    Of the options, the schema or tools stand in the place of a provider's way to ask for them.
    """
    neutral = options.get(NEUTRAL) or {}
    ignored = {*neutral.get("covers", ()), NEUTRAL, "stream_usage", "ls_structured_output_format"}
    named = {name: value for name, value in options.items() if name not in ignored}
    named |= {name: value for name, value in neutral.items() if name != "covers"}
    request = {"messages": [_plain(message) for message in messages], "stop": stop, "options": named}
    text = json.dumps(request, sort_keys=True, ensure_ascii=False, default=_describe)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(message: BaseMessage) -> dict[str, Any]:
    """Return a message's content; blocks that only carry a cache point become plain text again."""
    content: Any = message.content
    blocks = [block for block in content if isinstance(block, dict) and block.get("type") == "text"]
    if blocks and len(blocks) == len(content) and "cache_control" in blocks[0]:
        content = "".join(str(block.get("text")) for block in blocks)
    fields = {"type": message.type, "content": content, "name": message.name}
    return fields | {name: value for name in ("tool_calls", "tool_call_id") if (value := getattr(message, name, None))}


def _describe(value: object) -> object:
    """Return plain data for what JSON can't hold: a schema class by its schema, a parsed object by its fields."""
    if isinstance(value, type):
        describe = getattr(value, "model_json_schema", None)
        return describe() if describe else value.__qualname__
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if dump else repr(value)


NEUTRAL = "redraft_asked"
"""The option under which a schema or tools are bound in their neutral form, beside what a provider made of them."""


def provider_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a call without our own."""
    return {name: value for name, value in options.items() if name != NEUTRAL}
