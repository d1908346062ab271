"""Critics of a judge by their specs, as the shell names them and a judge file keeps them. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .calibrated import CalibratedCritic
from .checklist_critic import ChecklistCritic
from .judge_file import read_judge
from .logprob_critic import LogprobCritic
from .model_critic import ModelCritic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from langchain_core.language_models import BaseChatModel

    from .judge_file import JudgeFile

__all__ = ["CHECKLIST", "FIELD", "LOGPROB", "judge_critic", "judge_from_specs", "model_spec"]

LOGPROB, CHECKLIST, FIELD = "logprob:", "checklist:", "field:"


def model_spec(spec: str) -> str:
    """Return the model that a critic's spec names; empty for one that names none."""
    bare = spec.removeprefix(LOGPROB).removeprefix(CHECKLIST)
    return "" if bare in ("", "self") or spec.startswith(FIELD) else bare


def judge_critic(spec: str, writer: BaseChatModel, build: Callable[[str], BaseChatModel]) -> Any:
    """Return the critic that a spec names.

    Args:
        spec: `self`, a model, `program`, or `logprob:` or `checklist:` before `self` or a model.
        writer: The model that writes the drafts: `self`, and the writer of programs.
        build: Makes a model of a spec.

    Raises:
        ValueError: The spec names none.
    """
    if spec.startswith(FIELD):
        raise ValueError(f"{spec} is a score in a file, which only Python can give a critic for: calibrated([…], …)")
    if spec == "program":
        from ..sandbox import Sandbox
        from .program_critic import program_critic

        return program_critic(writer, Sandbox())
    model = build(named) if (named := model_spec(spec)) else writer
    if spec.startswith(CHECKLIST):
        return ChecklistCritic(model, name=spec)
    return LogprobCritic(model, name=spec) if spec.startswith(LOGPROB) else ModelCritic(model, name=spec)


def judge_from_specs(
    judge: Mapping[str, Any] | JudgeFile, writer: BaseChatModel, build: Callable[[str], BaseChatModel]
) -> CalibratedCritic:
    """Return the calibrated critic of a file that the shell made.

    Raises:
        ValueError: The file makes no sense, or one of its critics was made in Python.
    """
    read = read_judge(judge)
    if unknown := [part.name for part in read.critics if not part.spec]:
        raise ValueError(f"the judge's critic {unknown[0]!r} was made in Python: use calibrated([…], …) there")
    return CalibratedCritic([judge_critic(part.spec, writer, build) for part in read.critics], read)
