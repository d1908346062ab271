"""Private names of LangGraph that redraft relies on, all of them. Internal.

A minor release of LangGraph may move or rename any of these. `tests/state/test_langgraph_internals.py` shows on a real
graph what is relied on, one test a name. When one fails, look in LangGraph's source for what does the same now and
change it here, and nowhere else. Channel names stand in stored checkpoints: one that changes is added beside the old
one, never put in its place, so that older databases can still be read. A name that is gone for good means that its
users need another way; until then `pyproject.toml` excludes that release.

Nothing of LangGraph is imported before it is used: threads are listed and shown without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = [
    "AHEAD",
    "BRANCH_TO",
    "CHECKPOINTER",
    "DURABILITY",
    "INPUT_CHANNEL",
    "JOIN",
    "MISSING",
    "PREGEL",
    "PULL",
    "READ",
    "RESUMING",
    "RUNTIME",
    "SAFE_MSGPACK_METHODS",
    "SAFE_MSGPACK_TYPES",
    "TASK_ID",
    "DeltaSnapshot",
    "ensure_config",
    "get_overwrite",
    "msgpack_default",
    "msgpack_option",
    "patch_configurable",
]

CHECKPOINTER = "__pregel_checkpointer"
"""Key of a config's `configurable`: the saver in force, given by the graph around."""
DURABILITY = "__pregel_durability"
"""The same: when checkpoints are written, for a graph that a node calls."""
READ = "__pregel_read"
"""The same: there only in the config of a task, and so of a graph inside another."""
RESUMING = "__pregel_resuming"
"""The same: whether the graph around goes on with what is in its thread."""
RUNTIME = "__pregel_runtime"
"""The same: what a run has of its own, a `Runtime` with its `RunControl`."""
TASK_ID = "__pregel_task_id"
"""The same: the task that the config is of."""

INPUT_CHANNEL = "__start__"
"""Channel of an input that no node has taken yet, and the name of what is next then."""
BRANCH_TO = "branch:to:"
"""How the channel begins that is there while the node named behind it is still to run."""
JOIN = "join:"
"""How a channel begins that waits for several nodes."""
PREGEL = "__pregel"
"""How LangGraph's other channels begin, `__pregel_tasks` among them."""
AHEAD = (BRANCH_TO, JOIN, INPUT_CHANNEL, "__pregel_tasks")
"""Channels that a checkpoint holds while a node is still to run."""
PULL = "__pregel_pull"
"""First part of the path of a task that an edge triggers."""

if TYPE_CHECKING:
    from langgraph._internal._config import ensure_config, patch_configurable
    from langgraph._internal._typing import MISSING
    from langgraph.channels.binop import _get_overwrite as get_overwrite
    from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_METHODS, SAFE_MSGPACK_TYPES
    from langgraph.checkpoint.serde.jsonplus import _msgpack_default as msgpack_default
    from langgraph.checkpoint.serde.jsonplus import _option as msgpack_option
    from langgraph.checkpoint.serde.types import _DeltaSnapshot as DeltaSnapshot
else:
    _PLACES = {
        "MISSING": ("langgraph._internal._typing", "MISSING"),
        "SAFE_MSGPACK_METHODS": ("langgraph.checkpoint.serde._msgpack", "SAFE_MSGPACK_METHODS"),
        "SAFE_MSGPACK_TYPES": ("langgraph.checkpoint.serde._msgpack", "SAFE_MSGPACK_TYPES"),
        "DeltaSnapshot": ("langgraph.checkpoint.serde.types", "_DeltaSnapshot"),
        "ensure_config": ("langgraph._internal._config", "ensure_config"),
        "get_overwrite": ("langgraph.channels.binop", "_get_overwrite"),
        "msgpack_default": ("langgraph.checkpoint.serde.jsonplus", "_msgpack_default"),
        "msgpack_option": ("langgraph.checkpoint.serde.jsonplus", "_option"),
        "patch_configurable": ("langgraph._internal._config", "patch_configurable"),
    }

    def __getattr__(name: str) -> Any:
        """Import one of LangGraph's own, when it is first asked for."""
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, private_name = _PLACES[name]
        globals()[name] = value = getattr(import_module(module), private_name)
        return value
