"""`redraft resume` reads what it needs, once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redraft.faces.run_config import RunConfig
from redraft.state.storage.sqlite import IndexedSqliteSaver

if TYPE_CHECKING:
    import pytest


def test_resume_builds_one_graph_and_reads_the_newest_checkpoint_once(
    shell: Any, scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fork is resumed with one graph and one recipe; beside LangGraph's own read, its checkpoint is read once."""
    model = scripted("A lamp.", "A lamp by the river.", "Snow on the river, a lamp.")
    made = ("--model", model, "--verify", "uses_words:river,lamp", "--thread", "one")
    assert shell("run", "Write one sentence.", *made).code == 0
    assert shell("fork", "one", "--at", "0", "--feedback", "Make it about winter.", "--as", "two").code == 0
    seen: list[str] = []

    def counted(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            seen.append(name)
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)

    counted(RunConfig, "model_validate")
    counted(RunConfig, "build")
    counted(RunConfig, "reader")
    counted(IndexedSqliteSaver, "get_tuple")
    assert shell("resume", "two").code == 0
    assert (seen.count("model_validate"), seen.count("build"), seen.count("reader")) == (1, 1, 0)
    # What `resume` goes on from, LangGraph's own read of the same, and whether a person is asked at the end.
    assert seen.count("get_tuple") == 3
