"""A run that is cancelled while it begins or while it ends leaves its thread free for the next one."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from redraft.faces.server.engine.records import DbExecutor
from redraft.faces.server.engine.steering import Steering
from redraft.state.threads.lease import Runner, UnderWayInMemory


class Slow(UnderWayInMemory):
    """Notes nobody before it may."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may = threading.Event(), threading.Event()

    def add(self, thread_id: str, runner: Runner) -> bool:
        self.asked.set()
        assert self.may.wait(20)
        return super().add(thread_id, runner)


@pytest.fixture
def db() -> Any:
    opened = DbExecutor()
    yield opened
    opened.close()


def steering_of(noted: UnderWayInMemory, db: DbExecutor) -> Steering:
    steering = Steering(InMemorySaver(), db)
    steering._runs = noted
    return steering


async def test_cancelled_while_it_begins(db: DbExecutor) -> None:
    """Nobody is noted as who runs the thread, though that was being written when the run was cancelled."""
    noted = Slow()
    steering = steering_of(noted, db)

    async def run() -> None:
        async with steering.steered("a-thread"):
            pytest.fail("the run was cancelled before it began")

    beginning = asyncio.create_task(run())
    await asyncio.to_thread(noted.asked.wait, 20)
    beginning.cancel()
    noted.may.set()
    with pytest.raises(asyncio.CancelledError):
        await beginning
    await db.write(len, ())  # all that came before is done
    assert noted.get("a-thread") is None


async def test_cancelled_while_it_ends(db: DbExecutor) -> None:
    """It is forgotten who ran the thread, though the run was cancelled while that waited for its turn."""
    noted, entered, may_end, busy = UnderWayInMemory(), asyncio.Event(), asyncio.Event(), threading.Event()
    steering = steering_of(noted, db)

    async def run() -> None:
        async with steering.steered("a-thread"):
            entered.set()
            await may_end.wait()

    ending = asyncio.create_task(run())
    await entered.wait()
    assert noted.get("a-thread") is not None
    before = asyncio.ensure_future(db.write(busy.wait, 20))
    may_end.set()
    for _ in range(5):  # turns of the event loop, in which the run comes to its end
        await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    busy.set()
    assert await before
    await db.write(len, ())
    assert noted.get("a-thread") is None
