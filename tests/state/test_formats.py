"""A thread outlives the release that wrote it: databases of earlier formats, as they were written, are read and run."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.language_models import FakeListChatModel
from redraft.graphs.branching import build_branching_graph
from redraft.graphs.loop import build_refine_graph
from redraft.graphs.pipeline import build_pipeline_graph
from redraft.models import ScriptedModel
from redraft.nodes import human_critic, uses_words, verifier_critic
from redraft.state import BadCheckpointError, Critique, Thread, open_checkpointer
from redraft.state.events import FORMAT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redraft.state import Event
    from redraft.state.threads.history import ThreadTree

DATA = Path(__file__).parent / "data"
DATABASES = sorted(DATA.glob("*.sqlite.gz"))
NEXT = ["A river without light.", "A lamp on the river.", "A lamp, and a path to the river."]


def opinion(task: str, draft: str, history: Sequence[Event]) -> Critique:
    return Critique(f"{len(draft)} characters, say more", accepted=False, score=len(draft) / 100)


WORDS = verifier_critic(uses_words("river", "lamp"))
CRITICS: dict[str, Any] = {
    "accepted": WORDS,
    "failed": WORDS,
    "undrafted": WORDS,
    "stopped": opinion,
    "forked": opinion,
    "asked": human_critic(),
}
ENDS = {"accepted": "accepted", "failed": "accepted", "undrafted": "accepted", "stopped": "max_rounds"}


class Failing(FakeListChatModel):
    """A model by the name of the one that failed when the database was written."""


def graph_of(thread_id: str, saver: Any) -> Any:
    """Return the graph that a thread was begun with, as today's release builds it."""
    model = (Failing if thread_id in ("failed", "undrafted") else FakeListChatModel)(responses=NEXT)
    if thread_id == "piped":
        return build_pipeline_graph("SetTopic('x') | UseRefinementLoop('1')", model, checkpointer=saver)
    if thread_id == "searched":
        return build_branching_graph(model, critics=[WORDS], depth=1, checkpointer=saver)
    return build_refine_graph(model, critics=[CRITICS.get(thread_id, WORDS)], checkpointer=saver)


def unpacked(written: Path, folder: Path) -> Path:
    place = folder / "old.sqlite"
    place.write_bytes(gzip.decompress(written.read_bytes()))
    return place


@pytest.mark.parametrize("written", DATABASES, ids=lambda path: path.name.partition(".")[0])
async def test_threads_of_every_format_are_read_resumed_replayed_and_forked(written: Path, tmp_path: Path) -> None:
    """Nothing is rewritten: threads keep their hashes, and go on in a database that an earlier release wrote."""
    place = unpacked(written, tmp_path)
    with open_checkpointer(place) as saver:
        rows = {row.thread_id: row for row in saver.runs.list()}
        assert rows.keys() >= CRITICS.keys() - {"asked"}
        assert rows["accepted"].stop_reason == "accepted"
        for thread_id in rows:
            thread = Thread(graph_of(thread_id, saver), thread_id)
            assert len(thread.history()) > 1 or thread_id == "forked"
            before = thread.replay()
            assert before.matches, before.differences
            assert (await thread.areplay()).output == before.output
            if thread_id not in ("undrafted", "piped", "searched"):
                branch = thread.fork(at=0)
                assert branch.replay().matches
                assert {thread_id, branch.thread_id} <= {one.thread_id for one in _all(thread.tree())}
            output = thread.answer(accept=True) if thread_id == "asked" else thread.resume()
            if thread_id == "stopped":
                output = thread.resume({"max_rounds": 3})
            assert output["stop_reason"] == ENDS.get(thread_id, output["stop_reason"])
            assert output["events"][: len(before.output["events"])] == before.output["events"]
            after = thread.replay()
            assert after.matches, after.differences


async def test_a_record_says_its_format_and_one_of_a_later_release_is_refused_by_that(tmp_path: Path) -> None:
    """A thread that a later redraft wrote is not read by the rules of this one: the message says to upgrade."""
    with open_checkpointer(tmp_path / "a.sqlite") as saver:
        graph = build_refine_graph(ScriptedModel(["A path.", "no issues"]), checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "one"}}
        (task, *_) = graph.invoke({"task": "Write."}, config)["events"]
        assert task["format"] == FORMAT
        later = {**task, "format": FORMAT + 1}
        graph.update_state(config, {"events": [later]}, as_node="check")
        with pytest.raises(BadCheckpointError, match=f"thread 'one'.*record format {FORMAT + 1}.*upgrade redraft"):
            Thread(graph, "one").replay()


def _all(tree: ThreadTree) -> list[ThreadTree]:
    return [tree, *(one for child in tree.children for one in _all(child))]
