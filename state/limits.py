"""When a run must stop: rounds, patience and budgets."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

__all__ = ["Limits"]


class _Fields(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    max_rounds: int = Field(default=3, ge=0)
    patience: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)
    max_cost_usd: float | None = Field(default=None, gt=0)
    max_seconds: float | None = Field(default=None, gt=0)


class Limits(dict[str, Any]):
    """Validated limits of a run. A plain `dict` underneath, so that a checkpoint holds plain data.

    Args:
        max_rounds: How often the draft may be revised. A round is one feedback plus one refine; 0 judges the first
            draft and revises nothing.
        patience: Stop with `no_progress` after this many rounds in a row without a better score. A draft that has no
            score is no better than the one before. `None`: never.
        max_tokens: Token budget, input and output of all model calls together.
        max_cost_usd: Budget in US dollars. A call whose price is not known ends the run: the budget could not be kept.
        max_seconds: Budget of seconds spent in model calls, tools and verifiers. A pause costs nothing.

    Raises:
        ValueError: A limit is unknown or makes no sense; the message names each.
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


def _explain(error: ValidationError) -> str:
    problems = []
    for detail in error.errors():
        name = ".".join(str(part) for part in detail["loc"])
        if detail["type"] == "extra_forbidden":
            problems.append(f"{name!r} is not a limit; the limits are {', '.join(_Fields.model_fields)}")
        else:
            problems.append(f"{name}={detail['input']!r}: {detail['msg'][0].lower()}{detail['msg'][1:]}")
    return "limits: " + "; ".join(problems)
