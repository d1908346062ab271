"""What a run knows: typed state, the record of events, limits, folds, branches, threads and checkpointers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .branches import Branch
from .critique import Critic, Critique, Verifier
from .events import Event
from .limits import Limits
from .results import Result
from .usage import Usage

if TYPE_CHECKING:
    from .checkpointers import open_checkpointer
    from .replay import Replay
    from .runs import RunRow
    from .schema import RefineInput, RefineOutput, RefineState
    from .threads import Thread

__all__ = [
    "Branch",
    "Critic",
    "Critique",
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

_LAZY = {
    "RefineInput": ".schema",
    "RefineOutput": ".schema",
    "RefineState": ".schema",
    "Replay": ".replay",
    "RunRow": ".runs",
    "Thread": ".threads",
    "open_checkpointer": ".checkpointers",
}
"""These import langgraph, which takes a second: only when they are asked for."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name], __name__), name)
