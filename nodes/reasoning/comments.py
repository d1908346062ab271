"""Critics that comment: what they say is for the next version, and accepts nothing unless a score was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from ...state.critique import Critique
from ...state.summary import latest_draft, rounds
from ..critics.structured_replies import StructuredModel, UnreadableReplyError
from ..writing.prompt_injection import fenced_messages
from ..writing.prompts import Prompts, chat_prompt, prompt_values
from ..writing.replies import read_text, refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import Runnable

    from ...state.events import Event

__all__ = ["CommentCritic", "ScoredCritic", "ScoredCritique"]


class CommentCritic:
    """A critic whose whole reply is the critique. It never accepts, whatever it says: no words of praise end a run.

    Args:
        model: Comments; any Runnable from messages to a message, such as a model with tools.
        prompts: Templates over `task`, `draft`, `round` and `context`; one, or several, one a round.
        name: How events name it.

    Raises:
        ValueError: At build: a prompt uses unknown variables.
    """

    def __init__(self, model: Runnable[Any, Any], prompts: Prompts, *, name: str = "critique") -> None:
        self.name = name
        self._model = model
        self._asked = _Asked(prompts)

    def __call__(self, task: str, draft: str, history: Sequence[Event], /) -> Critique:
        """Comment on the draft."""
        return _comment(self._model.invoke(self._asked.messages(task, draft, history)))

    async def acall(self, task: str, draft: str, history: Sequence[Event], /) -> Critique:
        """Comment on the draft without blocking."""
        return _comment(await self._model.ainvoke(self._asked.messages(task, draft, history)))


class ScoredCritique(BaseModel):
    """What is wrong first, the score last."""

    model_config = ConfigDict(extra="ignore")

    feedback: str = Field(description="The most important things to improve, and how; concrete and short.")
    score: float = Field(
        ge=0, le=1, strict=True, allow_inf_nan=False, description="How good the text is as it stands, from 0 to 1."
    )


class ScoredCritic:
    """A critic that comments and gives a score; a draft is accepted when its score reaches the threshold.

    Args:
        model: Comments and scores. Without structured output it is asked for JSON.
        prompts: As in `CommentCritic`.
        threshold: Score from which a draft is accepted, 0–1; `None` accepts nothing.
        name: How events name it.

    Raises:
        ValueError: At build: a prompt uses unknown variables, or the threshold is not in 0–1.
    """

    def __init__(
        self, model: BaseChatModel, prompts: Prompts, *, threshold: float | None = None, name: str = "critique"
    ) -> None:
        if threshold is not None and not 0 <= threshold <= 1:
            raise ValueError(f"threshold={threshold!r}: a score is between 0 and 1")
        self.name = name
        self.threshold = threshold
        self._model = StructuredModel(model, ScoredCritique)
        self._asked = _Asked(prompts)

    def __call__(self, task: str, draft: str, history: Sequence[Event], /) -> Critique:
        """Comment on the draft and score it."""
        try:
            return self._read(self._model.invoke(self._asked.messages(task, draft, history)))
        except UnreadableReplyError as error:
            return _no_score(error)

    async def acall(self, task: str, draft: str, history: Sequence[Event], /) -> Critique:
        """Comment on the draft and score it, without blocking."""
        try:
            return self._read(await self._model.ainvoke(self._asked.messages(task, draft, history)))
        except UnreadableReplyError as error:
            return _no_score(error)

    def _read(self, reply: ScoredCritique) -> Critique:
        return Critique(reply.feedback, self.threshold is not None and reply.score >= self.threshold, reply.score)


class _Asked:
    def __init__(self, prompts: Prompts) -> None:
        self._templates = chat_prompt(prompts, what="critique_prompt")

    def messages(self, task: str, draft: str, history: Sequence[Event]) -> list[BaseMessage]:
        values = prompt_values(task, history, latest_draft(history), memory="last") | {"draft": draft}
        return fenced_messages(self._templates[min(rounds(history), len(self._templates) - 1)], values)


def _comment(reply: Any) -> Critique:
    text = read_text(reply)
    if not text.strip():
        return Critique("The critic said nothing.", accepted=None)
    return Critique(text, accepted=None if refused(text, reply) else False)


def _no_score(error: UnreadableReplyError) -> Critique:
    return Critique(f"The critique could not be read, so nothing is accepted. {error}"[:1000], accepted=None)
