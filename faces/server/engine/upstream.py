"""Errors of the providers behind a run, as callers may be told them. Internal."""

from __future__ import annotations

__all__ = ["PASSED_ON", "upstream_error"]

SAID = {
    401: "it does not accept this server's key",
    403: "this server's key may not use the model",
    429: "this server asked too often, or its quota there is used up",
}
PASSED_ON = frozenset(SAID)
"""Statuses that a caller's own request is answered with: what to do about them is known."""


def upstream_error(error: BaseException) -> dict[str, str] | None:
    """Return what a run's error says of a provider that answered with an HTTP error; `None` where none did.

    Of what the provider said nothing is told: it may hold keys and prompts.
    """
    found: BaseException | None = error
    while found is not None:
        response = getattr(found, "response", None)
        status = getattr(found, "status_code", None) or getattr(response, "status_code", None)
        if isinstance(status, int) and 400 <= status < 600:
            why = f" ({SAID[status]})" if status in SAID else ""
            told = f"the run failed: the provider of its model answered {status}{why}"
            headers = getattr(response, "headers", None) or {}
            after = str(headers.get("retry-after") or "")
            wait = {"retry_after_s": after} if after.isascii() and after.isdigit() and len(after) < 6 else {}
            return {"error": type(error).__name__, "message": told, "upstream_status": str(status), **wait}
        found = found.__cause__
    return None
