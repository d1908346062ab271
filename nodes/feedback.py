"""Node `feedback`: call the critics on the current draft, cheapest first. Internal."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..state.checked_channels import append_events
from ..state.critique import Critique
from ..state.dual import Do, adrive, at_once, drive
from ..state.events import Event, failure, frozen, requirement
from ..state.stopping import BUDGETS, REFUSED_OUTSIDE, decide, rounds_allowed, spent_budget
from ..state.summary import Attempt, rounds, summary_of
from ..state.usage import NO_USAGE
from .critics.critics import NamedCritic, about_untold, in_order, own_checks, read_critiques
from .human import PersonalCritique, edited_draft
from .runtime.step import Outcome, Step, Steps, call, emit, recorded
from .writing.prompts import standing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig

    from .runtime.meter import Prices
    from .writing.prompts import Keep

__all__ = ["CriticsAfter", "feedback"]

_Answer: TypeAlias = "tuple[list[dict[str, Any]], bool, bool]"
"""The events of a critic's answer, whether there is none, and whether the draft was edited."""
CriticsAfter = Literal["undecided", "always"]


def feedback(
    critics: Sequence[NamedCritic],
    *,
    name: str = "feedback",
    critics_after: CriticsAfter = "undecided",
    judge_last: bool = True,
    again: bool = False,
    asks_about: bool = True,
    ends_with: Keep | None = None,
    prices: Prices | None = None,
) -> Step:
    """Return the node that collects critiques of the newest draft, or of each that was written side by side.

    Verifiers decide where there are any: all run, all must pass, and no other critic is asked; one that can't tell
    returns `None`, and is as if it were not there. A calibrated judge that accepts decides too; one that may not say
    leaves it to the next critic, then to a person. Models that are asked in any case are asked side by side in async
    runs without a budget. A critic that has already answered for this draft is not asked again, so neither a resumed
    run nor a rejected revision pays twice. Once a budget is spent no further critic is asked, verifiers excepted. A
    draft that a person edits is the next revision: verifiers check it, that person accepts it, and who is asked after
    them is asked about it.

    A standing requirement stands with the task that critics are given. Its own verifiers are asked with the others; of
    one that has none, and that nobody has said anything about, the first judge that can be is asked by its name, where
    all else is right.

    Args:
        critics: Asked in the order of their rank.
        name: Name of the node. People are asked in a node of their own, so that the answers of the models are saved
            before the run pauses.
        critics_after: `always` asks the other critics too, after the verifiers and whatever those found; all must
            accept.
        judge_last: Whether the last revision that the limits allow is judged. It is in any case where a requirement
            that stands has verifiers.
        again: Whether a critic that has already answered for this draft is asked all the same.
        asks_about: Whether judges are asked about requirements by name: not where a person decides.
        ends_with: Which draft a run ends with, for people who are asked only where none was accepted; default: nobody
            here knows when it ends.
        prices: Prices of the models that they call.

    Reads: task, events, limits. Writes: events, and limits where a person who is asked at the end wants a round more.

    Raises:
        ValueError: At build: a person is to be asked at the end, and not all of them are, or nobody knows when that is.
    """
    ranked = in_order(critics)
    people = any(critic.human for critic in ranked)
    at_the_end = _asked_at_the_end(ranked, ends_with)
    judged = partial(_drafts_to_judge, people=people, judge_last=judge_last)
    drafts = partial(_about_to_end, keep=at_the_end) if at_the_end else judged

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        judging = _Judging(state)
        numbers = drafts(state)
        for number in numbers:
            attempt = judging.draft(number)
            queue = _to_be_asked(ranked, attempt, state["events"], people=people, again=again)
            answered = set() if again else _critics_heard(attempt)
            decided = _decided(attempt) and not again
            while queue:
                critic = queue.pop(0)
                if critic.name in answered:
                    continue
                if critics_after != "always" and _settled(critic, attempt, decided=decided, again=again):
                    queue[:0] = about_untold(critic, attempt, asks=asks_about)
                    continue
                if _unaffordable(critic, judging, at_the_end=bool(at_the_end)):
                    break
                asked = _side_by_side([critic, *queue], attempt, state["limits"], answered)
                del queue[: len(asked) - 1]
                given: Any = {"node": name, "prices": prices}
                news, failed, edited = yield from _together(asked, attempt, judging, config, **given)
                if not news:
                    continue
                judging.add(news)
                if failed or (not queue and not attempt.requirements and number == numbers[-1]):
                    return judging.update
                attempt = judging.draft(rounds(judging.events) if edited else attempt.round)
                # What one of a requirement accepts is still to be judged by the task.
                decided |= _decided(attempt)
                queue[:0] = about_untold(critic, attempt, asks=asks_about)
            if attempt.accepted:  # the run ends with it, so the others need no judge
                break
        return judging.update

    return Step(name, _with_room(logic) if at_the_end else logic)


