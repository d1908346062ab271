"""LangChain's cache of model calls, standing in while nodes with a journal are at work: it asks the journal."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from langchain_core.caches import BaseCache
from langchain_core.globals import get_llm_cache, set_llm_cache

from .asking import ASKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_core.outputs import Generation

__all__ = ["JournalCache", "answering"]


class JournalCache(BaseCache):
    """Answers the calls of nodes with a journal from there; all others as the cache that it stands in for.

    Args:
        below: The cache that the process had set.
    """

    def __init__(self, below: BaseCache | None) -> None:
        self.below = below

    def lookup(self, prompt: str, llm_string: str) -> Sequence[Generation] | None:
        asking = ASKING.get()
        found = None if asking is None else asking.find(prompt, llm_string)
        return found if found is not None or self.below is None else self.below.lookup(prompt, llm_string)

    def update(self, prompt: str, llm_string: str, return_val: Sequence[Generation]) -> None:
        if (asking := ASKING.get()) is not None:
            asking.keep(return_val)
        if self.below is not None:
            self.below.update(prompt, llm_string, return_val)

    async def alookup(self, prompt: str, llm_string: str) -> Sequence[Generation] | None:
        asking = ASKING.get()
        found = None if asking is None else await asking.afind(prompt, llm_string)
        return found if found is not None or self.below is None else await self.below.alookup(prompt, llm_string)

    async def aupdate(self, prompt: str, llm_string: str, return_val: Sequence[Generation]) -> None:
        if (asking := ASKING.get()) is not None:
            await asking.akeep(return_val)
        if self.below is not None:
            await self.below.aupdate(prompt, llm_string, return_val)

    def clear(self, **kwargs: Any) -> None:
        """Clear the cache below; the journal goes with its threads."""
        if self.below is not None:
            self.below.clear(**kwargs)


@contextmanager
def answering() -> Iterator[None]:
    """Within the block models look into the journal; after the last one of several the process has its cache back."""
    global _blocks  # noqa: PLW0603  # LangChain's cache is one for the process, and so is this count
    with _LOCK:
        _blocks += 1
        current = get_llm_cache()
        if not isinstance(current, JournalCache):
            set_llm_cache(JournalCache(current))
    try:
        yield
    finally:
        with _LOCK:
            _blocks -= 1
            current = get_llm_cache()
            if not _blocks and isinstance(current, JournalCache):
                set_llm_cache(current.below)


_LOCK = threading.Lock()
_blocks = 0
