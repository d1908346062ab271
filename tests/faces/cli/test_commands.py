"""The help page lists every command with the words that the command explains itself with."""

from __future__ import annotations

import inspect
import re
from importlib import import_module

import pytest
from redraft.faces.cli.command_list import COMMANDS, LazyCommand
from typer import Typer


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_the_list_says_what_the_command_says(command: LazyCommand) -> None:
    """`redraft --help` and `redraft COMMAND --help` open with the same sentence."""
    module, _, function = command.home.partition(":")
    found = getattr(import_module(f"redraft.faces.cli.{module}"), function)
    said = found.info.help if isinstance(found, Typer) else inspect.getdoc(found) or ""
    assert command.summary == " ".join(said.split("\n\n")[0].split())


def test_every_example_is_of_a_command_that_exists() -> None:
    """What `--help` shows to copy names commands that there are."""
    names = {command.name for command in COMMANDS}
    called = [re.match(r"redraft (\w+)", line) for command in COMMANDS for line in command.examples]
    assert {found[1] for found in called if found} <= names
    assert all(called)
