"""Hand-out of runs on PostgreSQL: our table of runs beside Procrastinate and DBOS, by what `redraft worker` needs.

Each queue hands out the same jobs, which note when they begin and end and wait 10 ms, to two worker processes with 16
places each. Shown are:

- seconds for all of two callers' jobs, two on each thread of the first;
- the share that the second caller, who asked last and for a tenth, has of the first to begin: half would be fair;
- threads of which two jobs were under way at once, or began in another order than asked for;
- milliseconds from asking to beginning on an idle queue;
- seconds until the jobs of a worker that was killed with -9 begin again, by itself or by what one would have to call;
- seconds until a job ends that another process cancels.

Both are used as their manuals say, with what they have for threads: Procrastinate a `lock`, DBOS a partition.
`pip install procrastinate dbos` beside redraft; one that is missing is left out.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import logging
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent / "crash"))

from rows import add_options, at_most, finish, left_out

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

__all__ = ["main"]

PLACES = 16
JOB_S = 0.01
LONG_S = 120.0
GIVE_UP_S = 90.0
SEEN = """CREATE TABLE seen (job TEXT, thread TEXT, caller TEXT, pid INTEGER, begun DOUBLE PRECISION DEFAULT
    extract(epoch FROM clock_timestamp()), ended DOUBLE PRECISION)"""


class Jobs:
    """What a job does: it notes its beginning and its end."""

    def __init__(self, url: str) -> None:
        from psycopg_pool import AsyncConnectionPool

        self._pool = AsyncConnectionPool(url, min_size=2, max_size=8, open=False, kwargs={"autocommit": True})
        self._opened = False

    async def do(self, job: str, thread: str, caller: str, seconds: float) -> None:
        if not self._opened:
            self._opened = True
            await self._pool.open()
        async with self._pool.connection() as conn:
            await conn.execute(
                "INSERT INTO seen (job, thread, caller, pid) VALUES (%s, %s, %s, %s)",
                (job, thread, caller, os.getpid()),
            )
        await asyncio.sleep(seconds)
        async with self._pool.connection() as conn:
            await conn.execute(
                "UPDATE seen SET ended = extract(epoch FROM clock_timestamp()) WHERE job = %s AND ended IS NULL", (job,)
            )


class Ours:
    """`RunQueue` on the table of runs, with nothing of the rest of the server."""

    name = "redraft"

    def __init__(self, url: str) -> None:
        self._url = url

    @asynccontextmanager
    async def opened(self, *, works: bool) -> AsyncIterator[Any]:
        from redraft.models import ScriptedModel
        from redraft.server import Engine, Settings
        from redraft.server.engine import engine
        from redraft.server.engine.execution import Execution

        jobs = Jobs(self._url)

        class Waiting(Execution):
            async def work(self, run: Any) -> None:
                with suppress(asyncio.CancelledError):
                    await jobs.do(run.id, run.thread_id, run.caller.id, run.request["seconds"])
                await self.ended(run, "interrupted" if run.id in self.cancelled else "success")

        engine.Execution = Waiting  # type: ignore[misc]  # of this process alone
        settings = Settings(db=self._url, work=works, max_concurrent_runs=PLACES)
        self._engine = Engine(settings, build_model=lambda spec: ScriptedModel([]))
        await self._engine.start()
        try:
            yield self
        finally:
            await self._engine.stop()

    async def ask(self, job: str, thread: str, caller: str, seconds: float) -> None:
        from redraft.server.engine.records import now
        from redraft.server.engine.runs import Caller, Run

        request = {"seconds": seconds}
        run = Run(job, thread, "refine", Caller(caller), created_at=now(), updated_at=now(), request=request)
        await self._engine.tending.note(run)
        await self._engine.publisher.tell("queued")

    async def cancel(self, job: str) -> None:
        await self._engine.ending.end(await self._engine.run(type("", (), {"__eq__": lambda *_: True})(), job))  # type: ignore[arg-type]

    async def recover(self) -> bool:
        """Return whether a killed worker's jobs have to be asked for again by hand."""
        return False


