"""An object in place of a graph, for programs that keep one agent and change its settings. Internal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from langgraph.types import Command

from ..nodes.arguments import checked_count, checked_share
from ..nodes.rubric.rubrics import refinement_metadata
from ..state.limits import Limits, merged_limits
from ..state.threads.kind import kind_of

__all__ = ["RefiningAgent"]


class RefiningAgent:
    """An agent whose refinement is switched and tuned while it lives; its graph is `graph`.

    Each change builds the graph anew; a run that is under way keeps the settings it began with.

    Args:
        build: A builder that takes `enabled`, `threshold` and `limits`: `partial(build_rubric_graph, model)`, say. The
            `limits` of a partial stay in force beside `max_iterations`.
        enabled: Whether drafts are judged and revised at all.
        quality_threshold: The overall score that is enough, 0–1.
        max_iterations: How often a draft may be revised, 0 or more. It stands over the builder's `max_rounds`.

    Raises:
        ValueError: A setting makes no sense.
    """

    def __init__(
        self,
        build: Callable[..., Any],
        *,
        enabled: bool = True,
        quality_threshold: float = 0.8,
        max_iterations: int = 3,
    ) -> None:
        self._build = build
        self._limits: Mapping[str, Any] = (getattr(build, "keywords", None) or {}).get("limits") or {}
        self._config: dict[str, Any] = {}
        self._last: dict[str, Any] | None = None
        self.configure_refinement(enabled, quality_threshold, max_iterations)

    def configure_refinement(
        self,
        enabled: bool | None = None,
        quality_threshold: float | None = None,
        max_iterations: int | None = None,
    ) -> None:
        """Change settings; those not given stay. Where one is refused, all stay.

        Raises:
            ValueError: A setting makes no sense.
        """
        settings = {"enabled": enabled, "quality_threshold": quality_threshold, "max_iterations": max_iterations}
        config = {**self._config, **{name: value for name, value in settings.items() if value is not None}}
        if not isinstance(config["enabled"], bool):
            raise ValueError(f"enabled must be True or False, not {config['enabled']!r}")  # noqa: TRY004  as the others
        checked_count("max_iterations", config["max_iterations"], least=0)
        checked_share("quality_threshold", config["quality_threshold"])
        limits = merged_limits(self._limits, {"max_rounds": config["max_iterations"]})
        self.graph = self._build(enabled=config["enabled"], threshold=config["quality_threshold"], limits=limits)
        self._config = config

    def get_status(self) -> dict[str, Any]:
        """Return `refinement_config`, the settings in force, and `last_run`, the metadata of the last finished run."""
        return {"refinement_config": dict(self._config), "last_run": deepcopy(self._last)}

    def invoke(self, task: str | Mapping[str, Any] | Command[Any] | None, config: Any = None) -> dict[str, Any]:
        """Return the output of one run, with `metadata` beside it once it has ended.

        That is what `redraft.nodes.refinement_metadata` tells, or `travel_metadata` of the trip planner; `get_status`
        keeps it. A run that waits for a person has `__interrupt__` in its place.

        Args:
            task: The task, or the input of the graph: a `Command` answers a person's question, and `None` goes on where
                the thread stands. A dict of `limits` stands over the settings; of `Limits`, `max_rounds` does not.
            config: As in `Runnable.invoke`.

        Raises:
            TypeError: The task is neither a text nor an input.
            Exception: Whatever fails before the first draft; later errors end the run with the best one.
        """
        return self._noted(self.graph.invoke(self._given(task), config))

    async def ainvoke(self, task: str | Mapping[str, Any] | Command[Any] | None, config: Any = None) -> dict[str, Any]:
        """Return the output of one run, as `invoke` does, without blocking."""
        return self._noted(await self.graph.ainvoke(self._given(task), config))

    def _given(self, task: str | Mapping[str, Any] | Command[Any] | None) -> Any:
        if task is None or isinstance(task, Command):
            return task
        if not isinstance(task, str | Mapping):
            raise TypeError(f"a task is a text, or the input of the graph, not {task!r}")
        task_input: dict[str, Any] = {"task": task} if isinstance(task, str) else dict(task)
        said, rounds = task_input.get("limits") or {}, {"max_rounds": self._config["max_iterations"]}
        # With the input, since an older thread would go on under the limits that it had. A `Limits` names every limit,
        # also those that nobody thought of.
        limits = {**said, **rounds} if isinstance(said, Limits) else {**self._limits, **rounds, **said}
        return {**task_input, "limits": limits}

    def _noted(self, out: Mapping[str, Any]) -> dict[str, Any]:
        if "__interrupt__" in out:
            return dict(out)
        self._last = (kind_of(self.graph).metadata or refinement_metadata)(out)
        return {**out, "metadata": deepcopy(self._last)}
