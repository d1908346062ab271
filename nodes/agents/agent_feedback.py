"""Feedback as an agent is told it, in its own conversation. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...state.summary import Attempt, latest_draft, rejected_since_draft
from ..writing.prompt_injection import fenced_messages
from ..writing.prompts import Keep, Prompts, attempt_at_hand, chat_prompt, prompt_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.prompts import BaseChatPromptTemplate

    from ...state.events import Event

__all__ = ["AGENT_FEEDBACK_PROMPT", "AgentFeedback"]


class AgentFeedback:
    """Makes the text of what an agent is told about its answer.

    Args:
        prompt: Over `feedback`, `draft`, `task`, `history` and `round`, or several, one a round. Default:
            `AGENT_FEEDBACK_PROMPT`, and where the draft is not what the agent said last, one that shows it.
        name: The argument's name, for messages.
    """

    def __init__(self, prompt: Prompts | None = None, *, name: str = "feedback_prompt") -> None:
        self.name = name
        prompts = AGENT_FEEDBACK_PROMPT if prompt is None else prompt
        self.templates = chat_prompt(prompts, what=name, needed=["feedback"])
        self._showing = chat_prompt(AGENT_RETURN_PROMPT, what=name) if prompt is None else self.templates

    def __call__(self, task: str, events: Sequence[Event], *, keep: Keep) -> str:
        """Return the text."""
        attempt, rejected = attempt_at_hand(events, keep), rejected_since_draft(events)
        values = prompt_values(task, events, attempt, memory="all")
        if rejected:
            why = REJECTED.get(rejected[0]["rejected"], rejected[0]["rejected"])
            values["feedback"] = f"{NO_ANSWER.format(why=why)}\n{values['feedback']}"
        last = attempt is latest_draft(events) and not (attempt and rejected)
        return _text(self.templates if last else self._showing, values)

    def on(self, attempt: Attempt, task: str, events: Sequence[Event]) -> str:
        """Return the text about an earlier answer, as it was told when that was the last one."""
        return _text(self.templates, {**prompt_values(task, events, attempt, memory="last"), "round": attempt.round})


def _text(templates: Sequence[BaseChatPromptTemplate], values: Mapping[str, Any]) -> str:
    template = templates[min(values["round"], len(templates) - 1)]
    return "\n\n".join(str(message.text) for message in fenced_messages(template, values))


AGENT_FEEDBACK_PROMPT = """\
Your answer was checked, and can't be given yet. What was found:

{feedback}

Mend every point, with your tools where they help, and then give the whole answer anew: no preface, no comment on the \
changes."""

AGENT_RETURN_PROMPT = """\
Your last reply was checked, and an earlier answer of yours is still the better one:

{draft}

What was found in that one:

{feedback}

Go on from that answer. Mend every point, with your tools where they help, and then give the whole answer anew: no \
preface, no comment on the changes."""

NO_ANSWER = "(Your last reply was not taken as an answer: {why}.)"
REJECTED = {
    "empty": "it was empty",
    "refused": "it was a refusal",
    "repeat": "it repeats an earlier one",
    "meta": "it speaks about the answer instead of giving it",
    "invalid": "it does not fit the schema that was asked for",
}
