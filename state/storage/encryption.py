"""What is kept of a run, unreadable without a key: AES in EAX mode, through LangGraph's own cipher."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["SET_UP_ENCRYPTION", "EncryptionKeyError", "Vault", "check_key", "key_bytes"]

KEY_BYTES = 32
HEX_KEY = re.compile(rf"[0-9a-fA-F]{{{2 * KEY_BYTES}}}")

TEXT_MARK = "redraft+aes:"
"""How a text begins that is encrypted; what follows is base64."""
TAG_MARK = "+aes"
"""How LangGraph tags a value that is encrypted: `msgpack+aes`."""
CIPHER_OVERHEAD = 32
"""Bytes of the nonce and of the tag before what is encrypted."""


class EncryptionKeyError(ValueError):
    """The key is none, is the wrong one, or is missing. No message shows it."""


def key_bytes(key: str | bytes | None) -> bytes | None:
    """Return the 32 bytes of a key, or `None` where there is none.

    Args:
        key: 32 bytes, or 64 hexadecimal digits; white space around them is nothing.

    Raises:
        EncryptionKeyError: It is neither.
    """
    if key is None or (isinstance(key, bytes) and len(key) == KEY_BYTES):
        return key
    if isinstance(key, str) and HEX_KEY.fullmatch(key.strip()):
        return bytes.fromhex(key.strip())
    told = f"{len(key)} {'bytes' if isinstance(key, bytes) else 'characters'}" if isinstance(key, (str, bytes)) else ""
    raise EncryptionKeyError(
        f"an encryption key is 64 hexadecimal digits, as `openssl rand -hex 32` prints them, not "
        f"{told or type(key).__name__}{' that are something else' if told.startswith('64 ') else ''}"
    )


class Vault:
    """Encrypts with a key what a database keeps; without a key, hands everything on as it is.

    With a key, what is not encrypted is refused: a row that somebody wrote without the key is not read as if it were
    one of ours.

    Args:
        key: As `key_bytes` returns it.

    Raises:
        ImportError: There is a key, and the extra `encryption` is not installed.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._cipher: Any = None
        if key is None:
            return
        from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

        try:
            self._cipher = EncryptedSerializer.from_pycryptodome_aes(key=key).cipher
        except ImportError as error:
            raise ImportError(f'encryption needs an extra: pip install "redraft[encryption]" ({error})') from None

    @property
    def locked(self) -> bool:
        """Whether there is a key."""
        return self._cipher is not None

    def seal(self, kind: str, data: bytes) -> tuple[str, bytes]:
        """Return a serialised value and its tag as they are stored."""
        if self._cipher is None:
            return kind, data
        name, sealed = self._cipher.encrypt(data)
        return f"{kind}+{name}", sealed

    def unseal(self, kind: str, data: bytes) -> tuple[str, bytes]:
        """Return what `seal` was given.

        Raises:
            ValueError: It was encrypted with another key, was changed since, or is (not) encrypted and should (not) be.
        """
        plain = kind.removesuffix(TAG_MARK)
        if self._cipher is None:
            if plain != kind:
                raise EncryptionKeyError("it is encrypted, and no key was given")
            return kind, data
        if plain == kind:
            raise EncryptionKeyError("it is not encrypted, as all that is kept with this key must be")
        return plain, self._decrypted(data)

    def hide(self, text: str) -> str:
        """Return a text as it is stored."""
        if self._cipher is None:
            return text
        sealed: bytes = self._cipher.encrypt(text.encode("utf-8", "surrogatepass"))[1]
        return TEXT_MARK + base64.b64encode(sealed).decode()

    def reveal(self, text: str) -> str:
        """Return what `hide` was given.

        Raises:
            ValueError: As `unseal`, or it is no text.
        """
        if not isinstance(text, str):
            raise ValueError(f"it is {type(text).__name__}, not a text")  # noqa: TRY004  (all that is wrong with data)
        if self._cipher is None:
            return text
        if not text.startswith(TEXT_MARK):
            raise EncryptionKeyError("it is not encrypted, as all that is kept with this key must be")
        try:
            sealed = base64.b64decode(text.removeprefix(TEXT_MARK), validate=True)
        except binascii.Error:
            raise ValueError("it is no base64") from None
        return self._decrypted(sealed).decode("utf-8", "surrogatepass")

    def _decrypted(self, data: bytes) -> bytes:
        if not isinstance(data, bytes) or len(data) < CIPHER_OVERHEAD:
            raise ValueError("it is too short to be encrypted")
        try:
            decrypted: bytes = self._cipher.decrypt("aes", data)
        except ValueError:
            raise EncryptionKeyError("it was encrypted with another key, or was changed since") from None
        return decrypted


SET_UP_ENCRYPTION = "CREATE TABLE IF NOT EXISTS redraft_encryption (one INTEGER PRIMARY KEY, proof TEXT NOT NULL)"

PROOF = "redraft"
"""Stored as the first who opens a database writes it: in clear, or encrypted, which shows who has the key."""
SELECT_PROOF = "SELECT proof FROM redraft_encryption WHERE one = 1"
INSERT_PROOF = "INSERT INTO redraft_encryption (one, proof) VALUES (1, %(proof)s) ON CONFLICT (one) DO NOTHING"
BEGUN = (
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM checkpoints) OR EXISTS (SELECT 1 FROM runs) "
    "OR EXISTS (SELECT 1 FROM redraft_journal)"
)


def check_key(query: Callable[[str, Mapping[str, Any]], Sequence[Sequence[Any]]], vault: Vault, shown: str) -> None:
    """Return if this is the key of a database, or neither has one. The first who opens a new database decides.

    Args:
        query: Runs a statement with `%(name)s` parameters, commits, and returns its rows.
        vault: Has the key.
        shown: The database as messages name it.

    Raises:
        EncryptionKeyError: It is not.
    """
    found = query(SELECT_PROOF, {})
    if not found:
        if query(BEGUN, {}) and vault.locked:
            raise EncryptionKeyError(_in_clear(shown))
        query(INSERT_PROOF, {"proof": vault.hide(PROOF)})
        found = query(SELECT_PROOF, {})
    proof = found[0][0]
    if proof == PROOF and vault.locked:
        raise EncryptionKeyError(_in_clear(shown))
    if proof != PROOF and not vault.locked:
        raise EncryptionKeyError(
            f"{shown!r} is encrypted: open_checkpointer(…, key=…), or REDRAFT_ENCRYPTION_KEY at the shell, opens it"
        )
    try:
        vault.reveal(proof)
    except ValueError:
        raise EncryptionKeyError(f"{shown!r} was encrypted with another key than the one given") from None


def _in_clear(shown: str) -> str:
    return f"{shown!r} was begun without a key and is not encrypted: open it without one, or begin another database"
