"""A thread from a database that somebody else wrote to sends nothing and opens nothing until the user agrees."""

from __future__ import annotations

import json
import sqlite3
import stat
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

TASK = "Write mqrktask."
FOREIGN = "was not written by you on this machine, or was changed since"
VERDICT = json.dumps({"feedback": "Well done.", "score": 1.0, "accepted": True})
EVIL = "http://127.0.0.1:9/v1#m"


def kept_recipe() -> dict[str, Any]:
    with closing(sqlite3.connect("runs.sqlite")) as conn, conn:
        found: dict[str, Any] = json.loads(conn.execute("SELECT recipe FROM runs WHERE thread_id = 't'").fetchone()[0])
    conn.close()
    return found


def write_recipe(recipe: Any) -> None:
    with closing(sqlite3.connect("runs.sqlite")) as conn, conn:
        assert conn.execute("UPDATE runs SET recipe = ? WHERE thread_id = 't'", (json.dumps(recipe),)).rowcount == 1
    conn.close()


@pytest.fixture
def state_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this test's user keeps the key."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    return home


@pytest.fixture
def thread(shell: Callable[..., Any], scripted: Callable[..., str], state_home: Path) -> dict[str, Any]:
    """The recipe of the thread `t`, which failed after its first draft."""
    assert shell("run", TASK, "--model", scripted("a poem"), "--thread", "t").code == 1
    return kept_recipe()


def refused(shown: Any, *said: str) -> None:
    assert shown.code == 2
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    for words in (FOREIGN, "--trust-recipe", *said):
        assert words in shown.err


def test_a_changed_address_gets_neither_task_nor_key(
    shell: Any, thread: dict[str, Any], serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is sent to the server that the database names, until `--trust-recipe` is given."""
    monkeypatch.setenv("REDRAFT_API_KEY", "mqrkedkey")
    evil = serve(lambda _: VERDICT, api_key="mqrkedkey")
    write_recipe({**thread, "model": evil.spec})
    refused(shell("resume", "t"), f"send texts, and REDRAFT_API_KEY if it is set, to {evil.spec}")
    refused(shell("resume", "t", "--max-rounds", "2", "--json"))
    refused(shell("answer", "t", "--accept"))
    refused(shell("fork", "t", "--at", "0", "--run"))
    assert evil.requests == []
    assert shell("resume", "t", "--trust-recipe", "--allow-changes").code == 0
    assert evil.requests


def test_an_address_that_the_user_named_is_followed(
    shell: Any, thread: dict[str, Any], serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands in REDRAFT_MODEL is the user's own; and once resumed, the recipe is theirs."""
    server = serve(lambda _: VERDICT)
    write_recipe({"model": server.spec})
    monkeypatch.setenv("REDRAFT_MODEL", server.spec)
    assert shell("resume", "t", "--allow-changes").code == 0
    monkeypatch.delenv("REDRAFT_MODEL")
    assert "mark" in kept_recipe()
    assert shell("fork", "t", "--at", "0", "--run").code == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": EVIL}, f"to {EVIL}"),
        ({"critics": ["self", "https://evil.example/v1#m"]}, "to https://evil.example/v1#m"),
        ({"model": "gguf:/etc/passwd"}, "open the file of gguf:/etc/passwd"),
        ({"critics": ["replay:/etc/passwd"]}, "open the file of replay:/etc/passwd"),
        ({"verifiers": ["json_schema:/etc/passwd"]}, "open the file of json_schema:/etc/passwd"),
        ({"prices": "/etc/passwd"}, "open the file /etc/passwd"),
        ({"preset": "reasoning", "folder": "/root"}, "show the model files of the folder /root"),
        ({"preset": "pipeline", "steps": "UseDir('/root') | UseDraft"}, "UseDir('/root')"),
        ({"generate_prompt": "Say {task}"}, "open the file of scripted:"),
    ],
    ids=str,
)
def test_whatever_a_changed_recipe_reaches_is_named(
    shell: Any, thread: dict[str, Any], change: dict[str, Any], said: str
) -> None:
    """Any change makes the whole recipe somebody else's."""
    write_recipe({**thread, **change})
    refused(shell("resume", "t"), said)


@pytest.mark.parametrize(
    "mark",
    [None, "", "0" * 64, 7, "é" * 64, "\ud800"],
    ids=["none", "empty", "another", "a number", "letters", "half a letter"],
)
def test_a_mark_that_this_user_never_made_is_none(shell: Any, thread: dict[str, Any], mark: Any) -> None:
    """A missing, wrong or malformed mark counts as none."""
    write_recipe({**thread, "mark": mark} if mark is not None else {"model": thread["model"]})
    refused(shell("resume", "t"))


