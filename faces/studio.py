"""LangGraph Studio: the graphs that `langgraph.json` names. LangGraph's own server brings a checkpointer of its own.

Each preset that is served is a function here, with `_` for `-` in its name. The model is the one that `REDRAFT_MODEL`
names, as `chat_model` reads it; without it, the embedded model. A search is over the documents of
`REDRAFT_DOCUMENTS`; without it, of the working folder.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..graphs.registry import served_presets
from .run_config import RunConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..graphs.preset import Preset, Served

    def __getattr__(name: str) -> Callable[[], Any]: ...


__all__ = ["served_graphs"]


def served_graphs() -> dict[str, str]:
    """Return the graphs of `langgraph.json`."""
    return {name: f"{__name__}:{_function(name)}" for name, (_, served) in served_presets().items() if served.listed}


def _function(name: str) -> str:
    return name.replace("-", "_")


def _builder(preset: Preset, served: Served) -> Callable[[], Any]:
    def build() -> Any:
        model = os.environ.get("REDRAFT_MODEL") or "local"
        searched = {served.documents: os.environ.get("REDRAFT_DOCUMENTS") or "."} if served.documents else {}
        return RunConfig.given(**{"preset": preset.name, "model": model, **served.recipe, **searched}).build(None)

    build.__name__ = build.__qualname__ = _function(served.name)
    build.__doc__ = served.line
    return build


# LangGraph's server looks into the module's dictionary, where a module's own __getattr__ is not asked.
globals().update(
    {_function(served.name): _builder(preset, served) for preset, served in served_presets().values() if served.listed}
)
