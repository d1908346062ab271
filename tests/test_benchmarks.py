"""One command for all benchmarks: whoever runs it sees one table, with what was missed and what came to nothing."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
WRITES = """
import json, pathlib, sys
path = pathlib.Path(sys.argv[sys.argv.index("--json") + 1])
row = {{"what": "{what}", "goal": "≤ 1", "measured": 2.0, "met": {met}, "unit": "ratio", "n": 3, "note": "a note"}}
print("on the way")
path.write_text(json.dumps([row]))
sys.exit({code})
"""


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`benchmarks/all.py` with three benchmarks of this test's own."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("tests_bench_all", BENCHMARKS / "all.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "good.py").write_text(WRITES.format(what="a good one", met=True, code=0), encoding="utf-8")
    (tmp_path / "missed.py").write_text(WRITES.format(what="a slow one", met=False, code=1), encoding="utf-8")
    (tmp_path / "broken.py").write_text("raise SystemExit(7)", encoding="utf-8")
    monkeypatch.setattr(module, "HERE", tmp_path)
    monkeypatch.setattr(module, "BENCHMARKS", dict.fromkeys(("good", "missed", "broken"), (("--quick",), ())))
    yield module
    sys.modules.pop("rows", None)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["good", "missed"], 0),
        (["good", "missed", "--strict"], 1),
        (["good", "--strict"], 0),
        (["good", "broken"], 1),
    ],
    ids=["missed", "missed, strict", "met, strict", "crashed"],
)
def test_a_missed_goal_is_shown_and_only_a_crash_fails(
    bench: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str], words: list[str], code: int
) -> None:
    """All rows are in one table on stdout; a goal that is missed ends the command with 1 only where that was asked."""
    assert bench.main(["--only", *words, "--json", str(tmp_path / "all.json")]) == code
    table, progress = capfd.readouterr()
    assert "on the way" in progress
    assert "on the way" not in table
    assert ("MISSED" in table) == ("missed" in words)
    assert ("CRASHED: ended with 7" in table) == ("broken" in words)
    assert len(json.loads((tmp_path / "all.json").read_text(encoding="utf-8"))) == 2 - (words == ["good", "--strict"])


def test_every_benchmark_is_in_the_table() -> None:
    """Whoever adds a script with rows finds it in `make bench`."""
    text = (BENCHMARKS / "all.py").read_text(encoding="utf-8")
    scripts = [path for path in BENCHMARKS.rglob("*.py") if "add_options(parser)" in path.read_text(encoding="utf-8")]
    names = [path.relative_to(BENCHMARKS).with_suffix("").as_posix() for path in scripts]
    assert len(names) > 10
    assert [name for name in names if f'"{name}"' not in text] == []


def test_the_parity_page_is_of_these_sessions() -> None:
    """Who changes a session or a reason runs the comparison again: the page names all of them."""
    parity = BENCHMARKS / "parity"
    page = (BENCHMARKS.parent / "docs" / "parity.md").read_text(encoding="utf-8")
    for reason in json.loads((parity / "differences.json").read_text(encoding="utf-8")):
        assert f"| {' | '.join(reason[part] for part in ('what', 'redraft', 'langgraph', 'reason'))} |" in page
    sessions = re.findall(r"@session\nasync def (\w+)", (parity / "sessions.py").read_text(encoding="utf-8"))
    pages = re.findall(r"\ndef (\w+)\(browser: Browser", (parity / "browser.py").read_text(encoding="utf-8"))
    assert sessions
    assert pages
    for name in (*sessions, *pages):
        assert f"| {name.replace('_', ' ')} |" in page


def test_every_planted_fault_has_its_place() -> None:
    """Whoever changes the line that a fault replaces, or moves its tests, anchors the fault anew."""
    command = [sys.executable, str(BENCHMARKS / "planted_faults.py"), "--list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert [line for line in listed.stdout.splitlines() if line.startswith("GONE")] == [], listed.stderr
    assert listed.returncode == 0, listed.stderr
