"""One run a thread at a time: its lease is taken, watched and given back, and never blocks an event loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained
from redraft.graphs.branching import build_branching_graph
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.nodes.critics.critics import human_critic, verifier_critic
from redraft.nodes.verify.text_verifiers import uses_words
from redraft.state import Thread, open_checkpointer
from redraft.state.critique import Critique
from redraft.state.storage.lease_keeper import LeaseKeeper
from redraft.state.storage.leases import Leases, LostLeaseError, Runner
from redraft.state.storage.sqlite import IndexedMemorySaver
from redraft.state.threads.lease import LeaseHolder, leases_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WORDS = verifier_critic(uses_words("river", "lamp"))


class Slow(Leases):
    """Notes nobody before it may."""

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        super().__init__(IndexedMemorySaver())
        self.db_executor = executor
        self.asked, self.may = threading.Event(), threading.Event()

    async def atake(self, *given: Any, **options: Any) -> Runner | None:
        self.asked.set()
        assert await asyncio.get_running_loop().run_in_executor(self.db_executor, self.may.wait, 20)
        return await super().atake(*given, **options)


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as one:
        yield one


def holder_of(leases: Leases) -> LeaseHolder:
    holder = LeaseHolder(InMemorySaver())
    holder._keeper = LeaseKeeper(leases)
    return holder


async def test_cancelled_while_it_begins(executor: ThreadPoolExecutor) -> None:
    """Nobody is noted as who runs the thread, though that was being written when the run was cancelled."""
    leases = Slow(executor)
    holder = holder_of(leases)

    async def run() -> None:
        async with holder.leased("a-thread"):
            pytest.fail("the run was cancelled before it began")

    beginning = asyncio.create_task(run())
    await asyncio.to_thread(leases.asked.wait, 20)
    beginning.cancel()
    leases.may.set()
    with pytest.raises(asyncio.CancelledError):
        await beginning
    assert leases.get("a-thread") is None


async def test_cancelled_while_it_ends(executor: ThreadPoolExecutor) -> None:
    """It is forgotten who ran the thread, though the run was cancelled while that waited for its turn."""
    leases, entered, may_end, busy = Leases(IndexedMemorySaver()), asyncio.Event(), asyncio.Event(), threading.Event()
    leases.db_executor = executor
    holder = holder_of(leases)

    async def run() -> None:
        async with holder.leased("a-thread"):
            entered.set()
            await may_end.wait()

    ending = asyncio.create_task(run())
    await entered.wait()
    assert leases.get("a-thread") is not None
    before = asyncio.get_running_loop().run_in_executor(executor, busy.wait, 20)
    may_end.set()
    for _ in range(5):  # turns of the event loop, in which the run comes to its end
        await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    busy.set()
    assert await before
    await asyncio.get_running_loop().run_in_executor(executor, len, ())
    await asyncio.get_running_loop().run_in_executor(executor, len, ())
    assert leases.get("a-thread") is None


async def test_a_run_waits_until_its_thread_is_free() -> None:
    """Of two runs that may wait, one follows the other; one that may not is told who runs the thread."""
    holder, order = LeaseHolder(InMemorySaver()), []

    async def run(name: str, until: asyncio.Event) -> None:
        async with holder.leased("t", wait=True):
            order.append(name)
            await until.wait()

    first, second = asyncio.Event(), asyncio.Event()
    running = [asyncio.create_task(run("one", first)), asyncio.create_task(run("two", second))]
    while not order:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert order == ["one"]
    first.set()
    second.set()
    await asyncio.gather(*running)
    assert order == ["one", "two"]


async def test_an_awaited_run_that_another_process_took_over_stops(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose thread was given to another process, on another machine say, ends; so does one that is asked to."""
    monkeypatch.setattr("redraft.state.threads.lease.MOMENT_S", 0)
    for told, reason in (("taken", "was taken over by another run"), ("asked", "stopped on request")):
        async with open_checkpointer(f"{tmp_path}/{told}.sqlite") as saver:
            leases, began, seen = leases_of(saver), asyncio.Event(), asyncio.Event()

            async def critic(
                task: str, draft: str, history: Any, /, began: asyncio.Event = began, seen: asyncio.Event = seen
            ) -> Critique:
                began.set()
                await seen.wait()
                return Critique("", accepted=False)

            graph = build_refine_graph(ScriptedModel(["one", "two"]), critics=[critic], checkpointer=saver)
            thread = Thread(graph, "t")
            async with thread.astoppable() as control:
                running = asyncio.create_task(
                    graph.ainvoke({"task": "x"}, thread.config, control=control, durability="sync")
                )
                await began.wait()
                mine = await leases.aget("t")
                assert mine is not None
                if told == "taken":
                    assert await leases.atake("t", Runner("theirs", "elsewhere:7:1"), follows=mine.fence)
                    while not control.drain_requested:  # noqa: ASYNC110  # it looks twice a second
                        await asyncio.sleep(0)
                else:  # as another process writes it: the step looks at the database when it ends
                    assert await leases.arequest_stop("t", mine.token)
                seen.set()
                # What the step did is written while nobody else has the thread.
                with pytest.raises(LostLeaseError if told == "taken" else GraphDrained, match=reason):
                    await running
            assert graph.get_state(thread.config).next == (("feedback",) if told == "taken" else ("check",))


