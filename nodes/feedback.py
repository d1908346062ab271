"""Node `feedback`: call the critics on the current draft, cheapest first. Internal."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from ..state.critique import Critique
from ..state.events import Event, append_events, failure, frozen, record
from ..state.stopping import rounds_allowed, since_verdict, spent_budget
from ..state.summary import Attempt, attempts, newest_drafts, rounds
from ..state.usage import NO_USAGE
from .critics.critics import NamedCritic, in_order, read_critiques
from .human import PersonalCritique, edited_draft
from .runtime.step import Call, Outcome, Step, Steps, call, emit

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig

    from .runtime.meter import Prices

__all__ = ["CriticsAfter", "feedback"]

CriticsAfter = Literal["undecided", "always"]


def feedback(
    critics: Sequence[NamedCritic],
    *,
    name: str = "feedback",
    critics_after: CriticsAfter = "undecided",
    judge_last: bool = True,
    again: bool = False,
    prices: Prices | None = None,
) -> Step:
    """Return the node that collects critiques of the newest draft, or of each that was written side by side.

    Verifiers decide where there are any: all run, all must pass, and no other critic is asked; one that can't tell
    returns `None`, and is as if it were not there. A calibrated judge that accepts decides too; one that may not say
    leaves it to the next critic, then to a person. A critic that has already answered for this draft is not asked
    again, so neither a resumed run nor a rejected revision pays twice. Once a budget is spent no further critic is
    asked, verifiers excepted. A draft that a person edits is the next revision: verifiers check it, that person accepts
    it, and who is asked after them is asked about it.

    Args:
        critics: Asked in the order of their rank.
        name: Name of the node. People are asked in a node of their own, so that the answers of the models are saved
            before the run pauses.
        critics_after: `always` asks the other critics too, after the verifiers and whatever those found; all must
            accept.
        judge_last: Whether the last revision that the limits allow is judged.
        again: Whether a critic that has already answered for this draft is asked all the same.
        prices: Prices of the models that they call.

    Reads: task, events, limits. Writes: events.
    """
    ranked = in_order(critics)
    people = any(critic.human for critic in ranked)

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        events: list[Event] = state["events"]
        head: str = state["head"]
        fresh: list[Event] = []
        drafts = newest_drafts(events)
        unjudged_last = not judge_last and rounds(events) >= rounds_allowed(state["limits"])
        # `check` ends the run for it, so further opinions would be paid for nothing.
        failed_already = any(event["kind"] == "failure" and not event.get("budget") for event in since_verdict(events))
        if not drafts or unjudged_last or failed_already:
            return {}
        # A person is asked about one draft, however many were written side by side.
        numbers = [max(drafts, key=attrgetter("rank")).round] if people else [draft.round for draft in drafts]
        for number in numbers:
            attempt = _written(events, number)
            if _answered_by_a_person(attempt) and not again:
                continue
            # A critic may sign its critique by another name than its own.
            asked = set() if again else {critique.get("critic", critique["by"]) for critique in attempt.critiques}
            decided = (attempt.verified or attempt.calibrated) and not again
            for critic in ranked:
                if critic.name in asked or (critic.yields and decided and critics_after != "always"):
                    continue
                # A person is asked what a calibrated judge may not say, and nothing else.
                if critic.human and attempt.calibrated and critics_after != "always" and not again:
                    continue
                if not critic.verifier and spent_budget(events, state["limits"]):
                    break
                emit(kind="start", node=name, round=attempt.round, by=critic.name)
                # Frozen: a critic sees the record, and must not append to it.
                question = (state,) if critic.takes_state else (state["task"], attempt.text, frozen(events))
                # With the critiques so far, which count towards the budgets.
                now = {**state, "events": events} if fresh else state
                about: dict[str, Any] = {"round": attempt.round, "critic": critic.name}
                outcome = yield from call(critic.call, *question, config=config, prices=prices, state=now, **about)
                news, failed = _news(critic, attempt.round, outcome, node=name)
                edit = None if failed else _edit_in(outcome.result)
                if edit:
                    news = yield from _edited(critic, edit, attempt, now, config)
                if not news:
                    continue
                update = record({"head": head}, *news)
                head = update["head"]
                fresh += update["events"]
                for event in update["events"]:
                    emit(**event)
                if failed or (critic is ranked[-1] and number == numbers[-1]):
                    return {"events": fresh, "head": head}
                events = append_events(events, [update["events"]])
                attempt = _written(events, rounds(events) if edit else attempt.round)
                decided = decided or critic.verifier or attempt.calibrated
            if attempt.accepted:  # the run ends with it, so the others need no judge
                break
        return {"events": fresh, "head": head} if fresh else {}

    return Step(name, logic)


def _written(events: Sequence[Event], number: int) -> Attempt:
    """Return the draft of a round, with what was said about it so far."""
    return next(attempt for attempt in reversed(attempts(events)) if attempt.round == number)


def _answered_by_a_person(attempt: Attempt) -> bool:
    """Return whether a person has judged the draft already, after the other critics or, in a fork, instead of them."""
    return any(critique["kind"] == "human" for critique in attempt.critiques)


def _edit_in(result: Any) -> PersonalCritique | None:
    """Return the critique of a person who wrote the draft anew, or `None`."""
    return result if isinstance(result, PersonalCritique) and result.draft else None


def _edited(
    person: NamedCritic, edit: PersonalCritique, attempt: Attempt, state: Mapping[str, Any], config: RunnableConfig
) -> Generator[Call, Any, list[dict[str, Any]]]:
    """Return the events of an edit: the new draft, what the verifiers found, and that the person accepts it.

    A verifier that raises has no readable opinion; it does not undo what a person wrote.
    """
    number = rounds(state["events"]) + 1
    by = edit.by or person.name
    news = edited_draft(edit, base=attempt.round, number=number, by=by)
    for check in person.checks:
        question = (state["task"], edit.draft, frozen(state["events"]))
        outcome = yield from call(check.call, *question, config=config, prices=None)
        found, failed = _news(check, number, outcome, node="human")
        if failed:
            unread = Critique(f"{found[0]['error']}: {found[0]['text']}", accepted=None, usage=outcome.usage)
            found = [_event(unread, check, number, outcome.usage)]
        news += found
    return [*news, _event(replace(edit, text="", accepted=True), person, number, NO_USAGE)]


def _news(critic: NamedCritic, number: int, outcome: Outcome, *, node: str) -> tuple[list[dict[str, Any]], bool]:
    """Return the events of one critic's answer, and whether it failed to give one."""
    error = outcome.error
    if error is None:
        try:
            critiques = read_critiques(outcome.result, by=critic.name)
        except (TypeError, ValueError) as unusable:
            error = unusable
    if error is not None:
        return [failure(node, number, error, by=critic.name, **outcome.failed)], True
    # What asking cost is counted once, on the first critique.
    costs = [outcome.usage] + [NO_USAGE] * len(critiques)
    return [
        {**outcome.told, **_event(critique, critic, number, critique.usage or cost)}
        for critique, cost in zip(critiques, costs, strict=False)
    ], False


def _event(critique: Critique, critic: NamedCritic, number: int, usage: Any) -> dict[str, Any]:
    event = {
        "kind": "human" if critic.human else "critique",
        "round": number,
        "by": critique.by or critic.name,
        "text": critique.text,
        "usage": usage,
        "accepted": critique.accepted,
        "score": critique.score,
    }
    flags = {
        "verifier": critic.verifier,
        "oracle": critique.oracle or critic.oracle,
        "stop": critique.stop and critic.human,
        "uncalibrated": critic.uncalibrated,
    }
    if critique.evidence:
        event["evidence"] = dict(critique.evidence)
    if critique.calibration:
        event["calibration"] = dict(critique.calibration)
    signature = {"critic": critic.name} if event["by"] != critic.name else {}
    return event | signature | {name: True for name, value in flags.items() if value}
