"""Re-scoring of recorded results: their texts are read and judged again, without a model. Internal."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from ...nodes.verify.numeric_answers import lone_number
from ...nodes.writing.voting import majority_text
from ..datasets.dataset import Dataset, Problem, load_dataset
from ..datasets.scorers import VOTED_ANSWERS, Scorer, scorer
from ..run.run_folder import ResultFile, Run
from .paired import Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..run.result_record import Iteration, ResultRecord, Sample

__all__ = ["Difference", "RescoredRun", "dataset_of", "rescore", "write_rescored"]


class Difference(Row):
    """A place where a record differs from what its texts are judged to be."""

    question_id: str
    where: str = Field(description="`answer`, `draft 0`, `feedback on draft 0`, `sample 2 of draft 0`.")
    field: str = Field(
        description="`is_correct`, `predicted_answer`, `vote` (of a sample), `solution` (another text won the vote), "
        "or, beside the dataset, `question` and `gold`."
    )
    recorded: Any
    found: Any


class RescoredRun(Row):
    """One run, scored again."""

    run: str = Field(description="Its folder.")
    method: str
    lines: int = Field(ge=0, description="Results in the file.")
    rescored: int = Field(ge=0, description="Results that were judged again.")
    texts: int = Field(ge=0, description="Answers, drafts and samples that were judged again.")
    right_recorded: int = Field(ge=0, description="Of the results judged again, those recorded as right.")
    right: int = Field(ge=0, description="Those found right.")
    not_rescored: dict[str, int] = Field(description="Why results were not judged again, and how many.")
    differences: list[Difference]


def dataset_of(run: Run, data: str) -> Dataset:
    """Return the dataset that a run was made on.

    Args:
        run: The run.
        data: As `load_dataset` takes it, or a folder with a file of the dataset's name in it.

    Raises:
        ValueError: It is another dataset, or can't be read.
        OSError: There is no such file.
    """
    folder = Path(data).expanduser()
    spec = str(folder / f"{run.info.dataset}.jsonl") if folder.is_dir() else data
    fields: dict[str, Any] = getattr(run.info, "fields", {})
    dataset = load_dataset(spec, skip_bad=True, **fields)
    if dataset.sha256 != run.info.dataset_sha256:
        raise ValueError(
            f"{run.folder} was made on {run.info.dataset} (SHA-256 {run.info.dataset_sha256[:12]}…), and {spec} is "
            f"another ({dataset.sha256[:12]}…); give that one, or none where the records hold the gold answers"
        )
    return dataset


def rescore(run: Run, dataset: Dataset | None = None) -> tuple[RescoredRun, list[ResultRecord]]:
    """Judge a run again, and return the summary and the new records. No model is called.

    Args:
        run: Its records hold the texts, and the gold answers too unless a dataset is given.
        dataset: Judges instead of the gold answers in the records, which are compared with it.

    Raises:
        ValueError: A gold answer can't be read, or the kind of problems is unknown.
        SandboxUnavailableError: The kind is `code`, and nothing can run code safely here.
    """
    judge = scorer(run.info.kind)  # type: ignore[arg-type]  # it says which kinds there are
    problems = {problem.id: problem for problem in dataset.problems} if dataset else {}
    records: list[ResultRecord] = []
    judged: list[tuple[ResultRecord, _Rescored]] = []
    reasons: Counter[str] = Counter()
    for record in run.records:
        problem = problems.get(record.question_id)
        if reason := _unscorable(run, record, problem, dataset):
            reasons[reason] += 1
            records.append(record)
        else:
            judged.append((record, _Rescored(run, record, judge, problem)))
            records.append(judged[-1][1].record)
    summary = RescoredRun(
        run=str(run.folder),
        method=run.info.method,
        lines=len(run.records),
        rescored=len(judged),
        texts=sum(again.texts for _, again in judged),
        right_recorded=sum(record.is_correct is True for record, _ in judged),
        right=sum(again.record.is_correct is True for _, again in judged),
        not_rescored=dict(reasons),
        differences=[difference for _, again in judged for difference in again.differences],
    )
    return summary, records


def write_rescored(run: Run, records: Sequence[ResultRecord]) -> None:
    """Put re-scored records in the place of a run's own, all at once or not at all.

    Raises:
        ValueError: Results were added since the run was read.
        RuntimeError: Another command is at work on the run.
    """
    with ResultFile(run.folder / "results.jsonl") as results:
        if list(results.records.values()) != list(run.records):
            raise ValueError(f"{run.folder} has changed while it was scored again; nothing was written")
        results.rewrite(records)


def _unscorable(run: Run, record: ResultRecord, problem: Problem | None, dataset: Dataset | None) -> str:
    """Return the reason why a record can't be judged again; an empty string where it can."""
    if dataset is not None and problem is None:
        return "the dataset has no problem of its id"
    if not record.question:
        return "its texts were taken out"
    # Of code, what is shown is a solution and not the tests.
    shown = None if run.info.kind == "code" else record.ground_truth
    if problem is None and record.gold is None and shown is None:
        return "it holds no gold answer; give the dataset with --data"
    return ""