def test_another_users_recipe_is_foreign(
    shell: Any, thread: dict[str, Any], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that was copied from another user or machine is."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("another")))
    refused(shell("resume", "t"))


def test_what_reaches_nothing_is_run_unasked(shell: Any, thread: dict[str, Any], monkeypatch: Any) -> None:
    """A provider's own model is run with the user's key, where there is one, whoever named it."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    write_recipe({"model": "openai:gpt-5-mini"})
    assert "OPENAI_API_KEY" in shell("resume", "t").err


def test_a_fork_makes_no_foreign_recipe_ones_own(shell: Any, thread: dict[str, Any], scripted: Any) -> None:
    """With another model it would be written anew, with the user's mark on the rest."""
    write_recipe({**thread, "critics": [EVIL]})
    refused(shell("fork", "t", "--at", "0", "--model", scripted("x"), "--as", "new"), EVIL)
    assert shell("fork", "t", "--at", "0", "--as", "new").code == 0
    refused(shell("resume", "new"), EVIL)


def test_a_page_opens_no_file_that_somebody_else_named(
    shell: Any, thread: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The drawing of a thread is then that of the loop."""
    from redraft.retrieval import retrievers as index

    opened: list[Any] = []
    monkeypatch.setattr(index, "folder_index", lambda *given, **_: opened.append(given))
    write_recipe({**thread, "preset": "reasoning", "folder": "/root"})
    assert shell("html", "t").code == 0
    assert Path("t.html").exists()
    assert opened == []


@pytest.mark.parametrize(("typed", "code"), [("y", 0), ("yes", 0), ("n", 2), ("", 2), (EOFError(), 2)], ids=str)
def test_somebody_at_a_terminal_is_asked(
    shell: Any, thread: dict[str, Any], serve: Any, monkeypatch: pytest.MonkeyPatch, *, typed: Any, code: int
) -> None:
    """They are shown where it would go, and only a yes goes on."""
    from redraft.faces.cli import running

    def answered() -> str:
        if isinstance(typed, EOFError):
            raise typed
        return str(typed)

    server = serve(lambda _: VERDICT)
    write_recipe({"model": server.spec})
    monkeypatch.setattr(running, "can_ask", lambda screen: True)
    monkeypatch.setattr("builtins.input", answered)
    shown = shell("resume", "t", "--allow-changes")
    assert shown.code == code
    assert f"to {server.spec}" in shown.out
    assert bool(server.requests) == (code == 0)


@pytest.mark.parametrize("anywhere", [True, False], ids=["a folder for temporary files", "nothing"])
def test_a_home_that_can_not_be_written(
    shell: Any, scripted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, anywhere: bool
) -> None:
    """As in a container: the key goes where temporary files go, or else a run has no mark and resumes when told to."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file" / "state"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp" if anywhere else tmp_path / "file" / "tmp"))
    assert shell("run", TASK, "--model", scripted("a poem"), "--thread", "t").code == 1
    assert ("mark" in kept_recipe()) is anywhere
    shown = shell("resume", "t", "--allow-changes")
    assert (FOREIGN in shown.err) is not anywhere
    assert FOREIGN not in shell("resume", "t", "--trust-recipe").err


def test_the_key_is_the_users_alone(shell: Any, thread: dict[str, Any], state_home: Path) -> None:
    """One that others can read, or a folder that others can write to, vouches for nothing."""
    key = state_home / "redraft" / "recipe.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert list(key.parent.iterdir()) == [key]
    assert FOREIGN not in shell("resume", "t").err
    key.chmod(0o644)
    refused(shell("resume", "t"))
    key.chmod(0o600)
    key.parent.chmod(0o777)
    refused(shell("resume", "t"))
    key.parent.chmod(0o700)
    key.rename(key.with_name("moved"))
    key.symlink_to("moved")
    refused(shell("resume", "t"))


def test_an_encrypted_database_is_ones_own(
    shell: Any, scripted: Any, state_home: Path, tmp_path_factory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who wrote into it had the key."""
    pytest.importorskip("Crypto", reason="pycryptodome is not installed")
    monkeypatch.setenv("REDRAFT_ENCRYPTION_KEY", "5a" * 32)
    assert shell("run", TASK, "--model", scripted("a poem"), "--thread", "t").code == 1
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("another")))
    assert FOREIGN not in shell("resume", "t").err


def test_no_file_is_opened_before_anybody_agreed(shell: Any, thread: dict[str, Any], tmp_path: Path) -> None:
    """A judge that a database gives by a path is refused unread: only its content is kept in a recipe."""
    (tmp_path / "secret.json").write_text("mqrksecret")
    write_recipe({**thread, "judge": str(tmp_path / "secret.json")})
    for command in (("resume", "t"), ("resume", "t", "--trust-recipe"), ("show", "t")):
        shown = shell(*command)
        assert "mqrksecret" not in shown.out + shown.err
        assert "is no JSON" not in shown.err
    assert "its judge is no content of a judge's file" in shell("resume", "t").err
