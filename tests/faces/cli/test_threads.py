"""The commands that look at threads, and the ones that branch off them."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from redraft import Critique, build_refine_graph, human_critic
from redraft.models import ScriptedModel
from redraft.state import open_checkpointer
from redraft.state.stopping import STOP_REASONS
from redraft.state.storage.thread_rows import PlainIndex

TASK = "Write one sentence."
VERIFY = ("--verify", "uses_words:river,lamp")


@pytest.fixture(params=["sqlite", "postgres"])
def db(request: pytest.FixtureRequest) -> str:
    """A database of each kind that the shell keeps runs in."""
    return str(request.getfixturevalue("postgres_url")) if request.param == "postgres" else "work.sqlite"


def first_run(shell: Any, scripted: Any, *more: str) -> None:
    model = scripted("A lamp.", "A lamp by the river.", "Snow on the river, a lamp.")
    assert shell("run", TASK, "--model", model, *VERIFY, "--thread", "first", *more).code == 0


def test_a_run_is_listed_shown_forked_resumed_and_compared(shell: Any, scripted: Any, db: str) -> None:
    """From one run to a branch of it, each command tells the next: list, history, show, fork, resume, tree, diff."""
    at = ("--db", db)
    first_run(shell, scripted, *at)
    (row,) = shell("threads", "--json", *at).json
    assert (row["thread_id"], row["stop_reason"], row["rounds"], row["task"]) == ("first", "accepted", 1, TASK)
    assert "first" in shell("threads", *at).out

    steps = shell("history", "first", "--json", *at).json["steps"]
    assert [step["node"] for step in steps][-5:] == ["feedback", "check", "refine", "feedback", "check"]
    assert "These words are missing: river." in shell("history", "first", *at).out

    spent = shell("profile", "first", "--json", *at).json
    assert [(one["node"], one["usage"]["calls"]) for one in sorted(spent["models"], key=lambda one: one["node"])] == [
        ("generate", 1),
        ("refine", 1),
    ]
    assert spent["usage"]["total_tokens"] == row["total_tokens"]
    assert "in all: 1 thread" in shell("profile", *at).out

    shown = shell("show", "first", "--round", "0", "--json", *at).json
    assert (shown["round"], shown["text"]) == (0, "A lamp.")
    assert "A lamp by the river." in shell("show", "first", *at).out

    wish = ("--feedback", "Make it about winter.", "--verify", "uses_words:snow")
    forked = shell("fork", "first", "--at", "0", *wish, "--as", "winter", *at)
    assert forked.code == 0
    assert "required, open · uses_words:snow: Make it about winter." in shell("show", "winter", *at).out
    assert "redraft resume winter" in forked.out
    by_id = shell("fork", "first", "--at", steps[3]["checkpoint_id"], "--json", *at).json
    assert by_id["parent"] == "first"

    resumed = shell("resume", "winter", "--json", *at)
    assert resumed.code == 0, resumed.err
    record = shell("show", "winter", "--json", *at).json
    assert record["drafts"][0]["text"] == "A lamp."
    said = [critique["text"] for critique in record["drafts"][0]["critiques"]]
    assert said == ["These words are missing: river.", "Make it about winter.", "These words are missing: snow."]
    for command in ("show", "history"):
        assert "required, satisfied · uses_words:snow: Make it about winter." in shell(command, "winter", *at).out
        assert shell(command, "winter", "--json", *at).json["requirements"][0]["status"] == "satisfied"

    tree = shell("tree", "winter", "--json", *at).json
    assert tree["thread_id"] == "first"
    assert {child["thread_id"] for child in tree["children"]} == {"winter", by_id["thread_id"]}
    assert re.search(
        r"thread +from .*\nfirst \* .*(\n.*)*─ winter +round 0 +accepted ", shell("tree", "first", *at).out
    )

    changes = shell("diff", "first", "--json", *at).json["changes"]
    assert "".join(change["text"] for change in changes if change["kind"] != "added") == "A lamp."
    assert shell("diff", "first", "winter", *at).code == 0
    assert shell("show", "first", "--json", *at).json["answer"] == "A lamp by the river."


def test_what_the_gate_took_off_and_what_is_no_draft_is_shown(shell: Any, scripted: Any) -> None:
    """Live, in `show`, and in its JSON a user reads the refusal and why it is none, and the preamble of the answer."""
    model = scripted("I can't help with that.", "Sure! Here's the sentence:\n\nA lamp by the river.")
    live = shell("run", TASK, "--model", model, *VERIFY, "--thread", "gated")
    shown = shell("show", "gated")
    for out in (live.out + live.err, shown.out):
        assert "✗ not a draft: the model refused" in out
        assert "taken off: “Sure! Here's the sentence:”" in out
    record = shell("show", "gated", "--json").json
    assert [draft["stripped"] for draft in record["drafts"]] == [{"before": "Sure! Here's the sentence:"}]
    assert [event["rejected"] for event in record["rejected"]] == ["refused"]
    assert (record["answer"], shell("replay", "gated", "--json").json["matches"]) == ("A lamp by the river.", True)


def test_a_wish_that_nobody_can_tell_is_withdrawn_at_the_shell(shell: Any, scripted: Any) -> None:
    """The run ends undecided and says why; `withdraw` takes it back, and `resume` accepts at no cost."""
    first_run(shell, scripted)
    ended = shell("fork", "first", "--at", "0", "--feedback", "Warmer.", "--as", "warm", "--run")
    assert ended.code == 3
    assert "nobody here can tell whether the draft meets what is asked for: “Warmer.”" in " ".join(ended.out.split())
    assert "is no requirement that stands" in shell("withdraw", "warm", "Colder.").err
    assert shell("withdraw", "warm", "Warmer.").code == 0
    resumed = shell("resume", "warm", "--json").json
    assert (resumed["stop_reason"], resumed["requirements"][0]["status"]) == ("accepted", "withdrawn")
    assert shell("replay", "warm", "--json").json["matches"]
    assert "use_words" in shell("fork", "first", "--at", "0", "--feedback", "x", "--verify", "use_words:a").err


def test_a_fork_can_change_model_draft_prompts_and_rounds_and_run_at_once(shell: Any, scripted: Any) -> None:
    """`fork --model --draft --max-rounds --run` writes the branch and goes on with it at once; `--prompts` has it
    ask in other words, and a file that is none is refused before anything is written."""
    first_run(shell, scripted)
    other = scripted("A river, and a lamp.")
    shown = shell(
        "fork", "first", "--at", "0", "--draft", "A boat.", "--model", other, "--max-rounds", "1", "--run", "--json"
    )  # fmt: skip
    assert shown.code == 0, shown.err
    assert (shown.json["answer"], shown.json["rounds"]) == ("A river, and a lamp.", 1)
    record = shell("show", shown.json["thread_id"], "--json").json
    assert [draft["text"] for draft in record["drafts"]] == ["A boat.", "A river, and a lamp."]
    Path("mine.json").write_text(json.dumps({"prompts": {"refine": "{draft} {feedback} In other words."}}))
    branch = ("fork", "first", "--at", "0", "--model", scripted("A river, a lamp."), "--as", "mine", "--run")
    assert shell(*branch, "--prompts", "none.json").code == 2
    assert shell("show", "mine").code != 0
    assert shell(*branch, "--prompts", "mine.json").code == 0
    (told,) = shell("show", "mine", "--prompts", "--json").json["prompts"]
    assert told["messages"][-1]["content"].endswith("In other words.")


def test_replay_agrees_until_the_record_is_edited(shell: Any, scripted: Any) -> None:
    """`replay` recomputes the result from the record, for free; an edited record ends with 1 and what differs."""
    first_run(shell, scripted)
    fine = shell("replay", "first", "--json")
    assert (fine.code, fine.json["matches"], fine.json["answer"]) == (0, True, "A lamp by the river.")
    assert "agree; no model was called" in shell("replay", "first").out
    edit_sqlite_record("runs.sqlite", b"A lamp by the river.", b"A lamp by the RIVER.")
    edited = shell("replay", "first", "--json")
    assert (edited.code, edited.json["matches"]) == (1, False)
    assert edited.json["differences"]
    assert "disagree" in edited.err


def edit_sqlite_record(path: str, old: bytes, new: bytes) -> None:
    """Change an event where it is stored, as someone with a hex editor would."""
    with closing(sqlite3.connect(path)) as connection, connection:
        changed = 0
        for rowid, value in connection.execute("SELECT rowid, value FROM writes WHERE channel = 'events'").fetchall():
            if old in value:
                connection.execute("UPDATE writes SET value = ? WHERE rowid = ?", (value.replace(old, new), rowid))
                changed += 1
    assert changed


WRONG = {
    ("show", "nobody"): "there is no thread 'nobody'",
    ("history", "nobody"): "there is no thread 'nobody'",
    ("replay", "nobody"): "there is no thread 'nobody'",
    ("tree", "nobody"): "there is no thread 'nobody'",
    ("resume", "nobody"): "there is no thread 'nobody'",
    ("diff", "first", "nobody"): "there is no thread 'nobody'",
    ("diff", "first", "first"): "both are the same thread",
    ("show", "first", "--round", "7"): "there is no draft of round 7",
    ("fork", "first", "--at", "9"): "9",
    ("fork", "first", "--at", "not-a-checkpoint"): "not-a-checkpoint",
    ("fork", "first", "--at", "0", "--as", "first"): "first",
    ("fork", "first", "--at", "0", "--max-rounds", "-3"): "--max-rounds",
    ("fork", "first", "--at", "0", "--model", "nonsense"): "nonsense",
    ("fork", "first"): "Missing option '--at'",
}


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_a_wrong_thread_round_or_option_is_named(shell: Any, scripted: Any, words: tuple[str, ...]) -> None:
    """What is not there is named, with exit code 2 and no traceback; no thread is added."""
    first_run(shell, scripted)
    shown = shell(*words)
    assert shown.code == 2, shown
    assert WRONG[words] in shown.err
    assert "Traceback" not in shown.err
    assert [row["thread_id"] for row in shell("threads", "--json").json] == ["first"]


@pytest.mark.parametrize(
    "words",
    [("threads",), ("threads", "--json"), ("show", "first"), ("history", "first", "--json"), ("run", "--help")],
    ids=" ".join,
)
def test_a_reader_that_leaves_ends_the_command_quietly(
    shell: Any, scripted: Any, forking: Any, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """`redraft threads | true` ends as other programs do on a closed pipe: with 141, and without a word."""
    first_run(shell, scripted)
    reading, writing = os.pipe()
    os.close(reading)
    try:
        command = ["-c", "from redraft.faces.cli.main import main; main()", *words]
        done = forking.run(command, stdout=writing, cwd=tmp_path)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_threads_are_listed_by_how_they_stopped(shell: Any, scripted: Any) -> None:
    """`threads --stopped` lists what stopped so, says where nothing did, and names the reasons to a wrong one."""
    first_run(shell, scripted)
    assert "first" in shell("threads", "--stopped", "accepted").out
    assert shell("threads", "--stopped", "max_rounds").out == "no thread here stopped: max_rounds\n"
    assert shell("threads", "--stopped", "unfinished").out == "no thread here is unfinished\n"
    assert shell("threads", "--stopped", "failed", "--json").json == []
    for unknown in ("bogus", "running", ""):
        refused = shell("threads", "--stopped", unknown)
        assert (refused.code, refused.out) == (2, "")
        assert repr(unknown) in refused.err
        assert all(reason in refused.err for reason in (*STOP_REASONS, "unfinished"))


def test_a_thread_that_runs_or_waits_is_told_from_one_that_was_left(shell: Any, db: str) -> None:
    """The list says `running` while somebody runs it, `waiting` where it asks a person, and `unfinished` otherwise; and
    of one thread `show` and `history` say so, with the command that goes on from there."""
    shown: dict[str, str] = {}
    said: dict[str, str] = {}

    def lists(task: str, draft: str, history: Any, /) -> Critique:
        shown.update({row["thread_id"]: row["state"] for row in shell("threads", "--json", "--db", db).json})
        said["running"] = shell("show", "running", "--db", db).out + shell("history", "running", "--db", db).out
        return Critique("", accepted=True)

    with open_checkpointer(db) as saver:
        for name, critics, how in (
            ("left", [lists], {"interrupt_before": ["feedback"]}),
            ("waiting", [human_critic()], {}),
            ("running", [lists], {}),
        ):
            graph = build_refine_graph(ScriptedModel(["A lamp."]), critics=critics, checkpointer=saver)
            graph.invoke({"task": TASK}, {"configurable": {"thread_id": name}}, **how)
    assert shown == {"left": None, "waiting": "waiting", "running": "running"}
    listed = shell("threads", "--db", db)
    assert [line.split()[2] for line in listed.out.splitlines()[1:4]] == ["accepted", "waiting", "unfinished"]
    for name in ("left", "waiting"):
        said[name] = shell("show", name, "--db", db).out + shell("history", name, "--db", db).out
    for name, words, command in (
        ("left", "unfinished; go on with: ", "resume"),
        ("waiting", "waits for a person; be asked with: ", "resume"),
        ("running", "is being run right now; stop it after its step with: ", "stop"),
    ):
        assert said[name].count(f"{words}redraft {command} {name}") == 2, said[name]
        assert said[name].count(" with: ") == 3  # and how to fork it


def test_the_home_folder_is_found(shell: Any, scripted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `~` that no shell expanded, as in `--db '~/x.sqlite'` or a URL, is the home folder."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    Path(scripted("a river lamp").removeprefix("scripted:")).rename(home / "replies.jsonl")
    ran = shell("run", TASK, "--model", "scripted:~/replies.jsonl", *VERIFY, "--db", "~/runs.sqlite", "--thread", "t")
    assert ran.code == 0, ran.err
    assert (home / "runs.sqlite").exists()
    assert not (tmp_path / "~").exists()
    for url in ("~/runs.sqlite", Path("~/runs.sqlite"), "sqlite:///~/runs.sqlite"):
        with open_checkpointer(url) as saver:
            assert saver.runs.get("t")
    assert "t" in shell("threads", "--db", "~/runs.sqlite").out


@pytest.mark.parametrize("url", ["runs.sqlite?mode=ro", "sqlite:///runs.sqlite?mode=ro"])
def test_a_sqlite_file_takes_no_options(shell: Any, url: str, tmp_path: Path) -> None:
    """`runs.sqlite?mode=ro` is refused with what to write instead, and no file of that name is made."""
    with pytest.raises(ValueError, match="takes no options"):
        open_checkpointer(url)
    for words in (("run", TASK, "--model", "local"), ("threads",)):
        shown = shell(*words, "--db", url)
        assert shown.code == 2
        assert 'such as "runs.sqlite"' in shown.err
    assert not list(tmp_path.iterdir())


def test_the_help_says_which_model_is_used_without_one(shell: Any) -> None:
    """Before anything is spent, `run --help` says that a key means a paid model; the demo's is the embedded one."""
    help_of_run = " ".join(shell("run", "--help").out.replace("│", " ").split())
    assert "Without it: openai:gpt-5-mini, which is paid, where OPENAI_API_KEY is set; else local." in help_of_run
    assert "Without it: local." in " ".join(shell("demo", "--help").out.replace("│", " ").split())


