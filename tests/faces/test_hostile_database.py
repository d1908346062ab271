"""The shell with REDRAFT_ENCRYPTION_KEY, and on a database that somebody else wrote to: one line, no traceback."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ormsgpack
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = "5a" * 32
TASK, DRAFT = "Write mqrktaskq9w8.", "mqrkdraftq9w8 at dawn."


def execute(statement: str, *values: Any) -> None:
    conn = sqlite3.connect("runs.sqlite")
    with conn:
        assert conn.execute(statement, values).rowcount > 0
    conn.close()


def refused(shown: Any, *said: str) -> None:
    """Nothing but one line, that says all of these."""
    assert shown.code in (1, 2)
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert "Traceback" not in shown.err
    for words in said:
        assert words in shown.err


def test_the_shell_encrypts_with_the_key_of_the_environment(
    shell: Callable[..., Any], scripted: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the key every command works; with another or none each says what is needed; the file tells nothing."""
    pytest.importorskip("Crypto", reason="pycryptodome is not installed")
    monkeypatch.setenv("REDRAFT_ENCRYPTION_KEY", KEY)
    assert shell("run", TASK, "--model", scripted(DRAFT, "no issues"), "--thread", "t").code == 0
    files = list(Path().glob("runs.sqlite*"))
    assert files
    assert not any(b"mqrk" in file.read_bytes() for file in files)
    assert DRAFT in shell("show", "t").out
    assert TASK in json.dumps(shell("threads", "--json").json)
    monkeypatch.setenv("REDRAFT_ENCRYPTION_KEY", "00" * 32)
    refused(shell("show", "t"), "another key", "runs.sqlite")
    monkeypatch.setenv("REDRAFT_ENCRYPTION_KEY", "secret")
    shown = shell("threads")
    refused(shown, "64 hexadecimal digits")
    assert "secret" not in shown.err
    monkeypatch.delenv("REDRAFT_ENCRYPTION_KEY")
    refused(shell("threads"), "is encrypted", "REDRAFT_ENCRYPTION_KEY")


@pytest.mark.parametrize(
    ("statement", "value", "said"),
    [
        ("UPDATE checkpoints SET type = 'pickle', checkpoint = ?", b"cos\nsystem\n(S'touch owned'\ntR.", "'pickle'"),
        (
            "UPDATE checkpoints SET checkpoint = ?",
            ormsgpack.packb(ormsgpack.Ext(0, ormsgpack.packb(("os", "system", "touch owned")))),
            "'os.system'",
        ),
        ("UPDATE checkpoints SET checkpoint = ?", b"\x91" * 100_000, "no msgpack"),
        ("UPDATE checkpoints SET metadata = ?", b"[]", "metadata"),
        ("UPDATE runs SET rounds = ?", "many", "its rounds is str"),
        ("UPDATE runs SET recipe = ?", "{", "recipe of thread 't'"),
        ("UPDATE runs SET recipe = ?", '{"model": "scripted:x", "command": "touch owned"}', "recipe of thread 't'"),
        ("UPDATE runs SET recipe = ?", '{"model": "x:y", "preset": "os.system"}', "recipe of thread 't'"),
    ],
)
def test_a_poisoned_thread_is_refused_in_one_line(
    shell: Callable[..., Any], scripted: Callable[..., str], statement: str, value: Any, said: str
) -> None:
    """`redraft resume` names the thread and what is wrong; nothing was run, and another thread is shown."""
    for thread in ("t", "other"):
        shell("run", TASK, "--model", scripted(DRAFT), "--thread", thread)  # fails, and can be resumed
    execute(f"{statement} WHERE thread_id = 't'", value)
    refused(shell("resume", "t"), "'t'", said)
    assert DRAFT in shell("show", "other").out
    assert not Path("owned").exists()


def spoil(thread: str, **values: Any) -> None:
    """Write values into the last checkpoint of a thread."""
    conn = sqlite3.connect("runs.sqlite")
    with conn:
        where = "thread_id = ? AND checkpoint_id = (SELECT MAX(checkpoint_id) FROM checkpoints WHERE thread_id = ?)"
        held = conn.execute(f"SELECT checkpoint FROM checkpoints WHERE {where}", (thread, thread)).fetchone()
        checkpoint = ormsgpack.unpackb(held[0])
        checkpoint["channel_values"] |= values
        statement = f"UPDATE checkpoints SET checkpoint = ? WHERE {where}"
        assert conn.execute(statement, (ormsgpack.packb(checkpoint), thread, thread)).rowcount == 1
    conn.close()


@pytest.mark.parametrize(
    "words",
    [
        ("show", "t"),
        ("show", "t", "--json"),
        ("history", "t"),
        ("resume", "t"),
        ("resume", "t", "--max-rounds", "9"),
        ("replay", "t"),
        ("diff", "t"),
        ("diff", "other", "t"),
        ("tree", "t"),
        ("html", "t"),
        ("fork", "t", "--at", "0", "--feedback", "Shorter."),
        ("answer", "t", "--accept"),
        ("stop", "t"),
        ("run", "Again.", "--thread", "t"),
    ],
    ids=" ".join,
)
def test_a_value_of_a_wrong_type_is_refused_in_one_line(
    shell: Callable[..., Any], scripted: Callable[..., str], words: tuple[str, ...]
) -> None:
    """No command shows half a thread: it names the thread, the channel, what it holds and what would be right."""
    for thread in ("t", "other"):
        shell("run", TASK, "--model", scripted(DRAFT, "no issues"), "--thread", thread)
    spoil("t", score="high")
    model = ("--model", scripted(DRAFT)) if words[0] == "run" else ()
    refused(shell(*words, *model), "thread 't'", "channel 'score' holds 'high', which should be a valid number")
    assert not Path("t.html").exists()
    assert DRAFT in shell("show", "other").out
