"""What a database holds is looked at before it is used, and refused by the name of its thread and checkpoint."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from ..checked_channels import check_found, naming
from ..schema import RefineState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from langgraph.checkpoint.base import CheckpointTuple

    from .encryption import Vault

__all__ = ["checked", "hidden_metadata", "split_filter"]


CLEAR = frozenset(
    {
        "source",
        "step",
        "parents",
        "counters_since_delta_snapshot",
        "delta_writes_versioned",
        "redraft_fork_at",
        "redraft_parent_checkpoint",
        "redraft_parent_thread",
        "redraft_preset",
    }
)
"""Metadata that is never encrypted: places, names of ours and numbers, by which the database itself looks."""
HIDDEN = "redraft_encrypted"


def checked(found: CheckpointTuple, vault: Vault, *, pending: bool = True) -> CheckpointTuple:
    """Return what was read, with its metadata decrypted.

    Args:
        found: As LangGraph's saver gives it.
        vault: Decrypts.
        pending: Whether what waits to be applied is looked at; of past checkpoints that is done when it is replayed.

    Raises:
        BadCheckpointError: It is not of a checkpoint's form, or a channel of a run of ours holds what it never can.
    """
    place = found.config["configurable"]
    with naming(lambda: place):
        checkpoint: Any = found.checkpoint
        if not isinstance(checkpoint, dict):
            raise TypeError(f"the checkpoint is {type(checkpoint).__name__}, not a dict")
        for name, kind in SHAPE.items():
            value = checkpoint.get(name)
            if not isinstance(value, kind) or isinstance(value, bool):
                raise TypeError(f"its {name!r} is {type(value).__name__}, not {kind.__name__}")
        if checkpoint["id"] != place["checkpoint_id"]:
            raise ValueError(f"it holds the checkpoint {checkpoint['id'][:100]!r}")
        for name in ("channel_values", "channel_versions", "versions_seen"):
            if wrong := [key for key in checkpoint[name] if not isinstance(key, str)]:
                raise ValueError(f"its {name!r} have the key {wrong[0]!r}, which is no text")
        for channel, version in checkpoint["channel_versions"].items():
            if not isinstance(version, str | int | float):
                raise TypeError(f"the version of its channel {channel!r} is {type(version).__name__}")
            if isinstance(version, str) and not VERSION.match(version):
                raise ValueError(f"the version of its channel {channel!r} is {version[:100]!r}, not a number")
        for node, seen in checkpoint["versions_seen"].items():
            if not isinstance(seen, dict):
                raise TypeError(f"what its node {node!r} has seen is {type(seen).__name__}, not dict")
        metadata = _revealed(found.metadata, vault)
        if len(MARKS & checkpoint["channel_values"].keys()) > 1:
            check_found(found, (RefineState,), pending=pending)
    return found._replace(metadata=metadata)


def hidden_metadata(metadata: Mapping[str, Any], vault: Vault) -> dict[str, Any]:
    """Return metadata as they are stored: all but places and numbers encrypted, where there is a key."""
    if not vault.locked:
        return dict(metadata)
    kept = {name: value for name, value in metadata.items() if name in CLEAR}
    rest = {name: value for name, value in metadata.items() if name not in CLEAR}
    return {**kept, HIDDEN: vault.hide(json.dumps(rest))}


def split_filter(
    wanted: Mapping[str, Any] | None, vault: Vault
) -> tuple[dict[str, Any] | None, Callable[[CheckpointTuple], bool] | None]:
    """Return which part of a filter the database can apply, and what tells the rest once metadata are decrypted."""
    if not wanted or not vault.locked or wanted.keys() <= CLEAR:
        return (dict(wanted) if wanted else None), None
    clear = {name: value for name, value in wanted.items() if name in CLEAR}
    rest = {name: value for name, value in wanted.items() if name not in CLEAR}

    def matches(found: CheckpointTuple) -> bool:
        known: Mapping[str, Any] = {**found.metadata}
        return all(name in known and known[name] == value for name, value in rest.items())

    return clear or None, matches


def _revealed(metadata: Any, vault: Vault) -> Any:
    if not isinstance(metadata, dict):
        raise TypeError(f"its metadata are {type(metadata).__name__}, not an object")
    if not vault.locked:
        return metadata
    rest = json.loads(vault.reveal(metadata.get(HIDDEN, "")))
    kept = {name: value for name, value in metadata.items() if name in CLEAR}
    return {**rest, **kept}


MARKS = {"head", "accepted_by", "oracle"}
"""Channels by which a run of ours is known where the graph that reads it is not: two of them are enough."""

VERSION = re.compile(r" *[0-9]{1,32}(\.|$)")
"""What savers count with: a number, behind which a random part may stand."""

SHAPE: Mapping[str, type] = {
    "v": int,
    "id": str,
    "ts": str,
    "channel_values": dict,
    "channel_versions": dict,
    "versions_seen": dict,
}
"""What every checkpoint has."""
