"""`run_many`: one graph on many tasks, each result kept as it comes."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
from contextlib import contextmanager
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.graph import START, MessagesState, StateGraph
from redraft import arun_many, build_refine_graph, human_critic, open_checkpointer, run_many, uses_words
from redraft.graphs import GivenUpError, many
from redraft.models import ScriptedModel
from redraft.nodes.runtime.pace import Pace
from redraft.state.storage import lease_keeper
from redraft.state.storage.leases import Runner
from redraft.state.threads.lease import leased

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TASKS = ["Write about rain.", {"id": "mine", "task": "Write of rain."}, "Write about rain."]


class BusyError(Exception):
    """What a client raises where a server asks for fewer calls."""

    status_code = 429


def graph_of(model: Any, **options: Any) -> Any:
    """A loop that wants one word."""
    return build_refine_graph(model, verifiers=[uses_words("rain")], limits={"max_rounds": 1}, **options)


@contextmanager
def in_a_process(db: Path, *, dies: bool = False) -> Iterator[Any]:
    """What each of several processes calls."""
    if dies and multiprocessing.parent_process():
        os._exit(7)
    with open_checkpointer(str(db)) as saver:
        yield graph_of(ScriptedModel(["rain"] * 20), checkpointer=saver)


def test_each_task_has_a_result_and_what_failed_is_run_again(tmp_path: Path) -> None:
    """Results are lines of a file, and come back in order; the second start runs what failed, and what is new."""
    out, seen = tmp_path / "out.jsonl", list[Any]()
    model = ScriptedModel(["rain", ValueError("no"), "Snow.", "rain again"])
    with open_checkpointer("memory") as saver:
        graph = graph_of(model, checkpointer=saver)
        results = run_many(
            graph, TASKS, out=out, concurrency=1, on_progress=lambda progress, one: seen.append((progress.done, one))
        )
        assert [one["stop_reason"] for one in results] == ["accepted", None, "accepted"]
        assert results[1]["error"] == "ValueError: no"
        assert [one["id"] for one in results][1] == "mine"
        assert results[2]["id"] == f"{results[0]['id']}-1"
        assert [done for done, _ in seen] == [0, 1, 2, 3]
        assert [json.loads(line) for line in out.read_text().splitlines()] == results
        calls = len(model.calls)

        later = ScriptedModel(["It rains: rain.", "rain, too"])
        again = run_many(graph_of(later, checkpointer=saver), [*TASKS, "One more."], out=out, concurrency=1)
    assert calls == 4
    assert len(later.calls) == 2
    assert [one["error"] for one in again] == [None] * 4
    assert again[0] == results[0]
    assert again[1]["thread_id"] == results[1]["thread_id"]
    assert len(out.read_text().splitlines()) == 4
    with pytest.raises(ValueError, match=r"holds results of another graph: another critic uses_words"):
        run_many(build_refine_graph(later, verifiers=[uses_words("snow")]), TASKS, out=out)


async def test_a_batch_that_was_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    """A draft that was paid for is judged and not written again, though its task has no result yet."""
    out, reached = tmp_path / "out.jsonl", asyncio.Event()

    class Stalls(ScriptedModel):
        async def _agenerate(self, messages: Any, *rest: Any, **given: Any) -> Any:
            if len(self.calls) == 2:
                reached.set()
                await asyncio.Event().wait()
            return await super()._agenerate(messages, *rest, **given)

    with open_checkpointer("memory") as saver:
        stalls = graph_of(Stalls(["rain", "Snow."]), checkpointer=saver)
        running = asyncio.create_task(arun_many(stalls, ["One.", "Two."], out=out, concurrency=1))
        await reached.wait()
        with pytest.raises(RuntimeError, match="another process is at work"):
            await arun_many(stalls, ["One.", "Two."], out=out)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        out.write_bytes(out.read_bytes() + b'{"id": "torn')
        model = ScriptedModel(["rain at last"])
        results = await arun_many(graph_of(model, checkpointer=saver), ["One.", "Two."], out=out)
    assert [(one["answer"], one["rounds"]) for one in results] == [("rain", 0), ("Snow. rain at last", 1)]
    assert len(model.calls) == 1
    assert results[1]["usage"]["calls"] == 2


async def test_a_thread_that_a_killed_process_still_holds_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A bulk run in a container that was killed and started again gets its answers: its threads are held until the
    leases of the first expire, which is said once for each, and count as failed no more. One that runs in this very
    process is refused as before."""
    monkeypatch.setattr(lease_keeper, "PATIENCE_S", 0.0)
    monkeypatch.setattr(many, "LOOK_S", 0.0)
    async with open_checkpointer(tmp_path / "runs.sqlite") as saver:
        leases = saver.leases.leases
        held = leases.take("t", Runner("token", "container:1:2"))
        looked = list[Runner | None]()

        async def look(thread_id: str) -> Runner | None:
            if len(looked) == 3:
                leases.renew([held.fence], 0.0)  # as if it had expired
            looked.append(leases.get(thread_id))
            return looked[-1]

        monkeypatch.setattr(leases, "aget", look)
        graph = graph_of(ScriptedModel(["rain"]), checkpointer=saver)
        outcome = await many.run_one(graph, {"task": "Write."}, thread_id="t", config={})
        assert (outcome["error"], outcome["output"] and outcome["output"]["answer"]) == (None, "rain")
        assert [one and one.process for one in looked] == ["container:1:2"] * 3 + [None]
        busy = "the thread 't' is being run right now, by process 1 on container"
        assert caplog.messages == [f"{busy}; waiting until that has ended, or its lease has expired"]
        with leased(saver, "u"):
            beside = asyncio.create_task(
                many.run_one(graph, {"task": "Write."}, thread_id="u", config={}), context=Context()
            )
            refused = await beside
        assert refused["error"] is not None
        assert refused["error"].startswith("BusyThreadError: the thread 'u' is being run right now, by process")


