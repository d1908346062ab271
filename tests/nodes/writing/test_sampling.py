"""A writer that asks several times and answers with the majority."""

from __future__ import annotations

import asyncio

import pytest
from redraft.models import ScriptedModel
from redraft.nodes import extract_number
from redraft.nodes.writing.sampling import MajorityWriter
from redraft.nodes.writing.voting import majority_text


def test_the_majority_answers() -> None:
    """Of several solutions the first one with the most frequent answer is given."""
    texts = ["#### 1", "a #### 2", "no number", "b #### 2.0", "#### 3"]
    assert majority_text(texts, extract_number) == "a #### 2"
    assert majority_text(["x", "y"], extract_number) == "x"


@pytest.mark.parametrize("asynchronous", [False, True], ids=["invoke", "ainvoke"])
def test_every_sample_is_a_call(asynchronous: bool) -> None:
    """Five samples are five calls with the same prompt, and one answer."""
    model = ScriptedModel(["#### 1", "#### 2", "#### 2", "#### 1", "#### 2"])
    writer = MajorityWriter(model, "Solve {task}", samples=5, answer=extract_number)
    given = {"task": "it", "events": []}
    reply = asyncio.run(writer.ainvoke(given)) if asynchronous else writer.invoke(given)
    assert extract_number(reply.text) == 2
    assert [call[0].text for call in model.calls] == ["Solve it"] * 5


def test_no_samples_are_refused() -> None:
    """`samples=0` is refused at build, by name."""
    with pytest.raises(ValueError, match="samples must be a whole number from 1 up, not 0"):
        MajorityWriter(ScriptedModel([]), "Solve {task}", samples=0, answer=extract_number)
