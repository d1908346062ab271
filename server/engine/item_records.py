"""Records of items: what callers keep under namespaces and keys, in one table beside the checkpoints. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .records import Records

__all__ = ["SET_UP_ITEMS", "Item", "ItemRecords"]

SET_UP_ITEMS = """CREATE TABLE IF NOT EXISTS served_items (
        owner TEXT {bytewise} NOT NULL,
        space TEXT {bytewise} NOT NULL,
        namespace TEXT {bytewise} NOT NULL,
        key TEXT {bytewise} NOT NULL,
        value TEXT NOT NULL,
        created_at TEXT {bytewise} NOT NULL,
        updated_at TEXT {bytewise} NOT NULL,
        PRIMARY KEY (owner, space, namespace, key)
    )"""
PLACE = "owner = %(owner)s AND space = %(space)s"
COLUMNS = "namespace, key, value, created_at, updated_at"
ADD = (
    f"INSERT INTO served_items (owner, space, {COLUMNS}) VALUES (%(owner)s, %(space)s, "  # noqa: S608
    "%(namespace)s, %(key)s, %(value)s, %(now)s, %(now)s) ON CONFLICT (owner, space, namespace, key) {} RETURNING key"
)


class Item(NamedTuple):
    """A value that a caller keeps."""

    namespace: tuple[str, ...]
    key: str
    value: Mapping[str, Any]
    created_at: str
    updated_at: str


class ItemRecords:
    """The items of one space, as the store or the assistants. Each method is one statement.

    Args:
        space: Its name.
        tables: Those of the server, of which they are one.
    """

    def __init__(self, space: str, tables: Records) -> None:
        self._space = space
        self._tables = tables

    def get(self, owner: str, namespace: Sequence[str], key: str) -> Item | None:
        statement = f"SELECT {COLUMNS} FROM served_items WHERE {PLACE} AND namespace = %(namespace)s AND key = %(key)s"  # noqa: S608
        rows = self._tables.query(statement, self._values(owner, namespace, key=key))
        return self._item(rows[0]) if rows else None

    def under(self, owner: str, prefix: Sequence[str]) -> list[Item]:
        """Return the items of a namespace and those within, the last changed first."""
        # Names hold no dot, and / follows the dot: what begins so stands between the two.
        within = "namespace >= %(namespace)s AND namespace < %(end)s" if prefix else "TRUE"
        statement = (
            f"SELECT {COLUMNS} FROM served_items WHERE {PLACE} AND {within} "  # noqa: S608
            "ORDER BY updated_at DESC, namespace, key"
        )
        values = self._values(owner, prefix)
        return [
            self._item(row) for row in self._tables.query(statement, {**values, "end": values["namespace"][:-1] + "/"})
        ]

    def count(self, owner: str) -> int:
        values = self._values(owner, ())
        return int(self._tables.query(f"SELECT count(*) FROM served_items WHERE {PLACE}", values)[0][0])  # noqa: S608

    def put(
        self,
        owner: str,
        namespace: Sequence[str],
        key: str,
        value: Mapping[str, Any],
        *,
        now: str,
        instead: Item | None = None,
    ) -> bool:
        """Keep a value in place of one that may be there; only of this one, where `instead` is given.

        Returns:
            `False` where somebody else was quicker.
        """
        only = "" if instead is None else " WHERE served_items.updated_at = %(left)s"
        values = self._values(owner, namespace, key=key, value=self._tables.hidden(value), now=now)
        change = f"DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at{only}"
        return bool(self._tables.query(ADD.format(change), {**values, "left": instead and instead.updated_at}))

    def add(self, owner: str, namespace: Sequence[str], key: str, value: Mapping[str, Any], *, now: str) -> bool:
        """Keep a value; `False` where there is one."""
        values = self._values(owner, namespace, key=key, value=self._tables.hidden(value), now=now)
        return bool(self._tables.query(ADD.format("DO NOTHING"), values))

    def remove(self, owner: str, namespace: Sequence[str], key: str) -> bool:
        """Forget a value; `False` where there is none."""
        statement = (
            f"DELETE FROM served_items WHERE {PLACE} AND namespace = %(namespace)s AND key = %(key)s RETURNING key"  # noqa: S608
        )
        return bool(self._tables.query(statement, self._values(owner, namespace, key=key)))

    def _values(self, owner: str, namespace: Sequence[str], **more: Any) -> dict[str, Any]:
        joined = "".join(f"{part}." for part in namespace)
        return {"owner": owner, "space": self._space, "namespace": joined, **more}

    def _item(self, row: Sequence[Any]) -> Item:
        namespace, key, value, created_at, updated_at = row
        return Item(tuple(namespace.split(".")[:-1]), key, self._tables.shown(value), created_at, updated_at)
