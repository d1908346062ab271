"""What many runs save at once on SQLite: committed together, refused one by one, and never lost."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from redraft.state import open_checkpointer
from redraft.state.storage.group_writer import GroupWriter, Insert, Rows, SqliteCommitter, Statement
from redraft.state.storage.journal import KeptReply

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NUMBERS = Insert("numbers", "INSERT INTO numbers (number) VALUES", 1)
ALL = Statement("SELECT number FROM numbers ORDER BY number")


class Numbers:
    """A table behind a GroupWriter whose writer can be held in the middle of a transaction."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.statements: list[str] = []
        self.held, self.go_on = threading.Event(), threading.Event()
        conn = sqlite3.connect(path, timeout=0.05, isolation_level=None, check_same_thread=False)
        conn.execute("PRAGMA journal_mode = WAL")
        conn.execute("CREATE TABLE numbers (number INTEGER PRIMARY KEY)")
        conn.create_function("hold", 0, self._hold)
        conn.set_trace_callback(self.statements.append)
        self.writer = GroupWriter(SqliteCommitter(conn))

    def _hold(self) -> None:
        self.held.set()
        assert self.go_on.wait(30)

    def add(self, *numbers: Any) -> Rows:
        return Rows(NUMBERS, [(number,) for number in numbers])

    def stored(self) -> list[int]:
        with closing(sqlite3.connect(self.path)) as conn, conn:
            found = [row[0] for row in conn.execute(ALL.sql)]
        conn.close()
        return found

    @property
    def transactions(self) -> int:
        return self.statements.count("BEGIN IMMEDIATE")


@pytest.fixture
def numbers(tmp_path: Path) -> Iterator[Numbers]:
    """A new table; the writer is let go and closed afterwards."""
    opened = Numbers(tmp_path / "numbers.sqlite")
    yield opened
    opened.go_on.set()
    opened.writer.close()


async def behind_a_held_writer(numbers: Numbers, *works: Any) -> list[Any]:
    """What became of works that were all asked for while the writer was busy."""
    busy = asyncio.create_task(numbers.writer.awrite(Statement("SELECT hold()")))
    assert await asyncio.to_thread(numbers.held.wait, 30)
    tasks = [asyncio.create_task(numbers.writer.awrite(*work)) for work in works]
    for _ in range(3):  # they start, they gather, they are handed over
        await asyncio.sleep(0)
    numbers.go_on.set()
    await busy
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_what_many_runs_save_at_once_is_one_transaction(numbers: Numbers) -> None:
    """Two hundred callers that wait at the same time cost one transaction and four statements."""
    told = await behind_a_held_writer(numbers, *([numbers.add(number)] for number in range(200)))
    assert told == [[]] * 200
    assert numbers.transactions == 2  # the one that held, and theirs
    assert sum(text.startswith("INSERT") for text in numbers.statements) == 4  # 64 + 64 + 64 + 8 rows
    assert numbers.stored() == list(range(200))


async def test_a_step_is_saved_with_the_checkpoint_that_follows_or_not_at_all(numbers: Numbers) -> None:
    """What a task wrote and the checkpoint behind it are one transaction; where the first is refused, also earlier, the
    run hears of it at its checkpoint, which is not saved either; and what nothing follows is saved all the same."""
    ahead = partial(numbers.writer.put, ahead=True)
    busy = asyncio.create_task(numbers.writer.awrite(Statement("SELECT hold()")))
    assert await asyncio.to_thread(numbers.held.wait, 30)
    ahead(numbers.add(1), thread_id="a")
    ahead(numbers.add(2), thread_id="a")
    ahead(numbers.add(3, "refused"), thread_id="b")
    told = [
        asyncio.create_task(numbers.writer.awrite(numbers.add(n), thread_id=name)) for n, name in ((4, "a"), (5, "b"))
    ]
    for _ in range(3):  # they start, they gather, they are handed over
        await asyncio.sleep(0)
    numbers.go_on.set()
    await busy
    assert [type(one) for one in await asyncio.gather(*told, return_exceptions=True)] == [list, sqlite3.IntegrityError]
    assert numbers.stored() == [1, 2, 4]

    ahead(numbers.add("refused"), thread_id="c", fence=None)
    ahead(numbers.add(6), thread_id="d")
    while 6 not in numbers.stored():  # noqa: ASYNC110  (nobody says when)
        await asyncio.sleep(0)
    with pytest.raises(sqlite3.IntegrityError):
        await numbers.writer.awrite(numbers.add(7), thread_id="c")
    await numbers.writer.awrite(numbers.add(8), thread_id="c")
    ahead(numbers.add(9), thread_id="d")
    numbers.writer.close()
    assert numbers.stored() == [1, 2, 4, 6, 8, 9]


