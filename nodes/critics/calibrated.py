"""Calibrated critic: accepts only where that is rarely wrong, by a file of `redraft calibrate`. Internal."""

from __future__ import annotations

import copy
import hashlib
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from ...state.critique import Critique, DualCritic
from ...state.dual import Do, calling
from ...state.summary import latest_draft
from .judge_file import ENOUGH_TO_COMPARE, JudgeFile, Reading, drifted, read_judge
from .registry import named_critic

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Generator, Mapping, Sequence

    from langchain_core.language_models import BaseChatModel

    from ...state.events import Event

__all__ = [
    "CalibratedCritic",
    "ask_votes",
    "calibrated",
    "critic_identity",
    "judge_critic",
    "judge_from_specs",
    "number_in",
]

LOG = logging.getLogger("redraft")


class CalibratedCritic(DualCritic):
    """Critics behind a threshold; see `calibrated`."""

    calibrated = True

    def __init__(self, critics: Sequence[Any], judge: JudgeFile, *, name: str = "judge") -> None:
        if len(critics) != len(judge.critics):
            wanted = ", ".join(part.name for part in judge.critics)
            raise ValueError(f"the judge has {len(judge.critics)} critics ({wanted}), and {len(critics)} are given")
        for critic, part in zip(critics, judge.critics, strict=True):
            if not callable(critic):
                raise TypeError(f"a critic is a callable (task, draft, history) -> Critique, not {critic!r}")
            identity = critic_identity(critic)
            if part.identity and identity and identity != part.identity:
                raise ValueError(
                    f"the critic {part.name!r} is not the one that was calibrated: its model or a prompt is another one"
                )
        self.name = name
        self.critics = tuple(critics)
        self.judge = judge
        self._asked = list(zip(critics, judge.critics, strict=True))
        # The last ones only, and of first drafts: revisions were calibrated too, but the fingerprint is of these.
        self._live: deque[float] = deque(maxlen=200)
        self._seen = 0

    def logic(
        self, task: str, draft: str, history: Sequence[Event], /, state: Mapping[str, Any] | None = None
    ) -> Generator[Do, Any, Critique]:
        """Accept the draft, or say neither yes nor no."""
        judge = self.judge
        latest = latest_draft(history)
        number = latest.round if latest else 0
        marks = {"judge": judge.sha256, "threshold": judge.threshold, "alpha": judge.alpha, "delta": judge.delta}
        calibration = {**marks, "rounds": judge.rounds}
        if number > judge.rounds:
            return Critique(BEYOND.format(rounds=judge.rounds), None, by=self.name, calibration=calibration)
        lowest, texts, scores = 1.0, [], []
        for critic, part in self._asked:
            critiques = yield from ask_votes(
                critic, task, draft, history, votes=part.votes, temperature=part.temperature, state=state
            )
            score = sum(number_in(one, part.reading) for one in critiques) / part.votes
            scores.append({"critic": part.name, "score": round(score, 6), "votes": part.votes})
            texts += [one.text for one in critiques if one.text and one.accepted is not True]
            lowest = min(lowest, score)
            if lowest < judge.threshold:  # the others can't raise it again
                break
        if number == 0:
            self._note(lowest)
        accepted = True if lowest >= judge.threshold else None
        text = "\n\n".join(dict.fromkeys(texts)) if accepted is None else ""
        return Critique(text, accepted, lowest, by=self.name, evidence={"asked": scores}, calibration=calibration)

    def _note(self, score: float) -> None:
        """Log once in a while that live scores have drifted."""
        self._live.append(score)
        self._seen += 1
        if self._seen % ENOUGH_TO_COMPARE == 0 and (message := drifted(self.judge, list(self._live))):
            LOG.warning("%s: %s", self.name, message)


