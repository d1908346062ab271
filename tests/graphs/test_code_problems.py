"""The preset `code`: which calls happen, and what a model gets to see."""

from __future__ import annotations

import asyncio
import importlib.util
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from redraft.evals import passes_hidden_tests
from redraft.graphs.code_problems import CODE_CRITIC_PROMPT, build_code_graph, code_task, read_code
from redraft.models import ScriptedModel, chat_model
from redraft.models.weights import smollm2_path
from redraft.nodes.critics.critics import human_critic, model_critic
from redraft.sandbox import Sandbox
from redraft.state import Critique

ROW = {
    "task_id": "redraft/0",
    "prompt": 'def clamp(x, low, high):\n    """Move x into the range.\n    >>> clamp(5, 0, 3)\n    3\n'
    '    >>> clamp(2, 0, 3)\n    2\n    """\n',
    "entry_point": "clamp",
    "canonical_solution": "    return sorted((low, x, high))[1]\n",
    "test": "def check(candidate):\n    assert candidate('quokka', 'ant', 'numbat') == 'numbat'\n"
    "    assert candidate(9, 9, 9) == 9\n",
}
RIGHT = "```python\ndef clamp(x, low, high):\n    return max(low, min(x, high))\n```"
WRONGS = [f"```python\ndef clamp(x, low, high):\n    return max(x, high) + {n}\n```" for n in range(1, 4)]
WRONG = "```python\ndef clamp(x, low, high):\n    return max(x, high)\n```"
UNTESTED = "Write a function called twice that doubles its argument."
TWICE = "```python\ndef twice(x):\n    return 2 * x\n```"


def test_code_that_passes_its_examples_costs_one_call(run: Any, sandbox: Sandbox) -> None:
    """Where the tests accept, no model judges; the answer is the reply as it was written."""
    model = ScriptedModel([RIGHT])
    output = run(build_code_graph(model, sandbox=sandbox), {"task": code_task(ROW)})

    assert (output["answer"], output["stop_reason"], output["accepted_by"]) == (RIGHT, "accepted", "visible_tests")
    assert len(model.calls) == 1
    assert read_code(output["answer"]) == "def clamp(x, low, high):\n    return max(low, min(x, high))"


def test_failures_are_the_feedback(run: Any, sandbox: Sandbox) -> None:
    """After three samples that fail too, the refiner reads which example failed, what was expected and what came."""
    model = ScriptedModel([WRONG, *WRONGS, RIGHT])
    output = run(build_code_graph(model, sandbox=sandbox), {"task": code_task(ROW)})

    asked = [call[0].text for call in model.calls]
    assert asked[:4] == asked[:1] * 4  # fresh samples, which see nothing of what failed
    assert len(asked) == 5
    assert "clamp(5, 0, 3) should give 3, but gives 5" in asked[4]
    assert "return max(x, high)" not in asked[4]  # shown it, a small model writes it again
    verdicts = [event for event in output["events"] if event["kind"] == "critique"]
    assert [(event["accepted"], event["score"], event["verifier"]) for event in verdicts] == [
        *[(False, 0.0, True)] * 4,
        (True, 1.0, True),
    ]
    chosen = [event["text"] for event in output["events"] if event["kind"] == "verdict"]
    assert chosen[0] == "Next: sample, the first way to try."
    assert chosen[3] == "Next: repair, after sample (3 in vain)."


def test_a_prompt_of_ones_own_serves_every_revision(run: Any, sandbox: Sandbox) -> None:
    """A user's `refine_prompt` is asked for every repair, whoever objected, with whatever it names."""
    model = ScriptedModel([WRONG, *WRONGS, RIGHT])
    run(build_code_graph(model, sandbox=sandbox, refine_prompt="Mend {draft}\n{feedback}"), {"task": code_task(ROW)})
    assert [call[0].text.startswith(f"Mend {WRONG}\n") for call in model.calls].index(True) == 4


