"""Writer of revisions that adds a clause with the words that a draft misses, where rewriting is not enough. Internal.

Asked to write a sentence of 30 given words anew, a small model loses as many of them as it adds. Asked for one clause
with a few that are missing, it uses them, and what stands already can't be lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...state.dual import Do
from ...state.summary import current_run, rejected_since_draft, rounds
from .gate import opened
from .prompt_injection import fenced_messages
from .prompts import Keep, Memory, PromptedModel, Prompts, attempt_at_hand, chat_prompt, reseeded
from .replies import read_text, rejection

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Mapping, Sequence

    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_core.runnables import Runnable, RunnableConfig

    from ...state.events import Event
    from ...state.summary import Attempt

__all__ = ["CLAUSE_PROMPT", "WordAddingWriter", "joined"]


class WordAddingWriter(PromptedModel):
    """Adds a clause where many words are missing, or some still are after one rewriting; else rewrites.

    Where anything but words is wrong too, it rewrites as well. After a rejected clause it asks for other words.

    Args:
        model: Rewrites, and writes clauses.
        prompts: For rewriting, as in `PromptedModel`.
        clause_prompt: Template over `words`, those to be used, and `draft`.
        few: So many missing words, or fewer, in the first draft are left to rewriting.
        at_once: How many words one clause is asked to use; the rest waits for the next round. 1 or more.
        keep: Whether the best or the latest draft is revised.
        memory: What a rewriting sees of earlier attempts.
        own: Keys of the state that the prompts may name.

    Raises:
        ValueError: A template uses unknown variables, or `at_once` is below 1. At build.
    """

    def __init__(
        self,
        model: Runnable[Any, AIMessage],
        prompts: Prompts,
        *,
        clause_prompt: Prompts,
        few: int = 3,
        at_once: int = 5,
        keep: Keep = "best",
        memory: Memory = "all",
        own: Collection[str] = (),
    ) -> None:
        super().__init__(model, prompts, what="refine_prompt", keep=keep, memory=memory, own=own)
        if at_once < 1:
            raise ValueError(f"at_once must be 1 or more, not {at_once!r}")
        self.few = few
        self.at_once = at_once
        self.clause = chat_prompt(clause_prompt, what="clause_prompt", known=("words", "draft"))[0]

    def messages(self, state: Mapping[str, Any]) -> list[BaseMessage]:
        """Return the messages that the model is asked with."""
        events = state.get("events", [])
        attempt, words = self._missing(events)
        if attempt is None or not words:
            return super().messages(state)
        # After a clause that was no draft, the next words have their turn.
        skipped = len(rejected_since_draft(events)) * self.at_once % len(words)
        listed = ", ".join([*words[skipped:], *words[:skipped]][: self.at_once])
        return fenced_messages(self.clause, {"words": listed, "draft": attempt.text})

    def logic(self, input: Mapping[str, Any], config: RunnableConfig | None) -> Generator[Do, Any, AIMessage]:  # noqa: A002
        events = input.get("events", [])
        attempt, words = self._missing(events)
        if attempt is None or not words:
            return (yield from super().logic(input, config))
        messages = self.messages(input)
        model = reseeded(self.model, rounds(events) + 1, messages)
        return joined(attempt.text, (yield Do(model.invoke, model.ainvoke, (messages, config))))

    def _missing(self, events: Sequence[Event]) -> tuple[Attempt | None, list[str]]:
        """Return the draft at hand, and the words to ask a clause for; none where it is to be rewritten."""
        attempt = attempt_at_hand(events, self.keep)
        # The words that the draft misses, if these are all that is wrong with it.
        objections = [one for one in attempt.critiques if one.get("accepted") is not True] if attempt else []
        named = [critique.get("evidence", {}).get("missing") for critique in objections]
        words = [str(word) for missing in named for word in missing or ()] if all(named) else []
        revised = any(event["kind"] == "revision" and not event.get("rejected") for event in current_run(events))
        return attempt, words if len(words) > self.few or revised else []


def joined(draft: str, reply: AIMessage) -> AIMessage:
    """Return the reply with the draft before it, as one sentence; or as it is where it is no clause.

    A reply that begins with the draft is a whole new text already.
    """
    clause = opened(read_text(reply)).text
    start, added = draft.rstrip().rstrip(ENDS), clause.strip(AROUND)
    if rejection(clause, earlier=[], result=reply) or added.startswith(start.strip(AROUND)):
        return reply
    if not added:
        return reply.model_copy(update={"content": ""})
    first = added.partition(" ")[0]
    added = f"{first.lower()}{added[len(first) :]}" if first in CONJUNCTIONS else added
    return reply.model_copy(update={"content": f"{start}, {added}."})


CONJUNCTIONS = ("And", "While", "As", "Where", "But")
ENDS = ".,;!? "
AROUND = " \n`\"'“”….,!?"

CLAUSE_PROMPT = """\
Write one short clause, of the form "and …" or "while …", with all of these words, each exactly as it stands: {words}

Reply with the clause only."""
