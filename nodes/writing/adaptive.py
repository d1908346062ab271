"""Writer of an adaptive run: each step samples or revises, as `check` chose by what has worked. Internal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import Runnable, RunnableConfig

from ...state.choices import SAMPLE, Arm, latest_choice
from ...state.stopping import rounds_allowed
from ...state.summary import rounds
from ..runtime.dual import Do, DualRunnable, at_once

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence


__all__ = ["EDIT", "AdaptiveWriter", "Drafts"]

EDIT = "edit"
"""The name in the record of what a program wrote, without a model."""


@dataclass(frozen=True)
class Drafts:
    """Drafts that one step wrote side by side."""

    replies: Sequence[Any]
    """Each a draft of its own."""
    fresh: bool
    """True for samples, which are written from the task alone."""
    arm: str
    """The name of what wrote them."""
    edited: Sequence[bool] = ()
    """For each, whether a program edited what the model wrote."""


class AdaptiveWriter(DualRunnable["Mapping[str, Any]", Any]):
    """Writes revisions by several arms, given as `refine=` of `build_refine_graph`.

    Which arm is next is chosen in `check` and stands in its verdict, with the reason; see `redraft.state.choices`.

    Args:
        writers: By the name of an arm, what writes for it: takes the state, as any writer of a revision.
        arms: In order of preference, with their tries and how many drafts each asks for side by side.

    Raises:
        ValueError: An arm has no writer, a writer no arm, a name stands twice, or a number is below 1. At build.
        TypeError: A writer is no Runnable. At build.
    """

    def __init__(self, writers: Mapping[str, Runnable[Any, Any]], arms: Sequence[Arm]) -> None:
        self.name = "adaptive"
        self.writers = dict(writers)
        self.arms = tuple(arms)
        names = [arm.name for arm in self.arms]
        if sorted(names) != sorted(self.writers) or not names:
            raise ValueError(f"arms and writers must have the same names, each once, not {names} and {[*self.writers]}")
        for arm in self.arms:
            if arm.tries < 1 or arm.drafts < 1:
                raise ValueError(f"tries and drafts of an arm must be 1 or more, not {arm!r}")
            if not isinstance(self.writers[arm.name], Runnable):
                raise TypeError(f"the writer of {arm.name!r} must be a Runnable, not {self.writers[arm.name]!r}")

    def logic(self, input: Mapping[str, Any], config: RunnableConfig | None) -> Generator[Do, Any, Drafts]:  # noqa: A002
        events = input["events"]
        # A fork may begin right before the revision, with no verdict that chose.
        chosen = latest_choice(events) or {"arm": self.arms[0].name, "drafts": 1}
        writer = self.writers[chosen["arm"]]
        count = max(1, min(chosen["drafts"], rounds_allowed(input["limits"]) - rounds(events)))
        # Each with a number of its own, by which a seeded model is asked for different drafts.
        states = [{**input, "beside": number} for number in range(count)]
        calls = [Do(writer.invoke, writer.ainvoke, (state, config)) for state in states]
        replies = yield at_once(calls, most_threads=(config or {}).get("max_concurrency"))
        return Drafts(replies, fresh=chosen["arm"] == SAMPLE, arm=chosen["arm"])