class Procrastinate:
    """A task with a lock for each thread; the priority is the same for all."""

    name = "procrastinate"

    def __init__(self, url: str) -> None:
        import procrastinate

        logging.disable(logging.WARNING)
        self._jobs: dict[str, int] = {}
        self._app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))
        jobs = Jobs(url)

        @self._app.task(name="run")
        async def run(job: str, thread: str, caller: str, seconds: float) -> None:
            await jobs.do(job, thread, caller, seconds)

        self._run = run

    @asynccontextmanager
    async def opened(self, *, works: bool) -> AsyncIterator[Any]:
        async with self._app.open_async():
            with suppress(Exception):  # it is there already
                await self._app.schema_manager.apply_schema_async()
            working = asyncio.create_task(self._app.run_worker_async(concurrency=PLACES)) if works else None
            try:
                yield self
            finally:
                if working is not None:
                    working.cancel()
                    await asyncio.gather(working, return_exceptions=True)

    async def ask(self, job: str, thread: str, caller: str, seconds: float) -> None:
        asked = self._run.configure(lock=thread)
        self._jobs[job] = await asked.defer_async(job=job, thread=thread, caller=caller, seconds=seconds)

    async def cancel(self, job: str) -> None:
        await self._app.job_manager.cancel_job_by_id_async(self._jobs[job], abort=True)

    async def recover(self) -> bool:
        """Ask again for what a silent worker had, as the manual has a periodic task do."""
        for job in await self._app.job_manager.get_stalled_jobs():
            await self._app.job_manager.retry_job(job)
        return True


class Dbos:
    """A workflow on a queue with a partition for each thread."""

    name = "dbos"

    def __init__(self, url: str) -> None:
        from dbos import DBOS

        self._executor = uuid.uuid4().hex
        config: Any = {"name": "bench", "system_database_url": url, "executor_id": self._executor, "log_level": "ERROR",
                       "application_version": "1"}  # fmt: skip
        DBOS(config=config)
        jobs = Jobs(url)

        @DBOS.workflow(name="run")
        async def run(job: str, thread: str, caller: str, seconds: float) -> None:
            await jobs.do(job, thread, caller, seconds)

        self._run, self._dbos = run, DBOS

    @asynccontextmanager
    async def opened(self, *, works: bool) -> AsyncIterator[Any]:
        if not works:
            self._dbos.listen_queues([])
        self._dbos.launch()
        self._queue = await self._dbos.register_queue_async("runs", worker_concurrency=PLACES, partition_concurrency=1)
        try:
            yield self
        finally:
            self._dbos.destroy()

    async def ask(self, job: str, thread: str, caller: str, seconds: float) -> None:
        from dbos import SetEnqueueOptions, SetWorkflowID

        with SetWorkflowID(job), SetEnqueueOptions(queue_partition_key=thread):
            await self._queue.enqueue_async(self._run, job, thread, caller, seconds)

    async def cancel(self, job: str) -> None:
        await self._dbos.cancel_workflow_async(job)

    async def recover(self) -> bool:
        """Nothing says which executors have died, but its makers' service: who is dead is told by us."""
        return True


QUEUES: dict[str, Any] = {one.name: one for one in (Ours, Procrastinate, Dbos)}


async def work(name: str, url: str) -> None:
    """Be a worker until killed."""
    async with QUEUES[name](url).opened(works=True):
        print("working", flush=True)
        await asyncio.Event().wait()


