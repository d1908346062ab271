"""Database URLs: what they name, and how they are shown without their password."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal, TypeAlias

__all__ = ["DatabaseKind", "kind_and_place", "without_secrets"]

DatabaseKind: TypeAlias = Literal["memory", "sqlite", "postgres"]

HOST_AND_PORT = r"(?:\[[0-9A-Fa-f:.%]*\]|[^@:,\[\]]*)(?::\d*)?"
AUTHORITY = re.compile(rf"(?:[^@:]*(?::[^@]*)?@)?{HOST_AND_PORT}(?:,{HOST_AND_PORT})*")


def kind_and_place(url: str | Path) -> tuple[DatabaseKind, str]:
    """Return the kind of database, and the file or the URL to open.

    Raises:
        ValueError: If it names none; the message says what is accepted and holds no password.
    """
    if isinstance(url, Path):
        return "sqlite", os.path.expanduser(url)
    if not isinstance(url, str) or not url.strip() or "\0" in url or url.startswith("file:"):
        raise ValueError(_refusal(url))
    if url in ("memory", ":memory:", "sqlite:///:memory:"):
        return "memory", ""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return "sqlite", _file(url, shown=url)
    if scheme == "sqlite" and rest.startswith("/") and rest != "/":
        return "sqlite", _file(rest[1:], shown=url)
    if scheme not in ("postgresql", "postgres"):
        raise ValueError(_refusal(url))
    # Checked before libpq reads it: what libpq says of a bad URL quotes parts of the password.
    authority, _, path = re.split(r"([/?#]|$)", rest, maxsplit=1)
    stray = "@" in path and ("@" not in authority or "@" in path.partition("?")[0])
    if stray or not AUTHORITY.fullmatch(authority):
        raise ValueError(
            f"{without_secrets(url)!r} is not a PostgreSQL URL: use postgresql://user:password@host:port/database, "
            "special characters percent-encoded"
        )
    return "postgres", url


def _file(path: str, *, shown: str) -> str:
    if "?" in path:
        raise ValueError(
            f"{without_secrets(shown)!r}: a SQLite file takes no options after a '?': "
            'give the file alone, such as "runs.sqlite"; a Path may hold a ? in its name'
        )
    return os.path.expanduser(path)  # unlike Path's, leaves the ~ of a file such as "~lock.sqlite" alone


def without_secrets(url: str) -> str:
    """Return the URL as messages show it: no password, and no query, which may hold one.

    Where they can't be told from the rest, nothing is shown but the scheme.
    """
    scheme, separator, rest = url.partition("://")
    userinfo, at, place = rest.rpartition("@")
    if re.search("[/?#@]", userinfo):
        return scheme + separator + "…"
    place = place.partition("?")[0]
    if not place.startswith("["):
        place = re.sub(r":(?!\d{1,5}(?:[/,]|$)).*", "", place, flags=re.DOTALL)
    return scheme + separator + userinfo.partition(":")[0] + at + place


def _refusal(url: object) -> str:
    shown = without_secrets(url) if isinstance(url, str) else url
    return (
        f"{shown!r} names no checkpointer: "
        'give a SQLite file such as "runs.sqlite", "postgresql://user@host/database", or "memory"'
    )
