"""Graph nodes and routers that serve sync and async runs alike, and the calls that a node makes. Internal.

A node's logic is a generator that yields the calls it wants made (see `redraft.state.dual`). What it makes by
`call` is metered, held to the budgets of the run, and looked up in the journal first.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp

from ...state.collector import RUNNING
from ...state.dual import Do, DualCallable, adrive, calling, drive
from ...state.events import RunValues, frozen, record
from ...state.langgraph_internals import RUNTIME
from ...state.masking import mask_error
from ...state.stopping import BUDGETS, nearly_spent, spent_budget, warning
from ...state.storage.journal import UnkeptReplyError
from ...state.summary import rounds
from ...state.threads.lease import StopControl
from ...state.usage import Usage, add_usage
from .journal import EXECUTION, Execution
from .meter import BudgetSpentError, Meter, Prices, metered

if TYPE_CHECKING:
    from langgraph.runtime import RunControl


__all__ = [
    "DualRunnable",
    "Logic",
    "Outcome",
    "Step",
    "Steps",
    "call",
    "control_in",
    "emit",
    "emitter",
    "extra_update",
    "recorded",
    "tolerated",
]

Wanted = TypeVar("Wanted")
Result = TypeVar("Result")
Update = dict[str, Any]


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
    """The call failed, and the journal keeps the replies that came: tried again, they cost nothing."""

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of an event about the call: its usage, the model where one answered, and budget warnings."""
        optional = {"model": self.model, "warned": list(self.warned)}
        return {"usage": self.usage, **{name: value for name, value in optional.items() if value}}

    @property
    def failure_fields(self) -> dict[str, Any]:
        """Fields of a failure event: those of any event, whether replies are kept, and the budget that was spent."""
        mark = {"kept": True} if self.kept and self.usage["calls"] else {}
        spent = {"budget": self.error.budget} if isinstance(self.error, BudgetSpentError) else {}
        return {**self.fields, **mark, **spent}


Steps = Generator[Do, Any, Update]
Logic = Callable[[Mapping[str, Any], RunnableConfig], Steps]


def call(
    target: Any,
    *args: Any,
    config: RunnableConfig,
    prices: Prices | None,
    state: Mapping[str, Any] | None = None,
    besides: Usage | None = None,
    named: Mapping[str, Any] | None = None,
    **about: Any,
) -> Generator[Do, Any, Outcome]:
    """Make one call and return its outcome; `outcome = yield from call(…)` in a node's logic.

    Args:
        target: A Runnable, called with its input, or any callable.
        args: Its input or arguments.
        config: As the node was given it.
        prices: Prices of the models that it calls.
        state: Whose budgets hold: once one is spent, every model call below is refused, and the outcome's error is a
            `BudgetSpentError`.
        besides: Usage since the last event of that state.
        named: Arguments of a callable by their names.
        about: Metadata of the call in traces: its round, its critic.

    Raises:
        GraphBubbleUp: LangGraph's own signals (an interrupt, say) pass through untouched.
        UnkeptReplyError: The journal can't be written or read. That is no answer, so no run ends with it.
    """
    warned: list[str] = []
    meter = Meter(prices, guard=_guard(state, besides, warned))
    own = config
    if about and getattr(config.get("callbacks"), "handlers", None):
        from .traces import with_metadata

        own = with_metadata(config, about)
    result, failure = None, None
    try:
        with metered(meter, state, *args, config=None if own is config else own):
            if isinstance(target, DualRunnable):
                result = yield from target.logic(args[0], own)
            elif isinstance(target, Runnable):
                result = yield Do(target.invoke, target.ainvoke, (*args, own))
            elif isinstance(target, DualCallable):
                result = yield from target.logic(*args, **(named or {}))
            else:
                result = yield calling(target, *args, **(named or {}))
        meter.count_unreported(result)
    except (GraphBubbleUp, UnkeptReplyError):
        raise
    except Exception as error:
        mask_error(error)  # LangGraph stores its message, if it is raised
        failure = error
    refused = isinstance(failure, BudgetSpentError)
    replies_kept = failure is not None and meter.keeps is not None and (refused or meter.keeps(failure))
    return Outcome(result, failure, meter.total(), meter.model, meter.refused, warned, replies_kept)


