"""Graphs of threads: a new task runs on its assistant's, what goes on follows the thread's own recipe. Internal."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langgraph.types import StateSnapshot

from ...faces.problems import BadInputError
from ...faces.run_config import RunConfig
from ...faces.sessions import any_reader
from ...nodes.runtime.killable import off_loop
from ...state.storage.index import BadRunError
from ...state.threads.kind import changes, kind_of
from ...state.threads.snapshots import astate_of
from .assistants import Assistants, Source, cached
from .ownership import LOCAL
from .runs import LOG, BadRequestError, NotThereError
from .thread_records import ThreadRecord

__all__ = ["Recorded", "ThreadGraphs", "offering_fork"]

READ = 64
"""Recipes whose reading, and graphs for reading, are kept."""


@dataclass(frozen=True)
class Recorded:
    """The recipe of a thread, and whether this server follows it."""

    recipe: RunConfig | None
    """`None` where the thread has none: its graph was built in Python, or nothing was run on it yet."""
    refused: str = ""
    """Why this server does not follow it, in words that follow the thread's name; empty: it does."""
    closed: bool = False
    """It reaches files or servers that this server does not offer, so that its graph is not even built to read."""


def offering_fork(why: str) -> BadRequestError:
    """Return the refusal of a run, with what can be done instead."""
    return BadRequestError(
        f"{why}; fork it to go on under another assistant: POST /threads/{{thread_id}}/fork with an assistant_id"
    )


