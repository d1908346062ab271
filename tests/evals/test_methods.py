"""The methods that an evaluation compares: which calls each makes, and that gold answers stay out of all of them."""

from __future__ import annotations

import asyncio
import json
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from redraft.evals.datasets.dataset import Dataset, Problem
from redraft.evals.run.methods import KINDS, METHODS, build_method, check_methods, find_method, knows_gold
from redraft.evals.run.run_folder import ResultFile
from redraft.evals.run.runner import run_method
from redraft.graphs.math_problems import FEW_SHOT_PROMPT
from redraft.graphs.preset import Preset
from redraft.graphs.registry import build_preset
from redraft.models import ScriptedModel, chat_model
from redraft.nodes.critics.program_critic import ADOPTED
from redraft.state.threads.kind import kind_of

if TYPE_CHECKING:
    from pathlib import Path

TASK = {"task": "What is 2 + 1?"}
WRONG, RIGHT = "#### 4", "#### 3"
CODE = "print(2 + 1)"
PROGRAM = f"```python\n{CODE}\n```"


def kinds(output: Any) -> list[str]:
    return [event["kind"] for event in output["events"] if event["kind"] != "verdict"]


@pytest.mark.parametrize(
    ("name", "replies", "calls", "answer", "stopped"),
    [
        ("zero-shot", [RIGHT], 1, RIGHT, "max_rounds"),
        ("few-shot", [RIGHT], 1, RIGHT, "max_rounds"),
        ("majority-3", [WRONG, RIGHT, RIGHT], 3, RIGHT, "max_rounds"),
        ("blind-2", [WRONG, RIGHT, RIGHT + "\n"], 3, RIGHT, "max_rounds"),
        ("self-refine-2", [WRONG, "2 + 1 is 3", RIGHT, "SOLUTION_IS_CORRECT"], 4, RIGHT, "accepted"),
        ("program-2", [WRONG, PROGRAM, PROGRAM, PROGRAM, RIGHT], 5, RIGHT, "accepted"),
        ("best-of-3", [WRONG, PROGRAM, PROGRAM, PROGRAM, RIGHT], 5, RIGHT, "accepted"),
        (
            "adaptive",
            [WRONG, PROGRAM, PROGRAM, PROGRAM],
            4,
            ADOPTED.format(count=3, number=3, program=CODE),
            "accepted",
        ),
        ("adaptive", [WRONG, PROGRAM, "no", "no"], 4, WRONG, "no_progress"),
        ("oracle-refine-2", [WRONG, WRONG + " ", RIGHT], 2, WRONG, "no_progress"),
        ("oracle-refine-2", [WRONG, "#### 5", RIGHT], 3, RIGHT, "accepted"),
    ],
)
def test_each_method_makes_the_calls_that_its_name_says(
    name: str, replies: list[str], calls: int, answer: str, stopped: str
) -> None:
    """Baselines ask once or N times without feedback, refining methods go round until accepted or N rounds are up."""
    model = ScriptedModel(replies)
    method = build_method(name, "numeric", model, oracle=lambda task, draft: RIGHT in draft)
    output = asyncio.run(method.graph.ainvoke(TASK))
    assert (len(model.calls), output["answer"].strip(), output["stop_reason"]) == (calls, answer.strip(), stopped)
    assert method.oracle == output["oracle"] == name.startswith("oracle")
    assert (method.name, method.graph.get_name()) == (name, name)


BROKEN = "```python\ndef f():\n    return 2\n```"