@pytest.mark.parametrize(
    "name", ["demo", "run", "resume", "threads", "history", "show", "tree", "replay", "fork", "diff"]
)
def test_each_command_explains_itself(shell: Any, name: str) -> None:
    """`--help` says what a command does and gives examples to copy."""
    shown = shell(name, "--help")
    assert shown.code == 0
    assert "Examples" in shown.out
    assert f"$ redraft {name}" in shown.out
    assert name in shell("--help").out


def test_version_and_no_arguments(shell: Any) -> None:
    """`redraft` alone shows the help, and `--version` the version."""
    assert "Examples" in shell().out
    assert shell("--version").out.startswith("redraft 0.")


def test_a_broken_database_is_named(shell: Any) -> None:
    """A file that is no database gets one line and exit code 2."""
    Path("notes.sqlite").write_text("these are my notes, and no database at all\n" * 100)
    shown = shell("threads", "--db", "notes.sqlite")
    assert shown.code == 2
    assert "notes.sqlite" in shown.err
    assert "Traceback" not in shown.err


def test_the_prompts_of_a_thread_are_shown_as_they_were_sent(shell: Any, scripted: Any) -> None:
    """`show --prompts` prints what the model was asked with, of one round or of all; nothing is asked."""
    first_run(shell, scripted)
    told = shell("show", "first", "--prompts", "--json").json["prompts"]
    assert [(one["round"], one["kind"], one["by"]) for one in told] == [
        (0, "draft", "scripted"), (1, "revision", "mend")
    ]  # fmt: skip
    shown = shell("show", "first", "--prompts", "--round", "1")
    assert "prompt of round 1, revision by mend" in shown.out
    assert "Write one short sentence that could stand next" in shown.out
    assert "prompt of round 0" not in shown.out


