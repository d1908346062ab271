"""The math preset and its baselines: which calls happen, and what is accepted."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from redraft import human_critic
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

if TYPE_CHECKING:
    from pathlib import Path

TASK = "Ann has 2 bags of 3 nuts and eats one nut. How many are left?"
WRONG, RIGHT = "2 * 3 = 6\n#### 6", "2 * 3 = 6, 6 - 1 = 5\n#### 5"
PROGRAM = "```python\nprint(2 * 3 - 1)\n```"
BASELINES = {
    "zero-shot": (build_zero_shot_graph, MATH_GENERATE_PROMPT),
    "few-shot": (build_few_shot_graph, FEW_SHOT_PROMPT),
}


def kinds(output: Any) -> list[tuple[str, str]]:
    return [(event["kind"], event["by"]) for event in output["events"]]


def test_the_number_on_which_programs_agree_is_taken_and_nobody_is_asked() -> None:
    """A wrong solution meets three programs, and the answer is their number, with one of them to look at."""
    model = ScriptedModel([WRONG, PROGRAM, PROGRAM, PROGRAM])
    output = asyncio.run(build_math_graph(model).ainvoke({"task": TASK}))
    said = "3 programs, written for this problem without seeing a solution, give 5. The last of them:"
    assert output["answer"] == f"{said}\n{PROGRAM}\n#### 5"
    assert (output["stop_reason"], output["rounds"], output["accepted_by"]) == ("accepted", 1, "program")
    drafting, programming, *_ = ("".join(message.text for message in call) for call in model.calls)
    assert drafting == MATH_GENERATE_PROMPT.format(task=TASK)
    assert WRONG not in programming
    assert [event["usage"]["calls"] for event in output["events"]] == [0, 1, 3, 0, 0, 0, 0]

    # However much of it the feedback has quoted: no model talks there.
    for size in range(2, 20):
        steps = "\n".join(f"# nuts_{number} = bag_{number} * size_{number} + more_{number}" for number in range(size))
        program = PROGRAM.replace("print", f"{steps}\nprint")
        output = build_math_graph(ScriptedModel([WRONG, program, program, program])).invoke({"task": TASK})
        assert (extract_number(output["answer"]), output["stop_reason"]) == (5, "accepted"), size


def test_a_prompt_of_ones_own_for_revisions_is_asked_with() -> None:
    """Who says how to revise after programs gets a revision by the model, which is accepted when it agrees."""
    prompt = "{task} A program says otherwise: {feedback}"
    model = ScriptedModel([WRONG, PROGRAM, PROGRAM, PROGRAM, RIGHT])
    output = build_math_graph(model, evidence_prompt=prompt).invoke({"task": TASK})
    assert (output["answer"], output["stop_reason"], output["rounds"]) == (RIGHT, "accepted", 1)
    revising = model.calls[4][0].text
    for seen in (TASK, "The solution says 6", "give 5", "print(2 * 3 - 1)"):
        assert seen in revising
    assert WRONG not in revising  # shown it beside a program, a small model writes it again

    # An answer that is to meet more than a number is written by the model, too.
    model = ScriptedModel([WRONG, PROGRAM, PROGRAM, PROGRAM, RIGHT])
    assert build_math_graph(model).invoke({"task": TASK, "require": ["Name Ann."]})["answer"] == RIGHT
    for seen in ("give 5", "Name Ann."):
        assert seen in model.calls[4][0].text


def test_where_nothing_is_accepted_the_majority_answers() -> None:
    """A number that leads by one vote is the answer, and is not called accepted; of equals the draft stands."""
    other, third = "```python\nprint(8)\n```", "```python\nprint(9)\n```"
    for programs, answer in (
        ([PROGRAM, other, PROGRAM], 5),
        ([PROGRAM, other, third], 6),
        ([other, PROGRAM, other], 8),
    ):
        output = build_math_graph(ScriptedModel([WRONG, *programs])).invoke({"task": TASK})
        assert (output["stop_reason"], output["accepted_by"]) == ("no_progress", None)
        assert extract_number(output["answer"]) == answer
    verdict = build_math_graph(ScriptedModel([WRONG, PROGRAM, other, third])).invoke({"task": TASK})["events"][-1]
    assert verdict["text"] == "Nothing is worth a try after what was said about the draft, so the best one stands."


def test_a_person_is_asked_where_no_number_leads_by_two() -> None:
    """Programs decide what they can, as without a person; the others are left to whoever is asked at the end."""
    critic: Any = ["program", human_critic(ask="unaccepted")]
    config: Any = {"configurable": {"thread_id": "t"}}
    for replies, accepted_by in (
        ([RIGHT, PROGRAM], "program"),
        ([WRONG, PROGRAM, PROGRAM, PROGRAM], "program"),
        ([WRONG, "```python\nprint(8)\n```", PROGRAM, "```python\nprint(9)\n```"], None),
    ):
        graph = build_math_graph(ScriptedModel(replies), critic=critic, checkpointer=InMemorySaver())
        output = graph.invoke({"task": TASK}, config)
        assert output.get("accepted_by") == accepted_by
        assert ("__interrupt__" in output) == (accepted_by is None)
    assert Thread(graph, "t").answer(accept=True)["accepted_by"] == "human"


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
    model = ScriptedModel([WRONG, PROGRAM, PROGRAM, PROGRAM, "6 - 1 = 5 nuts\n#### 5"])
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


class Together(ScriptedModel):
    """A scripted model whose first two async calls answer only once both have begun."""

    both: Any = None

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        self.both = self.both or asyncio.Barrier(2)
        result = self._generate(messages, stop, None, **kwargs)
        if len(self.calls) <= 2:
            await self.both.wait()
        return result


PEARS: Any = {"task": "Ann has 3 bags of 4 pears. How many pears is that?"}
TWELVE = "```python\nprint(3 * 4)\n```"


def test_the_first_program_is_written_beside_the_draft() -> None:
    """In an async run neither waits for the other, nothing more is asked, and its words are not streamed."""

    async def run() -> tuple[Any, str]:
        graph = build_math_graph(Together(["3 * 4 = 12", TWELVE]))
        said, output = "", {}
        async for mode, item in graph.astream(PEARS, stream_mode=["messages", "values"]):
            said += item[0].text if mode == "messages" else ""
            output = item if mode == "values" else output
        return output, said

    output, said = asyncio.run(run())
    in_turn = build_math_graph(ScriptedModel(["3 * 4 = 12", TWELVE])).invoke(PEARS)
    assert (output["answer"], output["stop_reason"], "print" in said) == ("3 * 4 = 12", "accepted", False)
    for one, other in zip(output["events"], in_turn["events"], strict=True):
        apart = {"at", "prev", "usage"}
        assert {key: one[key] for key in one.keys() - apart} == {key: other[key] for key in other.keys() - apart}
        assert one.get("usage", {}).get("total_tokens") == other.get("usage", {}).get("total_tokens")


def test_a_program_written_ahead_is_kept_with_the_draft(tmp_path: Path) -> None:
    """A run that is stopped before it is judged goes on elsewhere without asking for the program again."""
    config: Any = {"configurable": {"thread_id": "t"}}

    async def run(model: Any, task: Any, **how: Any) -> Any:
        async with open_checkpointer(tmp_path / "runs.sqlite") as saver:
            return await build_math_graph(model, checkpointer=saver).ainvoke(task, config, **how)

    asyncio.run(run(Together(["3 * 4 = 12", TWELVE]), PEARS, interrupt_before=["feedback"]))
    output = asyncio.run(run(ScriptedModel([]), None))
    assert (output["stop_reason"], output["usage"]["calls"]) == ("accepted", 2)


def test_what_is_asked_ahead_costs_nothing_that_is_not_counted() -> None:
    """With a budget the draft comes first; a program beside a draft that came to nothing is counted with it."""
    budget = {"limits": {"max_tokens": 10_000}}
    model = ScriptedModel(["3 * 4 = 12", TWELVE])
    assert asyncio.run(build_math_graph(model).ainvoke(PEARS | budget))["stop_reason"] == "accepted"
    refused = ScriptedModel(["I'm sorry, I can't help with that.", TWELVE, "3 * 4 = 12", TWELVE])
    output = asyncio.run(build_math_graph(refused).ainvoke(PEARS))
    assert (output["stop_reason"], output["usage"]["calls"]) == ("accepted", 4)
    assert [event["kind"] for event in output["events"][:3]] == ["task", "draft", "thought"]
    with pytest.raises(ValueError, match="came back empty") as raised:
        asyncio.run(build_math_graph(ScriptedModel(["", TWELVE])).ainvoke(PEARS))
    assert raised.value.redraft_usage["calls"] == 2
