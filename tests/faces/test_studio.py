"""What `langgraph dev` serves."""

from __future__ import annotations

from typing import Any

import pytest
from redraft.faces import studio


def test_the_served_graph_uses_the_model_that_the_environment_names(
    scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In Studio a user picks the model with REDRAFT_MODEL, and sees the loop's nodes."""
    monkeypatch.setenv("REDRAFT_MODEL", scripted("a draft", "No issues"))
    graph = studio.refine()
    assert graph.checkpointer is None
    assert {"prepare", "generate", "feedback", "check", "refine"} <= set(graph.nodes)
    out = graph.invoke({"task": "Write."})
    assert (out["answer"], out["stop_reason"]) == ("a draft", "accepted")


@pytest.mark.parametrize("name", studio.__all__)
def test_every_graph_is_served(name: str, scripted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each preset and baseline can be picked in Studio, and answers there."""
    monkeypatch.setenv("REDRAFT_MODEL", scripted(*["#### 5"] * 5))
    out = getattr(studio, name)().invoke({"task": "2 + 3?", "limits": {"max_rounds": 0}})
    assert out["answer"] == "#### 5"
