"""One node, written once and run in both worlds.

A node's logic is a generator that yields the calls it wants made and is sent their outcomes, so that it neither blocks
nor awaits itself. `Step` drives it: `invoke` makes each call in place, `ainvoke` awaits it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.config import get_stream_writer
from langgraph.errors import GraphBubbleUp

from ...state.events import frozen
from ...state.masking import mask_error
from ...state.stopping import spent_budget
from ...state.storage.journal import UnkeptReplyError
from .answering import answering
from .asking import ASKING, Asking
from .journal import Forget, NodeJournal, node_journal, place_in
from .meter import METER, Meter, Prices

if TYPE_CHECKING:
    from ...state.usage import Usage

__all__ = ["Call", "Logic", "Outcome", "Step", "ask", "emit", "emitter"]

Update = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A call that a node wants made: a Runnable with its input, or any callable with its arguments."""

    target: Any
    args: tuple[Any, ...]
    config: RunnableConfig
    meter: Meter
    states: tuple[Any, ...] = ()
    """Where it may be known how far the record is, which a journal asks; see `redraft.nodes.runtime`."""


@dataclass(frozen=True)
class Outcome:
    """What became of a call."""

    result: Any
    error: Exception | None
    usage: Usage
    model: str
    """Name of the last model that answered; empty when none did."""


Steps = Generator[Call, Any, Update]
Logic = Callable[[Mapping[str, Any], RunnableConfig], Steps]


def ask(
    target: Any,
    *args: Any,
    config: RunnableConfig,
    prices: Prices | None,
    state: Mapping[str, Any] | None = None,
) -> Generator[Call, Any, Outcome]:
    """Make one call and return its outcome; `result = yield from ask(…)` in a node's logic.

    Args:
        target: A Runnable or callable.
        args: What it is called with.
        config: As the node was given it.
        prices: Prices of the models that it calls.
        state: Whose budgets hold: once one is spent, every model call below is refused, and the outcome's error is a
            `BudgetSpentError`.

    Raises:
        GraphBubbleUp: LangGraph's own signals (an interrupt, say) pass through untouched.
        UnkeptReplyError: The journal can't be written or read. That is no answer, so no run ends with it.
    """
    meter = Meter(prices, guard=_guard(state))
    result, failure = None, None
    try:
        result = yield Call(target, args, config, meter, (state, *args))
    except (GraphBubbleUp, UnkeptReplyError):
        raise
    except Exception as error:
        mask_error(error)  # LangGraph stores what it says, if it is raised
        failure = error
    return Outcome(result, failure, meter.usage(seconds=meter.elapsed), meter.model)


def _guard(state: Mapping[str, Any] | None) -> Callable[[Usage], str | None] | None:
    """Return what says whether a budget of the run is spent, or `None` where it has none."""
    limits = (state or {}).get("limits") or {}
    if state is None or all(limits.get(name) is None for name in BUDGETS):
        return None
    events = frozen(state.get("events") or ())
    return lambda used: spent_budget(events, limits, besides=used)


BUDGETS = ("max_tokens", "max_cost_usd", "max_seconds")


def emit(**progress: Any) -> None:
    """Send progress to whoever streams this run with `stream_mode="custom"`; outside a graph it goes nowhere.

    An item says in `role` who is at work: `base` (who writes the first draft), `critic`, `human` or `refiner`.
    """
    try:
        writer = get_stream_writer()
    except (RuntimeError, KeyError):  # KeyError: in a chain of Runnables that is no graph
        return
    role = ROLES.get(progress.get("node") or progress.get("kind", ""))
    writer({"role": role, **progress} if role else progress)


def emitter() -> Callable[..., None]:
    """Return an `emit` that sends as from here, wherever it is called: inside an agent that this node runs, say."""
    here = copy_context()  # the writer looks up who sends when it is called
    return lambda **progress: here.copy().run(emit, **progress)


ROLES: Mapping[str, str] = {
    **{"generate": "base", "draft": "base"},
    **{"feedback": "critic", "critique": "critic"},
    **{"refine": "refiner", "revision": "refiner"},
    "human": "human",
}
"""By the node, or else by the kind of the event."""


