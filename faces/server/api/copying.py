"""A thread copied whole, checkpoint by checkpoint, on any saver."""

from __future__ import annotations

from itertools import groupby
from typing import Any

__all__ = ["copy_thread"]


async def copy_thread(saver: Any, source: str, target: str) -> None:
    """Copy every checkpoint of a thread with its writes, the oldest first: a state that is kept as what each step added
    is only whole with all of them.

    Args:
        saver: Where both are.
        source: Id of the thread.
        target: Id of the new one, which has no checkpoint yet.
    """
    found = [stored async for stored in saver.alist({"configurable": {"thread_id": source}})]
    for stored in sorted(found, key=lambda one: str(one.checkpoint["id"])):
        where = stored.config["configurable"]
        parent = (stored.parent_config or {}).get("configurable", {}).get("checkpoint_id")
        place: dict[str, Any] = {"thread_id": target, "checkpoint_ns": where.get("checkpoint_ns", "")}
        config = {"configurable": {**place, **({"checkpoint_id": parent} if parent else {})}}
        saved = await saver.aput(config, stored.checkpoint, stored.metadata, stored.checkpoint["channel_versions"])
        by_task = sorted(enumerate(stored.pending_writes or ()), key=lambda one: (one[1][0], one[0]))
        for task_id, writes in groupby(by_task, key=lambda one: one[1][0]):
            await saver.aput_writes(saved, [(channel, value) for _, (_, channel, value) in writes], task_id)
