"""What `langgraph dev` serves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from redraft.faces import studio

ROOT = Path(__file__).resolve().parents[2]


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


def test_langgraph_json_names_every_preset_that_is_served() -> None:
    """`langgraph dev` in a checkout offers what the registry holds, each under its name."""
    written = json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8"))["graphs"]
    assert written == studio.served_graphs()
    assert all(target.rpartition(":")[2] in vars(studio) for target in written.values())


@pytest.mark.parametrize(
    "name",
    [
        name.replace("-", "_")
        for name in studio.served_graphs()
        if name not in ("agent", "refine-with-a-person", "retrieval")
    ],
)
def test_every_graph_is_served(name: str, scripted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each preset and baseline can be picked in Studio, and answers there."""
    monkeypatch.setenv("REDRAFT_MODEL", scripted(*["#### 5"] * 5))
    out = getattr(studio, name)().invoke({"task": "2 + 3?", "limits": {"max_rounds": 0}})
    assert out["answer"] == "#### 5"


def test_the_search_is_served_over_the_folder_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In Studio a question is answered with the passages of a folder of one's own, without any model."""
    pytest.importorskip("bm25s")
    pytest.importorskip("wordllama")
    (tmp_path / "rain.md").write_text("# Rain\n\nRain is water that falls from clouds.\n")
    monkeypatch.setenv("REDRAFT_DOCUMENTS", str(tmp_path))
    out = studio.retrieval().invoke({"task": "What is rain?"})
    assert "water that falls" in out["answer"]
    assert out["usage"]["calls"] == 0


def test_the_agent_is_served_with_a_calculator(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In Studio the agent can calculate; the model is offered the tool, and what it said is judged."""
    call = {"id": "1", "type": "function", "function": {"name": "calculate", "arguments": '{"expression": "17 * 20"}'}}
    verdict = '{"feedback": "", "score": 1, "accepted": true}'
    server = serve([{"text": "", "message": {"tool_calls": [call]}}, "It is 340.", verdict])
    monkeypatch.setenv("REDRAFT_MODEL", server.spec)
    out = studio.agent().invoke({"messages": [("user", "17 times 20?")]})
    assert (out["answer"], out["stop_reason"]) == ("It is 340.", "accepted")
    assert [message["content"] for message in server.requests[1]["messages"]][-1] == "340"
