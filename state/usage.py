"""Usage of model calls: tokens, calls, dollars and seconds. Internal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, NotRequired, TypeAlias, cast

from pydantic import Field
from typing_extensions import TypedDict

__all__ = ["NO_USAGE", "Score", "Usage", "add_usage", "usage_besides"]

# Of what is stored no number is below 0, which would win back a spent budget, and none is without an end.
Count: TypeAlias = Annotated[int, Field(ge=0, le=10**15)]
Amount: TypeAlias = Annotated[float, Field(ge=0, le=1e15)]
Score: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]


class Usage(TypedDict):
    """The cost of one event, or of a whole run.

    `cost_usd` is `None` where the price of a model that was called is not known; it is never guessed as 0.
    `counted_here` are those of `calls` whose provider reported no tokens: they were counted here by the length of the
    texts, so tokens and dollars are about right. `uncounted_calls` are those that nobody counted: then the tokens are a
    lower bound. Threads of format 1 may lack it. `seconds` is time spent in calls, so a pause or a crash between two
    steps adds nothing. `reused_calls` are those of `calls` that were made before a crash and answered from the journal;
    what they cost then is counted, once. Of `input_tokens`, the provider says that it read `cache_read_tokens` from its
    prompt cache, and wrote `cache_write_tokens` to it.
    """

    input_tokens: Count
    output_tokens: Count
    total_tokens: Count
    calls: Count
    uncounted_calls: NotRequired[Count]
    counted_here: NotRequired[Count]
    cost_usd: Amount | None
    seconds: Amount
    reused_calls: NotRequired[Count]
    cache_read_tokens: NotRequired[Count]
    cache_write_tokens: NotRequired[Count]


NO_USAGE: Usage = {
    "input_tokens": 0,
    "output_tokens": 0,
    "total_tokens": 0,
    "calls": 0,
    "uncounted_calls": 0,
    "cost_usd": 0.0,
    "seconds": 0.0,
}


def add_usage(usages: Iterable[Usage]) -> Usage:
    """Return the sum; its `cost_usd` is `None` as soon as one part's is."""
    total: Any = NO_USAGE.copy()
    for usage in usages:
        counts: Any = usage
        for name in COUNTS:
            if count := counts.get(name):
                total[name] = total.get(name, 0) + count
        so_far, cost = total["cost_usd"], usage["cost_usd"]
        total["cost_usd"] = None if so_far is None or cost is None else so_far + cost
    return cast("Usage", total)


def usage_besides(usage: Usage, again: Mapping[str, Any], counted: Mapping[str, Any]) -> Usage:
    """Return a usage without those parts of it that are there again and were counted before.

    Args:
        usage: What is to be counted.
        again: What of it was paid earlier.
        counted: What was counted earlier.
    """
    counts: Any = usage
    left: Any = {
        name: value and value - min(value, again.get(name) or 0, counted.get(name) or 0)
        for name, value in counts.items()
    }
    left["seconds"] = round(left["seconds"], 6)
    return cast("Usage", {name: value for name, value in left.items() if value or name not in WHERE_ANY})


WHERE_ANY = ("counted_here", "reused_calls", "cache_read_tokens", "cache_write_tokens")
"""Counts that a usage has only where they are above 0."""
COUNTS = ("input_tokens", "output_tokens", "total_tokens", "calls", "uncounted_calls", "seconds", *WHERE_ANY)