@pytest.mark.parametrize(
    ("name", "kind", "task", "replies", "asked"),
    [
        ("few-shot", "numeric", TASK["task"], [RIGHT], "generate"),
        ("majority-2", "numeric", TASK["task"], [RIGHT, RIGHT], "generate"),
        ("blind-1", "numeric", TASK["task"], [WRONG, RIGHT], "generate refine"),
        ("self-refine-1", "numeric", TASK["task"], [WRONG, "Count.", RIGHT, "Yes."], "generate critic refine"),
        ("self-refine-1", "exact", TASK["task"], [WRONG, "Count.", RIGHT, "Yes."], "generate critic refine"),
        ("adaptive", "numeric", TASK["task"], [WRONG, PROGRAM, PROGRAM, PROGRAM], "generate program_1 program_2"),
        ("program-1", "numeric", TASK["task"], [WRONG, PROGRAM, PROGRAM, PROGRAM, RIGHT],
         "generate program_1 program_2 refine_after_programs"),
        ("program-1", "code", "Write f().\nassert f() == 1", [BROKEN, BROKEN + "\n"], "generate refine_after_tests"),
        ("clauses-1", "words", "Use these words: river, lamp", ["A river.", "and a lamp"], "generate clause"),
    ],
)  # fmt: skip
def test_given_prompts_stand_in_for_the_methods_own(
    name: str, kind: Any, task: str, replies: list[str], asked: str
) -> None:
    """Each call asks with the prompt that was given for it; a method given its own prompts is the same run."""
    own = build_method(name, kind, ScriptedModel([]))
    assert build_method(name, kind, ScriptedModel([]), prompts=own.prompts).prompts_sha256 == own.prompts_sha256
    marked = {one: f"{text}\nMARK {one}." for one, text in own.prompts.items()}
    model = ScriptedModel(replies)
    method = build_method(name, kind, model, prompts={**marked, "other": "not of this method"})
    assert method.prompts == marked
    asyncio.run(method.graph.ainvoke({"task": task, "limits": {"max_rounds": method.rounds}}))
    found = [re.findall(r"MARK (\w+)\.", call[-1].text) for call in model.calls]
    assert all(len(names) == 1 for names in found)
    assert list(dict.fromkeys(name for (name,) in found)) == asked.split()


def test_few_shot_shows_worked_examples() -> None:
    """The few-shot baseline asks with examples, the zero-shot one without."""
    model = ScriptedModel([RIGHT])
    build_method("few-shot", "numeric", model).graph.invoke(TASK)
    assert model.calls[0][0].text == FEW_SHOT_PROMPT.format(**TASK)


def test_blind_asks_again_without_feedback_and_goes_on_after_a_repeat() -> None:
    """A blind round shows the earlier answer and no judgement; a repeated answer does not end it."""
    model = ScriptedModel([WRONG, WRONG, RIGHT])
    output = build_method("blind-2", "numeric", model).graph.invoke(TASK)
    assert (len(model.calls), output["answer"]) == (3, RIGHT)
    assert WRONG in model.calls[1][0].text
    assert "eedback" not in model.calls[1][0].text
    assert "critique" not in kinds(output)


def test_clauses_add_words_in_turn_without_feedback() -> None:
    """clauses-N asks for the words of the task in turn, whichever are there already, and tells nothing of them."""
    words = ["lamp", "river", "boat", "rope", "mill", "dog", "hat"]
    task = f"Write one coherent, grammatical sentence that uses all of these words: {', '.join(words)}"
    model = ScriptedModel(["A lamp and a river.", "while a boat has a rope", "and a dog has a hat"])
    output = build_method("clauses-2", "words", model).graph.invoke({"task": task})
    assert output["answer"] == "A lamp and a river, while a boat has a rope, and a dog has a hat."
    assert ["lamp, river, boat, rope, mill" in call[0].text for call in model.calls] == [True, True, False]
    assert "dog, hat, lamp, river, boat" in model.calls[2][0].text
    assert (kinds(output), output["stop_reason"]) == (["task", "draft", "revision", "revision"], "max_rounds")


def test_best_of_samples_are_independent() -> None:
    """Each sample of best-of-N is asked for as the first one was, and sees none of the others."""
    model = ScriptedModel([WRONG, PROGRAM, PROGRAM, PROGRAM, "#### 5", "#### 6"])
    output = build_method("best-of-3", "numeric", model).graph.invoke(TASK)
    assert [model.calls[index][0].text for index in (0, 4, 5)] == [model.calls[0][0].text] * 3
    assert (output["rounds"], output["stop_reason"]) == (2, "max_rounds")


