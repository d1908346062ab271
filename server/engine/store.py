"""The store: values that a caller keeps under namespaces and keys, apart from every other caller's. Internal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .item_records import Item
from .records import Database, now
from .runs import BadRequestError, Caller

__all__ = ["MOST_ITEMS", "Store"]

MOST_ITEMS = 1000
"""Of one caller."""
LONGEST_NAME, DEEPEST = 256, 20

COMPARED = {
    "$eq": lambda value, wanted: value == wanted,
    "$ne": lambda value, wanted: value != wanted,
    "$gt": lambda value, wanted: value > wanted,
    "$gte": lambda value, wanted: value >= wanted,
    "$lt": lambda value, wanted: value < wanted,
    "$lte": lambda value, wanted: value <= wanted,
}


class Store:
    """The items of all callers, each to be reached by its owner alone."""

    def __init__(self, db: Database) -> None:
        self._items = db.records.items
        self._db = db

    async def put(self, caller: Caller, namespace: Sequence[str], key: str, value: Mapping[str, Any]) -> None:
        """Keep a value.

        Raises:
            BadRequestError: A name is none, or the caller keeps as much as may be kept.
        """
        _check_names(namespace, key)
        if not namespace:
            raise BadRequestError("a namespace has one name at least")
        existing = await self._db.read(self._items.get, caller.id, namespace, key)
        if existing is None and await self._db.read(self._items.count, caller.id) >= MOST_ITEMS:
            raise BadRequestError(f"the store holds {MOST_ITEMS} items of a caller at most")
        await self._db.write(self._items.put, caller.id, namespace, key, value, now=now())

    async def get(self, caller: Caller, namespace: Sequence[str], key: str) -> Item | None:
        _check_names(namespace, key)
        return await self._db.read(self._items.get, caller.id, namespace, key)

    async def remove(self, caller: Caller, namespace: Sequence[str], key: str) -> None:
        _check_names(namespace, key)
        await self._db.write(self._items.remove, caller.id, namespace, key)

    async def search(self, caller: Caller, prefix: Sequence[str], wanted: Mapping[str, Any]) -> list[Item]:
        """Return the items within a namespace whose values are as wanted, the last changed first."""
        _check_names(prefix)

        def fitting(owner: str) -> list[Item]:
            return [
                item
                for item in self._items.under(owner, prefix)
                if all(_fits(item.value.get(name), condition) for name, condition in wanted.items())
            ]

        return await self._db.look(caller.id, fitting)

    async def namespaces(
        self, caller: Caller, *, prefix: Sequence[str], suffix: Sequence[str], depth: int | None
    ) -> list[tuple[str, ...]]:
        """Return the namespaces that hold items, in their order; `*` stands for any name."""
        keys = await self._db.look(caller.id, self._items.keys)
        namespaces = {tuple(namespace.split(".")[:-1]) for namespace, _ in keys}
        return sorted({
            namespace[:depth]
            for namespace in namespaces
            if len(namespace) >= max(len(prefix), len(suffix))
            and _agree(namespace, prefix)
            and _agree(namespace[::-1], suffix[::-1])
        })  # fmt: skip


def _agree(names: Sequence[str], wanted: Sequence[str]) -> bool:
    return all(pattern in ("*", name) for name, pattern in zip(names, wanted, strict=False))


def _fits(value: Any, condition: Any) -> bool:
    if not isinstance(condition, dict) or not any(name.startswith("$") for name in condition):
        return bool(value == condition)
    if others := sorted(condition.keys() - COMPARED.keys()):
        raise BadRequestError(f"a filter compares by {', '.join(COMPARED)}, not {others[0]!r:.40}")
    try:
        return all(COMPARED[name](value, wanted) for name, wanted in condition.items())
    except TypeError:  # a text is neither more nor less than a number
        return False


def _check_names(namespace: Sequence[str], *key: str) -> None:
    if len(namespace) > DEEPEST:
        raise BadRequestError(f"a namespace has at most {DEEPEST} names")
    if any("." in name for name in namespace):
        raise BadRequestError("a name of a namespace has no dot")
    for name in (*namespace, *key):
        if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
            raise BadRequestError(f"a name has 1 to {LONGEST_NAME} printable characters")
