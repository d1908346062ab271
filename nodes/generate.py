"""Node `generate`: write the first draft. Internal."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig

from ..state.events import failure, given_draft, record
from ..state.masking import masked
from ..state.open_state import before_task, kept_conversation
from ..state.schema import Raised
from ..state.stopping import spent_budget
from .agents.agent_answers import AgentRun, AgentUnfinishedError
from .runtime.journal import saver_of
from .runtime.killable import beside
from .runtime.meter import BudgetSpentError, Prices
from .runtime.step import Step, Steps, call, emit, extra_update, recorded
from .writing.gate import no_draft
from .writing.replies import cut_off, gated, marked_refusal, read_text, reasoning_only
from .writing.sampling import SampledReply
from .writing.writers import Drafts

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from ..state.dual import Do
    from .verify.answer_type import AnswerType
    from .writing.writers import Writer

__all__ = ["CHECKED_GENERATE_PROMPT", "GENERATE_PROMPT", "EmptyDraftError", "agent_update", "generate", "writer_update"]


class EmptyDraftError(ValueError):
    """The first draft came back empty, or refused, so there is nothing to work on. Resumed, the thread asks again."""


def generate(
    writer: Writer, *, answer: AnswerType | None = None, prices: Prices | None = None, raises_later: bool = False
) -> Step:
    """Return the node that writes the first draft.

    Args:
        writer: Takes the state and returns the draft.
        answer: The type of drafts, where they have one.
        prices: Prices of the models that it calls.
        raises_later: Whether the node runs again where it writes `raised`. What a writer used before it failed is then
            in the record, and the node raises in the step after that.

    An agent that did not finish (see `redraft.nodes.agents.agent_answers`) leaves its draft as it is, and the run ends.

    A refusal, talk about the task and a notice are recorded as rejected, and are no drafts. A draft of the caller's own
    is recorded as it is, and the writer is not asked.

    Reads: task, draft, events, limits, raised. Writes: events, raised.

    Raises:
        EmptyDraftError: At run: the draft is empty.
        Exception: At run: whatever the writer raises. Before the first draft there is nothing to keep, and the thread
            resumes from here.
    """

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        if isinstance(raised := state.get("raised"), Raised):
            raise raised.error
        if state.get("draft") is not None:
            return recorded(state, given_draft(state["draft"]))
        if spent_budget(state["events"], state["limits"]) and not getattr(writer, "asks_no_model", False):
            return {}
        emit(kind="start", node="generate", round=0)
        outcome = yield from call(writer, state, config=config, prices=prices, state=state, round=0)
        draft: dict[str, Any] = {"kind": "draft", "round": 0, "by": outcome.model or _name(writer), **outcome.fields}
        error = outcome.error
        if isinstance(error, BudgetSpentError):  # what it cost until then is kept
            return agent_update(state, AgentRun("", (), str(error), budget=error.budget), draft)
        result = outcome.result
        if error is None and isinstance(result, AgentRun):
            return agent_update(state, *(yield from _typed_run(result, draft, answer)))
        result = yield from read_object(result, answer)
        if error is None and not (text := read_text(result)).strip():
            error = _empty(result, by=draft["by"])
        if error is None:
            draft |= yield from passed(text, result, answer)
            update = writer_update(state, writer, result, draft)
            return update if outcome.refused is None else _with_refusal(state, update, outcome.refused)
        # Replies that the journal keeps, or the checkpoints of an agent, are counted when they are used again.
        counted_later = outcome.kept or getattr(writer, "goes_on", False)
        if not raises_later or not outcome.usage["calls"] or counted_later or saver_of(config) is None:
            error.__dict__["redraft_usage"] = outcome.usage  # for who catches it: no record has it
            raise error
        # Of an error only its type: its message may hold prompts and paths, and goes to who gave the task.
        why = masked(str(error)) if isinstance(error, EmptyDraftError) else type(error).__name__
        return {**record(state, {**draft, "rejected": "empty", "incomplete": why}), "raised": Raised(error)}

    return Step("generate", logic)


def read_object(result: Any, answer: AnswerType | None) -> Generator[Do, Any, Any]:
    """Return a writer's result, with JSON in the place of an object of the type."""
    written = answer is None or isinstance(result, AgentRun | Drafts | str | BaseMessage | None)
    return result if written or answer is None else (yield beside(answer.read, result))


