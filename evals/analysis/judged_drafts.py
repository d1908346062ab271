"""Labelled drafts, and the numbers that critics give them: what a calibration is computed from. Internal."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import get_usage_metadata_callback

from ..._files import read_file
from ...nodes.critics.calibrated import ask_votes, critic_identity, number_in
from ...nodes.critics.judge_file import JudgePart, Reading
from ...nodes.critics.registry import FIELD, scores
from ...state.dual import adrive
from .calibration import Scored

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from langchain_core.language_models import BaseChatModel

    from ..datasets.dataset import Dataset

__all__ = ["LabelledDraft", "drafts_of", "field_scores", "judged", "labels", "read_labelled"]

SAMPLING = 0.7
"""Temperature of a critic that is asked several times."""


@dataclass(frozen=True)
class LabelledDraft:
    """A draft of a problem that is known to be right or wrong."""

    problem: int
    round: int
    task: str
    draft: str
    right: bool
    row: Mapping[str, Any] = field(repr=False, default_factory=dict)


def read_labelled(
    path: str | Path, *, task: str = "task", draft: str = "draft", right: str = "right", limit: int | None = None
) -> list[LabelledDraft]:
    """Return the drafts of a JSONL file. Rows of one task are one problem, since they say less than as many tasks.

    Those with a `round` are its first draft and its revisions. Without, one of them is taken, at random by a fixed
    seed.

    Raises:
        ValueError: A row can't be used, named by its number, or there are none.
        OSError: The file can't be read.
    """
    problems: dict[str, list[dict[str, Any]]] = {}
    for number, line in enumerate(read_file(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = _checked_row(json.loads(line), task, draft, right)
        except RecursionError:
            raise ValueError(f"{path}, line {number}: not JSON: nested too deeply") from None
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        problems.setdefault(row[task], []).append(row)
    if not problems:
        raise ValueError(f"{str(path)!r} holds no draft")
    chance, drafts = random.Random(0), []  # noqa: S311
    for number, (name, rows) in enumerate(list(problems.items())[:limit]):
        rounds = [row.get("round") for row in rows]
        unnumbered = all(at is None for at in rounds)
        if not unnumbered and sorted(at or 0 for at in rounds) != list(range(len(rounds))):
            raise ValueError(f"the drafts of {name[:60]!r} must have the rounds 0 to {len(rounds) - 1}, each once")
        drafts += [
            LabelledDraft(number, row.get("round") or 0, name, row[draft], bool(row[right]), row)
            for row in ([chance.choice(rows)] if unnumbered else rows)
        ]
    return drafts


def _checked_row(row: Any, task: str, draft: str, right: str) -> Any:
    if missing := [name for name in (task, draft, right) if not isinstance(row, dict) or name not in row]:
        raise ValueError(f"it has no field {missing[0]!r}")
    if wrong := [name for name in (task, draft) if not isinstance(row[name], str)]:
        raise ValueError(f"{wrong[0]!r} must be a text, not {row[wrong[0]]!r}")
    if row[right] not in (True, False):
        raise ValueError(f"{right!r} must be true or false, not {row[right]!r}")
    at = row.get("round")
    if at is not None and (not isinstance(at, int) or at < 0):
        raise ValueError(f"'round' must be a whole number from 0 up, not {at!r}")
    return row


async def drafts_of(
    data: Dataset, model: BaseChatModel, *, concurrency: int = 4, tell: Callable[[int, int], None] = lambda *_: None
) -> list[LabelledDraft]:
    """Return a first draft of each problem, labelled by the dataset's gold answers."""
    from ..run.methods import build_method

    graph = build_method("zero-shot", data.kind, model).graph
    gate, done = asyncio.Semaphore(concurrency), 0

    async def one(number: int, task: str) -> LabelledDraft:
        nonlocal done
        async with gate:
            output = await graph.ainvoke({"task": task})
        done += 1
        tell(done, len(data.problems))
        right = await asyncio.to_thread(data.is_correct, data.problems[number], output["answer"])
        return LabelledDraft(number, 0, task, output["answer"], right)

    return list(await asyncio.gather(*(one(number, problem.task) for number, problem in enumerate(data.problems))))


async def judged(
    drafts: Sequence[LabelledDraft],
    critic: Any,
    *,
    spec: str = "",
    votes: int = 1,
    concurrency: int = 4,
    tell: Callable[[int, int], None] = lambda *_: None,
) -> list[Scored]:
    """Return the numbers that a critic gives the drafts: asked once, and by so many votes.

    Args:
        drafts: To be judged.
        critic: Asked about each.
        spec: As a judge file keeps it.
        votes: How often it is asked about each; what is no model is asked once.
        concurrency: Drafts judged at once.
        tell: Told how many are judged, of how many.

    Raises:
        ValueError: What the critic says.
    """
    votes = votes if hasattr(critic, "on") else 1
    temperature = SAMPLING if votes > 1 else None
    gate, replies, tokens = asyncio.Semaphore(concurrency), {}, 0

    async def one(number: int, draft: LabelledDraft) -> None:
        nonlocal tokens
        async with gate:
            with get_usage_metadata_callback() as used:
                asked = ask_votes(critic, draft.task, draft.draft, (), votes=votes, temperature=temperature)
                replies[number] = await adrive(asked)
        tokens += sum(usage["total_tokens"] for usage in used.usage_metadata.values())
        tell(len(replies), len(drafts))

    await asyncio.gather(*(one(number, draft) for number, draft in enumerate(drafts)))
    scored = any(one.score is not None for found in replies.values() for one in found)
    part = {"spec": spec, "name": str(getattr(critic, "name", None) or getattr(critic, "__name__", "critic"))}
    counts: dict[int, Reading] = {1: "score" if scored else "verdict"}
    if votes > 1:
        # The mean of what it scores, where that is measured and no opinion.
        counts[votes] = "score" if scored and scores(spec) else "verdict"
    return [
        Scored(
            JudgePart(**part, identity=critic_identity(critic), reading=reading, votes=count, temperature=temperature),
            _table(
                drafts, [sum(number_in(one, reading) for one in replies[at][:count]) / count for at in sorted(replies)]
            ),
            tokens * count / votes / len(drafts),
        )
        for count, reading in counts.items()
    ]


def field_scores(drafts: Sequence[LabelledDraft], name: str) -> Scored:
    """Return scores that stand in the labelled file.

    Raises:
        ValueError: A row has none, 0–1.
    """
    values: list[Any] = [draft.row.get(name) for draft in drafts]
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise ValueError(f"the field {name!r} must hold a score from 0 to 1 in each row, not {value!r}")
    return Scored(JudgePart(spec=f"{FIELD}{name}", name=name, reading="score", votes=1), _table(drafts, values))


def labels(drafts: Sequence[LabelledDraft]) -> np.ndarray[Any, Any]:
    """Return the labels of drafts, True for a right one: one row a problem, one column a round."""
    import numpy as np

    right: np.ndarray[Any, Any] = np.nan_to_num(_table(drafts, [float(draft.right) for draft in drafts])) > 0
    return right


def _table(drafts: Sequence[LabelledDraft], values: Sequence[float]) -> np.ndarray[Any, Any]:
    import numpy as np

    table = np.full((drafts[-1].problem + 1, 1 + max(draft.round for draft in drafts)), np.nan)
    for draft, value in zip(drafts, values, strict=True):
        table[draft.problem, draft.round] = value
    return table