def calibrated(
    critics: Sequence[Any], judge: str | os.PathLike[str] | Mapping[str, Any], *, name: str = "judge"
) -> CalibratedCritic:
    """Return a critic that accepts only where at most a share alpha of what it accepts is wrong.

    The critics are asked in their order, each as often as the file says, until one is below the threshold. Where all
    reach it the draft is accepted, and no critic or person after it is asked; else the critique has `accepted=None`:
    the next critic is asked, then a person, and where nobody decides the run is revised as long as the calibration
    covered revisions, or stops as `undecided`. The bound holds for drafts that come about like those of the
    calibration, so a judge that was calibrated on first drafts says nothing about a revision.

    When the scores of first drafts no longer look like the calibration's, that is logged as a warning (logger
    `redraft`). Learn-then-Test, Angelopoulos and others, arXiv 2110.01052.

    Args:
        critics: As many as in the file, in its order; the same models and prompts that were calibrated.
        judge: The file that `redraft calibrate` wrote, or its content.
        name: How events name it.

    Raises:
        ValueError: At build: the file can't be read or makes no sense, or these are not the critics that it is for.
        TypeError: At build: a critic is not callable.

    Example:
        >>> import json
        >>> from pathlib import Path
        >>> from redraft import build_refine_graph, calibrated, uses_words, verifier_critic
        >>> part = {"spec": "uses_words", "name": "uses_words", "reading": "verdict", "votes": 1}
        >>> bound = {"alpha": 0.1, "delta": 0.1, "n": 60, "right": 50, "accepted": 50, "wrong": 0, "rounds": 0}
        >>> judge = {"critics": [part], "threshold": 1.0, **bound, "scores": {0.0: 10, 1.0: 50}, "date": "2026-11-23"}
        >>> critic = calibrated([verifier_critic(uses_words("rain"))], judge)
        >>> critic.name
        'judge'
    """
    return CalibratedCritic(critics, read_judge(judge), name=name)


def judge_critic(spec: str, writer: Any, build_model: Callable[[str], BaseChatModel]) -> Any:
    """Return the critic of a judge that a spec names, as `named_critic` reads it.

    Raises:
        ValueError: The spec makes no sense.
    """
    from langchain_core.language_models import BaseChatModel

    from .model_critic import ModelCritic

    critic = named_critic(spec, writer, build_model)
    return ModelCritic(critic, name=spec) if isinstance(critic, BaseChatModel) else critic


def judge_from_specs(
    judge: Mapping[str, Any] | JudgeFile, writer: Any, build_model: Callable[[str], BaseChatModel]
) -> CalibratedCritic:
    """Return the calibrated critic of a file that the shell made.

    Raises:
        ValueError: The file makes no sense, or one of its critics was made in Python.
    """
    content = read_judge(judge)
    if unknown := [part.name for part in content.critics if not part.spec]:
        raise ValueError(f"the judge's critic {unknown[0]!r} was made in Python: use calibrated([…], …) there")
    return CalibratedCritic([judge_critic(part.spec, writer, build_model) for part in content.critics], content)


def ask_votes(
    critic: Any,
    task: str,
    draft: str,
    history: Sequence[Event],
    *,
    votes: int,
    temperature: float | None,
    state: Mapping[str, Any] | None = None,
) -> Generator[Do, Any, list[Critique]]:
    """Ask a critic several times about one draft and return its answers."""
    from .critics import read_critiques, takes_state

    own = {"state": state or {}} if takes_state(critic) else {}
    critiques: list[Critique] = []
    for number in range(votes):
        voter = _voter(critic, number, temperature)
        reply = read_critiques(
            (yield calling(voter, task, draft, history, **own)), by=str(getattr(critic, "name", "critic"))
        )
        # One that can't tell counts as one that does not accept.
        critiques.append(reply[0] if reply else Critique("", None))
    return critiques


def number_in(critique: Critique, reading: Reading) -> float:
    """Return the number that is read off a critique, 0–1; 0 where there is none: it accepts nothing then."""
    if reading == "verdict":
        return float(critique.accepted is True)
    return critique.score or 0.0


def critic_identity(critic: Any) -> str:
    """Return a hash of a critic's kind, model and prompts; empty for one that has none of these."""
    templates = getattr(critic, "templates", None)
    if templates is None:
        return ""
    model = getattr(critic, "model", None) or getattr(critic, "_model", None)
    spec = getattr(model, "model_name", None) or getattr(model, "model", None) or type(model).__name__
    prompts = [str(one.prompt.template) for template in templates for one in template.messages]
    parts = [type(critic).__name__, str(spec), str(getattr(critic, "stop_phrase", "")), *prompts]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _voter(critic: Any, number: int, temperature: float | None) -> Any:
    """Return a critic whose model samples, with a seed of its own; others are asked again as they are."""
    model = getattr(critic, "model", None)
    if temperature is None or model is None or not hasattr(critic, "on"):
        return critic
    fields = type(model).model_fields
    settings: dict[str, Any] = {"temperature": temperature} if "temperature" in fields else {}
    if isinstance(seed := getattr(model, "seed", None), int) and "seed" in fields:
        settings["seed"] = seed + number
    return critic.on(model.model_copy(update=settings)) if settings else copy.copy(critic)


BEYOND = "The judge was calibrated on drafts of up to {rounds} revisions, so it may say nothing about this one."
