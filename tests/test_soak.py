"""Whoever runs graphs or the server for long keeps no task, socket, file descriptor or database row of a run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[1] / "benchmarks" / "soak.py"
KEPT = ("tasks", "sockets", "descriptors", "rows left", "runs under way")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="its event loop counts sockets in another way")
@pytest.mark.parametrize(
    ("words", "counted"),
    [(["--graph", "--runs", "30", "--batch", "10"], 3), (["--server", "--runs", "24", "--batch", "8"], 5)],
    ids=["graph", "server"],
)
def test_nothing_is_left_of_runs(tmp_path: Path, words: list[str], counted: int) -> None:
    """Runs of every kind, failed, cancelled, left, resumed and forked ones too, over HTTP: what is counted stays 0."""
    path = tmp_path / "rows.json"
    command = [sys.executable, str(SOAK), *words, "--json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout
    rows = {row["what"].partition(" runs: ")[2]: row["measured"] for row in json.loads(path.read_text("utf-8"))}
    found = {what: count for what, count in rows.items() if what.startswith(KEPT)}
    assert len(found) == counted
    assert set(found.values()) == {0}
