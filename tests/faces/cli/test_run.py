"""`redraft run`, `resume` and `demo`: what is shown while a model works, and what is left when it does not."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from redraft.models import ScriptedModel
from redraft.state import Thread, open_checkpointer

TASK = "Write one sentence."
VERIFY = ("--verify", "uses_words:river,lamp")


def test_a_run_shows_each_round_and_ends_with_the_answer(shell: Any, scripted: Any) -> None:
    """A user sees each draft, who judged it and what was said, the verdict, and then the answer and what it cost."""
    model = scripted("A lamp.", "A lamp by the river.")
    shown = shell("run", TASK, "--model", model, *VERIFY, "--thread", "one")
    assert (shown.code, shown.err) == (0, "")
    lines = [line.strip() for line in shown.out.splitlines()]
    expected = [
        "round 0", "A lamp.", "✗ uses_words · score 0.50", "These words are missing: river.",
        "round 1", "A lamp by the river.", "✓ uses_words · score 1.00", "answer", "A lamp by the river.",
        "accepted by uses_words",
    ]  # fmt: skip
    found = iter(lines)
    assert all(any(line == wanted for line in found) for wanted in expected), shown.out
    assert "redraft history one" in lines[-1]
    assert Path("runs.sqlite").exists()


def test_json_is_alone_on_standard_output(shell: Any, scripted: Any) -> None:
    """A program that reads the result gets JSON and nothing else; progress is on the other stream."""
    shown = shell("run", TASK, "--model", scripted("A lamp.", "A river lamp."), *VERIFY, "--json")
    assert shown.code == 0
    assert shown.json["answer"] == "A river lamp."
    assert (shown.json["stop_reason"], shown.json["rounds"]) == ("accepted", 1)
    assert shown.json["accepted_by"] == "uses_words"
    assert shown.json["usage"]["calls"] == 2
    assert shown.json["usage"]["cost_usd"] is None
    assert "round 1" in shown.err


def test_the_task_can_come_from_standard_input(shell: Any, scripted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long task is piped in with `-`."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Write about\r\na boat.\n")))
    shown = shell("run", "-", "--model", scripted("river lamp"), *VERIFY, "--json", "--db", "memory")
    assert shown.json["task"] == "Write about\na boat.\n"
    assert not Path("runs.sqlite").exists()


def test_a_run_goes_on_from_a_draft_of_ones_own(shell: Any, scripted: Any, tmp_path: Path) -> None:
    """`--draft` is judged first and then revised; a search, which finds its own, says that it has no place there."""
    shown = shell("run", TASK, "--model", scripted("A river lamp."), *VERIFY, "--json", "--draft", "My lamp.")
    assert (shown.json["answer"], shown.json["usage"]["calls"]) == ("A river lamp.", 1)
    assert "My lamp." in shown.err
    pytest.importorskip("wordllama")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rain.md").write_text("Rain falls.")
    words = ("run", "What is rain?", "--graph", "retrieval", "--dir", str(tmp_path / "docs"), "--draft", "Wet.")
    shown = shell(*words)
    assert (shown.code, "draft has no place here: a search" in shown.err) == (1, True), shown.err


def test_what_the_task_says_is_checked_and_said(shell: Any, scripted: Any) -> None:
    """`--verify as_stated` says what it read, and these programs stay with the thread; `--require` asks for more."""
    task, drafts = "Write a sentence without using the word sea.", ("The sea.", "A lake.", "A lake at dawn.")
    asked = ("--require", "It names a time.", "--verify", "as_stated", "--max-rounds", "1", "--thread", "one")
    shown = shell("run", task, "--model", scripted(*drafts), *asked, "--json")
    assert "checked, as the task says:\n  Write a sentence without using the word sea." in shown.err
    assert "name a judge with --critic self" in shown.err
    assert (shown.json["answer"], shown.json["stop_reason"]) == ("A lake.", "undecided")
    assert [(one["text"], one["status"]) for one in shown.json["requirements"]] == [("It names a time.", "open")]
    assert "avoids_words" in shell("show", "one").out


def test_limits_hold(shell: Any, scripted: Any) -> None:
    """`--max-rounds 1` writes one revision; the reason for the stop is named."""
    shown = shell("run", TASK, "--model", scripted("a", "b", "c"), *VERIFY, "--max-rounds", "1", "--json")
    assert (shown.json["stop_reason"], shown.json["rounds"]) == ("max_rounds", 1)
    assert shown.json["answer"] == "a"  # "b" scores no more


def test_a_critic_is_a_model_too(shell: Any, scripted: Any) -> None:
    """`--critic` names who judges, and `self` is the writer itself."""
    said = scripted("draft", "No issues")
    shown = shell("run", TASK, "--model", said, "--critic", "self", "--json")
    assert shown.json["stop_reason"] == "accepted"
    critic = scripted({"structured": {"feedback": "", "score": 1, "accepted": True}, "text": "{}"})
    shown = shell("run", TASK, "--model", scripted("draft"), "--critic", critic, "--json")
    assert shown.code == 0, shown.err


def test_without_model_and_key_the_embedded_model_is_used_and_named(
    shell: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whoever has no key is told which model answers; where it can't run, what to install."""
    monkeypatch.setenv("REDRAFT_CACHE", str(tmp_path / "nothing-here"))
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    shown = shell("run", TASK)
    assert shown.code == 2
    assert "using the embedded model (SmolLM2-135M)" in shown.err
    assert ".[local]" in shown.err
    assert "Traceback" not in shown.err


