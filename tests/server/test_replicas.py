"""Servers and workers on one PostgreSQL database: runs asked for here, executed there, and followed from anywhere."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from redraft.server import Engine, Settings
from redraft.server.engine.runs import Caller, Submission, TakenError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

ANN, BOB = Caller("ann"), Caller("bob")
TASK = {"task": "Write about autumn."}


@pytest.fixture
async def replicas(postgres_url: str, talking: Any) -> AsyncIterator[Callable[..., Any]]:
    """Start engines on one database: those that only answer, and those that work."""
    async with AsyncExitStack() as stack:

        @asynccontextmanager
        async def started(**settings: Any) -> AsyncIterator[Engine]:
            engine = Engine(Settings(db=postgres_url, **settings), build_model=lambda spec: talking.model)
            await engine.start()
            try:
                yield engine
            finally:
                talking.gate.set()
                await engine.stop()

        yield lambda **settings: stack.enter_async_context(started(**settings))


async def waiting(engine: Engine, most: int) -> None:
    """Return when so few runs wait."""
    while await engine.queue.queued() > most:  # noqa: ASYNC110  (another process ends the waiting)
        await asyncio.sleep(0.01)


async def test_a_run_is_streamed_and_joined_on_every_replica(replicas: Any, talking: Any) -> None:
    """Whoever follows a run gets the same events under the same numbers, whichever server they ask, also when they come
    back on another after a break; and who waits gets the output, of runs without a thread too."""
    talking.gate.clear()
    here, there = [await replicas(work=False) for _ in range(2)]
    run = await here.submit(
        ANN, Submission(assistant="refine", input=TASK, stream_modes=("values", "messages-tuple", "custom"), keep=True)
    )
    waited = await here.submit(ANN, Submission(assistant="refine", input=TASK))
    assert (run.status, await there.queue.queued()) == ("pending", 2)
    first = asyncio.create_task(anext(run.follow()))
    begun = asyncio.create_task(anext(there.known.begun_on(ANN, run.thread_id)))
    worker = await replicas()
    number, event = await first
    assert (number, event.event, event.data["run_id"]) == (0, "metadata", run.id)
    assert (await begun).id == run.id
    talking.gate.set()
    seen = [one async for one in run.follow()]
    assert (await here.join(run))["answer"] == (await here.join(waited))["answer"] == "second draft"
    elsewhere = await there.run(ANN, run.id)
    assert (elsewhere.status, elsewhere.log) == ("success", [])
    late = [one async for one in elsewhere.follow((run.stream, 2))]
    of_worker = [one async for one in (await worker.run(ANN, run.id)).follow()]
    assert [number for number, _ in late] == list(range(3, len(of_worker)))
    assert [(number, event.event) for number, event in seen] == [(number, event.event) for number, event in of_worker]
    assert [event.at for _, event in seen] == [event.at for _, event in of_worker]
    assert [event.data for _, event in of_worker if event.event != "messages"] == [
        event.data for _, event in seen if event.event != "messages"
    ]
    assert [event.data[0].text for _, event in seen if event.event == "messages"]
    assert (await there.join(elsewhere))["stop_reason"] == "accepted"


async def test_a_run_is_cancelled_on_any_replica(replicas: Any, talking: Any) -> None:
    """A run that waits, and one that a worker has under way, end as interrupted wherever that is asked for; another
    caller's can't be cancelled, and deleting a thread ends what runs on it."""
    talking.gate.clear()
    here, there = [await replicas(work=False) for _ in range(2)]
    await replicas(max_concurrent_runs=2)
    runs = [await here.submit(ANN, Submission(assistant="refine", input=TASK, keep=True)) for _ in range(3)]
    await waiting(there, 1)
    with pytest.raises(LookupError):
        await there.cancel(BOB, runs[0].id)
    for run in runs[::-2]:
        await there.cancel(ANN, run.id)
        assert (await here.run(ANN, run.id)).status == (await there.run(ANN, run.id)).status == "interrupted"
    await there.delete_thread(ANN, runs[1].thread_id)
    with pytest.raises(LookupError):
        await here.run(ANN, runs[1].id)
    assert await here.queue.queued() == 0


async def test_a_thread_is_made_by_whichever_request_is_first(replicas: Any) -> None:
    """Messages of one chat that come at the same moment, on any server, all become runs of its one new thread; another
    caller who asks for the same id is refused, and a thread is never without the run that it was made for."""
    here, there = [await replicas(work=False) for _ in range(2)]
    asked = Submission(assistant="refine", input=TASK, thread_id="chat", if_not_exists="create")
    outcomes = await asyncio.gather(*(engine.submit(ANN, asked) for engine in (here, there) * 3))
    assert {run.thread_id for run in outcomes} == {"chat"}
    assert len(await here.runs(ANN, "chat")) == len(outcomes)
    asked = Submission(assistant="refine", input=TASK, thread_id="other", if_not_exists="create")
    both = await asyncio.gather(here.submit(ANN, asked), there.submit(BOB, asked), return_exceptions=True)
    assert [type(found) for found in both].count(TakenError) == 1
    assert len(await here.known.on_thread("other")) == 1


async def test_workers_take_turns_between_callers(replicas: Any, talking: Any) -> None:
    """Who has asked for many runs on one server keeps nobody waiting who asks for one on another."""
    talking.gate.clear()
    here, there = [await replicas(work=False) for _ in range(2)]
    many = [await here.submit(ANN, Submission(assistant="zero-shot", input=TASK, keep=True)) for _ in range(4)]
    one = await there.submit(BOB, Submission(assistant="zero-shot", input=TASK, keep=True))
    ended: list[str] = []
    for left in (4, 3):  # two that claim at the same moment don't see each other's
        worker = await replicas(max_concurrent_runs=1)
        worker.on_finished.append(lambda run, output: ended.append(run.id))
        await waiting(here, left)
    # Each worker has one run, and the second took the other caller's before three that were asked for earlier.
    assert [(await here.run(ANN, run.id)).status for run in many].count("running") == 1
    assert (await there.run(BOB, one.id)).status == "running"
    talking.gate.set()
    await asyncio.gather(*(run.wait() for run in [*many, one]))
    assert len(set(ended)) == len(ended)
    assert {run.status for run in [*many, one]} == {"success"}


def test_with_sqlite_one_process_serves_and_works(shell: Callable[..., Any]) -> None:
    """Workers of their own are refused where they could not share the database, and the reason is said."""
    for words in (("worker", "--db", "runs.sqlite"), ("serve", "--no-work", "--db", "memory")):
        refused = shell(*words, "--model", "local")
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert "need PostgreSQL; with SQLite one process does both" in refused.err
