"""What a provider says when it refuses a request, without the key that the request carried.

Many repeat the key, whole or in part, and what they say ends in records, logs and pages.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2

__all__ = ["check_key", "key_masked", "sent_key", "without_key"]

MASK = "***"
FRAMING = {"content-encoding", "content-length", "transfer-encoding"}
"""Headers of the body as it was sent, which is not the one that is handed on."""
STARRED = re.compile(r"[\w.~+/=-]*\*{3,}[\w.~+/=*-]*")
WORD = re.compile(r"[\w.~+/=-]{6,}")


def check_key(key: str, *, name: str) -> str:
    """`key`, once it is certain that a header can hold it: else the HTTP library would quote it in its complaint.

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
    """A refusal like `response`, whose body was read, without the key of its request in body or headers."""
    sent = sent_key(response)
    if len(sent) < 6:  # none, or "none"
        return response
    encoding = response.encoding or "utf-8"
    headers = [
        (name, key_masked(value, sent)) for name, value in response.headers.multi_items() if name.lower() not in FRAMING
    ]
    return type(response)(
        response.status_code,
        headers=headers,
        content=key_masked(response.text, sent).encode(encoding, "replace"),
        request=response.request,
        extensions=response.extensions,
    )


def sent_key(response: httpx2.Response) -> str:
    """The key that the request of `response` carried."""
    return response.request.headers.get("authorization", "").rpartition(" ")[2]


def key_masked(text: str, key: str) -> str:
    """`text` without `key`, nor the longer part of it that some leave standing beside stars."""
    text = STARRED.sub(MASK, text.replace(key, MASK))
    return WORD.sub(lambda word: MASK if key.startswith(word[0]) or key.endswith(word[0]) else word[0], text)
