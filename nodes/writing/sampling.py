"""Sampling. Internal.

Models whose replies to one prompt differ, and a writer that answers with the majority of them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage

from ...state.dual import Do, at_once
from ...state.events import Sample, clean
from ..arguments import checked_count, checked_temperature
from ..runtime.killable import beside
from ..runtime.step import DualRunnable
from .prompts import PromptedModel, Prompts, reseeded
from .replies import cut_off, read_text
from .voting import majority_text

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import Runnable, RunnableConfig

__all__ = [
    "MajorityWriter",
    "SampledReply",
    "revising_model",
    "sample_of",
    "sampled",
]


def sampled(model: Runnable[Any, AIMessage], temperature: float = 0.7) -> Runnable[Any, AIMessage]:
    """Return a model whose replies to one prompt differ.

    Only a model that was built with a lower `temperature` is asked with this one: what has none of its own samples as
    its provider does, and some reject the setting.
    """
    own = getattr(model, "temperature", None)
    return model.bind(temperature=temperature) if own is not None and own < temperature else model


class SampledReply(AIMessage):
    """The reply that was chosen of several; the draft's event keeps them all."""

    samples: list[Sample]


def sample_of(reply: AIMessage, answer: Callable[[str], Hashable | None]) -> Sample:
    """Return a reply as the record keeps it.

    Args:
        reply: One of several to one prompt.
        answer: Reads the answer that it is counted for.
    """
    text = read_text(reply)
    vote, usage = answer(text) if text.strip() else None, reply.usage_metadata
    return {
        "text": clean(text),
        "vote": None if vote is None else clean(str(vote)),
        "input_tokens": usage["input_tokens"] if usage else None,
        "output_tokens": usage["output_tokens"] if usage else None,
        "total_tokens": usage["total_tokens"] if usage else None,
        "cut_off": cut_off(reply),
    }


class MajorityWriter(DualRunnable[Mapping[str, Any], SampledReply]):
    """Asks a model `samples` times concurrently and returns the first reply whose answer most replies share.

    All replies are in what it returns.

    Args:
        model: The model.
        prompts: The template of the question, or a writer that asks it.
        samples: How many replies, at least 1.
        answer: Reads the answer out of a reply; `None` casts no vote.
        temperature: As in `sampled`: at temperature 0 all replies would be one.

    Raises:
        ValueError: `samples` is below 1. At build.
    """

    def __init__(
        self,
        model: Runnable[Any, AIMessage],
        prompts: Prompts | PromptedModel,
        *,
        samples: int,
        answer: Callable[[str], Hashable | None],
        temperature: float = 0.7,
    ) -> None:
        checked_count("samples", samples, least=1)
        checked_temperature("temperature", temperature)
        self.name = f"majority-{samples}"
        self.samples = samples
        self.answer = answer
        if not isinstance(prompts, PromptedModel):
            prompts = PromptedModel(model, prompts, what="generate_prompt")
        self._prompted = prompts
        self._sampler = sampled(model, temperature)

    def logic(self, input: Mapping[str, Any], config: RunnableConfig | None) -> Generator[Do, Any, SampledReply]:  # noqa: A002
        messages = self._prompted.messages(input)
        # Side by side; a batch of one model would have one seed.
        samplers = [reseeded(self._sampler, number, messages) for number in range(self.samples)]
        calls = [Do(sampler.invoke, sampler.ainvoke, (messages, config)) for sampler in samplers]
        # Where one is refused or fails, the others are waited for: what they cost belongs to this step.
        replies = yield at_once(calls, most_threads=(config or {}).get("max_concurrency"))
        # Reading long replies takes a while, so not on the event loop, and each once.
        counted: SampledReply = yield beside(self._counted, replies)
        return counted

    def _counted(self, replies: Sequence[AIMessage]) -> SampledReply:
        answer, texts = cache(self.answer), [read_text(reply) for reply in replies]
        chosen = replies[texts.index(majority_text(texts, answer))]
        samples = [sample_of(reply, answer) for reply in replies]
        return SampledReply(**{**chosen.model_dump(exclude={"type"}), "samples": samples})


def revising_model(model: BaseChatModel, temperature: float | None) -> Runnable[Any, AIMessage]:
    """Return the model as it is asked for revisions: sampled, since one that is sure of itself repeats itself.

    Args:
        model: The model.
        temperature: As in `sampled`; `None` leaves the model as it was built.

    Raises:
        TypeError: The temperature is no number.
        ValueError: It is below 0.
    """
    checked_temperature("refine_temperature", temperature)
    return model if temperature is None else sampled(model, temperature)
