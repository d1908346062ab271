"""Exception reports for someone who sees only the code: type, message, and the lines that led to it. Internal."""

from __future__ import annotations

import builtins
from typing import Any

__all__ = ["CODE", "TESTS", "describe"]

CODE, TESTS = "<code>", "<tests>"
LINES = 4
LENGTH = 500


def describe(error: BaseException, source: str) -> dict[str, Any]:
    """Plain words on `error`; only frames of the code itself, so no path of the machine is in them.

    Never raises, and never believes the exception's own methods to be honest.
    """
    kind = type(error)
    try:
        message = str(error)[:LENGTH]
    except BaseException:
        message = ""
    family = [base.__name__ for base in kind.__mro__ if base.__module__ == "builtins"]
    frames, link = [], error.__traceback__
    while link is not None:
        code = link.tb_frame.f_code
        frames.append((code.co_filename, link.tb_lineno, code.co_name[:100]))
        link = link.tb_next
    own = [(line, name) for file, line, name in frames if file in (CODE, TESTS)]
    if isinstance(error, SyntaxError) and error.lineno:
        own.append((error.lineno, "<module>"))
    lines = source.splitlines()
    trace = [
        f"  line {line}, in {name}: {lines[line - 1].strip()[:200] if 0 < line <= len(lines) else ''}"
        for line, name in own[-LINES:]
    ]
    return {
        "type": str(kind.__name__)[:100],
        "builtin": family[0] if family and hasattr(builtins, family[0]) else "Exception",
        "message": message,
        "trace": "\n".join(trace),
        "where": frames[-1][0] if frames and frames[-1][0] in (CODE, TESTS) else "",
    }
