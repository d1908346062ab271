"""A run's progress is readable text: the words of the shell, without what an error said and without control codes."""

from __future__ import annotations

from typing import Any

import pytest
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.server.progress_text import ProgressText


def told(*replies: Any) -> str:
    progress = ProgressText()
    items = build_refine_graph(ScriptedModel(list(replies))).stream({"task": "Write."}, stream_mode="custom")
    return "".join(progress.lines(item) for item in items)


def test_each_step_is_told_in_order() -> None:
    """Drafts and critiques come whole and in the order in which they were made, each round under its number."""
    text = told("A boat.\nAt sea.", "Too short.", "A long boat.", "no issues")
    parts = ["drafting", "round 0", "A boat.", "At sea.", "Too short.", "round 1", "A long boat.", "✓"]
    assert [text.index(part) for part in parts] == sorted(text.index(part) for part in parts)
    assert text.endswith("\n")
    assert "\x1b" not in told("A \x1b[31mred boat.", "no issues")


def test_what_an_error_said_is_not_told() -> None:
    """The progress names the step and the type of the error, and no more."""
    text = told("A boat.", RuntimeError("SECRET"))
    assert "failed in feedback: RuntimeError" in text
    assert "SECRET" not in text


@pytest.mark.parametrize("item", ["a text", 7, None, {}, {"kind": "mine"}, {"kind": "mine", "round": 1}, {"by": "me"}])
def test_what_other_nodes_send_is_left_alone(item: Any) -> None:
    """An item of an unknown kind is no progress, and no error."""
    assert ProgressText().lines(item) == ""
