"""The examples run as they stand, and show what they say."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "examples"
SENT = "Send your timesheets by Friday."
ALL = "Friday Monday garden desk"
EXAMPLES = {
    "own_critic": (["Send your timesheets.", SENT], f"accepted after 1 rounds: {SENT}"),
    "bigger_graph": (["The garden blooms.", "We thank you for the seeds."], "To Ann: The garden blooms. We thank you"),
    "resume_and_fork": (
        ["A while.", "Three minutes.", "About 3 minutes.", "For 3 minutes at 95 degrees."],
        "failed, with 1 call: A while.\naccepted, with 3 calls: About 3 minutes.\naccepted: For 3 minutes at 95",
    ),
    "ask_a_person": (["We are late.", "Dear Ann, we are late."], "accepted, accepted by human: Dear Ann, we are late."),
    "refined_agent": (
        ["A delta is land.", "A delta is land where a river meets the sea."],
        "accepted after 1 rounds: A delta is land where a river meets the sea.",
    ),
    "deep_agent": ([], "accepted after 1 rounds: A delta is land made of mud at the mouth of a river."),
    "folder": ([], "accepted by python3 test_mean.py"),
    "many_problems": (["Friday", *[ALL] * 4], f"tokens: {ALL}"),
}
RECORDED = {
    "own_critic": r"\naccepted after 1 rounds: .*timesheets.*day",
    "bigger_graph": r"\nTo Ann: .*[Tt]hank",
    "resume_and_fork": r"^failed, with 1 call: .*\naccepted, with \d calls: .*minutes.*\naccepted: .*95 degrees",
    "ask_a_person": r"\naccepted, accepted by human: .*half an hour",
    "refined_agent": r"\naccepted after \d rounds: .*river.*sea",
    "many_problems": r"^(.+: accepted, \d+ tokens: .+\n){4}$",
}
"""What each shows that stands on the record, where nobody names a model."""


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


@pytest.mark.parametrize("name", RECORDED)
def test_an_example_shows_sense_without_a_model_of_ones_own(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever runs an example as it stands sees recorded replies, and an answer that was accepted."""
    monkeypatch.chdir(tmp_path)
    replies = iter(["Say by how much: half an hour.", "accept"])
    monkeypatch.setattr("builtins.input", lambda _: next(replies))
    ran = runpy.run_path(str(FOLDER / f"{name}.py"))["main"]()
    if inspect.iscoroutine(ran):
        asyncio.run(ran)
    assert re.search(RECORDED[name], capsys.readouterr().out)
