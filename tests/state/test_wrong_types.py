"""A thread whose channels hold what its graph never wrote is refused by name, channel and value, whoever reads it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.base.id import uuid6
from redraft.faces.views.notebook import diff, show, timeline
from redraft.faces.views.run_page import write_run_page
from redraft.graphs.loop import build_refine_graph
from redraft.graphs.pipeline import build_pipeline_graph
from redraft.models import ScriptedModel
from redraft.state import BadCheckpointError, Limits, Thread, open_checkpointer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REFUSED = r"^what the database holds of thread 'bad', checkpoint '1[^']+' is refused: its channel "
EVENT: dict[str, Any] = {"kind": "critique", "round": 0, "by": "critic", "text": "no", "prev": ""}
USAGE: dict[str, Any] = {
    "input_tokens": 1,
    "output_tokens": 1,
    "total_tokens": 2,
    "calls": 1,
    "uncounted_calls": 0,
    "cost_usd": None,
    "seconds": 0.1,
}
VALUES: dict[str, tuple[str, Any, str]] = {
    "events that are text": ("events", "draft", "holds 'draft', which should be a valid list"),
    "events that are texts": ("events", ["draft"], "holds at 0 'draft', which should be a valid dictionary"),
    "rounds in a list": ("rounds", [1], r"holds \[1\], which should be a valid integer"),
    "rounds that are true": ("rounds", True, "holds True, which should be a valid integer"),
    "a score in words": ("score", "high", "holds 'high', which should be a valid number"),
    "a task that is a list": ("task", ["x"], "which should be a valid string"),
    "an answer that is none": ("answer", None, "holds None, which should be a valid string"),
    "limits that are text": ("limits", "3", "holds '3', which should be a valid dictionary"),
    "a negative limit": ("limits", {"max_rounds": -1}, "max_rounds=-1"),
    "an unknown limit": ("limits", {"max_laps": 1}, "'max_laps' is not a limit"),
    "usage without tokens": ("usage", {"calls": 1}, "lacks input_tokens"),
    "usage in words": ("usage", USAGE | {"seconds": "long"}, "holds at seconds 'long'"),
    "usage that wins back a budget": ("usage", USAGE | {"total_tokens": -(10**9)}, "holds at total_tokens -1000000000"),
    "usage without an end": ("usage", USAGE | {"seconds": math.inf}, "holds at seconds inf"),
    "a cost that is no number": ("usage", USAGE | {"cost_usd": math.nan}, "holds at cost_usd nan"),
    "a score that is no number": ("score", math.nan, "holds nan"),
    "a reason that is a number": ("stop_reason", 7, "holds 7, which should be a valid string"),
    "a head that is a number": ("head", 7, "holds 7"),
    "an oracle": ("oracle", "Delphi", "holds 'Delphi', which should be a valid boolean"),
    "very much": ("score", "x" * 1000, "holds 'x{70,80}…, which"),
}
EVENTS: dict[str, tuple[Any, str]] = {
    "text": ("draft", "holds 'draft', which should be a valid list"),
    "a number": (7, "holds 7"),
    "no kind": ([{"round": 0}], "lacks 0.kind"),
    "an unknown kind": ([EVENT | {"kind": "oracle", "usage": USAGE}], "holds at 0.kind 'oracle'"),
    "a verdict that is a number": ([EVENT | {"usage": USAGE, "accepted": 1}], "holds at 0.accepted 1"),
    "a score in words": ([EVENT | {"usage": USAGE, "score": "high"}], "holds at 0.score 'high'"),
    "a round in words": ([EVENT | {"usage": USAGE, "round": "first"}], "holds at 0.round 'first'"),
    "text that is none": ([EVENT | {"usage": USAGE, "text": 5}], "holds at 0.text 5"),
    "usage that is none": ([EVENT | {"usage": "free"}], "holds at 0.usage 'free'"),
    "usage that wins back a budget": ([EVENT | {"usage": USAGE | {"calls": -5}}], "holds at 0.usage.calls -5"),
    "a score that is no number": ([EVENT | {"usage": USAGE, "score": math.nan}], "holds at 0.score nan"),
    "limits": ([EVENT | {"kind": "task", "usage": USAGE, "limits": {"max_rounds": "all"}}], "max_rounds='all'"),
}
READERS: dict[str, Any] = {
    "resume": lambda thread: thread.resume(),
    "resume with limits": lambda thread: thread.resume({"max_rounds": 5}),
    "history": lambda thread: thread.history(),
    "replay": lambda thread: thread.replay(),
    "diff": lambda thread: thread.diff(),
    "tree": lambda thread: thread.tree(),
    "fork": lambda thread: thread.fork(at=0, feedback="Shorter."),
    "rerun": lambda thread: thread.rerun(),
    "question": lambda thread: thread.question(),
    "stop": lambda thread: thread.stop(),
    "timeline": timeline,
    "notebook": show,
    "drafts": lambda thread: diff(thread, before=0, after=0),
    "page": lambda thread: write_run_page(thread, "page.html"),
}


def config(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id}}


def built(saver: Any, *replies: str) -> Any:
    return build_refine_graph(ScriptedModel(list(replies)), checkpointer=saver)


def write_values(saver: Any, *, without: tuple[str, ...] = (), **values: Any) -> None:
    """Put a checkpoint of the thread `bad` on top of its last, as a program of somebody else's would."""
    last = saver.get_tuple(config("bad"))
    held = {
        name: value for name, value in {**last.checkpoint["channel_values"], **values}.items() if name not in without
    }
    versions = {name: saver.get_next_version(saver.get_next_version(None, None), None) for name in values}
    checkpoint = {
        **last.checkpoint,
        "id": str(uuid6(clock_seq=-2)),
        "channel_values": held,
        "channel_versions": {**last.checkpoint["channel_versions"], **versions},
    }
    place = {"configurable": {**last.config["configurable"], "checkpoint_ns": ""}}
    saver.put(place, checkpoint, {"source": "loop", "step": 9, "parents": {}}, versions)


