"""Graph nodes and routers that serve sync and async runs alike, and the calls that a node makes. Internal.

A node's logic is a generator that yields the calls it wants made (see `redraft.nodes.runtime.dual`); `Step` makes them
with their tokens counted, their budgets looked at, and the journal asked first.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp

from ...state.collector import RUNNING
from ...state.events import frozen, record
from ...state.langgraph_internals import RUNTIME
from ...state.masking import mask_error
from ...state.stopping import BUDGETS, nearly_spent, spent_budget, warning
from ...state.storage.journal import UnkeptReplyError
from ...state.summary import rounds
from ...state.threads.lease import StopControl
from ...state.usage import add_usage
from .dual import Do, adrive, awaited, drive, finish
from .journal import NodeJournal, counted_before, journaled, node_journal
from .meter import METER, BudgetSpentError, Meter, Prices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langgraph.runtime import RunControl

    from ...state.usage import Usage

__all__ = [
    "Call",
    "Logic",
    "Outcome",
    "Router",
    "Step",
    "Steps",
    "call",
    "control_in",
    "emit",
    "emitter",
    "extra_update",
    "finish",
]

Update = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A call that a node wants made: a Runnable with its input, or any callable with its arguments."""

    target: Any
    args: tuple[Any, ...]
    config: RunnableConfig
    meter: Meter
    states: tuple[Any, ...] = ()
    """Where the journal may read how far the record is; see `redraft.nodes.runtime`."""
    traced: bool = False
    """Whether the config says more than the node's own, for tracers of what is called without one."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a call."""

    result: Any
    error: Exception | None
    usage: Usage
    model: str
    """Name of the last model that answered; empty when none did."""
    refused: str | None = None
    """The budget for which a model call was refused, also where the call goes on without it."""
    warned: Sequence[str] = ()
    """The budgets that whoever streams the run was warned of."""
    kept: bool = False
    """The call failed, and the journal keeps what was answered: tried again, it costs nothing."""

    @property
    def told(self) -> dict[str, Any]:
        """What an event says of the call: its usage, and the model where one answered."""
        known = {"model": self.model, "warned": list(self.warned)}
        return {"usage": self.usage, **{name: value for name, value in known.items() if value}}

    @property
    def failed(self) -> dict[str, Any]:
        """What a failure says of the call: its usage and model, a budget that was spent, that replies are kept."""
        kept = {"kept": True} if self.kept and self.usage["calls"] else {}
        spent = {"budget": self.error.budget} if isinstance(self.error, BudgetSpentError) else {}
        return {**self.told, **kept, **spent}


Steps = Generator[Call | Do, Any, Update]
Logic = Callable[[Mapping[str, Any], RunnableConfig], Steps]


def call(
    target: Any,
    *args: Any,
    config: RunnableConfig,
    prices: Prices | None,
    state: Mapping[str, Any] | None = None,
    besides: Usage | None = None,
    **about: Any,
) -> Generator[Call, Any, Outcome]:
    """Make one call and return its outcome; `outcome = yield from call(…)` in a node's logic.

    Args:
        target: A Runnable or callable.
        args: What it is called with.
        config: As the node was given it.
        prices: Prices of the models that it calls.
        state: Whose budgets hold: once one is spent, every model call below is refused, and the outcome's error is a
            `BudgetSpentError`.
        besides: What was used since the last event of that state.
        about: What traces say of it, as metadata: its round, its critic.

    Raises:
        GraphBubbleUp: LangGraph's own signals (an interrupt, say) pass through untouched.
        UnkeptReplyError: The journal can't be written or read. That is no answer, so no run ends with it.
    """
    warned: list[str] = []
    meter = Meter(prices, guard=_guard(state, besides, warned), counted=counted_before(state))
    result, failure = None, None
    told = config
    if about and getattr(config.get("callbacks"), "handlers", None):
        from .traces import with_metadata

        told = with_metadata(config, about)
    try:
        result = yield Call(target, args, told, meter, (state, *args), traced=told is not config)
        meter.count_unreported(result)
    except (GraphBubbleUp, UnkeptReplyError):
        raise
    except Exception as error:
        mask_error(error)  # LangGraph stores its message, if it is raised
        failure = error
    refused = isinstance(failure, BudgetSpentError)
    kept = failure is not None and meter.keeps is not None and (refused or meter.keeps(failure))
    return Outcome(result, failure, meter.usage(seconds=meter.elapsed), meter.model, meter.refused, warned, kept)


