"""Node `prepare`: take in the task or the conversation, validate its limits, and open the record. Internal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.messages import HumanMessage, convert_to_openai_messages

from ..state.checked_channels import Waiting
from ..state.events import clean, given_draft, record, requirement, task_event
from ..state.limits import limits_in_force, merged_limits
from ..state.open_state import said_so_far
from ..state.summary import CALLER, requirements
from ..state.typed_answer import ANSWER_SCHEMA
from ..state.usage import NO_USAGE
from .runtime.killable import beside
from .runtime.meter import BudgetSpentError, Prices
from .runtime.step import Step, Steps, call, extra_update
from .writing.prompts import known_verifier

if TYPE_CHECKING:
    from collections.abc import Generator

    from langchain_core.runnables import RunnableConfig

    from ..state.dual import Do

__all__ = ["prepare", "required"]


def prepare(
    then: Any = None,
    *,
    limits: Mapping[str, Any] | None = None,
    options: Mapping[str, Any],
    fingerprint: Mapping[str, Any] | None = None,
    no_draft: str = "",
    prices: Prices | None = None,
) -> Step:
    """Return the node that validates what was given, clears what belongs to an earlier run and opens the record.

    Args:
        then: A Runnable or callable run after that, on the fresh state; its update is added (retrieval stands here).
            What it makes of `task` or `limits` is validated and recorded like the caller's. Where the caller gives
            neither a task nor messages, it must give one.
        limits: In force where the thread has none yet; what the caller gives as a plain dict is put over the limits in
            force, and a `Limits` replaces them.
        options: What of the graph's options the record must hold for its folds.
        fingerprint: Of the graph; default: the record says nothing of it.
        no_draft: Why a caller can't give the first draft; empty: they can.
        prices: Prices of the models that `then` may call.

    Reads: task, messages, draft, require, limits. Writes: everything.

    Raises:
        ValueError: At run: the task is empty, a draft is blank or has no place here, or what is required or a limit
            makes no sense.
    """
    defaults = merged_limits(None, limits)

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        earlier = state.get("events") or []
        conversation = _read_conversation(state)
        request = conversation.pop("task", state.get("task"))
        older = {"messages": conversation.pop("messages")} if "messages" in conversation else {}
        left_out = then is not None and request is None
        task = "" if left_out else _checked(request)
        draft = None if state.get("draft") is None else given_draft(state["draft"])["text"]
        if draft is not None and no_draft:
            raise ValueError(f"draft has no place here: {no_draft}")
        asked = yield from _asked(state)
        valid = merged_limits(limits_in_force(earlier) or defaults, state.get("limits"))
        update: dict[str, Any] = {
            "answer": "",
            "stop_reason": None,
            "rounds": 0,
            "score": None,
            "accepted_by": None,
            "oracle": False,
            # A copy, since all runs share the constant.
            "usage": NO_USAGE.copy(),
            "error": None,
            **({"structured_response": None} if ANSWER_SCHEMA in options else {}),
            **older,
        }
        opening = _opening(state, task, valid, options, asked, fingerprint=fingerprint, **conversation)
        if then is not None:
            fresh = {**state, **update, **opening, "events": [*earlier, *opening["events"]]}
            outcome = yield from call(then, fresh, config=config, prices=prices, state=fresh)
            # A spent budget ends the run where it is looked at next, and what it cost is on the task.
            if outcome.error is not None and not isinstance(outcome.error, BudgetSpentError):
                raise outcome.error
            changes = outcome.result if isinstance(outcome.result, Mapping) else {}
            task = _checked(changes.get("task", None if left_out else task))
            # What it cost stands on its own events, or else on the task.
            counted = any(event.get("usage") for event in changes.get("events", []))
            usage = {} if counted else {"usage": outcome.usage}
            # Made anew: `then` may have changed the task or the limits that the first one holds.
            changed = merged_limits(valid, changes.get("limits"))
            opening = _opening(state, task, changed, options, asked, fingerprint=fingerprint, **conversation, **usage)
            added = extra_update({**fresh, **opening}, changes, by="prepare")
            events = [*opening["events"], *added.get("events", [])]
            opening = {**added, **opening, "events": events, "head": added.get("head", opening["head"])}
        # Written once more, for `generate`: the channel holds it for one step only.
        return {**update, **opening, **({} if draft is None else {"draft": draft})}

    return Step("prepare", logic)


def _checked(task: object) -> str:
    if not isinstance(task, str) or not task.strip():
        raise ValueError(f"task must be a text that asks for something, not {task!r}")
    return clean(task)


def _asked(state: Mapping[str, Any]) -> Generator[Do, Any, list[dict[str, Any]]]:
    """Return the events of what the caller requires, whose verifiers are there."""
    asked = [] if state.get("require") is None else required(state["require"])
    for name in [name for event in asked for name in event.get("verifiers", ())]:
        yield beside(known_verifier, name)
    return asked


def required(given: Any) -> list[dict[str, Any]]:
    """Return the events of what a caller requires of a task's answer, each text once.

    Args:
        given: Texts, or mappings of a `text` and the names of its `verifiers`.

    Raises:
        ValueError: It is something else.
    """
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise ValueError(  # noqa: TRY004  as any other bad input
            f"require is a list, of texts or {{'text': …, 'verifiers': […]}}, not {given!r:.200}"
        )
    events: dict[str, dict[str, Any]] = {}
    for one in given:
        fields = {"text": one} if isinstance(one, str) else one
        if not isinstance(fields, Mapping) or fields.keys() - {"text", "verifiers"}:
            raise ValueError(f"what is required is a text, or {{'text': …, 'verifiers': […]}}, not {one!r:.200}")
        text, verifiers = fields.get("text"), fields.get("verifiers") or []
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"what is required must be said in a text that is not blank, not {text!r:.200}")
        if not isinstance(verifiers, list | tuple) or not all(isinstance(name, str) for name in verifiers):
            raise ValueError(f"verifiers are names, as ['length:-40'], not {verifiers!r:.200}")
        events[clean(text)] = requirement(clean(text), 0, CALLER, verifiers=verifiers)
    return [*events.values()]


def _opening(
    state: Mapping[str, Any],
    task: str,
    limits: dict[str, Any],
    options: Mapping[str, Any],
    asked: Sequence[Mapping[str, Any]],
    **fields: Any,
) -> dict[str, Any]:
    """Return the update that begins a run: its task, limits and requirements, in the state and in the record."""
    opened = record(state, task_event(task, limits, options, **fields), *asked)
    wanted = requirements(opened["events"]) if asked else []
    return {"task": task, "limits": limits, "requirements": wanted, **opened}


def _read_conversation(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the task in the input's messages, if it has any, and the part of the conversation the record lacks.

    Reads: task, messages, events.
    """
    messages = state.get("messages")
    waits = isinstance(messages, Waiting)
    if not messages or not (waits or state.get("task") is None):
        return {}
    conversation = convert_to_openai_messages(messages)
    recorded = said_so_far(state.get("events") or [])
    update: dict[str, Any] = {
        "task": str([message for message in messages if isinstance(message, HumanMessage)][-1].text),
        "conversation": conversation,
    }
    if recorded and conversation[: len(recorded)] == recorded:
        update |= {"conversation": conversation[len(recorded) :], "continues": True}
    return {**update, "messages": list(messages)} if waits else update
