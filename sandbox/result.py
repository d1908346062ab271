"""Resource limits and result of one execution. Internal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Limits", "SandboxResult", "SandboxUnavailableError", "Status"]

Status = Literal["ok", "failed", "timeout", "memory", "output", "unsupported"]
"""`ok`: ran to its end, or passed its checks. `failed`: raised, crashed, left early or failed a check. `timeout`,
`memory`, `output`: met that limit. `unsupported`: this sandbox could not tell, which says nothing about the code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one execution in one layer.

    Raises:
        ValueError: One of them makes no sense.
    """

    timeout_s: float
    """Seconds, sleeping included."""
    memory_mb: int
    """Megabytes, at least 64; a CPython process needs about 30 of them for itself."""
    max_output: int
    """Characters the code may print."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if not self.timeout_s > 0 or self.memory_mb < 64 or self.max_output < 0:
            raise ValueError(f"limits must be positive and memory_mb at least 64, not {self!r}")


class SandboxUnavailableError(RuntimeError):
    """No layer that was asked for can run on this machine; the message says in one line what to install."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxResult:
    """The outcome of one execution, all of it plain data that a checkpoint can hold."""

    status: Status
    """How it ended."""
    stdout: str = ""
    """The output of the code, at most `max_output` characters."""
    value: Any = None
    """Value of the last expression, else of the variable `answer`: JSON data (tuples and sets become lists, keys
    become strings, `Decimal` and `Fraction` their text, integers of thousands of digits hexadecimal text), or None
    where it is anything else. Always None for a check."""
    error: str | None = None
    """Exception type, message and the lines of the code that led to it; or why there is no value."""
    by_code: bool = False
    """True where a check is `unsupported` because of what the code is, imports or returns, not because of its tests."""
    layer: str = ""
    """The layer that gave this result: `monty`, `bubblewrap` or `seccomp`."""
    seconds: float = 0.0
    """Wall-clock seconds from the call to the result, over all layers tried."""

    @property
    def ok(self) -> bool:
        """True when the code ran to its end or, for a check, when every check ran and passed."""
        return self.status == "ok"
