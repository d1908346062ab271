"""Signatures of run configs: HMACs by which one in a database is known to be this user's own. Internal.

The key is 32 random bytes in a file that only the user can read. A run config without the signature, or one that was
changed, came from somebody else, another machine, or a version that made none.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["is_own", "signature"]

KEY_FILE = "recipe.key"
KEY_BYTES = 32


def signature(content: Mapping[str, Any]) -> str | None:
    """Return the signature of a content that this user wrote, 64 hex digits; `None` where no key can be kept."""
    key = _key(make=True)
    return None if key is None else _signature(content, key)


def is_own(content: Mapping[str, Any], mark: object) -> bool:
    """Tell if a mark is this user's signature of exactly this content."""
    # A key made now would have signed nothing yet.
    key = _key(make=False)
    # `compare_digest` raises for text beyond ASCII, and a mark can be anything that somebody wrote.
    if key is None or not isinstance(mark, str) or not mark.isascii():
        return False
    return hmac.compare_digest(_signature(content, key), mark)


def _signature(content: Mapping[str, Any], key: bytes) -> str:
    # Sorted, so that the order in which keys come back does not matter.
    text = json.dumps(content, sort_keys=True)
    # With a prefix, so that nothing else that this key may ever sign can pass for a recipe.
    return hmac.new(key, b"redraft recipe\0" + text.encode(), hashlib.sha256).hexdigest()


def _key(*, make: bool) -> bytes | None:
    """Return the key of the first folder that has one, or else can have one."""
    # All are read before one is written: a second key would make the recipes of the first one foreign.
    for folder in _folders():
        if (key := _read(folder)) is not None:
            return key
    for folder in _folders() if make else ():
        try:
            _write(folder)
        except OSError:  # a home that can't be written, as in some containers
            continue
        # Read back: another process may have put its own key there first.
        if (key := _read(folder)) is not None:
            return key
    return None


def _folders() -> Iterator[Path]:
    """Yield where the key may be: the user's folder for state, or one for temporary files that is the user's alone."""
    state_home = os.environ.get("XDG_STATE_HOME")
    with suppress(RuntimeError):  # a user without a home
        yield (Path(state_home) if state_home else Path.home() / ".local" / "state") / "redraft"
    yield Path(tempfile.gettempdir(), f"redraft-{_user()}")


def _read(folder: Path) -> bytes | None:
    """Return the key in a folder, if nobody else could have put it there or can read it."""
    try:
        if not (_safe(folder) and _private(folder / KEY_FILE, stat.S_ISREG, 0o077)):
            return None
        key = (folder / KEY_FILE).read_bytes()
    except OSError:
        return None
    return key if len(key) == KEY_BYTES else None


def _safe(folder: Path) -> bool:
    """Tell if nobody else can put a file into a folder."""
    return _private(folder, stat.S_ISDIR, 0o022)


def _private(path: Path, is_kind: Any, others: int) -> bool:
    """Tell if a path is of this kind and no link, and others have none of these rights on it."""
    # Not `stat`: with a link somebody else could choose what is read.
    status = path.lstat()
    return bool(is_kind(status.st_mode)) and (
        # Elsewhere the mode says nothing about who may read.
        os.name != "posix" or (status.st_uid == _user() and not stat.S_IMODE(status.st_mode) & others)
    )


def _write(folder: Path) -> None:
    """Put a new key into a folder, whole or not at all; one that another process put there meanwhile stays."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _safe(folder):
        raise PermissionError(f"others can write to {str(folder)!r}")
    handle, name = tempfile.mkstemp(dir=folder, prefix=".recipe-")  # which makes it the user's alone
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
        # A link fails where there is a file, so that two processes that begin at once agree on one key.
        os.link(name, folder / KEY_FILE)
    except FileExistsError:
        pass
    finally:
        os.unlink(name)


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0
