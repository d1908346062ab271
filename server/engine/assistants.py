"""Assistants: the presets that a server offers, and their graphs, each built once for each model. Internal."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, cast

from langchain_core.language_models import BaseChatModel
from langgraph.graph.state import CompiledStateGraph

from ...faces.problems import BadInputError
from ...faces.run_config import RunConfig
from ...graphs import Preset, Served
from ...graphs.registry import find_preset, served_presets
from ...nodes.verify.verifiers import stored_verifier
from ..settings import Settings
from .runs import BadRequestError, NotThereError

__all__ = ["Assistant", "Assistants", "assistants_of", "cached"]

K = TypeVar("K")
V = TypeVar("V")

Graph: TypeAlias = "CompiledStateGraph[Any, Any, Any, Any]"
Source: TypeAlias = "RunConfig | tuple[Assistant, str]"
"""Of a graph: a recipe, or an assistant without one and the spec of its model."""
NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Assistant:
    """A preset as callers know it."""

    id: str
    preset: Preset
    served: Served
    options: Mapping[str, Any]
    """The rest of its recipe, besides the model."""

    def recipe(self, spec: str, options: Mapping[str, Any] = NO_OPTIONS) -> RunConfig | None:
        """Return the recipe that rebuilds its graph; `None` where only Python can.

        Args:
            spec: Of the model.
            options: Checked, in place of its own.
        """
        return RunConfig.given(model=spec, **{**self.options, **options}) if self.served.build is None else None


def assistants_of(settings: Settings) -> dict[str, Assistant]:
    """Return the assistants of a server. A search over files is one only where a folder is named.

    Raises:
        ValueError: The file of prompts can't be used, a recipe makes no sense or is for another model, or a pipeline
            or recipe has the name of another.
    """
    assistants, tuned = {}, ""
    texts: dict[str, Any] = {}
    judge: dict[str, Any] = {}
    if settings.prompts is not None:
        from ...nodes import builder_prompts
        from ...nodes.writing.prompt_files import read_tuned

        kind = read_tuned(settings.prompts).get("kind")
        if kind not in PRESET_OF:
            raise ValueError(
                f"the prompts of {settings.prompts!r} do not say for which kind of problems they are: "
                f"{', '.join(PRESET_OF)}"
            )
        tuned, texts = PRESET_OF[kind], builder_prompts(settings.prompts)
    priced = {} if settings.prices is None else {"prices": settings.prices}
    if settings.judge is not None:
        from ...nodes.critics.judge_file import read_judge

        judge = {"judge": read_judge(settings.judge).model_dump(mode="json")}
    for name, (preset, served) in served_presets().items():
        options = {"preset": preset.name, **served.recipe, **(texts if preset.name == tuned else {}), **priced}
        if "judge" in {option.name for option in preset.options}:
            options |= judge
        if served.documents:
            # A stored index is given by name in the folder's place.
            options |= {served.documents: settings.documents} if settings.index is None else {"index": settings.index}
        if not served.documents or settings.documents is not None or settings.index is not None:
            assistants[name] = Assistant(name, preset, served, options)
    for own in _own_assistants(settings):
        if own.id in assistants:
            raise ValueError(f"the name {own.id!r} is taken: serve it under another")
        assistants[own.id] = replace(own, options={**priced, **own.options})
    return assistants


def _own_assistants(settings: Settings) -> Iterator[Assistant]:
    """Give the pipelines and recipes that are served under names.

    Raises:
        ValueError: A recipe makes no sense, or is for another model.
    """
    for name, steps in settings.pipelines.items():
        options: dict[str, Any] = {"preset": "pipeline", "steps": steps}
        yield Assistant(name, find_preset("pipeline"), Served(name, steps), options)
    for name, recipe in settings.recipes.items():
        options = {"preset": "refine", **recipe}
        if (model := options.pop("model", settings.model)) != settings.model:
            raise ValueError(f"the recipe {name} is for the model {model}: serve it with --model {model}")
        try:
            RunConfig.given(model=settings.model, **options)
        except BadInputError as error:
            raise ValueError(f"the recipe {name}: {error}") from None
        yield Assistant(name, find_preset(options["preset"]), Served(name), options)


PRESET_OF = {"numeric": "math", "code": "code", "words": "writing", "exact": "refine"}
"""By the kind of problems."""


class Assistants:
    """Graphs of the assistants. Models are built once for each spec, graphs once for each recipe.

    Args:
        settings: Name the models that are allowed.
        saver: Where the graphs keep their threads.
        build_model: From a spec to the model; default: `redraft.models.chat_model`.
    """

    def __init__(self, settings: Settings, saver: Any, build_model: Callable[[str], BaseChatModel] | None) -> None:
        self.known = assistants_of(settings)
        self._settings = settings
        self._saver = saver
        self._build_model = build_model
        self._models: dict[str, BaseChatModel] = {}
        self._graphs: OrderedDict[str, Graph] = OrderedDict()
        # Graphs are built in worker threads; two requests at once must not load a model twice.
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
        spec = model or self._settings.model
        if spec != self._settings.model and spec not in self._settings.models:
            raise BadRequestError("this model is not among those that the server allows")
        return spec

    def reached(self) -> set[str]:
        """Return the files and servers that the assistants' recipes reach, as `RunConfig.reaches` names them."""
        return {place for recipe in self._recipes for place in recipe.reaches()}

    def asked(self) -> set[str]:
        """Return the models that the assistants' recipes ask, also those that no caller may name."""
        return {spec for recipe in self._recipes for spec in recipe.models}

    @cached_property
    def _recipes(self) -> list[RunConfig]:
        specs = (self._settings.model, *self._settings.models)
        made = [assistant.recipe(spec) for assistant in self.known.values() for spec in specs]
        return [recipe for recipe in made if recipe is not None]

    def model(self, spec: str) -> BaseChatModel:
        """Return the model, which is built once. Blocks while it is."""
        with self._lock:
            return self._model(spec)

    def built(self, source: Source) -> Graph | None:
        """Return the graph where it is built already."""
        return self._graphs.get(_key(source))

    def graph_of(self, source: Source) -> Graph:
        """Return the graph of a recipe, or of an assistant without one. Blocks while it is built.

        Raises:
            ImportError: An extra that the preset needs is not installed.
            ValueError: It can't be built here.
        """
        for spec in source.verifiers if isinstance(source, RunConfig) else ():
            stored_verifier(spec)  # is kept: others must not wait while it is built
        with self._lock:
            return cached(self._graphs, _key(source), lambda: self._build(source), most=MOST_GRAPHS)

    def _build(self, source: Source) -> Graph:
        if isinstance(source, RunConfig):
            return source.build(self._saver, build_model=self._model)
        assistant, spec = source
        assert assistant.served.build is not None  # noqa: S101  # only then it has no recipe
        return cast("Graph", assistant.served.build(self._model(spec), self._saver))

    def _model(self, spec: str, **tuning: Any) -> BaseChatModel:
        from ...models import chat_model

        if tuning:  # of one recipe, with whose graph it is kept
            return chat_model(spec if self._build_model is None else self._build_model(spec), **tuning)
        if spec not in self._models:
            self._models[spec] = chat_model(spec) if self._build_model is None else self._build_model(spec)
        return self._models[spec]


MOST_GRAPHS = 128
"""Graphs that are kept; whoever runs an older one keeps it."""


def _key(source: Source) -> str:
    if isinstance(source, RunConfig):
        return json.dumps([source.preset, source.flat()], sort_keys=True)
    assistant, spec = source
    return f"{assistant.id} {spec}"


def cached(cache: OrderedDict[K, V], key: K, make: Callable[[], V], *, most: int) -> V:
    """Return a cached value, made where it is missing; the least recently used is evicted."""
    if key not in cache:
        cache[key] = make()
        if len(cache) > most:
            cache.popitem(last=False)
    cache.move_to_end(key)
    return cache[key]
