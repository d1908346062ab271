"""What a run knows: typed state, the record of events, limits, folds, branches, threads and checkpointers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .checked_channels import BadCheckpointError
    from .critique import Critic, Critique, Verifier
    from .events import Event
    from .limits import Limits
    from .schema import RefineInput, RefineOutput, RefineState
    from .storage.checkpointers import open_checkpointer
    from .storage.encryption import EncryptionKeyError
    from .storage.index import RunRow
    from .threads.replay import Replay
    from .threads.thread import Thread
    from .usage import Usage

__all__ = [
    "BadCheckpointError",
    "Critic",
    "Critique",
    "EncryptionKeyError",
    "Event",
    "Limits",
    "RefineInput",
    "RefineOutput",
    "RefineState",
    "Replay",
    "RunRow",
    "Thread",
    "Usage",
    "Verifier",
    "open_checkpointer",
]

_HOME = {
    "BadCheckpointError": "checked_channels",
    "Critic": "critique",
    "Critique": "critique",
    "EncryptionKeyError": "storage.encryption",
    "Event": "events",
    "Limits": "limits",
    "RefineInput": "schema",
    "RefineOutput": "schema",
    "RefineState": "schema",
    "Replay": "threads.replay",
    "RunRow": "storage.index",
    "Thread": "threads.thread",
    "Usage": "usage",
    "Verifier": "critique",
    "open_checkpointer": "storage.checkpointers",
}
"""Imported when they are asked for: limits need pydantic, and what stores or runs a thread needs langgraph."""


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
