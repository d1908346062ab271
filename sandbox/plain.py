"""Plain data as a tagged JSON tree, the only thing that crosses a boundary of the sandbox. Internal.

The same source runs in the locked child and inside Monty, so it keeps to the Python that both know. Nothing is pickled,
and no tree is read in our own process: colliding keys would stall it.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

__all__ = ["HOOKS", "UnplainError", "jsonable", "pack", "unpack"]

MAX_DEPTH = 80
"""Nesting beyond this is not plain; a list that contains itself ends here."""

JSON_INT = 1 << 53
"""Larger integers travel as hexadecimal text: decimal text of thousands of digits is slow to read, or refused."""

JSON_DIGITS = 3000
"""Hexadecimal digits beyond which an integer stays text in JSON data, where Python refuses to write it in decimals."""

UnplainError = TypeError
"""Raised by `pack` for a value that is not plain data."""

HOOKS: dict[str, Any] = {}
"""Where objects may cross by number: `keep` makes a tree of an object, `open` an object of its tree."""


def pack(value: Any, depth: int = 0) -> Any:  # noqa: PLR0912  a branch for each type
    """Return the tagged tree of `value`; a subclass of a plain type is packed as that plain type.

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
    if "keep" in HOOKS:
        return HOOKS["keep"](value)
    raise UnplainError(type(value).__name__)


SEQUENCES: list[tuple[str, Any]] = [("list", list), ("tuple", tuple), ("set", set), ("frozenset", frozenset)]


def unpack(tree: Any) -> Any:
    """Return the value that `pack` made `tree` of, built anew from exact builtin types.

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
    if tag == "object" and "open" in HOOKS:
        return HOOKS["open"](tree[1], tree[2])
    raise ValueError("not a tagged tree")


def jsonable(tree: Any, depth: int = 0) -> Any:
    """Return the data in `tree` as JSON data.

    Raises:
        ValueError: `tree` is not a tagged tree.
    """
    if depth > MAX_DEPTH + 1:
        raise ValueError("data nested too deep")
    if isinstance(tree, dict):
        raise ValueError("not a tagged tree")  # noqa: TRY004  the value is wrong: any JSON may come
    if not isinstance(tree, list):
        return tree
    tag, rest = (tree[0], tree[1:]) if tree else ("", [])
    if len(rest) == 1:
        return _of_one(tag, rest[0], depth)
    if tag == "complex" and [type(part) for part in rest] == [float, float]:
        return f"{rest[0]}{rest[1]:+}j"
    if tag == "fraction" and len(rest) == 2:
        return f"{jsonable(rest[0], MAX_DEPTH)}/{jsonable(rest[1], MAX_DEPTH)}"
    raise ValueError("not a tagged tree")


def _of_one(tag: Any, content: Any, depth: int) -> Any:
    """Return the JSON data of a tree that holds one thing: a list of trees, or a text."""
    if tag in ("list", "tuple", "set", "frozenset") and isinstance(content, list):
        return [jsonable(item, depth + 1) for item in content]
    if tag == "dict" and isinstance(content, list) and all(isinstance(p, list) and len(p) == 2 for p in content):
        return {_key(pair[0], depth): jsonable(pair[1], depth + 1) for pair in content}
    if tag == "int" and isinstance(content, str):
        return int(content, 16) if len(content) <= JSON_DIGITS else content
    if tag in ("bytes", "decimal") and isinstance(content, str):
        return content
    raise ValueError("not a tagged tree")


def _key(tree: Any, depth: int) -> str:
    """Return the text of a key. What Python can't hash is none: no key is written inside another and escaped again."""
    if isinstance(tree, list) and tree[:1] in (["list"], ["dict"], ["set"]):
        raise ValueError("not a tagged tree")
    key = jsonable(tree, depth + 1)
    return key if isinstance(key, str) else repr(key)
