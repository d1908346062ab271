"""Plain data as a tagged JSON tree, the only thing that crosses a boundary of the sandbox. Internal.

The same source runs in our process, in the locked child and inside Monty, so it keeps to the Python all three share.
Nothing is pickled, and our own process never hashes a value it was sent: colliding keys would stall it.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

__all__ = ["UnplainError", "jsonable", "pack", "unpack", "writable"]

MAX_DEPTH = 80
"""Nesting beyond this is not plain; a list that contains itself ends here."""

JSON_INT = 1 << 53
"""Larger integers travel as hexadecimal text: decimal text of thousands of digits is slow to read, or refused."""

JSON_DIGITS = 3000
"""Hexadecimal digits beyond which an integer stays text in JSON data, where Python refuses to write it in decimals."""

UnplainError = TypeError
"""Raised by `pack` for a value that is not plain data."""


def pack(value: Any, depth: int = 0) -> Any:
    """The tagged tree of `value`; a subclass of a plain type is packed as that plain type.

    Raises:
        TypeError: `value` is, or holds, something that is not plain data, or nests too deep.
    """
    if depth > MAX_DEPTH:
        raise UnplainError("data nested too deep")
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return "" + value
    if isinstance(value, int):
        number = int(value)
        return number if -JSON_INT < number < JSON_INT else ["int", hex(number)]
    if isinstance(value, float):
        return float(value)
    if isinstance(value, complex):
        return ["complex", value.real, value.imag]
    if isinstance(value, bytes):
        return ["bytes", value.hex()]
    if isinstance(value, dict):
        return ["dict", [[pack(key, depth + 1), pack(item, depth + 1)] for key, item in value.items()]]
    for name, kind in SEQUENCES:
        if isinstance(value, kind):
            return [name, [pack(item, depth + 1) for item in value]]
    if isinstance(value, Decimal):
        return ["decimal", str(value)]
    if type(value).__name__ == "Fraction":
        return ["fraction", pack(value.numerator), pack(value.denominator)]
    raise UnplainError(type(value).__name__)


SEQUENCES: list[tuple[str, Any]] = [("list", list), ("tuple", tuple), ("set", set), ("frozenset", frozenset)]


def unpack(tree: Any) -> Any:
    """The value that `pack` made `tree` of, built anew from exact builtin types.

    Raises:
        ValueError, TypeError, KeyError: `tree` is not a tagged tree.
    """
    if not isinstance(tree, list):
        return tree
    tag = tree[0]
    for name, kind in SEQUENCES:
        if tag == name:
            return kind([unpack(item) for item in tree[1]])
    if tag == "dict":
        return {unpack(pair[0]): unpack(pair[1]) for pair in tree[1]}
    if tag == "int":
        return int(tree[1], 16)
    if tag == "complex":
        return complex(tree[1], tree[2])
    if tag == "bytes":
        return bytes.fromhex(tree[1])
    if tag == "decimal":
        return Decimal(tree[1])
    if tag == "fraction":
        from fractions import Fraction

        return Fraction(unpack(tree[1]), unpack(tree[2]))
    raise ValueError("not a tagged tree")


def jsonable(tree: Any, depth: int = 0) -> Any:
    """Return the data in `tree` as JSON data, without hashing anything but text.

    Raises:
        ValueError: `tree` is not a tagged tree.
    """
    if depth > MAX_DEPTH + 1:
        raise ValueError("data nested too deep")
    if not isinstance(tree, list):
        if isinstance(tree, dict):
            raise ValueError("not a tagged tree")  # noqa: TRY004  the value is wrong: any JSON may come
        return writable(tree) if isinstance(tree, str) else tree
    match tree:
        case ["list" | "tuple" | "set" | "frozenset", [*items]]:
            return [jsonable(item, depth + 1) for item in items]
        case ["dict", [*pairs]] if all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            return {_key(jsonable(key, depth + 1)): jsonable(item, depth + 1) for key, item in pairs}
        case ["int", str(text)]:
            return int(text, 16) if len(text) <= JSON_DIGITS else writable(text)
        case ["bytes" | "decimal", str(text)]:
            return writable(text)
        case ["complex", float(), float()]:
            return f"{tree[1]}{tree[2]:+}j"
        case ["fraction", over, under]:
            return f"{jsonable(over, MAX_DEPTH)}/{jsonable(under, MAX_DEPTH)}"
    raise ValueError("not a tagged tree")


def _key(key: Any) -> str:
    return key if isinstance(key, str) else repr(key)


def writable(text: str) -> str:
    """`text` as UTF-8 can hold it: half a surrogate pair, which no file or database takes, becomes U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