class _Rescored:
    """One record, scored again."""

    def __init__(self, run: Run, record: ResultRecord, judge: Scorer, problem: Problem | None) -> None:
        self.differences: list[Difference] = []
        self.texts = 0
        self._of = record.question_id
        self._judge = judge
        self._vote = VOTED_ANSWERS.get(run.info.kind) if run.info.method.startswith("majority-") else None
        self._gold = _gold(record, run.info.kind, judge) if problem is None else problem.gold
        update: dict[str, Any] = {}
        if problem is not None:
            plain = judge.plain_gold(problem.gold)
            self._compare("answer", "question", record.question, problem.task)
            if record.gold is not None:
                self._compare("answer", "gold", record.gold, plain)
            update = {"question": problem.task, "gold": plain, "ground_truth": judge.shown_gold(problem.gold)}
        steps = [self._step(step) for step in record.iterations_log]
        self.record = record.model_copy(
            update={**update, **self._verdict("answer", record, record.final_solution), "iterations_log": steps}
        )

    def _step(self, step: Iteration) -> Iteration:
        where = f"feedback on draft {step.iteration}" if step.type == "feedback" else f"draft {step.iteration}"
        verdict = self._verdict(where, step, step.solution)
        if not step.samples:
            return step.model_copy(update=verdict)
        samples = []
        for number, sample in enumerate(step.samples, 1):
            place = f"sample {number} of {where}"
            update = self._verdict(place, sample, sample.text)
            if self._vote is not None:
                read = self._vote(sample.text) if sample.text.strip() else None
                update["vote"] = None if read is None else str(read)
                self._compare(place, "vote", sample.vote, update["vote"])
            samples.append(sample.model_copy(update=update))
        if self._vote is not None:
            # What the method answered is not rewritten: another winner is told, and stays a difference.
            winner = majority_text([sample.text for sample in samples], self._vote)
            self._compare(where, "solution", step.solution, winner)
        return step.model_copy(update={**verdict, "samples": samples})

    def _verdict(self, where: str, recorded: ResultRecord | Iteration | Sample, text: str) -> dict[str, Any]:
        self.texts += 1
        answer = self._judge.read_answer(text) if text.strip() else None
        # An empty text is a problem that failed, and wrong; no sandbox need say so.
        verdict = {
            "predicted_answer": answer,
            "is_correct": bool(text.strip()) and self._judge.is_correct(self._gold, text),
        }
        for field, value in verdict.items():
            self._compare(where, field, getattr(recorded, field), value)
        return verdict

    def _compare(self, where: str, field: str, recorded: Any, found: Any) -> None:
        if recorded != found:
            difference = Difference(question_id=self._of, where=where, field=field, recorded=recorded, found=found)
            self.differences.append(difference)


def _gold(record: ResultRecord, kind: str, judge: Scorer) -> Any:
    """Return the gold answer that a record holds; of one from before `gold` was kept, what it shows of it.

    Raises:
        ValueError: It can't be read.
    """
    try:
        if record.gold is not None:
            return judge.gold_of(record.gold)
        shown = record.ground_truth or ""
        if kind == "numeric" and (number := lone_number(shown)) is not None:
            return number
        return judge.gold_of(shown.split(", ") if kind == "words" else shown)
    except ValueError as error:
        raise ValueError(f"the result of {record.question_id!r} can't be judged again: {error}") from None
