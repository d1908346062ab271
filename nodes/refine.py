"""Node `refine`: write the next revision. Internal."""

from __future__ import annotations

from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING, Any

from ..state.events import failure
from ..state.stopping import spent_budget
from ..state.summary import Attempt, attempts, rounds, summary_of
from ..state.typed_answer import schema_in
from ..state.usage import NO_USAGE, Usage, add_usage
from .agents.agent_answers import AgentRun, misfit
from .generate import agent_update, passed, read_object, writer_update
from .runtime.killable import beside
from .runtime.step import Outcome, Step, Steps, call, emit, recorded
from .writing.prompts import Keep, attempt_at_hand
from .writing.replies import cut_off, read_text, rejection
from .writing.writers import EDIT, Drafts, Refiners, Writer

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig

    from ..state.dual import Do
    from .runtime.meter import Prices
    from .verify.answer_type import AnswerType

__all__ = ["REFINE_PROMPT", "refine"]


def refine(
    writer: Writer,
    *,
    keep: Keep = "best",
    first: Writer | None = None,
    answer: AnswerType | None = None,
    prices: Prices | None = None,
) -> Step:
    """Return the node that writes the next revision, or several side by side where the writer is adaptive.

    A revision that is empty, refused, a repeat, a notice or talk about the task, one that an agent did not finish, and
    where the draft is data one that does not fit its schema, is logged as rejected; it counts as a round and is no
    draft. An error is logged and ends the run in `check`, with the best draft so far. Once a budget is spent, as new
    limits may have it, nothing is asked and nothing written: `check` says which budget.

    Args:
        writer: Takes the state and returns the revision, or `Drafts`; of `Refiners` one is chosen.
        keep: Whether the best or the latest draft is revised, where the writer doesn't say it.
        first: Asked in the writer's place while there is no draft to revise.
        answer: The type of drafts, where they have one.
        prices: Prices of the models that it calls.

    Reads: task, events, limits. Writes: events.
    """

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        events = state["events"]
        if spent_budget(events, state["limits"]):
            return {}
        number = rounds(events) + 1
        emit(kind="start", node="refine", round=number)
        author = _asked(writer, first, state)
        outcome, refiner, choice = yield from _written(author, state, config, prices=prices, number=number)
        result = yield from read_object(outcome.result, answer)
        replies = result.replies if isinstance(result, Drafts) else [result]
        error, texts = outcome.error, [""]
        if error is None:
            try:
                texts = [reply.text if isinstance(reply, AgentRun) else read_text(reply) for reply in replies]
            except TypeError as unreadable:
                error = unreadable
        if error is not None:
            return recorded(state, failure("refine", number, error, **choice, **outcome.failure_fields))
        # A writer may revise another draft than the one that would be the answer: the last one, say.
        base = attempt_at_hand(events, getattr(refiner, "keep", keep))
        choice = {"refiner": result.arm} if isinstance(result, Drafts) else choice
        exact = isinstance(result, Drafts) and (result.arm == EDIT or any(result.edited))
        news = yield from _revisions(
            state, texts, replies, base, {**choice, **outcome.fields}, number=number, exact=exact, answer=answer
        )
        if isinstance(result, AgentRun):
            if result.unfinished:
                news[0]["rejected"] = "unfinished"
            return agent_update(state, result, news[0])
        if not isinstance(result, Drafts):
            return writer_update(state, refiner, result, news[0])
        for event, reply, edited in zip(news, replies, result.edited or repeat(False), strict=False):
            if result.fresh:  # a sample revises no draft
                event.pop("base", None)
            if edited:
                event["edited"] = True
            elif cut_off(reply):
                event["cut_off"] = True
        return recorded(state, *news)

    return Step("refine", logic)