def tolerated(
    logic: Generator[Do, Any, Result], *, instead: Result, note: Callable[[Exception], None]
) -> Generator[Do, Any, Result]:
    """Run a part of the logic; where it raises, return `instead`, and give the error to `note` for the record.

    Raises:
        GraphBubbleUp: LangGraph's own signals pass through.
    """
    try:
        return (yield from logic)
    except GraphBubbleUp:
        raise
    except Exception as error:
        note(error)
        return instead


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


class DualRunnable(Runnable[Wanted, Result]):
    """A Runnable whose `invoke` and `ainvoke` run one `logic`."""

    @abstractmethod
    def logic(self, input: Wanted, config: RunnableConfig | None) -> Generator[Do, Any, Result]:  # noqa: A002
        """Yield calls, and return the output."""

    def invoke(self, input: Wanted, config: RunnableConfig | None = None, **_: Any) -> Result:  # noqa: A002
        return drive(self.logic(input, config))

    async def ainvoke(self, input: Wanted, config: RunnableConfig | None = None, **_: Any) -> Result:  # noqa: A002
        return await adrive(self.logic(input, config))


class Step(Runnable[Any, Update]):
    """A graph node made of a generator; serves `invoke` and `ainvoke` alike."""

    name: str
    fingerprint: Mapping[str, Any] | None = None
    """Options that tell it from other steps of its name."""

    def __init__(self, name: str, logic: Logic) -> None:
        self.name = name
        self.logic = logic

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Update:  # noqa: A002
        """Run the node, making its calls in this thread."""
        config = config or {}
        execution = Execution(config)
        before = EXECUTION.set(execution)
        logic = self.logic(input, config)
        try:
            update = drive(logic)
        except Exception as error:
            if execution.called and execution.journal and execution.journal.fails_again(error):
                execution.journal.forget()
            raise
        finally:
            logic.close()  # in its own context, also after Ctrl-C
            EXECUTION.reset(before)
        if execution.called and execution.journal and _failed(update, execution.journal.unanswered):
            execution.journal.forget()
        return update

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Update:  # noqa: A002
        """Run the node, awaiting its calls; callables that are not async run in a worker thread."""
        config = config or {}
        execution, control = Execution(config), control_in(config)
        before = EXECUTION.set(execution)
        logic = self.logic(input, config)
        RUNNING.now += 1
        if RUNNING.now >= RUNNING.many:
            RUNNING.hint()
        try:
            update = await adrive(logic)
        except Exception as error:
            if execution.called and execution.journal and execution.journal.fails_again(error):
                await execution.journal.aforget()
            raise
        finally:
            logic.close()  # in its own context, also where it was cancelled
            EXECUTION.reset(before)
            RUNNING.now -= 1
        if not execution.called:
            return update
        if execution.journal and _failed(update, execution.journal.unanswered):
            await execution.journal.aforget()
        if isinstance(control, StopControl):
            await control.refresh()  # a stop that was requested during the call holds before the next step
        return update


def _failed(update: Any, unanswered: Sequence[BaseException]) -> bool:
    """Return True if an update records a failure of the node that the same replies would lead to again.

    Args:
        update: What the node returned.
        unanswered: Errors that models raised in place of a reply.
    """
    written: Mapping[str, Any] = update if isinstance(update, dict) else {}  # a middleware's is none
    news: Sequence[Mapping[str, Any]] = written.get("events") or ()
    failures = [event for event in news if event.get("kind") == "failure" and not event.get("budget")]
    # As `failure` writes them into an event: the name, and the text cut to that length.
    of_models = {(type(error).__name__, str(error)[:2000]) for error in unanswered}
    # A first draft that came to nothing is written anew.
    return "raised" in written or any((one.get("error"), one.get("text")) not in of_models for one in failures)


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


def recorded(state: Mapping[str, Any], *news: Mapping[str, Any]) -> dict[str, Any]:
    """Return the update that appends events to the record, and stream them."""
    update = record(state, *news)
    for event in update["events"]:
        emit(**event)
    return update


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


OWNED = frozenset([*RunValues.__annotations__, "events", "remaining_steps"])
"""State keys that the loop's own nodes write."""
RESULT_KEYS = frozenset(["draft", "text", "messages"])
