"""Async twins of a saver's sync methods, so that one saver serves `invoke` and `ainvoke`."""

from __future__ import annotations

import asyncio
import contextvars
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from langgraph.checkpoint.base import BaseCheckpointSaver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from concurrent.futures import Executor

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
    )

__all__ = ["AsyncByThread"]

P = ParamSpec("P")
T = TypeVar("T")


class AsyncByThread(BaseCheckpointSaver[str]):
    """Runs each sync method of the saver it is mixed into on that saver's own threads; put it first among the bases.

    The sync methods must be safe to call from several threads, and `list` must have read everything when it returns:
    a consumer of `alist` may then use the saver as it likes.
    """

    db_executor: Executor
    """As wide as the saver can work at once. Whoever closes the saver shuts it down."""

    async def _by_thread(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        run = partial(contextvars.copy_context().run, call, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self.db_executor, run)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._by_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  (the base class names it)
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        for found in await self._by_thread(self.list, config, filter=filter, before=before, limit=limit):
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await self._by_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await self._by_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        await self._by_thread(self.delete_thread, thread_id)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return await self._by_thread(self.get_delta_channel_history, config=config, channels=channels)
