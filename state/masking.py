"""Masking of credentials in error messages: keys, tokens and passwords. Internal."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping

__all__ = ["MASK", "mask_error", "mask_values_of", "masked"]

MASK = "***"

OWNED = re.compile(
    r"\b(sk|pk|rk|gsk|xai|hf|lsv2|ghp|gho|glpat|github_pat)([-_])(?:"
    r"(?=[\w*-]{0,40}?[\d*])[\w*-]{6,}(?:(?:\.{2,}+|…)[\w*-]+)?"
    r"|[\w*-]{3,40}(?:\.{2,}+|…)[\w*-]*|[\w*-]{0,2}(?:\.{2,}+|…)[\w*-]+"
    r")|\b(AIza|AKIA)()[\w*-]{12,}"
)
"""A key that says whose it is, also with its middle starred or left out."""

NAMED = re.compile(
    r"(?i)((?<![/\\])(?:api[-_]?key|access[-_]?token|auth[-_]?token|password|passwd|pwd|client[-_]?secret|secret)"
    r"""\\*["']?\s*[=:])(\s*)(?:(\\*["'])(?:.*?\3|.*)|([^\s"'&,;)}\]]+))"""
)
"""`?api-key=…`, `"password": "…"`, `X-Api-Key: …`, and no path that ends in such a name."""

PROSE = frozenset({
    "a", "all", "an", "and", "any", "are", "as", "at", "but", "by", "can", "cannot", "does", "for", "from", "has",
    "have", "if", "in", "is", "it", "its", "may", "must", "no", "not", "of", "on", "only", "or", "please", "should",
    "that", "the", "there", "this", "to", "too", "was", "what", "when", "where", "which", "will", "with", "wrong",
    "you", "your",
})  # fmt: skip
"""Words that follow a colon in a sentence, and are no password."""

ENCODED = re.compile(r"(?<![\w+/])[A-Za-z0-9+/_-]{12,}={0,2}")
LONGEST_DECODED = 65_536
"""Of what may be a key in base64 or hex, the characters that are looked at."""

PATTERNS = (
    # me:password@ in an address
    (re.compile(r"(?<=://)[^/\s'\"@]*@"), f"{MASK}@"),
    # Authorization: Basic …, and Bearer … anywhere
    (re.compile(r"(?i)(authorization[\"']?\s*[=:]\s*[\"']?\w+\s+)[^\s\"',;)}\]]+"), rf"\1{MASK}"),
    (re.compile(r"(?i)(\bbearer\s+)(?=[\w.~+/*=-]*[\d*])[\w.~+/*=-]{6,}"), rf"\1{MASK}"),
    # the key ending in ab12
    (
        re.compile(
            r"(?i)(\b(?:key|token|secret)\b[^.\n]{0,20}?"
            r"\b(?:end|start|begin)(?:s|ing)?\s+(?:in|with)\s*:?\s*)[\w*.-]*\d[\w*-]*"
        ),
        rf"\1{MASK}",
    ),
)

HOLDS_KEYS = re.compile(r"(?i)(?:^|_)(?:key|keys|token|tokens|secret|password)$")
"""Names of environment variables whose values are credentials, whatever those look like."""
SHORTEST = 8
"""Characters of such a value: what is shorter may be a word of any sentence."""
_held: list[str] = []


def mask_values_of(environment: Mapping[str, str]) -> None:
    """Have every text masked from now on in what these variables hold by the name of a key, token, secret or password.

    The longest come first: one may begin another. A variable that holds several has commas between.
    """
    values = [value for name, value in environment.items() if HOLDS_KEYS.search(name)]
    parts = {part.strip() for value in values for part in (value, *value.split(","))}
    _held[:] = sorted({*_held, *(part for part in parts if len(part) >= SHORTEST)}, key=len, reverse=True)


def masked(text: str) -> str:
    """Return `text` without what is, or looks like, a credential.

    What `mask_values_of` was told of is one. What looks like one does so by its name, its place in an address, or how
    keys begin; a key that says whose it is is found in base64 and hex too.
    """
    for value in _held:
        text = text.replace(value, MASK)
    text = NAMED.sub(_without_value, text)
    for pattern, replacement in PATTERNS:
        text = pattern.sub(replacement, text)
    return ENCODED.sub(
        _without_encoded, OWNED.sub(lambda match: "".join(part for part in match.groups() if part) + MASK, text)
    )


def _without_value(match: re.Match[str]) -> str:
    name, space, quote, word = match.groups()
    if quote:
        return f"{name}{space}{quote}{MASK}{quote}"
    return match[0] if space and word.lower() in PROSE else f"{name}{space}{MASK}"


def _without_encoded(match: re.Match[str]) -> str:
    token = match[0][:LONGEST_DECODED]
    plain = token.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        decoded = [base64.b64decode(plain[: len(plain) // 4 * 4])]
    except binascii.Error:
        decoded = []
    if re.fullmatch(r"[0-9A-Fa-f]+", token):
        decoded.append(bytes.fromhex(token[: len(token) // 2 * 2]))
    return MASK if any(OWNED.search(plain_text.decode("ascii", "replace")) for plain_text in decoded) else match[0]


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