def test_another_model_can_be_the_critic() -> None:
    """With a critic, self-refine is judged by that model."""
    model, critic = ScriptedModel([RIGHT]), ScriptedModel(["SOLUTION_IS_CORRECT"])
    output = build_method("self-refine-3", "numeric", model, critic=critic).graph.invoke(TASK)
    assert (output["stop_reason"], len(model.calls), len(critic.calls)) == ("accepted", 1, 1)


@pytest.mark.parametrize(
    ("kind", "task", "first", "second", "said"),
    [
        (
            "words",
            "Write one coherent, grammatical sentence that uses all of these words: lamp, river",
            "A lamp.",
            "A lamp by the river.",
            "These words are missing: river.",
        ),
        (
            "code",
            "Write a function double(n).\n>>> double(2)\n4",
            "```python\ndef double(n):\n    return n\n```",
            "```python\ndef double(n):\n    return 2 * n\n```",
            "double(2)",
        ),
    ],
)
@pytest.mark.usefixtures("sandbox")
def test_programs_judge_each_kind_by_what_the_task_shows(
    kind: Any, task: str, first: str, second: str, said: str
) -> None:
    """Words that the task names and tests that it shows are checked, and what is wrong is told."""
    model = ScriptedModel([first, second])
    output = build_method("program-2", kind, model).graph.invoke({"task": task})
    assert (output["answer"], output["stop_reason"], len(model.calls)) == (second, "accepted", 2)
    assert said in model.calls[1][0].text


@pytest.mark.parametrize(
    ("names", "kind", "says"),
    [
        (["guess"], "numeric", "there is no method 'guess'; known are zero-shot"),
        (["majority-0"], "numeric", "there is no method 'majority-0'"),
        (["majority-101"], "numeric", "with N from 1 to 100"),
        (["zero-shot", "zero-shot"], "numeric", "zero-shot is named twice"),
        ([], "numeric", "no method is named"),
        (["adaptive"], "exact", "there is none for problems of kind exact"),
        (["clauses-2"], "numeric", "clauses-2 adds words; these problems are of kind numeric"),
        (["few-shot"], "code", "few-shot has worked examples for word problems only"),
        (["majority-3"], "words", "needs answers that can be counted"),
        (["program-3"], "exact", "there is none for problems of kind exact"),
        (["best-of-3"], "exact", "there is none for problems of kind exact"),
    ],
)
def test_a_method_that_makes_no_sense_is_refused(names: list[str], kind: Any, says: str) -> None:
    """A name that is no method, or one that these problems can't be run with, is named before anything is paid."""
    with pytest.raises(ValueError, match=says):
        check_methods(names, kind)


def test_an_oracle_needs_gold_answers() -> None:
    """The oracle can't be built without what it knows."""
    with pytest.raises(ValueError, match="needs the gold answers"):
        build_method("oracle-refine-1", "numeric", ScriptedModel([]))


@pytest.mark.parametrize("name", [name.replace("N", "2") for name in METHODS])
def test_no_prompt_and_no_state_holds_a_gold_answer(name: str) -> None:
    """Whatever the method, the gold answer is in no prompt, no event and no state; the oracle says yes or no only."""
    gold = "271828182"
    data = Dataset("one", "numeric", "0" * 64, (Problem("p", TASK["task"], Decimal(gold)),))
    model = ScriptedModel([WRONG, "Wrong.", "#### 5", "Wrong again.", "#### 6", "Still wrong."])
    kind = "words" if name.startswith("clauses") else "numeric"
    method = build_method(name, kind, model, oracle=knows_gold(data))  # type: ignore[arg-type]
    output = asyncio.run(method.graph.ainvoke(TASK))
    seen = [str(message.content) for call in model.calls for message in call]
    assert not [text for text in seen if gold in text]
    assert gold not in json.dumps(output)
    assert method.oracle == output["oracle"]