async def test_a_reply_waits_for_no_event_loop(tmp_path: Path) -> None:
    """A reply is in the database as soon as it came, also while a busy process does not get round to anything else."""
    with open_checkpointer(tmp_path / "runs.sqlite") as saver:
        keeping = asyncio.create_task(saver.journal.aadd("lamp", "call", KeptReply("{}", 0.1)))
        await asyncio.sleep(0)
        until = time.monotonic() + 60
        while saver.journal.get("lamp", "call") is None:  # the loop has not turned since
            assert time.monotonic() < until
        assert not keeping.done()
        await keeping


@pytest.mark.parametrize(
    ("refused", "error"), [(3, sqlite3.IntegrityError), (2**70, OverflowError), ("text", sqlite3.IntegrityError)]
)
async def test_a_value_that_is_refused_fails_its_own_caller_only(numbers: Numbers, refused: Any, error: Any) -> None:
    """Of six callers in one transaction the one whose row the database refuses is told so, and loses all its rows."""
    works: list[Any] = [[numbers.add(number)] for number in range(5)]
    works.insert(4, [numbers.add(90), numbers.add(91, refused)])
    told = await behind_a_held_writer(numbers, *works)
    assert [isinstance(one, error) for one in told] == [False] * 4 + [True, False]
    assert numbers.stored() == list(range(5))


async def test_a_statement_sees_what_was_asked_for_before_it(numbers: Numbers) -> None:
    """Rows that wait to be inserted are there when a statement behind them is executed, and a deletion is no later."""
    works = [[numbers.add(1)], [ALL], [numbers.add(2)], [Statement("DELETE FROM numbers WHERE number = 1")], [ALL]]
    told = await behind_a_held_writer(numbers, *works)
    assert told == [[], [(1,)], [], [], [(2,)]]


async def test_a_locked_database_is_raised_and_not_waited_for_again(numbers: Numbers) -> None:
    """While another process holds the lock, each caller is told after the time-out; then writing goes on."""
    other = sqlite3.connect(numbers.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    works = [asyncio.create_task(numbers.writer.awrite(numbers.add(number))) for number in range(3)]
    told = await asyncio.gather(*works, return_exceptions=True)
    assert [str(one) for one in told] == ["database is locked"] * 3
    assert numbers.transactions == 1
    assert len({id(one) for one in told}) == 3  # each has its own, which grows no traceback of the others
    other.execute("ROLLBACK")
    other.close()
    await numbers.writer.awrite(numbers.add(7))
    assert numbers.stored() == [7]


async def test_closing_commits_what_was_asked_for(numbers: Numbers) -> None:
    """Callers of the same moment in which it is closed are saved; later ones are told that it is closed."""
    tasks = [asyncio.create_task(numbers.writer.awrite(numbers.add(number))) for number in range(5)]
    await asyncio.sleep(0)  # gathered, and not yet handed over
    numbers.writer.close()
    assert await asyncio.gather(*tasks) == [[]] * 5
    assert numbers.stored() == list(range(5))
    with pytest.raises(RuntimeError, match="the database was closed"):
        numbers.writer.write(numbers.add(8))
    with pytest.raises(RuntimeError, match="the database was closed"):
        await numbers.writer.awrite(numbers.add(8))
    numbers.writer.close()


async def test_a_caller_that_gives_up_disturbs_nobody(numbers: Numbers) -> None:
    """One that is cancelled while it waits takes nobody with it."""
    busy = asyncio.create_task(numbers.writer.awrite(Statement("SELECT hold()")))
    assert await asyncio.to_thread(numbers.held.wait, 30)
    first, second = (asyncio.create_task(numbers.writer.awrite(numbers.add(number))) for number in (1, 2))
    await asyncio.sleep(0)
    first.cancel()
    numbers.go_on.set()
    await asyncio.gather(busy, second)
    assert first.cancelled()
    assert 2 in numbers.stored()


def test_threads_and_event_loops_write_side_by_side(numbers: Numbers) -> None:
    """Four event loops in four threads and four threads without any write at once, and each gets its own rows."""

    async def many(start: int) -> list[Any]:
        works = [numbers.writer.awrite(numbers.add(start + n), Statement(f"SELECT {start + n}")) for n in range(50)]
        return await asyncio.gather(*works)

    def looped(start: int) -> list[Any]:
        return asyncio.run(many(start))

    def plain(start: int) -> list[Any]:
        return [numbers.writer.write(numbers.add(start + n), Statement(f"SELECT {start + n}")) for n in range(50)]

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(plain if part % 2 else looped, 50 * part) for part in range(8)]
        told = [one for each in asked for one in each.result(timeout=60)]
    assert told == [[(number,)] for number in range(400)]
    assert numbers.stored() == list(range(400))


