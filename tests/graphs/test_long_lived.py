"""Whoever runs one graph for weeks finds that nothing of a run stays in the process when the run has ended."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections import Counter
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.globals import get_llm_cache
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.state import Thread, open_checkpointer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

TASK = {"task": "Write about a lamp.", "limits": {"max_rounds": 1}}
FAILING = {"task": "Fail."}
HANGING = {"task": "Hang."}
RUNS = 20
WATCHED = ("redraft.", "langgraph.", "asyncio.", "_asyncio.", "sqlite3.", "concurrent.", "_contextvars.")


class Replies:
    """Replies by prompt; the draft of one task fails, and that of another waits until it may come."""

    def __init__(self) -> None:
        self.asked, self.may = threading.Event(), threading.Event()
        self.model = ScriptedModel([self.reply] * 1000)

    def reply(self, messages: list[Any]) -> str:
        asked = str(messages[-1].content)
        if asked == "Fail.":
            raise RuntimeError("no draft of this")
        if asked == "Hang.":
            self.asked.set()
            assert self.may.wait(20)
        if "no issues" in asked:
            return "no issues" if "second" in asked else "It is the first."
        return "a second lamp" if "It is the first." in asked else "a lamp"


def config(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


async def awaited(graph: Any, name: str, replies: Replies) -> None:
    assert (await graph.ainvoke(TASK, config(name)))["stop_reason"] == "accepted"


async def in_a_thread(graph: Any, name: str, replies: Replies) -> None:
    assert (await asyncio.to_thread(graph.invoke, TASK, config(name)))["stop_reason"] == "accepted"


async def failing(graph: Any, name: str, replies: Replies) -> None:
    with pytest.raises(RuntimeError, match="no draft of this"):
        await graph.ainvoke(FAILING, config(name))


async def left(graph: Any, name: str, replies: Replies) -> None:
    async with aclosing(graph.astream(TASK, config(name), stream_mode="updates")) as updates:
        async for update in updates:
            if "generate" in update:
                break


async def cancelled(graph: Any, name: str, replies: Replies) -> None:
    replies.asked.clear()
    replies.may.clear()
    run = asyncio.create_task(graph.ainvoke(HANGING, config(name)))
    assert await asyncio.to_thread(replies.asked.wait, 20)
    run.cancel()
    replies.may.set()
    with pytest.raises(asyncio.CancelledError):
        await run


async def forked(graph: Any, name: str, replies: Replies) -> None:
    await awaited(graph, name, replies)
    fork = await Thread(graph, name).afork(at=0, feedback="It is the first.", thread_id=f"{name}/fork")
    assert (await fork.aresume())["stop_reason"] == "accepted"


async def read(graph: Any, name: str, replies: Replies) -> None:
    await awaited(graph, name, replies)
    assert (await Thread(graph, name).areplay()).matches
    assert await Thread(graph, name).ahistory()


def held() -> Counter[str]:
    """Return how many objects of ours and of what runs us there are, by type."""
    gc.collect()
    kinds = Counter(map(type, gc.get_objects()))
    named = Counter({f"{kind.__module__}.{kind.__qualname__}": count for kind, count in kinds.items()})
    return Counter({name: count for name, count in named.items() if name.startswith(WATCHED)})


@pytest.mark.one_of_each
@pytest.mark.parametrize("kind", [awaited, in_a_thread, failing, left, cancelled, forked, read])
async def test_a_run_that_has_ended_leaves_nothing(
    tmp_path: Path, kind: Callable[[Any, str, Replies], Awaitable[None]]
) -> None:
    """Twenty runs on threads that are kept leave no task, no entry in a table, and of no type an object each."""
    replies = Replies()
    async with open_checkpointer(str(tmp_path / "runs.sqlite")) as saver:
        graph = build_refine_graph(replies.model, checkpointer=saver)
        for number in range(2):
            await kind(graph, f"warm-up-{number}", replies)
        calls, before = len(replies.model.calls), held()
        for number in range(RUNS):
            await kind(graph, f"run-{number}", replies)
        after = held()
        more = {name: count for name, count in (after - before).items() if count >= RUNS}
        assert more == {}, "the saver's threads may hold what they did last, but no object for each run"
        assert len(replies.model.calls) - calls == RUNS // 2 * calls
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert (saver.writer._gathered, get_llm_cache()) == ({}, None)
        assert saver.runs.list(limit=1)