def test_what_is_no_task_and_no_result_is_refused(tmp_path: Path) -> None:
    """Each refusal says what is wrong, before anything is paid; when all fails the rest is not tried."""
    out, model = tmp_path / "out.jsonl", ScriptedModel(["rain"] * 9)
    graph = graph_of(model)
    for tasks, says in (
        ([" "], "task 1 asks for nothing"),
        ([{"id": "a", "task": "x"}, {"id": "a", "task": "y"}], "task 2: the id 'a' stands twice"),
    ):
        with pytest.raises(ValueError, match=says):
            run_many(graph, tasks, out=out)
    for wrong, says in (("x", "tasks is one text"), ({"task": "x"}, "or one input"), ([3], "task 1 is a text, or an")):
        with pytest.raises(TypeError, match=says):
            run_many(graph, wrong)  # type: ignore[arg-type]
    for no_graph in (3, model, lambda: model):
        with pytest.raises(TypeError, match="a compiled graph, or a function that returns one, is run on many tasks"):
            run_many(no_graph, ["x"])
    with pytest.raises(ValueError, match="concurrency must be a whole number from 1 up"):
        run_many(graph, ["x"], concurrency=0)
    with pytest.raises(ValueError, match="several processes each build the graph"):
        run_many(graph, ["x"], processes=2)
    out.write_text('{"id": "a"}\n')
    with pytest.raises(ValueError, match=r"line 1: this is no result of run_many"):
        run_many(graph, ["x"], out=out)
    assert out.read_text() == '{"id": "a"}\n'
    out.unlink()
    run_many(graph, [{"id": "a", "task": "x"}], out=out)
    with pytest.raises(ValueError, match="the id 'a' was another task then"):
        run_many(graph, [{"id": "a", "task": "y"}], out=out)
    with pytest.raises(GivenUpError, match=r"the first 5 tasks all failed; the last one: .*refused"):
        run_many(graph_of(ScriptedModel([ConnectionError("refused")] * 9)), map(str, range(9)), concurrency=1)
    asks = build_refine_graph(ScriptedModel(["rain"]), critics=[human_critic()])
    with open_checkpointer("memory") as saver:
        (waits,) = run_many(asks.copy({"checkpointer": saver}), ["x"])
    assert "waits for a person" in str(waits["error"])
    anybodys = StateGraph(MessagesState).add_node("say", lambda _: {"messages": [("ai", "Hello.")]})
    other = anybodys.add_edge(START, "say").compile()
    (greeted,) = run_many(other, [{"messages": [("user", "Hello?")]}])
    assert (greeted["error"], greeted["usage"]["calls"]) == (None, 0)


def test_the_number_of_runs_at_once_finds_its_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as many while that brings more calls a second; half when the server asks for fewer; then one by one."""
    now = 0.0
    monkeypatch.setattr("redraft.nodes.runtime.pace.perf_counter", lambda: now)

    def calls(pace: Pace, most: int) -> None:
        """So many calls as are looked at together, of which a server makes `most` at once, in a second each."""
        nonlocal now
        for _ in range(2 * pace.limit):
            now += 1 / min(pace.limit, most)
            pace.answered()

    pace = Pace()
    levels = [pace.limit]
    for _ in range(5):
        calls(pace, 16)
        levels.append(pace.limit)
    assert levels == [8, 16, 32, 16, 16, 16]

    pace = Pace()
    calls(pace, 1000)
    for _ in range(3):  # of the calls that were under way
        pace.refused()
    assert pace.limit == 8
    calls(pace, 1000)
    assert pace.limit == 9

    fixed = Pace(3)
    calls(fixed, 1000)
    fixed.refused()
    assert fixed.limit == 3


async def test_what_a_server_refused_is_tried_once_more(tmp_path: Path) -> None:
    """A run that ended with 429 waits until the others are done, and then goes on; any other failure stays."""
    model = ScriptedModel(["rain", BusyError("slow down"), ValueError("no"), "rain", "rain at last"])
    seen = list[str]()
    results = await arun_many(
        graph_of(model),
        ["One.", "Two.", "Three.", "Four."],
        concurrency=1,
        on_progress=lambda _, one: seen.append(one["task"] if one else ""),
    )
    assert seen == ["", "One.", "Three.", "Four.", "Two."]
    assert [one["error"] for one in results] == [None, None, "ValueError: no", None]
    assert results[1]["answer"] == "rain at last"


@pytest.mark.slow
def test_several_processes_share_the_tasks(tmp_path: Path) -> None:
    """Each has its part of the tasks and the same database; where one dies the same call goes on."""
    out, db = tmp_path / "out.jsonl", tmp_path / "runs.sqlite"
    tasks = [f"Write {number} about rain." for number in range(8)]
    with pytest.raises(RuntimeError, match="a process of the batch ended with 7; start again to go on"):
        run_many(partial(in_a_process, db, dies=True), tasks, out=out, processes=2)
    levels = list[int]()
    results = run_many(
        partial(in_a_process, db), tasks, out=out, processes=2, on_progress=lambda one, _: levels.append(one.at_once)
    )
    assert [one["task"] for one in results] == tasks
    assert {one["stop_reason"] for one in results} == {"accepted"}
    assert max(levels) >= 16
    with open_checkpointer(str(db)) as saver:
        assert len(saver.runs.ids()) == 8
