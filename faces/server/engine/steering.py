"""Who runs a thread right now is noted for every process, so that two never do, and `redraft stop` reaches a run."""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from ....state.threads.lease import BusyThreadError, begin, under_way

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from langgraph.runtime import RunControl

    from .records import DbExecutor

__all__ = ["Steering"]

LOG = logging.getLogger("redraft.server")
LOOK_S = 0.5
"""How often is looked whether a thread is free, and whether somebody asked a run to stop."""


class Steering:
    """The threads that this server runs: one look at all of them, instead of one at each before each of its steps."""

    def __init__(self, saver: Any, db: DbExecutor) -> None:
        self._runs = under_way(saver)
        self._db = db
        self._steered: dict[str, tuple[str, RunControl]] = {}

    @asynccontextmanager
    async def steered(self, thread_id: str) -> AsyncIterator[RunControl]:
        """Give what a run is controlled by, once nobody else runs its thread."""
        from langgraph.runtime import RunControl

        control, token = RunControl(), secrets.token_hex(8)
        try:
            while True:
                try:
                    await asyncio.shield(self._db.write(partial(begin, self._runs, thread_id, token=token)))
                    break
                except BusyThreadError:
                    await asyncio.sleep(LOOK_S)
            self._steered[thread_id] = (token, control)
            yield control
        finally:
            self._steered.pop(thread_id, None)
            # Also where the run is cancelled while it is noted that it begins, or right now: one comes after the
            # other there, and a thread that stays noted would be busy for as long as this process lives.
            await asyncio.shield(self._db.write(self._runs.remove, thread_id, token))

    async def look(self) -> None:
        """Look again and again, until it is cancelled, and ask those to stop that somebody wants to stop."""
        while True:
            await asyncio.sleep(LOOK_S)
            steered = dict(self._steered)
            try:
                for thread_id in await self._db.read(self._unwanted, {name: one[0] for name, one in steered.items()}):
                    steered[thread_id][1].request_drain("stopped on request")
            except Exception:
                LOG.exception("who is asked to stop can't be read")

    def _unwanted(self, tokens: dict[str, str]) -> list[str]:
        found = {thread_id: self._runs.get(thread_id) for thread_id in tokens}
        return [name for name, runner in found.items()
                if runner is None or runner.token != tokens[name] or runner.asked]  # fmt: skip
