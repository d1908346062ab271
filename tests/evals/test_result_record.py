"""Result records: one line a problem, from the record of its run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from redraft.evals.run.methods import build_method
from redraft.evals.run.result_record import ResultRecord, failed_record, result_record
from redraft.graphs.math_problems import build_math_graph
from redraft.models import ScriptedModel
from redraft.nodes import extract_number, same_number

QUESTION = "Ann has 2 bags of 3 nuts and eats one nut. How many are left?"


def solved(*replies: object) -> ResultRecord:
    model = ScriptedModel([{"text": str(reply), "input_tokens": 10, "output_tokens": 5} for reply in replies])
    output = build_math_graph(model, critic="self").invoke({"task": QUESTION, "limits": {"max_rounds": 2}})
    return result_record(
        output,
        question_id="p-1",
        question=QUESTION,
        read_answer=extract_number,
        is_correct=lambda solution: same_number(extract_number(solution), "5"),
        ground_truth="5",
    )


def test_a_record_tells_each_step_and_what_it_cost() -> None:
    """A researcher reads from one line which solution was right, what was said, and the tokens of each step."""
    record = solved("2 * 3 = 6\n#### 6", "One nut was eaten.", "6 - 1 = 5\n#### 5", "SOLUTION_IS_CORRECT")
    assert (record.predicted_answer, record.is_correct, record.is_correct_per_feedback) == ("5", True, True)
    assert (record.num_iterations, record.total_tokens, record.stop_reason) == (1, 60, "accepted")
    assert [(one.iteration, one.type, one.predicted_answer, one.is_correct) for one in record.iterations_log] == [
        (0, "initial_generation", "6", False),
        (0, "feedback", "6", False),
        (1, "refinement", "5", True),
        (1, "feedback", "5", True),
    ]
    assert [one.tokens_used for one in record.iterations_log] == [15, 15, 15, 15]
    assert {(one.prompt_tokens, one.completion_tokens) for one in record.iterations_log} == {(10, 5)}
    assert record.iterations_log[1].feedback == "One nut was eaten."


def test_a_record_survives_json_and_says_when_the_judge_was_fooled() -> None:
    """A wrong answer that the critics accepted is told apart by its two fields; the line reads back as it was."""
    record = solved("2 * 3 = 6\n#### 6", "SOLUTION_IS_CORRECT")
    assert (record.is_correct, record.is_correct_per_feedback) == (False, True)
    assert ResultRecord.model_validate_json(record.model_dump_json()) == record


@pytest.mark.parametrize("samples", [1, 3])
def test_a_record_keeps_each_sample_of_a_vote_and_says_which_were_cut_off(samples: int) -> None:
    """A reader sees each reply that voted, its answer, tokens and verdict, and how many drafts met the token limit."""
    model = ScriptedModel(
        [
            {"text": "2 * 3 = 6\n#### 6", "input_tokens": 10, "output_tokens": 5},
            {"text": "6 - 1 = 5\n#### 5", "input_tokens": 10, "output_tokens": 7},
            {"text": "It is\n#### 5 and then", "input_tokens": 10, "output_tokens": 9, "finish_reason": "length"},
        ][-samples:]
    )
    method = build_method("majority-3" if samples == 3 else "zero-shot", "numeric", model)
    record = result_record(
        method.graph.invoke({"task": QUESTION}, {"max_concurrency": 1}),  # one sample after the other
        question_id="p-1",
        question=QUESTION,
        read_answer=extract_number,
        is_correct=lambda solution: same_number(extract_number(solution), "5"),
    )
    (draft,) = record.iterations_log
    if samples == 1:
        assert (draft.cut_off, draft.samples, record.cut_off) == (True, [], (1, 1))
        return
    assert draft.solution == draft.samples[1].text == "6 - 1 = 5\n#### 5"
    assert [(one.vote, one.predicted_answer, one.is_correct) for one in draft.samples] == [
        ("6", "6", False),
        ("5", "5", True),
        ("5", "5", True),
    ]
    assert sum(one.tokens_used or 0 for one in draft.samples) == draft.tokens_used == 51
    assert ([one.cut_off for one in draft.samples], draft.cut_off, record.cut_off) == (
        [False, False, True],
        False,
        (1, 3),
    )


@pytest.mark.usefixtures("sandbox")
def test_a_record_keeps_the_programs_that_judged_and_their_outputs() -> None:
    """A reader sees why a program objected: its code, the number that it gave, and all that it printed."""
    program = "print('nuts')\nprint(2 * 3 - 1)"
    model = ScriptedModel(["#### 5", f"```python\n{program}\n```"])
    output = build_method("program-1", "numeric", model).graph.invoke({"task": QUESTION})
    record = result_record(output, question_id="p-1", question=QUESTION, read_answer=extract_number)
    (found,) = record.iterations_log[1].programs
    assert (found.program, found.answer, found.output) == (program, "5", "nuts\n5\n")


SCHEMA = Path(__file__).resolve().parents[2] / "evals" / "run" / "result_record.schema.json"


def test_the_published_schema_is_that_of_the_records() -> None:
    """Whoever reads results in another language finds their form in a JSON Schema that is kept up to date."""
    published = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert published.pop("$schema") == "https://json-schema.org/draft/2020-12/schema"
    assert published == ResultRecord.model_json_schema()


def test_every_record_fits_the_published_schema() -> None:
    """A record of a run and one of a failure are valid by it, also for a validator that knows nothing of pydantic."""
    jsonschema = pytest.importorskip("jsonschema")
    output = build_math_graph(ScriptedModel(["#### 4", "2 + 1 is 3", "#### 3"]), critic="self").invoke(
        {"task": "What is 2 + 1?", "limits": {"max_rounds": 1}}
    )
    named = {"question_id": "1", "question": "What is 2 + 1?", "ground_truth": "3"}
    records = [
        result_record(output, read_answer=extract_number, is_correct=lambda _: True, **named),
        failed_record("OSError: lost", usage=output["usage"], seconds=1.0, **named),
    ]
    for record in records:
        jsonschema.validate(record.model_dump(mode="json"), json.loads(SCHEMA.read_text(encoding="utf-8")))
