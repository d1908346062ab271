"""A finished model call is paid once, whatever happens to the run afterwards."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import threading
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.globals import get_llm_cache, set_llm_cache
from langchain_core.language_models import chat_models
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langgraph.checkpoint.memory import InMemorySaver
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel, chat_model
from redraft.nodes.critics.critics import model_critic
from redraft.nodes.runtime.call_ceiling import CallCeiling, under_ceiling
from redraft.nodes.runtime.journal import JOURNAL
from redraft.nodes.verify.numeric_answers import extract_number
from redraft.nodes.writing.sampling import MajorityWriter
from redraft.state import Critique, Thread, open_checkpointer
from redraft.state.storage import lease_keeper
from redraft.state.storage.journal import Journal
from redraft.state.threads.lease import BusyThreadError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LAMP: Any = {"configurable": {"thread_id": "lamp"}}
TASK: Any = {"task": "Write about a lamp.", "limits": {"max_rounds": 1}}


def reject(task: str, draft: str, history: Any, /) -> Critique:
    return Critique("Write it anew.", accepted=False)


def invoke(graph: Any, given: Any, config: Any, *, is_async: bool, **options: Any) -> Any:
    if is_async:
        return asyncio.run(graph.ainvoke(given, config, **options))
    return graph.invoke(given, config, **options)


def first_checkpoint(graph: Any, config: Any) -> Any:
    return list(graph.get_state_history(config))[-1].config


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def is_async(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_going_through_a_run_again_calls_no_model(saver: Any, is_async: bool) -> None:
    """From an old checkpoint on, a run makes no call, costs what it cost, and says how many replies were there."""
    model = ScriptedModel(["a lamp", "the lamp is dark", "a bright lamp", "no issues"])
    graph = build_refine_graph(model, checkpointer=saver)
    once = invoke(graph, TASK, LAMP, is_async=is_async)
    again = invoke(graph, None, first_checkpoint(graph, LAMP), is_async=is_async)
    assert (again["answer"], again["stop_reason"]) == (once["answer"], "accepted")
    assert len(model.calls) == 4 == len(saver.journal.calls("lamp"))
    assert again["usage"]["reused_calls"] == 4
    assert "reused_calls" not in once["usage"]
    assert {**again["usage"], "seconds": 0, "reused_calls": 0} == {**once["usage"], "seconds": 0, "reused_calls": 0}
    saver.delete_thread("lamp")
    assert saver.journal.calls("lamp") == []


def test_a_step_that_failed_halfway_is_counted_once(saver: Any, is_async: bool) -> None:
    """Resumed twice after its second call failed, a critic's first call stands once in the record's usage, so a budget
    that has room for the three calls is not spent by them; a server's ceiling counts what is really asked."""
    model = ScriptedModel(["a lamp", "it is fine", ConnectionError("gone"), ConnectionError("gone"), "so it is"])

    async def ask_twice(task: str, draft: str, history: Any, /) -> Critique:
        await model.ainvoke("First?")
        return Critique((await model.ainvoke("Second?")).text, accepted=True)

    limits = {"max_rounds": 1, "max_tokens": 11}
    graph = build_refine_graph(model, critics=[ask_twice], checkpointer=saver, limits=limits)
    ceiling = CallCeiling(None, refuse=lambda used: None, settle=lambda used: None)
    with under_ceiling(ceiling):
        out = invoke(graph, {"task": "Write."}, LAMP, is_async=is_async)
        for _ in range(2):
            assert (out["stop_reason"], out["usage"]["calls"]) == ("failed", 2)
            out = Thread(graph, "lamp").resume()
    assert (out["stop_reason"], out["usage"]["calls"], out["usage"]["total_tokens"]) == ("accepted", 3, 11)
    assert (len(model.calls), ceiling.used["total_tokens"]) == (5, 11)
    assert "reused_calls" not in out["usage"]
    assert Thread(graph, "lamp").replay().matches


