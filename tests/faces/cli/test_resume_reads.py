"""`redraft resume` reads what it needs, once, and what earlier versions stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redraft.faces.run_config import RunConfig
from redraft.nodes.verify import verifiers
from redraft.nodes.verify.text_verifiers import matches
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
    wish = ("--feedback", "Make it about winter.", "--verify", "uses_words:river")
    assert shell("fork", "one", "--at", "0", *wish, "--as", "two").code == 0
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
    counted(IndexedSqliteSaver, "_read_tuple")
    assert shell("resume", "two").code == 0
    assert (seen.count("model_validate"), seen.count("build"), seen.count("reader")) == (1, 1, 0)
    # What `resume` goes on from, and LangGraph's own read of the same: the stream says whether a person is asked.
    assert seen.count("_read_tuple") == 2


def test_a_thread_that_names_a_retired_verifier_is_read_and_goes_on(
    shell: Any, scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was checked with `arithmetic_holds` is replayed, forked and resumed; nothing accepts it."""
    made = ("--model", scripted("3 * 4 = 13", "3 * 4 = 12", "12"), "--verify", "arithmetic_holds:optional")
    with monkeypatch.context() as earlier:
        earlier.setattr(verifiers, "RETIRED", frozenset())
        kind = verifiers.VerifierKind("arithmetic_holds", lambda _: matches("no number"), "HOW")
        earlier.setattr(verifiers, "known_verifiers", lambda: {kind.name: kind})
        assert shell("run", "How many are 3 * 4?", *made, "--max-rounds", "1", "--thread", "one").code in (1, 3)
    assert shell("replay", "one").code == 0
    assert shell("fork", "one", "--at", "0", "--feedback", "Multiply again.", "--as", "two").code == 0
    assert "critic arithmetic_holds is new" in shell("resume", "two").err
    resumed = shell("resume", "two", "--json", "--allow-changes")
    assert (resumed.code in (1, 3), resumed.json["accepted_by"]) == (True, None)
    refused = shell("run", "How many are 3 * 4?", *made, "--thread", "new")
    assert refused.code == 2
    assert "'arithmetic_holds:optional' is not a verifier" in refused.err