def _typed_run(
    run: AgentRun, draft: dict[str, Any], answer: AnswerType | None
) -> Generator[Do, Any, tuple[AgentRun, dict[str, Any]]]:
    """Return an agent's run and its draft; of typed drafts, what does not fit is judged, and not dropped."""
    if answer is None:
        return run, draft
    return replace(run, schema=None), {**draft, **(yield from passed(run.text, run.reply, answer))}


def passed(text: str, result: Any, answer: AnswerType | None) -> Generator[Do, Any, dict[str, Any]]:
    """Return the result of `gated`, made beside the event loop for a type, which may be a caller's."""
    return gated(text, result) if answer is None else (yield beside(gated, text, result, answer))


def _empty(result: Any, *, by: str) -> EmptyDraftError:
    """Return the error of a first draft without text: a refusal, reasoning alone, or nothing."""
    why = marked_refusal(result)
    reason = f"was refused: {why}" if why else ONLY_REASONING if reasoning_only(result) else EMPTY
    return EmptyDraftError(f"the first draft of {by} {reason}")


def _with_refusal(state: Mapping[str, Any], update: dict[str, Any], budget: str) -> dict[str, Any]:
    """Return the update of a draft with the refusal of a further call, unless the run's own budgets show it."""
    if spent_budget([*state["events"], *update["events"]], state["limits"]):
        return update
    refusal = recorded(update, failure("generate", 0, BudgetSpentError(budget), budget=budget))
    return {**update, **refusal, "events": [*update["events"], *refusal["events"]]}


def writer_update(state: Mapping[str, Any], writer: Writer, result: Any, event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the update of a writing node: the new event, and what a plain callable adds beside it."""
    extra = {} if isinstance(writer, Runnable) else extra_update(state, result, by=_name(writer))
    added = extra.pop("events", [])
    event = {**event, **({"cut_off": True} if cut_off(result) else {})}
    if isinstance(result, SampledReply):
        event["samples"] = result.samples
    # `extra` holds the head after its own events, which this one is linked to.
    update = recorded({**state, **extra}, event)
    return {**extra, **update, "events": [*added, *update["events"]]}


def agent_update(state: Mapping[str, Any], run: AgentRun, event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the update of an agent's run. Without a text there is no draft, but what it did and cost is kept.

    Args:
        state: The state that the events are appended to.
        run: The run.
        event: The draft, without what the run says of it, or the revision with its text.
    """
    node = "generate" if event["kind"] == "draft" else "refine"
    first = node == "generate" and run.schema is None
    text = gated(run.text, run.reply) if first else {"text": run.text}
    draft: dict[str, Any] = {**text, **event, "steps": list(run.steps)}
    news = [draft]
    if node == "generate" and (before := before_task(kept_conversation(state))):
        draft["conversation"] = before
    if run.schema is not None:
        draft["schema"] = dict(run.schema)
    if (notice := run.notice or no_draft(run.text) == "notice") or not run.text.strip():
        draft["rejected"] = "notice" if notice else "empty"
    if run.unfinished:
        draft["incomplete"] = run.unfinished
    # `check` sees for itself that a budget of the run is spent, and can't know what a server allows.
    if run.budget and not spent_budget([*state["events"], draft], state["limits"]):  # type: ignore[list-item]
        news.append(failure(node, draft["round"], BudgetSpentError(run.budget), budget=run.budget))
    elif run.unfinished and not run.budget:
        news.append(failure(node, draft["round"], AgentUnfinishedError(run.unfinished)))
    return recorded(state, *news)


def _name(writer: Writer) -> str:
    return writer.get_name() if isinstance(writer, Runnable) else getattr(writer, "__name__", type(writer).__name__)


EMPTY = "came back empty"
ONLY_REASONING = (
    "is reasoning only, with no answer after it; if it was cut off, max_output_tokens is too small for this model"
)
GENERATE_PROMPT = """{task}"""
CHECKED_GENERATE_PROMPT = """\
{task}

Reply with the text only: no preface, no comment."""
