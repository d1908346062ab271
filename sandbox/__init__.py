"""Runs model-written Python where it can do no harm, and checks it where it cannot cheat."""

from __future__ import annotations

from .result import SandboxResult, SandboxUnavailableError, Status
from .sandbox import Layer, Sandbox

__all__ = ["Layer", "Sandbox", "SandboxResult", "SandboxUnavailableError", "Status"]


def __dir__() -> list[str]:
    return sorted(__all__)
