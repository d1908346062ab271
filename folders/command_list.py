"""Commands of folders, as their entry point brings them; none is imported here. Internal."""

from __future__ import annotations

from ..faces.cli.command_list import LazyCommand

__all__ = ["COMMANDS"]

COMMANDS = (
    LazyCommand(
        "goal",
        "redraft.folders.commands_goal:goal",
        "Work on a folder until commands pass, in private copies; your files are changed by `redraft apply` alone.",
        (
            'redraft goal "Make the tests pass." --check "pytest -q" --protect "tests/**" --model openai:gpt-5-mini',
            'redraft goal "Add --json to the command." --check "pytest -q" --check "ruff check ." --by "claude -p"',
            'redraft goal "Mend the parser." --dir parser --check "pytest -q" --hidden "python -m doctest parser.py"',
            'redraft fork my-thread --at 1 --feedback "Keep the API."    goes on from the files of a round',
        ),
        after="pipeline",
    ),
    LazyCommand(
        "apply",
        "redraft.folders.commands_goal:apply",
        "Show what a thread changed in a folder, and write it there; refuse where the folder has changed since.",
        ("redraft apply my-thread", "redraft apply my-thread --yes"),
        after="goal",
    ),
    LazyCommand(
        "checkout",
        "redraft.folders.commands_goal:checkout",
        "Write the files of a round into an empty folder.",
        ("redraft checkout my-thread work", "redraft checkout my-thread work --round 1"),
        after="apply",
    ),
    LazyCommand(
        "stop-hook",
        "redraft.folders.commands_goal:stop_hook",
        "Hold a coding agent's session until commands pass: a stop hook, as Claude Code calls it.",
        ('redraft stop-hook --check "pytest -q" --max-stops 5    as the command of a Stop hook',),
        after="checkout",
    ),
    LazyCommand(
        "check-work",
        "redraft.folders.commands_goal:check_work",
        "Serve the tool `check_work` to an agent, over MCP on standard input and output: do the commands pass?",
        ('redraft check-work --check "pytest -q"    as the command of an MCP server',),
        after="stop-hook",
    ),
)