def _guard(
    state: Mapping[str, Any] | None, besides: Usage | None, warned: list[str]
) -> Callable[[Usage], str | None] | None:
    """Return a function from what was used to the budget that is spent, or `None` where the run has no budget.

    It warns of a budget that is nearly spent, once, and adds it to `warned`.
    """
    limits = (state or {}).get("limits") or {}
    if state is None or all(limits.get(name) is None for name in BUDGETS):
        return None
    events = frozen(state.get("events") or ())
    earlier = [] if besides is None else [besides]
    send = emitter()

    def guard(used: Usage) -> str | None:
        so_far = add_usage([*earlier, used])
        for budget in nearly_spent(events, limits, besides=so_far):
            if budget not in warned:
                warned.append(budget)
                send(**warning(budget, rounds(events)))
        return spent_budget(events, limits, besides=so_far)

    return guard


def control_in(config: RunnableConfig) -> RunControl | None:
    """Return the control of the run that a config is of; `None` where it has none."""
    control: RunControl | None = getattr(config.get("configurable", {}).get(RUNTIME), "control", None)
    return control


class Step(Runnable[Any, Update]):
    """A graph node made of a generator; serves `invoke` and `ainvoke` alike."""

    name: str
    fingerprint: Mapping[str, Any] | None = None
    """What tells it from others of its name."""

    def __init__(self, name: str, logic: Logic) -> None:
        self.name = name
        self.logic = logic

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Update:  # noqa: A002
        """Run the node, making its calls in this thread."""
        steps, journal = self._begun(input, config or {})
        return drive(steps, lambda wanted: _make(wanted, journal))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Update:  # noqa: A002
        """Run the node, awaiting its calls; callables that are not async run in a worker thread."""
        steps, journal = self._begun(input, config or {})
        called = False

        async def make(wanted: Call | Do) -> Any:
            nonlocal called
            called = called or isinstance(wanted, Call)
            return await _amake(wanted, journal)

        RUNNING.begin()
        try:
            update = await adrive(steps, make)
        finally:
            RUNNING.end()
        if called and isinstance(control := control_in(config or {}), StopControl):
            await control.refresh()  # a stop that was requested during the call holds before the next step
        return update

    def _begun(self, state: Any, config: RunnableConfig) -> tuple[Steps, NodeJournal | None]:
        steps, journal = self.logic(state, config), node_journal(config)
        return (steps if journal is None else journal.guarded(steps)), journal


def _make(wanted: Call | Do, journal: NodeJournal | None) -> Any:
    if isinstance(wanted, Do):
        return wanted.make()
    with _metered(wanted, journal):
        if isinstance(wanted.target, Runnable):
            return wanted.target.invoke(wanted.args[0], wanted.config)
        result = _called(wanted.target, *wanted.args)
        return finish(result) if inspect.isawaitable(result) else result


async def _amake(wanted: Call | Do, journal: NodeJournal | None) -> Any:
    if isinstance(wanted, Do):
        return await wanted.amake()
    with _metered(wanted, journal):
        if isinstance(wanted.target, Runnable):
            return await wanted.target.ainvoke(wanted.args[0], wanted.config)
        target = getattr(wanted.target, "acall", wanted.target)
        # An object with an async `__call__` is itself no coroutine function.
        if inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(getattr(target, "__call__", None)):  # noqa: B004
            return await target(*wanted.args)
        # For the thread and for an awaitable that it returns: meter and journal are found there.
        context = copy_context()
        result = await asyncio.get_running_loop().run_in_executor(None, context.run, _called, target, *wanted.args)
        return await asyncio.create_task(awaited(result), context=context) if inspect.isawaitable(result) else result