def test_the_hash_of_the_prompts_tells_methods_apart() -> None:
    """Two methods that ask differently have different hashes, and the same method always the same one."""
    hashes = {
        name: build_method(name, "numeric", ScriptedModel([])).prompts_sha256 for name in ("zero-shot", "few-shot")
    }
    assert len(set(hashes.values())) == 2
    assert hashes["zero-shot"] == build_method("zero-shot", "numeric", ScriptedModel([])).prompts_sha256


@pytest.mark.parametrize("name", ["majority-3", "best-of-3"])
@pytest.mark.usefixtures("sandbox")
def test_samples_of_a_seeded_model_differ(serve: Any, name: str) -> None:
    """With --seed each sample of each problem has a seed of its own, and the same one again in another run: with one
    seed for all, a server repeats a reply, and a thousand problems share the luck of one first word."""
    server = serve(lambda request: f"seed {request['seed']}\n#### {request['seed']}")
    model = chat_model(server.spec, seed=40, temperature=0.9)
    graph = build_method(name, "numeric", model).graph
    for task in (TASK, {**TASK, "task": "What is 3 + 4?"}, TASK):
        asyncio.run(graph.ainvoke(task))
    drafts: dict[str, set[int]] = {}
    for request in server.requests:
        prompt = str(request["messages"])
        if "code block" not in prompt:  # as the programs' have, which may be asked for before the draft arrives
            drafts.setdefault(prompt, set()).add(request["seed"])
    first, second = drafts.values()
    assert len(first) == len(second) == 3
    assert not first & second


@pytest.mark.parametrize(
    ("name", "options", "replies", "calls"),
    [
        ("math", {}, [RIGHT, PROGRAM], 2),
        ("reasoning", {"iterations": 1}, [WRONG, "Count again.", RIGHT], 3),
        (
            "branching",
            {"branching_factor": 2, "depth": 0, "max_concurrency": 1},
            [WRONG, "Wrong.", RIGHT, "No issues"],
            4,
        ),
    ],
)
@pytest.mark.usefixtures("sandbox")
def test_a_preset_is_a_method_by_its_name(
    name: str, options: dict[str, Any], replies: list[str], calls: int, tmp_path: Path
) -> None:
    """Each preset runs on a dataset with its options, and its result is read like any other method's."""
    data = Dataset("one", "numeric", "0" * 64, (Problem("p", TASK["task"], Decimal(3)),))
    model = ScriptedModel(replies)
    method = build_method(name, "numeric", model, **options)
    assert (method.name, method.rounds, method.oracle, list(method.prompts)) == (name, None, False, ["fingerprint"])
    with ResultFile(tmp_path / "results.jsonl") as results:
        asyncio.run(run_method(method, data, results, concurrency=1, run_id="1"))
    [record] = results.records.values()
    assert (record.error, record.is_correct, len(model.calls)) == (None, True, calls)
    other = build_method(name, "numeric", ScriptedModel([]), **{**options, "memory": "last"})
    assert other.prompts_sha256 != build_method(name, "numeric", ScriptedModel([]), **options).prompts_sha256


@pytest.mark.parametrize(("name", "kind"), [("zero-shot", "numeric"), ("few-shot", "numeric"), ("majority-3", "exact")])
def test_a_baseline_is_the_preset_of_its_name(name: str, kind: Any) -> None:
    """`eval --methods majority-3` runs the graph of `run --graph majority-3`, with the prompt for this kind."""
    method = build_method(name, kind, ScriptedModel([]))
    preset = build_preset(name, ScriptedModel([]), generate_prompt=method.prompts["generate"])
    assert kind_of(method.graph).fingerprint == kind_of(preset).fingerprint
    assert method.graph.get_name() == preset.get_name() == name


def test_one_lookup_finds_methods_and_presets() -> None:
    """The evaluation's own method comes before a preset of the same name; what neither is lists both."""
    assert find_method("zero-shot")[0] is KINDS["zero-shot"]
    assert find_method("majority-7") == (KINDS["majority-N"], 7)
    preset, _ = find_method("rubric")
    assert isinstance(preset, Preset)
    with pytest.raises(
        ValueError, match=r"there is no method 'pipeline'; known are zero-shot.*, and the graphs refine"
    ):
        find_method("pipeline")
