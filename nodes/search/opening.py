"""The first step of a search: a clean slate for its task, and the drafts to begin with."""

from __future__ import annotations

import uuid
from itertools import count
from typing import TYPE_CHECKING, Any

from ...state.usage import NO_USAGE
from ..prepare import prepare
from ..runtime.journal import SAVER, saver_of
from ..runtime.meter import Meter
from ..runtime.step import Call, Step, Steps
from .paths import drafts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from langchain_core.runnables import RunnableConfig

    from ..writing.prompts import Keep
    from .shared_budget import Ledgers

__all__ = ["prepare_search"]


def prepare_search(
    ledgers: Ledgers, *, limits: Mapping[str, Any], keep: Keep, branching_factor: int, variations: int
) -> Step:
    """Return the node that opens the record of a search and plans its drafts.

    Args:
        ledgers: What siblings share.
        limits: In force where the thread has none yet.
        keep: Noted in the record.
        branching_factor: How many drafts there are.
        variations: How many variations are taken in turn.

    Reads: task, limits. Writes: everything.

    Raises:
        ValueError: At run: the task is empty, or a limit makes no sense.
    """
    # The reason to stop is not one that the record of a single path shows.
    begin = prepare(limits=limits, options={"keep": keep, "judge_last": True, "custom_check": True})

    def logic(state: Mapping[str, Any], config: RunnableConfig) -> Steps:
        update = yield from begin.logic(state, config)
        base = yield Call(_FreeName(config, branching_factor), (), config, Meter(None))
        search = uuid.uuid4().hex
        ledgers.begin(search, 0, NO_USAGE, update["limits"])
        return {
            **update,
            "search": search,
            "base": base,
            "root": str(config["configurable"]["thread_id"]) if base else None,
            "plans": drafts(base, branching_factor, variations),
            "going": [],
            "compared": [],
            "judging": NO_USAGE.copy(),
            "branches": [],
        }

    return Step("prepare", logic)


class _FreeName:
    """Returns what the thread ids of a search begin with: that of its own thread, and a number from its second task on.

    A name is free where none of the drafts' threads exists. A search inside another graph has its node's name and a
    part of the task's id behind, since several may run at once.
    """

    def __init__(self, config: RunnableConfig, drafts: int) -> None:
        known = config.get("configurable", {})
        outside = str(known.get("checkpoint_ns") or "").split("|")[:-1]
        node, _, task = outside[-1].partition(":") if outside else ("", "", "")
        self._base = f"{known.get('thread_id')}/{node}-{task[:8]}" if node else str(known.get("thread_id"))
        self._saver = saver_of(config)
        self._drafts = drafts

    def __call__(self) -> str:
        for name in self._names():
            if self._saver is None or not any(self._saver.get_tuple(one) for one in self._threads(name)):
                return name
        raise AssertionError("unreachable: names don't end")

    async def acall(self) -> str:
        for name in self._names():
            if self._saver is None or not [one for one in self._threads(name) if await self._saver.aget_tuple(one)]:
                return name
        raise AssertionError("unreachable: names don't end")

    def _names(self) -> Iterator[str]:
        if self._saver is None:
            return iter([""])
        return (self._base if number == 1 else f"{self._base}/{number}" for number in count(1))

    def _threads(self, name: str) -> Iterator[Any]:
        for number in range(1, self._drafts + 1):
            yield {"configurable": {"thread_id": f"{name}/b0.{number}", "checkpoint_ns": "", SAVER: self._saver}}
