"""Compiled graph that has its thread to itself while it runs, and looks at it before it goes on with it. Internal.

`Thread` looks by itself; this is for plain `graph.invoke(None, config)`, `Command(resume=…)`, `stream`, `update_state`
and their async twins, and for a graph of ours inside another, which goes on when that does.
"""

from __future__ import annotations

from collections import Counter
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from langchain_core.tools import BaseTool, convert_runnable_to_tool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, StateSnapshot, StateUpdate
from pydantic_core import to_json

from ..checked_channels import ThreadMessages, given_messages
from ..dual import Logic, adrive, do, drive
from ..langgraph_internals import CHECKPOINTER, READ, RESUMING, ensure_config, patch_configurable
from ..limits import Limits
from ..storage.checkpointers import OPEN_IT, Checkpointer
from ..typed_answer import ANSWER_SCHEMA, checked_draft
from .kind import (
    ALLOW,
    ATTRIBUTE,
    CHECKED,
    ChangedGraphError,
    GraphKind,
    change_update,
    changes,
    compared,
    kind_of,
    refuse_edited,
)
from .lease import RunLease

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Container, Iterator, Mapping, Sequence

    from langchain_core.runnables import Runnable, RunnableConfig
    from langchain_core.runnables.graph import Graph
    from langgraph.graph import StateGraph


__all__ = ["CheckedGraph", "compiled"]


def compiled(builder: StateGraph[Any, Any, Any, Any], kind: GraphKind, **options: Any) -> Any:
    """Return the graph, of a kind of ours.

    Args:
        builder: Holds its nodes and edges.
        kind: How its threads are read and go on.
        options: As in `StateGraph.compile`.

    Raises:
        TypeError: The checkpointer is not opened.
    """
    if isinstance(saver := options.get("checkpointer"), Checkpointer | str):
        named = repr(saver) if isinstance(saver, str) else "what open_checkpointer(…) returns"
        raise TypeError(f"checkpointer= is {named}, which is no saver yet: {OPEN_IT}")
    # It stays with the builder, which every copy of the compiled graph shares; LangGraph makes copies by calling the
    # class anew with the attributes it knows.
    setattr(builder, ATTRIBUTE, kind)
    graph = builder.compile(**options)
    # `compile` names the class; copies are made by calling that of the graph.
    graph.__class__ = CheckedGraph
    return graph


class CheckedGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph of ours."""

    def stream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Iterator[Any]:  # noqa: A002
        return self._run(self._heard(input, config), config, options)

    def astream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> AsyncIterator[Any]:  # noqa: A002
        task_input, whole = self._heard(input, config), ensure_config(self.config, config)
        if self._wanted(whole, options) is None and not _goes_on(task_input, whole):
            # Without a layer of ours, which would be resumed with every event of the loop.
            return super().astream(task_input, _unmarked(config), **options)
        return self._arun(task_input, config, options)

    def as_tool(
        self,
        args_schema: Any = None,
        *,
        name: str | None = None,
        description: str | None = None,
        arg_types: dict[str, type] | None = None,
    ) -> BaseTool:
        """Return a tool for agents: it takes a task and returns the answer. With a schema or types of your own it takes
        what they say, and returns the whole output, as LangChain's does."""
        runnable: Runnable[Any, Any] = self
        if args_schema is None and arg_types is None and "task" in self.builder.schemas[self.builder.input_schema]:
            runnable, arg_types = self.pick("answer"), {"task": str}
            description = description or "Does a task. Its answer is judged and revised before it is returned."
        return convert_runnable_to_tool(
            runnable, args_schema, name=name or self.get_name(), description=description, arg_types=arg_types
        )

    def get_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> Graph:
        return _without_raising(super().get_graph(config, xray=xray), self.nodes)

    async def aget_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> Graph:
        return _without_raising(await super().aget_graph(config, xray=xray), self.nodes)

    def _heard(self, task_input: Any, config: RunnableConfig | None) -> Any:
        """Return the input; one with messages has no task, by which `prepare` knows that the messages are it.

        Raises:
            ValueError: This graph takes no messages, or these are none; or there is something that it does not take,
                which LangGraph would drop without a word.
        """
        if not isinstance(task_input, dict):
            return task_input
        inputs = self.builder.schemas[self.builder.input_schema]
        if task_input.get("messages") and isinstance(self.channels.get("messages"), ThreadMessages):
            task_input = {**task_input, "messages": given_messages(task_input["messages"]), "task": None}
        elif (
            task_input.get("messages")
            and "messages" not in inputs
            and "task" in inputs
            and task_input.get("task") is None
        ):
            raise ValueError(f"{self.get_name()!r} is no chat: give it a task, in place of messages")
        if not isinstance(draft := task_input.get("draft"), str | None) and ANSWER_SCHEMA in kind_of(self).options:
            # An object that does not fit is a draft all the same: it will be mended.
            task_input = {**task_input, "draft": to_json(draft, indent=2, by_alias=True, fallback=str).decode()}
        # Inside another graph the whole state of that is the input.
        nested = READ in ensure_config(config).get("configurable", {})
        if not nested and (unknown := [name for name in task_input if name not in inputs]):
            limit = " but in limits" if unknown[0] in Limits() else ""
            taken = ", ".join(sorted(inputs))
            raise ValueError(f"{self.get_name()!r} takes no {unknown[0]!r:.80}{limit}; it takes {taken}")
        return task_input

    def _run(self, task_input: Any, config: RunnableConfig | None, options: dict[str, Any]) -> Iterator[Any]:
        whole = ensure_config(self.config, config)
        config = drive(self._look(task_input, whole)) if _goes_on(task_input, whole) else _unmarked(config)
        if (own_lease := self._wanted(whole, options)) is None:
            yield from super().stream(task_input, config, **options)
            return
        own_lease.take()
        try:
            yield from super().stream(task_input, config, **{**options, "control": own_lease.lease.control})
        finally:
            own_lease.finish()

    async def _arun(
        self, task_input: Any, config: RunnableConfig | None, options: dict[str, Any]
    ) -> AsyncIterator[Any]:
        whole = ensure_config(self.config, config)
        config = await adrive(self._look(task_input, whole)) if _goes_on(task_input, whole) else _unmarked(config)
        if (own_lease := self._wanted(whole, options)) is not None:
            await own_lease.atake()
            options = {**options, "control": own_lease.lease.control}
        try:
            async with aclosing(cast("Any", super().astream(task_input, config, **options))) as parts:
                async for part in parts:
                    yield part
        finally:
            if own_lease is not None:
                own_lease.finish()

    def _wanted(self, config: RunnableConfig, options: Mapping[str, Any]) -> RunLease | None:
        """Return the lease that this run takes; `None` where it runs within another's, or keeps nothing."""
        saver = False if self.checkpointer is False else config["configurable"].get(CHECKPOINTER, self.checkpointer)
        return RunLease.wanted(saver, config, options.get("control"))

    def bulk_update_state(self, config: RunnableConfig, supersteps: Sequence[Sequence[Any]]) -> RunnableConfig:
        return super().bulk_update_state(config, drive(self._meant(config, supersteps)))

    async def abulk_update_state(self, config: RunnableConfig, supersteps: Sequence[Sequence[Any]]) -> RunnableConfig:
        return await super().abulk_update_state(config, await adrive(self._meant(config, supersteps)))

    def _look(self, task_input: Any, config: RunnableConfig) -> Logic[Any]:
        """Return the config to go on with, where the thread is this graph's; an agreed change is written.

        Raises:
            ChangedGraphError: Another graph began the run.
            ValueError: It goes on from an earlier checkpoint, and the record was edited.
        """
        kind, place = kind_of(self), config["configurable"]
        if not self._keeps_threads(config):
            return config
        snapshot: StateSnapshot = yield do(self, "get_state", config)
        if place.get("checkpoint_id"):
            refuse_edited(kind, str(place["thread_id"]), snapshot.values)
        if not snapshot.next and snapshot.values.get("stop_reason") is not None:
            return config  # it is finished: nothing will run
        graph_changes = changes(kind, self.get_name(), snapshot)
        if not graph_changes:
            return config
        nested = CHECKPOINTER in place
        answered = isinstance(task_input, Command) and task_input.resume is not None
        if not place.get(ALLOW) or (answered and not nested):
            raise ChangedGraphError(
                f"the thread {place['thread_id']!r} was begun with another graph: {'; '.join(graph_changes)}",
                f"To go on with this one, run it with {{'configurable': {{'{ALLOW}': True}}}} in its config and None "
                "as its input" + (", and answer then: it asks once more" if answered else ""),
            )
        if not snapshot.next:  # killed between two steps: what is saved of the last one is applied, and nothing runs
            yield do(self, "invoke", None, compared(config), interrupt_before="*")
            snapshot = yield do(self, "get_state", config)
        step = kind.next_step(snapshot, {})
        if step is None:
            return config
        values = {**step.values, **change_update(kind, snapshot, graph_changes)}
        yield do(self, "update_state", config, values, as_node=step.as_node)
        # What was written is the newest checkpoint now.
        return config if nested else patch_configurable(config, {"checkpoint_id": None})

    def _meant(self, config: RunnableConfig, supersteps: Sequence[Sequence[Any]]) -> Logic[Any]:
        """Return the updates as they are written: `feedback` and a `draft` do at a checkpoint what they do to a fork.

        Raises:
            ValueError: A fork would be made of a record that was edited: at a checkpoint, or in a new thread; or as
                `GraphKind.meant_by`.
        """
        whole = ensure_config(self.config, config)
        if not self._keeps_threads(whole):
            return supersteps
        kind, place = kind_of(self), whole["configurable"]
        updates = [update for step in supersteps for update in step]
        alone = (
            updates[0] if len(updates) == 1 and updates[0].as_node is None and not place.get("checkpoint_ns") else None
        )
        if place.get("checkpoint_id") or (alone is not None and isinstance(alone.values, dict)):
            # The config of a listed snapshot knows what was read then; this one is a copy that does not.
            snapshot: StateSnapshot = yield do(self, "get_state", whole)
            values = None if alone is None else alone.values
            if isinstance(values, dict) and values.get("draft") is not None:
                own = yield from checked_draft(kind.read(snapshot.values), values["draft"], kind.known_type)
                values = {**values, "draft": own}
            point = None if alone is None else kind.meant_by(snapshot, values)
            if place.get("checkpoint_id") or point is not None:
                refuse_edited(kind, str(place["thread_id"]), snapshot.values)
            return supersteps if point is None else [[StateUpdate(point.values, point.as_node)]]
        record = _new_record(updates)
        if record is not None and (yield do(self, "get_state", whole)).created_at is None:
            refuse_edited(kind, str(place["thread_id"]), record)
        return supersteps

    def _keeps_threads(self, config: RunnableConfig) -> bool:
        place = config["configurable"]
        saver = place.get(CHECKPOINTER, self.checkpointer)
        return isinstance(saver, BaseCheckpointSaver) and place.get("thread_id") is not None


