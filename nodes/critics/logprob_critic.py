"""Log-probability critic: how probable a model holds "yes" as the answer to "is the draft right?". Internal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ...state.critique import Critique
from ..runtime.dual import Do
from ..writing.prompt_injection import fenced_messages
from ..writing.prompts import Prompts, chat_prompt
from .model_critic import JUDGED, ModelJudge

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from langchain_core.language_models import BaseChatModel

    from ...state.events import Event

__all__ = ["LOGPROB_PROMPT", "LogprobCritic"]


class LogprobCritic(ModelJudge):
    """A critic whose score is P(yes) / (P(yes) + P(no)) of the first token of the reply; one token is written.

    Args:
        model: Gives log-probabilities, as OpenAI's chat completions and llama.cpp's server do.
        prompt: A template over `task` and `draft` that asks for yes or no.
        name: How events name it.

    Raises:
        ValueError: At build: the prompt uses unknown variables. At run: the reply has no log-probabilities.
    """

    def __init__(self, model: BaseChatModel, *, prompt: Prompts | None = None, name: str = "logprob") -> None:
        self.model = model
        self.name = name
        self.templates = chat_prompt(
            LOGPROB_PROMPT if prompt is None else prompt, what="prompt", known=("task", "draft"), needed=["draft"]
        )

    def logic(self, task: str, draft: str, history: Sequence[Event], /) -> Generator[Do, Any, Critique]:
        """Ask for one word, and read how probable each was."""
        messages = fenced_messages(self.templates[0], {"task": task, "draft": draft})
        bound = self.model.bind(logprobs=True, top_logprobs=20, max_tokens=1)
        reply = yield Do(bound.invoke, bound.ainvoke, (messages,))
        tokens = (reply.response_metadata.get("logprobs") or {}).get("content") or ()
        if not tokens:
            raise ValueError(f"the model of the critic {self.name!r} gives no log-probabilities")
        score = probability_of_yes(tokens[0].get("top_logprobs") or tokens)
        if score is None:
            return Critique("It could not be told whether the draft is right.", None)
        return Critique("" if score > 0.5 else "The draft is probably not right.", score > 0.5, score)


def probability_of_yes(tokens: Sequence[Any]) -> float | None:
    """Return the probability of yes among yes and no, however they are written; `None` where neither stands there."""
    weight = {"yes": 0.0, "no": 0.0}
    for token in tokens:
        word = str(token["token"]).strip().casefold()
        if word in weight:
            weight[word] += math.exp(token["logprob"])
    total = sum(weight.values())
    return weight["yes"] / total if total else None


LOGPROB_PROMPT = f"""\
{JUDGED}Is the draft right, without any error? Reply with one word, yes or no."""
