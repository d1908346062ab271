"""Soaks `redraft serve`: short runs over HTTP by turns, by clients some of whom go away.

The app with its engine and uvicorn is run in this process, as the shell runs it, over SQLite; clients are here too, and
are closed before anything is counted. Runs are stateless but for one kind: waited for, streamed by updates and by
tokens, asked for as OpenAI's chat completions; some fail, some are left by their client while they wait for the model,
which cancels them, some are run on a thread that is deleted after them. What a server promises to keep is the last runs
that ended (`REMEMBERED` of them, or up to twice as many), and their tokens for a minute, so that its memory settles
after some 2,000; nothing else may be left, in the process or the database.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rows import Row, at_most
from soak_counts import Counts, settled
from soak_model import FAILING_DRAFT, HANGING_VERDICT
from soak_runs import AT_ONCE, WrongRunError, open_connections, open_readers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from aiohttp import ClientSession

__all__ = ["soaked_server"]

TABLES = ("checkpoints", "writes", "runs", "redraft_journal", "redraft_leases", "served_threads", "served_runs")


class Clients:
    """Make runs of one server again and again.

    Args:
        url: The server's.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.made: Counter[str] = Counter()
        """Runs by their kind."""
        self._numbers = itertools.count()
        self._kinds: Sequence[Callable[[ClientSession, str], Awaitable[None]]] = (
            self.waited,
            self.streamed,
            self.left_in_stream,
            self.tokens,
            self.failing,
            self.chat,
            self.left_waiting,
            self.on_a_thread,
        )

    async def run(self, runs: int) -> None:
        """Make so many runs; the connections are closed when this returns."""
        from aiohttp import ClientSession, ClientTimeout

        left = iter(range(runs))

        async def one_after_another() -> None:
            for _ in left:
                number = next(self._numbers)
                kind = self._kinds[number % len(self._kinds)]
                self.made[kind.__name__] += 1
                await kind(session, f"Write one short sentence about night number {number}, with a river in it.")

        async with ClientSession(self.url, timeout=ClientTimeout(120)) as session, asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(one_after_another())

    # kinds

    async def waited(self, session: ClientSession, task: str) -> None:
        """Without a thread, until its output is here."""
        await _expected(session, "/runs/wait", _asked(task), "accepted")

    async def on_a_thread(self, session: ClientSession, task: str) -> None:
        """On a thread, which is deleted then."""
        async with session.post("/threads", json={}) as got:
            thread = (await got.json())["thread_id"]
        await _expected(session, f"/threads/{thread}/runs/wait", _asked(task), "accepted")
        await _delete(session, thread)

    async def streamed(self, session: ClientSession, task: str) -> None:
        """By updates."""
        await _read(session, "/runs/stream", _asked(task, stream_mode=["updates", "values"]), until="accepted")

    async def tokens(self, session: ClientSession, task: str) -> None:
        """By tokens."""
        await _read(session, "/runs/stream", _asked(task, stream_mode=["messages-tuple"]), until="lamp")

    async def chat(self, session: ClientSession, task: str) -> None:
        """Run one chat completion, whose thread is kept until somebody deletes it."""
        asked = {"model": "redraft-refine", "stream": True, "messages": [{"role": "user", "content": task}]}
        said = await _read(session, "/v1/chat/completions", asked, until="[DONE]")
        await _delete(session, re.findall(r'"thread_id": ?"([^"]+)"', said)[-1])

    async def failing(self, session: ClientSession, task: str) -> None:
        """Ended by an error."""
        async with session.post("/runs/wait", json=_asked(f"{task} {FAILING_DRAFT}")) as got:
            if "__error__" not in (told := await got.json()):
                raise WrongRunError(f"a run that should fail: {got.status} {told}")

    async def left_in_stream(self, session: ClientSession, task: str) -> None:
        """Left by its reader after the first draft."""
        asked = _asked(f"{task} {HANGING_VERDICT}", stream_mode=["updates"], on_disconnect="cancel")
        async with session.post("/runs/stream", json=asked) as got:
            async for line in got.content:
                if b'"draft"' in line:
                    got.close()
                    return
        raise WrongRunError("a stream ended without a draft")

    async def left_waiting(self, session: ClientSession, task: str) -> None:
        """Left by who waits for its output."""
        asked = _asked(f"{task} {HANGING_VERDICT}", on_disconnect="cancel")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.1), session.post("/runs/wait", json=asked) as got:
                await got.read()
                raise WrongRunError("a run without a verdict has ended")


