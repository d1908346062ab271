"""Lazy command group: names, summaries and examples; a command's module is imported when it is called. Internal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from typer import Typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command as built

from ..._plugins import load_plugin, plugins
from ..problems import bad_input

__all__ = ["COMMANDS", "CommandGroup", "LazyCommand", "all_commands", "with_rooms"]


@dataclass(frozen=True)
class LazyCommand:
    """A command by the place of its function, so that listing it imports nothing."""

    name: str
    home: str
    """`module:function`; a module with a leading dot lies beside this one, any other is named in full."""
    summary: str
    """The first paragraph of the function's docstring."""
    examples: tuple[str, ...]
    of_presets: bool = False
    """It has a flag for each option of the presets."""
    after: str = ""
    """The command that it is listed behind; default: the last one."""

    @property
    def function(self) -> Any:
        """The function, or the typer app of a command with subcommands; its module is imported here."""
        module, _, name = self.home.partition(":")
        return getattr(import_module(module, __package__), name)

    def load(self) -> Any:
        """Return the command with its options."""
        from .options import examples, with_preset_options

        function = self.function
        if isinstance(function, Typer):  # a command with subcommands
            function.info.epilog = examples(*self.examples)
            return _without_types(built(function))
        alone = Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
        if self.of_presets:
            with bad_input():
                function = with_preset_options(function)
        alone.command(name=self.name, epilog=examples(*self.examples))(function)
        return _without_types(built(alone))


def with_rooms(core: Iterable[LazyCommand], rooms: Iterable[LazyCommand]) -> tuple[LazyCommand, ...]:
    """Return the commands of the core and of other packages in one stable order, without importing any.

    A room's command stands behind the one that its `after` names, several of them in the order given. Without `after`,
    or where that command is missing, it stands at the end.

    Raises:
        ValueError: Two commands have the same name.
    """
    merged: list[LazyCommand] = list(core)
    names = [command.name for command in merged]
    for command in rooms:
        if command.name in names:
            raise ValueError(f"there are two commands called {command.name!r}; one of them is {command.home!r}")
        place = names.index(command.after) + 1 if command.after in names else len(names)
        # Behind those that are listed after the same command already.
        while place < len(merged) and command.after and merged[place].after == command.after:
            place += 1
        merged.insert(place, command)
        names.insert(place, command.name)
    return tuple(merged)


def all_commands() -> tuple[LazyCommand, ...]:
    """Return the commands of the core, and those that rooms and other packages bring by `redraft.commands`.

    Raises:
        ValueError: Those of a package can't be loaded, or one has a name that is taken.
    """
    rooms = [load_plugin(point, tuple) for point in plugins("redraft.commands").values()]
    return with_rooms(COMMANDS, [command for room in rooms for command in room])


def _without_types(command: Any) -> Any:
    """Return the command with a help page that shows metavars, and no types of Python such as `<list[Path]>`."""

    def parameters_of(get_params: Any, ctx: Any) -> Any:
        parameters = get_params(ctx)
        for parameter in parameters:
            if (parameter.display_type_rich(ctx) or "").startswith("<"):
                parameter.display_type_rich = lambda ctx: None
        return parameters

    for part in (command, *getattr(command, "commands", {}).values()):
        part.get_params = partial(parameters_of, part.get_params)
    return command


class CommandGroup(TyperGroup):
    """Group of `all_commands`; the options of a command are read when it is called."""

    def __init__(self, **settings: Any) -> None:
        self.listed = all_commands()
        stubs = {command.name: TyperCommand(command.name, help=command.summary) for command in self.listed}
        # In plain text: what draws typer's panels takes longer to import than all the rest.
        super().__init__(**{**settings, "commands": stubs, "rich_markup_mode": None})
        self._completing = False

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        self._completing = True  # which imports none of the commands that it names
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self._completing = False

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if self._completing:
            return self.commands.get(cmd_name)
        return next((command.load() for command in self.listed if command.name == cmd_name), None)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(command.name, command.summary) for command in self.listed])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Examples"):
            for line in EXAMPLES:
                formatter.write(f"  $ {line}\n")


