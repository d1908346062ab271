"""Pipelines as a user writes them on the shell, with folders that are found from anywhere. Internal."""

from __future__ import annotations

from pathlib import Path

from ..nodes.reasoning.pipeline_language import (
    EvaluateQuality,
    Pipeline,
    PipelineError,
    PipelineStep,
    UseDir,
    parse_pipeline,
)
from .problems import BadInputError

__all__ = ["read_pipeline"]


def read_pipeline(steps: str) -> Pipeline:
    """Return the pipeline, its folders and files absolute.

    Raises:
        BadInputError: It makes no sense, or there is no such folder or index; the message points at the place.
    """
    try:
        parsed = parse_pipeline(steps, check=_existing)
    except PipelineError as error:
        first, _, rest = str(error).partition("\n")
        raise BadInputError(first, details=rest) from None
    return Pipeline(tuple(_found_anywhere(step) for step in parsed.steps))


def _found_anywhere(step: PipelineStep) -> PipelineStep:
    """Return a step whose folder or file, where it names one, is found from any folder."""
    if step.name == "UseDir":
        return UseDir(str(Path(step.value).expanduser().absolute()))
    scheme, _, file = step.value.partition(":") if step.name == "EvaluateQuality" else ("", "", "")
    if scheme == "json_schema" and file:
        return EvaluateQuality(f"{scheme}:{Path(file).expanduser().absolute()}")
    return step


def _existing(step: PipelineStep) -> None:

    if step.name == "UseDir" and not Path(step.value).expanduser().is_dir():
        raise PipelineError(f"there is no folder {step.value!r}")
    if step.name == "UseIndex":
        from ..nodes.documents import index_path

        try:
            is_there = index_path(step.value).is_file()
        except ValueError as error:
            raise PipelineError(str(error)) from None
        if not is_there:
            raise PipelineError(f"there is no index {step.value!r}")
