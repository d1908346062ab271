"""Shared wiring of graphs with a rubric. Internal.

Judges, grounding, preferences of persons, and the switch for refining.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from langgraph.config import get_config, get_store

from ...state.dual import Do, adrive, do, drive
from ...state.summary import latest_draft
from ..arguments import check_lists
from ..critics.critics import HumanCritic
from ..critics.registry import parted
from .critic import rubric_critic
from .judges import JUDGE_PROMPT, Ground, Grounding

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from langchain_core.language_models import BaseChatModel
    from langgraph.store.base import BaseStore, Item, SearchItem

    from ...state.critique import Critique
    from ...state.events import Event
    from .rubrics import Rubric

__all__ = ["Preferences", "RememberingCritic", "preference_namespace", "rubric_wiring"]


@dataclass(frozen=True)
class RememberingCritic(HumanCritic):
    """A person as critic, whose scores and words are kept for later runs; without a store nothing is kept.

    Whoever gives neither a score nor a word leaves no preference. An answer is kept once, even if its node runs again.
    """

    def __call__(self, task: str, draft: str, history: Sequence[Event], /) -> Critique:
        """Pause the run until someone answers, and keep the answer."""
        return drive(self._logic(task, draft, history))

    async def acall(self, task: str, draft: str, history: Sequence[Event], /) -> Critique:
        """Async twin."""
        return await adrive(self._logic(task, draft, history))

    def _logic(self, task: str, draft: str, history: Sequence[Event]) -> Generator[Do, Any, Critique]:
        critique = super().__call__(task, draft, history)
        store = get_store()
        if store is not None and (item := _preference(task, draft, history, critique)):
            yield do(store, "put", preference_namespace(), *item)
        return critique


class Preferences(Ground):
    """The ground from which a run knows what this person liked and disliked in earlier runs; see `Ground`.

    A store that has an index finds those of similar tasks; without one the newest are told.

    Args:
        limit: How many are told, 1 or more.

    Raises:
        ValueError: At build: `limit` is below 1.
    """

    name = "earlier feedback"

    def __init__(self, *, limit: int = 5) -> None:
        if limit < 1:
            raise ValueError(f"limit must be 1 or more, not {limit!r}")
        self.limit = limit

    def logic(self, task: str) -> Generator[Do, Any, list[dict[str, Any]]]:
        """Return the preferences, best match or newest first; none without a store."""
        store: BaseStore | None = get_store()
        if store is None:
            return []
        items: list[SearchItem] = yield do(store, "search", preference_namespace(), query=task, limit=MOST_READ)
        if all(item.score is None for item in items):
            items = sorted(items, key=lambda item: (item.updated_at, item.key), reverse=True)
        return [{"id": item.key, "text": _sentence(item), "source": "preferences"} for item in items[: self.limit]]


def preference_namespace() -> tuple[str, ...]:
    """Return the place of the preferences of this run's `user_id` (in `configurable`); without one it is shared."""
    user_id = get_config().get("configurable", {}).get("user_id")
    user = "anyone" if user_id is None or user_id == "" else str(user_id)
    return ("preferences", quote(user, safe="@ ").replace(".", "%2E"))  # a store takes no periods in a name


def _preference(
    task: str, draft: str, history: Sequence[Event], critique: Critique
) -> tuple[str, dict[str, Any]] | None:
    """Return the key and value to keep, or `None` where there is nothing to learn from."""
    if critique.score is None and not critique.text.strip():
        return None
    attempt = latest_draft(history)
    assessments = [one.get("evidence", {}).get("assessment") for one in attempt.critiques] if attempt else []
    scores: dict[str, float] = next((one["dimension_scores"] for one in assessments if one), {})
    value = {
        "task": task[:500],
        "said": critique.text[:1000],
        "score": critique.score,
        "accepted": critique.accepted,
        "dimension_scores": scores,
    }
    return hashlib.blake2b(f"{task}\x00{draft}".encode("utf-8", "replace"), digest_size=12).hexdigest(), value


def _sentence(item: Item) -> str:
    value = item.value
    score = "" if value.get("score") is None else f", score {value['score']:.2f}"
    verdict = "liked" if (value.get("score") or float(bool(value.get("accepted")))) >= LIKED_FROM else "was not content"
    quoted = f': "{value["said"]}"' if value.get("said") else ""
    return f'On "{value.get("task", "")[:120]}" the person {verdict}{score}{quoted}'


def rubric_wiring(
    model: BaseChatModel, rubric: Rubric, options: Mapping[str, Any], *, grounds: Sequence[Ground] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments of `build_refine_graph` that wire a rubric, and the options that were none of its own.

    Args:
        model: Judges where nobody else is named.
        rubric: The dimensions.
        options: As `build_rubric_graph` takes them.
        grounds: What else is asked before the first draft.

    Raises:
        ValueError: An argument makes no sense.
        TypeError: A judge is not one, or `enabled` no bool.
    """
    rest = dict(options)
    enabled, store = rest.pop("enabled", True), rest.pop("store", None)
    if not isinstance(enabled, bool):
        raise TypeError(f"enabled must be True or False, not {enabled!r}")
    check_lists(critics=rest.get("critics"))
    models, critics = parted(rest.pop("critics", None) or ())
    judge, prompt = rest.pop("judge", None), rest.pop("judge_prompt", JUDGE_PROMPT)
    if models and judge is not None:
        raise ValueError("a chat model in critics= judges in the place of judge=: give one of them")
    judge, prompt = judge if judge is not None else models or None, rest.pop("critic_prompt", None) or prompt
    own = {name: rest.pop(name) for name in OWN if name in rest}
    critic = rubric_critic(rubric, judge=model if judge is None else judge, prompt=prompt, **own)
    remembers = [store is not None and type(one) is HumanCritic for one in critics]
    others = [
        RememberingCritic(one.name) if remembered else one for remembered, one in zip(remembers, critics, strict=True)
    ]
    sources = [*grounds, *([Preferences()] if store is not None else [])]
    wiring: dict[str, Any] = {"critics": [critic, *others] if enabled else [], "store": store}
    if sources:
        wiring["prepare"] = Grounding(*sources, after=rest.pop("prepare", None))
    return (wiring if enabled else {**wiring, "check": _at_once}), rest


def _at_once(state: Mapping[str, Any]) -> str:
    """Stop after the first draft, whatever rounds the limits allow."""
    return "max_rounds"


LIKED_FROM = 0.7
MOST_READ = 1000
"""Of which the newest are told."""
OWN = ("judges", "vote", "together", "threshold", "adaptive", "cache")
"""Options that `rubric_critic` takes as they are."""