EXAMPLES = (
    "redraft demo",
    'redraft run "Write a two-line poem about rain." --verify uses_words:rain,roof',
    "redraft threads",
    "redraft COMMAND --help    shows more, with examples",
)

COMMANDS = (
    LazyCommand(
        "demo",
        ".commands_run:demo",
        "Refine six bundled tasks live, on the embedded model unless you name another. Needs no key.",
        (
            "redraft demo",
            "redraft demo --db memory",
            "redraft demo --model openai:gpt-5-mini",
        ),
    ),
    LazyCommand(
        "run",
        ".commands_run:run",
        "Write, get feedback, check and refine until it is right or a limit says stop.",
        (
            'redraft run "Write one sentence about autumn." --verify uses_words:leaf,wind',
            'redraft run "Explain recursion to a child." --model openai:gpt-5-mini --critic self --max-rounds 2',
            'redraft run "Ann has 3 bags of 4 pears. How many pears is that?" --graph math',
            'redraft run "Write a haiku." --model http://localhost:8080/v1#my-model --critic openai:gpt-5-mini',
            'redraft run "Write to Ann that we are late." --critic self --human',
            "redraft run - --json --token-budget 5000 < task.txt | jq -r .answer",
        ),
        of_presets=True,
    ),
    LazyCommand(
        "run-many",
        ".commands_many:run_many",
        "Run one graph on many tasks, and write each result as it comes.",
        (
            "redraft run-many tasks.jsonl --verify uses_words:rain",
            "redraft run-many tasks.jsonl --graph math --out answers.jsonl --model openai:gpt-5-mini --db math.sqlite",
            "redraft run-many tasks.txt --processes 2 --db postgresql://user@host/name",
            "redraft run-many tasks.jsonl    the same again goes on",
        ),
        of_presets=True,
    ),
    LazyCommand(
        "pipeline",
        ".commands_pipeline:pipeline",
        "Draft, criticise and improve in the steps that you write down; each step has its checkpoint.",
        (
            "redraft pipeline \"SetTopic('Microservices') | UseRefinementLoop('3')\"",
            "redraft pipeline \"SetTopic('Tests') | UseDir('docs') | UseDraft | UseCritique | UseImprove\" --trace",
            "redraft pipeline \"SetTopic('Rain') | UseSelfCritique('2')\" --threshold 0.9",
            'redraft pipeline "UseCritique | UseImprove" --thread run-1f0c    goes on with a thread',
        ),
    ),
    LazyCommand(
        "resume",
        ".commands_run:resume",
        "Go on with a thread that was interrupted, killed, failed or forked, or that waits for "
        "you; or give it more room.",
        (
            "redraft resume run-1f0c",
            "redraft resume run-1f0c --max-rounds 6 --token-budget 20000",
        ),
    ),
    LazyCommand(
        "answer",
        ".commands_human:answer",
        "Answer a thread that waits for a person, and run it on. In a terminal `redraft resume ID` asks you instead.",
        (
            "redraft answer run-1f0c --accept",
            'redraft answer run-1f0c --feedback "Warmer, and half as long."',
            "redraft answer run-1f0c --draft mine.txt",
        ),
    ),
    LazyCommand(
        "withdraw",
        ".commands_human:withdraw",
        "Withdraw what a person or a fork asked for. `redraft resume ID` then decides anew.",
        (
            'redraft withdraw run-1f0c "Make it about winter."',
            "redraft resume run-1f0c",
        ),
    ),
    LazyCommand(
        "stop",
        ".commands_human:stop",
        "Ask a thread that another process runs to stop after the step it is in. `redraft resume ID` goes on.",
        (
            "redraft stop run-1f0c",
            "redraft resume run-1f0c",
        ),
    ),
    LazyCommand(
        "threads",
        ".commands_threads:threads",
        "List the threads of a database, the newest first.",
        (
            "redraft threads",
            "redraft threads --stopped unfinished",
            "redraft threads --json",
        ),
    ),
    LazyCommand(
        "history",
        ".commands_threads:history",
        "Show every step of a thread with its checkpoint, what it added to the record, tokens, seconds and verdicts.",
        (
            "redraft history run-1f0c",
            "redraft history run-1f0c --json",
        ),
    ),
    LazyCommand(
        "profile",
        ".commands_threads:profile",
        "Show where the seconds and tokens of runs went: who wrote, who judged, programs and saving, people.",
        (
            "redraft profile run-1f0c",
            "redraft profile --db results/self-refine/runs.sqlite    all its threads",
        ),
    ),
    LazyCommand(
        "show",
        ".commands_threads:show",
        "Show what a thread came to: its task, every draft with what was said about it, and the answer.",
        (
            "redraft show run-1f0c",
            "redraft show run-1f0c --round 0",
            "redraft show run-1f0c --prompts",
        ),
    ),
    LazyCommand(
        "tree",
        ".commands_threads:tree",
        "Show the branches that a thread is part of: its ancestors, and all that was forked from them.",
        ("redraft tree run-1f0c",),
    ),
    LazyCommand(
        "html",
        ".commands_threads:html",
        "Write one page with everything about a thread: drafts and what changed, steps, the path, scores, branches.",
        (
            "redraft html run-1f0c",
            "redraft html run-1f0c -o run.html",
        ),
    ),
    LazyCommand(
        "replay",
        ".commands_threads:replay",
        "Recompute a thread's result from its record, without a model call; exit with 1 where they disagree.",
        (
            "redraft replay run-1f0c",
            "redraft replay run-1f0c --json",
        ),
    ),
    LazyCommand(
        "fork",
        ".commands_run:fork",
        "Start a thread in the middle of another, which stays, with other feedback, draft, model, prompts or limits.",
        (
            'redraft fork run-1f0c --at 0 --feedback "Make it about winter." --run',
            'redraft fork run-1f0c --at 0 --feedback "Make it about winter." --verify uses_words:winter',
            "redraft fork run-1f0c --at 1 --model openai:gpt-5 --as with-gpt-5",
            "redraft resume with-gpt-5",
            "redraft fork run-1f0c --at 0 --prompts mine.json --run",
        ),
    ),
    LazyCommand(
        "diff",
        ".commands_threads:diff",
        "Compare two drafts word by word, with the critique that led from one to the other.",
        (
            "redraft diff run-1f0c",
            "redraft diff run-1f0c --before 0 --after 1",
            "redraft diff run-1f0c with-gpt-5",
        ),
    ),
    LazyCommand(
        "copy",
        ".commands_keeping:copy_thread",
        "Copy a thread with all of its steps under another id.",
        ("redraft copy run-1f0c kept",),
    ),
    LazyCommand(
        "export",
        ".commands_keeping:export",
        "Write a thread to a file that `redraft import` takes into any database. It is not encrypted.",
        (
            "redraft export run-1f0c",
            "redraft export run-1f0c -o - | redraft import - --db postgresql://me@host/runs",
            "redraft export gsm8k --preferences pairs.jsonl --sft accepted.jsonl",
        ),
    ),
    LazyCommand(
        "import",
        ".commands_keeping:import_thread",
        "Take a thread from a file into a database, where it is shown, replayed, resumed and forked as where it was.",
        (
            "redraft import run-1f0c.jsonl",
            "redraft import run-1f0c.jsonl --thread again",
        ),
    ),
    LazyCommand(
        "delete",
        ".commands_keeping:delete",
        "Delete threads with all that is kept of them. Their forks stay.",
        ("redraft delete run-1f0c run-77ab",),
    ),
    LazyCommand(
        "prune",
        ".commands_keeping:prune",
        "Delete the threads that nobody has touched for a while.",
        (
            "redraft prune --older-than 30d --keep accepted --dry-run",
            "redraft prune --older-than 30d --keep accepted --yes",
        ),
    ),
    LazyCommand(
        "seal",
        ".commands_keeping:seal",
        "Seal threads as they stand, with the key in REDRAFT_SEAL_KEY. From then on a change without it is noticed.",
        ("redraft seal run-1f0c", "redraft seal --all --db runs.sqlite"),
    ),
    LazyCommand(
        "rekey",
        ".commands_keeping:rekey",
        "Encrypt a database with another key. Nobody else may have it open meanwhile.",
        ("redraft rekey --db runs.sqlite",),
    ),
)
"""The commands of the core; rooms bring theirs by entry points, and so may a package of one's own."""