def test_no_hidden_test_and_no_solution_reaches_a_prompt_or_the_record(run: Any, sandbox: Sandbox) -> None:
    """What measures a model is never seen by it: not in a request, not in the state, not in a checkpoint."""
    model = ScriptedModel([WRONG, "I give up.", WRONG.replace("max(x, high)", "x - 2"), RIGHT])
    graph = build_code_graph(model, sandbox=sandbox, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    output = run(graph, {"task": code_task(ROW), "limits": {"max_rounds": 5}}, config)
    assert passes_hidden_tests(ROW, output["answer"], sandbox).ok

    seen = [message.text for call in model.calls for message in call]
    seen += [repr(output), *(repr(snapshot) for snapshot in graph.get_state_history(config))]
    secrets = [line.strip() for key in ("test", "canonical_solution") for line in ROW[key].splitlines()]
    assert len(model.calls) == 4
    assert not [(secret, text) for secret in [*secrets, "quokka", "candidate"] for text in seen if secret in text]


def test_a_task_without_tests_keeps_its_first_draft(run: Any, sandbox: Sandbox) -> None:
    """That code runs accepts nothing, and nobody else is asked: the draft stands as it is, after one call."""
    model = ScriptedModel([TWICE])
    output = run(build_code_graph(model, sandbox=sandbox), {"task": UNTESTED})
    assert (output["answer"], output["stop_reason"], output["accepted_by"]) == (TWICE, "no_progress", None)
    assert len(model.calls) == 1


def test_with_a_prompt_for_it_the_model_judges_its_own_code(run: Any, sandbox: Sandbox) -> None:
    """`critic_prompt=` has the model asked where no test can tell; what it found is what a repair reads."""
    others = [TWICE.replace("2 * x", f"{n} * x") for n in (3, 4, 5)]
    judged = [reply for one in [TWICE, *others] for reply in (one, "It fails for text.")]
    model = ScriptedModel([*judged, TWICE.replace("2 * x", "x + x"), "CODE_IS_CORRECT"])
    graph = build_code_graph(model, sandbox=sandbox, critic_prompt=CODE_CRITIC_PROMPT.replace("TESTS", ""))
    output = run(graph, {"task": UNTESTED})

    assert len(model.calls) == 10
    assert "It fails for text." in model.calls[8][0].text
    assert "return 2 * x" in model.calls[8][0].text  # an opinion is about the code
    assert (output["stop_reason"], output["accepted_by"]) == ("accepted", "self (uncalibrated)")


def test_code_that_does_not_run_is_not_shown_to_a_judge(run: Any, sandbox: Sandbox) -> None:
    """A program rejects what does not run, so no call is spent on judging it."""
    model = ScriptedModel(["```python\ndef twice(x:\n```", TWICE])
    judge = ScriptedModel(["CODE_IS_CORRECT"])
    critics = [model_critic(judge, stop_phrase="CODE_IS_CORRECT", name="judge")]
    output = run(build_code_graph(model, sandbox=sandbox, critics=critics), {"task": UNTESTED})

    assert (len(model.calls), len(judge.calls), output["accepted_by"]) == (2, 1, "judge")
    assert "SyntaxError" in next(event["text"] for event in output["events"] if event["kind"] == "critique")


def test_a_judge_can_be_asked_beside_the_tests(run: Any, sandbox: Sandbox) -> None:
    """With `critics_after="always"` both must accept; any callable can judge, async or not."""

    async def brief(task: str, draft: str, history: Any) -> Critique:
        return Critique("Shorter, please.", accepted="sorted" not in draft)

    model = ScriptedModel([RIGHT.replace("max(low, min(x, high))", "sorted((low, x, high))[1]"), RIGHT])
    graph = build_code_graph(model, sandbox=sandbox, critics=[brief], critics_after="always")
    output = run(graph, {"task": code_task(ROW)})
    assert (len(model.calls), output["accepted_by"]) == (2, "visible_tests, brief")

    model = ScriptedModel([TWICE])
    output = run(build_code_graph(model, sandbox=sandbox, critics=[brief]), {"task": UNTESTED})
    assert (len(model.calls), output["accepted_by"]) == (1, "brief")


def test_a_person_is_asked_whatever_the_tests_say(run: Any, sandbox: Sandbox) -> None:
    """People are not stood in for."""
    graph = build_code_graph(
        ScriptedModel([RIGHT]), sandbox=sandbox, critics=[human_critic()], checkpointer=InMemorySaver()
    )
    paused = run(graph, {"task": code_task(ROW)}, {"configurable": {"thread_id": "1"}})
    assert paused["__interrupt__"][0].value["draft"] == RIGHT


def test_given_tests_are_shown_and_run(run: Any, sandbox: Sandbox) -> None:
    """Tests given at build stand in every prompt, braces and all, and decide."""
    tests = "assert count('aab') == {'a': 2, 'b': 1}"
    model = ScriptedModel(
        [
            "```python\ndef count(text):\n    return {}\n```",
            "```python\ndef count(text):\n    return {sign: text.count(sign) for sign in text}\n```",
        ]
    )
    output = run(build_code_graph(model, tests=tests, sandbox=sandbox), {"task": "Count the letters."})
    assert output["stop_reason"] == "accepted"
    assert all(tests in call[0].text for call in model.calls)


def test_one_graph_streams_tasks_of_several_kinds_at_once(sandbox: Sandbox) -> None:
    """A graph holds nothing of a task: several run at once, and progress is streamed."""

    def reply(messages: Any) -> str:
        return RIGHT if "clamp" in messages[0].text else "```python\ndef add(a, b):\n    return a + b\n```"

    graph = build_code_graph(ScriptedModel([reply] * 6), sandbox=sandbox)

    async def streamed(task: str) -> list[Any]:
        return [part async for part in graph.astream({"task": task}, stream_mode="custom")]

    async def all_at_once() -> list[list[Any]]:
        return await asyncio.gather(*(streamed(task) for task in [code_task(ROW), "assert add(1, 2) == 3"] * 3))

    for parts in asyncio.run(all_at_once()):
        assert parts[-1]["stop_reason"] == "accepted"


def test_build_errors_name_the_argument(sandbox: Sandbox) -> None:
    """What can't work is refused when the graph is built."""
    model = ScriptedModel([])
    with pytest.raises(ValueError, match="tests must hold an assert"):
        build_code_graph(model, tests="x = 1", sandbox=sandbox)
    with pytest.raises(ValueError, match="entry_point must be the name of a function, not 'a b'"):
        build_code_graph(model, entry_point="a b", sandbox=sandbox)
    with pytest.raises(ValueError, match="critic_prompt="):
        build_code_graph(model, critics=[], critic_prompt="{task}", sandbox=sandbox)
    with pytest.raises(TypeError, match="a critic is a callable"):
        build_code_graph(model, critics=["self"], sandbox=sandbox)


@pytest.mark.slow
@pytest.mark.embedded
@pytest.mark.skipif(not importlib.util.find_spec("xllamacpp"), reason="the local extra is not installed")
def test_the_embedded_model_writes_something_that_is_run(sandbox: Sandbox) -> None:
    """The preset works on the smallest model, right or wrong."""
    smollm2_path()
    graph = build_code_graph(chat_model("local", max_output_tokens=200), sandbox=sandbox)
    output = graph.invoke({"task": code_task(ROW), "limits": {"max_rounds": 1}})
    assert output["answer"]
    # The tests can't tell where the code that it wrote needs what the sandbox does not have.
    assert {event["by"] for event in output["events"] if event["kind"] == "critique"} <= {"visible_tests"}
