"""Questions to people about a draft, and their answers, as plain data that any checkpoint can hold. Internal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langgraph.checkpoint.base import CheckpointTuple
    from langgraph.types import Interrupt

    from ..summary import Attempt

__all__ = [
    "REPLIES",
    "Answer",
    "answer_of",
    "newest_question",
    "our_questions",
    "pending_interrupts",
    "question_about",
    "read_answer",
    "same_draft",
]

ASK = "review"
"""`ask` of our questions; an `interrupt` of somebody else's node asks something else."""

REPLIES: Mapping[str, str] = {
    "accept": 'The draft is right. Reply "accept", or {"action": "accept", "score": 0.9}.',
    "edit": 'Your own text takes its place, and is accepted. Reply {"action": "edit", "draft": "the whole new text"}.',
    "feedback": 'What to change; it is revised. Reply with any other text, or {"action": "feedback", "text": "…"}.',
    "stop": 'The run ends here. Reply "stop", or {"action": "stop"}.',
}
"""The actions, each with how it is replied. Further keys of a mapping: `text` (why), `score` (0–1)."""

APPROVE = "approve"
"""LangChain's word for `accept`."""
KEYS = ("action", "draft", "text", "score")


@dataclass(frozen=True)
class Answer:
    """A person's answer about a draft."""

    action: str
    """`accept`, `edit`, `feedback` or `stop`."""
    text: str = ""
    score: float | None = None
    """0–1."""
    draft: str = ""
    """The edited draft; empty for every other action."""


def question_about(task: str, draft: str, attempt: Attempt | None, *, by: str) -> dict[str, Any]:
    """Return the value that a pause for a person shows.

    Args:
        task: What was asked for.
        draft: The draft to be judged.
        attempt: The same draft with what others said about it, or `None` where no record is kept.
        by: Name of the person who is asked.
    """
    critiques = attempt.critiques if attempt else ()
    return {
        "ask": ASK,
        "by": by,
        "task": task,
        "round": attempt.round if attempt else 0,
        "draft": draft,
        "score": attempt.score if attempt else None,
        "critiques": [
            {key: critique.get(key) for key in ("by", "text", "accepted", "score")} for critique in critiques
        ],
        "replies": dict(REPLIES),
    }


def read_answer(reply: Any, *, draft: str, own: Callable[[Any], Any] | None = None) -> Answer:
    """Return a person's reply as an `Answer`.

    Args:
        reply: `"accept"`, `"stop"`, any other text as feedback, or a mapping as in `REPLIES`.
        draft: What the reply is about.
        own: Of an edit makes the text that is recorded, where drafts are typed; raises ValueError.

    Raises:
        ValueError: It can't be read, or says nothing; the message lists what can be replied.
    """
    action, reply = _in_full(reply)
    text, score, edited = reply.get("text") or "", _score(reply.get("score")), reply.get("draft")
    if not isinstance(text, str):
        raise ValueError(f"text must be a text, not {text!r}")  # noqa: TRY004  as any other bad reply
    if action == "feedback" and not text.strip() and score is None:
        raise ValueError(f"feedback needs a text that says what to change. {REPLIES['feedback']}")
    if action != "edit":
        if edited is not None:
            raise ValueError(f"a draft comes with the action 'edit', not with {action!r}. {REPLIES['edit']}")
        return Answer(action, text, score)
    edited = edited if own is None else own(edited)
    if not isinstance(edited, str) or not edited.strip():
        raise ValueError(f"an edit needs the whole new text as its draft. {REPLIES['edit']}")
    if same_draft(edited, draft):
        raise ValueError(f"the edited draft is the same as the one asked about. {REPLIES['accept']}")
    return Answer(action, text, score, edited)


def _in_full(reply: Any) -> tuple[str, Mapping[str, Any]]:
    """Return the action of a reply, and the reply as a mapping; raises ValueError where it is none."""
    if isinstance(reply, str) and reply.strip():
        word = reply.strip().casefold()
        reply = {"action": word} if word in (*REPLIES, APPROVE) else {"action": "feedback", "text": reply}
    action = reply.get("action") if isinstance(reply, Mapping) else None
    action = "accept" if action == APPROVE else action
    if not isinstance(reply, Mapping) or not isinstance(action, str) or action not in REPLIES:
        ways = " ".join(f"{action}: {how}" for action, how in REPLIES.items())
        raise ValueError(f"{repr(reply) if len(repr(reply)) <= 80 else repr(reply)[:79] + '…'} is no reply. {ways}")
    if unknown := sorted(str(key) for key in reply if key not in KEYS):
        raise ValueError(f"a reply holds {', '.join(KEYS)}, not {', '.join(map(repr, unknown))}")
    return action, reply


def same_draft(one: str, other: str) -> bool:
    """Tell if two drafts are the same but for blank lines around them and how their lines end."""
    return _lines(one) == _lines(other)


def answer_of(
    *,
    accept: bool = False,
    feedback: str | None = None,
    draft: Any = None,
    stop: bool = False,
    score: float | None = None,
) -> dict[str, Any]:
    """Return the reply that says exactly one of four things, in the form that `Command(resume=…)` takes.

    Raises:
        ValueError: Not exactly one of `accept`, `feedback`, `draft` and `stop` is given.
    """
    replies: dict[str, dict[str, Any]] = {
        "accept=True": {"action": "accept"} if accept else {},
        "feedback=": {"action": "feedback", "text": feedback} if feedback is not None else {},
        "draft=": {"action": "edit", "draft": draft} if draft is not None else {},
        "stop=True": {"action": "stop"} if stop else {},
    }
    chosen = {name: reply for name, reply in replies.items() if reply}
    if len(chosen) != 1:
        got = " and ".join(chosen) or "none"
        raise ValueError(f"answer with exactly one of accept=True, feedback=, draft= and stop=True; got {got}")
    (reply,) = chosen.values()
    return reply if score is None else {**reply, "score": score}


def pending_interrupts(stored: CheckpointTuple | None) -> Sequence[Interrupt]:
    """Return the interrupts that a thread waits at, ours and those of other nodes, newest last.

    Read off the saved writes, so that no graph is needed, and one without the node that asks shows them too. A node
    that was answered while one beside it still waits has written more than its interrupt, and waits no longer.
    """
    writes = stored.pending_writes or [] if stored else []
    done = {task for task, channel, _ in writes if channel not in WAITING}
    values = [value for task, channel, value in writes if channel == "__interrupt__" and task not in done]
    return [interrupt for value in values for interrupt in (value if isinstance(value, list | tuple) else [value])]


def our_questions(pending: Sequence[Interrupt]) -> list[Interrupt]:
    """Return the interrupts that ask a person about a draft."""
    return [
        interrupt for interrupt in pending if isinstance(interrupt.value, dict) and interrupt.value.get("ask") == ASK
    ]


def newest_question(pending: Sequence[Interrupt]) -> dict[str, Any] | None:
    """Return the last question about a draft that some interrupts ask."""
    questions = our_questions(pending)
    return dict(questions[-1].value) if questions else None


WAITING = {"__interrupt__", "__resume__", "__error__"}
"""Channels that LangGraph writes for a node that has not come to its end."""


def _lines(text: str) -> list[str]:
    lines = text.splitlines()
    written = [number for number, line in enumerate(lines) if line.strip()]
    return lines[written[0] : written[-1] + 1] if written else []


def _score(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"score must be a number between 0 and 1, not {value!r}")
    return float(value)
