"""Evaluations of graphs, checks and scores of one's own."""

from __future__ import annotations

import asyncio
import csv
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel
from redraft import Critique, build_refine_graph, uses_words
from redraft.evals import aevaluate, choose, evaluate, gate, write_baseline
from redraft.evals.gating import junit_xml, markdown
from redraft.models import ScriptedModel

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [{"id": f"row-{number}", "task": f"Write about rain {number}.", "wanted": "falls"} for number in range(8)]


def mended(*, name: str = "mine") -> Any:
    """Return a graph whose first drafts lack the roof and whose revisions have it."""

    def first(state: Any) -> str:
        return "Rain."

    def again(state: Any) -> str:
        return "Rain falls on the roof."

    return build_refine_graph(generate=first, refine=again, verifiers=[uses_words("roof")], name=name)


def holds_wanted(row: Any, answer: str) -> float:
    """Score half for each of two words."""
    return 0.5 * (row["wanted"] in answer) + 0.5 * ("roof" in answer)


def test_a_graph_is_held_against_its_own_means() -> None:
    """One call says what refining brought beside its own first drafts and samples by the same checks, in words."""
    ledger = evaluate(mended(), ROWS, score=holds_wanted)
    assert [(one.against.partition(" cut")[0], one.before, one.after) for one in ledger.differences] == [
        ("its own first drafts", 0.0, 1.0),
        ("best-of-8", 0.0, 1.0),
    ]
    first, _ = ledger.differences
    assert first.finding == "better"
    assert first.diff_ci95[0] > 0
    assert "+100.0 points" in first.sentence
    assert "n = 8: better" in first.sentence


def test_scores_between_0_and_1_get_intervals_of_their_own() -> None:
    """A score that is a share is compared as one: its mean, a bootstrap interval, and a sign-flip test."""

    def near(row: Any, answer: str) -> float:
        return 0.2 if answer == "Rain." else 0.5 + int(row["id"][-1]) / 100

    (difference, *_) = evaluate(mended(), ROWS, score=near, against=[]).differences
    assert (difference.before, difference.after) == (pytest.approx(0.2), pytest.approx(0.535))
    low, high = difference.diff_ci95
    assert 0.3 < low < difference.diff < high < 0.37
    assert difference.p == pytest.approx(2 / 2**8)


def test_without_a_score_the_checks_say_what_is_right() -> None:
    """A graph with verifiers needs no gold answers, and the report says that its own checks decide."""
    ledger = evaluate(mended(), ROWS, against=["best-of-8"])
    assert {row.kind for row in ledger.methods} == {"checks"}
    assert ledger.differences[0].after == 1.0
    with pytest.raises(ValueError, match="nothing can say which answers are right"):
        evaluate(lambda task: task, ROWS)


def test_any_graph_agent_or_function_is_evaluated() -> None:
    """A function, a coroutine, a graph of LangGraph's, and one with checks around it are all rows of a ledger."""

    async def later(task: str) -> str:
        return f"{task} on the roof falls"

    def reply(state: Any) -> Any:
        return {"messages": [AIMessage(f"{state['messages'][0].content} roof")]}

    agent = StateGraph(MessagesState)
    agent.add_node("reply", reply)
    agent.add_edge(START, "reply")
    means = {}
    for subject in (lambda task: task, later, agent.compile()):
        (row, *_) = evaluate(subject, ROWS, score=holds_wanted).methods
        means[row.label] = row.n
    assert set(means.values()) == {8}
    judged = evaluate(agent.compile(), ROWS, score=holds_wanted, verifiers=[uses_words("roof")])
    assert [row.method for row in judged.methods] == ["LangGraph", "best-of-8"]
    with pytest.raises(ValueError, match="judges by its own critics"):
        evaluate(mended(), ROWS, score=holds_wanted, verifiers=[uses_words("roof")])
    with pytest.raises(TypeError, match="a graph, an agent or a function"):
        evaluate(3, ROWS, score=holds_wanted)