def _asked(task: str, **options: Any) -> dict[str, Any]:
    return {"assistant_id": "refine", "input": {"task": task, "limits": {"max_rounds": 2}}, **options}


async def _expected(session: ClientSession, path: str, asked: dict[str, Any], reason: str) -> None:
    async with session.post(path, json=asked) as got:
        if (out := await got.json()).get("stop_reason") != reason:
            raise WrongRunError(f"a run went wrong: {got.status} {str(out)[:300]}")


async def _read(session: ClientSession, path: str, asked: dict[str, Any], *, until: str) -> str:
    async with session.post(path, json=asked) as got:
        said = await got.text()
        if got.status != 200 or until not in said:
            raise WrongRunError(f"a stream went wrong: {got.status} {said[-300:]}")
        return said


async def _delete(session: ClientSession, thread: str) -> None:
    async with session.delete(f"/threads/{thread}") as got:
        if got.status >= 300:
            raise WrongRunError(f"a thread was not deleted: {got.status}")


@contextlib.asynccontextmanager
async def serving(spec: str, folder: str) -> AsyncIterator[tuple[str, Any]]:
    """The address of a server in this process, and its engine."""
    import uvicorn
    from redraft.server import Engine, Settings, create_app

    settings = Settings(db=str(Path(folder, "served.sqlite")), model=spec)
    engine = Engine(settings)
    config = uvicorn.Config(create_app(settings, engine=engine), port=0, log_level="critical", access_log=False)
    server = uvicorn.Server(config)
    logging.getLogger("redraft.server").setLevel(logging.CRITICAL)  # it tells of each run that fails
    running = asyncio.create_task(server.serve())
    try:
        while not server.started:
            if running.done():
                running.result()
            await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", engine
    finally:
        server.should_exit = True
        await running


async def soaked_server(spec: str, folder: str, *, runs: int, batch: int) -> list[Row]:
    """Make the runs, and return the rows."""
    from redraft.server.engine.known_runs import REMEMBERED

    counts = Counts("redraft serve", batch, threads_stay=False)
    async with serving(spec, folder) as (url, engine):
        clients, idle = Clients(url), len(asyncio.all_tasks()) - 1
        for _ in range(runs // batch):
            await clients.run(batch)
            await open_connections(engine.presets.model(spec))
            await open_readers(engine.saver)
            await settled(idle)
            waiting = await engine.queue.queued()
            counts.take(f"; {engine.queue.running} under way, {waiting} queued, {len(engine.known.here)} remembered")
        rows, what = counts.rows(), f"redraft serve, {runs:,} runs:"
        in_flight = engine.queue.running + await engine.queue.queued()
        rows.append(at_most(f"{what} runs under way or queued", in_flight, 0, unit="runs"))
        rows.append(at_most(f"{what} runs remembered", len(engine.known.here), 2 * REMEMBERED, unit="runs"))
        left = {table: _rows(engine, table) for table in TABLES}
        note = ", ".join(f"{count} {table}" for table, count in left.items() if count)
        rows.append(at_most(f"{what} rows left in the database", sum(left.values()), 0, unit="rows", note=note))
    print(f"\nruns by kind: {dict(clients.made)}\n", file=sys.stderr)
    return rows


def _rows(engine: Any, table: str) -> int:
    return int(engine.saver._query(f"SELECT count(*) FROM {table}", {})[0][0])