def test_json_of_every_reading_command_parses(shell: Any, scripted: Any) -> None:
    """`--json` gives valid JSON on every command that prints a result."""
    first_run(shell, scripted)
    for words in (
        ["threads"],
        ["history", "first"],
        ["show", "first"],
        ["tree", "first"],
        ["replay", "first"],
        ["diff", "first"],
        ["resume", "first"],
    ):
        shown = shell(*words, "--json")
        assert shown.code == 0, words
        json.loads(shown.out)


def test_commands_to_copy_work_where_nothing_is_activated(
    shell: Any, scripted: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Called as `.venv/bin/redraft`, the commands that it suggests begin so too."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.argv", [str(tmp_path / ".venv/bin/redraft")])
    shown = shell("run", TASK, "--model", scripted("a river lamp"), *VERIFY, "--thread", "t")
    assert ".venv/bin/redraft history t" in shown.out
    assert str(tmp_path) not in shown.out


def test_a_thread_is_named_by_the_beginning_of_its_id_or_as_last(shell: Any, scripted: Any, db: str) -> None:
    """`show ri` finds river, `last` the thread that moved last; what names several says which, and an id is never less
    than itself."""
    at = ("--db", db)
    for name in ("river", "rain", "la"):
        shell("run", TASK, "--model", scripted("A river, a lamp."), *VERIFY, "--thread", name, *at)
    assert shell("show", "riv", "--json", *at).json["thread_id"] == "river"
    assert shell("tree", "ra", "--json", *at).json["thread_id"] == "rain"
    assert shell("history", "last", "--json", *at).json["thread_id"] == "la"
    assert shell("fork", "riv", "--at", "0", "--as", "lake", *at).code == 0
    assert shell("resume", "last", "--json", *at).json["thread_id"] == "lake"
    assert shell("diff", "la", "last", "--json", *at).json["threads"] == ["la", "lake"]
    several = shell("show", "r", *at)
    assert (several.code, several.err) == (2, "redraft: 'r' is the beginning of 2 ids: rain, river\n")
    # What is deleted is named whole.
    assert shell("delete", "riv", "--yes", *at).code == 2
    assert shell("delete", "river", "--yes", *at).code == 0


