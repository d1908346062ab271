"""Typed state, the record of events, limits, threads and checkpointers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .checked_values import BadCheckpointError
    from .collector import tuned_gc
    from .critique import Critic, Critique, Verifier
    from .events import Event
    from .limits import Limits
    from .schema import RefineInput, RefineOutput, RefineState
    from .stopping import STOP_REASONS, StopReason
    from .storage.checkpointers import Checkpointer, open_checkpointer
    from .storage.encryption import EncryptionKeyError
    from .storage.index import RunRow
    from .summary import Attempt, best_draft, draft_rank
    from .threads.diffs import Diff
    from .threads.history import HistoryStep, ThreadTree
    from .threads.kind import ChangedGraphError
    from .threads.lease import BusyThreadError
    from .threads.replay import Replay
    from .threads.thread import Thread, UnknownThreadError
    from .usage import Usage
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "redraft.state.checked_values": ["BadCheckpointError"],
            "redraft.state.collector": ["tuned_gc"],
            "redraft.state.critique": ["Critic", "Critique", "Verifier"],
            "redraft.state.events": ["Event"],
            "redraft.state.limits": ["Limits"],
            "redraft.state.schema": ["RefineInput", "RefineOutput", "RefineState"],
            "redraft.state.stopping": ["STOP_REASONS", "StopReason"],
            "redraft.state.storage.checkpointers": ["Checkpointer", "open_checkpointer"],
            "redraft.state.storage.encryption": ["EncryptionKeyError"],
            "redraft.state.storage.index": ["RunRow"],
            "redraft.state.summary": ["Attempt", "best_draft", "draft_rank"],
            "redraft.state.threads.diffs": ["Diff"],
            "redraft.state.threads.history": ["HistoryStep", "ThreadTree"],
            "redraft.state.threads.kind": ["ChangedGraphError"],
            "redraft.state.threads.lease": ["BusyThreadError"],
            "redraft.state.threads.replay": ["Replay"],
            "redraft.state.threads.thread": ["Thread", "UnknownThreadError"],
            "redraft.state.usage": ["Usage"],
        },
    )

__all__ = [
    "STOP_REASONS",
    "Attempt",
    "BadCheckpointError",
    "BusyThreadError",
    "ChangedGraphError",
    "Checkpointer",
    "Critic",
    "Critique",
    "Diff",
    "EncryptionKeyError",
    "Event",
    "HistoryStep",
    "Limits",
    "RefineInput",
    "RefineOutput",
    "RefineState",
    "Replay",
    "RunRow",
    "StopReason",
    "Thread",
    "ThreadTree",
    "UnknownThreadError",
    "Usage",
    "Verifier",
    "best_draft",
    "draft_rank",
    "open_checkpointer",
    "tuned_gc",
]
