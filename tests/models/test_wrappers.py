"""LangChain's own wrappers work around our models as they do around a provider's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel
from redraft.models import RecordingModel, ReplayModel, ScriptedModel

if TYPE_CHECKING:
    from pathlib import Path


class Verdict(BaseModel):
    """A verdict."""

    accepted: bool


YES = {"structured": {"accepted": True}}


def model_of(kind: str, path: Path, *replies: Any) -> Any:
    """A model that answers with these replies, whichever kind it is."""
    script = ScriptedModel(replies, structured=True)
    if kind == "scripted":
        return script
    recording = RecordingModel(script, path)
    if kind == "recorded":
        return recording
    recording.with_structured_output(Verdict).invoke("judge")
    return ReplayModel(path)


@pytest.mark.parametrize("kind", ["scripted", "recorded", "replayed"])
def test_fallbacks_give_structured_output(kind: str, tmp_path: Path) -> None:
    """With fallbacks around it, a model still gives structured output, and the fallback's where it fails."""
    model = model_of(kind, tmp_path / "calls.sqlite", YES)
    spare = ScriptedModel([{"structured": {"accepted": False}}], structured=True)
    judge = model.with_fallbacks([spare]).with_structured_output(Verdict)
    assert judge.invoke("judge") == Verdict(accepted=True)
    assert judge.invoke("judge") == Verdict(accepted=False)  # the first has no second reply


@pytest.mark.parametrize("kind", ["recorded", "replayed"])
def test_fallbacks_find_tools(kind: str, tmp_path: Path) -> None:
    """With fallbacks around it, a model's `bind_tools` is that of the model: refused where tools are not taken."""
    model = model_of(kind, tmp_path / "calls.sqlite", YES)
    wrapped = model.with_fallbacks([model])
    if kind == "replayed":
        assert wrapped.bind_tools([Verdict]).runnable.bound is model
    else:
        with pytest.raises(NotImplementedError):
            wrapped.bind_tools([Verdict])


@pytest.mark.parametrize("kind", ["scripted", "recorded", "replayed"])
def test_retries_and_settings_around_a_model(kind: str, tmp_path: Path) -> None:
    """`with_retry` and `with_config` around structured output change nothing in the answer."""
    judge = model_of(kind, tmp_path / "calls.sqlite", YES).with_structured_output(Verdict)
    assert judge.with_retry(stop_after_attempt=1).with_config(tags=["x"]).invoke("judge") == Verdict(accepted=True)
