"""Graphs and critics within Inspect, which runs them itself: its mock model, its sandbox, its logs."""

from __future__ import annotations

import gc
import warnings
from typing import TYPE_CHECKING, Any

import pytest
from inspect_ai import Task
from inspect_ai import eval as inspect_eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, system_message
from inspect_ai.util import sandbox
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from redraft import Critique, build_refine_graph, human_critic, uses_words
from redraft.evals.inspect import critic_scorer, graph_solver
from redraft.evals.logs.registry import Naming, read_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# What the package leaves open, or calls that is to go, is no failure here.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
RAIN = "Write about rain."


@pytest.fixture(autouse=True)
def _nothing_left_open() -> Iterator[None]:
    """Collect the streams that Inspect leaves open, so that no later test is blamed for them."""
    yield
    with warnings.catch_warnings(action="ignore"):
        gc.collect()


def evaluated(tmp_path: Path, solver: Any, *replies: str, rows: Any = (), **task: Any) -> Any:
    """Return the log of an evaluation whose model says these replies, at ten tokens each."""
    outputs = [ModelOutput.from_content("mockllm/model", reply) for reply in replies]
    for output in outputs:
        output.usage = ModelUsage(input_tokens=7, output_tokens=3, total_tokens=10)
    named = Task([*rows] or [Sample(id="one", input=RAIN, target="falls")], solver=solver, **task)
    model = get_model("mockllm/model", custom_outputs=outputs)
    options: dict[str, Any] = {"log_dir": str(tmp_path), "display": "none", "max_samples": 1, "fail_on_error": False}
    (log,) = inspect_eval(named, model=model, **options)
    return log


def refining(**options: Any) -> Any:
    """Return a graph on the model that Inspect evaluates."""
    return build_refine_graph(ChatOpenAI(model="inspect", api_key="none"), **options)  # type: ignore[arg-type]


def test_a_graph_answers_samples_with_the_model_that_is_evaluated(tmp_path: Path) -> None:
    """Inspect asks its own model, counts its tokens, scores each draft, and `redraft report` reads what a round did."""
    solver = graph_solver(refining(verifiers=[uses_words("roof")], name="rain"))
    scorers = [includes(), critic_scorer(uses_words("roof"), name="roof")]
    log = evaluated(tmp_path, solver, "Rain falls.", "Rain falls on the roof.", scorer=scorers)
    (sample,) = log.samples
    assert (log.status, sample.output.completion) == ("success", "Rain falls on the roof.")
    assert {name: score.value for name, score in sample.scores.items()} == {"includes": "C", "roof": "C"}
    told = sample.metadata["redraft"]
    assert (told["stop_reason"], told["accepted_by"], told["tokens"]) == ("accepted", "uses_words", [10, 10])
    assert sum(used.total_tokens for used in sample.model_usage.values()) == 20
    for scorer, first in (("includes", True), ("roof", False)):
        (run,) = read_log(log.location, Naming(right_field=scorer)).runs
        (record,) = run.records
        drafts = [one for one in record.iterations_log if one.type != "feedback"]
        assert [(one.is_correct, one.tokens_used) for one in drafts] == [(first, 10), (True, 10)]
        assert not record.oracle


def test_an_agent_is_refined_in_the_sandbox_of_a_sample(tmp_path: Path) -> None:
    """An agent's answers are judged by a critic that runs them in Inspect's sandbox, and it is told what came out."""

    async def runs(task: str, draft: str, history: Any) -> Critique:
        result = await sandbox().exec(["python3", "-c", draft])
        return Critique(result.stderr[-200:], accepted=result.success)

    solver = graph_solver(create_agent(ChatOpenAI(model="inspect", api_key="none")), critics=[runs])  # type: ignore[arg-type]
    programs = "print(1 / 0)", "print(1)"
    log = evaluated(tmp_path, solver, *programs, scorer=critic_scorer(runs), sandbox="local")
    (sample,) = log.samples
    assert (sample.output.completion, sample.scores["runs"].value) == ("print(1)", "C")
    assert "ZeroDivisionError" in str(sample.events)


@pytest.mark.parametrize(
    ("critic", "expected", "explanation"),
    [
        (uses_words("roof"), "I", "roof"),
        (lambda task, draft, history: Critique("Nearly.", score=0.75), 0.75, "Nearly."),
        (lambda task, draft: None, None, None),
        (lambda task, draft, state: state["task"] == RAIN, "C", None),
    ],
    ids=["verdict", "score", "neither", "state"],
)
def test_a_critic_scores_the_answers_of_any_solver(
    tmp_path: Path, critic: Any, expected: Any, explanation: str | None
) -> None:
    """A verdict is right or wrong, a bare score stands as it is, and where a critic can't tell nothing is counted."""
    log = evaluated(tmp_path, generate(), "Rain falls.", scorer=critic_scorer(critic, name="said"))
    score = log.samples[0].scores["said"]
    assert (None if score.value != score.value else score.value) == expected  # unscored is NaN
    assert explanation is None or explanation in score.explanation
    assert log.results.scores[0].scored_samples == (expected is not None)


def _raises(task: str, draft: str, history: Any) -> Critique:
    raise OSError("the judge is out")


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        ([system_message("Rhyme."), graph_solver(refining())], "task= makes one text of these"),
        (graph_solver(refining(critics=[_raises])), "OSError: the judge is out"),
        (graph_solver(refining(critics=[human_critic(name="anna")])), "waits for a person"),
    ],
    ids=["a system message", "a failed run", "a person"],
)
def test_a_sample_that_can_not_be_answered_fails_by_name(tmp_path: Path, solver: Any, message: str) -> None:
    """A run that fails, waits, or would leave out half of the question is an error of its sample, in plain words."""
    log = evaluated(tmp_path, solver, "Rain falls.", scorer=includes())
    assert message in log.samples[0].error.message


def test_a_task_of_ones_own_makes_the_question(tmp_path: Path) -> None:
    """The system message and the choices of a sample are asked, where `task=` says how; no scorer is needed."""
    rows = [Sample(input=RAIN, choices=["falls", "flies"])]
    solver = graph_solver(refining(), task=lambda state: f"{state.input_text} {state.choices[1].value}")
    log = evaluated(tmp_path, solver, "Rain flies.", rows=rows)
    assert "flies" in str([one for one in log.samples[0].events if one.event == "model"])


def test_what_is_no_critic_is_refused() -> None:
    """A scorer of something else than a critic says so when it is made."""
    with pytest.raises(TypeError, match="a verifier is a callable"):
        critic_scorer(lambda task: True)  # type: ignore[arg-type, return-value]
