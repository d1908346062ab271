"""Seals: HMACs over checkpoints, by which a record that was forged as a whole is noticed. Internal.

The record's own hashes are noticed to be wrong only where the forger did not make all of them anew. A seal is made with
a key that whoever can write to the database need not have.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from ..checked_values import bare
from ..events import AGENT_RECORD, AGENT_VALUES, broken_links
from ..first_nodes import UNREAD
from ..langgraph_internals import DeltaSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory

__all__ = ["SEAL", "Seal", "record_in"]

SEAL = "redraft_seal"
"""Where a seal stands in the metadata of its checkpoint."""
WITH_TEXTS = "+"
"""Behind a seal that covers the texts which are stored once: those that were written at its checkpoint."""

_UNSEALED_TAKEN: ContextVar[bool] = ContextVar("redraft_unsealed_taken", default=False)


class Seal:
    """Seals checkpoints, and checks those that are read.

    A seal covers the checkpoint's place and state, and by the head that is in there every event of the record. It does
    not say that there is no later checkpoint.

    Args:
        key: 32 bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def sealed(
        self, place: Mapping[str, Any], checkpoint: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the metadata of a checkpoint with its seal.

        Args:
            place: Names its thread and namespace.
            checkpoint: What is stored.
            metadata: Of the checkpoint.
        """
        whole = WITH_TEXTS if _kept_texts(checkpoint) else ""
        return {**metadata, SEAL: self._made(place, checkpoint, whole) + whole}

    def check(
        self, place: Mapping[str, Any], checkpoint: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> Collection[str]:
        """Return the channels of a checkpoint that its seal says nothing of: PostgreSQL gives them with later ones too.

        Raises:
            ValueError: It has not its seal.
        """
        stored = metadata.get(SEAL)
        if stored is None and _UNSEALED_TAKEN.get():
            return ()
        if stored is None:
            raise ValueError(
                "it has no seal: it was written without the key, or by somebody else; `redraft seal`, or "
                "saver.seal_thread(…), seals a thread that you know to be yours"
            )
        whole = WITH_TEXTS if isinstance(stored, str) and stored.endswith(WITH_TEXTS) else ""
        expected = self._made(place, checkpoint, whole) + whole
        if not isinstance(stored, str) or not hmac.compare_digest(expected.encode(), stored.encode()):
            raise ValueError("its seal does not fit: it was changed since, or sealed with another key")
        record, head = record_in(checkpoint["channel_values"])
        if record in checkpoint["channel_values"]:
            _check_events(bare(checkpoint["channel_values"][record]), head)
        return () if whole else _kept_texts(checkpoint)

    def check_record(
        self,
        found: CheckpointTuple | None,
        histories: Mapping[str, DeltaChannelHistory],
        read: Callable[[Any], CheckpointTuple | None],
    ) -> None:
        """Raise ValueError where what led to a checkpoint is not what was sealed.

        The events must be those that its head was made of, and the task that of the record, or, while one waits for
        the first node, that of the last sealed checkpoint which holds one.

        Args:
            found: The checkpoint.
            histories: What led to it.
            read: Reads a checkpoint, and checks its seal.
        """
        if found is None:
            return
        values = found.checkpoint["channel_values"]
        # Where it holds the record itself, that was looked at with its seal.
        record, head = record_in(values)
        events = bare(values.get(record) or [])
        if record in histories and record not in values:
            events = _replayed(histories[record], [])
            _check_events(events, head)
        if "task" not in histories or "task" in values or "head" not in values:
            return
        task = next((event["text"] for event in reversed(events) if event["kind"] == "task"), None)
        if UNREAD & values.keys():
            here: CheckpointTuple | None = found
            while here is not None and "task" not in here.checkpoint["channel_values"]:
                here = read(here.parent_config) if here.parent_config else None
            task = bare(here.checkpoint["channel_values"]["task"]) if here else None
        if _replayed(histories["task"], None) != task:
            raise ValueError("its task is not that of the record that was sealed")

    @contextmanager
    def unsealed_taken(self) -> Iterator[None]:
        """Take checkpoints without a seal within the block; a seal that does not fit is refused there too."""
        token = _UNSEALED_TAKEN.set(True)
        try:
            yield
        finally:
            _UNSEALED_TAKEN.reset(token)

    def _made(self, place: Mapping[str, Any], checkpoint: Mapping[str, Any], whole: str) -> str:
        values = checkpoint["channel_values"]
        texts = _kept_texts(checkpoint) if whole else ()
        parts: Sequence[Any] = (
            str(place["thread_id"]),
            place.get("checkpoint_ns") or "",
            checkpoint["id"],
            # PostgreSQL keeps neither the order of names nor the difference between 1 and 1.0.
            [
                [name, _number(bare(value))]
                for name, value in sorted(values.items())
                if not isinstance(value, DeltaSnapshot) or name in texts
            ],
            sorted(checkpoint["channel_versions"].items()),
            [[node, sorted(seen.items())] for node, seen in sorted(checkpoint["versions_seen"].items())],
        )
        return hmac.new(self._key, b"redraft seal\0" + _ENCODER.encode(parts).encode(), hashlib.sha256).hexdigest()


def record_in(values: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the channel of the record in a checkpoint's values, an agent's or the loop's, and its head."""
    agent = values.get(AGENT_VALUES)
    return (AGENT_RECORD, agent.get("head")) if isinstance(agent, dict) else ("events", values.get("head"))


def _kept_texts(checkpoint: Mapping[str, Any]) -> list[str]:
    """Return the channels of texts that are stored once, where they were written: here, or somewhere before."""
    values = checkpoint["channel_values"].items()
    return [name for name, value in values if isinstance(value, DeltaSnapshot) and isinstance(value.value, str)]


def _replayed(history: DeltaChannelHistory, empty: Any) -> Any:
    """Return the value of a channel of lists, to which is added, or of a text, in whose place another comes."""
    events = bare(history["seed"]) if "seed" in history else empty
    for _, _, value in history["writes"]:
        news = bare(value)
        events = [*events, *news] if isinstance(events, list) and news is value else news
    return events


def _check_events(events: Any, head: Any) -> None:
    # Another's graph may have a channel of that name.
    if isinstance(head, str) and (broken_links(events, head) or bool(events) != bool(head)):
        raise ValueError("its record is not the one that was sealed: events were changed, added or removed")


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


_ENCODER = json.JSONEncoder(separators=(",", ":"), default=lambda value: type(value).__name__, skipkeys=True)
"""An object of somebody's own may be written in more than one way, so that its type stands for it."""
