"""Encryption of what is kept of a run: AES in EAX mode, through LangGraph's own cipher. Internal.

Without a key nothing of this runs: savers have no `Vault` then.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from langgraph.checkpoint.base import CheckpointTuple

    from .index import Query

__all__ = [
    "PROOF",
    "SELECT_PROOF",
    "SET_UP_ENCRYPTION",
    "TAG_MARK",
    "EncryptionKeyError",
    "Vault",
    "check_key",
    "key_bytes",
    "split_filter",
]

KEY_BYTES = 32
HEX_KEY = re.compile(rf"[0-9a-fA-F]{{{2 * KEY_BYTES}}}")

TEXT_MARK = "redraft+aes:"
"""How a text begins that is encrypted; what follows is base64."""
TAG_MARK = "+aes"
"""How LangGraph tags a value that is encrypted: `msgpack+aes`."""
CIPHER_OVERHEAD = 32
"""Bytes of the nonce and of the tag before what is encrypted."""


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
"""The name under which all other metadata stand."""


class EncryptionKeyError(ValueError):
    """The key is none, is the wrong one, or is missing. No message shows it."""


def key_bytes(key: str | bytes, what: str = "an encryption key") -> bytes:
    """Return the 32 bytes of a key.

    Args:
        key: 32 bytes, or 64 hexadecimal digits; white space around them is nothing.
        what: What the message calls it.

    Raises:
        EncryptionKeyError: It is neither.
    """
    if isinstance(key, bytes) and len(key) == KEY_BYTES:
        return key
    if isinstance(key, str) and HEX_KEY.fullmatch(key.strip()):
        return bytes.fromhex(key.strip())
    size = f"{len(key)} {'bytes' if isinstance(key, bytes) else 'characters'}" if isinstance(key, (str, bytes)) else ""
    raise EncryptionKeyError(
        f"{what} is 64 hexadecimal digits, as `openssl rand -hex 32` prints them, not "
        f"{size or type(key).__name__}{' that are something else' if size.startswith('64 ') else ''}"
    )


class Vault:
    """Encrypts with a key what a database keeps.

    What is not encrypted is refused: a row that somebody wrote without the key is not read as if it were one of ours.

    Args:
        key: As `key_bytes` returns it.

    Raises:
        ImportError: The extra `encryption` is not installed.
    """

    def __init__(self, key: bytes) -> None:
        from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

        try:
            self._cipher: Any = EncryptedSerializer.from_pycryptodome_aes(key=key).cipher
        except ImportError as error:
            raise ImportError(
                f'encryption needs an extra: pip install ".[encryption]" in a checkout ({error})'
            ) from None

    def seal(self, kind: str, data: bytes) -> tuple[str, bytes]:
        """Return a serialised value and its tag as they are stored."""
        name, sealed = self._cipher.encrypt(data)
        return f"{kind}+{name}", sealed

    def unseal(self, kind: str, data: bytes) -> tuple[str, bytes]:
        """Decrypt what `seal` encrypted.

        Raises:
            ValueError: It was encrypted with another key, was changed since, or is not encrypted.
        """
        plain = kind.removesuffix(TAG_MARK)
        if plain == kind:
            raise EncryptionKeyError(IN_CLEAR)
        return plain, self._decrypted(data)

    def hide(self, text: str) -> str:
        """Return a text as it is stored."""
        sealed: bytes = self._cipher.encrypt(text.encode("utf-8", "surrogatepass"))[1]
        return TEXT_MARK + base64.b64encode(sealed).decode()

    def reveal(self, text: str) -> str:
        """Decrypt what `hide` encrypted.

        Raises:
            ValueError: As `unseal`, or it is no text.
        """
        if not isinstance(text, str):
            raise ValueError(f"it is {type(text).__name__}, not a text")  # noqa: TRY004  (all that is wrong with data)
        if not text.startswith(TEXT_MARK):
            raise EncryptionKeyError(IN_CLEAR)
        try:
            sealed = base64.b64decode(text.removeprefix(TEXT_MARK), validate=True)
        except binascii.Error:
            raise ValueError("it is no base64") from None
        return self._decrypted(sealed).decode("utf-8", "surrogatepass")

    def hide_metadata(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Return metadata as they are stored: all but places and numbers encrypted."""
        clear = {name: value for name, value in metadata.items() if name in CLEAR}
        rest = {name: value for name, value in metadata.items() if name not in CLEAR}
        return {**clear, HIDDEN: self.hide(json.dumps(rest))}

    def reveal_metadata(self, metadata: Mapping[str, Any]) -> Any:
        """Decrypt what `hide_metadata` encrypted; raises ValueError as `reveal`."""
        rest = json.loads(self.reveal(metadata.get(HIDDEN, "")))
        return {**rest, **{name: value for name, value in metadata.items() if name in CLEAR}}

    def _decrypted(self, data: bytes) -> bytes:
        if not isinstance(data, bytes) or len(data) < CIPHER_OVERHEAD:
            raise ValueError("it is too short to be encrypted")
        try:
            decrypted: bytes = self._cipher.decrypt("aes", data)
        except ValueError:
            raise EncryptionKeyError("it was encrypted with another key, or was changed since") from None
        return decrypted


IN_CLEAR = "it is not encrypted, as all that is kept with this key must be"


def split_filter(
    wanted: Mapping[str, Any] | None,
) -> tuple[dict[str, Any] | None, Callable[[CheckpointTuple], bool] | None]:
    """Return which part of a filter the database can apply, and what tests the rest once metadata are decrypted."""
    if not wanted or wanted.keys() <= CLEAR:
        return (dict(wanted) if wanted else None), None
    clear = {name: value for name, value in wanted.items() if name in CLEAR}
    rest = {name: value for name, value in wanted.items() if name not in CLEAR}

    def matches(found: CheckpointTuple) -> bool:
        metadata: Mapping[str, Any] = {**found.metadata}
        return all(name in metadata and metadata[name] == value for name, value in rest.items())

    return clear or None, matches


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
    """Raise an error unless this is a database's key, or neither has one. The first to open a new database decides.

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
    proofs = query(SELECT_PROOF, {})
    if not proofs:
        if query(BEGUN, {}) and vault is not None:
            raise EncryptionKeyError(in_clear)
        # Of two processes at once the first one's row stays, so it is read back.
        query(INSERT_PROOF, {"proof": PROOF if vault is None else vault.hide(PROOF)})
        proofs = query(SELECT_PROOF, {})
    proof = proofs[0][0]
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