BAD = {
    ("run", "  "): "the task is empty",
    ("run", TASK, "--model", "gpt"): "'gpt'",
    ("run", TASK, "--model", "scripted:none.jsonl"): "can't be read",
    ("run", TASK, "--max-rounds", "-1"): "--max-rounds",
    ("run", TASK, "--patience", "0"): "--patience",
    ("run", TASK, "--token-budget", "many"): "Invalid value for '--token-budget'",
    ("run", TASK, "--model", "local", "--verify", "spelling"): "'spelling' is not a verifier",
    ("run", TASK, "--model", "local", "--graph", "poetry"): "there is no graph 'poetry'",
    ("run", TASK, "--model", "http://user:secret@localhost/v1#m"): "carries a credential",
    ("run", TASK, "--thread", "a\x1bb"): "can't be a thread's id",
    ("run", TASK, "--model", "local", "--critic", "uses_words:"): "the critic 'uses_words:' makes no sense",
    ("run", TASK, "--model", "local", "--graph", "zero-shot", "--critic", "self"): "nobody judges a baseline",
    ("run", TASK, "--model", "local", "--graph", "majority-0"): "there is no graph 'majority-0'",
    ("run", TASK, "--draft", " "): "the draft is blank",
    ("run",): "Missing argument 'TASK'",
    ("run", TASK, "--modle", "x"): "No such option",
    ("poetry",): "No such command 'poetry'",
    ("history", "nobody"): "there is no database 'runs.sqlite'",
    ("threads", "--db", "mysql://x"): "mysql",
}


@pytest.mark.parametrize("words", BAD, ids=" ".join)
def test_bad_input_is_named_and_ends_with_2(shell: Any, words: tuple[str, ...]) -> None:
    """Input that makes no sense gets one line that names it, and exit code 2; nothing is written."""
    shown = shell(*words)
    assert shown.code == 2
    assert BAD[words] in shown.err
    assert "secret" not in shown.err
    assert "Traceback" not in shown.err
    assert not Path("runs.sqlite").exists()
    assert shown.out == ""


def test_hostile_text_is_shown_and_never_obeyed(shell: Any, scripted: Any) -> None:
    """A model that writes escape codes or markup can't recolour, clear or reorder the user's terminal."""
    nasty = "\x1b[2J river [bold]lamp[/bold] \u202eabc \x9b31m"
    shown = shell("run", TASK, "--model", scripted(nasty), *VERIFY)
    assert shown.code == 0
    assert not set("\x1b\u202e\x9b") & set(shown.out)
    assert "␛[2J river [bold]lamp[/bold]" in shown.out
    as_json = shell("run", TASK, "--model", scripted(nasty), *VERIFY, "--json")
    assert not set("\x1b\u202e\x9b") & set(as_json.out)
    assert "\\u202eabc" in as_json.out
    assert as_json.json["answer"] == nasty


def test_a_run_that_fails_before_a_draft_is_resumed(shell: Any, serve: Any, scripted: Any) -> None:
    """When the model can't answer, the user reads why and how to go on; resuming asks only what was not answered."""
    refusal = {"status": 400, "body": {"error": {"message": "no such model"}}}
    with_lamp = {"text": "river lamp"}
    server = serve([refusal, with_lamp])
    failed = shell("run", TASK, "--model", server.spec, *VERIFY, "--thread", "t")
    assert failed.code == 1
    assert "no such model" in failed.err
    assert "go on with: redraft resume t" in failed.err
    resumed = shell("resume", "t", "--json")
    assert resumed.code == 0
    assert resumed.json["stop_reason"] == "accepted"
    assert len(server.requests) == 2