@pytest.mark.one_of_each("words")
@pytest.mark.parametrize(
    "words", ["threads", "tree first", "show first", "diff first", "history first", "replay first"]
)
def test_what_reads_a_thread_imports_no_langgraph(shell: Any, scripted: Any, db: str, words: str) -> None:
    """`threads`, `tree`, `show`, `diff`, `history` and `replay` wait for no import of LangGraph."""
    first_run(shell, scripted, "--db", db)
    code = (
        "import sys\nfrom redraft.faces.cli.main import main\ntry: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "print({name.partition('.')[0] for name in sys.modules} & {'langgraph', 'langchain_core', 'langsmith'})"
    )
    words = [sys.executable, "-c", code, *words.split(), "--db", db]
    shown = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "lamp" in shown.stdout or "first" in shown.stdout
    assert shown.stdout.endswith("\nset()\n")


def test_a_thread_is_shown_alike_with_and_without_langgraph(
    shell: Any, scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads a thread, finished, forked, of two tasks, unfinished or of another preset, reads the same."""
    first_run(shell, scripted)
    texts = "A lamp.", "A lamp by the river.", "Snow on the river, a lamp."
    shell("fork", "first", "--at", "0", "--feedback", "Shorter.", "--as", "waiting")
    shell("fork", "first", "--at", "0", "--draft", "Rain.", "--as", "forked", "--model", scripted(*texts), "--run")
    for name, more in {
        "again": VERIFY,
        "spent": ("--verify", "uses_words:moon", "--max-rounds", "1"),
        "asked": ("--human",),
        "alone": ("--graph", "zero-shot"),
        "search": (*VERIFY, "--graph", "branching", "--paths", "1", "--depth", "1"),
    }.items():
        shell("run", TASK, "--model", scripted(*texts), "--thread", name, *more)
    shell("run", "Another task.", "--model", scripted(*texts), "--thread", "again", *VERIFY)
    steps = "SetTopic('Rain') | UseDraft | UseCritique | UseImprove"
    shell("pipeline", steps, "--model", scripted(*texts), "--thread", "piped")

    names = [row["thread_id"] for row in shell("threads", "--json").json]
    quickly: set[tuple[str, str]] = set()
    read_rows = PlainIndex.read_rows

    def shown() -> list[Any]:
        words = [(word, name) for name in names for word in ("show", "diff", "history", "replay")]
        # The steps of a pipeline have names that only its rows tell: no graph of the loop knows them.
        words.remove(("history", "piped"))
        return [shell(*one, *more) for one in words for more in ((), ("--json",))]

    def noted(self: PlainIndex, read: Any, thread_id: str) -> Any:
        if (found := read_rows(self, read, thread_id)) is not None:
            quickly.add((thread_id, read.__name__))
        return found

    monkeypatch.setattr(PlainIndex, "read_rows", noted)
    nodes = [step["node"] for step in shell("history", "piped", "--json").json["steps"]]
    assert nodes == ["input", "start", "begin", "SetTopic", "UseDraft", "UseCritique", "UseImprove", "check"]
    quick = shown()
    monkeypatch.setattr(PlainIndex, "read_rows", lambda *_: None)
    for one, other in zip(quick, shown(), strict=True):
        assert one == other
    every = "first", "forked", "again", "spent", "alone", "waiting", "asked", "piped"
    assert {(name, read) for name in every for read in ("plain_state", "plain_history", "plain_replay")} <= quickly
    assert ("search", "plain_state") not in quickly