def test_a_score_sees_the_object_of_a_typed_answer() -> None:
    """A graph with a type gives its score the object, and what does not fit it scores nothing."""

    class Dish(BaseModel):
        name: str
        minutes: int

    def soup(state: Any) -> Dish:
        return Dish(name="soup", minutes=20)

    graph = build_refine_graph(generate=soup, refine=soup, answer_type=Dish)
    ledger = evaluate(graph, ROWS, score=lambda row, dish: dish.minutes == 20, against=[])
    assert ledger.methods[0].accuracy.rate == 1


def test_what_no_score_can_read_is_told_apart(caplog: pytest.LogCaptureFixture) -> None:
    """An answer that the score can't tell, or fails at, counts as wrong and is named as without a verdict."""

    def unsure(row: Any, answer: str) -> Any:
        if row["id"] == "row-0":
            raise KeyError("no such field")
        return None if row["id"] == "row-1" else True

    (row,) = evaluate(lambda task: task, ROWS, score=unsure).methods
    assert row.accuracy.k == 6
    assert row.failed == 0
    assert "2 answers have no verdict and count as wrong" in row.warnings
    assert "the score of the row 'row-0' could not be had" in caplog.text
    with pytest.raises(ValueError, match="no result has a verdict"):
        evaluate(lambda task: task, ROWS, score=lambda row, answer: None)
    # A wrong function is told at once, and not when every row has been paid for.
    asked: list[str] = []
    with pytest.raises(
        ValueError, match=r"the score of the row 'row-\d' could not be had: .* not 7; nor could that of"
    ):
        evaluate(lambda task: asked.append(task) or task, ROWS, score=lambda row, answer: 7, concurrency=1)
    assert len(asked) == 3


def test_rows_come_from_files_and_from_samples_of_inspect(tmp_path: Path) -> None:
    """CSV, JSONL, a DataFrame and the samples of an Inspect dataset are read alike; a row without a task is named."""
    pd = pytest.importorskip("pandas")
    table, lines = tmp_path / "rows.csv", tmp_path / "rows.jsonl"
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["question", "wanted"])
        writer.writeheader()
        writer.writerows([{"question": row["task"], "wanted": "rain"} for row in ROWS])
    lines.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    samples = [
        SimpleNamespace(input=row["task"], target="x", id=row["id"], metadata={"wanted": "rain"}) for row in ROWS
    ]
    for data in (table, lines, samples, pd.DataFrame(ROWS).assign(wanted="rain")):
        (row,) = evaluate(lambda task: task, data, score=lambda row, answer: row["wanted"] in answer).methods
        assert row.n == 8
    with pytest.raises(ValueError, match=r"row 2 has no task.*it has text"):
        evaluate(lambda task: task, [{"task": "x"}, {"text": "y"}], score=holds_wanted)
    with pytest.raises(ValueError, match="3 rows of rows have the id 'a'"):
        evaluate(lambda task: task, [{"id": "a", "task": "x"}] * 3, score=holds_wanted)


def test_an_evaluation_goes_on_where_it_stood(tmp_path: Path) -> None:
    """With a folder, what was run is not run again; with another graph it is refused."""
    calls = []

    def answer(task: str) -> str:
        calls.append(task)
        return task

    for _ in range(2):
        evaluate(answer, ROWS, score=lambda row, text: True, out=tmp_path)
    assert len(calls) == 8
    with pytest.raises(ValueError, match="another dataset_sha256"):
        evaluate(answer, ROWS[:3], score=lambda row, text: True, out=tmp_path)


async def test_a_critic_scores_and_other_graphs_stand_beside() -> None:
    """On a running loop, a critic may be the score, and the graph is held against another one of one's own."""

    async def critic(task: str, draft: str, history: Any, /) -> Critique:
        return Critique("", accepted="roof" in draft)

    async def score(row: Any, answer: str) -> bool:
        await asyncio.sleep(0)
        return bool((await critic(row["task"], answer, ())).accepted)

    ledger = await aevaluate(mended(), ROWS, score=score, against={"short": lambda task: "Rain."})
    assert [(row.method, row.accuracy.rate) for row in ledger.methods] == [("mine", 1.0), ("short", 0.0)]