class Bench:
    """One queue, measured."""

    def __init__(self, name: str, url: str, jobs: int) -> None:
        import psycopg

        self._name, self._url, self._many = name, url, jobs
        self._db = psycopg.connect(url, autocommit=True)
        self._db.execute(SEEN)
        self._workers: list[subprocess.Popen[str]] = []

    def start(self, workers: int) -> None:
        """Start workers, and return when they work."""
        for _ in range(workers):
            command = [sys.executable, __file__, "--work", self._name, "--url", self._url]
            made = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            self._workers.append(made)
        for made in self._workers[-workers:]:
            assert made.stdout
            if "working" not in made.stdout.readline():
                raise RuntimeError(f"a worker of {self._name} does not start")

    def end(self) -> None:
        for worker in self._workers:
            worker.kill()
            worker.wait()

    async def until(self, statement: str, wanted: int, within_s: float = 600.0) -> float | None:
        """Return after how many seconds a count is reached, or `None`."""
        started = time.monotonic()
        while self._db.execute(statement).fetchone()[0] < wanted:  # type: ignore[arg-type, index]
            if time.monotonic() - started > within_s:
                return None
            await asyncio.sleep(0.02)
        return time.monotonic() - started

    async def measure(self) -> dict[str, float | None]:
        found: dict[str, float | None] = {}
        async with QUEUES[self._name](self._url).opened(works=False) as queue:
            few = self._many // 10
            # Two on a thread of the first caller's, and one of the second's, who then waits for nobody but the first.
            firsts = self._many - few
            asked = [(f"{n:05}-{uuid.uuid4().hex}", f"t{n // 2 if n < firsts else n}", "a" if n < firsts else "b")
                     for n in range(self._many)]  # fmt: skip
            started = time.monotonic()
            for one in asked:
                await queue.ask(*one, JOB_S)
            found["asked for, seconds"] = time.monotonic() - started
            self.start(2)
            found["handed out and done, seconds"] = await self.until(
                "SELECT count(*) FROM seen WHERE ended IS NOT NULL", self._many
            )
            found["second caller's share of the first"] = self._one(
                f"SELECT avg((caller = 'b')::int) FROM (SELECT caller FROM seen ORDER BY begun LIMIT {2 * few}) f"
            )
            found["threads that overlap or change order"] = self._one(
                "SELECT count(DISTINCT a.thread) FROM seen a JOIN seen b USING (thread) "
                "WHERE a.job < b.job AND (b.begun < a.begun OR b.begun < a.ended)"
            )
            found["begun more than once"] = self._one("SELECT count(*) - count(DISTINCT job) FROM seen")
            found["idle: begun after, ms"] = await self._idle(queue)
            found["killed: begun again after, s"], by_hand = await self._killed(queue)
            found["needs a call for it"] = float(by_hand)
            found["cancelled: ended after, s"] = await self._cancelled(queue)
        return found

    def _one(self, statement: str) -> float:
        return float(self._db.execute(statement).fetchone()[0] or 0)  # type: ignore[arg-type, index]

    async def _idle(self, queue: Any) -> float:
        taken = []
        for number in range(20):
            await asyncio.sleep(0.1)
            job, at = f"idle{number}-{uuid.uuid4().hex}", self._one("SELECT extract(epoch FROM clock_timestamp())")
            await queue.ask(job, job, "a", JOB_S)
            await self.until(f"SELECT count(*) FROM seen WHERE job = '{job}'", 1, 30)
            taken.append(1000 * (self._one(f"SELECT begun FROM seen WHERE job = '{job}'") - at))
        return statistics.median(taken)

    async def _killed(self, queue: Any) -> tuple[float | None, bool]:
        for number in range(4):
            await queue.ask(f"long{number}-{uuid.uuid4().hex}", f"long{number}", "a", LONG_S)
        await self.until("SELECT count(*) FROM seen WHERE job LIKE 'long%'", 4)
        pid = int(self._one("SELECT pid FROM seen WHERE job LIKE 'long%' ORDER BY begun LIMIT 1"))
        held = int(self._one(f"SELECT count(*) FROM seen WHERE job LIKE 'long%' AND pid = {pid}"))
        os.kill(pid, signal.SIGKILL)
        again = "SELECT count(*) - 4 FROM seen WHERE job LIKE 'long%'"
        started, by_hand = time.monotonic(), False
        while time.monotonic() - started < GIVE_UP_S:
            by_hand = await queue.recover()
            if await self.until(again, held, 1) is not None:
                return time.monotonic() - started, by_hand
        return None, by_hand

    async def _cancelled(self, queue: Any) -> float | None:
        job = f"stop-{uuid.uuid4().hex}"
        await queue.ask(job, job, "a", LONG_S)
        await self.until(f"SELECT count(*) FROM seen WHERE job = '{job}'", 1)
        started = time.monotonic()
        await queue.cancel(job)
        running = {
            "redraft": f"SELECT count(*) FROM served_runs WHERE run_id = '{job}' AND status = 'interrupted'",
            "procrastinate": "SELECT count(*) FROM procrastinate_jobs WHERE status = 'aborted'",
            "dbos": f"SELECT count(*) FROM dbos.workflow_status WHERE workflow_uuid = '{job}' AND status = 'CANCELLED'",
        }[self._name]
        await self.until(running, 1, 30)
        return time.monotonic() - started


def measured(given: argparse.Namespace) -> Iterator[Any]:
    """The rows of each queue."""
    from databases import opened_postgres

    spec = importlib.util.spec_from_file_location("servers", Path(__file__).parents[1] / "tests/postgres_server.py")
    assert spec
    assert spec.loader
    servers = importlib.util.module_from_spec(spec)
    sys.modules["servers"] = servers
    spec.loader.exec_module(servers)
    for name in given.queues:
        if name != "redraft" and importlib.util.find_spec(name) is None:
            yield left_out(name, f"{name} is not installed")
            continue
        with opened_postgres(servers, "bench") as opened:
            bench = Bench(name, opened[0].url, given.jobs)
            try:
                found = asyncio.run(bench.measure())
            finally:
                bench.end()
        for what, value in found.items():
            if value is None:
                yield left_out(f"{name}: {what}", f"not within {GIVE_UP_S:.0f} s")
            else:
                yield at_most(f"{name}: {what}", value, None, unit="")


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--jobs", type=int, help="default: 500; --quick: 100")
    parser.add_argument("--queues", nargs="+", default=list(QUEUES), choices=list(QUEUES))
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        asyncio.run(work(given.work, given.url))
        return 0
    given.jobs = given.jobs or (100 if given.quick else 500)
    with tempfile.TemporaryDirectory():
        return finish(list(measured(given)), given.json, packages=("psycopg",))


if __name__ == "__main__":
    sys.exit(main())