def test_a_run_that_fails_after_a_draft_keeps_it(shell: Any, serve: Any) -> None:
    """An error in a revision ends with code 1 and the best draft; `resume` goes on at the node that failed."""
    server = serve(["lamp", {"status": 400}, "lamp and river"])
    failed = shell("run", TASK, "--model", server.spec, *VERIFY, "--thread", "t", "--json")
    assert failed.code == 1
    assert (failed.json["stop_reason"], failed.json["answer"]) == ("failed", "lamp")
    headers = [line for line in failed.err.splitlines() if line.startswith("round ")]
    assert headers == ["round 0", "round 1"]  # the verdict, on the draft of round 0, begins no round
    assert failed.err.index("failed in refine") < failed.err.index("an error ended the run")
    resumed = shell("resume", "t", "--json")
    assert (resumed.code, resumed.json["stop_reason"]) == (0, "accepted")
    assert resumed.json["answer"] == "lamp and river"
    assert len(server.requests) == 3


MENDING = "exactly as written: river"
"""In a prompt, once a draft lacks the word."""


@pytest.fixture
def run_as_process(forking: Any, tmp_path: Path) -> Any:
    """Start a run in a process of its own."""

    def start(spec: str, before: str = "") -> Any:
        words = ["-c", f"{before}from redraft.faces.cli.main import main; main()"]
        words += ["run", TASK, "--model", spec, *VERIFY, "--thread", "t"]
        return forking.start(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path)

    return start


@pytest.mark.parametrize(
    ("signum", "before"),
    [
        (signal.SIGINT, ""),
        (signal.SIGTERM, ""),
        (signal.SIGTERM, "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "),
    ],
    ids=["Ctrl-C", "SIGTERM", "SIGTERM in the background"],
)
def test_an_interrupted_thread_resumes(signum: int, before: str, serve: Any, shell: Any, run_as_process: Any) -> None:
    """Ctrl-C or SIGTERM in a model call ends the command at once; it says how to resume, and nothing is paid again."""
    victim: list[Any] = []
    interrupted: list[int] = []
    answered = threading.Event()

    def reply(request: dict[str, Any]) -> str | dict[str, Any]:
        if MENDING not in str(request["messages"]):
            return "lamp"
        if not interrupted:
            while not victim:
                pass
            interrupted.append(1)
            os.kill(victim[0].pid, signum)
            answered.wait(60)  # the command ends before the model has answered
        return "lamp and river"

    server = serve(reply)
    with run_as_process(server.spec, before) as process:
        victim.append(process)
        _, err = process.communicate(timeout=60)
    answered.set()
    assert process.returncode == 128 + signum, err
    assert "interrupted; thread t is kept, go on with: redraft resume t" in err
    assert "Traceback" not in err
    resumed = shell("resume", "t", "--json")
    assert resumed.json["answer"] == "lamp and river"
    assert [MENDING in str(request["messages"]) for request in server.requests].count(False) == 1
    assert len(server.requests) == 3


def test_a_run_whose_reader_left_stops_and_resumes(serve: Any, shell: Any, run_as_process: Any) -> None:
    """`redraft run … | head -1` ends with 141 and says on standard error how to resume; nothing is paid again."""
    started: list[Any] = []
    piped = threading.Event()

    def reply(request: dict[str, Any]) -> str:
        piped.wait(60)
        if MENDING in str(request["messages"]):
            return "lamp and river"
        assert started[0].stdout
        started[0].stdout.close()  # before anything of the draft is printed
        return "lamp"

    server = serve(reply)
    with run_as_process(server.spec) as process:
        started.append(process)
        piped.set()
        assert process.stderr
        err = process.stderr.read()
    assert process.returncode == 141, err
    assert err.splitlines() == [
        "redraft: stopped, since nobody reads the output any more; thread t is kept, go on with: redraft resume t"
    ]
    resumed = shell("resume", "t", "--json")
    assert (resumed.json["answer"], resumed.json["stop_reason"]) == ("lamp and river", "accepted")
    assert len(server.requests) == 2


def test_a_finished_thread_is_not_run_again_unless_given_room(shell: Any, scripted: Any) -> None:
    """`resume` of a finished thread says that it is finished; with more rounds it goes on from the last draft."""
    model = scripted("a", "b", "river lamp")
    shell("run", TASK, "--model", model, *VERIFY, "--max-rounds", "1", "--thread", "t")
    same = shell("resume", "t", "--json")
    assert (same.code, same.json["stop_reason"]) == (3, "max_rounds")
    assert "is finished (max_rounds)" in same.err


