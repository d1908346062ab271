"""The math preset and its baselines: which calls happen, and what is accepted."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from typing import Any

import pytest
from redraft.graphs.math_problems import (
    FEW_SHOT_PROMPT,
    MATH_CRITIC_PROMPT,
    MATH_GENERATE_PROMPT,
    build_few_shot_graph,
    build_majority_graph,
    build_math_graph,
    build_zero_shot_graph,
)
from redraft.models import ScriptedModel, chat_model
from redraft.nodes import extract_number
from redraft.state import Thread, open_checkpointer

TASK = "Ann has 2 bags of 3 nuts and eats one nut. How many are left?"
WRONG, RIGHT = "2 * 3 = 6\n#### 6", "2 * 3 = 6, 6 - 1 = 5\n#### 5"
PROGRAM = "```python\nprint(2 * 3 - 1)\n```"
BASELINES = {
    "zero-shot": (build_zero_shot_graph, MATH_GENERATE_PROMPT),
    "few-shot": (build_few_shot_graph, FEW_SHOT_PROMPT),
}


def kinds(output: Any) -> list[tuple[str, str]]:
    return [(event["kind"], event["by"]) for event in output["events"]]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["invoke", "ainvoke"])
def test_a_program_that_disagrees_brings_the_solution_back_and_agreement_accepts(asynchronous: bool) -> None:
    """By default a wrong solution meets programs, is revised with one in sight, and is accepted when it agrees."""
    model = ScriptedModel([WRONG, PROGRAM, PROGRAM, RIGHT])
    graph = build_math_graph(model)
    output = asyncio.run(graph.ainvoke({"task": TASK})) if asynchronous else graph.invoke({"task": TASK})

    assert (output["answer"], output["stop_reason"], output["rounds"]) == (RIGHT, "accepted", 1)
    assert output["accepted_by"] == "program"
    assert [by for kind, by in kinds(output) if kind == "critique"] == ["program", "program"]
    drafting, programming, _, revising = ("".join(message.text for message in call) for call in model.calls)
    assert drafting == MATH_GENERATE_PROMPT.format(task=TASK)
    assert WRONG not in programming
    for seen in (TASK, "The solution says 6", "give 5", "print(2 * 3 - 1)"):
        assert seen in revising
    assert WRONG not in revising  # shown it beside a program, a small model writes it again
    assert [event["usage"]["calls"] for event in output["events"]] == [0, 1, 2, 0, 1, 0, 0]


def test_where_nothing_is_accepted_the_majority_answers() -> None:
    """After one revision and one sample in vain the run ends, and the number that most drafts gave is the answer."""
    model = ScriptedModel([WRONG, PROGRAM, PROGRAM, "#### 7", "Seven.\n#### 7.0"])
    output = build_math_graph(model).invoke({"task": TASK})
    assert (output["stop_reason"], output["rounds"], output["accepted_by"]) == ("max_rounds", 2, None)
    assert extract_number(output["answer"]) == 7
    verdicts = [event for event in output["events"] if event["kind"] == "verdict"]
    assert [verdict.get("choice", {}).get("arm") for verdict in verdicts] == ["revise", "sample", None]


def test_where_no_programs_agree_a_fresh_sample_is_asked_first() -> None:
    """A draft that one program contradicts is left alone: a sample is written, and agreement accepts it."""
    model = ScriptedModel([WRONG, PROGRAM, "```python\nprint(8)\n```", RIGHT])
    output = build_math_graph(model).invoke({"task": TASK})
    assert (output["answer"], output["stop_reason"], len(model.calls)) == (RIGHT, "accepted", 4)
    assert model.calls[3][0].text == MATH_GENERATE_PROMPT.format(task=TASK)


def test_self_is_the_published_method() -> None:
    """With `critic="self"` the same model replies SOLUTION_IS_CORRECT or names the errors, up to a limit."""
    model = ScriptedModel([WRONG, "One nut was eaten.", RIGHT, "**solution_is_correct**."])
    output = build_math_graph(model, critic="self").invoke({"task": TASK})
    assert (output["answer"], output["stop_reason"], output["accepted_by"]) == (
        RIGHT,
        "accepted",
        "self (uncalibrated)",
    )
    assert model.calls[1][0].text == MATH_CRITIC_PROMPT.format(task=TASK, draft=WRONG)
    assert "One nut was eaten." in model.calls[2][0].text


@pytest.mark.parametrize("said", ["SOLUTION_IS_CORRECT, except for the last step.", "Not SOLUTION_IS_CORRECT", ""])
def test_the_phrase_inside_a_sentence_accepts_nothing(said: str) -> None:
    """A judge that quotes the phrase while it objects has not accepted."""
    model = ScriptedModel([WRONG, said, RIGHT, "SOLUTION_IS_CORRECT"])
    output = build_math_graph(model, critic="self").invoke({"task": TASK})
    assert (output["answer"], output["rounds"]) == (RIGHT, 1)


def test_another_model_can_judge() -> None:
    """`critic=` takes another model, which alone is asked about the solution."""
    writer, judge = ScriptedModel([WRONG, RIGHT]), ScriptedModel(["Wrong.", "SOLUTION_IS_CORRECT"], model_name="judge")
    output = build_math_graph(writer, critic=judge).invoke({"task": TASK})
    assert output["accepted_by"] == "judge"
    assert (len(writer.calls), len(judge.calls)) == (2, 2)


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_is_one_call_with_the_same_output(name: str) -> None:
    """Zero-shot and few-shot are graphs of one call, whose output has every key that the loop's has."""
    build, prompt = BASELINES[name]
    model = ScriptedModel([WRONG])
    output = build(model).invoke({"task": TASK})
    assert [call[0].text for call in model.calls] == [prompt.format(task=TASK)]
    assert (output["answer"], output["rounds"], output["accepted_by"]) == (WRONG, 0, None)
    refined = build_math_graph(ScriptedModel([RIGHT, PROGRAM])).invoke({"task": TASK})
    assert output.keys() == refined.keys()


