"""The preset `writing`: which calls happen, and what a model is told about the constraints."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from redraft.graphs.writing import build_writing_graph, writing_task
from redraft.models import ScriptedModel, chat_model
from redraft.models.weights import smollm2_path
from redraft.nodes.critics.critics import model_critic, verifier_critic
from redraft.state import Critique

TASK = "Write about a river."
ROWS = [
    {"concepts": ["ladder", "goat", "paint", "roof"]},
    {"concepts": ["drum", "kettle", "drum", "window"]},
]
SCHEMA = {"type": "object", "required": ["title"], "properties": {"title": {"type": "string"}}}


@pytest.mark.parametrize(
    ("constraints", "told", "drafts", "says"),
    [
        (
            {"words": ["lamp", "river"]},
            "each of these words as it stands: lamp, river",
            ["A river.", "A lamp by the river."],
            "These words are missing: lamp.",
        ),
        (
            {"max_words": 3},
            "at most 3 words",
            ["The river is wide.", "A wide river."],
            "Make it shorter: at most 3 words",
        ),
        (
            {"min_words": 3, "max_words": 5},
            "3 to 5 words",
            ["A river.", "A wide river."],
            "Make it longer: 3 to 5 words",
        ),
        (
            {"pattern": r"^#\w{3,}$"},
            "with words in place of each …:\n#…",
            ["A river.", "A river.\n#water"],
            "with words in place of each …:\n#…",
        ),
        (
            {"json_schema": SCHEMA},
            '{"type": "object", "required": ["title"]',
            ['{"name": 1}', '{"title": "River"}'],
            "'title' is a required property",
        ),
        (
            {"max_grade": 6},
            "US school grade 6 or below",
            [
                "Notwithstanding meteorological considerations, riverine communities habitually deliberate.",
                "The river is wide. It runs to the sea.",
            ],
            "use shorter sentences",
        ),
    ],
)
def test_each_constraint_is_told_checked_and_explained(
    run: Any, constraints: Any, told: str, drafts: list[str], says: str
) -> None:
    """The model knows what is wanted before it writes, and what to do before it rewrites."""
    if "max_grade" in constraints:
        pytest.importorskip("syllapy")
    if "json_schema" in constraints:
        pytest.importorskip("jsonschema")
    model = ScriptedModel(drafts)
    output = run(build_writing_graph(model, **constraints), {"task": TASK})

    assert (output["answer"], output["stop_reason"], len(model.calls)) == (drafts[1], "accepted", 2)
    assert told in model.calls[0][0].text
    assert says in model.calls[1][0].text


def test_all_constraints_must_hold_and_no_model_judges(run: Any) -> None:
    """Constraints that a draft breaks are mended one after another, and judging costs no call."""
    model = ScriptedModel(["A river is wide and long.", "A lamp shines on and on.", "Lamp light falls."])
    graph = build_writing_graph(
        model, words=["lamp"], max_words=4, verifiers=[verifier_critic(lambda *_: Critique("", True), name="mine")]
    )
    output = run(graph, {"task": TASK})

    assert len(model.calls) == 3
    assert "Write one short sentence that could stand next in this text" in model.calls[1][0].text
    assert "Rewrite this text. Make it shorter: at most 4 words." in model.calls[2][0].text
    assert output["accepted_by"] == "uses_words, has_length, mine"


def test_without_constraints_the_model_judges_itself(run: Any) -> None:
    """A task alone is refined by the model's own feedback, and told nothing of constraints."""
    model = ScriptedModel(["A river.", "Too short.", "A wide river.", "No issues."])
    output = run(build_writing_graph(model), {"task": TASK})

    assert (output["accepted_by"], len(model.calls)) == ("self (uncalibrated)", 4)
    assert "must meet" not in model.calls[0][0].text


