"""Critiques, and the protocols of critics and verifiers. Internal."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from .dual import DualCallable
from .events import Event
from .usage import NO_USAGE, Usage

__all__ = ["AnyVerifier", "Critic", "Critique", "DualCritic", "Verifier"]


@dataclass(frozen=True)
class Critique:
    """One opinion about one draft.

    Args:
        text: What is wrong and what would be right; the refiner reads it.
        accepted: Whether the draft is right. `None`: the opinion could not be read, which accepts nothing.
        score: How good the draft is, 0–1, or `None` when the critic gives no score.
        by: Who says so. Left empty, it is the name of the critic.
        usage: What asking cost. Left `None`, the calls of LangChain models are counted as they happen.
        oracle: The critic knows the gold answer. Every result it touches says so.
        stop: A person asks to end the run here.
        evidence: What the opinion rests on, as plain data: a program and its result, say. Kept with the event, whole
            numbers of more than 64 bits as text.
        calibration: Of a calibrated judge, as plain data: the bound that it keeps, and how many revisions it may judge.
            With `accepted=None` it says neither yes nor no, and others may decide.
        criteria: Whether the draft meets each requirement that the critic judged by itself, by its text.

    Raises:
        ValueError: `text` or `by` is not a text, `accepted` is not a bool or `None`, `score` is not in 0–1,
            `evidence`, `usage` or `calibration` is not plain data, or `criteria` are not bools by text.

    Example:
        >>> from redraft import Critique
        >>> opinion = Critique("Name the season.", accepted=False, score=0.5, by="editor")
        >>> opinion.accepted, opinion.score
        (False, 0.5)
    """

    text: str
    accepted: bool | None = None
    score: float | None = None
    by: str = ""
    usage: Usage | None = None
    oracle: bool = False
    stop: bool = False
    evidence: Mapping[str, Any] | None = None
    calibration: Mapping[str, Any] | None = None
    criteria: Mapping[str, bool] | None = None

    def __post_init__(self) -> None:
        if self.accepted is not None and not isinstance(self.accepted, bool):
            raise ValueError(f"accepted must be True, False or None, not {self.accepted!r}")
        for name in ("text", "by"):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{name} must be a text, not {getattr(self, name)!r}")  # noqa: TRY004  as the others
        if self.score is not None:
            object.__setattr__(self, "score", _score(self.score))
        if not all(isinstance(met, bool) for met in (self.criteria or {}).values()):
            raise ValueError(f"criteria must be True or False for each text, not {self.criteria!r:.200}")
        for name in ("evidence", "usage", "calibration", "criteria"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, _plain(value, name))
        if self.usage is not None:
            object.__setattr__(self, "usage", {**NO_USAGE, **self.usage})


def _score(value: Any) -> float:
    """Return a plain float, also of a Decimal or a number of numpy's."""
    try:
        score = float(value)
    except (TypeError, ValueError):
        score = math.nan
    if not 0 <= score <= 1:
        raise ValueError(f"score must be between 0 and 1, not {value!r}")
    return score


def _plain(value: Any, name: str) -> dict[str, Any]:
    """Return a copy that any checkpoint can hold."""
    try:
        plain = json.loads(json.dumps(value, allow_nan=False), parse_int=_whole)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{name} must be a mapping of plain data: {error}") from None
    if not isinstance(plain, dict):
        raise ValueError(f"{name} must be a mapping of plain data, not {value!r}")  # noqa: TRY004  as the others
    return plain


def _whole(digits: str) -> int | str:
    """Return a whole number; one of more than 64 bits, which no checkpoint holds, as its digits."""
    number = int(digits)
    return number if -(2**63) <= number < 2**63 else digits


class Critic(Protocol):
    """Any callable with this shape is a critic; it may be async.

    `history` is the record of the run so far, oldest first. Several critiques may be returned, or an empty list where
    it can't tell. One with a parameter `state` is given the state of the run by that name, with the draft that it
    judges as `draft`.
    """

    def __call__(
        self, task: str, draft: str, history: Sequence[Event], /
    ) -> Critique | Sequence[Critique] | Awaitable[Critique | Sequence[Critique]]: ...


DualCritic = DualCallable[[str, str, Sequence[Event]], Critique]
"""A critic that asks models or runs programs: `(task, draft, history) -> Critique`."""


class Verifier(Protocol):
    """A pure check: the same task and draft always get the same critique, and no model is asked.

    `None` says that it can't tell about this task.
    """

    def __call__(self, task: str, draft: str, /) -> Critique | None: ...


AnyVerifier: TypeAlias = "Callable[..., Critique | bool | float | tuple[bool | float, str] | None]"
"""Whatever graphs take for a verifier; see `verifier_critic`."""
