"""Datasets of rows of any shape, judged by a score of one's own, or by what a graph's own checks say. Internal."""

from __future__ import annotations

import csv
import hashlib
import inspect
import io
import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..._files import read_file
from ...state.dual import DualCallable, finish
from .dataset import Dataset, Fields, Problem, numbered_rows, row_id
from .scorers import Scorer

__all__ = ["TASK_FIELDS", "OwnScorer", "Score", "own_dataset"]

LOG = logging.getLogger("redraft")

Score = Callable[..., Any]
"""Takes a row and an answer, and returns `True`, `False`, a share from 0 to 1, or `None` where it can't tell."""

MOST_UNSCORED = 3
"""For so many rows a score may raise before it has scored one."""
TASK_FIELDS = ("task", "question", "input", "prompt", "instruction")


class OwnScorer(Scorer):
    """Scores answers by a function of the row, which is the gold answer here.

    Args:
        score: As `Score`, async or not; or a critic, which is asked about the task and the answer alone.
        as_object: Makes the object of an answer that is typed; the function is given that.
    """

    def __init__(self, score: Score, as_object: Callable[[str], Any] | None = None) -> None:
        self.own = score
        self.as_object = as_object
        self.has_scored = False
        self.unscored = set[Any]()
        """The rows for which it raised."""

    def read_answer(self, solution: str) -> str | None:
        """Return the whole solution."""
        return solution.strip() or None

    def grade(self, gold: Mapping[str, Any], solution: str) -> float | None:
        """Return the score of a solution, 0–1; `None` where there is none to be had, which is logged.

        What the function raises says nothing of the answer, so it neither counts as a zero nor ends the evaluation.

        Raises:
            ValueError: It raised for several rows before it has scored one, as a wrong function does for all.
        """
        try:
            answer = solution if self.as_object is None else self.as_object(solution)
        except ValueError:
            return 0.0  # of another type than was asked for
        try:
            score = self._asked(gold, answer)
        except Exception as error:
            row = gold.get("id", "")
            what = f"the score of the row {row!r} could not be had: {type(error).__name__}: {error}"
            self.unscored.add(row)
            if not self.has_scored and len(self.unscored) >= MOST_UNSCORED:
                raise ValueError(f"{what}; nor could that of any row before") from error
            LOG.warning("%s", what)
            return None
        self.has_scored = True
        return score

    def is_correct(self, gold: Mapping[str, Any], solution: str) -> bool:
        """Return True if the score is 1."""
        return self.grade(gold, solution) == 1

    def shown_gold(self, gold: Mapping[str, Any]) -> str | None:
        """Return the row's answer, where it has one."""
        return next((str(gold[name]) for name in ("answer", "target", "gold") if gold.get(name) is not None), None)

    def plain_gold(self, gold: Mapping[str, Any]) -> Any:
        """Return nothing: without the function a record can't be judged again."""
        return None

    def _asked(self, row: Mapping[str, Any], answer: Any) -> float | None:
        critic = isinstance(self.own, DualCallable)
        result = self.own(row["task"], answer, ()) if critic else self.own(row, answer)
        if inspect.isawaitable(result):
            result = finish(result)
        value = getattr(result, "accepted", None) if critic else result
        if value is None:
            return None
        if not isinstance(value, bool | int | float) or not 0 <= value <= 1:
            raise ValueError(f"a score is True, False, None, or a number from 0 to 1, not {value!r:.80}")
        return float(value)


def own_dataset(
    data: str | os.PathLike[str] | Iterable[Any],
    score: Score,
    *,
    as_object: Callable[[str], Any] | None = None,
    kind: str = "score",
    question_field: str | None = None,
    id_field: str | None = None,
    split: str = "test",
    name: str = "rows",
) -> Dataset:
    """Return a dataset of rows of any shape, judged by a function.

    Args:
        data: A JSONL or CSV file, or what else `load_dataset` reads; or rows: mappings, a pandas DataFrame, or the
            samples of an Inspect dataset.
        score: As `Score`.
        as_object: Makes the object that the score is given of an answer.
        kind: `score`, or `checks` where the score is what the graph's own checks say.
        question_field: Holds the task; default: the first of `TASK_FIELDS` that the first row has.
        id_field: Names a row; default: as in `load_dataset`, else its number, from 1.
        split: As in `load_dataset`.
        name: Of rows that are no file.

    Raises:
        ValueError: There is no row, or one has no task; the message names it.
        OSError: The file can't be read.
    """
    if isinstance(data, str | os.PathLike):
        text = os.fspath(data)
        if text.endswith(".csv"):
            content = read_file(text)
            rows: list[Any] = list(csv.DictReader(io.StringIO(content, newline="")))
            name = Path(text).stem
        else:
            name, rows = numbered_rows(text, split)
    else:
        given: Any = data
        # A pandas DataFrame yields the names of its columns.
        rows = [_row(one) for one in (given.to_dict("records") if hasattr(data, "itertuples") else given)]
    problems = [_problem(number, row, question_field, id_field) for number, row in enumerate(rows, 1)]
    if not problems:
        raise ValueError(f"{name} holds no row")
    (twice, times), *_ = Counter(one.id for one in problems).most_common(1)
    if times > 1:
        raise ValueError(f"{times} rows of {name} have the id {twice!r}")
    digest = hashlib.sha256(json.dumps(rows, sort_keys=True, default=str).encode()).hexdigest()
    return Dataset(name, kind, digest, tuple(problems), own=OwnScorer(score, as_object))  # type: ignore[arg-type]


def _row(one: Any) -> Mapping[str, Any]:
    """Return a row as a mapping: a sample of Inspect's has `input`, `target`, `id` and `metadata`."""
    if isinstance(one, Mapping):
        return one
    if not hasattr(one, "input"):
        raise ValueError(f"a row is a mapping or a sample with an input, not {one!r:.80}")
    messages = one.input if isinstance(one.input, str) else one.input[-1].text
    fields = {"input": messages, "target": getattr(one, "target", None), "id": getattr(one, "id", None)}
    return {**(getattr(one, "metadata", None) or {}), **fields}


def _problem(number: int, row: Mapping[str, Any], question: str | None, id_field: str | None) -> Problem:
    names: Sequence[str] = TASK_FIELDS if question is None else (question,)
    task = next((row[name] for name in names if row.get(name) is not None), None)
    if not isinstance(task, str) or not task.strip():
        raise ValueError(
            f"row {number} has no task: question_field= names the field of a text; it has {', '.join(row) or 'none'}"
        )
    named = row_id(row, Fields(id_field, None, None).id) or str(number)
    return Problem(named, task.strip(), {**row, "id": named, "task": task.strip()})
