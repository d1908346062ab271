"""Rate limits on model calls: requests and tokens a minute, over all problems together. Internal."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.tracers.context import register_configure_hook

if TYPE_CHECKING:
    from langchain_core.outputs import LLMResult

__all__ = ["RATE_LIMITS", "RateLimits"]


class RateLimits(AsyncCallbackHandler):
    """Makes each call of a model below it wait for its turn, while it is the current `RATE_LIMITS`.

    How many tokens a call takes is known only when it has answered: what is above the rate delays the next ones.

    Args:
        rpm: Requests a minute, or `None` for any number.
        tpm: Tokens a minute, in and out together, or `None` for any number.

    Raises:
        ValueError: At build: a rate is not above 0.
        ImportError: At build: the extra `evals` is not installed.
    """

    # Otherwise LangChain logs what a callback raises, and the call goes on unlimited.
    raise_error = True

    def __init__(self, *, rpm: float | None = None, tpm: float | None = None) -> None:
        try:
            from aiolimiter import AsyncLimiter
        except ImportError as error:
            raise ImportError(f'rate limits need an extra: pip install "redraft[evals]" ({error})') from None
        for name, rate in (("rpm", rpm), ("tpm", tpm)):
            if rate is not None and not rate > 0:
                raise ValueError(f"{name} must be above 0, not {rate!r}")
        # One at once where less than one a minute is allowed: the bucket must hold a whole request.
        self._requests = None if rpm is None else AsyncLimiter(max(rpm, 1), max(60.0, 60 / rpm))
        self._tokens = None if tpm is None else AsyncLimiter(tpm, 60)

    async def on_chat_model_start(self, serialized: Any, messages: Any, **_: Any) -> None:
        """Wait for the turn of a call."""
        if self._requests is not None:
            await self._requests.acquire()

    async def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        """Take what the call used out of the minute's tokens; where they are gone, wait."""
        if self._tokens is None:
            return
        message = getattr(response.generations[0][0], "message", None) if response.generations else None
        used = message.usage_metadata if isinstance(message, AIMessage) else None
        left = float(used["total_tokens"]) if used else 0.0
        while left > 0:
            # A limiter refuses more at once than it holds, so a long call is taken in parts.
            part = min(left, self._tokens.max_rate)
            await self._tokens.acquire(part)
            left -= part


RATE_LIMITS: ContextVar[RateLimits | None] = ContextVar("redraft_rate_limits", default=None)
# From here on LangChain adds the current limits to every call below, an agent's and a critic's too.
register_configure_hook(RATE_LIMITS, inheritable=True)
