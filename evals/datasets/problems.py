"""What methods are measured on: problems whose gold answers only the scorer sees."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .scorers import scorer

if TYPE_CHECKING:
    from .scorers import Kind

__all__ = ["Dataset", "Problem"]


@dataclass(frozen=True)
class Problem:
    """One problem. A graph is given `task`; nothing else of it may reach a state or a prompt.

    Args:
        id: Names the problem within its dataset.
        task: What a graph is given; made without looking at the gold answer.
        gold: For the dataset's scorer only; `repr` hides it.
    """

    id: str
    task: str
    gold: Any = field(repr=False, hash=False)


@dataclass(frozen=True)
class Dataset:
    """Problems of one kind, and how a solution of them is judged.

    Args:
        name: Shown in results and reports.
        kind: `numeric`, `code`, `words` or `exact`; see `scorer`.
        sha256: Of the file's bytes, or of the rows where there is no file; a sample keeps that of the whole.
        problems: In the order of the file.
        skipped: What was left out, as `line 7: why`.
    """

    name: str
    kind: Kind
    sha256: str
    problems: tuple[Problem, ...] = field(repr=False)
    skipped: tuple[str, ...] = ()

    def read_answer(self, solution: str) -> str | None:
        """Return the answer that a solution gives: a number, code or text; `None` where it gives none."""
        return scorer(self.kind).read_answer(solution)

    def is_correct(self, problem: Problem, solution: str) -> bool:
        """Return whether a solution is right by the problem's gold answer; what can't be read is wrong.

        Raises:
            SandboxUnavailableError: The kind is `code`, and nothing can run code safely here.
        """
        return scorer(self.kind).is_correct(problem.gold, solution)

    def shown_gold(self, problem: Problem) -> str | None:
        """Return the gold answer as records and reports show it, or `None` where there is none to show."""
        return scorer(self.kind).shown_gold(problem.gold)

    def sample(self, limit: int | None = None, seed: int | None = None, *, offset: int = 0) -> Dataset:
        """Return the dataset with at most `limit` of its problems, in the order of the file.

        The same seed gives the same problems on every machine, and a larger sample holds each smaller one, so that a
        run can be extended.

        Args:
            limit: How many, 1 or more; `None` keeps all.
            seed: Which ones, at random; `None` takes the first ones.
            offset: How many at the start of the file are left out, 0 or more: those that prompts were tuned on, say.

        Raises:
            ValueError: `limit` is below 1, or `offset` leaves no problem.
        """
        if limit is not None and limit < 1:
            raise ValueError(f"limit must be 1 or more, not {limit!r}")
        if not 0 <= offset < len(self.problems):
            raise ValueError(f"offset must be from 0 to {len(self.problems) - 1} here, not {offset!r}")
        chosen = self.problems[offset:]
        if seed is not None:
            chosen = tuple(sorted(chosen, key=lambda one: hashlib.sha256(f"{seed}:{one.id}".encode()).digest()))
        kept = {one.id for one in chosen[:limit]}
        return dataclasses.replace(self, problems=tuple(one for one in self.problems if one.id in kept))
