"""Limits of a run: rounds, patience and budgets. Internal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .summary import summary_of

if TYPE_CHECKING:
    from .events import Event

__all__ = ["Limits", "limits_in_force", "merged_limits"]

MOST = 1_000_000
"""Rounds and patience: more than any run makes."""
MOST_TOKENS = 10**15
"""Well within the 64 bits that a checkpoint has for a number."""


class _Fields(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    max_rounds: int = Field(default=3, ge=0, le=MOST)
    patience: int | None = Field(default=None, ge=1, le=MOST)
    max_tokens: int | None = Field(default=None, ge=1, le=MOST_TOKENS)
    max_cost_usd: float | None = Field(default=None, gt=0)
    max_seconds: float | None = Field(default=None, gt=0)


class Limits(dict[str, Any]):
    """Validated limits of a run. A plain `dict` underneath, so that a checkpoint holds plain data.

    Args:
        max_rounds: How often the draft may be revised. A round is one feedback plus one refine; 0 judges the first
            draft and revises nothing. At most a million.
        patience: Stop with `no_progress` after this many rounds in a row without a better score. A draft that has no
            score is no better than the one before. `None`: never.
        max_tokens: Token budget, input and output of all model calls together.
        max_cost_usd: Budget in US dollars. A call whose price is not known ends the run: the budget could not be kept.
        max_seconds: Budget of seconds spent in model calls, tools and verifiers. A pause costs nothing.

    Raises:
        ValueError: A limit is unknown or makes no sense; the message names each.

    Example:
        >>> from redraft import Limits
        >>> limits = Limits(max_rounds=2, max_tokens=5_000)
        >>> limits["max_rounds"], limits["max_seconds"]
        (2, None)
    """

    def __init__(
        self,
        *,
        max_rounds: int = 3,
        patience: int | None = None,
        max_tokens: int | None = None,
        max_cost_usd: float | None = None,
        max_seconds: float | None = None,
        **unknown: object,
    ) -> None:
        try:
            fields = _Fields(
                max_rounds=max_rounds,
                patience=patience,
                max_tokens=max_tokens,
                max_cost_usd=max_cost_usd,
                max_seconds=max_seconds,
                **unknown,  # refused by name below
            )
        except ValidationError as error:
            raise ValueError(_explain(error)) from None
        super().__init__(fields.model_dump())


def merged_limits(current: Mapping[str, Any] | None, changed: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the limits after a change: a plain dict is put over the current ones, a `Limits` replaces them all.

    Args:
        current: The limits in force; those that it leaves out have their defaults.
        changed: `None` changes nothing.

    Raises:
        ValueError: The result makes no sense; the message names each limit that doesn't.
    """
    if wrong := [one for one in (current, changed) if not isinstance(one, Mapping | None)]:
        raise ValueError(f"limits must be Limits or a dict of limits, not {wrong[0]!r}")
    whole = changed if isinstance(changed, Limits) else {**(current or {}), **(changed or {})}
    if nameless := [name for name in whole if not isinstance(name, str)]:
        raise ValueError("limits: " + "; ".join(_unknown(name) for name in nameless))
    return dict(Limits(**whole))


def limits_in_force(events: Sequence[Event]) -> dict[str, Any]:
    """Return the limits that the record's last verdict was reached with; empty before the first run of a thread.

    The task holds those that the run began with, and each verdict those that were changed since.
    """
    return dict(summary_of(events).limits)


def _unknown(name: object) -> str:
    return f"{name!r} is not a limit; the limits are {', '.join(_Fields.model_fields)}"


def _shown(value: object) -> str:
    try:
        return f"{value!r:.80}"
    except ValueError:  # a number with more digits than Python writes out
        return "a number that is far too large"


def _explain(error: ValidationError) -> str:
    problems = []
    for detail in error.errors():
        name = ".".join(str(part) for part in detail["loc"])
        if detail["type"] == "extra_forbidden":
            problems.append(_unknown(name))
        else:
            problems.append(f"{name}={_shown(detail['input'])}: {detail['msg'][0].lower()}{detail['msg'][1:]}")
    return "limits: " + "; ".join(problems)
