"""Key of a database: who opens it has the one that it was begun with, or both have none. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .encryption import EncryptionKeyError

if TYPE_CHECKING:
    from .encryption import Vault
    from .index import Query

__all__ = ["PROOF", "SELECT_PROOF", "SET_UP_ENCRYPTION", "check_key"]

SET_UP_ENCRYPTION = "CREATE TABLE IF NOT EXISTS redraft_encryption (one INTEGER PRIMARY KEY, proof TEXT NOT NULL)"

PROOF = "redraft"
"""Stored as the first who opens a database writes it: in clear, or encrypted, which shows who has the key."""
SELECT_PROOF = "SELECT proof FROM redraft_encryption WHERE one = 1"
INSERT_PROOF = "INSERT INTO redraft_encryption (one, proof) VALUES (1, %(proof)s) ON CONFLICT (one) DO NOTHING"
BEGUN = (
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM checkpoints) OR EXISTS (SELECT 1 FROM runs) "
    "OR EXISTS (SELECT 1 FROM redraft_journal)"
)


def check_key(query: Query, vault: Vault | None, shown: str, *, begun: bool = True) -> None:
    """Return if this is the key of a database, or neither has one. The first who opens a new database decides.

    Args:
        query: Runs a statement with `%(name)s` parameters, commits, and returns its rows.
        vault: Has the key; `None` where there is none.
        shown: The database as messages name it.
        begun: Whether there is a table of ours that says; else there is no key.

    Raises:
        EncryptionKeyError: It is not.
    """
    in_clear = f"{shown!r} was begun without a key and is not encrypted: open it without one, or begin another database"
    if not begun:
        if vault is not None:
            raise EncryptionKeyError(in_clear)
        return
    found = query(SELECT_PROOF, {})
    if not found:
        if query(BEGUN, {}) and vault is not None:
            raise EncryptionKeyError(in_clear)
        # Of two processes at once the first one's row stays, so it is read back.
        query(INSERT_PROOF, {"proof": PROOF if vault is None else vault.hide(PROOF)})
        found = query(SELECT_PROOF, {})
    proof = found[0][0]
    if vault is None:
        if proof != PROOF:
            raise EncryptionKeyError(
                f"{shown!r} is encrypted: open_checkpointer(…, key=…), or REDRAFT_ENCRYPTION_KEY at the shell, opens it"
            )
        return
    if proof == PROOF:
        raise EncryptionKeyError(in_clear)
    try:
        vault.reveal(proof)
    except ValueError:
        raise EncryptionKeyError(f"{shown!r} was encrypted with another key than the one given") from None
