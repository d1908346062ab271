"""Result records: one line a problem, from the record of its run."""

from __future__ import annotations

from redraft.evals.records import ResultRecord, result_record
from redraft.graphs.math_problems import build_math_graph
from redraft.models import ScriptedModel
from redraft.nodes.verifiers import extract_number, same_number

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
    assert record.iterations_log[1].feedback == "One nut was eaten."


def test_a_record_survives_json_and_says_when_the_judge_was_fooled() -> None:
    """A wrong answer that the critics accepted is told apart by its two fields; the line reads back as it was."""
    record = solved("2 * 3 = 6\n#### 6", "SOLUTION_IS_CORRECT")
    assert (record.is_correct, record.is_correct_per_feedback) == (False, True)
    assert ResultRecord.model_validate_json(record.model_dump_json()) == record
