"""People in the loop at the shell: `redraft run --human`, `resume`, `answer` and `stop`, in a terminal and without."""

from __future__ import annotations

import io
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from redraft.faces import studio
from redraft.faces.cli.asking import how_to_answer
from redraft.state import open_checkpointer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TASK = "Write one sentence."
VERIFY = ("--verify", "uses_words:river,lamp")
CALL = "from redraft.faces.cli.main import main; main()"
PROMPT = "leaves it for later: "
LONGEST_S = 60


class Terminal:
    """`redraft` in a terminal of its own, typed into as a person does."""

    def __init__(self, forking: Any, words: tuple[str, ...], folder: Path, **env: str) -> None:
        import pty

        self.master, theirs = pty.openpty()
        plain = {name: value for name, value in os.environ.items() if name not in {"VISUAL", "EDITOR"}}
        self.process = forking.start(
            ["-c", CALL, *words],
            cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            env={**plain, "TERM": "dumb", "COLUMNS": "100", **env},
        )  # fmt: skip
        os.close(theirs)
        self.shown = ""

    def until(self, text: str) -> str:
        """Read until the text was shown; all that came before it since the last time."""
        deadline = time.monotonic() + LONGEST_S
        while text not in self.shown:
            assert self._read(deadline), f"{text!r} never came: {self.shown}"
        before, _, self.shown = self.shown.partition(text)
        return before

    def interrupt(self) -> None:
        """Press Ctrl-C once the process waits for a line: Python overlooks one that comes just as it begins to read."""
        self._until_it_waits()
        os.kill(self.process.pid, signal.SIGINT)

    def leave(self) -> None:
        """Press Ctrl-D once the process waits for a line: a line editor that begins to read drops what came before."""
        self._until_it_waits()
        self.type("\x04")

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def ended(self) -> tuple[int, str]:
        """Wait for the end; the exit code, and what was shown since the last time."""
        deadline = time.monotonic() + LONGEST_S
        while self._read(deadline):
            pass
        code = self.process.wait(LONGEST_S)
        os.close(self.master)
        return code, self.shown

    def _until_it_waits(self) -> None:
        stat = Path(f"/proc/{self.process.pid}/stat")
        while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "S":
            time.sleep(0.01)

    def _read(self, deadline: float) -> bool:
        if not select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return False
        try:
            found = os.read(self.master, 4096)
        except OSError:  # how Linux says that the other side is closed
            return False
        self.shown += found.decode(errors="replace").replace("\r\n", "\n")
        return bool(found)


@pytest.fixture
def terminal(shell: Any, tmp_path: Path, forking: Any) -> Iterator[Callable[..., Terminal]]:
    """Start `redraft` in a terminal, in the folder that `shell` works in."""
    if os.name == "nt":
        pytest.skip("Windows has no pseudo-terminals of this kind")
    started: list[Terminal] = []

    def start(*words: str, **env: str) -> Terminal:
        started.append(Terminal(forking, words, tmp_path, **env))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


def test_a_person_at_the_terminal_gives_feedback_and_accepts(terminal: Any, scripted: Any) -> None:
    """Each draft is followed by a question; feedback is revised, a wrong key is explained, and `a` accepts."""
    seen = terminal("run", TASK, "--model", scripted("A lamp.", "A river lamp."), *VERIFY, "--human", "--thread", "t")
    first = seen.until(PROMPT)
    assert first.index("These words are missing: river.") < first.index("your turn · round 0 · score 0.50")
    assert first.count("A lamp.") == 1  # it stands above already
    seen.type("yes\n")
    assert "'yes' is none of these: type a, e, f or s" in seen.until(PROMPT)
    seen.type("f\n")
    seen.until("what to change: ")
    seen.type("With a river.\n")
    second = seen.until(PROMPT)
    assert "With a river." in second
    assert "your turn · round 1 · score 1.00" in second
    seen.type("A\n")
    code, rest = seen.ended()
    assert code == 0
    assert "accepted by human" in rest


EDITOR = "import sys; from pathlib import Path; p = Path(sys.argv[1]); p.write_text(p.read_text() + 'By the river.\\n')"


