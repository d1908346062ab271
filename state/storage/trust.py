"""Checks of what a database holds, before it is used: its values, its checkpoints and its key. Internal.

What is written is plain data and the few types that can do no harm; nothing else is built from what is read.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import ormsgpack
from langgraph.checkpoint.serde.jsonplus import (
    EXT_CONSTRUCTOR_KW_ARGS,
    EXT_CONSTRUCTOR_POS_ARGS,
    EXT_CONSTRUCTOR_SINGLE_ARG,
    EXT_DELTA_SNAPSHOT,
    EXT_METHOD_SINGLE_ARG,
    EXT_NUMPY_ARRAY,
    EXT_PYDANTIC_V1,
    EXT_PYDANTIC_V2,
    JsonPlusSerializer,
)
from pydantic_core import to_jsonable_python

from ..checked_values import check_found
from ..langgraph_internals import (
    INPUT_CHANNEL,
    SAFE_MSGPACK_METHODS,
    SAFE_MSGPACK_TYPES,
    msgpack_default,
    msgpack_option,
)
from ..schema import RefineState
from .encryption import TAG_MARK, EncryptionKeyError, Vault
from .seal import SEAL, Seal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from langgraph.checkpoint.base import CheckpointTuple


__all__ = [
    "LARGEST_VALUE",
    "OWN_ANCESTOR",
    "PlainSerializer",
    "checked",
    "name_key",
    "own_ancestor",
]

LARGEST_VALUE = 64 * 2**20
"""Bytes of one serialised value, written or read. A list of empty objects takes some 60 times as much memory."""
DEEPEST = 32
"""How many objects may stand inside each other; LangGraph's own need three."""

FIELDS = {
    EXT_CONSTRUCTOR_SINGLE_ARG: 3,
    EXT_CONSTRUCTOR_POS_ARGS: 3,
    EXT_CONSTRUCTOR_KW_ARGS: 3,
    EXT_METHOD_SINGLE_ARG: 4,
    EXT_PYDANTIC_V1: 3,
    EXT_PYDANTIC_V2: 3,
    EXT_NUMPY_ARRAY: 4,
}
"""The kinds of objects that LangGraph writes, and how many fields each has at least."""


class PlainSerializer(JsonPlusSerializer):
    """LangGraph's serializer in its strict mode, whatever the environment says, and without its leniency.

    What it reads is plain data, LangGraph's and LangChain's messages and other harmless types, and the types that the
    user named. Where LangGraph in strict mode hands on the parts of any other object, this refuses the value. It never
    unpickles.

    Args:
        vault: Encrypts what is written; `None` where there is no key.
        seal: Of the checkpoints that hold it; `None` where they have none.
        allow: Further types that may be built from what a database holds.
    """

    def __init__(self, vault: Vault | None = None, *, seal: Seal | None = None, allow: Iterable[type] = ()) -> None:
        self.own_types = tuple(allow)
        self.answers: set[type] = set()  # of typed answers, which are kept as their JSON
        super().__init__(allowed_msgpack_modules=self.own_types or None)
        self.vault = vault
        self.seal = seal

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return the tag and the bytes of a value.

        Raises:
            ValueError: It is larger than `LARGEST_VALUE`, or holds a type that would not be read back.
            TypeError: It can't be serialised.
        """
        if obj is None or isinstance(obj, bytes | bytearray):
            kind, data = super().dumps_typed(obj)
        else:
            gate = self._gate()

            def encoded(part: Any) -> Any:
                if type(part) in self.answers.difference(self.own_types):
                    return to_jsonable_python(part, by_alias=True)
                encoded_part = msgpack_default(part)
                # Only objects are looked at, so plain data pay nothing.
                if isinstance(encoded_part, ormsgpack.Ext):
                    ormsgpack.unpackb(
                        ormsgpack.packb(encoded_part), ext_hook=gate.look, option=ormsgpack.OPT_NON_STR_KEYS
                    )
                return encoded_part

            try:
                kind, data = "msgpack", ormsgpack.packb(obj, default=encoded, option=msgpack_option)
            except ormsgpack.MsgpackEncodeError as error:
                raise (ValueError(f"it would not be read back: {gate.refusal}") if gate.refusal else error) from None
        if len(data) > LARGEST_VALUE:
            raise _too_large(data)
        return (kind, data) if self.vault is None else self.vault.seal(kind, data)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return a value.

        Raises:
            ValueError: It is refused; the message says why, and no code of its choosing was run.
        """
        kind, content = data
        if not isinstance(kind, str) or not isinstance(content, bytes | bytearray | memoryview):
            raise ValueError(f"it is {type(content).__name__} tagged {kind!r}, not bytes tagged 'msgpack'")  # noqa: TRY004
        content = bytes(content)
        if self.vault is not None:
            kind, content = self.vault.unseal(kind, content)
        elif kind.endswith(TAG_MARK):
            raise EncryptionKeyError("it is encrypted, and no key was given")
        if len(content) > LARGEST_VALUE:
            raise _too_large(content)
        if kind in ("null", "bytes", "bytearray"):
            return super().loads_typed((kind, content))
        if kind == "json":
            return json.loads(content, object_hook=_no_object)
        if kind != "msgpack":
            raise ValueError(f"it is tagged {kind!r}, which is never read; what is kept here is 'msgpack'")
        gate = self._gate()
        try:
            return ormsgpack.unpackb(content, ext_hook=gate, option=ormsgpack.OPT_NON_STR_KEYS)
        except (ValueError, TypeError) as error:
            raise ValueError(gate.refusal or f"it is no msgpack: {error}") from None

    def _gate(self) -> _Gate:
        allowed = self._allowed_msgpack_modules  # LangGraph has `True` for all of them, which never counts here
        named = frozenset(allowed) if isinstance(allowed, set) else frozenset()
        return _Gate(SAFE_MSGPACK_TYPES | named, self._unpack_ext_hook)


