"""Hedged calls: what is slower than nearly all others is asked again, and the first reply is taken. Internal.

After Dean and Barroso, "The Tail at Scale" (Communications of the ACM 56/2, 2013): of the calls of a batch a few take
many times as long as the rest, and a second request, sent once the first has taken longer than 95% of them, cuts that
tail for a few percent more calls.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from contextvars import ContextVar
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from langchain_core.outputs import ChatResult

__all__ = ["HEDGES", "Hedges"]

SLOWER_THAN, SLOWER_BY = 0.95, 1.5
"""Asked again is what takes so many times as long as this share of the calls before it: those just above it, which
would soon reply, use up the share of calls that may be asked twice."""
FEWEST = 20
"""Calls that must have ended before one is asked again."""
LOOK_S = 0.2
"""Between looks at a call that may not be asked twice yet."""


class Hedges:
    """The calls of a batch, and which of them were asked twice.

    Args:
        share: Of all calls, so many at most are asked twice.
    """

    def __init__(self, share: float = 0.05) -> None:
        self.share = share
        self.calls = 0
        self.twice = 0
        self._seconds: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=500))

    async def first_of(self, model: str, ask: Callable[[], Coroutine[Any, Any, ChatResult]]) -> ChatResult:
        """Return the first reply of one call, or of two where the first takes long.

        The call that lost is cancelled. What it cost is not known, so it is counted as the other: the reply's usage has
        its tokens too, and its `response_metadata` says `hedged`.

        Args:
            model: Whose calls it is compared with.
            ask: Makes the call.
        """
        self.calls += 1
        start, asked = perf_counter(), {asyncio.ensure_future(ask())}
        try:
            # Looked at again and again: what a long call is, and whether one may be asked twice, others tell meanwhile.
            while not (await asyncio.wait(asked, timeout=self._wait_s(model, perf_counter() - start)))[0]:
                if self._wait_s(model, perf_counter() - start) == 0:
                    self.twice += 1
                    asked.add(asyncio.ensure_future(ask()))
                    break
            waiting, replied = asked, None
            while waiting and replied is None:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                replied = next((one for one in done if one.exception() is None), None)
        finally:
            for one in asked:
                one.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        result = (replied or done.pop()).result()
        self._seconds[model].append(perf_counter() - start)
        return _counted_twice(result) if len(asked) > 1 else result

    def _wait_s(self, model: str, waited_s: float) -> float:
        """Return how long a call is waited for before it is looked at again; 0 where it may be asked twice now."""
        seconds = sorted(self._seconds[model])
        if len(seconds) < FEWEST or self.twice + 1 > self.share * self.calls:
            return LOOK_S
        return max(0.0, SLOWER_BY * seconds[int(SLOWER_THAN * (len(seconds) - 1))] - waited_s)


def _counted_twice(result: ChatResult) -> ChatResult:
    """Return a reply whose usage holds the call that lost, too."""
    for generation in result.generations:
        message: Any = generation.message
        message.response_metadata = {**message.response_metadata, "hedged": True}
        if usage := message.usage_metadata:
            tokens = {name: 2 * value for name, value in usage.items() if isinstance(value, int)}
            message.usage_metadata = {**usage, **tokens}
    return result


HEDGES: ContextVar[Hedges | None] = ContextVar("hedges", default=None)
"""Those of the batch that a call belongs to."""
