"""What a run knows: typed state, the record of events, limits, folds, branches, threads and checkpointers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .branches import Branch
    from .checkpointers import open_checkpointer
    from .critique import Critic, Critique, Verifier
    from .encryption import EncryptionKeyError
    from .events import Event
    from .limits import Limits
    from .refusals import BadCheckpointError
    from .replay import Replay
    from .results import Result
    from .runs import RunRow
    from .schema import RefineInput, RefineOutput, RefineState
    from .threads import Thread
    from .usage import Usage

__all__ = [
    "BadCheckpointError",
    "Branch",
    "Critic",
    "Critique",
    "EncryptionKeyError",
    "Event",
    "Limits",
    "RefineInput",
    "RefineOutput",
    "RefineState",
    "Replay",
    "Result",
    "RunRow",
    "Thread",
    "Usage",
    "Verifier",
    "open_checkpointer",
]

_HOME = {
    "BadCheckpointError": "refusals",
    "Branch": "branches",
    "Critic": "critique",
    "Critique": "critique",
    "EncryptionKeyError": "encryption",
    "Event": "events",
    "Limits": "limits",
    "RefineInput": "schema",
    "RefineOutput": "schema",
    "RefineState": "schema",
    "Replay": "replay",
    "Result": "results",
    "RunRow": "runs",
    "Thread": "threads",
    "Usage": "usage",
    "Verifier": "critique",
    "open_checkpointer": "checkpointers",
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
