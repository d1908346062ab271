"""The help page lists every command with the words that the command explains itself with."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
from redraft.faces.cli import command_list
from redraft.faces.cli.command_list import COMMANDS, LazyCommand, all_commands, with_rooms
from typer import Typer


@pytest.mark.parametrize("command", all_commands(), ids=lambda command: command.name)
def test_the_list_says_what_the_command_says(command: LazyCommand) -> None:
    """`redraft --help` and `redraft COMMAND --help` open with the same sentence."""
    found = command.function
    said = found.info.help if isinstance(found, Typer) else inspect.getdoc(found) or ""
    assert command.summary == " ".join(said.split("\n\n")[0].split())


def test_commands_of_other_packages_stand_where_they_ask_to() -> None:
    """A room's commands stand behind the one they name, in the room's order, and the others where they were."""
    room = [
        LazyCommand("measure", "no.such.module:measure", "Measure.", ("redraft measure",), after="run"),
        LazyCommand("weigh", "no.such.module:weigh", "Weigh.", ("redraft weigh",), after="run"),
        LazyCommand("last", "no.such.module:last", "Last.", ("redraft last",)),
    ]
    merged = [command.name for command in with_rooms(COMMANDS, room)]
    own = [command.name for command in COMMANDS]
    at = own.index("run") + 1
    assert merged == [*own[:at], "measure", "weigh", *own[at:], "last"]
    assert with_rooms(COMMANDS, ()) == COMMANDS
    with pytest.raises(ValueError, match=r"two commands called 'run'; one of them is 'mine:run'"):
        with_rooms(COMMANDS, [LazyCommand("run", "mine:run", "Run.", ())])


def test_help_lists_a_command_of_another_package_without_importing_it(
    shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`redraft --help` shows it, and its module is imported only when it is called."""
    here = LazyCommand("measure", "json.tool:main", "Measure anything.", ("redraft measure",))
    gone = LazyCommand("gone", "no.such.module:gone", "Nowhere.", ("redraft gone",))
    monkeypatch.setattr(command_list, "all_commands", lambda: with_rooms(COMMANDS, [here, gone]))
    page = shell("--help")
    assert page.code == 0
    assert "Measure anything." in page.out
    assert "Nowhere." in page.out
    assert here.function.__module__ == "json.tool"


def test_every_example_is_of_a_command_that_exists() -> None:
    """What `--help` shows to copy names commands that there are."""
    names = {command.name for command in all_commands()}
    called = [re.match(r"redraft ([\w-]+)", line) for command in all_commands() for line in command.examples]
    assert {found[1] for found in called if found} <= names
    assert all(called)


@pytest.mark.parametrize("command", all_commands(), ids=lambda command: command.name)
def test_a_help_page_shows_no_types_of_python(command: LazyCommand, shell: Any) -> None:
    """Beside an option stands what it takes in the user's words, and nothing like `<list[Path]>`."""
    shown = shell(command.name, "--help")
    assert shown.code == 0
    assert not re.search(r"<(list|str|bool|int|float|path)\b", shown.out, re.IGNORECASE)


def test_a_shell_completes_commands_options_and_threads(
    shell: Any, scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the script of `redraft --show-completion` Tab knows commands, their options, and the threads there are."""
    for name in ("rain", "river"):
        shell("run", "Write.", "--model", scripted("A lamp."), "--verify", "uses_words:lamp", "--thread", name)

    def completed(*words: str) -> list[str]:
        monkeypatch.setenv("_REDRAFT_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(("redraft", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        shown = shell()
        assert (shown.code, shown.err) == (0, "")
        return shown.out.split()

    assert completed("thr") == ["threads"]
    assert "--token-budget" in completed("run", "--t")
    assert completed("show", "r") == ["river", "rain"]
    assert completed("show", "l") == ["last"]
    assert completed("show", "--db", "none.sqlite", "r") == []
