"""Variations between siblings: model, temperature, prompts, critics. Internal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..arguments import checked_temperature
from ..critics.critics import HumanCritic, VerifierCritic
from ..generate import CHECKED_GENERATE_PROMPT, GENERATE_PROMPT
from ..mending.ladder import wishes
from ..refine import REFINE_PROMPT
from ..writing.prompts import PromptedModel, Prompts, seen_by_refiner
from ..writing.sampling import require_model, sampled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.language_models import BaseChatModel


__all__ = ["Variation", "check_critics", "names_of", "varied_options"]


@dataclass(frozen=True)
class Variation:
    """The settings of one sibling; those left out are as for all.

    Args:
        name: How `branches` and progress call it; default: its number.
        model: Writes drafts and revisions.
        temperature: The model is asked with it. Default: 0.7 where the model was built with a lower one and a draft is
            revised more than once, since a model that is sure of itself repeats itself.
        generate_prompt: As in `build_refine_graph`.
        refine_prompt: As in `build_refine_graph`.
        critic: Judges, in place of the critics of all; or several. Scores of different critics are compared with each
            other, which is fair only where they mean the same: programs, or beside a `judge`.

    Raises:
        TypeError: The name is no text, the model is none, the temperature is no number, or a critic can't be called.
        ValueError: The temperature is below 0, the critic is a person, or there is none in `critic=[]`.
    """

    name: str = ""
    model: BaseChatModel | None = None
    temperature: float | None = None
    generate_prompt: Prompts | None = None
    refine_prompt: Prompts | None = None
    critic: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(f"the name of a Variation is a text, not {self.name!r}")
        if self.model is not None:
            require_model(self.model, what="the model of a Variation")
        if self.critics == []:
            raise ValueError(f"critic={self.critic!r} names no critic; leave it out for the critics of all")
        checked_temperature("temperature", self.temperature)
        check_critics(self.critics or ())

    @property
    def critics(self) -> list[Any] | None:
        """The critics of this sibling, or `None` for those of all."""
        if self.critic is None:
            return None
        return list(self.critic) if isinstance(self.critic, list | tuple) else [self.critic]


def names_of(variations: Sequence[Variation]) -> list[str]:
    """Return the name of each in `branches` and progress.

    Raises:
        ValueError: Two have the same name.
    """
    names = [one.name or str(number) for number, one in enumerate(variations, start=1)]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"two variations are called {twice[0]!r}; give each a name of its own")
    return names


def check_critics(critics: Sequence[Any]) -> None:
    """Raise ValueError unless all critics can be asked in a search.

    Raises:
        ValueError: One is a person: many paths would wait at once.
    """
    if any(isinstance(critic, HumanCritic) for critic in critics):
        raise ValueError(
            "a search asks no person, since many paths would wait at once; run it, then fork the branch you like with "
            "Thread(graph_with_human_critic, thread_id).fork(at=…)"
        )


def varied_options(
    variation: Variation, model: BaseChatModel, options: Mapping[str, Any], *, siblings: bool
) -> dict[str, Any]:
    """Return the arguments of `build_refine_graph` for the paths of one variation.

    Args:
        variation: What is different.
        model: Writes where the variation names none.
        options: As `build_refine_graph` takes them for all.
        siblings: Whether a draft is revised more than once, so that revisions must differ.

    Raises:
        ValueError: A prompt of the variation would be without effect, since a writer of the caller's own writes.
    """
    rest = dict(options)
    chosen = variation.model if variation.model is not None else model
    if variation.temperature is not None:
        writing: Any = chosen.bind(temperature=variation.temperature)
    else:
        writing = sampled(chosen) if siblings else chosen
    critics = variation.critics or rest["critics"]
    told = wishes(critics) if rest.get("tell_checks", True) else ""
    seen = {**seen_by_refiner(rest), "told": told}
    checked = any(isinstance(one, VerifierCritic) and not one.oracle for one in critics)
    first_prompt = CHECKED_GENERATE_PROMPT if told else GENERATE_PROMPT
    for node, default in (("generate", first_prompt), ("refine", REFINE_PROMPT)):
        own, common = getattr(variation, f"{node}_prompt"), rest.pop(f"{node}_prompt", None)
        if rest.get(node) is None:
            prompt = own if own is not None else common
            if node == "refine" and prompt is None and checked and variation.temperature is None:
                continue  # the loop's own ladder, which samples
            rest[node] = PromptedModel(writing, default if prompt is None else prompt, what=f"{node}_prompt", **seen)
        elif own is not None:
            raise ValueError(f"{node}_prompt= of a Variation has no effect beside {node}=, which writes by itself")
    return {**rest, "model": chosen, "critics": critics}
