"""What is wrong with a reply that came with status 200 and is no chat completion, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from .echoes import key_masked

if TYPE_CHECKING:
    import httpx2

__all__ = ["MOST_SHOWN", "BrokenReplyError", "broken", "fault_in", "fault_in_body", "no_stream"]

MOST_SHOWN = 200
"""Characters of a broken reply that a message shows."""
NO_STREAM = ("text/html", "application/json")
"""Types of what is certainly no stream; some servers give theirs another type than `text/event-stream`."""


class BrokenReplyError(RuntimeError):
    """A server reported success, and sent something else than a whole chat completion. It is not asked again."""


def broken(fault: str, *, key: str) -> BrokenReplyError:
    """Return the error that tells a fault, without `key`, which a page may repeat."""
    told = key_masked(fault, key) if len(key) >= 6 else fault  # shorter is none, or "none"
    return BrokenReplyError(f"The server reported success, but sent no chat completion: {told}")


def no_stream(response: httpx2.Response) -> bool:
    """Return whether the reply to a request for a stream is something else, by its type."""
    return response.headers.get("content-type", "").partition(";")[0].strip().lower() in NO_STREAM


def fault_in_body(response: httpx2.Response) -> str | None:
    """Return what is wrong with a reply that could not be made out, or `None` where it looks right."""
    try:
        return fault_in(response.json())
    except ValueError:
        return fault_in(response.text)


def fault_in(reply: Any) -> str | None:
    """Return why a reply, as it was parsed, is no chat completion; `None` where it is one."""
    if isinstance(reply, str):
        return f"it is not JSON but {_shortened(reply)}"
    known = reply.model_dump(exclude_none=True, warnings=False) if isinstance(reply, BaseModel) else reply
    if not isinstance(known, dict):
        return f"it is no JSON object but {_shortened(reply)}"
    if known.get("error"):
        return f"it reports an error: {_shortened(known['error'])}"
    choices = known.get("choices")
    if not isinstance(choices, list) or not choices:
        return f"there is no choice in {_shortened(known)}"
    if not all(isinstance(one, dict) and one.get("message") for one in choices):
        return f"there is no message in {_shortened(choices)}"
    return None


def _shortened(said: Any) -> str:
    shown = repr(said)
    return shown if len(shown) <= MOST_SHOWN else f"{shown[:MOST_SHOWN]}…"
