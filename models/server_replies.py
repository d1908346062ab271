"""Replies of a server that are no chat completions, and replies that repeat the key of their request. Internal.

Many providers repeat the key, whole or in part, when they refuse a request, and what they say ends in records, logs and
pages.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

if TYPE_CHECKING:
    import httpx2

__all__ = [
    "MOST_SHOWN",
    "BrokenReplyError",
    "broken",
    "check_key",
    "fault_in",
    "fault_in_body",
    "key_masked",
    "no_stream",
    "sent_key",
    "without_key",
]


MOST_SHOWN = 200
"""Characters of a broken reply that a message shows."""

NO_STREAM = ("text/html", "application/json")
"""Media types that are certainly no stream; some servers give theirs another type than `text/event-stream`."""


class BrokenReplyError(RuntimeError):
    """A server reported success, and sent something else than a whole chat completion. It is not asked again."""


def broken(fault: str, *, key: str) -> BrokenReplyError:
    """Return the error for a fault, without `key`, which a page may repeat."""
    masked = key_masked(fault, key) if len(key) >= 6 else fault  # shorter is none, or "none"
    return BrokenReplyError(f"The server reported success, but sent no chat completion: {masked}")


def no_stream(response: httpx2.Response) -> bool:
    """Return True if the reply to a request for a stream is something else, by its type."""
    return response.headers.get("content-type", "").partition(";")[0].strip().lower() in NO_STREAM


def fault_in_body(response: httpx2.Response) -> str | None:
    """Return the fault in a reply that could not be made out, or `None` where it looks right."""
    try:
        return fault_in(response.json())
    except ValueError:
        return fault_in(response.text)


def fault_in(reply: Any) -> str | None:
    """Return the reason why a parsed reply is no chat completion; `None` where it is one."""
    if isinstance(reply, str):
        return f"it is not JSON but {_shortened(reply)}"
    fields = reply.model_dump(exclude_none=True, warnings=False) if isinstance(reply, BaseModel) else reply
    if not isinstance(fields, dict):
        return f"it is no JSON object but {_shortened(reply)}"
    if fields.get("error"):
        return f"it reports an error: {_shortened(fields['error'])}"
    choices = fields.get("choices")
    if not isinstance(choices, list) or not choices:
        return f"there is no choice in {_shortened(fields)}"
    if not all(isinstance(one, dict) and one.get("message") for one in choices):
        return f"there is no message in {_shortened(choices)}"
    return None


def _shortened(said: Any) -> str:
    text = repr(said)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def check_key(key: str, *, name: str) -> str:
    """Return `key` if a header can hold it; else the HTTP library would quote it in its complaint.

    Args:
        key: A credential.
        name: The environment variable that holds it.

    Raises:
        ValueError: It can't be sent; the message names the variable only.
    """
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError(f"the key in {name} holds a space, a line break or a letter that no key has: set it anew")
    return key


def without_key(response: httpx2.Response) -> httpx2.Response:
    """Return a refusal like `response`, whose body was read, without the key of its request in body or headers."""
    sent = sent_key(response)
    if len(sent) < 6:  # none, or "none"
        return response
    headers = [
        (name, key_masked(value, sent)) for name, value in response.headers.multi_items() if name.lower() not in FRAMING
    ]
    return type(response)(
        response.status_code,
        headers=headers,
        content=key_masked(response.text, sent).encode(response.encoding or "utf-8", "replace"),
        request=response.request,
        extensions=response.extensions,
    )


def sent_key(response: httpx2.Response) -> str:
    """Return the key that the request of `response` carried."""
    return response.request.headers.get("authorization", "").rpartition(" ")[2]


def key_masked(text: str, key: str) -> str:
    """Return `text` without `key`: whole, in base64 or hex, its parts, and what some leave standing beside stars."""

    def without(word: re.Match[str]) -> str:
        if MASK in word[0]:
            return MASK
        parts = word[0].split("*")  # emphasis, of Markdown
        of_key = [len(part) >= SHORTEST_PART and (key.startswith(part) or key.endswith(part)) for part in parts]
        return "*".join(MASK if is_key else part for part, is_key in zip(parts, of_key, strict=True))

    text = text.replace(key, MASK)
    for written in ESCAPES:  # as an address or a page of HTML may write each of its characters
        text = re.sub("".join(written.format(ord(letter)) for letter in key), MASK, text, flags=re.IGNORECASE)
    text = WORD.sub(without, text)
    pieces = {form[at : at + PIECE] for form in _encoded(key) for at in range(len(form) - PIECE + 1)}
    parts_kept: list[str] = []
    at = end = 0
    for start in range(len(text) - PIECE + 1):
        if text[start : start + PIECE] in pieces:
            if start >= end:
                parts_kept += [text[at:start], MASK]
            at = end = start + PIECE
    return "".join([*parts_kept, text[at:]])


def _encoded(key: str) -> list[str]:
    """Return the forms in which a key's parts are looked for: as it is, in hex, and in base64 at each alignment."""
    data = key.encode()
    forms = [key, data.hex(), data.hex().upper()]
    for before in range(3):  # bytes before it, which shift its letters; those that they share are left out
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            letters = encode(b"\0" * before + data).decode().rstrip("=")
            forms.append(letters[-(-before * 8 // 6) : len(letters) - ((before + len(data)) % 3 != 0)])
    return forms


ESCAPES = ("%{:02x}", "&#0*{};?", "&#x0*{:x};?")

PIECE = 8
"""Characters in a row that no text shares with a key by chance."""

MASK = "***"

FRAMING = {"content-encoding", "content-length", "transfer-encoding"}
"""Headers of the body as it was sent, which is not the one that is handed on."""

WORD = re.compile(r"[\w.~+/=*-]+")

SHORTEST_PART = 6
