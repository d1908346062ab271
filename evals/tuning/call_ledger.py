"""Ledger of a tuning run's model calls: it holds the token budget and keeps each call on disk. Internal."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage

from ..._files import appended, write_file
from ...nodes.writing.replies import read_text

if TYPE_CHECKING:
    from pathlib import Path
    from uuid import UUID

    from langchain_core.outputs import LLMResult

__all__ = ["Call", "CallLedger", "TuningBudgetSpentError"]


class TuningBudgetSpentError(RuntimeError):
    """A model call was refused, since the tokens of the tuning run are spent."""

    # LangChain's log of it is silenced by the end of this name, see `redraft.nodes.runtime.meter`.
    def __init__(self) -> None:
        super().__init__("the token budget is spent, so no further call is made")


class Call(NamedTuple):
    """A call that was answered."""

    thread: str
    """The thread that made it; the reflection model's calls have names of their own."""
    asked: str
    reply: str
    tokens: int


class CallLedger(BaseCallbackHandler):
    """Counts the tokens of every model call below it, and refuses a call once as many are spent as `limit` says.

    Each call is a line of the file before the next one begins, so that a killed run knows what it has paid.

    Args:
        path: The file; what it holds counts as spent. A torn last line is cut off.
        limit: Tokens in and out.

    Raises:
        ValueError: A line in the middle of the file can't be read.
    """

    raise_error = True
    """Otherwise LangChain logs what a callback raises, and the refused call is made."""

    def __init__(self, path: Path, limit: int) -> None:
        self.path = path
        self.limit = limit
        self.calls: dict[str, list[Call]] = {}
        self.spent = 0
        self.refused: set[str] = set()
        """Threads of which a call was refused: what became of them says nothing."""
        self.uncounted = False
        """True once a reply came without a token count."""
        self._lock = threading.Lock()
        self._waiting: dict[UUID, tuple[str, str]] = {}
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        if lines and not lines[-1].endswith(b"\n"):
            write_file(path, b"".join(lines[:-1]), private=True)
            lines.pop()
        for number, line in enumerate(lines, 1):
            try:
                self._add(Call(**json.loads(line)))
            except (ValueError, TypeError) as error:
                raise ValueError(f"line {number} of {path} can't be read: {error}") from None

    def of(self, *threads: str) -> list[Call]:
        """Return the calls of these threads, in the order of their replies."""
        with self._lock:
            return [call for thread in threads for call in self.calls.get(thread, ())]

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Note what is asked.

        Raises:
            TuningBudgetSpentError: The budget is spent.
        """
        thread = str((metadata or {}).get("thread_id", ""))
        with self._lock:
            if self.spent >= self.limit:
                self.refused.add(thread)
                raise TuningBudgetSpentError
            self._waiting[run_id] = (thread, "\n\n".join(str(message.text) for message in messages[0]))

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """Count a call and write it down."""
        generation = response.generations[0][0] if response.generations and response.generations[0] else None
        message = getattr(generation, "message", None)
        used = message.usage_metadata if isinstance(message, AIMessage) else None
        self._finish(run_id, "" if message is None else read_text(message), used and used["total_tokens"])

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Count a call that was answered, and billed, though the client raised."""
        used = getattr(getattr(error, "completion", None), "usage", None)
        if used is None:
            with self._lock:
                self._waiting.pop(run_id, None)
        else:
            self._finish(run_id, "", used.total_tokens)

    def _finish(self, run_id: UUID, reply: str, tokens: int | None) -> None:
        with self._lock:
            thread, asked = self._waiting.pop(run_id, ("", ""))
            self.uncounted |= tokens is None
            call = Call(thread, asked, reply, tokens or 0)
            self._add(call)
            with appended(self.path) as file:
                file.write((json.dumps(call._asdict(), ensure_ascii=False) + "\n").encode())

    def _add(self, call: Call) -> None:
        self.calls.setdefault(call.thread, []).append(call)
        self.spent += call.tokens