def _new_record(updates: Sequence[StateUpdate]) -> Mapping[str, Any] | None:
    """Return the values that write a whole record, which a fork into a new thread does."""
    values = (one.values for one in updates)
    return next((one for one in values if isinstance(one, dict) and one.get("events") and "head" in one), None)


def _without_raising(drawn: Graph, own: Container[str]) -> Graph:
    """Return a drawing without ways of the graph's own nodes to themselves: they only raise what a first draft met."""
    raising = {edge.source for edge in drawn.edges if edge.source == edge.target and edge.source in own}
    edges = [edge for edge in drawn.edges if edge.source != edge.target or edge.source not in raising]
    ways = Counter(edge.source for edge in edges)
    only = {source for source in raising if ways[source] == 1}
    drawn.edges = [edge._replace(conditional=False) if edge.source in only else edge for edge in edges]
    return drawn


def _goes_on(task_input: Any, config: RunnableConfig) -> bool:
    """Return True if a run goes on with what is in its thread, and nobody has looked at that."""
    place = config.get("configurable", {})
    if place.get(CHECKED):
        return False
    return bool(place.get(RESUMING, task_input is None or isinstance(task_input, Command)))


def _unmarked(config: RunnableConfig | None) -> RunnableConfig | None:
    """Return the config without our mark, which is not for graphs inside."""
    if config is None or CHECKED not in config.get("configurable", {}):
        return config
    unmarked = {name: value for name, value in config["configurable"].items() if name != CHECKED}
    return cast("RunnableConfig", {**config, "configurable": unmarked})
