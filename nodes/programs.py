"""Programs that a model wrote: what the core asks of a sandbox, and the one that is installed. Internal.

`redraft.sandbox` is a room of its own, and found by its entry point in the group `redraft.sandbox`; any object with
these methods takes its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .._plugins import default_plugin

__all__ = ["ProgramResult", "ProgramRunner", "default_sandbox"]


class ProgramResult(Protocol):
    """The outcome of one execution; see `redraft.sandbox.SandboxResult`."""

    @property
    def status(self) -> str:
        """`ok`, `failed`, `timeout`, `memory`, `output` or `unsupported`."""

    @property
    def ok(self) -> bool:
        """True when the program ran to its end or, for a check, when every check passed."""

    @property
    def stdout(self) -> str:
        """Text that the program printed."""

    @property
    def value(self) -> Any:
        """Value of the last expression, as plain data."""

    @property
    def error(self) -> str | None:
        """Exception type, message and the lines that led to it."""

    @property
    def by_code(self) -> bool:
        """True where a check is `unsupported` because of the program, not because of its tests."""


class ProgramRunner(Protocol):
    """Runs what a model wrote where it can do no harm; see `redraft.sandbox.Sandbox`."""

    def run(self, code: str, inputs: Mapping[str, Any] | None = None) -> ProgramResult:
        """Run a script and return its result."""

    async def arun(self, code: str, inputs: Mapping[str, Any] | None = None) -> ProgramResult:
        """Run a script without blocking, and return its result."""

    def check(self, code: str, tests: str, entry_point: str | Sequence[str], *, helpers: str = "") -> ProgramResult:
        """Run tests of a script and return their result."""

    def names_module(self, code: str, message: str) -> bool:
        """Return True if `code` imports the module that an error says is not there."""


def default_sandbox() -> ProgramRunner:
    """Return the sandbox that is installed, with its default limits.

    Raises:
        SandboxUnavailableError: Nothing on this machine can run a program safely.
    """
    runner: ProgramRunner = default_plugin("redraft.sandbox", type)()
    return runner