def _revisions(
    state: Mapping[str, Any],
    texts: Sequence[str],
    replies: Sequence[Any],
    base: Attempt | None,
    fields: Mapping[str, Any],
    *,
    number: int,
    exact: bool = False,
    answer: AnswerType | None = None,
) -> Generator[Do, Any, list[dict[str, Any]]]:
    """Return the event of each revision of a step, the reason included why it is no draft, if it is none.

    Args:
        state: The state of the run.
        texts: The revisions.
        replies: As the model gave them.
        base: The draft that they revise.
        fields: Of their events: the model, the usage of the whole step.
        number: Round of the first.
        exact: Whether another layout of an earlier draft is no repeat of it: a program put it right.
        answer: The type of drafts, where they have one.
    """
    earlier = [*summary_of(state["events"]).attempts]
    critique, sources = (base.feedback, [base.text, state["task"]]) if base else ("", [])
    schema = schema_in(state["events"])
    by = fields.get("model") or fields.get("refiner", "refine")
    news: list[dict[str, Any]] = []
    for text, reply, usage in zip(texts, replies, _shared(fields["usage"], replies), strict=True):
        message = reply.reply if isinstance(reply, AgentRun) else reply
        draft = yield from passed(text, message, answer)
        new = Attempt(number + len(news), draft["text"], by, base.round if base else None, ())
        # By their first words, then by their hashes, computed once a draft: only those alike are compared whole.
        alike = [one.text for one in earlier if one.opening == new.opening and one.condensed == new.condensed]
        if exact:
            alike = [one for one in alike if one == new.text]
        rejected = rejection(new.text, earlier=alike, result=message, critique=critique, known=sources)
        if not rejected and schema is not None and (yield beside(misfit, new.text, schema)):
            rejected = "invalid"
        event = {"kind": "revision", "round": new.round, "by": by, **draft, **fields, "usage": usage}
        news.append({**event, **({"base": new.base} if base else {}), "rejected": rejected})
        earlier.append(new)
    return news


def _asked(writer: Writer, first: Writer | None, state: Mapping[str, Any]) -> Writer:
    """Return the writer of this step: that of first drafts, where there is one, until there is a draft."""
    return writer if first is None or attempts(state["events"]) else first


def _written(
    writer: Writer, state: Mapping[str, Any], config: RunnableConfig, *, prices: Prices | None, number: int
) -> Generator[Any, Any, tuple[Outcome, Writer, dict[str, str]]]:
    """Ask for the revision; return the outcome, its writer, and the event's fields about the choice of one."""
    about: dict[str, Any] = {"config": config, "prices": prices, "state": state, "round": number}
    outcome = yield from call(writer, state, **about)
    if not isinstance(writer, Refiners) or outcome.error is not None:
        return outcome, writer, {}
    refiner, choice = writer.writers[outcome.result], {"refiner": outcome.result}
    written = yield from call(refiner, state, besides=outcome.usage, **about, **choice)
    warned = [*dict.fromkeys([*outcome.warned, *written.warned])]
    return replace(written, usage=add_usage([outcome.usage, written.usage]), warned=warned), refiner, choice


def _shared(usage: Usage, replies: Sequence[Any]) -> list[Usage]:
    """Return the usage of each reply of a step: its own tokens, and on the first what else the step cost."""
    first: Any = {**usage}
    later: list[Any] = []
    for reply in replies[1:]:
        counted = getattr(reply, "usage_metadata", None) or {}
        # Never more than was counted: a writer may reply without a call.
        own = {name: min(int(counted.get(name, 0)), first[name]) for name in TOKENS} | {"calls": min(1, first["calls"])}
        cached = (counted.get("input_token_details") or {}).get("cache_read") or 0
        if cached := min(int(cached), first.get("cache_read_tokens", 0)):
            own["cache_read_tokens"] = cached
        later.append({**NO_USAGE, **own})
        first |= {name: first[name] - value for name, value in own.items()}
    return [first, *later]


TOKENS = ("input_tokens", "output_tokens", "total_tokens")


REFINE_PROMPT = """\
Task:
{task}

Earlier attempts, for what not to repeat:
{history}

Current draft:
{draft}

Feedback on the current draft:
{feedback}

Rewrite the current draft so that every point of the feedback is met. Reply with the new draft only: no preface, no \
comment on the changes."""