@pytest.mark.parametrize("broken", [False, True], ids=["editor", "no editor"])
def test_a_draft_is_edited(terminal: Any, scripted: Any, tmp_path: Path, shell: Any, broken: bool) -> None:
    """`e` opens $VISUAL; where that fails, or none is named, the new draft is typed. No model is asked for it."""
    Path(tmp_path, "edit.py").write_text(EDITOR)
    editor = "/nowhere/vi" if broken else f"{sys.executable} {tmp_path / 'edit.py'}"
    words = ("run", TASK, "--model", scripted("A lamp."), *VERIFY, "--human", "--thread", "t", "--json")
    seen = terminal(*words, VISUAL=editor, EDITOR="false")
    seen.until(PROMPT)
    seen.type("e\n")
    if broken:
        assert "can't be used" in seen.until("ends it")
        seen.type("A lamp.\nBy the river.\n.\n")
    code, _ = seen.ended()
    assert code == 0
    drafts = shell("show", "t", "--json").json
    assert (drafts["answer"], drafts["accepted_by"]) == ("A lamp.\nBy the river.", "human")
    assert drafts["drafts"][1]["by"] == "human"
    assert [(one["by"], one["accepted"]) for one in drafts["drafts"][1]["critiques"]] == [
        ("uses_words", True),
        ("human", True),
    ]
    assert drafts["usage"]["calls"] == 1


def test_a_question_is_left_for_later_and_asked_again(terminal: Any, scripted: Any) -> None:
    """Ctrl-D ends the command with 0 and says how to go on; `resume` shows draft and critiques, and asks again."""
    seen = terminal("run", TASK, "--model", scripted("A lamp."), *VERIFY, "--human", "--thread", "t")
    seen.until(PROMPT)
    seen.leave()
    code, rest = seen.ended()
    assert code == 0
    assert "waits for a person · round 0 · score 0.50 · thread t" in rest
    assert "redraft answer t --at 0 --accept" in rest
    assert "redraft resume t" in rest
    again = terminal("resume", "t")
    shown = again.until(PROMPT)
    for part in (TASK, "A lamp.", "These words are missing: river.", "your turn · round 0 · score 0.50"):
        assert part in shown
    again.type("stop\n")
    code, rest = again.ended()
    assert code == 3
    assert "human: a person ended the run" in rest


@pytest.mark.parametrize(("how", "code"), [("Ctrl-C", 130), ("SIGKILL", -9)])
def test_a_question_outlives_the_command(how: str, code: int, terminal: Any, scripted: Any, shell: Any) -> None:
    """Whether the command that asks is interrupted or killed: another one answers, and no draft is paid again."""
    seen = terminal("run", TASK, "--model", scripted("A lamp."), "--human", "--thread", "t")
    seen.until(PROMPT)
    if how == "Ctrl-C":
        seen.interrupt()
    else:
        seen.process.kill()
    ended, rest = seen.ended()
    assert ended == code
    assert ("go on with: redraft resume t" in rest) == (how == "Ctrl-C")
    answered = shell("answer", "t", "--accept", "--json").json
    assert (answered["answer"], answered["accepted_by"], answered["usage"]["calls"]) == ("A lamp.", "human", 1)


def test_an_answer_given_elsewhere_is_not_given_twice(terminal: Any, scripted: Any, shell: Any) -> None:
    """Who still sits before a question that another process answered is told so; nothing runs twice."""
    seen = terminal("run", TASK, "--model", scripted("A lamp."), "--human", "--thread", "t")
    seen.until(PROMPT)
    assert shell("answer", "t", "--stop").code == 3
    seen.type("a\n")
    code, rest = seen.ended()
    assert code == 2
    assert "the thread 't' is finished (human): there is no question to answer" in rest


