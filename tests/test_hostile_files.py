"""Files at paths that somebody else prepared: links, pipes, and databases whose tables are something else."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from redraft._files import appended, make_private, write_file
from redraft.graphs import build_refine_graph
from redraft.models import ScriptedModel
from redraft.models.recordings import Call, Tape
from redraft.retrieval.index_file import opened
from redraft.state import open_checkpointer

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links and modes are other things there")

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT {} FROM n"
CALL = (
    "'r' AS request, 0 AS occurrence, 'm' AS model, '{}' AS settings, '' AS provider, 0 AS structured, "
    "zeroblob(1900000000) AS reply"
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("prepared", ["link", "dangling link", "pipe", "folder"])
def test_what_somebody_put_there_is_not_written_through(prepared: str, tmp_path: Path) -> None:
    """A report, an export or results never go through a link into another file, and never wait for a pipe's reader."""
    private, path = tmp_path / "private", tmp_path / "report.html"
    if prepared == "link":
        private.write_text("mine")
    if prepared == "pipe":
        os.mkfifo(path)
    elif prepared == "folder":
        path.mkdir()
    else:
        path.symlink_to(private)
    for write in (lambda: write_file(path, "page"), lambda: appended(path).close()):
        with pytest.raises(OSError, match=r"link or no regular file|directory"):
            write()
    assert not private.exists() or private.read_text() == "mine"
    assert {one.name for one in tmp_path.iterdir()} <= {"private", "report.html"}


def test_a_file_keeps_its_mode_and_a_private_one_is_the_users_alone(tmp_path: Path) -> None:
    """A page that the user opened to others stays so; results and exports begin as the user's alone."""
    page, results = tmp_path / "report.html", tmp_path / "results.jsonl"
    page.write_text("old")
    page.chmod(0o644)
    os.link(page, tmp_path / "hard link")
    write_file(page, "new\r\nlines")
    with appended(results) as file:
        file.write(b"{}\n")
    write_file(tmp_path / "export.jsonl", b"x", private=True)
    assert page.read_bytes() == b"new\r\nlines"
    assert (tmp_path / "hard link").read_text() == "old"
    assert [mode(page), mode(results), mode(tmp_path / "export.jsonl")] == [0o644, 0o600, 0o600]


def test_no_other_user_reads_a_database(tmp_path: Path) -> None:
    """Threads, tapes and indexes, and the logs beside them, are the user's alone, whatever the umask."""
    before = os.umask(0)
    try:
        with open_checkpointer(tmp_path / "runs.sqlite") as saver:
            graph = build_refine_graph(ScriptedModel(["a", "no issues"]), checkpointer=saver)
            graph.invoke({"task": "Say a."}, {"configurable": {"thread_id": "one"}})
            beside = sorted(tmp_path.iterdir())
            assert {path.suffix for path in beside} == {".sqlite", ".sqlite-wal", ".sqlite-shm"}
            assert {mode(path) for path in beside} == {0o600}
        opened(tmp_path / "index", create=True).close()
        Tape(tmp_path / "tape").write(Call("r", 0, "m", {}, None, structured=False, reply={}))
        (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
        make_private(tmp_path / "link")
        assert {mode(path) for path in tmp_path.iterdir()} == {0o600}
    finally:
        os.umask(before)


VIEWS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "a huge value on a tape": (f"CREATE VIEW model_calls AS SELECT {CALL}", lambda path: Tape(path).calls()),
    "an endless tape": ("CREATE VIEW model_calls AS " + ENDLESS.format(CALL), lambda path: Tape(path).calls()),
    "a huge value on a tape of the right kind": (
        "CREATE TABLE model_calls (request, occurrence, model, settings, provider, structured,"
        " reply AS (zeroblob(1900000000)))",
        lambda path: Tape(path).calls(),
    ),
    "endless runs": (
        "CREATE VIEW runs AS " + ENDLESS.format("i AS thread_id"),
        lambda path: open_checkpointer(path).open(),
    ),
    "endless checkpoints": (
        "CREATE VIEW checkpoints AS " + ENDLESS.format("i AS thread_id"),
        lambda path: open_checkpointer(path, read_only=True).open(),
    ),
    "a trigger on what is written": (
        "CREATE TABLE runs (thread_id); CREATE TRIGGER t AFTER INSERT ON runs BEGIN SELECT zeroblob(1900000000); END",
        lambda path: open_checkpointer(path).open(),
    ),
    "an index of other things": (
        "CREATE VIEW about AS SELECT 'sources' AS name, zeroblob(1900000000) AS value;"
        "PRAGMA application_id = 0x72656472; PRAGMA user_version = 1",
        opened,
    ),
}


@pytest.mark.parametrize(("schema", "read"), VIEWS.values(), ids=VIEWS)
def test_a_database_that_computes_is_not_read(schema: str, read: Callable[[Path], Any], tmp_path: Path) -> None:
    """A database from elsewhere whose tables are views, triggers or computed is refused at once, by its name."""
    path = tmp_path / "theirs.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(schema)
    with pytest.raises(ValueError, match=r"theirs\.sqlite.* (has a|computes) .*not used"):
        read(path)


def test_a_view_of_ones_own_stays(tmp_path: Path) -> None:
    """Who keeps views for reports beside the threads goes on using both."""
    path = tmp_path / "runs.sqlite"
    open_checkpointer(path).open().close()
    with closing(sqlite3.connect(path)) as database:
        database.executescript("CREATE VIEW mine AS SELECT * FROM runs")
    open_checkpointer(path).open().close()


def test_a_huge_value_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that is larger than any that redraft writes is an error with the file's name, and takes no memory."""
    monkeypatch.setattr("redraft._files.MOST_BYTES", 10_000)
    path = tmp_path / "tape.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE model_calls (request, occurrence, model, settings, provider, structured, reply)")
        database.execute("INSERT INTO model_calls VALUES ('r', 0, 'm', '{}', '', 0, zeroblob(10001))")
        database.commit()
    with pytest.raises(ValueError, match=r"tape\.sqlite.*too big"):
        Tape(path).calls()
