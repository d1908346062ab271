"""The commands that keep house: copy, export, import, delete and prune."""

from __future__ import annotations

import io
import json
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from redraft.state import open_checkpointer
from redraft.state.storage import housekeeping
from redraft.state.storage.group_writer import Statement
from redraft.state.threads.lease import leased

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def lamp(shell: Callable[..., Any], scripted: Callable[..., str]) -> str:
    """A finished thread."""
    assert shell("run", "Write.", "--model", scripted("a lamp", "no issues"), "--thread", "lamp", "--json").code == 0
    return "lamp"


def names(shell: Callable[..., Any], *words: str) -> set[str]:
    return {row["thread_id"] for row in json.loads(shell("threads", "--json", *words).out)}


class Endless(io.RawIOBase):
    """A file without an end."""

    given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        self.given += len(room)
        assert self.given < 1_000_000
        room[:] = b"x" * len(room)
        return len(room)


def test_a_thread_is_taken_to_another_database_and_back(
    shell: Callable[..., Any], lamp: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file holds it, another database shows and replays it, and nothing that is there is overwritten. What never ends
    is refused where a line is too long."""
    assert shell("export", lamp).code == 0
    again = shell("export", lamp)
    assert (again.code, "is there already: it would be lost" in again.err) == (2, True)
    assert shell("import", "lamp.jsonl", "--db", "other.sqlite").code == 0
    assert shell("replay", lamp, "--db", "other.sqlite").code == 0
    refused = shell("import", "lamp.jsonl", "--db", "other.sqlite")
    assert (refused.code, "there is a thread 'lamp' already; give another id" in refused.err) == (2, True)
    assert shell("import", "lamp.jsonl", "--thread", "twice").code == 0
    assert shell("copy", lamp, "thrice").code == 0
    assert names(shell) == {"lamp", "twice", "thrice"}
    unknown = shell("copy", "nobody", "x")
    assert (unknown.code, "nobody" in unknown.err) == (2, True)
    monkeypatch.setattr(housekeeping, "LONGEST_LINE", 1000)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Endless())))
    endless = shell("import", "-")
    assert (endless.code, "line 1 can't be read: it has more than" in endless.err) == (2, True)


def test_threads_are_deleted_after_a_yes(shell: Callable[..., Any], lamp: str) -> None:
    """Where nobody can be asked `--yes` is needed; what somebody runs right now stays, and that is said."""
    shell("copy", lamp, "busy")
    asked = shell("delete", lamp, "busy")
    assert (asked.code, "this deletes 2 threads for good; --yes says that it may" in asked.err) == (2, True)
    with open_checkpointer("runs.sqlite") as saver, leased(saver, "busy"):
        done = json.loads(shell("delete", lamp, "busy", "--yes", "--json").out)
    assert done == {"deleted": ["lamp"], "busy": ["busy"]}
    assert names(shell) == {"busy"}


def test_old_threads_are_pruned(shell: Callable[..., Any], lamp: str, tmp_path: Path) -> None:
    """By how long they lay still, and without those that stopped as was named; `--dry-run` only says which."""
    shell("copy", lamp, "old")
    shell("copy", lamp, "old-unfinished")
    long_ago = (datetime.now(UTC) - timedelta(days=31)).isoformat(timespec="microseconds")
    with open_checkpointer(tmp_path / "runs.sqlite") as saver:
        saver.writer.write(Statement("UPDATE runs SET updated_at = :at WHERE thread_id LIKE 'old%'", {"at": long_ago}))
        saver.writer.write(Statement("UPDATE runs SET stop_reason = NULL WHERE thread_id = 'old-unfinished'"))
    for words, code in ((["--older-than", "a month"], 2), (["--older-than", "30d", "--keep", "nonsense"], 2)):
        assert shell("prune", *words).code == code
    shown = json.loads(shell("prune", "--older-than", "30d", "--keep", "unfinished", "--dry-run", "--json").out)
    assert shown == {"would_delete": ["old"], "busy": []}
    assert names(shell) == {"lamp", "old", "old-unfinished"}
    assert shell("prune", "--older-than", "30d", "--yes").code == 0
    assert names(shell) == {"lamp"}


def test_a_database_gets_another_key(shell: Any, scripted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`redraft rekey` takes both keys from the environment, where no list of processes shows them."""
    pytest.importorskip("Crypto", reason="pycryptodome is not installed")
    monkeypatch.setenv("REDRAFT_ENCRYPTION_KEY", "5a" * 32)
    assert shell("run", "Write.", "--model", scripted("a poem", "no issues"), "--thread", "t").code == 0
    assert "REDRAFT_NEW_ENCRYPTION_KEY is not set" in shell("rekey").err
    monkeypatch.setenv("REDRAFT_NEW_ENCRYPTION_KEY", "5b" * 32)
    assert shell("rekey", "--json").json["values"] > 5
    assert shell("show", "t").code == 2
    monkeypatch.setenv("REDRAFT_ENCRYPTION_KEY", "5b" * 32)
    assert "a poem" in shell("show", "t").out


def test_threads_of_before_are_sealed_by_who_knows_them(
    shell: Any, lamp: str, scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `REDRAFT_SEAL_KEY` a thread without a seal is refused by name until `redraft seal`; new ones have one."""
    assert "REDRAFT_SEAL_KEY is not set" in shell("seal", lamp).err
    monkeypatch.setenv("REDRAFT_SEAL_KEY", "5a" * 32)
    for words in (["show"], ["replay"], ["resume"], ["fork", "--at", "0"], ["export"], ["copy", "new"]):
        refused = shell(words[0], lamp, *words[1:])
        assert refused.code == 2, words
        assert refused.err.count("\n") == 1, refused.err
        assert "'lamp'" in refused.err
        assert "it has no seal" in refused.err
    assert shell("seal").code == 2
    assert shell("seal", "--all", "--json").json == {"sealed": ["lamp"], "refused": {}}
    assert "a lamp" in shell("show", lamp).out
    assert shell("run", "Write.", "--model", scripted("a poem", "no issues"), "--thread", "new").code == 0
    assert shell("replay", "new").code == 0
    monkeypatch.setenv("REDRAFT_SEAL_KEY", "5b" * 32)
    assert "its seal does not fit" in shell("show", "new").err
    assert "new" in shell("seal", "new", "--json").json["refused"]
