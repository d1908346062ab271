"""While another process holds the database's file, the server still answers what only reads."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pytest

HOLD = """
import sqlite3, sys
conn = sqlite3.connect(sys.argv[1], isolation_level=None)
conn.execute("PRAGMA busy_timeout = 20000")
conn.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
conn.execute("ROLLBACK")
"""


@contextmanager
def _held(file: Path) -> Iterator[Callable[[], None]]:
    """Hold the file in another process until the block ends, or what it gives is called."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def release() -> None:
        if holder.poll() is None:
            holder.communicate("now\n", timeout=20)

    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield release
    finally:
        release()


def test_others_are_answered_while_a_write_waits(
    start_server: Callable[..., Any], tokens: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller whose run can't be kept yet waits; the health check and what others look at do not."""
    file = tmp_path / "runs.sqlite"
    server = start_server(db=str(file), tokens=tokens)
    mine, other = ({"Authorization": f"Bearer {token}"} for token in tokens)
    with httpx.Client(base_url=server.url, timeout=20) as client, ThreadPoolExecutor(1) as beside:
        task = {"assistant_id": "refine", "input": {"task": "Name a month."}, "on_completion": "keep"}
        kept = client.post("/runs", json=task, headers=other).json()
        thread = f"/threads/{kept['thread_id']}"
        assert client.get(f"{thread}/runs/{kept['run_id']}/join", headers=other).json()["answer"] == "second draft"
        writing = threading.Event()
        query = server.engine.records.query

        def noted(statement: str, values: Any) -> Any:
            if statement.startswith("INSERT"):
                writing.set()
            return query(statement, values)

        monkeypatch.setattr(server.engine.records, "query", noted)
        with _held(file) as release:
            waiting = beside.submit(client.post, "/runs/wait", json=task, headers=mine)
            assert writing.wait(20)
            looked = [
                client.get("/healthz"),
                client.get(thread, headers=other),
                client.get(f"{thread}/state", headers=other),
                client.get(f"{thread}/runs", headers=other),
                client.post(f"{thread}/history", json={}, headers=other),
                client.post("/threads/search", json={}, headers=other),
                client.get("/page/home", headers=other),
                client.get(f"/page{thread}", headers=other),
                client.get("/metrics", headers=other),
            ]
            assert [reply.status_code for reply in looked] == [200] * len(looked)
            assert not waiting.done()
            release()
            assert waiting.result().json()["answer"] == "second draft"
