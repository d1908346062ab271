"""The runs of `benchmarks/soak.py`, as a service that lives long makes them: one of each kind after the other."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from redraft.state.storage.sqlite import READERS
from soak_model import FAILING_DRAFT, FAILING_VERDICT, HANGING_VERDICT, TOGETHER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Executor

__all__ = ["AT_ONCE", "IN_THREADS", "KEPT", "Service", "WrongRunError", "open_connections", "open_readers"]

AT_ONCE = 16
"""Runs under way at once."""
IN_THREADS = 2
"""Of them with `invoke`, in threads."""
KEPT = 500
"""A thread is deleted when so many runs began after it."""


class WrongRunError(RuntimeError):
    """A run came to something else than it should."""


class Service:
    """Runs one compiled graph, over one saver, again and again.

    Args:
        graph: The compiled graph.
        model: Its model.
        saver: Its saver.
        threads: Where `invoke` runs.
    """

    def __init__(self, graph: Any, model: Any, saver: Any, threads: Executor) -> None:
        self.graph, self.model, self.saver, self.threads = graph, model, saver, threads
        self.made: Counter[str] = Counter()
        """Runs by their kind."""
        self._kinds: tuple[Callable[[str, str], Awaitable[Any]], ...] = (
            self.awaited,
            self.streamed,
            self.failing_at_once,
            self.awaited,
            self.resumed,
            self.cancelled,
            self.tokens,
            self.left,
            self.forked,
            self.in_thread,
        )
        self._begun = 0
        self._old: deque[list[str]] = deque()

    async def run(self, runs: int) -> None:
        """Make so many runs, and return when all have ended and the old threads are deleted."""
        numbers = iter(range(self._begun, self._begun + runs))
        self._begun += runs

        async def one_after_another() -> None:
            for number in numbers:
                kind = self._kinds[number % len(self._kinds)]
                self.made[kind.__name__] += 1
                name = f"soak-{number}"
                await kind(name, f"Write one short sentence about night number {number}, with a river in it.")
                self._old.append([name, f"{name}-fork"])
                if len(self._old) > KEPT:
                    for old in self._old.popleft():
                        await self.saver.adelete_thread(old)

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(one_after_another())

    async def fill(self) -> None:
        """Bring every pool to the size that it may have, so that what is counted does not depend on chance."""
        await open_connections(self.model)
        loop, question = asyncio.get_running_loop(), f"{TOGETHER} {IN_THREADS} of threads"
        asked = (loop.run_in_executor(self.threads, self.model.invoke, question) for _ in range(IN_THREADS))
        await asyncio.gather(*asked)
        await open_readers(self.saver)

    # kinds

    async def awaited(self, name: str, task: str) -> None:
        """To its end."""
        _check(await self.graph.ainvoke({"task": task}, _config(name)))

    async def in_thread(self, name: str, task: str) -> None:
        """To its end, without an event loop."""
        loop = asyncio.get_running_loop()
        _check(await loop.run_in_executor(self.threads, self.graph.invoke, {"task": task}, _config(name)))

    async def streamed(self, name: str, task: str) -> None:
        """With all updates."""
        last: Any = None
        async for mode, data in self.graph.astream({"task": task}, _config(name), stream_mode=["updates", "values"]):
            last = data if mode == "values" else last
        _check(last)

    async def tokens(self, name: str, task: str) -> None:
        """Token by token, as the model's stream sends them."""
        async for _ in self.graph.astream({"task": task}, _config(name), stream_mode="messages"):
            pass
        _check((await self.graph.aget_state(_config(name))).values)

    async def failing_at_once(self, name: str, task: str) -> None:
        """Before there is a draft, so that the error is raised."""
        import openai

        try:
            await self.graph.ainvoke({"task": f"{task} {FAILING_DRAFT}"}, _config(name))
        except openai.BadRequestError:
            return
        raise WrongRunError("a run whose first draft failed did not raise")

    async def resumed(self, name: str, task: str) -> None:
        """Ended by an error after its first draft, and resumed."""
        from redraft import Thread

        _check(await self.graph.ainvoke({"task": f"{task} {FAILING_VERDICT}"}, _config(name)), "failed")
        _check(await Thread(self.graph, name).aresume())

    async def cancelled(self, name: str, task: str) -> None:
        """Cancelled while it waits for its first verdict."""
        judging = asyncio.Event()

        async def watched() -> None:
            given = {"task": f"{task} {HANGING_VERDICT}"}
            async for progress in self.graph.astream(given, _config(name), stream_mode="custom"):
                if progress.get("kind") == "start" and progress.get("node") == "feedback":
                    judging.set()

        run = asyncio.create_task(watched())
        await judging.wait()
        await asyncio.sleep(0.005)  # the request is under way by now, or about to be: either must leave nothing behind
        run.cancel()
        await asyncio.wait([run])
        if not run.cancelled():
            raise WrongRunError("a run that was cancelled came to an end")

    async def left(self, name: str, task: str) -> None:
        """Streamed to a reader who leaves after the first draft."""
        async with aclosing(self.graph.astream({"task": task}, _config(name), stream_mode="updates")) as updates:
            async for update in updates:
                if "generate" in update:
                    break

    async def forked(self, name: str, task: str) -> None:
        """To its end, and forked at its first draft with another critique."""
        from redraft import Thread

        _check(await self.graph.ainvoke({"task": task}, _config(name)))
        fork = await Thread(self.graph, name).afork(at=0, feedback="Name the lamp.", thread_id=f"{name}-fork")
        _check(await fork.aresume())


async def open_connections(model: Any) -> None:
    """Ask so many questions at once as there are runs, so that each connection that may stay open is open."""
    await asyncio.gather(*(model.ainvoke(f"{TOGETHER} {AT_ONCE} of tasks") for _ in range(AT_ONCE)))


async def open_readers(saver: Any) -> None:
    """Let all threads of a SQLite saver read at once, so that each has begun, and each connection is open."""
    all_here = threading.Barrier(READERS)

    def read() -> None:
        with saver.readers.borrowed() as conn:
            conn.execute("SELECT 1 FROM runs LIMIT 1").fetchall()  # the log is opened with the first row that is read
            all_here.wait()

    loop = asyncio.get_running_loop()
    await asyncio.gather(*(loop.run_in_executor(saver.db_executor, read) for _ in range(READERS)))


def _config(name: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": name}}


def _check(values: Any, reason: str = "accepted") -> None:
    if values["stop_reason"] != reason:
        raise WrongRunError(f"a run ended with {values['stop_reason']!r}, not {reason!r}: {values['events'][-1]}")