def test_a_full_disk_is_told_and_what_was_saved_stays(tmp_path: Path) -> None:
    """A checkpoint for which there is no room raises, leaves no row, and smaller ones are saved as before."""
    with open_checkpointer(tmp_path / "runs.sqlite") as saver:
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        first = saver.put(config, empty_checkpoint(), {}, {})
        saver.writer.write(Statement("PRAGMA max_page_count = 40"))
        large: Any = {**empty_checkpoint(), "channel_values": {"task": "x" * 1_000_000}}
        other: Any = {"configurable": {"thread_id": "large", "checkpoint_ns": ""}}
        with pytest.raises(sqlite3.OperationalError, match="full"):
            saver.put(other, large, {}, {"task": "1"})
        assert saver.get_tuple(other) is None
        assert saver.get_tuple(config).config == first
        second = saver.put(first, empty_checkpoint(), {}, {})
        assert saver.get_tuple(config).config == second
        assert [row.thread_id for row in saver.runs.list()] == ["t"]


async def test_what_can_not_be_serialised_never_reaches_the_others(tmp_path: Path) -> None:
    """A value that no serializer takes is its own caller's error; those of the same moment are saved."""
    async with open_checkpointer(tmp_path / "runs.sqlite") as saver:

        async def put(number: int) -> Any:
            config: Any = {"configurable": {"thread_id": str(number), "checkpoint_ns": ""}}
            values = {"task": threading.Lock() if number == 3 else "count"}
            checkpoint: Any = {**empty_checkpoint(), "channel_values": values}
            return await saver.aput(config, checkpoint, {}, {"task": "1"})

        told = await asyncio.gather(*map(put, range(6)), return_exceptions=True)
        assert [isinstance(one, TypeError) for one in told] == [False] * 3 + [True] + [False] * 2
        assert {row.thread_id for row in saver.runs.list()} == {"0", "1", "2", "4", "5"}


FORGETFUL = """
import sys
from langgraph.checkpoint.base import empty_checkpoint
from redraft.state import open_checkpointer
saver = open_checkpointer(sys.argv[1]).open()
saver.put({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, empty_checkpoint(), {}, {})
"""
FORKING = (
    FORGETFUL
    + """
import os
child = os.fork()
if child == 0:
    try:
        saver.put({"configurable": {"thread_id": "u", "checkpoint_ns": ""}}, empty_checkpoint(), {}, {})
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
saver.close()
"""
)


@pytest.mark.parametrize(
    ("program", "said"), [(FORGETFUL, ""), (FORKING, "open it again in this one")], ids=["unclosed", "forked"]
)
def test_a_process_ends_and_a_forked_one_is_told(program: str, said: str, tmp_path: Path) -> None:
    """A saver that nobody closed does not keep a process alive; a forked process is told to open its own."""
    path = str(tmp_path / "runs.sqlite")
    command = [sys.executable, "-I", "-W", "ignore", "-c", program, path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout
    with open_checkpointer(path) as saver:
        assert [row.thread_id for row in saver.runs.list()] == ["t"]


def test_what_was_written_is_let_go_of(numbers: Numbers) -> None:
    """Of many runs that saved at once and now wait for their models, the writer keeps nothing in memory."""
    rows, gone = numbers.add(1, 2, 3), threading.Event()
    weakref.finalize(rows, gone.set)
    numbers.writer.write(rows)
    del rows
    assert gone.wait(20)
    assert numbers.stored() == [1, 2, 3]