HOLD = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.readline()
held.execute("ROLLBACK")
"""


@contextmanager
def held_elsewhere(path: str) -> Iterator[Callable[[], None]]:
    """Hold a SQLite file in another process, until the callable is called."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"

        def let_go() -> None:
            process.stdin.write("\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
            process.wait()

        yield let_go
        if process.poll() is None:
            let_go()


TICKS = 200


@pytest.mark.parametrize("act", ["aresume", "aready", "aanswer", "afork", "arerun", "ainvoke", "astop", "search"])
async def test_the_event_loop_turns_while_another_process_holds_the_file(tmp_path: Any, act: str) -> None:
    """A database that is locked elsewhere makes a run wait, and nothing else in its process."""
    path = str(tmp_path / "runs.sqlite")
    async with open_checkpointer(path) as saver:
        critics: list[Any] = [human_critic()] if act == "aanswer" else [WORDS]
        model = ScriptedModel(["a river", "a lamp", "a river, a lamp"] * 3)
        if act == "search":
            graph: Any = build_branching_graph(model, critics=critics, checkpointer=saver, depth=1)
        else:
            graph = build_refine_graph(model, critics=critics, checkpointer=saver)
        thread = Thread(graph, "t")
        before = {"aresume": "feedback", "aready": "check", "search": "branch"}
        began = {"interrupt_before": [before[act]]} if act in before else {}
        await graph.ainvoke({"task": "river, lamp"}, thread.config, **began)

        async def stoppable() -> Any:
            async with thread.astoppable() as control:
                return await graph.ainvoke({"task": "again"}, thread.config, control=control)

        acts: dict[str, Callable[[], Any]] = {
            "aresume": thread.aresume,
            "search": thread.aresume,
            "aready": lambda: thread.aready({"max_rounds": 2}),
            "aanswer": lambda: thread.aanswer(accept=True),
            "afork": lambda: thread.afork(at=0),
            "arerun": thread.arerun,
            "ainvoke": stoppable,
            "astop": thread.astop,
        }
        if act == "astop":
            # The run that has just ended gives its lease up in the background.
            while leases_of(saver).take("t", Runner("theirs", "elsewhere:7:1")) is None:
                pass
        with held_elsewhere(path) as let_go:
            doing = asyncio.create_task(acts[act]())
            ticks = 0
            while ticks < TICKS:  # a loop that is blocked ticks no more before the lock is given up
                await asyncio.sleep(0.001)
                ticks += 1
            waiting = not doing.done()
            await asyncio.to_thread(let_go)
            await doing
        assert waiting
