"""The loop over a folder: who writes, what judges, and what is kept of it."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deepagents import create_deep_agent
from deepagents.backends import FilesystemBackend
from redraft import Thread, human_critic, open_checkpointer
from redraft.folders import (
    AgentInFolder,
    CommandWriter,
    Trees,
    boxed,
    build_folder_graph,
    command,
    read_draft,
    trees,
)
from redraft.folders.boxed import Box, refusal
from redraft.folders.checks import TreeVerifier, counted
from redraft.folders.edits import apply_edits, read_edits
from redraft.models import ScriptedModel
from redraft.state.summary import attempts

if TYPE_CHECKING:
    from collections.abc import Callable

GREP = "grep -q 'a + b' calc.py && echo '2 passed in 0.01s' || { echo '1 failed, 1 passed in 0.01s'; false; }"
PYTEST = f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {sys.executable} -m pytest -q -p no:cacheprovider"
RIGHT, WRONG = "def add(a, b):\n    return a + b\n", "def add(a, b):\n    return a - b\n"
TESTS = """from calc import add

def test_sum():
    assert add(2, 3) == 5

def test_zero():
    assert add(0, 0) == 0
"""
needs_box = pytest.mark.skipif(bool(refusal()), reason=refusal() or "-")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small project whose one of two tests fails."""
    place = tmp_path / "project"
    (place / "tests").mkdir(parents=True)
    (place / "calc.py").write_text(WRONG)
    (place / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    (place / "tests" / "test_calc.py").write_text(TESTS)
    return place


def graph_of(folder: Path, writer: Any, **options: Any) -> Any:
    """Return the graph with a check that says what pytest would."""
    given = {"checks": [GREP], "protect": ["tests/**"], "plain": True, "limits": {"max_rounds": 3}, **options}
    return build_folder_graph(writer, root=folder, trees=folder.parent / "trees", **given)


def works(*steps: Callable[[Path], Any]) -> Callable[[str, Path], Any]:
    """Return a worker that does one step in each round."""
    left = list(steps)

    def work(instruction: str, folder: Path) -> Any:
        return left.pop(0)(folder)

    return work


def writes(text: str, name: str = "calc.py") -> Callable[[Path], Any]:
    """Return a step that writes a file."""

    def step(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)

    return step


def critiques(output: Any) -> list[Any]:
    """Return what was said of the drafts."""
    return [event for event in output["events"] if event["kind"] == "critique"]


def test_a_model_repairs_a_program_in_rounds(folder: Path) -> None:
    """It is shown the files and what failed, its edits are made in a copy, and the user's folder stays as it was."""
    model = ScriptedModel(
        [
            f"FILE: calc.py\n```python\n{WRONG.replace('-', '*')}```",
            "FILE: calc.py\n<<<<<<< SEARCH\n    return a * b\n=======\n    return a + b\n>>>>>>> REPLACE\n",
        ]
    )
    output = graph_of(folder, model, checks=[PYTEST]).invoke({"task": "Make the tests pass."})
    assert (output["stop_reason"], output["rounds"], output["accepted_by"]) == ("accepted", 1, PYTEST)
    assert [one["score"] for one in critiques(output)] == [0.5, 1.0]
    assert "assert 6 == 5" in str(model.calls[1])
    assert "tests/test_calc.py (not to be changed)" in str(model.calls[0])
    assert "-    return a - b\n+    return a + b" in output["answer"]
    assert (folder / "calc.py").read_text() == WRONG
    trees = Trees(folder.parent / "trees")
    trees.apply(trees.snapshot(folder).tree, read_draft(output["answer"]).tree, folder)
    assert (folder / "calc.py").read_text() == RIGHT


def test_protected_files_are_put_back(folder: Path) -> None:
    """Who empties the tests has gained nothing, is told that they were put back, and no draft has other ones."""
    writer = works(writes("", "tests/test_calc.py"), writes(RIGHT))
    output = graph_of(folder, writer).invoke({"task": "Make the tests pass."})
    first, last = critiques(output)
    assert "protected files were put back as they were: tests/test_calc.py" in first["text"]
    trees = Trees(folder.parent / "trees")
    base = trees.snapshot(folder).tree
    drafts = [read_draft(one.text).tree for one in attempts(output["events"])]
    assert [[one.path for one in trees.changes(base, tree)] for tree in drafts] == [[], ["calc.py"]]
    assert (first["accepted"], last["accepted"]) == (False, True)


@pytest.mark.parametrize(
    "cheat",
    [
        writes("def test_nothing():\n    pass\n", "tests/test_calc.py"),
        writes("import os\n\ndef pytest_sessionstart():\n    os._exit(0)\n", "conftest.py"),
        lambda folder: [one.unlink() for one in (folder / "tests").iterdir()],
    ],
    ids=["fewer tests", "a patched runner", "no tests"],
)
def test_a_check_that_runs_fewer_tests_than_before_does_not_pass(folder: Path, cheat: Any) -> None:
    """Also where nothing is protected, an exit code of 0 that hides tests is no success."""
    output = graph_of(folder, works(cheat), checks=[PYTEST], protect=(), limits={"max_rounds": 0}).invoke(
        {"task": "Make them pass."}
    )
    assert output["stop_reason"] == "max_rounds"
    (said,) = critiques(output)
    assert "before the work began" in said["text"] or "it ended with 5" in said["text"]


def test_files_that_run_before_the_tests_are_named(folder: Path) -> None:
    """A new `conftest.py` is part of what is judged: the record says that it is there."""

    def both(folder: Path) -> None:
        writes(RIGHT)(folder)
        writes("# nothing\n", "conftest.py")(folder)

    output = graph_of(folder, works(both)).invoke({"task": "Make the tests pass."})
    assert output["stop_reason"] == "accepted"
    assert critiques(output)[0]["evidence"]["startup_files"] == ["conftest.py"]


def test_a_check_that_wavers_does_not_accept(folder: Path) -> None:
    """What passes and then fails on the same files is said to waver."""
    runs = folder.parent / "runs"  # one on the folder as it is found, and one on the draft
    check = command(f"echo >> {runs}; test $(wc -l < {runs}) -le 2")
    output = graph_of(folder, works(writes(RIGHT)), checks=[check], limits={"max_rounds": 0}).invoke({"task": "Do it."})
    assert "it wavers" in critiques(output)[0]["text"]


def test_a_person_is_asked_where_no_draft_passes(folder: Path) -> None:
    """Who is asked at the end alone is not asked while the checks pass or a round is left."""
    for text, asked in ((RIGHT, False), (WRONG + "# left\n", True)):
        with open_checkpointer("memory") as saver:
            late = [human_critic(ask="unaccepted")]
            graph = graph_of(folder, works(writes(text)), critics=late, checkpointer=saver, limits={"max_rounds": 0})
            output = graph.invoke({"task": "Do it."}, {"configurable": {"thread_id": "one"}})
        assert ("__interrupt__" in output) == asked


def test_a_person_edits_files_and_not_the_text_that_shows_them(folder: Path, tmp_path: Path) -> None:
    """Who edits the diff is told what to do, and asked again; a folder that is named is read, judged and accepted."""
    own = tmp_path / "own"
    with open_checkpointer("memory") as saver:
        graph = graph_of(folder, works(writes(RIGHT)), critics=[human_critic()], checkpointer=saver)
        waiting = graph.invoke({"task": "Do it."}, {"configurable": {"thread_id": "one"}})
        asked = waiting["__interrupt__"][0].value
        judge = TreeVerifier(command(GREP), Trees(tmp_path / "trees"), Box(True))
        edited = asked["draft"].replace("a + b", "b + a")
        assert "not in the text of a draft" in judge("", edited, waiting).text
        thread = Thread(graph, "one")
        again = thread.answer(draft=edited)["__interrupt__"][0].value
        assert "`folder PATH`" in again["error"]
        judge.trees.write(waiting["base_tree"], own)
        (own / "calc.py").write_text(RIGHT + "# mine\n")
        done = thread.answer(draft=f"folder {own}")
    assert (done["stop_reason"], done["accepted_by"]) == ("accepted", "human")
    assert "+# mine" in done["answer"]
    assert critiques(done)[-2]["evidence"]["code"] == 0
    judge.trees.write(read_draft(done["answer"]).tree, tmp_path / "out")
    assert (tmp_path / "out" / "calc.py").read_text() == RIGHT + "# mine\n"


def test_a_fork_goes_on_from_the_files_of_its_round(folder: Path) -> None:
    """Each round is a tree: a fork at the first one works on its files, and not on the last ones."""
    seen: list[str] = []

    def work(instruction: str, folder: Path) -> None:
        assert ("Add them." in instruction) == (len(seen) == 2)
        seen.append((folder / "calc.py").read_text())
        (folder / "calc.py").write_text(f"{WRONG}# {len(seen)}\n" if len(seen) < 3 else RIGHT)

    with open_checkpointer("memory") as saver:
        graph = graph_of(folder, work, checkpointer=saver, limits={"max_rounds": 1}, keep="last")
        graph.invoke({"task": "Make the tests pass."}, {"configurable": {"thread_id": "a"}})
        fork = Thread(graph, "a").fork(at=0, feedback="Add them.")
        output = fork.resume()
    assert seen == [WRONG, f"{WRONG}# 1\n", f"{WRONG}# 1\n"]
    assert critiques(output)[-1]["accepted"]
    assert output["stop_reason"] == "undecided"  # no command can say whether the wish was met


def test_a_run_that_broke_off_goes_on_from_the_tree_it_had(folder: Path) -> None:
    """A killed writer left nothing behind: the round begins again in a fresh copy, and the folder is not read again."""
    found: list[list[str]] = []

    def work(instruction: str, folder: Path) -> None:
        found.append(sorted(one.name for one in folder.iterdir()))
        (folder / "half.py").write_text("half")
        if len(found) == 1:
            raise KeyboardInterrupt
        (folder / "calc.py").write_text(RIGHT)

    with open_checkpointer("memory") as saver:
        graph = graph_of(folder, work, checkpointer=saver)
        with pytest.raises(KeyboardInterrupt):
            graph.invoke({"task": "Make the tests pass."}, {"configurable": {"thread_id": "a"}})
        (folder / "later.py").write_text("later")
        output = Thread(graph, "a").resume()
    assert output["stop_reason"] == "accepted"
    assert found[0] == found[1] == ["calc.py", "pytest.ini", "tests"]


def test_a_program_works_in_the_copy_and_its_tokens_are_counted(folder: Path) -> None:
    """A coding agent is a command: it is told what failed, and the usage that it prints is the draft's."""
    agent = folder.parent / "agent.sh"
    agent.write_text("""#!/bin/sh
case "$1" in *"This fails now"*) sed -i 's/a - b/a + b/' calc.py ;; esac
echo 'working …'
echo '{"usage": {"input_tokens": 40, "cache_read_input_tokens": 2, "output_tokens": 8}, "model": "m-1"}'
""")
    agent.chmod(0o755)
    output = graph_of(folder, f"{agent} {{prompt}}").invoke({"task": "Make the tests pass."})
    assert (output["stop_reason"], output["rounds"], output["usage"]["total_tokens"]) == ("accepted", 0, 50)
    assert output["events"][1]["by"] == "m-1"


def test_a_program_that_fails_is_told_so(folder: Path) -> None:
    """What an agent that ended with an error printed is in the draft, and in the feedback of the next round."""
    output = graph_of(folder, "false", limits={"max_rounds": 0}).invoke({"task": "Make the tests pass."})
    assert "note: `false`: it ended with 1" in output["answer"]
    assert "it ended with 1" in critiques(output)[0]["text"]


def test_a_writer_who_writes_too_much_or_odd_names_ends_no_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What can't be kept is thrown away and told; a name that can't be printed is escaped, and cheats no reader."""

    def odd(copy: Path) -> None:
        (copy / "a\nnote: all is well").write_text("x")
        Path(os.fsdecode(os.fsencode(copy / "b") + b"\xff")).write_text("y")
        (copy / "calc.py").write_text(RIGHT)

    def large(copy: Path) -> None:
        (copy / "calc.py").write_text(RIGHT + "#" * 5000)

    monkeypatch.setattr(trees, "MOST_BYTES", 4000)
    output = graph_of(folder, works(large, odd)).invoke({"task": "Make the tests pass."})
    assert "nothing of it was kept: the folder holds more than" in critiques(output)[0]["text"]
    assert (output["stop_reason"], output["rounds"]) == ("accepted", 1)
    assert "A a\\nnote: all is well\n" in output["answer"]
    assert "+++ b/b\\udcff" in output["answer"]
    assert read_draft(output["answer"]).notes == ()


async def test_an_agent_of_deepagents_works_in_the_copy(folder: Path) -> None:
    """An agent with its own file tools gets the copy as its whole file system."""
    edit = {"file_path": "/calc.py", "old_string": "a - b", "new_string": "a + b"}
    call = {"name": "edit_file", "args": edit, "id": "1", "type": "tool_call"}

    class WithTools(ScriptedModel):
        def bind_tools(self, *_: Any, **__: Any) -> Any:
            return self

        def _generate(self, *args: Any, **named: Any) -> Any:
            result = super()._generate(*args, **named)
            message: Any = result.generations[0].message
            if message.content == "edit":
                message.tool_calls = [call]
            return result

    model = WithTools(["edit", "Done."])
    make = AgentInFolder(
        lambda folder: create_deep_agent(model, backend=FilesystemBackend(root_dir=folder, virtual_mode=True))
    )
    output = await graph_of(folder, make).ainvoke({"task": "Make the tests pass."})
    assert (output["stop_reason"], output["rounds"]) == ("accepted", 0)


@needs_box
def test_commands_are_kept_in_their_copy(folder: Path, tmp_path: Path) -> None:
    """A check writes nothing outside, sees neither the home nor the environment's keys, and has no network."""
    home = Path.home()
    alone = Box().run("cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' '", folder)
    assert alone.output.split() == ["lo"]
    probe = (
        f"touch {tmp_path}/out; touch /etc/out; ls -A {home}/.ssh {folder}; env | grep -c KEY; "
        "echo inside > mine; cat mine"
    )
    done = Box(hidden=(str(folder),)).run(probe, folder)
    assert not (tmp_path / "out").exists()
    assert not Path("/etc/out").exists()
    assert "Read-only file system" in done.output or "No such file" in done.output
    assert "calc.py" not in done.output
    assert done.output.rstrip().endswith("inside")
    assert (folder / "mine").read_text() == "inside\n"


@pytest.mark.parametrize("plain", [True, pytest.param(False, marks=needs_box)])
def test_a_command_that_does_not_end_or_takes_too_much_is_ended(
    folder: Path, monkeypatch: pytest.MonkeyPatch, plain: bool
) -> None:
    """It is killed with all that it started, and the reason is the feedback; of endless output the ends are kept."""
    done = Box(plain, timeout_s=0.5).run("sleep 60 & sleep 60", folder)
    assert done.ended == "it was ended after 0.5 seconds"
    long = Box(plain, timeout_s=20).run(f"{sys.executable} -c \"print('a' + 'x' * 400_000 + 'z')\"", folder)
    assert len(long.output) < 140_000
    assert (long.output[0], long.output.rstrip()[-1]) == ("a", "z")
    monkeypatch.setattr(boxed, "MOST_PROCESSES", 30)
    done = Box(plain, timeout_s=20).run("for n in $(seq 40); do sleep 20 & done; wait; sleep 20", folder)
    assert "started more than 30 processes" in done.ended
    monkeypatch.setattr(boxed, "MOST_MEMORY", 0.004)
    done = Box(plain, timeout_s=20).run(
        [sys.executable, "-c", "x = b'x' * 400_000_000; import time; time.sleep(20)"], folder
    )
    assert "MB of memory" in done.ended
    monkeypatch.setattr(boxed, "MOST_WRITTEN", 1 << 20)
    done = Box(plain, timeout_s=20).run(
        "for n in 1 2 3 4 5 6; do head -c 900000 /dev/zero > f$n; done; sleep 20", folder
    )
    assert "written more than 1 MB" in done.ended


@pytest.mark.one_of_each
@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("F.\n=== 1 failed, 3 passed, 2 skipped in 0.12s ===", (3, 4)),
        ("2 passed, 1 error in 1.00s (0:00:01)", (2, 3)),
        ("...\nRan 5 tests in 0.1s\n\nFAILED (failures=1, errors=1)", (3, 5)),
        ("Ran 2 tests in 0.1s\n\nOK", (2, 2)),
        ("1..3\nok 1 - a\nnot ok 2 - b\nok 3", (2, 3)),
        ("Found 4 errors in 2 files (checked 9 source files)", (1, 5)),
        ("all good", None),
    ],
)
def test_the_share_of_tests_that_pass_is_read(output: str, expected: Any) -> None:
    """pytest, unittest, TAP, mypy and ruff say in their last lines how many passed."""
    assert counted(output) == expected


