"""Several steps of the loop as one superstep of LangGraph, so that one checkpoint is saved for all. Internal."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from langchain_core.runnables.config import var_child_runnable_config
from langgraph.channels.ephemeral_value import EphemeralValue
from langgraph.channels.last_value import LastValue
from langgraph.errors import GraphDrained, GraphInterrupt
from langgraph.types import Command

from ...state.dual import Do
from ...state.langgraph_internals import MISSING, PULL
from .step import DualRunnable, Step, Update, control_in

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.channels.base import BaseChannel

    Channels = Mapping[str, BaseChannel[Any, Any, Any]]

__all__ = ["Superstep"]


class Superstep(DualRunnable[Any, Any]):
    """A graph node that runs several steps, each on the state that the one before it left.

    It ends early where the run is asked to stop, before a later step that pauses it, and where an error is to be raised
    once its cost is saved. What was done is saved then, and the graph goes on with the next step's own node: nobody is
    asked about a draft that is written anew afterwards.

    Args:
        steps: Run in this order; the first gives the node its name.
        channels: Of the graph, by which updates are applied.
    """

    def __init__(self, steps: Sequence[Step], channels: Channels) -> None:
        self.name = steps[0].name
        self.steps = steps
        self.channels = channels

    def logic(self, input: Any, config: RunnableConfig | None) -> Generator[Do, Any, Update | Command[Any]]:  # noqa: A002
        config, updates = config or {}, _Updates(self.channels, input)
        updates.add((yield Do(self.steps[0].invoke, self.steps[0].ainvoke, (input, config))))
        control = control_in(config)
        for step in self.steps[1:]:
            # The last one calls no model, so that a stop may as well come after it.
            stopped = step is not self.steps[-1] and control is not None and control.drain_requested
            if stopped or updates.state.get("raised") is not None:
                break
            try:
                updates.add((yield Do(_invoke, _ainvoke, (step, updates.state, config))))
            except (GraphInterrupt, GraphDrained):
                break
        return updates.merged()


def _invoke(step: Step, state: Mapping[str, Any], config: RunnableConfig) -> Update:
    with _named(config, step.name) as own:
        return step.invoke(state, own)


async def _ainvoke(step: Step, state: Mapping[str, Any], config: RunnableConfig) -> Update:
    with _named(config, step.name) as own:
        return await step.ainvoke(state, own)


@contextmanager
def _named(config: RunnableConfig, node: str) -> Iterator[RunnableConfig]:
    """Give the config that a node of this name would have: by it the journal and streams know whose a call is."""
    place = {"langgraph_node": node, "langgraph_path": (PULL, node)}
    own: RunnableConfig = {**config, "metadata": {**config.get("metadata", {}), **place}}
    # Models below a function that takes no config find it here.
    before = var_child_runnable_config.set(own)
    try:
        yield own
    finally:
        var_child_runnable_config.reset(before)


class _Updates:
    """The updates of several steps, and the state with them."""

    def __init__(self, channels: Channels, state: Mapping[str, Any]) -> None:
        self.state = state
        self._channels = channels
        self._writes: dict[str, list[Any]] = {}

    def add(self, update: Update) -> None:
        """Apply the update of one step as LangGraph does between two supersteps."""
        for held in (self._writes, state := dict(self.state)):
            for name in [one for one in held if isinstance(self._channels.get(one), EphemeralValue)]:
                del held[name]
        for name, value in update.items():
            channel = self._channels.get(name)
            if channel is None:  # LangGraph drops it as well
                continue
            if isinstance(channel, LastValue):
                self._writes[name], state[name] = [value], value
                continue
            self._writes.setdefault(name, []).append(value)
            grown = channel.from_checkpoint(state.get(name, MISSING))
            grown.update([value])
            state[name] = grown.get()
        self.state = state

    def merged(self) -> Update | Command[Any]:
        """Return one update for all."""
        if len(self._writes.get("events", ())) > 1:
            self._writes["events"] = [[event for write in self._writes["events"] for event in write]]
        if all(len(writes) == 1 for writes in self._writes.values()):
            return {name: writes[0] for name, writes in self._writes.items()}
        # A reducer takes several writes of one superstep in their order.
        return Command(update=[(name, value) for name, writes in self._writes.items() for value in writes])