@contextmanager
def _metered(wanted: Call, journal: NodeJournal | None) -> Iterator[None]:
    """Count what models within the block use, and let them look into the journal first."""
    before = METER.set(wanted.meter)
    around = var_child_runnable_config.set(wanted.config) if wanted.traced else None
    try:
        with journaled(journal, wanted.meter, wanted.states):
            yield
    finally:
        METER.reset(before)
        if around is not None:
            var_child_runnable_config.reset(around)


def _called(target: Any, *args: Any) -> Any:
    """Call; a `StopIteration`, which neither a generator nor a future can carry, becomes an error like any other."""
    try:
        return target(*args)
    except StopIteration as error:
        raise RuntimeError(f"StopIteration: {error}") from error


class Router(Runnable[Any, str]):
    """A function of the state that names the node to go to, called in place.

    LangGraph hands a plain function to a thread in an async run, which costs more than a router does.

    Args:
        function: Takes the state and returns the name of a node.
    """

    def __init__(self, function: Callable[[Any], str]) -> None:
        self.name = function.__name__
        self.function = function

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> str:  # noqa: A002
        return self.function(input)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> str:  # noqa: A002
        return self.function(input)


def emit(**progress: Any) -> None:
    """Send progress to whoever streams this run with `stream_mode="custom"`; outside a graph it goes nowhere.

    An item says in `role` who is at work: `base` (who writes the first draft), `critic`, `human` or `refiner`.
    """
    try:
        config = get_config()
        writer = config["configurable"][RUNTIME].stream_writer
    except (RuntimeError, KeyError):  # KeyError: in a chain of Runnables that is no graph
        return
    if getattr(config.get("callbacks"), "handlers", None):  # somebody listens, and may trace the run
        from .traces import note_event

        note_event(config, progress)
    role = ROLES.get(progress.get("node") or progress.get("kind", ""))
    writer({"role": role, **progress} if role else progress)


def emitter() -> Callable[..., None]:
    """Return an `emit` that sends as from here, wherever it is called: inside an agent that this node runs, say."""
    here = copy_context()  # the writer looks up who sends when it is called
    # A copy each time, since a context can't be entered twice at once.
    return lambda **progress: here.copy().run(emit, **progress)


ROLES: Mapping[str, str] = {
    **{"generate": "base", "draft": "base"},
    **{"feedback": "critic", "critique": "critic"},
    **{"refine": "refiner", "revision": "refiner"},
    "human": "human",
}
"""By the node, or else by the kind of the event."""


def extra_update(state: Mapping[str, Any], result: Any, *, by: str) -> Update:
    """Return the update that a callable in a node's place wants beside its result: its own keys and events, sealed.

    Args:
        state: The state that the events are appended to.
        result: What it returned; anything but a mapping has nothing beside.
        by: Who it is, for events that don't say.
    """
    if not isinstance(result, Mapping):
        return {}
    # What the loop computes can't be set from outside: a node would judge itself.
    extra = {key: value for key, value in result.items() if key not in OWNED | RESULT_KEYS}
    news = [
        # The link is made by `record`, whatever the event came with.
        {"by": by, "round": 0, **{key: value for key, value in event.items() if key != "prev"}}
        for event in result.get("events", [])
    ]
    return {**extra, **record(state, *news)}


OWNED = frozenset(
    ["events", "head", "answer", "stop_reason", "rounds", "score", "accepted_by", "oracle", "usage", "remaining_steps"]
)
"""State keys that the loop's own nodes write."""
RESULT_KEYS = frozenset(["draft", "text", "messages"])
