"""Branches: immutable lines of work, with a record, documents and tools. Internal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

from ...state.critique import Critique
from ...state.events import CRITIQUE_KINDS, Event, broken_links, clean, digest, given_draft, record, task_event
from ...state.limits import limits_in_force, merged_limits
from ...state.summary import Attempt, attempts, best_draft, current_run, latest_draft, rounds, run_options

__all__ = [
    "Branch",
    "Draft",
    "Final",
    "ReasoningCritique",
    "ReasoningState",
    "SelfCritique",
    "Thought",
    "reasoning_events",
    "self_critique",
]


@dataclass(frozen=True)
class Draft:
    """The first text."""

    text: str
    kind: Literal["draft"] = "draft"


@dataclass(frozen=True)
class ReasoningCritique:
    """A critique of the draft or final before it."""

    text: str
    kind: Literal["critique"] = "critique"


@dataclass(frozen=True)
class Final:
    """An improved text; the last one is the answer."""

    text: str
    kind: Literal["final"] = "final"


@dataclass(frozen=True)
class Thought:
    """Notes that the writer made before it wrote."""

    text: str
    kind: Literal["thought"] = "thought"


ReasoningState = Draft | ReasoningCritique | Final | Thought
KINDS: dict[str, type[ReasoningState]] = {
    "draft": Draft,
    "revision": Final,
    "thought": Thought,
    **dict.fromkeys(CRITIQUE_KINDS, ReasoningCritique),
}


def reasoning_events(events: Sequence[Event]) -> list[ReasoningState]:
    """Return the current task's drafts, critiques, improved texts and thoughts, in order.

    A revision reads as `Final`. Verdicts, retrievals, failures and what is no draft are left out.
    """
    return [
        KINDS[event["kind"]](event["text"])
        for event in current_run(events)
        if event["kind"] in KINDS and not event.get("rejected")
    ]


@dataclass(frozen=True)
class SelfCritique:
    """The result of a self-critique loop: the text before and after."""

    draft: str
    """The first text."""
    critique: str
    """The critique of the text that the answer improves, or of the answer where that is the draft."""
    improved: str
    """The answer: the best text."""
    iterations: int
    """How often it was improved."""
    confidence: float | None
    """Score of the answer, 0–1, or `None` where nobody gave one that could be read."""

    @property
    def rating(self) -> str:
        """The confidence in a word: `high` from 0.8, `medium` from 0.5, `low`, or `unknown`."""
        if self.confidence is None:
            return "unknown"
        return "high" if self.confidence >= HIGH else "medium" if self.confidence >= MEDIUM else "low"


HIGH, MEDIUM = 0.8, 0.5


def _checked(text: object, what: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"a {what} is a text that is not blank, not {text!r:.200}")
    return clean(text)


def self_critique(events: Sequence[Event]) -> SelfCritique:
    """Return the outcome of the current task's self-critique.

    Raises:
        ValueError: There is no draft.
    """
    drafts = attempts(events)
    if not drafts:
        raise ValueError("there is no draft, so nothing was criticised")
    answer = best_draft(events, keep=run_options(events).get("keep", "best")) or drafts[-1]
    before = drafts[max(0, drafts.index(answer) - 1)]
    criticised = next((attempt for attempt in drafts if attempt.round == answer.base), before)
    return SelfCritique(drafts[0].text, criticised.feedback, answer.text, len(drafts) - 1, answer.score)


@dataclass(frozen=True)
class Branch:
    """One line of work on a topic. Every method returns a new branch; the record only ever grows.

    Args:
        name: Of the branch.
        events: The record, oldest first.
        documents: Where passages are looked up: any LangChain vector store or retriever, or a function from a query
            to documents.
        source: The folder that `documents` was loaded from, or is to be.
        tools: LangChain tools offered to the model.
        query: What passages are looked up for; empty: the topic.
    """

    name: str
    events: tuple[Event, ...] = ()
    documents: Any = field(default=None, compare=False)
    source: Path | None = None
    tools: tuple[Any, ...] = field(default=(), compare=False)
    query: str = ""
    documents_since: int = 0
    """Length of the record when the documents were given: earlier retrievals searched others."""
    sealed: str = field(default="", repr=False, compare=False)
    """Hash of the last event when it was added, by which an edit is noticed."""

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise ValueError("a branch needs a name")
        if self.events and not self.sealed:
            object.__setattr__(self, "sealed", self.head)

    def __hash__(self) -> int:
        # Events are dicts, which have no hash; `sealed` stands for them all.
        return hash((self.name, self.sealed, self.source, self.query))

    @classmethod
    def of_run(cls, name: str, output: Mapping[str, Any]) -> Branch:
        """Return a branch with the record of a graph's run.

        Args:
            name: Of the branch.
            output: The output or the state of a graph of ours.

        Raises:
            ValueError: The record was edited.
        """
        events = tuple(output["events"])
        if broken := broken_links(events, output.get("head", digest(events[-1]) if events else "")):
            raise ValueError(f"events {broken} of the record were edited after they were written")
        # A copy, since the caller may change the output.
        return cls(name, deepcopy(events))

    @property
    def topic(self) -> str:
        """The topic of the branch; empty before `with_topic`."""
        self._check_record()
        run = current_run(self.events)
        return run[0]["text"] if run and run[0]["kind"] == "task" else ""

    @property
    def latest(self) -> Attempt | None:
        """The most recent draft or improved text, with what was said about it."""
        self._check_record()
        return latest_draft(self.events)

    @property
    def best(self) -> Attempt | None:
        """The best text by `draft_rank`; of equal ones the latest, since each step works on the most recent text."""
        self._check_record()
        return max(reversed(attempts(self.events)), key=attrgetter("rank"), default=None)

    def reasoning_events(self) -> list[ReasoningState]:
        """Return the drafts, critiques and improved texts of the topic, in order.

        Raises:
            ValueError: An event of the branch was edited since it was added.
        """
        self._check_record()
        return reasoning_events(self.events)

    def with_topic(self, topic: str, *, limits: Mapping[str, Any] | None = None) -> Branch:
        """Return the branch about another topic: work begins anew, the record of the earlier one stays.

        A query set with `with_query` belonged to the earlier topic, and is dropped.

        Args:
            topic: What is to be written about.
            limits: Budgets that hold for it, as `Limits` takes them.

        Raises:
            ValueError: The topic is no text or blank, or a limit makes no sense.
        """
        if not isinstance(topic, str):
            raise ValueError(f"a topic is a text that says what is to be written about, not {topic!r}")  # noqa: TRY004
        if not topic.strip():
            raise ValueError("the topic is blank: say what is to be written about")
        event = task_event(topic, merged_limits(None, limits), {"keep": "last"})
        return replace(self.extended(record({"head": self.head}, event)["events"]), query="")

    def with_draft(self, text: str) -> Branch:
        """Return the branch with a first draft of one's own, which the next critique is about; what was written stays.

        Raises:
            ValueError: It is no text or blank, or the branch has no topic.
        """
        if not self.topic:
            raise ValueError(f"the branch {self.name!r} has no topic: give it one with branch.with_topic(…)")
        return self.extended(record({"head": self.head}, given_draft(text))["events"])

    def with_critique(self, text: str, *, score: float | None = None) -> Branch:
        """Return the branch with a critique of one's own, of its latest text, which the next improvement goes by.

        Args:
            text: What to mend.
            score: How good the text is, 0–1.

        Raises:
            ValueError: It is no text or blank, the score is not in 0–1, or there is nothing to criticise.
        """
        critique = Critique(_checked(text, "critique"), accepted=None, score=score)
        return self._spoken_of("critique", text=critique.text, accepted=None, score=critique.score)

    def with_final(self, text: str) -> Branch:
        """Return the branch with an improved text of one's own, which is its latest then.

        Raises:
            ValueError: It is no text or blank, or there is nothing that it improves.
        """
        return self._spoken_of("revision", text=_checked(text, "final"), rejected="", given=True)

    def _spoken_of(self, kind: str, **fields: Any) -> Branch:
        """Return the branch with an event of a person's about its latest text."""
        if (latest := self.latest) is None:
            raise ValueError(
                f"the branch {self.name!r} has no text yet: branch.with_draft(…) or draft(model) gives one"
            )
        place = (
            {"round": latest.round} if kind == "critique" else {"round": rounds(self.events) + 1, "base": latest.round}
        )
        return self.extended(record({"head": self.head}, {"kind": kind, "by": "human", **place, **fields})["events"])

    def with_query(self, query: str) -> Branch:
        """Return the branch with another query to look passages up for; empty: the topic."""
        return replace(self, query=clean(query))

    def with_documents(self, documents: Any, *, source: Path | str | None = None) -> Branch:
        """Return the branch over other documents; what was looked up in earlier ones is looked up anew."""
        folder = None if source is None else Path(source)
        return replace(self, documents=documents, source=folder, documents_since=len(self.events))

    def with_tools(self, *tools: Any) -> Branch:
        """Return the branch with these tools."""
        return replace(self, tools=tools)

    def named(self, name: str) -> Branch:
        """Return a branch of another name with the same record: from here on the two go their own ways."""
        return replace(self, name=name)

    def extended(self, events: Sequence[Event]) -> Branch:
        """Return the branch with events appended that were sealed after its last one.

        Raises:
            ValueError: They don't follow its last event, or an event of the branch was edited since.
        """
        self._check_record()
        if events and events[0]["prev"] != self.sealed:
            raise ValueError("these events don't follow the last one of this branch")
        news = deepcopy(list(events))
        return replace(self, events=(*self.events, *news), sealed=digest(news[-1]) if news else self.sealed)

    @property
    def head(self) -> str:
        """Hash of the last event."""
        return digest(self.events[-1]) if self.events else ""

    def state(self) -> dict[str, Any]:
        """Return the branch as the nodes of a graph read it.

        Raises:
            ValueError: An event of the branch was edited since it was added.
        """
        return {
            "task": self.topic,  # which checks the record
            "limits": merged_limits(None, limits_in_force(self.events)),
            "events": list(self.events),
            "head": self.head,
            "query": self.query,
            "documents_since": self.documents_since,
        }

    def _check_record(self) -> None:
        if broken := broken_links(self.events, self.sealed):
            raise ValueError(f"events {broken} of the branch {self.name!r} were edited after they were written")
