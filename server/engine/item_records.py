"""Records of items: what callers keep under namespaces and keys, in one table beside the checkpoints. Internal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...state.storage.database_saver import DatabaseSaver
from .tables import Tables

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
CHANGE = (
    f"UPDATE served_items SET value = %(value)s, updated_at = %(now)s WHERE {PLACE} "  # noqa: S608
    "AND namespace = %(namespace)s AND key = %(key)s AND updated_at = %(left)s RETURNING key"
)


class Item(NamedTuple):
    """A value that a caller keeps."""

    namespace: tuple[str, ...]
    key: str
    value: Mapping[str, Any]
    created_at: str
    updated_at: str


class ItemRecords(Tables):
    """The items of one space, as the store or the assistants. Each method is one statement.

    Args:
        space: Its name.
        saver: Whose database has them.
    """

    def __init__(self, space: str, saver: DatabaseSaver) -> None:
        super().__init__(saver)
        self._space = space

    def get(self, owner: str, namespace: Sequence[str], key: str) -> Item | None:
        rows = self.query(
            f"SELECT {COLUMNS} FROM served_items WHERE {PLACE} AND namespace = %(namespace)s AND key = %(key)s",  # noqa: S608
            self._values(owner, namespace, key=key),
        )
        return self._item(rows[0]) if rows else None

    def under(self, owner: str, prefix: Sequence[str]) -> list[Item]:
        """Return the items of a namespace and those within, the last changed first."""
        # Names hold no dot, and / follows the dot: what begins so stands between the two.
        within = "namespace >= %(namespace)s AND namespace < %(end)s" if prefix else "TRUE"
        values = self._values(owner, prefix)
        rows = self.query(
            f"SELECT {COLUMNS} FROM served_items WHERE {PLACE} AND {within} "  # noqa: S608
            "ORDER BY updated_at DESC, namespace, key",
            {**values, "end": values["namespace"][:-1] + "/"},
        )
        return [self._item(row) for row in rows]

    def keys(self, owner: str) -> list[tuple[str, str]]:
        """Return the namespace, each name followed by a dot, and the key of every item, the last changed first."""
        statement = f"SELECT namespace, key FROM served_items WHERE {PLACE} ORDER BY updated_at DESC, namespace, key"  # noqa: S608
        return [(namespace, key) for namespace, key in self.query(statement, self._values(owner, ()))]

    def count(self, owner: str) -> int:
        return int(self.query(f"SELECT count(*) FROM served_items WHERE {PLACE}", self._values(owner, ()))[0][0])  # noqa: S608

    def put(
        self,
        owner: str,
        namespace: Sequence[str],
        key: str,
        value: Mapping[str, Any],
        *,
        now: str,
        instead: Item | None = None,
        new: bool = False,
    ) -> bool:
        """Keep a value in place of one that may be there; only of this one, where `instead` is given, or of none.

        Returns:
            `False` where somebody else changed or deleted it first, or a `new` one is there already.
        """
        values = self._values(owner, namespace, key=key, value=self.encoded(value), now=now)
        if instead is not None:
            return bool(self.query(CHANGE, {**values, "left": instead.updated_at}))
        overwrite = "DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at"
        return bool(self.query(ADD.format("DO NOTHING" if new else overwrite), values))

    def remove(self, owner: str, namespace: Sequence[str], key: str) -> None:
        """Forget a value, where there is one."""
        self.query(
            f"DELETE FROM served_items WHERE {PLACE} AND namespace = %(namespace)s AND key = %(key)s RETURNING key",  # noqa: S608
            self._values(owner, namespace, key=key),
        )

    def _values(self, owner: str, namespace: Sequence[str], **more: Any) -> dict[str, Any]:
        return {"owner": owner, "space": self._space, "namespace": "".join(f"{part}." for part in namespace), **more}

    def _item(self, row: Sequence[Any]) -> Item:
        namespace, key, value, created_at, updated_at = row
        return Item(tuple(namespace.split(".")[:-1]), key, self.decoded(value), created_at, updated_at)
