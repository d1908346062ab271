"""The shell's way in: `redraft run "Write …"`. Starts without langgraph, which each command imports when it works."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from . import (
    commands_eval,
    commands_human,
    commands_pipeline,
    commands_report,
    commands_run,
    commands_serve,
    commands_threads,
)
from .options import examples
from .problems import ProblemError, ReaderGoneError, Stopping, debugging

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["app", "main"]

# Before langgraph is imported anywhere in this process: a checkpoint is data, and never names a class to be built.
os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")

app = typer.Typer(
    name="redraft",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "redraft demo",
        'redraft run "Write a two-line poem about rain." --verify uses_words:rain,roof',
        "redraft threads",
        "redraft COMMAND --help    shows more, with examples",
    ),
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


app.command(epilog=examples("redraft demo", "redraft demo --db memory", "redraft demo --model openai:gpt-5-mini"))(
    commands_run.demo
)
app.command(
    epilog=examples(
        'redraft run "Write one sentence about autumn." --verify uses_words:leaf,wind',
        'redraft run "Explain recursion to a child." --model openai:gpt-5-mini --critic self --max-rounds 2',
        'redraft run "Ann has 3 bags of 4 pears. How many pears is that?" --graph math',
        'redraft run "Write a haiku." --model http://localhost:8080/v1#my-model --critic openai:gpt-5-mini',
        'redraft run "Write to Ann that we are late." --critic self --human',
        "redraft run - --json --token-budget 5000 < task.txt | jq -r .answer",
    )
)(commands_run.run)
app.command(
    epilog=examples(
        "redraft pipeline \"SetTopic('Microservices') | UseRefinementLoop('3')\"",
        "redraft pipeline \"SetTopic('Tests') | UseDir('docs') | UseDraft | UseCritique | UseImprove\" --trace",
        "redraft pipeline \"SetTopic('Rain') | UseSelfCritique('2')\" --threshold 0.9",
        'redraft pipeline "UseCritique | UseImprove" --thread run-1f0c    goes on with a thread',
    )
)(commands_pipeline.pipeline)
app.command(
    name="eval",
    epilog=examples(
        "redraft eval bundled --limit 5 --methods zero-shot,self-refine-2 --out first",
        "redraft eval gsm8k.jsonl --model openai:gpt-5-mini --methods zero-shot,program-3 --rpm 300 --out gsm8k",
        "redraft eval gsm8k.jsonl --methods zero-shot,program-3 --out gsm8k --resume",
        "redraft report gsm8k",
    ),
)(commands_eval.evaluate)
app.command(
    epilog=examples("redraft report gsm8k", "redraft report gsm8k humaneval --out both", "redraft report gsm8k --json")
)(commands_report.report)
app.command(
    epilog=examples(
        "redraft compare before.jsonl after.jsonl",
        "redraft compare gsm8k/zero-shot/results.jsonl gsm8k/program-3/results.jsonl --json",
        "redraft compare a.jsonl b.jsonl --id task --correct passed",
    )
)(commands_report.compare)
app.command(
    epilog=examples(
        "redraft diagnose gsm8k.jsonl --model openai:gpt-5-mini --limit 30 --out sample",
        "redraft diagnose bundled --limit 10 --methods zero-shot,self-refine-2 --out sample",
    )
)(commands_report.diagnose)
app.command(epilog=examples("redraft resume run-1f0c", "redraft resume run-1f0c --max-rounds 6 --token-budget 20000"))(
    commands_run.resume
)
app.command(
    epilog=examples(
        "redraft answer run-1f0c --accept",
        'redraft answer run-1f0c --feedback "Warmer, and half as long."',
        "redraft answer run-1f0c --draft mine.txt",
    )
)(commands_human.answer)
app.command(epilog=examples("redraft stop run-1f0c", "redraft resume run-1f0c"))(commands_human.stop)
app.command(epilog=examples("redraft threads", "redraft threads --stopped unfinished", "redraft threads --json"))(
    commands_threads.threads
)
app.command(epilog=examples("redraft history run-1f0c", "redraft history run-1f0c --json"))(commands_threads.history)
app.command(epilog=examples("redraft show run-1f0c", "redraft show run-1f0c --round 0"))(commands_threads.show)
app.command(epilog=examples("redraft tree run-1f0c"))(commands_threads.tree)
app.command(epilog=examples("redraft html run-1f0c", "redraft html run-1f0c -o run.html"))(commands_threads.html)
app.command(epilog=examples("redraft replay run-1f0c", "redraft replay run-1f0c --json"))(commands_threads.replay)
app.command(
    epilog=examples(
        'redraft fork run-1f0c --at 0 --feedback "Make it about winter." --run',
        "redraft fork run-1f0c --at 1 --model openai:gpt-5 --as with-gpt-5",
        "redraft resume with-gpt-5",
    )
)(commands_run.fork)
app.command(
    epilog=examples(
        "redraft diff run-1f0c", "redraft diff run-1f0c --before 0 --after 1", "redraft diff run-1f0c with-gpt-5"
    )
)(commands_threads.diff)

app.command(
    epilog=examples(
        "redraft serve",
        "redraft serve --model openai:gpt-5-mini --db postgresql://me@localhost/runs --port 9000",
        "redraft serve --host 0.0.0.0 --token-file tokens.txt --max-rounds 5 --max-seconds 300",
    )
)(commands_serve.serve)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit: 0 done, 1 a failed run, 2 bad input, 130 or 143 interrupted, 141 nobody reads on.

    Never a traceback. A run that waits for a person ends with 0, and one that `redraft stop` ended with 143.

    Args:
        arguments: What follows `redraft` on the command line; default: what the process was given.
    """
    Stopping.listen()
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
        code = app(arguments, prog_name="redraft", standalone_mode=False)
        sys.stdout.flush()
    except (ReaderGoneError, BrokenPipeError, SystemExit):  # typer and rich make a SystemExit of a broken pipe
        return ReaderGoneError.exit_code
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
    if debugging():
        raise error
    from ..state.masking import masked
    from .plain_text import one_line, safe

    with suppress(BrokenPipeError):
        print(f"redraft: {one_line(masked(message or str(error)))}", file=sys.stderr)  # noqa: T201
        if details:
            print(safe(masked(details)), file=sys.stderr)  # noqa: T201
    return code