def _asked_at_the_end(critics: Sequence[NamedCritic], ends_with: Keep | None) -> Keep | None:
    """Return which draft people are asked about, where it is only when a run ends; `None` where it is about each."""
    late = [critic for critic in critics if critic.human and critic.call.ask == "unaccepted"]
    if late and len(late) < len(critics):
        raise ValueError("of several people all are asked about each draft, or all at the end: ask= differs")
    if late and ends_with is None:
        raise ValueError(
            "ask='unaccepted' needs a graph that knows when its run is about to end: no middleware, no step of a "
            "pipeline, and no graph with a check= of its own"
        )
    return ends_with if late else None


def _about_to_end(state: Mapping[str, Any], *, keep: Keep) -> list[int]:
    """Return the round of the draft that a run is about to end with, if nobody accepts it.

    Of one that they have turned down people are not asked again, but about what was made of it.
    """
    if decide(state["events"], state["limits"]) in (None, "accepted", "failed", "human", *REFUSED_OUTSIDE):
        return []
    summary = summary_of(state["events"])
    unseen = [draft for draft in (summary.kept(keep), *summary.newest) if draft and not draft.seen_by_person]
    return [draft.round for draft in unseen[:1]]


def _with_room(
    logic: Callable[[Mapping[str, Any], RunnableConfig], Steps],
) -> Callable[[Mapping[str, Any], RunnableConfig], Steps]:
    """Return the logic with limits that allow the revision that a person has just asked for."""

    def asked(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        update = yield from logic(state, config)
        heard = next((event for event in reversed(update.get("events", ())) if event["kind"] == "human"), None)
        done = rounds(state["events"])
        if heard is None or heard["accepted"] or heard.get("stop") or done < rounds_allowed(state["limits"]):
            return update
        return {**update, "limits": {**state["limits"], "max_rounds": done + 1}}

    return asked


def _to_be_asked(
    ranked: Sequence[NamedCritic], attempt: Attempt, events: Sequence[Event], *, people: bool, again: bool
) -> list[NamedCritic]:
    """Return the critics to ask about a draft: after a person has answered, the verifiers of requirements."""
    own = own_checks(events) if attempt.requirements and not people else []
    return own if attempt.seen_by_person and not again else [*own, *ranked]


def _side_by_side(
    queue: Sequence[NamedCritic], attempt: Attempt, limits: Mapping[str, Any], answered: Collection[str]
) -> list[NamedCritic]:
    """Return the first critic, with the models behind it that are asked whatever it says: then none waits for it.

    A budget may end before the next, and of a requirement the first judge may have said what there is to say.
    """
    if len(queue) < 2 or attempt.requirements or any(limits.get(name) is not None for name in BUDGETS):
        return [queue[0]]
    models = [*takewhile(lambda one: one.is_model and one.name not in answered, queue)]
    return models or [queue[0]]


def _together(
    critics: Sequence[NamedCritic], attempt: Attempt, judging: _Judging, config: RunnableConfig, **given: Any
) -> Generator[Do, Any, _Answer]:
    """Ask critics at once; in a sync run one by one, since their models may not bear threads."""
    calls = [_asked(critic, attempt, judging, config, **given) for critic in critics]
    if len(calls) == 1:
        return (yield from calls[0])
    answers = yield at_once([Do(drive, adrive, (asking,)) for asking in calls], most_threads=1)
    return [event for news, _, _ in answers for event in news], any(failed for _, failed, _ in answers), False


def _critics_heard(attempt: Attempt) -> set[str]:
    # A critic may sign its critique by another name than its own.
    return {critique.get("critic", critique["by"]) for critique in attempt.critiques}


def _settled(critic: NamedCritic, attempt: Attempt, *, decided: bool, again: bool) -> bool:
    """Return True if a critic need not be asked: a person is asked what a calibrated judge may not say, no more."""
    if critic.human:
        return attempt.calibrated and not attempt.unmet and not again
    return critic.yields and decided


def _unaffordable(critic: NamedCritic, judging: _Judging, *, at_the_end: bool) -> bool:
    """Return True if a budget is spent: programs cost nothing, nor do people, who are asked at the end all the same."""
    return not (critic.verifier or at_the_end) and spent_budget(judging.events, judging.given["limits"]) is not None


def _decided(attempt: Attempt) -> bool:
    """Return True if programs or a calibrated judge decided: what one of a requirement accepts is still to be judged
    by the task."""
    return attempt.verified or attempt.refuted or attempt.calibrated


class _Judging:
    """The record while critics are asked: the events of the state, and those that are new."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self.given = state
        self.update: dict[str, Any] = {}
        self._events: list[Event] = state["events"]
        self._unread: list[Event] = []

    def add(self, news: Sequence[Mapping[str, Any]]) -> None:
        """Append events, and stream them."""
        sealed = recorded({"head": self.update.get("head", self.given["head"])}, *news)
        self.update = {"events": [*self.update.get("events", ()), *sealed["events"]], "head": sealed["head"]}
        self._unread += sealed["events"]

    @property
    def events(self) -> list[Event]:
        if self._unread:  # copied when somebody reads it: nobody does after the last critic
            self._events, self._unread = append_events(self._events, [self._unread]), []
        return self._events

    @property
    def state(self) -> Mapping[str, Any]:
        """The state with the critiques so far, which count towards the budgets."""
        return {**self.given, "events": self.events} if self.update else self.given

    def draft(self, number: int) -> Attempt:
        """Return the draft of a round, with its critiques so far."""
        return next(attempt for attempt in reversed(summary_of(self.events).attempts) if attempt.round == number)


def _drafts_to_judge(state: Mapping[str, Any], *, people: bool, judge_last: bool) -> list[int]:
    """Return the rounds of the drafts that critics are asked about; none where the run ends without a critique."""
    events = state["events"]
    summary = summary_of(events)
    unjudged_last = not judge_last and summary.rounds >= rounds_allowed(state["limits"]) and not own_checks(events)
    # `check` ends the run for a failure, so further opinions would be paid for nothing.
    fresh = events[summary.verdict :]
    failed_already = any(event["kind"] == "failure" and not event.get("budget") for event in fresh)
    if not summary.newest or unjudged_last or failed_already:
        return []
    # A person is asked about one draft, however many were written side by side.
    return [max(summary.newest, key=attrgetter("rank")).round] if people else [draft.round for draft in summary.newest]


def _asked(
    critic: NamedCritic,
    attempt: Attempt,
    judging: _Judging,
    config: RunnableConfig,
    *,
    node: str,
    prices: Prices | None = None,
) -> Generator[Do, Any, _Answer]:
    """Ask one critic; return the events of the answer, whether there is none, and whether the draft was edited."""
    emit(kind="start", node=node, round=attempt.round, by=critic.name)
    state = judging.state
    question, named = _question(critic, attempt.text, state)
    about: dict[str, Any] = {"round": attempt.round, "critic": critic.name}
    outcome = yield from call(critic.call, *question, named=named, config=config, prices=prices, state=state, **about)
    requirements = attempt.requirements if getattr(critic.call, "tells_of_requirements", False) else ()
    news, failed = _news(critic, attempt.round, outcome, node=node, told=critic.requirements or requirements)
    if failed or not isinstance(outcome.result, PersonalCritique) or not outcome.result.draft:
        return news, failed, False
    return (yield from _edited(critic, outcome.result, attempt, state, config)), False, True


def _question(critic: NamedCritic, draft: str, state: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments that a critic is asked with, and those by name; the state's `draft` is what it judges."""
    if critic.takes_state:
        return ({**state, "draft": draft},), {}
    record = frozen(state["events"])  # a critic sees the record, and must not append to it
    ahead = begun if (begun := state.get("asked_ahead")) and begun["critic"] == critic.name else None
    named = {"state": {**state, "events": record, "draft": draft, "asked_ahead": ahead}} if critic.named_state else {}
    task = state["task"] if critic.verifier or critic.human else state["task"] + standing(state["events"])
    return (task, draft, record), named


def _edited(
    person: NamedCritic, edit: PersonalCritique, attempt: Attempt, state: Mapping[str, Any], config: RunnableConfig
) -> Generator[Do, Any, list[dict[str, Any]]]:
    """Return the events of an edit: the new draft, the verifiers' critiques of it, and that the person accepts it.

    A verifier that raises has no readable opinion; it does not undo what a person wrote.
    """
    number = rounds(state["events"]) + 1
    news = edited_draft(edit, base=attempt.round, number=number, by=edit.by or person.name)
    for check in person.checks:
        question, named = _question(check, edit.draft, state)
        outcome = yield from call(check.call, *question, named=named, config=config, prices=None)
        critiques, failed = _news(check, number, outcome, node="human")
        if failed:
            unread = Critique(f"{critiques[0]['error']}: {critiques[0]['text']}", accepted=None, usage=outcome.usage)
            critiques = [_event(unread, check, number, outcome.usage)]
        news += critiques
    return [*news, _event(replace(edit, text="", accepted=True), person, number, NO_USAGE)]


def _news(
    critic: NamedCritic, number: int, outcome: Outcome, *, node: str, told: Sequence[str] = ()
) -> tuple[list[dict[str, Any]], bool]:
    """Return the events of one critic's answer, and whether it failed to give one.

    What a person wants changed is required from then on.
    """
    error = outcome.error
    if error is None:
        try:
            critiques = read_critiques(outcome.result, by=critic.name)
        except (TypeError, ValueError) as unusable:
            error = unusable
    if error is not None:
        return [failure(node, number, error, by=critic.name, **outcome.failure_fields)], True
    # What asking cost is counted once, on the first critique.
    costs = [outcome.usage] + [NO_USAGE] * len(critiques)
    wanted = [
        requirement(one.text, number, one.by or critic.name)
        for one in critiques
        if critic.human and one.accepted is False and one.text.strip() and not one.stop
    ]
    about = {"requirements": [*told]} if told else {}
    return [
        *wanted,
        *(
            {**outcome.fields, **_event(critique, critic, number, critique.usage or cost), **about}
            for critique, cost in zip(critiques, costs, strict=False)
        ),
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
    if critique.criteria is not None:
        event["criteria"] = dict(critique.criteria)
    signature = {"critic": critic.name} if event["by"] != critic.name else {}
    return event | signature | {name: True for name, value in flags.items() if value}