def test_a_draft_that_a_budget_cut_short_is_no_failed_try(saver: Any, is_async: bool) -> None:
    """What it cost is its own, however often the run is resumed; only failures say that the next try counts less."""
    model = ScriptedModel(["one", "two"])

    twice = RunnableLambda(lambda state: [model.invoke("First?"), model.invoke("Second?")][-1])
    graph = build_refine_graph(twice, critics=[reject], checkpointer=saver, limits={"max_tokens": 2})
    out = invoke(graph, {"task": "Write."}, LAMP, is_async=is_async)
    assert (out["stop_reason"], out["usage"]["calls"]) == ("token_budget", 1)
    assert [event["kind"] for event in out["events"] if "kept" in event] == []


def test_a_run_reads_once_which_replies_there_are(saver: Any, is_async: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new thread asks the database for no reply, and one that goes on asks once, however many calls it makes; a run
    that stood still for so long that another could have had its thread asks before each."""
    if not isinstance(saver.journal, Journal):
        return  # memory is not asked
    asked: list[str] = []
    query = saver._query

    def noted(statement: str, values: Any) -> Any:
        asked.extend([statement] if "FROM redraft_journal" in statement and "redraft_leases" not in statement else [])
        return query(statement, values)

    monkeypatch.setattr(saver, "_query", noted)
    graph = build_refine_graph(ScriptedModel([f"lamp {n}" for n in range(9)]), critics=[reject], checkpointer=saver)
    invoke(graph, {**TASK, "limits": {"max_rounds": 2}}, LAMP, is_async=is_async)
    assert asked == []
    invoke(graph, TASK, LAMP, is_async=is_async)
    assert len(asked) == 1
    hours = itertools.count(step=3600)
    monkeypatch.setattr(lease_keeper, "CLOCK", lambda: float(next(hours)))
    invoke(graph, TASK, LAMP, is_async=is_async)
    assert len(asked) == 1 + 1 + 2


@pytest.mark.parametrize("key", [None, "5a" * 32], ids=["plain", "encrypted"])
def test_a_text_that_the_record_has_is_kept_once(key: str | None, is_async: bool, tmp_path: Path) -> None:
    """A long reply stands in the journal until its step is saved, and then in the record alone; the run is gone through
    again without a call, here and in the database that a file of it is imported into. One whose text is gone is
    refused."""
    verdict = " ".join(f"Line {number} lacks the lamp." for number in range(100))
    draft, last = "a lamp" * 250, "a bright lamp" * 100
    model = ScriptedModel([draft, verdict, last, "no issues"])
    path = tmp_path / "runs.sqlite"
    with open_checkpointer(path, key=key) as saver, open_checkpointer("memory") as other:
        graph = build_refine_graph(model, checkpointer=saver)
        once = invoke(graph, TASK, LAMP, is_async=is_async)
        again = invoke(graph, None, first_checkpoint(graph, LAMP), is_async=is_async)
        assert again["answer"] == once["answer"] == last
        with closing(sqlite3.connect(path)) as table:
            sizes = [size for (size,) in table.execute("SELECT length(reply) FROM redraft_journal")]
        assert max(sizes) < 1000
        replies = {call: saver.journal.get("lamp", call) for call in saver.journal.calls("lamp")}
        other.import_thread(saver.export_thread("lamp"))
        assert {call: other.journal.get("lamp", call) for call in other.journal.calls("lamp")} == replies
        moved = build_refine_graph(model, checkpointer=other)
        assert invoke(moved, None, first_checkpoint(moved, LAMP), is_async=is_async)["usage"]["reused_calls"] == 4
        assert len(model.calls) == 4
        if key is None:
            with closing(sqlite3.connect(path)) as table, table:
                table.execute("DELETE FROM writes WHERE channel = 'events'")
            with pytest.raises(ValueError, match=r"journal of thread 'lamp' holds under .* has no event of its text"):
                list(map(partial(saver.journal.get, "lamp"), replies))


def test_samples_of_one_prompt_stay_different(saver: Any, is_async: bool) -> None:
    """Of three samples the third can't be had: only that one is asked for after it, and none is a copy of another."""
    model = ScriptedModel(["it is 4", "it is 5", ConnectionError("gone"), "it is 5, too"])
    writer = MajorityWriter(model, "{task}", samples=3, answer=extract_number)
    graph = build_refine_graph(generate=writer, refine=writer, critics=[reject], checkpointer=saver)
    given: Any = {"task": "2 + 3?", "limits": {"max_rounds": 0}}
    with pytest.raises(ConnectionError):
        invoke(graph, given, {**LAMP, "max_concurrency": 1}, is_async=is_async)
    thread = Thread(graph, "lamp")
    out = asyncio.run(thread.aresume()) if is_async else thread.resume()
    assert out["answer"] in ("it is 5", "it is 5, too")
    assert (len(model.calls), out["usage"]["calls"]) == (4, 3)


def test_a_later_round_asks_anew(saver: Any) -> None:
    """A prompt that is the same in each round, as best-of-N has it, is a call in each."""
    model = ScriptedModel(["one", "two", "three"])
    same = {"generate_prompt": "{task}", "refine_prompt": "{task} {feedback}"}
    graph = build_refine_graph(model, critics=[reject], checkpointer=saver, **same)
    out = graph.invoke({**TASK, "limits": {"max_rounds": 2}}, LAMP)
    assert [event["text"] for event in out["events"] if event["kind"] in ("draft", "revision")] == [
        "one",
        "two",
        "three",
    ]


def test_another_run_pays(saver: Any) -> None:
    """The same task given to the thread once more, a fork and a rerun are runs of their own."""
    model = ScriptedModel([f"text {number}" for number in range(7)])
    graph = build_refine_graph(model, critics=[reject], checkpointer=saver)
    graph.invoke(TASK, LAMP)
    graph.invoke(TASK, LAMP)
    thread = Thread(graph, "lamp")
    thread.fork(at=0, thread_id="other").resume()
    assert len(model.calls) == 5
    thread.rerun()
    assert len(model.calls) == 7


@pytest.mark.parametrize("reply", [{"text": " "}, {"message": {"refusal": "No."}}], ids=["empty", "refused"])
def test_a_first_draft_that_is_none_is_asked_for_again(reply: dict[str, Any], serve: Any, tmp_path: Path) -> None:
    """Resumed after an empty or refused first draft, a run gets another one, not the same words from the journal."""
    server = serve([reply, "a lamp"])
    with open_checkpointer(str(tmp_path / "runs.sqlite")) as saver:
        graph = build_refine_graph(chat_model(server.spec), critics=[reject], checkpointer=saver)
        with pytest.raises(ValueError, match=r"came back empty|was refused: No."):
            graph.invoke({**TASK, "limits": {"max_rounds": 0}}, LAMP)
        assert saver.journal.calls("lamp") == []
        assert Thread(graph, "lamp").resume()["answer"] == "a lamp"
    assert len(server.requests) == 2


def test_a_reply_that_a_node_fails_on_is_forgotten(saver: Any) -> None:
    """A critic that can't read a verdict fails the run; resumed, it is asked anew, and not failed by the same words."""
    judge = ScriptedModel(["score: many", "score: 1"])

    def critic(task: str, draft: str, history: Any, /) -> Critique:
        return Critique("", accepted=True, score=float(judge.invoke(f"Judge: {draft}").text.removeprefix("score: ")))

    graph = build_refine_graph(ScriptedModel(["a lamp"]), critics=[critic], checkpointer=saver)
    assert graph.invoke(TASK, LAMP)["stop_reason"] == "failed"
    assert Thread(graph, "lamp").resume()["stop_reason"] == "accepted"
    assert len(judge.calls) == 2


def test_a_node_that_a_model_let_down_keeps_what_others_said(saver: Any, is_async: bool) -> None:
    """A critic asks two models, and the second is away: resumed, only the second is asked."""
    first, second = ScriptedModel(["good"]), ScriptedModel([TimeoutError("slow"), "good"])

    def critic(task: str, draft: str, history: Any, /) -> Critique:
        said = [model.invoke(f"Judge: {draft}").text for model in (first, second)]
        return Critique("", accepted=said == ["good", "good"])

    graph = build_refine_graph(ScriptedModel(["a lamp"]), critics=[critic], checkpointer=saver)
    assert invoke(graph, TASK, LAMP, is_async=is_async)["stop_reason"] == "failed"
    thread = Thread(graph, "lamp")
    out = asyncio.run(thread.aresume()) if is_async else thread.resume()
    assert out["stop_reason"] == "accepted"
    assert (len(first.calls), len(second.calls)) == (1, 2)


def test_a_run_that_saves_at_its_end_only_pays_nothing_twice(saver: Any) -> None:
    """With `durability="exit"` a run that is broken off has no checkpoint; begun again, it makes the missing calls."""

    class Killed(BaseException):
        pass

    def last(messages: Any) -> str:
        if len(model.calls) == 3:
            raise Killed
        return "a bright lamp"

    model = ScriptedModel(["a lamp", "the lamp is dark", last, last, "no issues"])
    graph = build_refine_graph(model, checkpointer=saver)
    with pytest.raises(Killed):
        graph.invoke(TASK, LAMP, durability="exit")
    # as a SIGKILL leaves it: no checkpoint, but the journal
    replies = [(call, saver.journal.get("lamp", call)) for call in saver.journal.calls("lamp")]
    saver.delete_thread("lamp")
    for call, reply in replies:
        saver.journal.add("lamp", call, reply)
    out = graph.invoke(TASK, LAMP, durability="exit")
    assert (out["answer"], out["stop_reason"], out["usage"]["reused_calls"]) == ("a bright lamp", "accepted", 2)
    assert len(model.calls) == 5


def test_budgets_decide_the_same_the_second_time(saver: Any) -> None:
    """Tokens and seconds of a reply that was there already count, so the run stops where it stopped."""
    texts = [{"text": word, "input_tokens": 10, "output_tokens": 10} for word in ("a", "b", "c", "d")]
    model = ScriptedModel(texts)
    graph = build_refine_graph(model, critics=[reject], checkpointer=saver)
    given: Any = {"task": "Write.", "limits": {"max_rounds": 9, "max_tokens": 50}}
    once = graph.invoke(given, LAMP)
    again = graph.invoke(None, first_checkpoint(graph, LAMP))
    assert (once["stop_reason"], once["rounds"]) == (again["stop_reason"], again["rounds"]) == ("token_budget", 2)
    call = saver.journal.calls("lamp")[0]
    kept = saver.journal.get("lamp", call)
    saver.journal.forget("lamp", [call])
    saver.journal.add("lamp", call, type(kept)(kept.reply, 100.0))
    assert graph.invoke(None, first_checkpoint(graph, LAMP))["usage"]["seconds"] >= 100
    assert len(model.calls) == 3


def test_a_row_that_is_no_reply_is_refused_by_name(tmp_path: Path) -> None:
    """Whoever wrote into the table, what stands there is validated: no object is built, no call is made, it is told."""
    model = ScriptedModel(["a lamp"])
    poisons = ['["__reduce__"]', '[{"content": 3}]', "gASV", '[{"lc": 1, "type": "constructor", "id": ["os"]}]', "[]"]
    astray = ['{"at":["","1","2"],"reply":[{}]}', '{"at":7}', '{"at":', '{"at":["","1","2"],"reply":[7]}']
    refusals = dict.fromkeys(poisons, "the journal of thread 'lamp' holds something else than a reply")
    refusals |= dict.fromkeys(astray, "what the journal of thread 'lamp' holds under .* is refused")
    with open_checkpointer(str(tmp_path / "runs.sqlite")) as saver:
        graph = build_refine_graph(model, critics=[reject], checkpointer=saver, limits={"max_rounds": 0})
        graph.invoke({"task": "Write."}, LAMP)
        for poison, refusal in refusals.items():
            with closing(sqlite3.connect(tmp_path / "runs.sqlite")) as table, table:
                table.execute("UPDATE redraft_journal SET reply = ?", (poison,))
            with pytest.raises(ValueError, match=refusal):
                graph.invoke(None, first_checkpoint(graph, LAMP))
    assert len(model.calls) == 1


def test_the_table_holds_no_question_and_no_key(serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was asked and with which key can't be read off the journal: its rows are hashes and replies."""
    monkeypatch.setenv("REDRAFT_API_KEY", "sk-very-secret")
    server = serve(lambda request: "a text")
    with open_checkpointer(str(tmp_path / "runs.sqlite")) as saver:
        graph = build_refine_graph(chat_model(server.spec), critics=[reject], checkpointer=saver)
        graph.invoke({"task": "About the password hunter2.", "limits": {"max_rounds": 0}}, LAMP)
    with closing(sqlite3.connect(tmp_path / "runs.sqlite")) as table, table:
        rows = str(table.execute("SELECT * FROM redraft_journal").fetchall())
    assert "a text" in rows
    assert not any(secret in rows for secret in ("sk-very-secret", "hunter2"))


def test_other_settings_are_other_calls(serve: Any, tmp_path: Path) -> None:
    """A thread that goes on with another temperature, limit of tokens or server asks that one."""
    server, asked = serve(lambda request: f"text {len(server.requests)}"), []
    settings: list[dict[str, Any]] = [{}, {"temperature": 0.3}, {"max_output_tokens": 50}, {"seed": 4}]
    with open_checkpointer(str(tmp_path / "runs.sqlite")) as saver:
        for setting in [*settings, *settings]:
            model = chat_model(server.spec, **setting)
            graph = build_refine_graph(model, critics=[reject], checkpointer=saver, limits={"max_rounds": 0})
            started = graph.checkpointer.get_tuple(LAMP) is not None
            graph.invoke(*((None, first_checkpoint(graph, LAMP)) if started else ({"task": "Write."}, LAMP)))
            asked.append(len(server.requests))
    assert asked == [1, 2, 3, 4, 4, 4, 4, 4]


def test_equal_calls_in_flight_cost_one() -> None:
    """Of four callers that go through a run at once, in threads and in an event loop, one asks the model, and the
    others are told that the thread is being run."""
    began, go_on = threading.Event(), threading.Event()

    def slow(messages: Any) -> str:
        began.set()
        assert go_on.wait(60)
        return "a bright lamp"

    model = ScriptedModel(["a lamp", slow])
    with open_checkpointer("memory") as saver:
        graph = build_refine_graph(model, critics=[reject], checkpointer=saver, limits={"max_rounds": 0})
        graph.invoke({"task": "Write."}, LAMP)
        saver.journal.forget("lamp")
        first, answers = first_checkpoint(graph, LAMP), []

        def run() -> None:
            try:
                answers.append(graph.invoke(None, first)["answer"])
            except BusyThreadError:
                answers.append("busy")

        async def arun() -> None:
            found = await asyncio.gather(*[graph.ainvoke(None, first) for _ in "ab"], return_exceptions=True)
            answers.extend("busy" if isinstance(one, BusyThreadError) else str(one) for one in found)

        callers = [threading.Thread(target=run) for _ in "ab"] + [threading.Thread(target=asyncio.run, args=(arun(),))]
        callers[0].start()
        assert began.wait(60)
        for other in callers[1:]:
            other.start()
            other.join(60)
        go_on.set()
        callers[0].join(60)
    assert answers == ["busy", "busy", "busy", "a bright lamp"]
    assert len(model.calls) == 2


def test_a_reply_that_is_there_is_streamed_at_once(tmp_path: Path) -> None:
    """Who follows the messages of a run that is gone through again sees each reply, in one piece."""
    with open_checkpointer("memory") as saver:
        graph = build_refine_graph(ScriptedModel(["a small lamp"]), critics=[reject], checkpointer=saver)
        given: Any = {"task": "Write.", "limits": {"max_rounds": 0}}
        pieces = [part.text for part, _ in graph.stream(given, LAMP, stream_mode="messages")]
        again = [part.text for part, _ in graph.stream(None, first_checkpoint(graph, LAMP), stream_mode="messages")]
    assert (len(pieces) > 1, "".join(pieces)) == (True, "a small lamp")
    assert again == ["a small lamp"]


def test_structured_verdicts_are_kept(saver: Any, is_async: bool) -> None:
    """A judge with structured output is not asked again either, and its verdict reads the same."""
    verdict = {"structured": {"feedback": "fine", "score": 0.9, "accepted": True}}
    judge = ScriptedModel([verdict], structured=True, model_name="judge")
    graph = build_refine_graph(ScriptedModel(["a lamp"]), critics=[model_critic(judge)], checkpointer=saver)
    once = invoke(graph, TASK, LAMP, is_async=is_async)
    again = invoke(graph, None, first_checkpoint(graph, LAMP), is_async=is_async)
    assert (again["stop_reason"], again["score"]) == (once["stop_reason"], once["score"]) == ("accepted", 0.9)
    assert len(judge.calls) == 1


@pytest.fixture
def own_cache() -> Iterator[InMemoryCache]:
    cache = InMemoryCache()
    set_llm_cache(cache)
    yield cache
    set_llm_cache(None)


def test_a_cache_of_the_users_own_stays_in_place(own_cache: InMemoryCache) -> None:
    """Whoever set LangChain's cache finds it as it was, and it answers what the journal does not know."""
    model = ScriptedModel(["a lamp"])
    with open_checkpointer("memory") as saver:
        graph = build_refine_graph(model, critics=[reject], checkpointer=saver, limits={"max_rounds": 0})
        graph.invoke({"task": "Write."}, LAMP)
        assert graph.invoke({"task": "Write."}, {"configurable": {"thread_id": "other"}})["answer"] == "a lamp"
    assert len(model.calls) == 1
    assert get_llm_cache() is own_cache


def test_other_code_of_the_process_does_not_see_the_journal(own_cache: InMemoryCache, is_async: bool) -> None:
    """While a node's call is made, LangChain's cache is the user's, in other threads and in the node itself."""
    outside = ScriptedModel(["paid for once"])
    outside.invoke("Who?")
    seen: list[Any] = []

    def look() -> None:
        seen.append(
            (get_llm_cache() is own_cache, chat_models.get_llm_cache() is own_cache, outside.invoke("Who?").text)
        )

    def meanwhile(messages: Any) -> str:
        seen.append(get_llm_cache() is own_cache)
        other = threading.Thread(target=look)
        other.start()
        other.join(60)
        return "a lamp"

    model = ScriptedModel([meanwhile])
    with open_checkpointer("memory") as saver:
        graph = build_refine_graph(model, critics=[reject], checkpointer=saver, limits={"max_rounds": 0})
        assert invoke(graph, {"task": "Write."}, LAMP, is_async=is_async)["answer"] == "a lamp"
        assert len(saver.journal.calls("lamp")) == 1
    assert seen == [True, (True, True, "paid for once")]
    assert (len(model.calls), len(outside.calls)) == (1, 1)


async def test_other_tasks_of_the_loop_do_not_see_the_journal(own_cache: InMemoryCache) -> None:
    """A task beside a graph finds the user's cache while the graph waits for its model, and keeps using it."""
    outside, began, go_on = ScriptedModel(["paid for once"]), asyncio.Event(), asyncio.Event()

    async def slow(state: Any) -> str:
        began.set()
        await go_on.wait()
        return (await ScriptedModel(["a lamp"]).ainvoke("Write.")).text

    async with open_checkpointer("memory") as saver:
        graph = build_refine_graph(
            generate=slow, refine=slow, critics=[reject], checkpointer=saver, limits={"max_rounds": 0}
        )
        running = asyncio.create_task(graph.ainvoke({"task": "Write."}, LAMP))
        await began.wait()
        said = [(await outside.ainvoke("Who?")).text for _ in "ab"]
        assert get_llm_cache() is chat_models.get_llm_cache() is own_cache
        go_on.set()
        assert (await running)["answer"] == "a lamp"
        assert len(saver.journal.calls("lamp")) == 1
    assert (said, len(outside.calls)) == (["paid for once"] * 2, 1)


def test_models_with_a_cache_of_their_own_or_none_take_no_part() -> None:
    """A model built with `cache=False`, or with a cache of its own, is asked as it is anywhere else."""
    unkept, own = ScriptedModel(["a lamp", "a lamp"]), ScriptedModel(["no issues"])
    unkept.cache, own.cache = False, InMemoryCache()
    with open_checkpointer("memory") as saver:
        graph = build_refine_graph(unkept, critics=[model_critic(own)], checkpointer=saver)
        graph.invoke(TASK, LAMP)
        graph.invoke(None, first_checkpoint(graph, LAMP))
        assert saver.journal.calls("lamp") == []
    assert (len(unkept.calls), len(own.calls)) == (2, 1)


def test_chains_inside_a_node_take_part(saver: Any, is_async: bool) -> None:
    """Models in a chain, side by side, and in a critic of the user's own are found in the journal as well."""
    model, judge = ScriptedModel(["a lamp", "a lamp"]), ScriptedModel(["good"])
    writer = RunnableParallel(one=model, other=model) | RunnableLambda(lambda replies: replies["one"])

    async def critic(task: str, draft: str, history: Any, /) -> Critique:
        said = await (RunnableLambda(str.strip) | judge).ainvoke(draft)
        return Critique("", accepted=said.text == "good")

    graph = build_refine_graph(
        generate=RunnableLambda(lambda values: values["task"]) | writer,
        refine=model,
        critics=[critic],
        checkpointer=saver,
    )
    invoke(graph, TASK, LAMP, is_async=is_async)
    again = invoke(graph, None, first_checkpoint(graph, LAMP), is_async=is_async)
    assert (again["stop_reason"], again["usage"]["reused_calls"]) == ("accepted", 3)
    assert (len(model.calls), len(judge.calls)) == (2, 1)


def test_a_langchain_without_a_place_for_the_journal_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where chat models find their cache in another way no run pays twice unnoticed: it says so before a call."""
    monkeypatch.delattr(chat_models, "get_llm_cache")
    model = ScriptedModel(["a lamp"])
    with open_checkpointer("memory") as saver:
        graph = build_refine_graph(model, critics=[reject], checkpointer=saver)
        with pytest.raises(RuntimeError, match="pass journal=False"):
            graph.invoke(TASK, LAMP)
    assert model.calls == []


async def test_keeping_a_reply_blocks_no_event_loop(tmp_path: Path) -> None:
    """While another process holds the database file, the loop goes on: one of its tasks lets the file go."""
    path, ticks, held, loop = tmp_path / "runs.sqlite", 0, asyncio.Event(), asyncio.get_running_loop()
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)

    def hold(messages: Any) -> str:
        holder.execute("BEGIN IMMEDIATE")
        loop.call_soon_threadsafe(held.set)
        return "a lamp"

    async def let_go() -> None:
        nonlocal ticks
        await held.wait()
        for ticks in range(1, 101):  # noqa: B007  # counted for the test
            await asyncio.sleep(0)
        holder.execute("COMMIT")

    async with open_checkpointer(str(path)) as saver:
        graph = build_refine_graph(
            ScriptedModel([hold]), critics=[reject], checkpointer=saver, limits={"max_rounds": 0}
        )
        letting_go = asyncio.create_task(let_go())
        assert (await graph.ainvoke({"task": "Write."}, LAMP))["answer"] == "a lamp"
        await letting_go
        assert (ticks, len(saver.journal.calls("lamp"))) == (100, 1)
    holder.close()


def test_a_journal_can_be_left_out_or_insisted_on() -> None:
    """`journal=False` keeps nothing, a run can say so too, and `journal=True` beside a plain saver is refused."""
    with open_checkpointer("memory") as saver:
        graph = build_refine_graph(ScriptedModel(["a"]), critics=[reject], checkpointer=saver, journal=False)
        graph.invoke({"task": "Write.", "limits": {"max_rounds": 0}}, LAMP)
        graph = build_refine_graph(ScriptedModel(["a"]), critics=[reject], checkpointer=saver)
        switched_off: Any = {"configurable": {"thread_id": "off", JOURNAL: False}}
        graph.invoke({"task": "Write.", "limits": {"max_rounds": 0}}, switched_off)
        assert saver.journal.calls("lamp") == saver.journal.calls("off") == []
    with pytest.raises(ValueError, match="open_checkpointer"):
        build_refine_graph(ScriptedModel(["a"]), checkpointer=InMemorySaver(), journal=True)
    with pytest.raises(TypeError, match="'yes'"):
        build_refine_graph(ScriptedModel(["a"]), journal="yes")  # type: ignore[arg-type]
    unkept = build_refine_graph(ScriptedModel(["a"]), journal=True)
    with pytest.raises(ValueError, match="in the graph around"):
        unkept.invoke({"task": "Write."})