def write_events(saver: Any, events: Any, *, at: int) -> None:
    """Put a write beside those of a checkpoint of the thread `bad`: 0 is its first."""
    where = sorted(found.config["configurable"]["checkpoint_id"] for found in saver.list(config("bad")))[at]
    place = {"configurable": {"thread_id": "bad", "checkpoint_ns": "", "checkpoint_id": where}}
    saver.put_writes(place, [("events", events)], "f" * 8 + "-0000-0000-0000-" + "f" * 12)


@pytest.fixture
def saver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A SQLite database with the threads `good` and `bad`, both finished."""
    monkeypatch.chdir(tmp_path)
    with open_checkpointer("a.sqlite") as opened:
        run(opened, "good", "bad")
        yield opened


def run(saver: Any, *threads: str) -> None:
    for thread_id in threads:
        built(saver, "a poem", "no issues").invoke({"task": "write"}, config(thread_id))


@pytest.mark.parametrize(("channel", "value", "said"), VALUES.values(), ids=VALUES)
async def test_a_value_of_another_type_is_refused(saver: Any, channel: str, value: Any, said: str) -> None:
    """The message names thread, checkpoint, channel and value, sync and async; no model is asked, others are read."""
    write_values(saver, **{channel: value})
    graph = built(saver)
    by_name = rf"{REFUSED}'{channel}' .*{said}"
    for read in (
        lambda: graph.get_state(config("bad")),
        lambda: graph.invoke({"task": "again"}, config("bad")),
        lambda: list(graph.get_state_history(config("bad"))),
        Thread(graph, "bad").resume,
    ):
        with pytest.raises(BadCheckpointError, match=by_name):
            read()
    with pytest.raises(BadCheckpointError, match=by_name):
        await graph.ainvoke(None, config("bad"))
    with pytest.raises(BadCheckpointError, match=by_name):
        await Thread(graph, "bad").ahistory()
    assert Thread(graph, "good").resume()["answer"] == "a poem"
    assert {row.thread_id for row in saver.runs.list()} == {"good", "bad"}


@pytest.mark.parametrize("at", [1, -1], ids=["in its past", "at its end"])
@pytest.mark.parametrize(("events", "said"), EVENTS.values(), ids=EVENTS)
async def test_an_event_of_another_form_is_refused(saver: Any, events: Any, said: str, at: int) -> None:
    """A row that was added to the record anywhere is named with its thread, the event and the field."""
    write_events(saver, events, at=at)
    graph = built(saver)
    by_name = rf"{REFUSED}'events' .*{said}"
    with pytest.raises(BadCheckpointError, match=by_name):
        graph.invoke({"task": "again"}, config("bad"))
    with pytest.raises(BadCheckpointError, match=by_name):
        await graph.aget_state(config("bad"))
    for read in ("resume", "history", "replay"):
        with pytest.raises(BadCheckpointError, match=by_name):
            getattr(Thread(graph, "bad"), read)()
        with pytest.raises(BadCheckpointError, match=by_name):
            await getattr(Thread(graph, "bad"), f"a{read}")()


def test_postgresql_refuses_the_same(postgres_url: str) -> None:
    """Whether a value stands in the checkpoint, in a row of its own or in the record."""
    with open_checkpointer(postgres_url) as saver:
        graph = built(saver)
        for channel, value, said in VALUES.values():
            run(saver, "bad")
            write_values(saver, **{channel: value})
            with pytest.raises(BadCheckpointError, match=rf"{REFUSED}'{channel}' .*{said}"):
                Thread(graph, "bad").resume()
            saver.delete_thread("bad")
        for events, said in EVENTS.values():
            run(saver, "bad")
            write_events(saver, events, at=1)
            with pytest.raises(BadCheckpointError, match=rf"{REFUSED}'events' .*{said}"):
                graph.invoke({"task": "again"}, config("bad"))
            saver.delete_thread("bad")


@pytest.mark.parametrize("without", [(), ("head", "oracle", "accepted_by")], ids=["as it was", "unlike ours"])
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_whoever_reads_a_thread_is_told(saver: Any, read: Any, without: tuple[str, ...], tmp_path: Path) -> None:
    """No way to look at a thread shows half of it, also where the marks of a run of ours were taken off it."""
    write_values(saver, score="high", without=without)
    with pytest.raises(BadCheckpointError, match=rf"{REFUSED}'score'"):
        read(Thread(built(saver), "bad"))
    assert not (tmp_path / "page.html").exists()


def test_a_pipeline_refuses_what_it_never_wrote(saver: Any) -> None:
    """The keys that a preset adds are looked at too."""
    graph = build_pipeline_graph("SetTopic('Rain') | UseDraft", ScriptedModel(["a draft"]), checkpointer=saver)
    graph.invoke({}, config("bad"))
    write_values(saver, began="long ago")
    with pytest.raises(BadCheckpointError, match=f"{REFUSED}'began' holds 'long ago', which"):
        Thread(graph, "bad").resume()


@pytest.mark.parametrize("given", [{"task": 5}, {"task": "write", "limits": {"max_rounds": -1}}])
def test_what_a_caller_got_wrong_spoils_no_thread(saver: Any, given: Any) -> None:
    """A task or limit that was refused is a mistake, not an attack: the thread is read, and takes the next one."""
    graph = built(saver, "a song", "no issues")
    with pytest.raises(ValueError, match=r"task|max_rounds"):
        graph.invoke(given, config("bad"))
    assert Thread(graph, "bad").replay().output["answer"] == "a poem"
    limits = Limits(max_rounds=1)
    assert graph.invoke({"task": "sing", "limits": limits}, config("bad"))["answer"] == "a song"


def test_other_peoples_graphs_keep_what_they_like(saver: Any) -> None:
    """Channels of the same names in a graph that is not ours hold any value."""
    from langgraph.graph import END, START, StateGraph
    from typing_extensions import TypedDict

    class Theirs(TypedDict, total=False):
        head: list[str]
        score: str
        events: str
        rounds: list[int]

    values = {"head": ["a"], "score": "high", "events": "none", "rounds": [1]}
    theirs: Any = StateGraph(Theirs)
    theirs.add_node("only", lambda _: values)
    theirs.add_edge(START, "only")
    theirs.add_edge("only", END)
    graph = theirs.compile(checkpointer=saver)
    graph.invoke({"score": "low"}, config("theirs"))
    assert graph.get_state(config("theirs")).values == values
    assert len(Thread(graph, "theirs").history()) == 3
