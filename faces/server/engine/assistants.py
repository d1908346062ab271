"""The presets that a server offers, and their graphs: each built once for each model, when it is first asked for."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...recipe import Recipe
from .runs import BadRequestError, NotThereError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from langchain_core.language_models import BaseChatModel
    from langgraph.graph.state import CompiledStateGraph

    from ..settings import Settings

__all__ = ["Assistant", "Assistants", "served_presets"]

DESCRIPTIONS = {
    "refine": "Drafts, judges and revises; the model judges itself.",
    "refine-with-a-person": "The same, and a person is asked about each draft after the model has judged it.",
    "math": "Word problems: an independently written program must agree.",
    "code": "Python functions, judged by the examples and asserts in the task.",
    "writing": "Texts; the model judges itself.",
    "agent": "An agent that can calculate, whose answer is judged and refined.",
    "reasoning": "Drafts, criticises and improves three times.",
    "rubric": "Scores its answers on four weighted dimensions.",
    "travel": "Plans trips.",
    "zero-shot": "The baseline of one call.",
    "few-shot": "The baseline of one call after worked examples.",
    "majority-5": "The baseline of five samples and a vote.",
}
OPTIONS: dict[str, dict[str, Any]] = {
    "refine-with-a-person": {"preset": "refine", "critics": ("self",), "human": True},
    "agent": {"tools": ("calculate",)},
}


@dataclass(frozen=True)
class Assistant:
    """A preset as callers know it."""

    id: str
    description: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """What its recipe says besides preset and model."""
    build: Callable[[Any, Any], CompiledStateGraph[Any, Any, Any, Any]] | None = None
    """`(model, saver) -> graph`, for one that no recipe tells; the shell can't resume its threads."""
    listed: bool = True
    """Whether a search finds it; one that is not listed runs all the same."""

    def recipe(self, spec: str) -> Recipe | None:
        """Return what rebuilds its graph; `None` where only Python can."""
        if self.build is not None:
            return None
        return Recipe.given(**{"preset": self.id, "model": spec, **self.options})


def served_presets(settings: Settings) -> dict[str, Assistant]:
    """Return the assistants of a server. A search over files is one only where a folder is named."""
    found = {name: Assistant(name, told, OPTIONS.get(name, {})) for name, told in DESCRIPTIONS.items()}
    if settings.documents is not None:
        told = "Searches the server's documents, refining its queries."
        found["retrieval"] = Assistant("retrieval", told, {"folder": settings.documents})
    told = "Plans trips, and judges and revises nothing."
    found["travel-unrefined"] = Assistant("travel-unrefined", told, build=_unrefined, listed=False)
    return found


def _unrefined(model: Any, saver: Any) -> CompiledStateGraph[Any, Any, Any, Any]:
    from ....graphs.travel import build_travel_graph

    return build_travel_graph(model, enabled=False, checkpointer=saver)


class Assistants:
    """The graphs. Models are built once for each spec, graphs once for each assistant and model.

    Args:
        settings: Name the models that are allowed.
        saver: Where the graphs keep their threads.
        build_model: From a spec to the model; default: `redraft.models.chat_model`.
    """

    def __init__(self, settings: Settings, saver: Any, build_model: Callable[[str], BaseChatModel] | None) -> None:
        self.known = served_presets(settings)
        self._settings = settings
        self._saver = saver
        self._build_model = build_model
        self._models: dict[str, BaseChatModel] = {}
        self._graphs: dict[tuple[str, str], CompiledStateGraph[Any, Any, Any, Any]] = {}
        self._lock = threading.Lock()

    def get(self, name: str) -> Assistant:
        """Return the assistant.

        Raises:
            NotThereError: There is none of this name.
        """
        if name not in self.known:
            raise NotThereError("there is no such assistant")
        return self.known[name]

    def spec(self, model: str | None) -> str:
        """Return the spec of the model that is meant.

        Raises:
            BadRequestError: A caller may not name it.
        """
        if model is None or model == self._settings.model:
            return self._settings.model
        if model not in self._settings.models:
            raise BadRequestError("this model is not among those that the server allows")
        return model

    def model(self, spec: str) -> BaseChatModel:
        """Return the model, which is built once. Blocks while it is."""
        with self._lock:
            return self._model(spec)

    def built(self, name: str, model: str | None = None) -> CompiledStateGraph[Any, Any, Any, Any] | None:
        """Return the graph where it is built already."""
        return self._graphs.get((name, model or self._settings.model))

    def graph(self, name: str, model: str | None = None) -> CompiledStateGraph[Any, Any, Any, Any]:
        """Return the graph, which is built once. Blocks while it is.

        Raises:
            NotThereError: There is no such assistant.
            BadRequestError: A caller may not name this model.
            ImportError: An extra that the preset needs is not installed.
        """
        assistant, spec = self.get(name), self.spec(model)
        with self._lock:
            if (name, spec) not in self._graphs:
                self._graphs[name, spec] = self._built(assistant, spec)
            return self._graphs[name, spec]

    def _built(self, assistant: Assistant, spec: str) -> CompiledStateGraph[Any, Any, Any, Any]:
        recipe = assistant.recipe(spec)
        if recipe is None:
            assert assistant.build is not None  # noqa: S101  # what has no recipe has this
            return assistant.build(self._model(spec), self._saver)
        needed = recipe.preset != "retrieval"  # a search by rules asks no model
        return recipe.model_copy(update={"model": self._model(spec)} if needed else {}).build(self._saver)

    def _model(self, spec: str) -> BaseChatModel:
        if spec not in self._models:
            if self._build_model is not None:
                self._models[spec] = self._build_model(spec)
            else:
                from ....models import chat_model

                self._models[spec] = chat_model(spec)
        return self._models[spec]
