"""The plugin for pytest, in a run of pytest's own."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

TESTS = """
import pytest

ROWS = [{"task": str(number)} for number in range(100)]

def right(row, answer):
    return answer == row["task"]

@pytest.mark.redraft
def test_stays(redraft_gate):
    redraft_gate(lambda task: task, ROWS, "baseline.json", score=right)

@pytest.mark.redraft
def test_worse(redraft_gate):
    redraft_gate(lambda task: "no", ROWS, "baseline.json", score=right)
"""


def test_a_regression_fails_a_test_that_is_run_with_the_option(tmp_path: Path) -> None:
    """Tests that call models are skipped, until they are asked for: then what got worse fails, in words."""
    (tmp_path / "test_mine.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["redraft.evals.pytest_plugin"]\n')

    def run(*options: str) -> str:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:schemathesis",
            *options,
            str(tmp_path),
        ]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout

    assert "2 skipped" in run()
    written = run("--redraft")
    assert "1 failed, 1 passed" in written
    assert "It got worse" in written
    assert (tmp_path / "baseline.json").exists()
