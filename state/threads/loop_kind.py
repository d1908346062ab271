"""The loop's kind: the rules of forking and resuming it. Pure; `Thread` writes. Internal."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from ..checked_channels import Waiting
from ..events import CHANGE_KINDS, CRITIQUE_KINDS, DRAFT_KINDS, Event, digest, record, requirement
from ..first_nodes import PREPARE
from ..langgraph_internals import INPUT_CHANNEL
from ..limits import merged_limits
from ..open_state import answer_id, conversation_of
from ..stopping import REFUSED_OUTSIDE, decide, since_verdict
from ..summary import attempts, current_run, required_by_caller, requirements, summary_of
from .kind import Edits, ForkPoint, GraphKind, SentPrompt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langgraph.types import StateSnapshot

    from ..dual import Do


__all__ = ["LoopKind"]


@dataclass(kw_only=True, eq=False)
class LoopKind(GraphKind):
    """The kind of the loop, and of the presets that are built on it.

    Args:
        people: Whether people are asked, in the node `human` between `feedback` and `check`.
        fingerprint: Of the graph.
        options: Of the graph, as its `task` events have them.
        own: Keys of the state that its user added.
        known_verifier: As of `GraphKind`; default: a requirement has no verifiers.
        known_type: As of `GraphKind`; default: whatever the draft of a fork, it is a text.
        prompts: Takes the last values of a thread, and returns what models were asked with in its last run.
        prompt_texts: As of `GraphKind`.
        parts: Those that the graph was wired from, for who builds others of them; `None` where they are not told.
    """

    people: bool = False
    fingerprint: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    own: Sequence[str] = ()
    known_verifier: Callable[[str], Any] | None = None
    known_type: Callable[[Any, Any], Do] | None = None
    prompts: Callable[[Mapping[str, Any]], list[SentPrompt]] | None = field(default=None, repr=False)
    prompt_texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    parts: Any = field(default=None, compare=False, repr=False)

    first_node = PREPARE
    forkable = True
    keeps_record = True
    entries = ("generate", "feedback", "check", "refine")

    @property
    def before_check(self) -> str:
        """The node that `check` follows."""
        return "human" if self.people else "feedback"

    def next_step(self, snapshot: StateSnapshot, limits: Mapping[str, Any] | None) -> ForkPoint | None:
        values: Mapping[str, Any] = snapshot.values
        # The task still waits for `prepare`; `restart` gives it its limits.
        if not self.begun(snapshot):
            return None
        changed = {"limits": merged_limits(values.get("limits"), limits)} if limits is not None else {}
        if snapshot.next:
            if not changed:
                return None
            # Written as the node before the next one, so that the same node is still next.
            return ForkPoint(changed, self._fork_at_checkpoint(values, snapshot.next, Edits(limits=limits)).as_node)
        if cut_off := self.cut_off(values):
            return ForkPoint({"stop_reason": None, **changed}, cut_off)
        reason = values.get("stop_reason")
        if reason in REFUSED_OUTSIDE:
            reason = "failed"  # the call that was refused is made again
        reopened = {**REOPENED, **changed}
        # A draft that an agent did not finish is written anew before anybody judges it.
        if (reason == "failed" or (changed and reason != "accepted")) and _unfinished(values["events"]):
            return ForkPoint(reopened, "prepare")
        if reason == "failed":
            return ForkPoint(reopened, self._before_failure({**values, **changed}, values.get("limits")))
        # `check` decides once more, by the new limits.
        return ForkPoint(reopened, "feedback") if changed and reason != "accepted" else None

    def task_in(self, waiting: Mapping[str, Any]) -> dict[str, Any]:
        task, messages = waiting.get("task"), waiting.get("messages")
        # Of a chat the thread keeps the messages; they wait where no task does.
        if messages and (task is None or isinstance(messages, Waiting)):
            return {"messages": list(messages)}
        return {"task": task}

    def task_again(self, snapshot: StateSnapshot) -> dict[str, Any]:
        values = self.values_of_last_run(snapshot)
        if not values.get("events"):
            raise ValueError("no task of this thread has begun, so none can run once more; resume() begins it")
        messages = conversation_of(values["events"])
        task_input: dict[str, Any] = {"messages": messages} if messages else {"task": values["task"]}
        task_input |= {name: values[name] for name in self.own if name in values}
        if required := required_by_caller(values["events"]):
            task_input["require"] = required
        for event in current_run(values["events"]):
            if event.get("given"):
                task_input["draft"] = event["text"]
            task_input |= event.get("plan", {}).get("asked", {})
        return {**task_input, "limits": values["limits"]}

    def fork_point(self, snapshot: StateSnapshot, at: int | str, **edits: Any) -> ForkPoint:
        """Return the state update that a fork begins with; see `GraphKind.fork_point`.

        Where a revision is due at a checkpoint and the new limits leave no room for it, the fork stands before `check`,
        which says so.
        """
        changed = Edits(**edits)
        if not isinstance(changed.verifiers, list | tuple) or not all(
            isinstance(one, str) for one in changed.verifiers
        ):
            raise ValueError(f"verifiers are names, as ['uses_words:winter'], not {changed.verifiers!r:.200}")
        if changed.verifiers and (changed.feedback is None or self.known_verifier is None):
            raise ValueError("verifiers tell if a draft meets the feedback of a fork, and there is none")
        for name in changed.verifiers:
            self.known_verifier(name)  # type: ignore[misc]
        if isinstance(at, str):
            return self._fork_at_checkpoint(snapshot.values, snapshot.next, changed)
        return _fork_at_round(self.values_of_last_run(snapshot), at, changed)

    def withdrawal(self, snapshot: StateSnapshot, text: str) -> ForkPoint:
        values = snapshot.values
        events: list[Event] = values.get("events") or []
        summary = summary_of(events)
        if text not in summary.standing:
            standing = ", ".join(map(repr, summary.standing)) or "none"
            raise ValueError(f"{text!r:.200} is no requirement that stands; there is {standing}")
        number = summary.attempts[-1].round if summary.attempts else 0
        news = record(values, requirement(text, number, "human", withdrawn=True))
        if snapshot.next:
            return ForkPoint(news, self._fork_at_checkpoint(values, snapshot.next, Edits()).as_node)
        return ForkPoint({**REOPENED, **news}, self.before_check)

    def cut_off(self, values: Mapping[str, Any]) -> str | None:
        """Return the node that wrote last in a run that has no next one and no end.

        An async task that was cancelled after its result was stored leaves such a thread.
        """
        events = values.get("events")
        if values.get("stop_reason") or not events:
            return None
        last = _last_step(events)
        if last["kind"] == "draft" and last.get("rejected"):
            return "prepare"  # it failed, and is written anew
        node = last.get("node") if last["kind"] == "failure" else WRITERS.get(last["kind"])
        return node if node in NODES or node == self.before_check else None

    def _fork_at_checkpoint(self, values: Mapping[str, Any], following: Sequence[str], edits: Edits) -> ForkPoint:
        events: list[Event] = values.get("events") or []
        upcoming = following[0] if following else None
        if not events or upcoming in {INPUT_CHANNEL, self.first_node}:
            raise ValueError("the run has not begun at this checkpoint; use rerun() to start its task anew")
        drafts = attempts(events)
        if drafts and (edits.texts or upcoming is None):
            return _fork_at_round(values, drafts[-1].round, edits)
        if edits.texts:
            raise ValueError("there is no draft yet at this checkpoint")
        fresh = _fresh(values, _appended(events, [edits.opening] if edits.opening else []), edits.limits)
        if upcoming == "refine":
            as_node = self._before_refine(events, values.get("limits"), fresh["limits"])
        elif upcoming == "feedback":
            as_node = "generate" if _last_step(events)["kind"] == "draft" else "refine"
        elif upcoming in NODE_BEFORE:
            as_node = NODE_BEFORE[upcoming]
        else:
            raise ValueError(f"the next node there is {upcoming!r}, which is not one of the loop's")
        return ForkPoint(fresh, as_node)

    def _before_refine(
        self, events: Sequence[Event], current: Mapping[str, Any] | None, limits: Mapping[str, Any]
    ) -> str:
        """Return the node to write as where a revision is due: the one before `check` if changed limits rule it out."""
        return self.before_check if limits != current and decide(events, limits) else "check"

    def _before_failure(self, values: Mapping[str, Any], earlier_limits: Mapping[str, Any] | None) -> str:
        """Return the node before the one that failed; a `check` that says `failed` of its own accord is asked again."""
        run = current_run(values["events"])
        # Without the last event, which is the verdict that says `failed`.
        failures = [event.get("node") for event in since_verdict(run[:-1]) if event["kind"] == "failure"]
        failed = failures[-1] if failures else "check"
        if failed == "refine":
            return self._before_refine(values["events"], earlier_limits, values["limits"])
        if failed == "human":
            return "feedback"
        if failed == "check":
            return self.before_check
        return "generate" if all(event["kind"] != "revision" for event in run) else "refine"


REOPENED: Mapping[str, Any] = {"stop_reason": None, "answer": "", "structured_response": None}
"""Of a run that goes on. What a state lacks LangGraph drops."""
NODES = ("prepare", "generate", "feedback", "check", "refine")
NODE_BEFORE = {"generate": "prepare", "human": "feedback", "check": "feedback"}
"""The node that has just run when this one is next; before `feedback` it is `generate` or `refine`."""
WRITERS = {
    "task": "prepare",
    "draft": "generate",
    "critique": "feedback",
    "human": "human",
    "verdict": "check",
    "revision": "refine",
}
"""The node that writes events of a kind."""


def _fork_at_round(values: Mapping[str, Any], number: int, edits: Edits) -> ForkPoint:
    events: list[Event] = values.get("events") or []
    rounds = [draft.round for draft in attempts(events)]
    if number not in rounds:
        raise ValueError(f"there is no draft of round {number}; this run has drafts of rounds {rounds}")
    edits.refuse_blank()
    index = _place_of_draft(events, number)
    original = events[index]
    before = events[: index if edits.draft is not None else index + 1]
    after: list[Mapping[str, Any]] = [edits.opening] if edits.opening else []
    if edits.draft is not None:
        # The link is made anew, and a text that a person writes costs nothing.
        edited = {key: value for key, value in original.items() if key not in {"prev", "usage"}}
        after.append({**edited, "by": "human", "text": edits.draft})
    critiques = _kept_critiques(events[index + 1 :], number, edits)
    as_node = "generate" if original["kind"] == "draft" else "refine"
    if edits.draft is None and critiques == events[index + 1 : index + 1 + len(critiques)]:
        before += critiques
    else:  # the links are made anew
        after += [{key: value for key, value in event.items() if key != "prev"} for event in critiques]
    after += edits.asked(number)
    branch = _appended(before, after)
    last = _last_step(branch)
    # The programs of a requirement have not looked at the draft yet.
    if last["kind"] in CRITIQUE_KINDS and last["round"] == number and not edits.verifiers:
        as_node = "feedback"
    return ForkPoint(_fresh(values, branch, edits.limits), as_node)


def _appended(before: Sequence[Event], after: Sequence[Mapping[str, Any]]) -> list[Event]:
    return [*before, *record({"head": digest(before[-1]) if before else ""}, *after).get("events", [])]


def _last_step(events: Sequence[Event]) -> Event:
    """Return the last event that a node wrote."""
    return next((event for event in reversed(events) if event["kind"] not in CHANGE_KINDS), events[-1])


def _place_of_draft(events: Sequence[Event], number: int) -> int:
    """Return the place of the last draft of a round: one that is written anew stands for the one before.

    Rounds count from 0 in each task of the thread, so that of another task with this number comes earlier.
    """
    return max(
        position
        for position, event in enumerate(events)
        if event["kind"] in DRAFT_KINDS and event["round"] == number and not event.get("rejected")
    )


def _kept_critiques(following: Sequence[Event], number: int, edits: Edits) -> list[Event]:
    """Return the critiques that a fork keeps, of those that stand behind its draft.

    They are the draft's own, and those of the drafts before it that were written side by side with it, so that nobody
    is paid for judging them again; a change is not made void by another draft that was accepted. Feedback stands in for
    opinions, and not for what programs found. They end where something else than a draft follows, or a change of who
    goes on. What is required by then, or was withdrawn, stays so.
    """
    passed = (*CRITIQUE_KINDS, *DRAFT_KINDS, *CHANGE_KINDS)
    near = len([*takewhile(lambda event: event["kind"] in passed, following)])
    return [
        event
        for place, event in enumerate(following)
        if (event["kind"] == "requirement" and event["round"] <= number)
        or (event["kind"] in CRITIQUE_KINDS and place < near and _stays(event, number, edits))
    ]


def _stays(critique: Event, number: int, edits: Edits) -> bool:
    if critique["round"] == number:
        return not edits.texts or (edits.draft is None and bool(critique.get("verifier")))
    return critique["round"] < number and not (edits.texts and critique.get("accepted"))


def _fresh(values: Mapping[str, Any], events: list[Event], limits: Mapping[str, Any] | None) -> dict[str, Any]:
    turns = {}
    if messages := values.get("messages"):
        # Its own answer takes the place of the one that the parent gave.
        turns["messages"] = [message for message in messages if message.id != answer_id(events)]
    return {
        **values,
        **turns,
        "events": events,
        "head": digest(events[-1]),
        "limits": merged_limits(values.get("limits"), limits),
        "requirements": requirements(events),
        **REOPENED,
    }


def _unfinished(events: Sequence[Event]) -> bool:
    """Tell if an agent stopped before it had finished the first draft, which is then written anew.

    Where a person said what to make of it as it is, that counts.
    """
    last = next((event for event in reversed(current_run(events)) if event["kind"] in (*DRAFT_KINDS, "human")), None)
    return last is not None and "incomplete" in last
