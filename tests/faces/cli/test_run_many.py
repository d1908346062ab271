"""`redraft run-many`, as typed."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING, Any

from tests.full_disk import room_for

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_many_tasks_are_run_by_one_command(
    shell: Any, scripted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line is a run that `threads` and `resume` know; the same command goes on, and wrong lines are named."""
    words = ("--verify", "uses_words:rain", "--max-rounds", "0", "--concurrency", "1")
    lines = '{"id": "a", "task": "Of rain."}\n\n{"id": "b", "task": "Of snow."}\n'
    (tmp_path / "tasks.jsonl").write_text(lines, encoding="utf-8-sig")  # with a byte order mark, as Windows writes it
    done = shell("run-many", "tasks.jsonl", "--model", scripted("rain", ""), *words)
    assert done.code == 1
    assert "2 tasks, 1 accepted, 1 failed" in done.out
    assert "  b: " in done.out
    again = shell("run-many", "tasks.jsonl", "--model", scripted("Snow."), *words, "--json")
    assert (again.code, again.json["accepted"], again.json["failed"]) == (0, 1, 0)
    rows = {row["id"]: row for row in map(json.loads, (tmp_path / "results.jsonl").read_text().splitlines())}
    assert {name: row["stop_reason"] for name, row in rows.items()} == {"a": "accepted", "b": "max_rounds"}
    listed = shell("threads", "--json").json
    assert {one["thread_id"] for one in listed} == {row["thread_id"] for row in rows.values()}
    assert shell("show", rows["a"]["thread_id"]).code == 0
    # Nobody looks at single steps of these, so that a draft and what was said about it are one of them.
    steps = shell("history", rows["a"]["thread_id"], "--json").json["steps"]
    assert [step["node"] for step in steps][-2:] == ["prepare", "generate"]

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Of rain.\nOf rain again.\n")))
    piped = shell("run-many", "-", "--out", "other.jsonl", "--model", scripted("rain", "rain"), *words)
    assert "other.jsonl  2/2  accepted 100.0%" in piped.out

    for text, says in (
        ("", "holds no task"),
        ('{"task": "café"}\n', "'bad.jsonl' is not UTF-8"),
        ('{"task": "x"}\n{"task": 3}\n', "line 2: its `task` is no text"),
        ('{"task": "x"}\n{"tasks": "y"}\n', "line 2: it has no `task`"),
        ('{"task": "x"\n', "line 1: not JSON"),
    ):
        (tmp_path / "bad.jsonl").write_text(text, encoding="latin-1")
        refused = shell("run-many", "bad.jsonl", "--model", scripted("rain"))
        assert refused.code == 2
        assert says in refused.err
    for wrong in (("--human",), ("--processes", "2", "--db", "memory")):
        assert shell("run-many", "tasks.jsonl", "--model", scripted("rain"), *wrong).code == 2
    lost = shell("run-many", "none.jsonl", "--model", scripted("rain"))
    assert "none.jsonl" in lost.err

    # A disk that is full is no wrong input.
    (tmp_path / "long.jsonl").write_text(json.dumps({"task": "Of rain. " * 999}))
    with room_for(1500):
        given = ("--out", "few.jsonl", "--model", scripted("rain"), "--db", "memory", *words)
        full = shell("run-many", "long.jsonl", *given)
    assert (full.code, full.err.strip()) == (1, "redraft: [Errno 28] No space left on device: 'few.jsonl'")
    assert (tmp_path / "few.jsonl").read_bytes() == b""
