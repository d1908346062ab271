"""Resource limits of one execution. Internal."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits"]


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
