"""Judge file: which critics accept, from which score on, and how often they may be wrong. Internal."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..._files import read_file
from ...state.limits import MOST

__all__ = ["THRESHOLDS", "JudgeFile", "JudgePart", "Reading", "bin_of", "drifted", "read_judge"]

Reading = Literal["verdict", "score"]
"""The number that is read off a critique: 1 for accepted and 0 for anything else, or its own score."""

THRESHOLDS: tuple[float, ...] = tuple(
    sorted({0.99999, 0.99995, 0.9999, 0.9995, 0.999, 0.995, *(number / 100 for number in range(101))}, reverse=True)
)
"""The thresholds that are tried, strict to lax: the same for all data, as the bound requires. Log-probabilities crowd
below 1, so there are more of them there."""

ENOUGH_TO_COMPARE = 30
"""Live scores from which on they are compared with the calibration's."""
ALARM = 0.001
"""The p-value below which they differ: small, since they are compared again and again."""


class JudgePart(BaseModel):
    """One critic of a judge."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    spec: str
    """As `--critic` of `redraft calibrate` takes it; empty where Python made the critic."""
    name: str
    identity: str = ""
    """Hash of its kind, model and prompts; empty where that is not known."""
    reading: Reading
    votes: int = Field(strict=True, ge=1, le=99)
    """How often it is asked about one draft; the mean of what is read counts."""
    temperature: float | None = Field(strict=True, default=None, ge=0)
    """At which it is asked several times; `None`: as it was built."""


class JudgeFile(BaseModel):
    """Result of `redraft calibrate`: at most a share `alpha` of what it accepts is wrong, with confidence 1 - `delta`.

    Raises:
        ValueError: A field is missing, unknown or makes no sense.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    format: Literal[1] = 1
    critics: tuple[JudgePart, ...] = Field(min_length=1)
    """In the order in which they are asked; the first whose number is below the threshold ends it."""
    threshold: float = Field(strict=True, ge=0, le=1)
    alpha: float = Field(strict=True, gt=0, lt=1)
    delta: float = Field(strict=True, gt=0, lt=1)
    rounds: int = Field(strict=True, default=0, ge=0, le=MOST)
    """It was calibrated on first drafts and so many revisions of each; of later ones it may say nothing."""
    n: int = Field(strict=True, ge=1, le=MOST)
    """Problems that it was calibrated on."""
    right: int = Field(strict=True, ge=0, le=MOST)
    """Of how many a right draft could have been accepted."""
    accepted: int = Field(strict=True, ge=1, le=MOST)
    wrong: int = Field(strict=True, ge=0, le=MOST)
    """Of those accepted."""
    made_from: str = ""
    """The labelled file or dataset."""
    drafts_by: str = ""
    """The model that wrote them, where that is known."""
    date: str
    scores: dict[float, int] = Field(min_length=1)
    """The fingerprint: how many first drafts scored from each of `THRESHOLDS` up to the next."""

    @model_validator(mode="after")
    def _makes_sense(self) -> JudgeFile:
        if self.wrong > self.accepted or self.accepted > self.n:
            raise ValueError(f"wrong {self.wrong}, accepted {self.accepted} and n {self.n} can't be counts of one file")
        if any(count < 0 for count in self.scores.values()) or not sum(self.scores.values()):
            raise ValueError("scores must be counts, and not all 0")
        return self

    @property
    def sha256(self) -> str:
        """Hash of its content: what a record names it by."""
        return hashlib.sha256(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()[:16]


def read_judge(judge: str | os.PathLike[str] | Mapping[str, Any] | JudgeFile) -> JudgeFile:
    """Return a judge from its file, or from its content.

    Raises:
        ValueError: The file can't be read, or is none of `redraft calibrate`; the message says why.
    """
    if isinstance(judge, JudgeFile):
        return judge
    label = "the judge" if isinstance(judge, dict) else f"the judge {str(judge)!r}"
    try:
        content = judge if isinstance(judge, dict) else json.loads(read_file(judge))  # type: ignore[arg-type]
        return JudgeFile.model_validate(content)
    except OSError as error:
        raise ValueError(f"{label} can't be read: {error.strerror or error}") from None
    except ValidationError as error:
        fields = [
            f"{'.'.join(map(str, one['loc'])) or 'the file'}: {one['msg'].removeprefix('Value error, ')}"
            for one in error.errors(include_url=False, include_input=False)
        ]
        raise ValueError(f"{label} is no file of redraft calibrate: {'; '.join(fields[:4])}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{label} is no JSON: {error}") from None


def bin_of(score: float) -> float:
    """Return the greatest of `THRESHOLDS` that a score reaches."""
    return next((edge for edge in THRESHOLDS if score >= edge), 0.0)


def drifted(judge: JudgeFile, scores: Sequence[float]) -> str | None:
    """Return a warning where live scores no longer look like the calibration's; `None` where they do.

    The two-sample test of Kolmogorov and Smirnov, with its asymptotic p-value, which is too large where many scores
    are equal: it rather stays silent. Too few scores say nothing.

    Args:
        judge: Its fingerprint is compared.
        scores: Of first drafts, 0–1.
    """
    n, m = len(scores), sum(judge.scores.values())
    if n < ENOUGH_TO_COMPARE:
        return None
    live: dict[float, int] = {}
    for score in scores:
        live[bin_of(score)] = live.get(bin_of(score), 0) + 1
    apart = here = there = 0.0
    for edge in THRESHOLDS:
        here += live.get(edge, 0) / n
        there += judge.scores.get(edge, 0) / m
        apart = max(apart, abs(here - there))
    root = math.sqrt(n * m / (n + m)) * apart
    p = 2 * sum((-1) ** (k - 1) * math.exp(-2 * (k * root) ** 2) for k in range(1, 101)) if root > 0.2 else 1.0
    if p >= ALARM:
        return None
    mean = sum(edge * count for edge, count in judge.scores.items()) / m
    return (
        f"the last {n} scores no longer look like the calibration's (mean {sum(scores) / n:.2f} against {mean:.2f}, "
        f"Kolmogorov-Smirnov D = {apart:.2f}): that at most {judge.alpha:.0%} of what is accepted is wrong no longer "
        "follows; calibrate again"
    )
