"""Result records: what one problem's run asked, answered and cost, with every step between. Internal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ...state.events import CRITIQUE_KINDS, Event
from ...state.summary import current_run

__all__ = ["Iteration", "Program", "ResultRecord", "Sample", "failed_record", "iterations", "result_record", "worth_of"]

IterationType = Literal["initial_generation", "feedback", "refinement"]


MOST = 10**12
"""Of tokens, rounds and seconds: more than anything took, and little enough to be summed up."""


class Sample(BaseModel):
    """One of several replies to one prompt, of which a draft was chosen."""

    model_config = ConfigDict(extra="forbid")

    text: str
    vote: str | None = Field(description="The answer that it was counted for; null where none could be read.")
    predicted_answer: str | None = Field(description="The answer that the scorer reads out of the text.")
    is_correct: bool | None = Field(description="By the gold answer; null where there is none.")
    grade: float | None = Field(
        default=None, ge=0, le=1, description="By a score of one's own; null where there is right and wrong only."
    )
    tokens_used: int | None = Field(ge=0, le=MOST, description="Null where the provider reports none.")
    cut_off: bool = Field(default=False, description="It met the limit of output tokens.")


class Program(BaseModel):
    """A program that a critic wrote to check a solution."""

    model_config = ConfigDict(extra="forbid")

    program: str = Field(description="Empty where the reply held none.")
    answer: str | None = Field(description="The number that it printed last; null where there is none.")
    output: str = Field(default="", description="The end of its output, or the error that ended it.")


class Iteration(BaseModel):
    """One step of a run: a solution, or what was said about it."""

    model_config = ConfigDict(extra="forbid")

    iteration: int = Field(ge=0, le=MOST, description="0 is the first draft, n the n-th revision.")
    type: IterationType
    solution: str = Field(description="The draft that was written, or the one that was judged.")
    predicted_answer: str | None = Field(description="The answer read out of the solution.")
    feedback: str | None = Field(description="What was said; null where a solution was written.")
    tokens_used: int = Field(ge=0, le=MOST)
    prompt_tokens: int | None = Field(
        default=None, ge=0, le=MOST, description="Those of them that went in; null in results of 0.1."
    )
    completion_tokens: int | None = Field(
        default=None, ge=0, le=MOST, description="Those of them that came out; null in results of 0.1."
    )
    is_correct: bool | None = Field(description="By the gold answer; null where there is none.")
    grade: float | None = Field(
        default=None, ge=0, le=1, description="By a score of one's own; null where there is right and wrong only."
    )
    by: str = Field(default="", description="Which model wrote it, or which critic said it.")
    refiner: str = Field(default="", description="Refinement: which of several refiners it was.")
    accepted: bool | None = Field(default=None, description="Feedback: whether it accepts; null if it can't be read.")
    score: float | None = Field(default=None, description="Feedback: the score that it gives, 0–1.")
    verifier: bool = Field(default=False, description="Feedback: made by a program that checks, not by an opinion.")
    rejected: str = Field(default="", description="Refinement: why it is no draft; empty when it is one.")
    seconds: float = Field(default=0.0, ge=0, le=MOST)
    cut_off: bool = Field(default=False, description="The solution's reply met the limit of output tokens.")
    samples: list[Sample] = Field(default=[], description="The replies that the solution was chosen from by a vote.")
    programs: list[Program] = Field(default=[], description="Feedback: the programs that it rests on.")


class ResultRecord(BaseModel):
    """One line of `results.jsonl`."""

    model_config = ConfigDict(extra="forbid")

    question_id: str = Field(description="The dataset's own id; where its rows have none, the line's number, from 1.")
    question: str
    predicted_answer: str | None
    ground_truth: str | None = Field(description="The gold answer as a person reads it.")
    gold: Any = Field(
        default=None,
        description="The gold answer as the scorer takes it, so that the texts can be judged again: a number as text, "
        "the words, a text, or hidden tests; null in records of before there was this field.",
    )
    is_correct: bool | None = Field(
        description="By the gold answer, or a score of one's own that is 1; null where there is none."
    )
    grade: float | None = Field(
        default=None, ge=0, le=1, description="By a score of one's own; null where there is right and wrong only."
    )
    is_correct_per_feedback: bool = Field(description="Whether the critics accepted the answer.")
    final_solution: str
    num_iterations: int = Field(ge=0, le=MOST)
    total_tokens: int = Field(ge=0, le=MOST)
    cost_usd: float | None = Field(default=None, description="Null where a price is not known.")
    stop_reason: str | None
    accepted_by: str | None
    oracle: bool
    seconds: float = Field(ge=0, le=MOST)
    error: str | None = Field(default=None, description="What ended the run early; without a draft it is wrong.")
    iterations_log: list[Iteration]

    @property
    def cut_off(self) -> tuple[int, int]:
        """Number of drafts, samples among them, that met the limit of output tokens, and of all."""
        written = [step for step in self.iterations_log if step.type != "feedback"]
        drafts = [sample.cut_off for step in written for sample in step.samples]
        drafts += [step.cut_off for step in written if not step.samples]
        return sum(drafts), len(drafts)


def worth_of(step: ResultRecord | Iteration | Sample) -> float:
    """Return the score of an answer, a draft or a sample: right is 1, and what has no verdict 0."""
    return float(step.is_correct is True if step.grade is None else step.grade)


def result_record(
    output: Mapping[str, Any],
    *,
    question_id: str,
    question: str,
    read_answer: Callable[[str], Any],
    is_correct: Callable[[str], bool | float | None] | None = None,
    ground_truth: str | None = None,
    gold: Any = None,
) -> ResultRecord:
    """Return the record of one finished run.

    The gold answer is used here and nowhere before: neither the state nor a prompt of the run held it.

    Args:
        output: What the graph returned.
        question_id: Names the problem within its dataset.
        question: The problem as the dataset has it.
        read_answer: Reads the answer out of a solution, or returns `None`.
        is_correct: Judges a solution by the gold answer, as right or wrong or by a score from 0 to 1; `None` where
            there is none.
        ground_truth: The gold answer, as it is to be shown.
        gold: The gold answer as plain data, to judge by once more; see `redraft rescore`.
    """

    @cache
    def judge(solution: str) -> dict[str, Any]:
        value = is_correct(solution) if is_correct else None
        graded = isinstance(value, float)
        return {"is_correct": value == 1 if graded else value, "grade": value if graded else None}

    def read(solution: str) -> str | None:
        value = read_answer(solution)
        return None if value is None else str(value)

    answer = output["answer"]
    failures = [event["text"] for event in current_run(output["events"]) if event["kind"] == "failure"]
    failed = failures[-1] if failures and output["stop_reason"] == "failed" else None
    return ResultRecord(
        question_id=question_id,
        question=question,
        predicted_answer=read(answer),
        ground_truth=ground_truth,
        gold=gold,
        **judge(answer),
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
        iterations_log=iterations(output["events"], read, judge),
    )


def iterations(
    events: Sequence[Event],
    read: Callable[[str], str | None] = lambda _: None,
    judge: Callable[[str], Mapping[str, Any]] = lambda _: {"is_correct": None},
) -> list[Iteration]:
    """Return the steps of the last run of a record.

    Args:
        events: The record of a thread.
        read: Reads the answer out of a solution.
        judge: Returns the fields `is_correct` and `grade` of a solution.
    """
    return [
        Iteration(
            iteration=event["round"],
            type=kind,
            solution=solution,
            predicted_answer=read(solution),
            feedback=feedback,
            tokens_used=event["usage"]["total_tokens"],
            prompt_tokens=event["usage"]["input_tokens"],
            completion_tokens=event["usage"]["output_tokens"],
            **judge(solution),
            by=event.get("critic", event["by"]),
            refiner=event.get("refiner", ""),
            accepted=event.get("accepted"),
            score=event.get("score"),
            verifier=bool(event.get("verifier")),
            rejected=event.get("rejected", "") if kind == "refinement" else "",
            seconds=event["usage"]["seconds"],
            cut_off=event.get("cut_off", False),
            samples=[
                Sample(
                    text=one["text"],
                    vote=one["vote"],
                    predicted_answer=read(one["text"]),
                    **judge(one["text"]),
                    tokens_used=one["total_tokens"],
                    cut_off=one["cut_off"],
                )
                for one in event.get("samples", ())
            ],
            programs=[
                Program(program=one["program"], answer=one["answer"], output=one.get("output", ""))
                for one in event.get("evidence", {}).get("programs", ())
            ],
        )
        for event, kind, solution, feedback in _steps(current_run(events))
    ]


def failed_record(
    error: str,
    *,
    question_id: str,
    question: str,
    ground_truth: str | None,
    gold: Any = None,
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
        gold: The gold answer as plain data.
        usage: What it cost all the same.
        seconds: How long it took.
        oracle: Whether the method knows the gold answers.
    """
    return ResultRecord(
        question_id=question_id,
        question=question,
        predicted_answer=None,
        ground_truth=ground_truth,
        gold=gold,
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
