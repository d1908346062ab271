"""The tree of a thread's branches, also where ancestors were deleted or their ids used again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.state import Critique, Thread
from redraft.state.storage.index import RunRow
from redraft.state.threads.history import ThreadTree, grow_tree

THREADS = 3000


def shown(branch: ThreadTree) -> Any:
    """The tree as nested tuples; `None` marks a thread that is not kept."""
    name = branch.thread_id if branch.row else (branch.thread_id, None)
    return (name, *(shown(child) for child in branch.children)) if branch.children else name


@pytest.fixture
def parent(saver: Any) -> Thread:
    """A finished thread `a` with the forks `b` and `c`."""
    graph = build_refine_graph(
        ScriptedModel(["draft"]),
        critics=[lambda *_: Critique("no", accepted=False)],
        limits={"max_rounds": 0},
        checkpointer=saver,
    )
    thread = Thread(graph, "a")
    graph.invoke({"task": "t"}, thread.config)
    thread.fork(at=0, thread_id="b")
    thread.fork(at=0, thread_id="c")
    return thread


def test_branches_stay_together_after_their_parent_is_deleted(saver: Any, parent: Thread) -> None:
    """The parent is shown as not kept, with all its branches below it, whichever is asked."""
    saver.delete_thread("a")
    for name in ("b", "c"):
        assert shown(Thread(parent.graph, name).tree()) == (("a", None), "b", "c")
        assert shown(asyncio.run(Thread(parent.graph, name).atree())) == (("a", None), "b", "c")


def test_an_id_that_is_used_again_is_another_thread(saver: Any, parent: Thread) -> None:
    """A branch that takes over its deleted parent's id stands below where it was forked, and the tree ends."""
    saver.delete_thread("a")
    branch = Thread(parent.graph, "b")
    again = branch.fork(at=0, thread_id="a")
    expected = (("a", None), ("b", "a"), "c")
    assert shown(branch.tree()) == expected
    assert shown(again.tree()) == expected
    assert shown(again.fork(at=0, thread_id="d").tree()) == (("a", None), ("b", ("a", "d")), "c")


def test_a_printed_tree_is_read_at_a_glance(saver: Any, parent: Thread) -> None:
    """`print(thread.tree())` has a line for each thread: how it ended, its score, and whose fork it is."""
    Thread(parent.graph, "b").resume()
    Thread(parent.graph, "b").fork(at=0, thread_id="d")
    assert str(parent.tree()) == "a: max_rounds\n├─ b: max_rounds\n│  └─ d: unfinished\n└─ c: unfinished"
    saver.delete_thread("a")
    assert str(Thread(parent.graph, "b").tree()).startswith("a: not kept here\n├─ b: max_rounds\n")
    scored = replace(row("s", None, 0), stop_reason="accepted", score=0.5)
    assert str(ThreadTree("s", scored)) == "s: accepted, scored 0.50"


def test_a_new_run_does_not_adopt_the_branches_of_a_deleted_one(saver: Any, parent: Thread) -> None:
    """Running another task under a deleted thread's id begins a tree of its own."""
    saver.delete_thread("a")
    parent.graph = build_refine_graph(ScriptedModel(["new"]), limits={"max_rounds": 0}, critics=[], checkpointer=saver)
    parent.graph.invoke({"task": "other"}, parent.config)
    assert shown(parent.tree()) == "a"
    assert shown(Thread(parent.graph, "b").tree()) == (("a", None), "b", "c")


def row(name: int | str, parent: int | str | None, at: int) -> RunRow:
    when = f"2026-01-01T00:{at // 60:02}:{at % 60:02}.000000+00:00"
    return RunRow(
        thread_id=str(name),
        created_at=when,
        updated_at=when,
        parent_thread_id=None if parent is None else str(parent),
    )


def test_a_tree_of_thousands_of_generations_is_grown() -> None:
    """A thread may be forked from a fork as often as one likes."""
    rows = [row(number, number - 1 if number else None, number) for number in range(THREADS)]
    branch = grow_tree(str(THREADS - 1), rows)
    generations = 1
    while branch.children:
        (branch,) = branch.children
        generations += 1
    assert (generations, branch.thread_id) == (THREADS, str(THREADS - 1))


def test_rows_that_are_each_others_parents_make_a_tree_that_ends() -> None:
    """Even an index that was tampered with is shown."""
    names = set()
    waiting = [grow_tree("a", [row("a", "b", 0), row("b", "a", 0), row("c", "c", 0)])]
    while waiting:
        branch = waiting.pop()
        names.add(branch.thread_id)
        waiting += branch.children
    assert names == {"a", "b"}
