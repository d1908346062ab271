"""`redraft goal`, `apply`, `checkout` and `stop-hook`, as typed."""

from __future__ import annotations

import io
import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from dulwich.object_store import DiskObjectStore
from dulwich.objects import Tree
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from redraft import open_checkpointer

if TYPE_CHECKING:
    from pathlib import Path

GREP = "grep -q 'a + b' calc.py"
REPLIES = "FILE: calc.py\n```\na * b\n```", "FILE: calc.py\n```\na + b\n```"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one file, where the commands are typed."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "calc.py").write_text("a - b\n")
    (folder / ".env").write_text("KEY=1\n")
    monkeypatch.setenv("REDRAFT_DATA", str(tmp_path / "data"))
    return folder


def test_a_goal_is_worked_on_in_copies_and_applied(
    shell: Any, scripted: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run shows what changed, the folder stays as it was until `apply`, and any round can be written out."""
    model = scripted(*REPLIES)
    monkeypatch.chdir(project)
    given = ("--check", GREP, "--model", model, "--plain", "--thread", "one")
    done = shell("goal", "Add.", *given, "--hidden", "grep -q '^a' calc.py", "--hidden", "false")
    assert done.code == 0, done.err
    assert "not in the copies: .env" in done.out
    assert "accepted by the checks that it could see, passed \"grep -q '^a' calc.py\"" in done.out
    assert "accepted by the checks that it could see, failed 'false'" in done.out
    with open_checkpointer(project / "runs.sqlite") as saver:
        kept = saver.get_tuple({"configurable": {"thread_id": "one"}}).checkpoint["channel_values"]["hidden"]
    assert [one["accepted"] for one in kept] == [True, False]
    reported = shell("report", "--db", "runs.sqlite").out
    assert "1 of 1 accepted answers fail hidden checks (95% 20.7% to 100.0%)" in reported
    assert "'false' fails for 1" in reported
    assert shell("report", "--db", "runs.sqlite", "--json").json["rejected_passed"]["n"] == 0
    assert (project / "calc.py").read_text() == "a - b\n"
    assert "+a * b" in shell("show", "one", "--round", "0").out
    assert shell("replay", "one").code == 0
    assert shell("checkout", "one", "first", "--round", "0").code == 0
    assert (project / "first" / "calc.py").read_text() == "a * b\n"
    refused = shell("apply", "one", "--yes")
    assert refused.code == 2
    assert "has changed since it was read: first" in refused.err
    for one in (project / "first").iterdir():
        one.unlink()
    (project / "first").rmdir()
    unasked = shell("apply", "one")
    assert unasked.code == 2
    assert "--yes writes without asking" in unasked.err
    assert shell("apply", "one", "--yes", "--json").json["changed"] == ["calc.py"]
    assert (project / "calc.py").read_text() == "a + b\n"
    assert (project / ".env").read_text() == "KEY=1\n"


def test_what_the_checks_did_not_accept_is_not_applied_by_the_way(shell: Any, scripted: Any, project: Path) -> None:
    """A run that stopped at its limit ends with 3, and its best files are written where the user says so.

    Who goes on with it gets the hidden checks again, on the new answer.
    """
    given = ("--dir", str(project), "--check", GREP, "--plain", "--thread", "one")
    hidden = ("--hidden", "grep -q '+' calc.py")
    done = shell("goal", "Add.", *given, *hidden, "--model", scripted(*REPLIES), "--max-rounds", "0")
    assert done.code == 3
    assert 'not accepted by the checks that it could see, failed "grep' in done.out
    refused = shell("apply", "one", "--yes")
    assert "--unaccepted writes it all the same" in refused.err
    assert shell("apply", "one", "--yes", "--unaccepted").code == 0
    assert (project / "calc.py").read_text() == "a * b\n"
    resumed = shell("resume", "one", "--max-rounds", "1")
    assert (resumed.code, 'it could see, passed "grep' in resumed.out) == (0, True), resumed.err


def test_trees_go_with_their_threads(
    shell: Any, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a day, what belongs to no thread any more is removed from the store beside the database."""
    given = ("goal", "Add.", "--dir", str(project), "--check", "true", "--plain")
    for name in ("one", "two"):
        assert shell(*given, "--thread", name, "--by", f"touch {name} {{prompt}}").code == 0
    store = tmp_path / "runs.sqlite.trees"
    assert shell("delete", "one", "--yes").code == 0
    for place in [store / "pruned", *store.glob("??/*")]:
        os.utime(place, (0, 0))
    assert shell(*given, "--thread", "three", "--by", "touch three {prompt}").code == 0
    assert shell("checkout", "two", "out").code == 0
    assert {path for tree in store_trees(store) for path in tree} >= {"two", "three"}
    assert not any("one" in tree for tree in store_trees(store))


def store_trees(store: Path) -> list[set[str]]:
    """Return the names in each tree of a store."""
    objects = DiskObjectStore(str(store))
    found = [objects[name] for name in objects]
    return [{os.fsdecode(name) for name, _, _ in one.items()} for one in found if isinstance(one, Tree)]


def test_what_is_no_goal_says_so(shell: Any, scripted: Any, project: Path) -> None:
    """A wrong folder, a thread of another kind, and a round that is not there are told in a line."""
    assert (
        "there is no folder"
        in shell("goal", "Add.", "--check", "true", "--dir", "nowhere", "--by", "true {prompt}").err
    )
    shell("run", "Write.", "--model", scripted("Rain."), "--thread", "text", "--verify", "uses_words:Rain")
    assert "no thread about a folder" in shell("apply", "text").err
    given = ("--dir", str(project), "--check", "true", "--plain", "--thread", "one", "--by", "touch new {prompt}")
    assert shell("goal", "Add.", *given).code == 0
    assert "rounds: 0" in shell("checkout", "one", "out", "--round", "4").err
    assert "there is a thread 'one' already" in shell("goal", "Add.", *given).err


def test_a_session_is_held_until_the_checks_pass(
    shell: Any, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coding agent that stops too early is told what failed, and after so many stops it may end."""

    def stops(session: str) -> Any:
        monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"session_id": session})))
        done = shell("stop-hook", "--check", GREP, "--dir", str(project), "--plain", "--max-stops", "2")
        assert done.code == 0, done.err
        return json.loads(done.out) if done.out else None

    held = stops("a")
    assert held["decision"] == "block"
    assert "it ended with 1" in held["reason"]
    assert [stops("b") is None, stops("a") is None, stops("a") is None, stops("a") is None] == [
        False,
        False,
        True,
        False,
    ]
    (project / "calc.py").write_text("a + b\n")
    assert stops("a") is None
    shown = shell("show", "stop-b", "--db", str(tmp_path / "data" / "stops.sqlite")).out
    assert "it ended with 1" in shown
    drafts = shell("show", "stop-a", "--db", str(tmp_path / "data" / "stops.sqlite"), "--json").json["drafts"]
    assert [one["accepted"] for one in drafts] == [False, True]


async def test_any_agent_can_ask_what_fails(project: Path) -> None:
    """Over MCP the tool `check_work` runs the commands on a copy of the folder as it is now."""
    words = ["-c", "from redraft.faces.cli.main import main; main()", "check-work", "--check", GREP, "--plain"]
    server = StdioServerParameters(command=sys.executable, args=[*words, "--dir", str(project)])
    async with stdio_client(server) as streams, ClientSession(*streams) as client:
        await client.initialize()
        (tool,) = (await client.list_tools()).tools
        assert (tool.name, GREP in tool.description) == ("check_work", True)
        said = [(await client.call_tool("check_work")).content[0].text]
        (project / "calc.py").write_text("a + b\n")
        said.append((await client.call_tool("check_work")).content[0].text)
    assert "it ended with 1" in said[0]
    assert said[1] == "All checks pass."
