"""Whatever stands in a file that a command reads, it ends with a sentence about the file, soon and in little memory."""

from __future__ import annotations

import json
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

import pytest
from redraft.evals import gating
from redraft.evals.analysis.judged_drafts import read_labelled
from redraft.evals.datasets.dataset import load_dataset
from redraft.evals.logs.registry import read_log
from redraft.evals.run.run_folder import read_run
from redraft.faces import build_from_recipe
from redraft.models import PriceTable, ScriptedModel
from redraft.nodes import builder_prompts
from redraft.nodes.critics.judge_file import read_judge
from redraft.nodes.verify.verifiers import verifier
from redraft.retrieval import open_index
from redraft.retrieval.documents import load_folder
from redraft.state import open_checkpointer

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_CPU_S = 30.0
"""Of this process; what is quadratic takes minutes. The slowest takes two seconds on an idle machine."""
MOST_MEMORY = 400 << 20
"""That the process may grow by, bytes."""

DEEP = "[" * 200_000
FILES: dict[str, bytes] = {
    "empty": b"",
    "zeros": bytes(1_000_000),
    "no UTF-8": b'{"task": "\xff\xfe"}\n' * 3,
    "half a surrogate": b'{"task": "\\ud800", "draft": "x", "right": true}\n',
    "deep": DEEP.encode(),
    "deep object": b'{"a":' * 100_000,
    "large whole number": b'{"task": "x", "question": "x", "answer": 1' + b"0" * 100_000 + b"}\n",
    "large exponent": b'{"task": "x", "question": "x", "answer": 1e400, "right": NaN, "threshold": Infinity}\n',
    "one long line": b'{"task": "' + b"x" * 5_000_000 + b'"}\n',
    "many keys": json.dumps({str(at): at for at in range(100_000)}).encode(),
    "many rows": b'{"task": "x"}\n' * 100_000,
    "rows of other kinds": b'1\n"a"\nnull\n[]\n{}\ntrue\n' * 1000,
    "a list": b"[]",
    "a text": b'"refine"',
    "wrong kinds": json.dumps(
        {key: [[{}]] for key in ("preset", "model", "limits", "prompts", "critics", "scores", "kind", "format")}
    ).encode(),
    "doubled keys": b'{"preset": "refine", "preset": {}, "model": 1, "model": "replay"}',
    "commas": b"," * 500_000 + b"\n" + b"," * 500_000,
    "quotes": b'"' * 500_001,
}


def read_thread(path: Path) -> object:
    with open_checkpointer("memory") as saver:
        return saver.import_thread(path.read_text(encoding="utf-8").splitlines())


def as_csv(path: Path) -> object:
    return load_dataset(path.rename(path.with_suffix(".csv")))


READERS: dict[str, Callable[[Path], object]] = {
    "recipe": build_from_recipe,
    "judge": read_judge,
    "prompts": builder_prompts,
    "prices": PriceTable.from_file,
    "dataset": load_dataset,
    "table": as_csv,
    "labelled drafts": read_labelled,
    "baseline": gating.read_baseline,
    "log": read_log,
    "replies": ScriptedModel.from_file,
    "thread": read_thread,
    "database": lambda path: open_checkpointer(path).__enter__(),
    "index": open_index,
    "schema": lambda path: verifier(f"json_schema:{path}"),
    "results": lambda path: read_run(path.rename(path.parent / "results.jsonl").parent),
    "documents": lambda path: load_folder(path.rename(path.with_suffix(".md")).parent),
}


@pytest.mark.one_of_each("reader")
@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_a_hostile_file_ends_with_a_sentence(reader: Callable[[Path], Any], content: bytes, tmp_path: Path) -> None:
    """It is read, or refused with a ValueError or OSError that says why; no other error, no hour and no gigabyte."""
    path = tmp_path / "given.json"
    path.write_bytes(content)
    peak_so_far()
    started, before = process_time(), peak_so_far()
    problem = ""
    try:
        reader(path)
    except (ValueError, OSError) as error:
        problem = str(error).strip() or "nothing"
    assert problem != "nothing"
    assert process_time() - started < MOST_CPU_S
    assert peak_so_far() - before < MOST_MEMORY


def peak_so_far() -> int:
    """Return the most memory that this process had since it was asked last, in bytes; 0 where nobody can tell."""
    own = Path("/proc/self")
    if not (own / "clear_refs").exists():
        return 0
    peak = int((own / "status").read_text(encoding="utf-8").partition("VmHWM:")[2].split()[0]) << 10
    (own / "clear_refs").write_text("5", encoding="utf-8")
    return peak
