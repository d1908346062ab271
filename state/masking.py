"""Masking of credentials in error messages: keys, tokens and passwords. Internal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MASK", "mask_error", "masked"]

MASK = "***"

DIGIT_OR_STAR = re.compile(r"[\d*]")

PATTERNS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    # me:password@ in an address
    (re.compile(r"(?<=://)[^/\s'\"@]*@"), f"{MASK}@"),
    # ?api-key=…, "password": "…", X-Api-Key: …
    (
        re.compile(
            r"(?i)((?:api[-_]?key|access[-_]?token|auth[-_]?token|password|passwd|pwd|client[-_]?secret|secret)"
            r"""["']?\s*[=:]\s*["']?)(?!["'])[^\s"'&,;)}\]]+"""
        ),
        rf"\1{MASK}",
    ),
    # Authorization: Basic …, and Bearer … anywhere
    (re.compile(r"(?i)(authorization[\"']?\s*[=:]\s*[\"']?\w+\s+)[^\s\"',;)}\]]+"), rf"\1{MASK}"),
    (re.compile(r"(?i)(\bbearer\s+)(?=[\w.~+/*=-]*[\d*])[\w.~+/*=-]{6,}"), rf"\1{MASK}"),
    # keys that say whose they are, also with their middle starred out
    (
        re.compile(r"\b(sk|pk|rk|gsk|xai|hf|lsv2|ghp|gho|glpat|github_pat)([-_])([\w*-]{6,})"),
        # Asked of what was found, since looking ahead for it from each place takes quadratic time.
        lambda found: f"{found[1]}{found[2]}{MASK}" if DIGIT_OR_STAR.search(found[3]) else found[0],
    ),
    (re.compile(r"\b(AIza|AKIA)[\w*-]{12,}"), rf"\1{MASK}"),
)


def masked(text: str) -> str:
    """Return `text` without what looks like a credential: by its name, its place in an address, or how keys begin."""
    for pattern, replacement in PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def mask_error(error: BaseException) -> None:
    """Mask what `error` says of itself, so that whoever prints, logs or stores it later shows no credential."""
    if all(isinstance(part, str) for part in error.args):
        clean = tuple(masked(part) for part in error.args)
        if clean != error.args:
            error.args = clean
    message = getattr(error, "message", None)
    if isinstance(message, str) and masked(message) != message:
        try:
            error.message = masked(message)  # type: ignore[attr-defined]
        except AttributeError:  # read-only: it is made of the arguments
            return
