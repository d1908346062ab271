"""Usage metering of a node's calls: every LangChain model below one reports its tokens here. Internal."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol
from uuid import UUID, uuid4

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers.context import register_configure_hook

from ...models.prices import discount
from ...state.usage import NO_USAGE, Usage, add_usage, usage_besides
from .journal import JOURNALED_CALL, JournaledCall, is_reused, journal_in_force

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig


__all__ = ["COUNTS", "METER", "BudgetSpentError", "Meter", "Prices", "metered"]


class Prices(Protocol):
    """Price table; `redraft.models.PriceTable` is one."""

    def cost_usd(
        self,
        model: str,
        *,
        input_tokens: int,
        output_tokens: int,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        provider: str | None = None,
    ) -> float | None:
        """Return the dollars of a call; the cached tokens are given where there are any."""


class BudgetSpentError(RuntimeError):
    """A model call was refused, since a budget of the run is spent. `budget` is its name, as a stop reason."""

    def __init__(self, budget: str) -> None:
        super().__init__(f"the {budget.replace('_', ' ')} is spent, so no further call is made")
        self.budget = budget


class ModelCall(NamedTuple):
    """A model call under way, as far as it is known."""

    provider: str | None = None
    """Its provider, or the address where it is served."""
    model: str = ""
    prompt: Sequence[Any] | None = None
    start: float = 0.0


class Meter(BaseCallbackHandler):
    """Adds up tokens, calls and dollars of the model calls made while it is the current `METER`.

    Args:
        prices: Turns tokens into dollars.
        guard: From what was used here to the budget that is spent, or `None`: asked before each call, which it refuses
            with a `BudgetSpentError`. So a budget holds within a chain, a tool loop or a graph inside a node too.
    """

    raise_error = True
    """A price table that breaks must not turn into a cost of 0, and a refused call must not be made."""
    # Chains, tools and tokens that stream by are not its business; LangChain would hand each event to a thread.
    ignore_chain = ignore_agent = ignore_retriever = ignore_retry = ignore_custom_event = True

    def __init__(
        self,
        prices: Prices | None,
        *,
        guard: Callable[[Usage], str | None] | None = None,
    ) -> None:
        self.prices = prices
        self.counted: Usage | None = None
        """Usage of replies in the journal that the record counts already."""
        self._guard = guard
        self.run_inline = guard is None
        """Counting takes microseconds; LangChain would hand it to a thread, which costs more than a step of the graph.
        One that may refuse can't be in line: LangChain would leave what it wants to tell other handlers unawaited."""
        self.on_failure: Callable[[BaseException], None] | None = None
        """Called with what a model raises."""
        self.keeps: Callable[[BaseException], bool] | None = None
        """Says whether what was answered is kept for the next try, after an error."""
        self.model = ""
        self.refused: str | None = None
        """The budget for which a call was refused last."""
        self._start = perf_counter()
        # Models that are called side by side report from several threads.
        self._lock = threading.Lock()
        self._used: Usage = NO_USAGE.copy()
        self._reused = 0
        self._again: Usage = NO_USAGE.copy()
        self._earlier = 0.0
        self._calls: dict[UUID, ModelCall] = {}
        """Calls under way."""
        self._in_calls = 0.0
        """Seconds in calls that have ended, those side by side added up."""

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Note who serves the call: the address where one was given, since any server can speak OpenAI's protocol.

        Raises:
            BudgetSpentError: A budget of the run is spent.
        """
        self._check_budget()
        address = (serialized or {}).get("kwargs", {}).get("openai_api_base")
        metadata = metadata or {}
        provider, model = address or metadata.get("ls_provider"), str(metadata.get("ls_model_name") or "")
        self._begin(run_id, provider, model, messages[0] if messages else [])

    def on_llm_start(self, serialized: dict[str, Any], prompts: list[str], *, run_id: UUID, **_: Any) -> None:
        """Refuse the call of a model that is no chat model, once a budget of the run is spent.

        Raises:
            BudgetSpentError: A budget of the run is spent.
        """
        self._check_budget()
        self._begin(run_id, prompt=prompts)

    def _begin(
        self, run_id: UUID, provider: str | None = None, model: str = "", prompt: Sequence[Any] | None = None
    ) -> None:
        with self._lock:
            self._calls[run_id] = ModelCall(provider, model, prompt, perf_counter())

    def _end(self, run_id: UUID) -> ModelCall:
        """Return a call that was under way; from here on it is over."""
        with self._lock:
            now = perf_counter()
            call = self._calls.pop(run_id, None) or ModelCall(start=now)
            self._in_calls += now - call.start
        return call

    def _check_budget(self) -> None:
        # The node itself looked before the first; several begin together.
        if self._guard and self._used["calls"] and (budget := self._guard(self.total())):
            self.refused = budget
            raise BudgetSpentError(budget)

    @property
    def elapsed(self) -> float:
        """Seconds since the first call here began, with those that replies out of the journal took when they came."""
        return perf_counter() - self._start + self._earlier

    def reuse(self, seconds: float) -> None:
        """Count a reply out of the journal, which was there so many seconds after the first call here began."""
        with self._lock:
            self._reused += 1
        self.pass_time(seconds)

    def pass_time(self, seconds: float) -> None:
        """Count the time that a result out of the journal took, so many seconds after the first call here began."""
        with self._lock:
            # Only what is beyond the time so far: results that came side by side took theirs together.
            self._earlier += max(0.0, seconds - self.elapsed)

    def take_over(self, used: Usage, model: str) -> None:
        """Count calls that were made before, in other nodes, with their time; `model` answered the last of them."""
        self.pass_time(used["seconds"])
        self._add(used)
        self.model = model or self.model

    def count(self, message: AIMessage, *, provider: str | None = None) -> None:
        """Count a call that no LangChain model reports: the one that a message is the reply to."""
        run_id = uuid4()
        self._begin(run_id, provider)
        self.on_llm_end(LLMResult(generations=[[ChatGeneration(message=message)]]), run_id=run_id)

    def count_unreported(self, result: Any) -> None:
        """Count the message that a call returned, where no LangChain model reported anything and the message does."""
        if not self._used["calls"] and isinstance(result, AIMessage) and result.usage_metadata:
            self.count(result)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """Count one finished call. The tokens that a provider does not report are counted here, by their length."""
        self._add(used := self._of_call(response, run_id))
        if self.counted is not None and is_reused(self._message(response)):
            with self._lock:
                self._again = add_usage([self._again, used])

    def _add(self, used: Usage) -> None:
        with self._lock:
            self._used = add_usage([self._used, used])

    def _of_call(self, response: LLMResult, run_id: UUID) -> Usage:
        """Return the usage of one finished call, without its seconds."""
        message = self._message(response)
        reported: Any = message.usage_metadata if message else None
        name = str(message.response_metadata.get("model_name") or "") if message else ""
        call = self._end(run_id)
        # A reply that does not say who wrote it was written by the model that was asked.
        self.model = name or call.model or self.model
        counted_here: dict[str, Any] = {}
        if not _believable(reported):
            # A count that a provider reports and nobody can believe is counted by nobody.
            if call.prompt is None or any(count in (reported or {}) for count in COUNTS):
                # Unknown, and so never 0: with a budget of dollars it counts as spent.
                return {**NO_USAGE, "calls": 1, "uncounted_calls": 1, "cost_usd": None}
            reported, counted_here = _counted(call.prompt, response), {"counted_here": 1}
        tokens = {count: reported[count] for count in COUNTS}
        priced = {**{count: tokens[count] for count in ("input_tokens", "output_tokens")}, **_cached(reported)}
        cost = None if self.prices is None else self.prices.cost_usd(name, provider=call.provider, **priced)
        if cost and message:
            cost *= discount(message.response_metadata)
        return {**NO_USAGE, **tokens, **priced, "calls": 1, "cost_usd": cost, **counted_here}  # type: ignore[typeddict-item]

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Count a call that was answered, and billed, though the client raised: a structured reply cut short."""
        if self.on_failure is not None:
            self.on_failure(error)
        # OpenAI's client raises for a structured reply cut short, and hands over what came.
        completion = getattr(error, "completion", None)
        if completion is None:
            self._end(run_id)
            return
        used = completion.usage
        usage = used and {
            "input_tokens": used.prompt_tokens,
            "output_tokens": used.completion_tokens,
            "total_tokens": used.total_tokens,
            "input_token_details": {"cache_read": getattr(used.prompt_tokens_details, "cached_tokens", None)},
        }
        text = completion.choices[0].message.content if completion.choices else None
        message = AIMessage(text or "", usage_metadata=usage, response_metadata={"model_name": completion.model})
        self.on_llm_end(LLMResult(generations=[[ChatGeneration(message=message)]]), run_id=run_id)

    def total(self) -> Usage:
        """Return the usage so far, with the seconds since the first call here began."""
        return self.usage(seconds=self.elapsed)

    def usage(self, *, seconds: float) -> Usage:
        """Return the usage so far, with the seconds that the caller measured."""
        with self._lock:
            used: Usage = {**self._used, "seconds": round(seconds, 6)}
            if self._reused:
                used["reused_calls"] = self._reused
            if self.counted is None:
                return used
            again = {**self._again, "seconds": self._earlier, "reused_calls": self._reused}
            return usage_besides(used, again, {**self.counted, "reused_calls": self.counted["calls"]})

    @staticmethod
    def _message(response: LLMResult) -> AIMessage | None:
        generation = response.generations[0][0] if response.generations and response.generations[0] else None
        message = getattr(generation, "message", None)
        return message if isinstance(message, AIMessage) else None