def test_a_judge_can_be_asked_beside_the_constraints(run: Any) -> None:
    """With `critics_after="always"` a text must meet the constraints and please the judge."""
    model, judge = ScriptedModel(["lamp", "A lamp shines."]), ScriptedModel(["No sentence.", "No issues."])
    critics = [model_critic(judge, name="judge")]
    output = run(build_writing_graph(model, words=["lamp"], critics=critics, critics_after="always"), {"task": TASK})
    assert (len(judge.calls), output["accepted_by"]) == (2, "uses_words, judge")
    assert "No sentence." in model.calls[1][0].text


def test_a_commongen_row_becomes_a_task_with_its_words(run: Any) -> None:
    """A row gives the text to ask with and the words to check; a word that stands there twice is wanted once."""
    task, words = writing_task(ROWS[0])
    model = ScriptedModel(["A goat on a ladder.", "From a ladder, the goat watched them paint the roof."])
    output = run(build_writing_graph(model, words=words), {"task": task})

    assert "ladder, goat, paint, roof" in task
    assert [event["score"] for event in output["events"] if event["kind"] == "critique"] == [0.5, 1.0]
    assert writing_task(ROWS[1])[1] == ["drum", "kettle", "window"]
    with pytest.raises(ValueError, match="'concepts'"):
        writing_task({"concepts": "ladder"})


def test_a_thread_keeps_the_run_and_can_be_forked() -> None:
    """Presets have checkpoints like the loop: from after the draft, another draft takes another way."""
    model = ScriptedModel(["A river.", "A lamp.", "never asked"])
    graph = build_writing_graph(model, words=["lamp"], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    graph.invoke({"task": TASK}, config)

    drafted = next(state for state in graph.get_state_history(config) if state.next == ("refine",))
    again = ScriptedModel(["The lamp of the river."])
    fork = build_writing_graph(again, words=["lamp"], checkpointer=graph.checkpointer)
    assert fork.invoke(None, drafted.config)["answer"] == "The lamp of the river."


@pytest.mark.parametrize(
    ("constraints", "says"),
    [
        ({"words": "lamp"}, "words must be a list"),
        ({"words": ["lamp", " "]}, r"words=\['lamp', ' '\]"),
        ({"min_words": 5, "max_words": 2}, "min_words=5, max_words=2"),
        ({"max_words": "ten"}, "max_words='ten'"),
        ({"pattern": "("}, r"pattern='\('"),
        ({"pattern": 7}, "pattern=7"),
    ],
)
def test_a_constraint_that_makes_no_sense_is_refused_by_name(constraints: Any, says: str) -> None:
    """A mistake shows when the graph is built, with the argument's name."""
    with pytest.raises(ValueError, match=says):
        build_writing_graph(ScriptedModel([]), **constraints)


def test_a_schema_or_grade_that_makes_no_sense_is_refused_by_name() -> None:
    """So do those that need an extra."""
    pytest.importorskip("jsonschema")
    pytest.importorskip("syllapy")
    with pytest.raises(ValueError, match="json_schema="):
        build_writing_graph(ScriptedModel([]), json_schema={"type": "thing"})
    with pytest.raises(ValueError, match=r"a JSON Schema is a mapping, .* not the text"):
        build_writing_graph(ScriptedModel([]), json_schema='{"type": "object"}')  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_grade=99"):
        build_writing_graph(ScriptedModel([]), max_grade=99)
    with pytest.raises(TypeError, match="a verifier is a callable"):
        build_writing_graph(ScriptedModel([]), verifiers=[3])  # type: ignore[list-item]


@pytest.mark.embedded
@pytest.mark.skipif(not importlib.util.find_spec("xllamacpp"), reason="the local extra is not installed")
def test_the_embedded_model_writes_something_that_is_checked() -> None:
    """The preset works on the smallest model, right or wrong."""
    smollm2_path()
    graph = build_writing_graph(chat_model("local", max_output_tokens=60), words=["river"], max_words=40)
    output = graph.invoke({"task": "Write one sentence about a river.", "limits": {"max_rounds": 1}})
    assert output["answer"]
    assert output["score"] is not None
