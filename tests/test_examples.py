"""The examples run as they stand, and show what they say."""

from __future__ import annotations

import asyncio
import inspect
import json
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "examples"
DELTA = "A delta is land built by a river at its mouth."
PAIRS = "moon boat bread window rain train salt letter"
EXAMPLES = {
    "own_critic": ([f"{DELTA} It is made of mud and sand.", DELTA], f"accepted after 1 rounds: {DELTA}"),
    "bigger_graph": (["The garden blooms.", "Many thanks for the seeds."], "To Ann: The garden blooms. Many thanks"),
    "resume_and_fork": (
        ["A while.", "Three minutes.", "About 3 minutes.", "At 75 degrees."],
        "failed, with 1 call: A while.\naccepted, with 3 calls: About 3 minutes.\nAt 75 degrees.",
    ),
    "ask_a_person": (["We are late.", "Dear Ann, we are late."], "accepted, accepted by human: Dear Ann, we are late."),
    "refined_agent": (
        ["A delta is land.", "A delta is land where a river meets the sea."],
        "accepted after 1 rounds: A delta is land where a river meets the sea.",
    ),
    "deep_agent": ([], "accepted after 1 rounds: A delta is land made of mud at the mouth of a river."),
    "many_problems": (["moon", *[PAIRS] * 4], f"tokens: {PAIRS}"),
}


def test_every_example_is_run() -> None:
    """A new example is listed in the folder's page, and executed here."""
    assert {path.stem for path in FOLDER.glob("*.py")} == set(EXAMPLES)
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"]({name}.py)" in page for name in EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_shows_what_it_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the replies of a script in place of a model's, each comes to its end and its point."""
    replies, shown = EXAMPLES[name]
    (tmp_path / "replies.jsonl").write_text("".join(json.dumps(reply) + "\n" for reply in replies), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    said = iter(["Friendlier, please.", "accept"])
    monkeypatch.setattr("builtins.input", lambda _: next(said))
    ran = runpy.run_path(str(FOLDER / f"{name}.py"))["main"](*["scripted:replies.jsonl"][: len(replies)])
    if inspect.iscoroutine(ran):
        asyncio.run(ran)
    assert shown in capsys.readouterr().out