class ThreadGraphs:
    """The graphs that threads are run on and read with.

    Args:
        assistants: Their graphs, and the models that the server allows.
        saver: As `ThreadGraphs.saver`.
    """

    def __init__(self, assistants: Assistants, saver: Any) -> None:
        self._assistants = assistants
        self.saver = saver
        """Where the threads are."""
        self._read: OrderedDict[tuple[str, bool], Recorded] = OrderedDict()
        self._readers: OrderedDict[str, Any] = OrderedDict()

    async def assistant(
        self, name: str, model: str | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, RunConfig | None]:
        """Return the graph of an assistant, built in a worker thread where it is not built yet, and its recipe.

        Args:
            name: Of the assistant.
            model: Spec of the model; default: the server's.
            options: Checked, in place of the assistant's own.

        Raises:
            NotThereError: There is no such assistant.
            BadRequestError: This model is not allowed, or the preset can't be run on this server.
        """
        assistant, spec = self._assistants.get(name), self._assistants.spec(model)
        recipe = assistant.recipe(spec, options or {})
        return await self._graph(recipe or (assistant, spec), what=name), recipe

    async def recorded(self, record: ThreadRecord, checkpoint_id: str | None = None) -> Recorded:
        """Return the recipe that a thread goes on with: that of a checkpoint, where one is named and holds one, or that
        of its last run.

        Raises:
            BadRunError: What the runs index holds of the thread is no row of it.
        """
        text = None
        if checkpoint_id is not None:
            place = {"thread_id": record.thread_id, "checkpoint_ns": "", "checkpoint_id": checkpoint_id}
            stored = await self.saver.aget_tuple({"configurable": place})
            text = stored.metadata.get("redraft_recipe") if stored is not None else None
        if not isinstance(text, str):
            row = await self.saver.runs.aget(record.thread_id)
            text = row.recipe if row is not None else None
        if text is None:
            return Recorded(None)
        key = (text, record.owner == LOCAL.id)
        return cached(self._read, key, lambda: self._judged(record.thread_id, *key), most=READ)

    async def going_on(
        self,
        record: ThreadRecord,
        assistant: str,
        model: str | None = None,
        checkpoint_id: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> tuple[Any, RunConfig | None]:
        """Return the graph that a thread goes on with, and its recipe.

        Args:
            record: The thread.
            assistant: The assistant that the caller names: that of the thread, or one that its recipe is true to.
            model: The model that the caller names.
            checkpoint_id: Where it goes on, when not at its end.
            options: Checked; those that the caller gives, or whose assistant has.

        Raises:
            NotThereError: There is no such assistant.
            BadRequestError: This server does not follow the thread's recipe, or the caller names another assistant or
                model than the recipe, or an option that differs from it.
        """
        recorded = await self.recorded(record, checkpoint_id)
        if recorded.refused:
            raise offering_fork(f"the thread {recorded.refused}")
        if recorded.recipe is None:
            if options:
                raise offering_fork("the thread has no recipe, so options can't change it")
            graph, recipe = await self.assistant(assistant, model)
            # Whether it is this one's thread, the record's own fingerprint tells.
            snapshot = await astate_of(graph, {"configurable": {"thread_id": record.thread_id}})
            if differences := changes(kind_of(graph), graph.get_name(), snapshot):
                raise offering_fork(f"the thread was begun with another graph: {'; '.join(differences)}"[:1000])
            return graph, recipe
        if others := self._untrue(assistant, recorded.recipe, options or {}, known=assistant == record.assistant):
            raise offering_fork(f"the thread goes on as it was begun, and not as {assistant}: {others} differs")
        if model not in (None, recorded.recipe.model):
            self._assistants.spec(model)
            raise offering_fork("the thread goes on with the model that it was begun with, and not with another")
        return await self._graph(recorded.recipe), recorded.recipe

    async def of_fork(self, record: ThreadRecord) -> tuple[Any, RunConfig | None]:
        """Return a graph that forks a thread, and the recipe of the fork where it is not its parent's."""
        recipe = (recorded := await self.recorded(record)).recipe
        if recipe is None or recorded.refused or recipe.of_fork() == recipe:
            return await self.reader(record), None
        return await self._graph(recipe.of_fork()), recipe.of_fork()

    async def with_prompts(self, record: ThreadRecord, prompts: Mapping[str, str]) -> tuple[Any, RunConfig]:
        """Return the graph of a fork whose models are asked with other prompts, and its recipe.

        Raises:
            BadRequestError: The thread has no recipe that this server follows, or a prompt makes no sense.
        """
        recorded = await self.recorded(record)
        if recorded.recipe is None or recorded.refused:
            raise BadRequestError(f"the thread {recorded.refused or 'was built in Python'}, so its prompts stay")
        try:
            recipe = recorded.recipe.of_fork().with_prompts(prompts)
            # Without a model, so that what is wrong is said of the prompts alone.
            await off_loop(recipe.silent().build, None)
        except (BadInputError, ValueError) as error:
            raise BadRequestError(f"prompts: {error}"[:500]) from error
        return await self._graph(recipe), recipe

    async def reader(self, record: ThreadRecord, checkpoint_id: str | None = None) -> Any:
        """Return a graph that reads and forks a thread: its own, or where that can't be run here, one like it that has
        no model."""
        try:
            recorded = await self.recorded(record, checkpoint_id)
            if recorded == Recorded(None) and record.assistant in self._assistants.known:
                return (await self.assistant(str(record.assistant)))[0]
            if recorded.recipe is not None and not recorded.refused:
                return await self._graph(recorded.recipe)
            if recorded.recipe is not None and not recorded.closed:
                return await off_loop(self._silent, recorded.recipe)
        except BadRunError:
            if record.assistant in self._assistants.known:
                return (await self.assistant(str(record.assistant)))[0]
        except BadRequestError:
            pass
        return await off_loop(any_reader, self.saver, record.thread_id)

    async def state(self, record: ThreadRecord, **place: Any) -> StateSnapshot:
        """Return the state of a thread: the newest, or that at a place of its checkpoints."""
        return await astate_of(await self.reader(record), {"configurable": {"thread_id": record.thread_id, **place}})

    def _judged(self, thread_id: str, text: str, local: bool) -> Recorded:
        try:
            recipe, own = RunConfig.read(self.saver, thread_id, text)
        except BadInputError:
            return Recorded(None, refused="has a recipe that this server can't read")
        # What its assistants reach was agreed to by whoever started the server.
        beyond = set(recipe.reaches()) - self._assistants.reached()
        if beyond and not (own and local):
            return Recorded(
                recipe, refused="goes on with models, files or servers that this server does not offer", closed=True
            )
        asked = self._assistants.asked()
        if recipe.asks_model and (others := [spec for spec in recipe.models if spec not in asked]):
            # An address or a path is for the log of who started it, and not for every caller.
            named = f" {others[0]!r}" if local else ""
            return Recorded(recipe, refused=f"goes on with a model{named} that this server does not allow")
        return Recorded(recipe)

    def _untrue(self, name: str, recipe: RunConfig, options: Mapping[str, Any], *, known: bool) -> str:
        """Return the options in which a recipe differs from an assistant's under a caller's options; the server's
        settings don't count, nor what the assistant has itself where the thread is `known` to be its own."""
        assistant = self._assistants.get(name)
        if (own := assistant.recipe(recipe.model, options)) is None:
            return "" if known and not options else "preset"
        theirs, mine = {"preset": recipe.preset, **recipe.flat()}, {"preset": own.preset, **own.flat()}
        named = dict.fromkeys((*(() if known else ("preset", *assistant.served.recipe)), *options))
        return ", ".join(key for key in named if theirs.get(key) != mine.get(key))

    async def _graph(self, source: Source, what: str = "the thread's recipe") -> Any:
        """Return a graph, built in a worker thread where it is not built yet."""
        try:
            return self._assistants.built(source) or await off_loop(self._assistants.graph_of, source)
        except (NotThereError, BadRequestError):
            raise
        except Exception as error:
            # The reason may name files and models of the server, so it is for the log alone.
            LOG.exception("the graph of %s can't be built", what)
            raise BadRequestError("this assistant can't be run on this server; its log says why") from error

    def _silent(self, recipe: RunConfig) -> Any:
        def build() -> Any:
            graph = recipe.silent().build(self.saver)
            # A fork that it writes goes on with the graph of its parent.
            kind_of(graph).fingerprint = {}
            return graph

        return cached(self._readers, str(recipe.flat()), build, most=READ)