def test_a_thread_built_in_python_is_read_but_not_resumed(shell: Any) -> None:
    """A thread of one's own program is shown by the shell, which says why it can't go on with it."""
    from langchain_core.language_models import FakeListChatModel
    from redraft.graphs.loop import build_refine_graph

    with open_checkpointer("runs.sqlite") as saver:
        graph = build_refine_graph(FakeListChatModel(responses=["a draft"]), critics=[], checkpointer=saver)
        graph.invoke({"task": TASK, "limits": {"max_rounds": 0}}, {"configurable": {"thread_id": "mine"}})
        assert Thread(graph, "mine").history()
    assert "a draft" in shell("show", "mine").out
    refused = shell("resume", "mine", "--max-rounds", "2")
    assert refused.code == 2
    assert "was built in Python" in refused.err


def test_the_demo_ends_with_a_table_and_plain_words(shell: Any, serve: Any) -> None:
    """The demo shows six tasks, says at which the model failed, and names the commands to look further."""
    replies = {
        "boat trip": ["A river.", "A river lamp."],
        "bakery": ["Snow, a bell."],
        "dog": ["no", "nope", "never", "ladder", "not yet", "nowhere"],
        "school": ["A song.", "window song"],
        "14 apples": ["14 + 9 = 23\n#### 23"],
        "Tom has": ["5 + 6 = 11\n#### 11"],
    }

    def model(request: dict[str, Any]) -> str:
        # A draft is mended without its task in sight.
        topics.extend(topic for topic in left if topic in str(request["messages"]))
        return left[topics[-1]].pop(0)

    topics: list[str] = []
    left = {topic: [*said] for topic, said in replies.items()}
    shown = shell("demo", "--model", serve(model).spec)
    assert shown.code == 0, shown.err
    assert "5 of 6 tasks were accepted, 2 of them after a revision" in shown.out
    assert "1 accepted answer is wrong all the same" in shown.out
    assert "wrong: 30 expected" in shown.out
    tail = shown.out[shown.out.index("look at a run") :]
    assert "redraft history demo-" in tail
    assert "redraft fork demo-" in tail
    assert "--model openai:gpt-5-mini" in tail
    left = {topic: [*said] for topic, said in replies.items()}
    again = shell("demo", "--model", serve(model).spec, "--json")
    assert len(again.json["tasks"]) == 6
    listed = {row["thread_id"] for row in shell("threads", "--json").json}
    assert {"demo-1", again.json["tasks"][0]["thread_id"]} <= listed
    assert len(listed) == 12


def test_recipes_hold_what_rebuilds_a_graph_and_no_secret(shell: Any, scripted: Any) -> None:
    """What is stored with a run rebuilds its graph from any folder, and holds no key."""
    shell("run", TASK, "--model", scripted("river lamp"), *VERIFY, "--thread", "t", "--temperature", "0.5")
    (row,) = shell("threads", "--json").json
    recipe = row["recipe"] if isinstance(row["recipe"], dict) else json.loads(row["recipe"])
    assert recipe["verifiers"] == ["uses_words:river,lamp"]
    assert Path(recipe["model"].removeprefix("scripted:")).is_absolute()


def test_each_graph_is_run_by_its_name(shell: Any, scripted: Any) -> None:
    """`--graph` picks a preset or a baseline, its critic is picked with `--critic`, and `resume` knows both again."""
    problem = "Ann has 2 bags of 3 nuts. How many nuts?"
    program = "```python\nprint(2 * 3)\n```"
    replies = ["2 * 3 = 7\n#### 7", program, program, program, "2 * 3 = 6\n#### 6"]
    shown = shell("run", problem, "--graph", "math", "--model", scripted(*replies), "--json", "--thread", "m")
    assert shown.json["answer"].endswith("#### 6")
    assert shown.json["accepted_by"] == "program"
    judged = scripted("2 * 3 = 6\n#### 6", "SOLUTION_IS_CORRECT")
    shown = shell("run", problem, "--graph", "math", "--critic", "self", "--model", judged, "--json")
    assert shown.json["accepted_by"] == "self (uncalibrated)"
    for name in ("zero-shot", "few-shot", "majority-3"):
        shown = shell("run", problem, "--graph", name, "--model", scripted(*["#### 6"] * 3), "--json")
        assert (shown.json["answer"], shown.json["accepted_by"]) == ("#### 6", None)
        assert shown.json["usage"]["calls"] == (3 if name == "majority-3" else 1)
    doubling = "Write double(n).\n>>> double(2)\n4"
    code = scripted("```python\ndef double(n):\n    return n\n```", "```python\ndef double(n):\n    return 2 * n\n```")
    shown = shell("run", doubling, "--graph", "code", "--model", code, "--json")
    assert (shown.json["rounds"], shown.json["accepted_by"]) == (1, "visible_tests")
    text = scripted("A lamp.", "A river.")
    shown = shell("run", TASK, "--graph", "writing", "--verify", "uses_words:river", "--model", text, "--json")
    assert (shown.json["answer"], shown.json["accepted_by"]) == ("A river.", "uses_words")
    rows = {row["preset"] for row in shell("threads", "--json").json}
    assert rows == {"math", "zero-shot", "few-shot", "majority-3", "code", "writing"}
    assert shell("replay", "m").code == 0
    branch = shell("fork", "m", "--at", "0", "--feedback", "Count again.", "--run", "--json")
    assert branch.json["stop_reason"]