class Step(Runnable[Any, Update]):
    """A graph node made of a generator; serves `invoke` and `ainvoke` alike."""

    def __init__(self, name: str, logic: Logic) -> None:
        self.name = name
        self.logic = logic

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Update:  # noqa: A002
        """Run the node, making its calls in this thread."""
        steps, journal = self._begun(input, config or {})
        with answering() if journal else nullcontext():
            try:
                call = next(steps)
                while True:
                    try:
                        result = _call(call, journal)
                    except Exception as error:
                        call = steps.throw(error)
                    else:
                        call = steps.send(result)
            except StopIteration as end:
                update: Update = end.value
                return update

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Update:  # noqa: A002
        """Run the node, awaiting its calls; callables that are not async run in a worker thread."""
        steps, journal = self._begun(input, config or {})
        with answering() if journal else nullcontext():
            try:
                call = next(steps)
                while True:
                    try:
                        result = await _acall(call, journal)
                    except Exception as error:
                        call = steps.throw(error)
                    else:
                        call = steps.send(result)
            except StopIteration as end:
                update: Update = end.value
                return update

    def _begun(self, state: Any, config: RunnableConfig) -> tuple[Steps, NodeJournal | None]:
        steps, journal = self.logic(state, config), node_journal(config)
        return (steps if journal is None else _forgetting(steps, journal, config)), journal


def _forgetting(steps: Steps, journal: NodeJournal, config: RunnableConfig) -> Steps:
    """Make the calls of a node; what the journal holds of them is dropped where the node failed on it."""
    try:
        update = yield from steps
    except Exception as error:
        if calls := journal.to_forget(error, None):
            yield Call(Forget(journal, calls), (), config, Meter(None))
        raise
    if calls := journal.to_forget(None, update):
        yield Call(Forget(journal, calls), (), config, Meter(None))
    return update


def _call(call: Call, journal: NodeJournal | None) -> Any:
    context, asking = _prepared(call, journal)
    try:
        if isinstance(call.target, Runnable):
            return context.run(call.target.invoke, call.args[0], call.config)
        result = context.run(_called, call.target, *call.args)
        return context.run(_finish, result) if inspect.isawaitable(result) else result
    finally:
        if asking is not None:
            asking.end()


async def _acall(call: Call, journal: NodeJournal | None) -> Any:
    asking = _asking(call, journal)
    # This task is the node's own, and makes one call at a time.
    metered, asked = METER.set(call.meter), ASKING.set(asking)
    try:
        if isinstance(call.target, Runnable):
            return await call.target.ainvoke(call.args[0], call.config)
        target = getattr(call.target, "acall", call.target)
        if inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(getattr(target, "__call__", None)):  # noqa: B004
            return await target(*call.args)
        context = copy_context()
        result = await asyncio.get_running_loop().run_in_executor(None, context.run, _called, target, *call.args)
        return await asyncio.create_task(_awaited(result), context=context) if inspect.isawaitable(result) else result
    finally:
        METER.reset(metered)
        ASKING.reset(asked)
        if asking is not None:
            asking.end()


def _called(target: Any, *args: Any) -> Any:
    """Call; a `StopIteration`, which neither a generator nor a future can carry, becomes an error like any other."""
    try:
        return target(*args)
    except StopIteration as error:
        raise RuntimeError(f"StopIteration: {error}") from error


def _prepared(call: Call, journal: NodeJournal | None) -> tuple[Context, Asking | None]:
    """Return where a call is made: what models do there is counted, and looked up in the journal first."""
    context, asking = copy_context(), _asking(call, journal)
    context.run(METER.set, call.meter)
    context.run(ASKING.set, asking)  # where this node has no journal, one around it must not answer
    return context, asking


def _asking(call: Call, journal: NodeJournal | None) -> Asking | None:
    return None if journal is None else Asking(journal, place_in(*call.states), call.meter)


async def _awaited(result: Any) -> Any:
    return await result


def _finish(result: Any) -> Any:
    """Run an awaitable to its end from synchronous code, also below a running loop (a notebook's)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_awaited(result))
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, asyncio.run, _awaited(result)).result()
