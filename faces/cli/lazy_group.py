"""A group of commands whose modules are imported when one of them is called, and a help page that needs none."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from typer import Typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command as built

from ..problems import bad_input

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LazyCommand", "lazy_group"]


@dataclass(frozen=True)
class LazyCommand:
    """A command by the place of its function, so that listing it imports nothing."""

    name: str
    home: str
    """`module:function`, the module beside this one."""
    summary: str
    """The first paragraph of the function's docstring."""
    examples: tuple[str, ...]
    of_presets: bool = False
    """It has a flag for each option of the presets."""

    def load(self) -> Any:
        """Return the command with its options."""
        from .options import examples, with_preset_options

        module, _, function = self.home.partition(":")
        alone = Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
        found = getattr(import_module(f".{module}", __package__), function)
        if self.of_presets:
            with bad_input():
                found = with_preset_options(found)
        alone.command(name=self.name, epilog=examples(*self.examples))(found)
        return built(alone)


def lazy_group(commands: Sequence[LazyCommand], *, examples: Sequence[str]) -> type[TyperGroup]:
    """Return the class of a group of these commands, for `Typer(cls=)`.

    Args:
        commands: In the order of the help page.
        examples: At the foot of that page, a line each.
    """
    homes = {command.name: command for command in commands}

    class LazyGroup(TyperGroup):
        """Knows its commands by name; their options are known when one is called."""

        def __init__(self, **given: Any) -> None:
            stubs = {name: TyperCommand(name, help=command.summary) for name, command in homes.items()}
            # In plain text: what draws typer's panels takes longer to import than all the rest.
            super().__init__(**{**given, "commands": stubs, "rich_markup_mode": None})

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            return homes[cmd_name].load() if cmd_name in homes else None

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            with formatter.section("Commands"):
                formatter.write_dl([(command.name, command.summary) for command in homes.values()])

        def format_epilog(self, ctx: Any, formatter: Any) -> None:
            with formatter.section("Examples"):
                for line in examples:
                    formatter.write(f"  $ {line}\n")

    return LazyGroup
