"""`redraft eval --batch`: calls of all problems collected into batches."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from redraft.models.batches import Batches

pytest.importorskip("scipy")
pytest.importorskip("statsmodels")

QUICK = {"quiet_s": 0.5, "poll_s": 0.02}
PROBLEMS = 9


def answered(body: dict[str, Any]) -> str:
    """Answer "What is N + 1?", every third time wrong until told so; the critic is always right."""
    number = int(re.findall(r"What is (\d+) \+ 1", json.dumps(body["messages"]))[-1])
    last = str(body["messages"][-1]["content"])
    if "SOLUTION_IS_CORRECT" in last:
        return "SOLUTION_IS_CORRECT" if f"#### {number + 1}" in last else f"{number} + 1 is {number + 1}"
    wrong = number % 3 == 0 and f"is {number + 1}" not in last
    return f"#### {number + 1 + wrong}"


@pytest.fixture
def problems(tmp_path: Path) -> str:
    """Nine problems; of three the first draft is wrong."""
    rows = [{"question": f"What is {n} + 1?", "answer": f"#### {n + 1}"} for n in range(1, PROBLEMS + 1)]
    path = tmp_path / "sums.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in QUICK.items():
        monkeypatch.setitem(Batches.__init__.__kwdefaults__, name, value)


def prices(path: Path) -> str:
    path.write_text(json.dumps({"test-model": {"input_per_mtok": 1.0, "output_per_mtok": 1.0}}))
    return str(path)


@pytest.mark.usefixtures("quick")
def test_a_round_of_all_problems_is_a_batch(shell: Any, batch_server: Any, problems: str, tmp_path: Path) -> None:
    """Nine problems take a batch a round, not nine calls; the report is the same as without, at half the dollars."""
    words = ("--methods", "majority-3,self-refine-2", "--prices", prices(tmp_path / "prices.json"), "--json")
    with batch_server(answered) as server:
        model = ("--model", server.spec)
        plain = shell("eval", problems, *model, *words, "--out", "plain")
        assert plain.code == 0, plain.err
        alone, server.singles = server.singles, []
        batched = shell("eval", problems, *model, *words, "--batch", "--out", "batched")
        assert batched.code == 0, batched.err
        assert not server.singles
        # Three samples each; then drafts and checks of all, revisions and checks of the wrong ones.
        assert [len(batch["calls"]) for batch in server.batches] == [27, 9, 9, 3, 3]
        assert Counter(map(json.dumps, server.calls())) == Counter(map(json.dumps, alone))
    assert "27 calls in a batch" in batched.err
    for before, now in zip(plain.json["methods"], batched.json["methods"], strict=True):
        assert now["accuracy"] == before["accuracy"]
        assert now["tokens"] == before["tokens"]
    costs = [sum(json.loads(line)["cost_usd"] for line in _results(tmp_path / out)) for out in ("plain", "batched")]
    assert costs[1] == pytest.approx(costs[0] / 2)
    assert json.loads((tmp_path / "batched/majority-3/run.json").read_text())["batch"] is True


def _results(folder: Path) -> list[str]:
    return [line for path in folder.glob("*/results.jsonl") for line in path.read_text().splitlines()]


KILLABLE = """
import sys
from redraft.models.batches import Batches
Batches.__init__.__kwdefaults__.update({quick})
from redraft.faces.cli.main import main
sys.exit(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_run_goes_on_with_the_batch_that_was_submitted(
    batch_server: Any, problems: str, tmp_path: Path, sent: signal.Signals
) -> None:
    """The process may end while a batch is under way: --resume waits for it, and no call is made twice."""
    with batch_server(answered, looks=1_000_000) as server:
        command = [sys.executable, "-c", KILLABLE.format(quick=QUICK), "eval", problems, "--model", server.spec]
        command += ["--methods", "self-refine-2", "--batch", "--out", str(tmp_path / "out")]
        first = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        _wait(lambda: server.batches and server.batches[0]["looks"], first)
        first.send_signal(sent)
        _, said = first.communicate(timeout=60)
        assert first.returncode != 0
        if sent == signal.SIGINT:
            assert "the same command with --resume goes on" in said
        server.looks = 1
        again = [*command, "--resume"]
        second = subprocess.run(again, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert second.returncode == 0, second.stderr
        assert [len(batch["calls"]) for batch in server.batches] == [9, 9, 3, 3]
        assert not server.singles
        assert len({call for batch in server.batches for call in batch["calls"]}) == 24
    records = [json.loads(line) for line in _results(tmp_path / "out")]
    assert (len(records), sum(record["is_correct"] for record in records)) == (PROBLEMS, PROBLEMS)


def _wait(until: Any, process: subprocess.Popen[str]) -> None:
    while not until():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


OWN = """
from typing import TypedDict
from langgraph.graph import StateGraph
from redraft import chat_model

class State(TypedDict, total=False):
    task: str
    answer: str

def graph():
    model = chat_model("{spec}")

    def solve(state):
        return {{"answer": model.invoke(state["task"]).text}}

    async def look_again(state):
        return {{"answer": (await model.ainvoke(state["task"] + " Look again.")).text}}

    builder = StateGraph(State)
    builder.add_sequence([solve, look_again]).set_entry_point("solve")
    return builder.compile()

graph = graph()

def right(row, answer):
    return answer == row["answer"]
"""


@pytest.mark.usefixtures("quick")
def test_a_graph_of_ones_own_is_collected_through_its_model(
    shell: Any, batch_server: Any, problems: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A LangGraph graph that redraft did not build asks in batches, with `invoke` and `ainvoke`, by a `chat_model`."""
    monkeypatch.syspath_prepend(str(tmp_path))
    with batch_server(answered) as server:
        (tmp_path / "batch_agent.py").write_text(OWN.format(spec=server.spec))
        words = (
            "--graph",
            "batch_agent:graph",
            "--score",
            "batch_agent:right",
            "--batch",
            "--json",
        )
        shown = shell("eval", problems, *words, "--out", "out")
        assert shown.code == 0, shown.err
        assert [len(batch["calls"]) for batch in server.batches][:2] == [9, 9]
        assert not server.singles


@pytest.mark.one_of_each
@pytest.mark.parametrize(
    ("words", "clash"),
    [
        (("--rpm", "10"), "--rpm"),
        (("--tpm", "10"), "--tpm"),
        (("--time-budget", "60"), "--time-budget"),
        (("--engine", "ray", "--db", "postgresql://localhost/x"), "Ray"),
    ],
)
def test_what_a_batch_can_not_keep_to_is_refused(
    shell: Any, batch_server: Any, problems: str, words: tuple[str, ...], clash: str
) -> None:
    """A pace and a time budget make no sense for calls that wait together up to a day."""
    with batch_server(answered) as server:
        shown = shell("eval", problems, "--model", server.spec, "--out", "out", "--batch", *words)
        assert shown.code == 2
        assert f"--batch goes with no {clash}" in shown.err
        assert not server.batches


def test_a_model_without_batches_is_refused(shell: Any, scripted: Any, problems: str, tmp_path: Path) -> None:
    """Before anything is run: which model it is, and which would do."""
    shown = shell("eval", problems, "--model", scripted("#### 2"), "--batch", "--out", "out")
    assert shown.code == 2
    assert "ScriptedModel takes no batches: openai:NAME, anthropic:NAME and servers with" in shown.err
    assert not (tmp_path / "out").exists()