def _believable(usage: Any) -> bool:
    """Return True if a provider's counts can be counts: a negative one would buy calls, a huge one fits nowhere."""
    if not usage:
        return False
    counts = [usage.get(name) for name in COUNTS]
    counts += [count for cached in _cache_counts(usage) for count in cached]
    return all(type(count) is int and 0 <= count <= MOST_OF_CALL for count in counts)


def _cached(usage: Mapping[str, Any]) -> dict[str, int]:
    """Return the numbers of input tokens that came from the provider's cache and went into it; those above 0."""
    read, written = map(sum, _cache_counts(usage))
    most = usage["input_tokens"]
    counts = {"cache_read_tokens": min(read, most), "cache_write_tokens": min(written, max(most - read, 0))}
    return {name: count for name, count in counts.items() if count}


def _cache_counts(usage: Mapping[str, Any]) -> tuple[list[int], list[int]]:
    """Return the tokens read from a cache, and those written to it, as a provider counts them, in one part or several.

    OpenAI has a service tier before the name (`flex_cache_read`), Anthropic how long it keeps what it wrote.
    """
    details = (usage.get("input_token_details") or {}).items()
    read = [count for name, count in details if name.endswith("cache_read") and count]
    written = [count for name, count in details if name.endswith("cache_creation") or name.startswith("ephemeral_")]
    return read, [count for count in written if count]


