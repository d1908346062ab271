"""Entry point of the `redraft` command. What a command needs is imported when it is called."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, NoReturn

import typer

from ..problems import ProblemError, ReaderGoneError, Stopping
from .command_list import CommandGroup

__all__ = ["app", "main"]

# Before langgraph is imported anywhere in this process: a checkpoint is data, and never names a class to be built.
os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")

app = typer.Typer(
    name="redraft",
    cls=CommandGroup,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def redraft(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version.", is_eager=True)] = False,
) -> None:
    """Draft, get feedback, check and refine, until the work is right or a limit says stop.

    Every step is kept: a run can be resumed, replayed for free, forked at any step, and compared.
    """
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"redraft {installed('redraft')}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit: 0 done, 1 a failed run, 2 bad input, 3 not accepted, 130 or 143 interrupted, 141
    nobody reads on.

    Never a traceback. A run that waits for a person ends with 0, and one that `redraft stop` ended with 143.

    Args:
        arguments: What follows `redraft` on the command line; default: what the process was given.
    """
    Stopping.listen()
    # A warning is a line for the user; where in the code it was raised is none of theirs.
    warnings.formatwarning = lambda message, *_, **__: f"redraft: {message}\n"
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that can't show ✓ still shows the rest
    code = _run(arguments)
    if code == ReaderGoneError.exit_code:
        # What is left in the buffer would be written at exit, and fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        # Else typer would print errors in its own way, and end the process with its own codes.
        code = app(arguments, prog_name="redraft", standalone_mode=False)
        # Here, where a broken pipe is still caught.
        sys.stdout.flush()
    except (ReaderGoneError, BrokenPipeError):
        return ReaderGoneError.exit_code
    except SystemExit as done:  # typer's after a completion, or what typer and rich make of a broken pipe
        return ReaderGoneError.exit_code if done.code else 0
    except KeyboardInterrupt:
        return Stopping.exit_code()
    except ProblemError as problem:
        return _complain(problem, problem.exit_code, details=getattr(problem, "details", ""))
    except Exception as error:
        if hasattr(error, "format_message"):  # typer's own: an unknown option, a number that is none
            context = getattr(error, "ctx", None)
            hint = f" (see {context.command_path} --help)" if context else ""
            return _complain(error, getattr(error, "exit_code", 2), f"{error.format_message()}{hint}")
        return _complain(error, 1, f"{type(error).__name__}: {error} (REDRAFT_DEBUG=1 shows where)")
    return code if isinstance(code, int) else 0


def _complain(error: Exception, code: int, message: str | None = None, *, details: str = "") -> int:
    if os.environ.get("REDRAFT_DEBUG", "") not in ("", "0"):
        raise error
    from ...state.masking import mask_values_of, masked
    from ..views.console import one_line, safe

    mask_values_of(os.environ)
    with suppress(BrokenPipeError):
        print(f"redraft: {one_line(masked(message or str(error)))}", file=sys.stderr)  # noqa: T201
        if details:
            print(safe(masked(details)), file=sys.stderr)  # noqa: T201
    return code