def test_a_report_says_how_many_tests_passed(folder: Path) -> None:
    """Where a command writes JUnit XML, its score is read there."""
    writes_report = 'echo \'<testsuites><testsuite tests="4" failures="1" errors="0"/></testsuites>\' > r.xml; false'
    output = graph_of(
        folder, works(writes(RIGHT)), checks=[command(writes_report, report="r.xml")], limits={"max_rounds": 0}
    ).invoke({"task": "Do it."})
    assert critiques(output)[0]["score"] == 0.75


@pytest.mark.one_of_each
@pytest.mark.parametrize(
    ("reply", "expected", "note"),
    [
        ("Here it is:\n\n**calc.py**\n```python\nx = 1\n```\nDone.", "x = 1\n", None),
        ("```\nx = 2\n```", "x = 2\n", None),
        ("calc.py\n```\n<<<<<<< SEARCH\n  a   \n=======\n  b\n>>>>>>> REPLACE\n```", "  b\nc\n", None),
        ("FILE: calc.py\n<<<<<<< SEARCH\nnot there\n=======\nb\n>>>>>>> REPLACE", "  a\nc\n", "is not in the file"),
        ("```python:calc.py\nx = 3\n```", "x = 3\n", None),
        ("```py\n# calc.py\nx = 4\n```\nRun it:\n```sh\npytest\n```", "# calc.py\nx = 4\n", None),
        ("FILE: calc.py\n```\nx = 5\n```\nThen:\n```sh\npytest -q\n```", "x = 5\n", None),
        ("FILE: tests/test_a.py (not to be changed)\n```\nassert 1\n```", "  a\nc\n", "is protected"),
        ("I would change the sum.", "  a\nc\n", "no file was in your answer"),
        ("FILE: ../out.py\n```\nx\n```", "  a\nc\n", "is not part of the work"),
        ("FILE: /etc/out.py\n```\nx\n```", "  a\nc\n", "is not part of the work"),
        ("FILE: link/out.py\n```\nx\n```", "  a\nc\n", "is behind a link"),
        ("FILE: tests/test_a.py\n```\nx\n```", "  a\nc\n", "is protected"),
        ("FILE: .git/config.txt\n```\nx\n```", "  a\nc\n", "is not part of the work"),
    ],
)
def test_edits_of_a_reply_are_made_or_said(tmp_path: Path, reply: str, expected: str, note: str | None) -> None:
    """Whole files and search-and-replace are read as models write them; what can't be done is told."""
    (tmp_path / "calc.py").write_text("  a\nc\n")
    (tmp_path / "link").symlink_to("/etc")
    notes = apply_edits(reply, tmp_path, ["calc.py"], ["tests/**"])
    assert (tmp_path / "calc.py").read_text() == expected
    assert note in notes[0] if note else not notes