def _counted(prompt: Sequence[Any], response: LLMResult) -> dict[str, int]:
    """Return about how many tokens a call took, at four bytes of UTF-8 each."""
    replies = [getattr(one, "message", None) or AIMessage(one.text) for one in (response.generations or [[]])[0][:1]]
    counts = {}
    for name, side in (("input_tokens", prompt), ("output_tokens", replies)):
        messages = convert_to_messages(side)
        text = "".join(str(message.text) for message in messages)
        # By bytes, since outside of Latin script a token has fewer characters.
        share = len(text) / max(len(text.encode("utf-8", "replace")), 1) if text else 1.0
        counts[name] = count_tokens_approximately(messages, chars_per_token=4.0 * share)
    return {**counts, "total_tokens": sum(counts.values())}


MOST_OF_CALL = 10**9
"""Tokens: more than any model takes or gives, and little enough to be summed up anywhere."""
COUNTS: tuple[Literal["input_tokens", "output_tokens", "total_tokens"], ...] = (
    "input_tokens",
    "output_tokens",
    "total_tokens",
)


logging.getLogger("langchain_core.callbacks.manager").addFilter(
    # The record shows a refused call; LangChain would warn of it as well.
    lambda warning: BudgetSpentError.__name__ not in warning.getMessage()
)

METER: ContextVar[Meter | None] = ContextVar("redraft_meter", default=None)
register_configure_hook(METER, inheritable=True)


@contextmanager
def metered(meter: Meter, *states: Any, config: RunnableConfig | None = None) -> Iterator[None]:
    """Count the models' usage within the block, and have them look into the journal of the node first.

    Args:
        meter: Counts them.
        states: Where it may be read how far the record is; see `redraft.nodes.runtime`.
        config: For models that are called without one, where it says more than the node's own.
    """
    journal = journal_in_force()
    before = METER.set(meter)
    # Without a journal, that of a node around this one must not serve its calls either.
    around = JOURNALED_CALL.set(None if journal is None else JournaledCall(journal, states, meter))
    inherited = None if config is None else var_child_runnable_config.set(config)
    try:
        yield
    finally:
        METER.reset(before)
        JOURNALED_CALL.reset(around)
        if inherited is not None:
            var_child_runnable_config.reset(inherited)