@pytest.mark.parametrize("again", [False, True], ids=["text", "tools"])
def test_an_agent_runs_with_its_tools_shown(shell: Any, scripted: Any, *, again: bool) -> None:
    """`--graph agent` runs the model as an agent; a call that it writes as text is made, shown, and answered. With
    `--revise-with-tools` it is made where the agent revises, too."""
    call = '{"name": "calculate", "arguments": {"expression": "17% of 340"}}'

    class Calling(ScriptedModel):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return self

    model = Calling([*(["It is 58.", "Not exactly."] if again else []), call, "It is 57.8.", "No issues"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("redraft.models.chat_model", lambda *_, **__: model)
        more = ["--tool", "calculate", *(["--revise-with-tools"] if again else [])]
        shown = shell("run", "What is 17% of 340?", "--graph", "agent", *more, "--model", scripted("x"))
    assert shown.code == 0, shown.err
    assert 'calls calculate({"expression": "17% of 340"})' in shown.out
    assert "calculate → 57.8" in shown.out
    assert "accepted by self" in shown.out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["--graph", "agent", "--tool", "hammer"],
            "there is no tool 'hammer'; known are calculate, run_python, search",
        ),
        (["--graph", "agent", "--tool", "search"], "--tool search and --documents FOLDER, or --index NAME, belong"),
        (["--graph", "math", "--tool", "calculate"], "--tool is for --graph agent"),
        (["--graph", "rubric", "--verify", "uses_words:a"], "--verify has no use in rubric"),
        (["--graph", "code", "--critic", "program"], "--critic has no use in code: its tests decide"),
        (["--critic", "program:3"], "the critic 'program:3' makes no sense: write program, and nothing behind it"),
    ],
)
def test_options_that_a_preset_has_no_use_for_are_refused(shell: Any, scripted: Any, words: Any, says: str) -> None:
    """What a graph can't use is named, and nothing is run."""
    shown = shell("run", "Write.", "--model", scripted("x"), *words)
    assert (shown.code, says in shown.err) == (2, True), shown.err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--verify", "uses_words:lamp"), 0),
        (("--verify", "uses_words:river"), 3),
        (("--verify", "uses_words:river", "--token-budget", "1"), 3),
        (("--graph", "zero-shot"), 0),
    ],
)
def test_the_exit_code_tells_accepted_from_unaccepted(
    shell: Any, scripted: Any, words: tuple[str, ...], code: int
) -> None:
    """A script sees by 0 or 3 whether the answer was accepted, and by 0 that nobody was to judge it; so says resume."""
    ran = shell(
        "run", TASK, "--model", scripted("A lamp.", "A lamp, lit."), "--max-rounds", "1", "--thread", "a", *words
    )
    assert ran.code == code, ran.err
    assert shell("resume", "a").code == code
    assert shell("show", "a").code == 0


def test_a_model_that_never_answers_is_waited_for_no_longer_than_timeout(shell: Any, fail: Any) -> None:
    """`--timeout` ends each attempt of a call; the error says after how long, and a resumed run keeps to it."""
    server = fail(rate=1, kinds=["timeout"])
    for words in (("run", TASK, "--model", server.spec, "--timeout", "0.1", "--thread", "hung"), ("resume", "hung")):
        ended = shell(*words)
        assert ended.code == 1
        assert "timed out: no whole reply within 0.1 s" in ended.err