def test_a_writer_of_prompts_gets_a_longer_call_and_a_vote(tmp_path: Path) -> None:
    """Where a model is asked with a prompt, one longer call is a baseline, and where answers can be counted a vote."""
    rows = tmp_path / "sums.jsonl"
    rows.write_text(json.dumps({"question": "What is 2 + 2?", "answer": "#### 4"}) + "\n")
    # The graph's call and its revision; the longer call; four votes.
    model = ScriptedModel(["5", "6", "<think>Two and two.</think>4", "4", "5", "4", "4"])
    graph = build_refine_graph(
        model, critics=[lambda task, draft, history: Critique("No.", accepted=False)], limits={"max_rounds": 1}
    )
    ledger = evaluate(graph, rows, against=["longer-call", "majority-4"], concurrency=1)
    assert {row.method: row.accuracy.rate for row in ledger.methods} == {"refine": 0, "longer-call": 1, "majority-4": 1}


def test_a_gate_tells_a_regression_from_none(tmp_path: Path) -> None:
    """A baseline is written once and read in a diff; later versions held, got worse, or can't be told."""
    rows = [{"task": str(number)} for number in range(120)]

    def right(row: Any, answer: str) -> bool:
        return answer == row["task"]

    path = tmp_path / "baseline.json"
    write_baseline(lambda task: task, rows, path, score=right)
    assert '\n  "1": 1.0,\n' in path.read_text()
    held = gate(lambda task: task, rows, path, score=right)
    worse = gate(lambda task: "no", rows, path, score=right)
    short = gate(lambda task: task, rows[:4], path, score=right)
    assert [(one.verdict, one.exit_code) for one in (held, worse, short)] == [
        ("held", 0),
        ("worse", 1),
        ("can't tell", 3),
    ]
    assert held.n < 120
    assert worse.n < 20
    assert 'failures="1"' in junit_xml(worse)
    assert "<failure" in junit_xml(worse)
    assert "Problems whose score fell" in markdown(worse)
    with pytest.raises(ValueError, match="has none of these problems"):
        gate(lambda task: task, [{"id": "other", "task": "x"}], path, score=right)
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(ValueError, match="is no baseline"):
        gate(lambda task: task, rows, tmp_path / "bad.json", score=right)


def test_a_choice_drops_what_is_behind_and_reports_on_other_rows() -> None:
    """Who is clearly ahead is found before all rows are played, and what it is worth is told on rows kept aside."""
    rows = [{"task": f"Write {number}."} for number in range(90)]
    left: list[int] = []
    choice = choose(
        mended(),
        rows,
        score=lambda row, answer: "roof" in answer,
        also={"no": lambda task: "no"},
        on_progress=lambda n, of, alive, spent: left.append(len(alive)),
    )
    assert choice.chosen == "mine-1"
    assert (choice.held_out, choice.before, choice.after) == (30, 0.0, 1.0)
    dropped = {one.name: one for one in choice.candidates}["one-call"]
    assert "(after" in dropped.dropped
    assert dropped.n < 60
    assert left[0] > left[-1]
    with pytest.raises(ValueError, match="too few to choose by"):
        choose(mended(), rows[:5], score=holds_wanted)


async def test_a_notebook_evaluates_chooses_and_gates(tmp_path: Path) -> None:
    """The plain functions work below a running loop, as in a notebook, where an async score is awaited too."""

    async def right(row: Any, answer: str) -> bool:
        return "roof" in answer

    rows = [{"task": f"Write {number}."} for number in range(6)]
    assert evaluate(mended(), rows, score=right, against=[]).differences[0].after == 1
    assert choose(mended(), rows, score=right).held_out == 2
    write_baseline(mended(), rows, tmp_path / "baseline.json", score=right)
    assert gate(mended(), rows, tmp_path / "baseline.json", score=right).verdict == "can't tell"