def test_without_a_terminal_a_run_waits_and_says_how_to_answer(shell: Any, scripted: Any) -> None:
    """A script that starts a run with a person in it does not hang: it ends with 0, and the question is in the JSON."""
    writer = scripted("A lamp.", "A river lamp.")
    words = ("run", TASK, "--model", writer, "--critic", writer, *VERIFY, "--critics-after", "always", "--human")
    shown = shell(*words, "--thread", "t", "--json")
    assert shown.code == 0
    assert (shown.json["stop_reason"], shown.json["answer"]) == (None, "")
    waiting = shown.json["waiting"]
    assert (waiting["draft"], waiting["round"]) == ("A lamp.", 0)
    assert [one["by"] for one in waiting["critiques"]] == ["uses_words", "self"]  # the person comes last
    assert waiting["answer_with"]["feedback"] == "redraft answer t --at 0 --feedback TEXT"
    assert shell("resume", "t", "--json").json["waiting"] == waiting
    plain = shell("resume", "t")
    assert plain.code == 0
    assert "waits for a person · round 0 · score 0.50 · thread t" in plain.out
    assert "redraft answer t --at 0 --draft FILE" in plain.out

    # Asked at the end alone, not while a round is left; and nobody where a program accepts.
    words = ("run", TASK, *VERIFY, "--human", "--ask", "unaccepted", "--rung", "rewrite", "--max-rounds", "1", "--json")
    shown = shell(*words, "--model", scripted("A lamp.", "A lamp, and more."), "--thread", "late")
    assert (shown.code, shown.json["waiting"]["draft"]) == (0, "A lamp.")
    assert shell("answer", "late", "--accept", "--json").json["accepted_by"] == "human"
    shown = shell(*words, "--model", scripted("A lamp.", "A river lamp."))
    assert (shown.code, shown.json["accepted_by"]) == (0, "uses_words")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (("--accept", "--score", "0.9"), ("A lamp.", "accepted", "human")),
        (("--draft", "mine.txt"), ("My river lamp.", "accepted", "human")),
        (("--draft", "-"), ("From a pipe.", "accepted", "human")),
        (("--stop",), ("A lamp.", "human", None)),
    ],
    ids=["accept", "draft", "pipe", "stop"],
)
def test_a_command_answers(answer: Any, expected: Any, shell: Any, scripted: Any, monkeypatch: Any) -> None:
    """`redraft answer` accepts, puts a file in the draft's place, or stops; the result is that of any run."""
    Path("mine.txt").write_text("My river lamp.\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"From a pipe.\n")))
    shell("run", TASK, "--model", scripted("A lamp."), "--human", "--thread", "t")
    shown = shell("answer", "t", *answer, "--at", "0", "--json")
    assert shown.code == (0 if expected[1] == "accepted" else 3), shown.err
    assert (shown.json["answer"], shown.json["stop_reason"], shown.json["accepted_by"]) == expected


@pytest.mark.parametrize(("thread", "at"), [("t", "3"), ("nobody", "0")])
def test_a_piped_draft_that_is_refused_is_kept(
    thread: str, at: str, shell: Any, scripted: Any, monkeypatch: Any
) -> None:
    """A text from a pipe is nowhere else: where it can't be used, the message says which file holds it now."""
    shell("run", TASK, "--model", scripted("A lamp."), "--human", "--thread", "t")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Hours of work.\n")))
    refused = shell("answer", thread, "--at", at, "--draft", "-")
    assert refused.code == 2
    where = Path("".join(refused.err.split()).partition("yourtextiskeptin")[2])
    assert where.read_text() == "Hours of work."
    where.unlink()


def test_feedback_is_revised_and_asked_about_again(shell: Any, serve: Any) -> None:
    """After `--feedback` the run goes on to the next question; the same answer again is for a question that is past."""
    server = serve(["A lamp.", "A river lamp."])
    shell("run", TASK, "--model", server.spec, "--human", "--thread", "t")
    shown = shell("answer", "t", "--at", "0", "--feedback", "With a river.")
    assert shown.code == 0
    assert "waits for a person · round 1" in shown.out
    assert "With a river." in str(server.requests[1]["messages"])
    twice = shell("answer", "t", "--at", "0", "--feedback", "With a river.")
    assert twice.code == 2
    assert (
        "the question about round 0 of thread 't' is answered or never was asked; it waits with the draft of round 1"
        in twice.err
    )
    assert len(server.requests) == 2


def test_a_fork_asks_the_person_too(shell: Any, serve: Any) -> None:
    """A branch of a thread with a person in it pauses for them; nothing is accepted past them."""
    server = serve(["A river lamp.", "A winter river lamp."])
    shell("run", TASK, "--model", server.spec, *VERIFY, "--human", "--thread", "t")
    same = shell("fork", "t", "--at", "0", "--as", "same", "--run", "--json").json
    assert (same["stop_reason"], same["waiting"]["draft"]) == (None, "A river lamp.")
    words = ("fork", "t", "--at", "0", "--feedback", "Make it winter.", "--as", "winter", "--run", "--json")
    assert shell(*words).json["waiting"]["draft"] == "A winter river lamp."
    more = shell("resume", "t", "--max-rounds", "7", "--json").json
    assert more["waiting"]["round"] == 0
    assert "→ human" in shell("history", "t").out
    assert len(server.requests) == 2


EDITORS = {
    "answered elsewhere": EDITOR,
    "broken off": f"{EDITOR}; sys.exit(1)",
    "not UTF-8": "import sys; open(sys.argv[1], 'wb').write(b'A l\\xe4mp.')",
}


@pytest.mark.parametrize("how", EDITORS)
def test_an_edited_text_that_is_refused_is_kept(
    how: str, terminal: Any, scripted: Any, shell: Any, tmp_path: Path
) -> None:
    """What a person wrote for a question that is past, or in an editor that failed, is in a file that is named."""
    Path(tmp_path, "edit.py").write_text(EDITORS[how])
    words = ("run", TASK, "--model", scripted("A lamp."), "--human", "--thread", "t")
    seen = terminal(*words, VISUAL=f"{sys.executable} {tmp_path / 'edit.py'}", TMPDIR=str(tmp_path), COLUMNS="400")
    seen.until(PROMPT)
    if how == "answered elsewhere":
        assert shell("answer", "t", "--stop").code == 3
    seen.type("e\n")
    if how != "answered elsewhere":
        assert "your text is kept in" in seen.until("ends it")
        seen.until("> ")  # before that the terminal may hold the key back
        seen.leave()
        seen.until(PROMPT)
        seen.leave()
    code, rest = seen.ended()
    assert (code, "your text is kept in" in rest) == ((2, True) if how == "answered elsewhere" else (0, False))
    (kept,) = tmp_path.glob("redraft-draft-*.txt")
    assert kept.read_bytes().rstrip() == (b"A l\xe4mp." if how == "not UTF-8" else b"A lamp.\nBy the river.")


def test_commands_that_answer_name_the_person() -> None:
    """Where people have names, the printed commands carry them, so that none answers for somebody else."""
    question = {"round": 1, "by": "ann o'hara"}
    told = how_to_answer(question, thread_id="t", db="runs.sqlite")
    assert told["accept"] == """redraft answer t --at 1 --as 'ann o'"'"'hara' --accept"""
    assert "--as" not in how_to_answer({**question, "by": "human"}, thread_id="t", db="runs.sqlite")["accept"]


def test_a_finished_thread_says_what_can_be_done_with_it(shell: Any, scripted: Any) -> None:
    """`resume` promises more room only where new limits give some: an accepted answer goes on in a branch."""
    for end, says in (
        ("--accept", "is finished (accepted); an accepted answer stays, whatever the limits; a branch goes on"),
        ("--stop", "is finished (human); new limits, such as --max-rounds, open it again"),
    ):
        shell("run", TASK, "--model", scripted("A lamp."), "--human", "--thread", end[2:])
        shell("answer", end[2:], end)
        shown = shell("resume", end[2:])
        assert (shown.code, says in shown.err) == (3 * (end == "--stop"), True), shown.err


WRONG: dict[tuple[str, ...], str] = {
    ("answer", "t"): "answer with one of --accept, --feedback TEXT, --draft FILE, --stop",
    ("answer", "t", "--accept", "--stop"): "answer with one of --accept",
    ("answer", "t", "--draft", "none.txt"): "none.txt",
    ("answer", "t", "--feedback", " "): "feedback needs a text",
    ("answer", "t", "--draft", "same.txt"): "the same as the one asked about",
    ("answer", "t", "--accept", "--score", "9"): "score must be a number between 0 and 1",
    ("answer", "t", "--accept", "--as", "ann"): "the question to 'ann' of thread 't' is answered or never was asked",
    ("answer", "nobody", "--accept"): "there is no thread 'nobody'",
    ("answer", "done", "--accept"): "is finished (human): there is no question to answer",
    ("answer", "done", "--accept", "--db", "none.sqlite"): "there is no database 'none.sqlite'",
    ("stop", "t"): "waits for a person, whose answer may end it, so there is nothing to stop",
    ("stop", "done"): "is finished (human), so there is nothing to stop",
    ("stop", "nobody"): "there is no thread 'nobody'",
    ("run", TASK, "--human", "--model", "local", "--db", "memory"): "--human needs somebody at a terminal",
    ("run", TASK, "--ask", "unaccepted", "--model", "local"): "--ask says when --human asks, which is not given",
    ("run", TASK, "--ask", "unaccepted", "--human", "--graph", "rubric", "--model", "local"): "--ask is for --graph",
    (
        "run",
        TASK,
        "--human",
        "--model",
        "local",
        "--graph",
        "reasoning",
    ): "--human is for --graph refine, adaptive, math,",
}


def test_what_can_not_be_answered_or_stopped_is_named(shell: Any, scripted: Any) -> None:
    """A wrong answer, or one to a thread that asks nothing, ends with 2 and one line; the question stays."""
    Path("same.txt").write_text("\nA lamp.\n\n")
    for thread in ("t", "done"):
        shell("run", TASK, "--model", scripted("A lamp."), "--human", "--thread", thread)
    shell("answer", "done", "--stop")
    for words, says in WRONG.items():
        shown = shell(*words)
        assert (shown.code, says in shown.err) == (2, True), (words, shown.err)
        assert shown.err.count("\n") == 1
    assert shell("answer", "t", "--accept").code == 0


@pytest.mark.parametrize("preset", ["writing", "code", "agent", "rubric"])
def test_other_graphs_ask_a_person_too(preset: str, shell: Any, serve: Any, request: pytest.FixtureRequest) -> None:
    """`--human` puts a person behind whatever judges in a preset, and `answer` knows that."""
    if preset == "code":
        request.getfixturevalue("sandbox")

    def reply(_: Any) -> str:
        return "A lamp." if len(server.requests) == 1 else '{"score": 0.2, "feedback": "", "accepted": false}'

    server = serve(reply)
    shown = shell("run", TASK, "--graph", preset, "--model", server.spec, "--human", "--thread", "t", "--json")
    assert shown.json["waiting"]["draft"] == "A lamp.", shown.err
    asked = len(server.requests)
    assert shell("answer", "t", "--accept", "--json").json["accepted_by"] == "human"
    assert len(server.requests) == asked


def test_a_running_thread_is_stopped_from_another_process(serve: Any, shell: Any, tmp_path: Path, forking: Any) -> None:
    """`redraft stop` lets the step end: the run says that it was stopped, and `resume` pays for nothing twice."""
    asked: list[str] = []

    def reply(request: Any) -> str:
        if not asked:
            while not Path(tmp_path, "runs.sqlite").exists():
                time.sleep(0.01)
            done = forking.run(["-c", CALL, "stop", "t"], cwd=tmp_path)
            asked.append(done.stdout + done.stderr)
            return "A lamp."
        return "A river lamp."

    server = serve(reply)
    words = ["-c", CALL, "run", TASK, "--model", server.spec, *VERIFY, "--thread", "t"]
    with forking.start(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=LONGEST_S)
    told = " ".join(asked[0].split())
    assert (
        told
        == f"asked process {process.pid} to stop thread t after the step it is in; then go on with: redraft resume t"
    )
    assert process.returncode == 143, err
    assert err == "redraft: stopped on request; thread t is kept, go on with: redraft resume t\n"
    assert "A lamp." in out
    resumed = shell("resume", "t", "--json")  # the request was for the run that is over
    assert (resumed.json["answer"], resumed.json["stop_reason"]) == ("A river lamp.", "accepted")
    assert len(server.requests) == 2


def test_a_thread_is_not_resumed_while_it_runs(shell: Any, scripted: Any) -> None:
    """A second `resume` or `answer` beside a run that is under way is told who runs the thread."""
    from redraft.faces.run_config import RunConfig
    from redraft.state import Thread

    shell("run", TASK, "--model", scripted("A lamp."), "--human", "--thread", "t")
    with open_checkpointer("runs.sqlite") as saver, Thread(RunConfig.reader(saver), "t").stoppable():
        for words in (("resume", "t"), ("answer", "t", "--accept")):
            shown = shell(*words)
            assert shown.code == 2
            assert f"the thread 't' is being run right now, by process {os.getpid()}" in shown.err
    assert shell("answer", "t", "--accept").code == 0


def test_studio_serves_a_graph_with_a_person(scripted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In LangGraph Studio the run pauses, shows what is asked and how to reply, and goes on with what is typed."""
    monkeypatch.setenv("REDRAFT_MODEL", scripted("A lamp.", "No issues"))
    graph = studio.refine_with_a_person().copy({"checkpointer": InMemorySaver()})
    config: Any = {"configurable": {"thread_id": "t"}}
    question = graph.invoke({"task": TASK}, config)["__interrupt__"][0].value
    assert [one["by"] for one in question["critiques"]] == ["self"]
    assert set(question["replies"]) == {"accept", "edit", "feedback", "stop"}
    assert graph.invoke(Command(resume="accept"), config)["accepted_by"] == "human"
