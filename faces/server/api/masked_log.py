"""The server's log, without what looks like a credential: errors of libraries, tracebacks included, may quote one."""

from __future__ import annotations

import logging

from ....state.masking import masked

__all__ = ["mask_logs"]

LOGS = ("redraft.server", "uvicorn.error")


class _Masked(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = masked(record.getMessage()), ()
        if record.exc_info and not record.exc_text:
            record.exc_text = masked(logging.Formatter().formatException(record.exc_info))
        return True


FILTER = _Masked()


def mask_logs() -> None:
    """Mask whatever is logged from now on by us, or by uvicorn about us; a second call does nothing more."""
    for name in LOGS:
        logging.getLogger(name).addFilter(FILTER)
