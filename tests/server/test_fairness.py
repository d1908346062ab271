"""One caller's runs don't keep another's waiting, however many they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redraft import open_checkpointer
from redraft.models import ScriptedModel
from redraft.server import Engine, Settings
from redraft.server.engine.records import open_records
from redraft.server.engine.run_records import CLAIM, SKIP_LOCKED
from redraft.server.engine.runs import Caller, QueueFullError, Run, Submission

ANN, BOB, CY = Caller("ann"), Caller("bob"), Caller("cy")


class House:
    """An engine whose model waits, with the callers of the runs that ended, in order."""

    def __init__(self, **settings: Any) -> None:
        self.gate = gate = asyncio.Event()

        class Gated(ScriptedModel):
            async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
                await gate.wait()
                return await super()._agenerate(*args, **kwargs)

        self.model = Gated(["a draft"] * 50)
        self.engine = Engine(Settings(db="memory", **settings), build_model=lambda spec: self.model)
        self.ended: list[str] = []
        self.engine.on_finished.append(lambda run, output: self.ended.append(run.metadata["name"]))

    async def ask(self, caller: Caller, name: str, thread_id: str | None = None) -> Any:
        submission = Submission(
            assistant="zero-shot",
            thread_id=thread_id,
            input={"task": name},
            metadata={"name": name},
            if_not_exists="create",
        )
        return await self.engine.submit(caller, submission)


@pytest.fixture
async def house() -> AsyncIterator[Callable[..., Any]]:
    @asynccontextmanager
    async def opened(**settings: Any) -> AsyncIterator[House]:
        found = House(**settings)
        await found.engine.start()
        try:
            yield found
        finally:
            await found.engine.stop()

    return opened  # type: ignore[return-value]


async def test_callers_take_turns(house: Any) -> None:
    """Of two callers who wait, each has every second turn, whoever came first; their own runs keep their order."""
    async with house(max_concurrent_runs=1) as one:
        runs = [await one.ask(ANN, f"ann {number}") for number in range(5)]
        runs += [await one.ask(BOB, f"bob {number}") for number in range(2)]
        assert (one.engine.queue.running, await one.engine.queue.queued()) == (1, 6)
        one.gate.set()
        for run in runs:
            await run.wait()
        assert one.ended == ["ann 0", "bob 0", "ann 1", "bob 1", "ann 2", "ann 3", "ann 4"]
        assert len(one.model.calls) == 7


async def test_who_has_fewer_runs_under_way_comes_first(house: Any) -> None:
    """Places that become free go to who has the fewest, until all have as many."""
    async with house(max_concurrent_runs=4) as one:
        first = [await one.ask(ANN, f"ann {number}") for number in range(10)]
        second = [await one.ask(BOB, f"bob {number}") for number in range(3)]
        assert [run.status for run in second] == ["pending"] * 3
        for run in first[:2]:
            await one.engine.cancel(ANN, run.id)
        await one.engine.queue.pump()  # what is free is given away a moment later
        under_way = [run for run in [*first, *second] if run in one.engine.queue._tasks]
        assert under_way == [*first[2:4], *second[:2]]
        await one.engine.cancel(ANN, first[2].id)
        await one.engine.queue.pump()
        assert first[4] in one.engine.queue._tasks
        assert second[2].status == "pending"


async def test_a_full_queue_has_a_place_for_who_has_none(house: Any) -> None:
    """Who fills the queue is refused more, and who has no run in it is not; one place each, and no more."""
    async with house(max_concurrent_runs=1, queue_length=3) as one:
        for number in range(4):
            await one.ask(ANN, f"ann {number}")
        for caller, expected in ((ANN, 3), (BOB, 4), (BOB, 4), (CY, 5), (CY, 5), (ANN, 5)):
            if expected > await one.engine.queue.queued():
                await one.ask(caller, "let in")
            else:
                with pytest.raises(QueueFullError):
                    await one.ask(caller, "refused")
            assert await one.engine.queue.queued() == expected


async def test_a_busy_thread_holds_up_nobody_else(house: Any) -> None:
    """Runs that wait for their thread are passed over, and those of other callers and threads begin."""
    async with house(max_concurrent_runs=3) as one:
        runs = [await one.ask(ANN, f"same {number}", thread_id="same") for number in range(3)]
        runs += [await one.ask(BOB, "bob"), await one.ask(ANN, "other")]
        assert [run in one.engine.queue._tasks for run in runs] == [True, False, False, True, True]
        one.gate.set()
        for run in runs:
            await run.wait()
        assert [name for name in one.ended if name.startswith("same")] == ["same 0", "same 1", "same 2"]


@pytest.mark.slow
def test_a_long_queue_is_handed_out_by_as_many_rows_as_wait(postgres_url: str) -> None:
    """With 400 runs waiting PostgreSQL reads each some times to claim two, and not each for each other, which took it
    seconds; also where it has no statistics yet. A busy thread's next run and one for later are passed over."""
    import psycopg

    with open_checkpointer(postgres_url) as saver:
        records = open_records(saver)
        for number in range(400):
            thread = "busy" if number < 3 else f"t{number}"
            records.add_run(Run(f"r{number:03}", thread, "refine", (ANN, BOB)[number % 2], f"2026-01-01T{number:03}"))
        later = Run("later", "then", "refine", CY, "2026-01-01T000")
        later.beat = records.clock() + 3600
        records.add_run(later)
        assert [run.id for run in records.claim("here", 3, now="now")] == ["r000", "r003", "r004"]
        claim = CLAIM.format(clock=records.clock_sql, columns="run_id", skip_locked=SKIP_LOCKED)
        with psycopg.connect(postgres_url) as conn:
            explained = f"EXPLAIN (ANALYZE, FORMAT JSON) {claim}"
            (plan,) = conn.execute(explained, {"process": "here", "most": 2, "now": "now"}).fetchone() or ()
    assert 400 < rows_read(plan[0]["Plan"]) < 40 * 400


def rows_read(plan: dict[str, Any]) -> float:
    """Return the rows that a part of a plan, and all below it, gave or threw away."""
    thrown = sum(count for name, count in plan.items() if name.startswith("Rows Removed by"))
    own = (plan["Actual Rows"] + thrown) * plan["Actual Loops"]
    return float(own + sum(map(rows_read, plan.get("Plans", ()))))
