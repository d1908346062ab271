"""What a database holds is looked at before it is used, and refused by the name of its thread and checkpoint."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from langgraph.checkpoint.base import CheckpointTuple

    from .encryption import Vault

__all__ = ["BadCheckpointError", "checked", "hidden_metadata", "naming", "split_filter"]


class BadCheckpointError(ValueError):
    """What is stored of a thread is no checkpoint, or is one that is not to be trusted. None of it is used."""


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

DATA_ERRORS = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, NotImplementedError, RecursionError)
"""What data of the wrong form makes code raise that expects another."""


@contextmanager
def naming(place: Callable[[], Mapping[str, Any]]) -> Iterator[None]:
    """Within the block, an error of the data names whose they are.

    Args:
        place: Tells the `thread_id` and, where it is known, the `checkpoint_id`.

    Raises:
        BadCheckpointError: What was read is refused.
    """
    try:
        yield
    except BadCheckpointError:
        raise
    except DATA_ERRORS as error:
        form = "" if isinstance(error, ValueError) else "it has not the form of a checkpoint: "
        raise BadCheckpointError(_told(place(), f"{form}{error or type(error).__name__}")) from error


def checked(found: CheckpointTuple, vault: Vault) -> CheckpointTuple:
    """Return what was read, with its metadata decrypted.

    Raises:
        BadCheckpointError: It is not of a checkpoint's form.
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
        for node, seen in checkpoint["versions_seen"].items():
            if not isinstance(seen, dict):
                raise TypeError(f"what its node {node!r} has seen is {type(seen).__name__}, not dict")
        metadata = _revealed(found.metadata, vault)
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


def _told(place: Mapping[str, Any], reason: str) -> str:
    which = f", checkpoint {place['checkpoint_id']!r}" if place.get("checkpoint_id") else ""
    within = f" in {place['checkpoint_ns']!r}" if place.get("checkpoint_ns") else ""
    return f"what the database holds of thread {place.get('thread_id')!r}{which}{within} is refused: {reason}"


SHAPE: Mapping[str, type] = {
    "v": int,
    "id": str,
    "ts": str,
    "channel_values": dict,
    "channel_versions": dict,
    "versions_seen": dict,
}
"""What every checkpoint has."""
