"""How values are written to a database and read back: plain data, and the few types that can do no harm."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import ormsgpack
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_METHODS, SAFE_MSGPACK_TYPES
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

from .encryption import Vault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["LARGEST_VALUE", "PlainSerializer"]

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
        vault: Encrypts what is written.
        allow: Further types that may be built from what a database holds.
    """

    def __init__(self, vault: Vault | None = None, *, allow: Iterable[type] = ()) -> None:
        super().__init__(allowed_msgpack_modules=tuple(allow) or None)
        self.vault = vault or Vault()

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return the tag and the bytes of a value.

        Raises:
            ValueError: It is larger than `LARGEST_VALUE`.
            TypeError: It can't be serialised.
        """
        kind, data = super().dumps_typed(obj)
        if len(data) > LARGEST_VALUE:
            raise ValueError(_too_large(data))
        return self.vault.seal(kind, data)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return a value.

        Raises:
            ValueError: It is refused; the message says why, and no code of its choosing was run.
        """
        kind, content = data
        if not isinstance(kind, str) or not isinstance(content, bytes | bytearray | memoryview):
            raise ValueError(f"it is {type(content).__name__} tagged {kind!r}, not bytes tagged 'msgpack'")  # noqa: TRY004
        kind, content = self.vault.unseal(kind, bytes(content))
        if len(content) > LARGEST_VALUE:
            raise ValueError(_too_large(content))
        if kind in ("null", "bytes", "bytearray"):
            return super().loads_typed((kind, content))
        if kind == "json":
            return json.loads(content, object_hook=_no_object)
        if kind != "msgpack":
            raise ValueError(f"it is tagged {kind!r}, which is never read; what is kept here is 'msgpack'")
        gate = _Gate(SAFE_MSGPACK_TYPES | _named(self._allowed_msgpack_modules), self._unpack_ext_hook)
        try:
            return ormsgpack.unpackb(content, ext_hook=gate, option=ormsgpack.OPT_NON_STR_KEYS)
        except (ValueError, TypeError) as error:
            raise ValueError(gate.refusal or f"it is no msgpack: {error}") from None


class _Gate:
    """Looks at every object, with all that is inside it, before any is built."""

    def __init__(self, allowed: frozenset[tuple[str, ...]], build: Callable[[int, bytes], Any]) -> None:
        self._allowed = allowed
        self._build = build
        self.refusal = ""
        """What is wrong; ormsgpack keeps no error of ours."""

    def __call__(self, code: int, data: bytes) -> Any:
        self._look(code, data, 1)
        return self._build(code, data)

    def _look(self, code: int, data: bytes, depth: int) -> None:
        if depth > DEEPEST:
            self._refuse(f"more than {DEEPEST} objects stand inside each other")
        if code != EXT_DELTA_SNAPSHOT and code not in FIELDS:
            self._refuse(f"it holds an object of the unknown kind {code}")
        fields = ormsgpack.unpackb(
            data,
            ext_hook=lambda inner, content: self._look(inner, content, depth + 1),
            option=ormsgpack.OPT_NON_STR_KEYS,
        )
        if code == EXT_DELTA_SNAPSHOT:
            return
        if not isinstance(fields, list) or len(fields) < FIELDS[code]:
            self._refuse("it holds an object without a type")
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


def _named(modules: Any) -> frozenset[tuple[str, ...]]:
    """Return the types that are allowed besides LangGraph's; never all of them."""
    return frozenset(modules) if isinstance(modules, set) else frozenset()


def _no_object(value: dict[str, Any]) -> dict[str, Any]:
    if "lc" in value:
        raise ValueError("it is JSON that names an object, and none is built from JSON")
    return value


def _too_large(data: bytes) -> str:
    return f"a value of {len(data) / 2**20:.0f} MiB is too large: {LARGEST_VALUE // 2**20} MiB are kept of one"
