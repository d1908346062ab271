"""Result records: what one problem's run asked, answered and cost, with every step between. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ...state.events import CRITIQUE_KINDS
from ...state.summary import current_run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...state.events import Event

__all__ = ["Iteration", "ResultRecord", "failed_record", "result_record"]

IterationType = Literal["initial_generation", "feedback", "refinement"]


class Iteration(BaseModel):
    """One step of a run: a solution, or what was said about it."""

    model_config = ConfigDict(extra="forbid")

    iteration: int = Field(ge=0, description="0 is the first draft, n the n-th revision.")
    type: IterationType
    solution: str = Field(description="The draft that was written, or the one that was judged.")
    predicted_answer: str | None = Field(description="The answer read out of the solution.")
    feedback: str | None = Field(description="What was said; null where a solution was written.")
    tokens_used: int = Field(ge=0)
    is_correct: bool | None = Field(description="By the gold answer; null where there is none.")
    by: str = Field(default="", description="Which model wrote it, or which critic said it.")
    accepted: bool | None = Field(default=None, description="Feedback: whether it accepts; null if it can't be read.")
    score: float | None = Field(default=None, description="Feedback: the score that it gives, 0–1.")
    verifier: bool = Field(default=False, description="Feedback: made by a program that checks, not by an opinion.")
    rejected: str = Field(default="", description="Refinement: why it is no draft; empty when it is one.")
    seconds: float = Field(default=0.0, ge=0)


class ResultRecord(BaseModel):
    """One line of `results.jsonl`."""

    model_config = ConfigDict(extra="forbid")

    question_id: str
    question: str
    predicted_answer: str | None
    ground_truth: str | None
    is_correct: bool | None = Field(description="By the gold answer; null where there is none.")
    is_correct_per_feedback: bool = Field(description="Whether the critics accepted the answer.")
    final_solution: str
    num_iterations: int = Field(ge=0)
    total_tokens: int = Field(ge=0)
    cost_usd: float | None = Field(default=None, description="Null where a price is not known.")
    stop_reason: str | None
    accepted_by: str | None
    oracle: bool
    seconds: float = Field(ge=0)
    error: str | None = Field(default=None, description="What ended the run early; without a draft it is wrong.")
    iterations_log: list[Iteration]


def result_record(
    output: Mapping[str, Any],
    *,
    question_id: str,
    question: str,
    read_answer: Callable[[str], Any],
    is_correct: Callable[[str], bool] | None = None,
    ground_truth: str | None = None,
) -> ResultRecord:
    """Return the record of one finished run.

    The gold answer is used here and nowhere before: neither the state nor a prompt of the run held it.

    Args:
        output: What the graph returned.
        question_id: Names the problem within its dataset.
        question: The problem as the dataset has it.
        read_answer: Reads the answer out of a solution, or returns `None`.
        is_correct: Judges a solution by the gold answer; `None` where there is none.
        ground_truth: The gold answer, as it is to be shown.
    """

    def judge(solution: str) -> bool | None:
        return is_correct(solution) if is_correct else None

    def read(solution: str) -> str | None:
        found = read_answer(solution)
        return None if found is None else str(found)

    answer = output["answer"]
    failures = [event["text"] for event in current_run(output["events"]) if event["kind"] == "failure"]
    failed = failures[-1] if failures and output["stop_reason"] == "failed" else None
    return ResultRecord(
        question_id=question_id,
        question=question,
        predicted_answer=read(answer),
        ground_truth=ground_truth,
        is_correct=judge(answer),
        is_correct_per_feedback=output["accepted_by"] is not None,
        final_solution=answer,
        num_iterations=output["rounds"],
        total_tokens=output["usage"]["total_tokens"],
        stop_reason=output["stop_reason"],
        accepted_by=output["accepted_by"],
        oracle=output["oracle"],
        cost_usd=output["usage"]["cost_usd"],
        error=failed,
        seconds=output["usage"]["seconds"],
        iterations_log=[
            Iteration(
                iteration=event["round"],
                type=kind,
                solution=solution,
                predicted_answer=read(solution),
                feedback=feedback,
                tokens_used=event["usage"]["total_tokens"],
                is_correct=judge(solution),
                by=event.get("critic", event["by"]),
                accepted=event.get("accepted"),
                score=event.get("score"),
                verifier=bool(event.get("verifier")),
                rejected=event.get("rejected", "") if kind == "refinement" else "",
                seconds=event["usage"]["seconds"],
            )
            for event, kind, solution, feedback in _steps(current_run(output["events"]))
        ],
    )


def failed_record(
    error: str,
    *,
    question_id: str,
    question: str,
    ground_truth: str | None,
    usage: Mapping[str, Any],
    seconds: float,
    oracle: bool = False,
) -> ResultRecord:
    """Return the record of a problem that came to no answer: it is wrong, and stays in the denominator.

    Args:
        error: What went wrong: the type of the error and its message.
        question_id: Names the problem within its dataset.
        question: The problem as the dataset has it.
        ground_truth: The gold answer, as it is to be shown.
        usage: What it cost all the same.
        seconds: How long it took.
        oracle: Whether the method knows the gold answers.
    """
    return ResultRecord(
        question_id=question_id,
        question=question,
        predicted_answer=None,
        ground_truth=ground_truth,
        is_correct=False,
        is_correct_per_feedback=False,
        final_solution="",
        num_iterations=0,
        total_tokens=usage["total_tokens"],
        cost_usd=usage["cost_usd"],
        stop_reason="failed",
        accepted_by=None,
        oracle=oracle,
        seconds=seconds,
        error=error[:2000],
        iterations_log=[],
    )


def _steps(run: Any) -> list[tuple[Event, IterationType, str, str | None]]:
    steps: list[tuple[Event, IterationType, str, str | None]] = []
    solution = ""
    for event in run:
        if event["kind"] == "draft":
            solution = event["text"]
            steps.append((event, "initial_generation", solution, None))
        elif event["kind"] == "revision":
            # What is no draft leaves the one before in force, and the next critique is about that one.
            solution = solution if event["rejected"] else event["text"]
            steps.append((event, "refinement", event["text"], None))
        elif event["kind"] in CRITIQUE_KINDS:
            steps.append((event, "feedback", solution, event["text"]))
    return steps
