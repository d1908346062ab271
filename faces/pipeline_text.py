"""Pipelines as a user writes them on the shell, with folders that are found from anywhere. Internal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .problems import BadInputError

if TYPE_CHECKING:
    from ..nodes.reasoning.pipeline_language import Pipeline, PipelineStep

__all__ = ["read_pipeline"]


def read_pipeline(steps: str) -> Pipeline:
    """Return the pipeline, its folders absolute.

    Raises:
        BadInputError: It makes no sense, or there is no such folder; the message points at the place.
    """
    from ..nodes.reasoning.pipeline_language import Pipeline, PipelineError, UseDir, parse_pipeline

    try:
        parsed = parse_pipeline(steps, check=_existing_folder)
    except PipelineError as error:
        first, _, rest = str(error).partition("\n")
        raise BadInputError(first, details=rest) from None
    return Pipeline(
        tuple(
            UseDir(str(Path(step.value).expanduser().absolute())) if step.name == "UseDir" else step
            for step in parsed.steps
        )
    )


def _existing_folder(step: PipelineStep) -> None:
    from ..nodes.reasoning.pipeline_language import PipelineError

    if step.name == "UseDir" and not Path(step.value).expanduser().is_dir():
        raise PipelineError(f"there is no folder {step.value!r}")
