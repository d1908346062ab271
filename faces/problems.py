"""Errors of the shell, and the exit code of each. Internal."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

__all__ = [
    "DEFAULT_DB",
    "BadInputError",
    "ProblemError",
    "ReaderGoneError",
    "RunStoppedError",
    "Stopping",
    "bad_input",
    "command",
]

DEFAULT_DB = "runs.sqlite"


class ProblemError(Exception):
    """Ends the command with one clear message on stderr."""

    exit_code = 1


class BadInputError(ProblemError):
    """Error in what the user gave."""

    exit_code = 2

    def __init__(self, message: str, *, details: str = "") -> None:
        super().__init__(message)
        self.details = details
        """Further lines, printed as they are: the place in what the user gave, say."""


class RunStoppedError(ProblemError):
    """A run did not come to its end; the message says how it goes on.

    Args:
        message: What happened.
        exit_code: 1 for a failure, 130 for Ctrl-C, 141 where nobody reads on, 143 for a SIGTERM.
    """

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class ReaderGoneError(ProblemError):
    """Nobody reads what is printed any more, as after `| head`; the command ends as if SIGPIPE had ended it."""

    exit_code = 141  # 128 + SIGPIPE, a signal that Windows does not have

    def __init__(self) -> None:
        super().__init__("nobody reads the output any more")


class Stopping:
    """Signal handling: a SIGTERM ends a run as carefully as Ctrl-C does, by becoming one."""

    terminated = False

    @classmethod
    def listen(cls) -> None:
        """Handle SIGTERM from now on.

        A job that a script started in the background ignores SIGINT, and asyncio then cancels nothing for it: there the
        signal is held back instead of ignored, until a SIGTERM lets one through.
        """
        signal.signal(signal.SIGTERM, cls.by_sigterm)
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            signal.signal(signal.SIGINT, signal.default_int_handler)

    @classmethod
    def by_sigterm(cls, signum: int, frame: FrameType | None) -> None:
        """Handle a SIGTERM."""
        cls.terminated = True
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.raise_signal(signal.SIGINT)

    @classmethod
    def exit_code(cls) -> int:
        """Return the code that a stopped command ends with, 128 and the signal's number."""
        return 128 + (signal.SIGTERM if cls.terminated else signal.SIGINT)


@contextmanager
def bad_input() -> Iterator[None]:
    """Within the block, an error that names a wrong value, file or thread is the user's to mend."""
    try:
        yield
    except (ValueError, LookupError, OSError, ImportError, RuntimeError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ProblemError(str(error)) from error
        raise BadInputError(str(error)) from error


def command(*words: str, db: str) -> str:
    """Return a command line as it is typed, with the database named where it is not the usual one.

    A password in a database URL is left out.
    """
    from ..state.storage.checkpointers import without_secrets

    line = [*words]
    if db != os.environ.get("REDRAFT_DB", DEFAULT_DB):
        line += ["--db", without_secrets(db) if "://" in db else db]
    return f"{_program()} {shlex.join(line)}"


def _program() -> str:
    """Return the word that calls `redraft` from here, also where its virtual environment is not active."""
    called = Path(sys.argv[0])
    if called.name != "redraft" or shutil.which("redraft"):
        return "redraft"
    with suppress(ValueError):
        called = called.absolute().relative_to(Path.cwd())
    return shlex.quote(str(called))