def name_key(serde: Any, values: Mapping[str, Any], error: Exception) -> None:
    """Raise an error that names the key of the state, and the type, of what can't be kept; nothing where none is bad.

    Args:
        serde: Serialises them.
        values: What was to be written, by its key.
        error: Raised when it was.
    """
    started = values.get(INPUT_CHANNEL)
    for key, value in [*(started.items() if isinstance(started, dict) else ()), *values.items()]:
        try:
            serde.dumps_typed(value)
        except (ValueError, TypeError) as reason:
            kind = ValueError if isinstance(reason, ValueError) else TypeError
            raise kind(f"the state's {key!r} can't be kept: {reason}") from error


class _Gate:
    """Looks at every object, with all that is inside it, before any is built."""

    def __init__(self, allowed: frozenset[tuple[str, ...]], build: Callable[[int, bytes], Any]) -> None:
        self._allowed = allowed
        self._build = build
        self.refusal = ""
        """What is wrong; ormsgpack keeps no error of ours."""

    def __call__(self, code: int, data: bytes) -> Any:
        self.look(code, data)
        return self._build(code, data)

    def look(self, code: int, data: bytes, depth: int = 1) -> None:
        """Raise ValueError for an object that must not be built, however deep inside."""
        if depth > DEEPEST:
            self._refuse(f"more than {DEEPEST} objects stand inside each other")
        if code != EXT_DELTA_SNAPSHOT and code not in FIELDS:
            self._refuse(f"it holds an object of the unknown kind {code}")
        fields = ormsgpack.unpackb(
            data,
            ext_hook=lambda inner, content: self.look(inner, content, depth + 1),
            option=ormsgpack.OPT_NON_STR_KEYS,
        )
        # It names no type, and what is inside it was looked at just now.
        if code == EXT_DELTA_SNAPSHOT:
            return
        if not isinstance(fields, list) or len(fields) < FIELDS[code]:
            self._refuse("it holds an object without a type")
        # Data only, no type of anybody's.
        if code == EXT_NUMPY_ARRAY:
            return
        name = tuple(str(part)[:100] for part in fields[:2])
        if name not in self._allowed:
            self._refuse(
                f"it names the type {'.'.join(name)!r}, which is not built from a database; "
                "open_checkpointer(…, allow=[…]) takes the types of your own that may be"
            )
        if code == EXT_METHOD_SINGLE_ARG and (*name, fields[3]) not in SAFE_MSGPACK_METHODS:
            self._refuse(f"it names the method {'.'.join((*name, str(fields[3])[:100]))!r}, which is never called")

    def _refuse(self, reason: str) -> None:
        self.refusal = self.refusal or reason
        raise ValueError(reason)


def _no_object(value: dict[str, Any]) -> dict[str, Any]:
    if "lc" in value:
        raise ValueError("it is JSON that names an object, and none is built from JSON")
    return value


def _too_large(data: bytes) -> ValueError:
    size, largest = len(data) / 2**20, LARGEST_VALUE // 2**20
    return ValueError(f"a value of {size:.0f} MiB is too large: {largest} MiB are kept of one")


def checked(
    stored: CheckpointTuple, vault: Vault | None, seal: Seal | None = None, *, pending: bool = True
) -> CheckpointTuple:
    """Return a checkpoint as it was read, with its metadata decrypted and without its seal.

    Args:
        found: As LangGraph's saver gives it.
        vault: Decrypts; `None` where there is no key.
        seal: What each must be sealed with; `None` looks at no seal.
        pending: Whether what waits to be applied is looked at; of past checkpoints that is done when it is replayed.

    Raises:
        ValueError: It is not of a checkpoint's form, or a channel of a run of ours holds what it never can.
    """
    place = stored.config["configurable"]
    checkpoint: Any = stored.checkpoint
    _check_form(checkpoint, place["checkpoint_id"])
    metadata: Any = stored.metadata
    if not isinstance(metadata, dict):
        raise TypeError(f"its metadata are {type(metadata).__name__}, not an object")
    if vault is not None:
        metadata = vault.reveal_metadata(metadata)
    if seal is not None:
        for name in seal.check(place, checkpoint, metadata):
            del checkpoint["channel_values"][name]
    metadata = {name: value for name, value in metadata.items() if name != SEAL}
    if len(MARKS & checkpoint["channel_values"].keys()) > 1:
        check_found(stored, (RefineState,), pending=pending)
    return stored._replace(metadata=metadata)


def _check_form(checkpoint: Any, checkpoint_id: str) -> None:
    """Raise ValueError or TypeError unless this has the form of the checkpoint of that id."""
    if not isinstance(checkpoint, dict):
        raise TypeError(f"the checkpoint is {type(checkpoint).__name__}, not a dict")
    for name, kind in SHAPE.items():
        value = checkpoint.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise TypeError(f"its {name!r} is {type(value).__name__}, not {kind.__name__}")
    # A row copied over another would else pass for it.
    if checkpoint["id"] != checkpoint_id:
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


def own_ancestor(parents: Mapping[Any, Any]) -> Any:
    """Return a checkpoint that is its own ancestor, which no walk from parent to parent comes to the end of, or `None`.

    Args:
        parents: Each checkpoint's parent; one that is no key itself is not followed.
    """
    seen: set[Any] = set()
    for one in parents:
        path: set[Any] = set()
        here = one
        while here in parents and here not in seen:
            seen.add(here)
            path.add(here)
            here = parents[here]
        if here in path:
            return here
    return None


OWN_ANCESTOR = "a checkpoint is its own ancestor"


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