def test_line_ends_of_a_file_survive_an_edit(tmp_path: Path) -> None:
    """Models write \\n; a file of Windows keeps its own."""
    (tmp_path / "calc.py").write_bytes(b"a\r\nb\r\n")
    apply_edits("FILE: calc.py\n<<<<<<< SEARCH\na\nb\n=======\nc\nd\n>>>>>>> REPLACE", tmp_path, ["calc.py"])
    assert (tmp_path / "calc.py").read_bytes() == b"c\r\nd\r\n"
    apply_edits("FILE: calc.py\n```\ne\n```", tmp_path, ["calc.py"])
    assert (tmp_path / "calc.py").read_bytes() == b"e\r\n"


def test_edits_of_several_files_are_told_apart() -> None:
    """Each edit belongs to the path above it."""
    reply = "FILE: a.py\n```\n1\n```\n### `src/b.py`\n~~~py\n2\n~~~\nMakefile:\n```\nall:\n```\n"
    assert [(edit.path, edit.text) for edit in read_edits(reply)] == [
        ("a.py", "1\n"),
        ("src/b.py", "2\n"),
        ("Makefile", "all:\n"),
    ]


def test_what_makes_no_sense_is_refused_at_build(folder: Path) -> None:
    """A folder that nothing judges, an empty command, and a writer that is none say so."""
    with pytest.raises(ValueError, match="nothing judges the folder"):
        graph_of(folder, "true", checks=[])
    with pytest.raises(ValueError, match="a check is a command"):
        command(" ")
    with pytest.raises(TypeError, match="a writer is a chat model"):
        graph_of(folder, 7)
    with pytest.raises(ValueError, match="there is no program 'no-such-agent'"):
        graph_of(folder, "no-such-agent -p {prompt}")
    assert CommandWriter("true -p").box.network


async def test_a_run_that_is_cancelled_ends_its_command(folder: Path) -> None:
    """Whoever interrupts a run waits for no check: it is killed with the run."""
    started = folder.parent / "started"
    check = command(f"echo $$ > {started}.part; mv {started}.part {started}; sleep 120")
    run = asyncio.create_task(graph_of(folder, works(writes(RIGHT)), checks=[check]).ainvoke({"task": "Do it."}))
    await asyncio.to_thread(until, started.exists)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    left = Path("/proc") / started.read_text().strip()
    await asyncio.to_thread(until, lambda: not left.exists())


def until(holds: Callable[[], bool]) -> None:
    """Wait until something is so; the suite's own time limit ends what never is."""
    while not holds():
        time.sleep(0.02)