def test_majority_n_is_n_calls_and_one_vote() -> None:
    """`samples=3` asks three times, and the most frequent answer wins; the tokens of all are counted."""
    model = ScriptedModel([{"text": text, "input_tokens": 7, "output_tokens": 3} for text in (WRONG, RIGHT, RIGHT)])
    output = build_majority_graph(model, samples=3).invoke({"task": TASK})
    assert output["answer"] == RIGHT
    assert (output["usage"]["calls"], output["usage"]["total_tokens"]) == (3, 30)


def test_a_math_run_forks_like_any_other() -> None:
    """A preset has checkpoints and forks: a person's word in place of the critic's leads to another revision."""
    model = ScriptedModel([WRONG, PROGRAM, PROGRAM, RIGHT, "6 - 1 = 5 nuts\n#### 5", PROGRAM])
    with open_checkpointer("memory") as saver:
        graph = build_math_graph(model, checkpointer=saver)
        graph.invoke({"task": TASK}, {"configurable": {"thread_id": "t"}})
        branch = Thread(graph, "t").fork(at=0, feedback="Ann ate one.")
        assert branch.resume()["answer"] == "6 - 1 = 5 nuts\n#### 5"
        assert "Ann ate one." in model.calls[4][0].text
        assert WRONG in model.calls[4][0].text  # a person's word is about the draft
        assert Thread(graph, "t").replay().matches


def test_what_makes_no_sense_is_refused_at_build() -> None:
    """An unknown critic is named, with what is known; a prompt that nobody would read is refused."""
    with pytest.raises(ValueError, match="nothing here would read it"):
        build_math_graph(ScriptedModel([]), critic_prompt="{draft}?")
    with pytest.raises(ValueError, match="not None"):
        build_math_graph(ScriptedModel([]), critic=None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="critic must be 'program', 'self', a chat model or a critic, not 'oracle'"):
        build_math_graph(ScriptedModel([]), critic="oracle")  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.embedded
@pytest.mark.skipif(not importlib.util.find_spec("xllamacpp"), reason="the local extra is not installed")
def test_it_runs_on_the_embedded_model() -> None:
    """Without any key a word problem gets an answer and a stop reason, right or wrong."""
    model = chat_model("local", temperature=0, max_output_tokens=30)
    output = build_math_graph(model).invoke({"task": TASK, "limits": {"max_rounds": 1}})
    assert output["answer"]
    assert output["stop_reason"] in ("accepted", "max_rounds", "no_progress")


async def test_a_vote_reads_each_reply_once_and_beside_the_event_loop() -> None:
    """Long replies hold up nobody: they are read in another thread, and equal ones once."""
    read: list[tuple[str, bool]] = []

    def last_word(text: str) -> str:
        read.append((text, threading.current_thread() is threading.main_thread()))
        return text.rsplit(maxsplit=1)[-1]

    graph = build_majority_graph(ScriptedModel(["It is 4", "It is 5", "It is 4"]), samples=3, read_answer=last_word)
    assert (await graph.ainvoke({"task": "2 + 2?"}))["answer"] == "It is 4"
    assert sorted(read) == [("It is 4", False), ("It is 5", False)]
