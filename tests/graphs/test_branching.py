"""Branch search: which paths are explored and paid for, which is the answer, and that each is a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda
from langgraph.errors import GraphDrained
from langgraph.graph import START, MessagesState, StateGraph
from redraft.graphs.branching import Variation, build_branching_graph
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.nodes.critics.critics import human_critic, model_critic, verifier_critic
from redraft.nodes.search.ranking import PairwiseJudge
from redraft.nodes.search.shared_budget import Turns
from redraft.state import Critique, Limits, Thread, open_checkpointer
from redraft.state.storage.group_writer import Statement
from redraft.state.threads.replay import replay_record
from redraft.state.threads.thread import BusyThreadError

TASK = {"task": "Find the gem."}
CONFIG: Any = {"configurable": {"thread_id": "s"}}

# What "left" and "right" make of a draft: the way to the gem begins with the worse one.
TREE = {
    "": ("stone", "mud"),
    "stone": ("stone, cut", "stone, wet"),
    "mud": ("mud, dried", "ore"),
    "stone, cut": ("stone, set", "stone, cut twice"),
    "ore": ("slag", "gem"),
}
SCORES = {"stone": 0.5, "mud": 0.4, "stone, cut": 0.55, "stone, wet": 0.3, "mud, dried": 0.2, "ore": 0.52, "gem": 1.0}
SIDES = [
    Variation("left", generate_prompt="left||{task}", refine_prompt="left|{draft}|{feedback}"),
    Variation("right", generate_prompt="right||{task}", refine_prompt="right|{draft}|{feedback}"),
]


def grow(messages: list[Any]) -> str:
    """Reply by what is asked, whatever the order of the calls."""
    side, draft, _ = messages[-1].text.split("|", 2)
    return TREE.get(draft, (f"{draft}!", f"{draft}?"))[side == "right"]


def assay(task: str, draft: str) -> Critique:
    return Critique(f"{draft} is no gem", accepted=draft == "gem", score=SCORES.get(draft, 0.1))


def search(model: Any, **options: Any) -> Any:
    given = {"critics": [verifier_critic(assay)], "vary": SIDES, "branching_factor": 2, "depth": 2, **options}
    return build_branching_graph(model, **given)


def names(output: Any) -> list[str]:
    return [path["name"] for path in output["branches"]]


@pytest.fixture(params=["memory", "sqlite"])
def kept(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    """A saver of each kind that needs no server."""
    with open_checkpointer("memory" if request.param == "memory" else str(tmp_path / "runs.sqlite")) as saver:
        yield saver


@pytest.mark.parametrize(
    ("beam_width", "answer", "calls"), [(1, "stone, cut", 2 + 2 + 2), (2, "gem", 2 + 4 + 4), (9, "gem", 2 + 4 + 8)]
)
def test_a_wider_beam_finds_what_the_greedy_path_misses(run: Any, beam_width: int, answer: str, calls: int) -> None:
    """Where the best draft comes of the second best one, two paths find it, and one alone does not."""
    model = ScriptedModel([grow] * 20)
    output = run(search(model, beam_width=beam_width, stop_when="exhausted"), TASK)

    assert (output["answer"], len(model.calls), output["usage"]["calls"]) == (answer, calls, calls)
    assert output["stop_reason"] == ("accepted" if answer == "gem" else "max_rounds")
    assert output["score"] == SCORES[answer]
    assert output["accepted_by"] == ("assay" if answer == "gem" else None)
    assert output["rounds"] == 2
    assert len(output["branches"]) == calls
    assert {path["thread_id"] for path in output["branches"]} == {None}


def test_without_levels_it_is_best_of_n(run: Any) -> None:
    """`depth=0` writes that many drafts and answers with the best, and nothing is revised."""
    texts = ["mud", "stone", "clay"]
    model = ScriptedModel(texts)
    output = run(search(model, vary=(), branching_factor=3, depth=0), TASK)

    assert (output["answer"], output["stop_reason"], output["rounds"]) == ("stone", "max_rounds", 0)
    assert [call[0].text for call in model.calls] == [TASK["task"]] * 3
    assert sorted(path["answer"] for path in output["branches"]) == sorted(texts)


@pytest.mark.parametrize(
    ("replies", "limits"),
    [
        (["one", "too short", "one two", "no issues"], {}),
        (["one", "bad", "two", "bad", "three", "bad", "four", "bad"], {}),
        (["one", "bad", "No changes needed.", "three", "bad", "four", "bad"], {}),
        (["one", "bad", "one"], {}),
        (["one", "bad", "two"], {"max_tokens": 40}),
        (["one", "bad", RuntimeError("down")], {}),
        (["one", "bad", "two", "bad", "three", "bad"], {"patience": 2}),
        (["one", "bad"], {"max_rounds": 0}),
    ],
    ids=["accepted", "max_rounds", "meta", "repeat", "tokens", "failed", "patience", "none"],
)
def test_one_path_is_the_plain_loop(run: Any, replies: list[Any], limits: dict[str, Any]) -> None:
    """`branching_factor=1` makes the same calls as the loop with that many rounds, and has the same result."""
    plain, single = ScriptedModel(replies), ScriptedModel(replies)
    loop = run(build_refine_graph(plain, limits={"max_rounds": 3, **limits}), TASK)
    path = run(build_branching_graph(single, branching_factor=1, depth=3, limits=limits), TASK)

    assert single.calls == plain.calls
    for key in ("answer", "stop_reason", "rounds", "score", "accepted_by"):
        assert path[key] == loop[key], key
    assert path["usage"]["total_tokens"] == loop["usage"]["total_tokens"]
    assert [event["kind"] for event in path["events"]] == [*(event["kind"] for event in loop["events"]), "verdict"]


def test_each_path_is_a_thread_with_its_parent_and_checkpoints(run: Any, kept: Any) -> None:
    """`tree` shows every path with score and stop reason, each replays, and each can be resumed or forked further."""
    model = ScriptedModel([grow] * 10)
    graph = search(model, beam_width=2, checkpointer=kept)
    output = run(graph, TASK, CONFIG)

    tree = Thread(graph, "s").tree()
    assert (tree.thread_id, tree.row.score, tree.row.stop_reason) == ("s", 1.0, "accepted")  # type: ignore[union-attr]
    assert {child.thread_id for child in tree.children} == {"s/b0.1", "s/b0.2"}
    second = next(child for child in tree.children if child.thread_id == "s/b0.2")
    assert {child.row.score for child in second.children} == {0.4, 0.52}  # type: ignore[union-attr]
    winner = next(path for path in output["branches"] if path["answer"] == "gem")
    ore = next(path for path in output["branches"] if path["answer"] == "ore")
    assert (winner["parent"], ore["parent"]) == (ore["thread_id"], "s/b0.2")
    assert winner["variation"] == "right"

    loop = build_refine_graph(ScriptedModel(["gem"]), critics=[verifier_critic(assay)], checkpointer=kept)
    for path in output["branches"]:
        thread = Thread(loop, path["thread_id"])
        assert thread.replay().matches, thread.replay().differences
        assert thread.replay().output["answer"] == path["answer"]
        assert len(thread.history()) >= 3
        assert kept.runs.get(path["thread_id"]).stop_reason == path["stop_reason"]
    fork = Thread(loop, "s/b0.1").fork(at=0, feedback="Another.", limits={"max_rounds": 1}, thread_id="other")
    assert fork.resume()["answer"] == "gem"
    assert [event["text"] for event in fork.replay().output["events"] if event["kind"] == "revision"] == ["gem"]
    assert kept.runs.get("other").parent_thread_id == "s/b0.1"
    assert Thread(loop, ore["thread_id"]).resume({"max_rounds": 1}, allow_changes=True)["answer"] == "ore"


def test_the_record_of_the_best_path_is_the_record_of_the_search(run: Any, kept: Any) -> None:
    """The events are linked and replay to the output, with the cost of all paths, also for a second task."""
    graph = search(ScriptedModel([grow] * 20), beam_width=2, checkpointer=kept)
    for number in (1, 2):
        output = run(graph, TASK, CONFIG)
        replay = Thread(graph, "s").replay()
        assert replay.matches, replay.differences
        assert replay.output["usage"]["calls"] == 10
        values = graph.get_state(CONFIG).values
        assert replay_record(values).matches
        events = output["events"][-11:]
        texts = [event["text"] for event in events if event["kind"] in ("task", "draft", "revision")]
        assert texts == [TASK["task"], "mud", "ore", "gem"]
        assert events[-1]["by"] == "select"
        assert events[-1]["branch"] == next(path["name"] for path in output["branches"] if path["answer"] == "gem")
        assert output["branches"][0]["thread_id"] == ("s/b0.1" if number == 1 else "s/2/b0.1")
        assert len(output["branches"]) == 10


class Killed(BaseException):
    """Not caught by anything, as a kill is not."""


def killed_at(draft_in_hand: str) -> Any:
    """A verifier in the middle of which the process is killed, once."""
    alive = True

    def assay_once(task: str, draft: str) -> Critique:
        nonlocal alive
        if alive and draft == draft_in_hand:
            alive = False
            raise Killed
        return assay(task, draft)

    return verifier_critic(assay_once)


def check_going_on(run: Any, saver: Any, broken: str, again: str, *, at_once: int) -> None:
    """Break a search off once, and let it go on with the same graph or with one of another process."""
    model = ScriptedModel([grow] * 40)
    critics = [killed_at(broken)]
    made: Any = {"beam_width": 2, "stop_when": "exhausted", "max_concurrency": at_once, "critics": critics}
    graphs = [search(model, checkpointer=saver, **made) for _ in range(2)]
    with pytest.raises(Killed):
        run(graphs[0], TASK, CONFIG)
    graph = graphs[again == "new"]
    output = run(graph, None, CONFIG)

    assert (output["answer"], output["stop_reason"]) == ("gem", "accepted")
    assert (len(model.calls), output["usage"]["calls"]) == (10, 10)
    assert run(graph, None, CONFIG)["answer"] == "gem"
    assert len(model.calls) == 10


BROKEN = [("mud", "same"), ("mud", "new"), ("ore", "same"), ("gem", "new")]
"""The last of its level each, so that no other begins while this one dies."""


@pytest.mark.parametrize(("broken", "again"), BROKEN)
def test_a_search_that_broke_off_goes_on(run: Any, kept: Any, broken: str, again: str) -> None:
    """Invoked with `None`, in this process or another, it makes the calls that are missing and no other."""
    check_going_on(run, kept, broken, again, at_once=1)


@pytest.mark.parametrize(("broken", "again"), BROKEN)
def test_what_was_under_way_beside_it_is_not_paid_twice(kept: Any, broken: str, again: str) -> None:
    """Paths that ran while another broke off have kept what they finished."""
    check_going_on(lambda graph, given, config: graph.invoke(given, config), kept, broken, again, at_once=4)


def test_a_search_that_was_to_be_saved_at_its_end_pays_nothing_twice(run: Any, tmp_path: Any) -> None:
    """Killed with `durability="exit"`, nothing of its own thread is kept; begun again it goes on with its paths, and
    deleted it takes them along, but not a path that was forked by hand."""
    model = ScriptedModel([grow] * 40)
    critics = [killed_at("ore")]
    with open_checkpointer(str(tmp_path / "runs.sqlite")) as saver:
        graph = search(model, checkpointer=saver, beam_width=2, critics=critics)
        with pytest.raises(Killed):
            run(graph, TASK, CONFIG)
        for table in ("checkpoints", "writes"):  # as a kill leaves it
            saver.writer.write(Statement(f"DELETE FROM {table} WHERE thread_id = 's'"))
        output = run(graph, TASK, CONFIG)
        assert (output["answer"], len(model.calls), output["usage"]["calls"]) == ("gem", 10, 10)
        paths = {path["thread_id"] for path in output["branches"]}
        assert {row.thread_id for row in saver.runs.list()} == {"s", *paths}
        again = run(graph, TASK, CONFIG)
        assert again["branches"][0]["thread_id"] == "s/2/b0.1"
        loop = build_refine_graph(model, critics=[verifier_critic(assay)], checkpointer=saver)
        Thread(loop, "s/b0.1").fork(at=0, thread_id="mine")
        saver.delete_thread("s")
        assert {row.thread_id for row in saver.runs.list()} == {"mine"}


@pytest.mark.parametrize("taken", ["s/b0.1", "s/b0.2", "s/b1.1"])
def test_a_thread_of_somebody_else_is_left_alone(run: Any, kept: Any, taken: str) -> None:
    """Where a path's name is taken by a thread that the search did not begin, the path gets another one."""
    config: Any = {"configurable": {"thread_id": taken}}
    run(build_refine_graph(ScriptedModel(["gem"]), critics=[verifier_critic(assay)], checkpointer=kept), TASK, config)
    stood = kept.get_tuple(config).checkpoint["id"]
    how: Any = {"critics": [killed_at("ore")], "beam_width": 2, "stop_when": "exhausted", "max_concurrency": 1}
    graph = search(ScriptedModel([grow] * 20), checkpointer=kept, **how)
    with pytest.raises(Killed):
        run(graph, {"task": "Another."}, CONFIG)
    output = run(graph, None, CONFIG)

    assert output["answer"] == "gem"
    assert (len(output["branches"]), output["usage"]["calls"]) == (10, 10)
    assert kept.get_tuple(config).checkpoint["id"] == stood
    ids = [path["thread_id"] for path in output["branches"]]
    assert (len(set(ids)), taken in ids) == (10, False)
    assert ids[:2] == (["s/b0.1", "s/b0.2"] if taken == "s/b1.1" else ["s/2/b0.1", "s/2/b0.2"])
    for thread_id in ids:
        assert kept.runs.get(thread_id).thread_id == thread_id


def test_a_path_is_run_by_one_at_a_time(run: Any, kept: Any) -> None:
    """While a search runs a path, whoever resumes that path's thread too is refused; afterwards it can be resumed."""
    seen: list[str] = []

    def look(task: str, draft: str) -> Critique:
        with pytest.raises(BusyThreadError):
            loop.resume()
        seen.append(draft)
        return Critique("no", accepted=False, score=0.1)

    model = ScriptedModel(["mud"])
    loop = Thread(build_refine_graph(model, critics=[opinion], checkpointer=kept), "s/b0.1")
    run(search(model, critics=[verifier_critic(look)], branching_factor=1, depth=0, checkpointer=kept), TASK, CONFIG)
    assert seen == ["mud"]
    assert loop.resume()["answer"] == "mud"


@pytest.mark.parametrize("stopped", ["s", "s/b0.1"])
def test_a_search_is_stopped_between_the_steps_of_its_paths(kept: Any, stopped: str) -> None:
    """`stop`, of the search or of one of its paths, waits for the step that is under way only; `resume` goes on."""
    asked: list[str] = []

    def stop(task: str, draft: str) -> Critique:
        if not asked:
            name = stopped if stopped == "s" else f"s/b0.{1 + (draft == 'mud')}"
            asked.append(Thread(graph, name).stop())
        return assay(task, draft)

    model = ScriptedModel([grow] * 20)
    how: Any = {"beam_width": 2, "stop_when": "exhausted", "max_concurrency": 1, "checkpointer": kept}
    graph = search(model, critics=[verifier_critic(stop)], **how)
    thread = Thread(graph, "s")
    with thread.stoppable() as control, pytest.raises(GraphDrained):
        graph.invoke(TASK, thread.config, control=control)
    assert (len(model.calls), len(asked)) == (1, 1)
    assert thread.resume()["answer"] == "gem"
    assert len(model.calls) == 10


def test_a_thread_resumes_a_search(kept: Any) -> None:
    """`Thread.resume` works on a search as on any graph."""
    graph = search(ScriptedModel([grow] * 40), critics=[killed_at("mud")], beam_width=2, checkpointer=kept)
    with pytest.raises(Killed):
        graph.invoke(TASK, CONFIG)
    assert Thread(graph, "s").resume()["answer"] == "gem"


def priced(text: str, tokens: int = 100) -> dict[str, Any]:
    return {"text": text, "input_tokens": tokens - 1, "output_tokens": 1}


@pytest.mark.parametrize(("max_tokens", "calls"), [(100, 1), (200, 2), (250, 3), (300, 3), (600, 6)])
def test_one_token_budget_holds_for_all_paths(run: Any, max_tokens: int, calls: int) -> None:
    """No call begins once all paths together have spent it, and the best draft so far is the answer."""
    model = ScriptedModel([priced(text) for text in ("mud", "stone", "clay", "sand", "salt", "lime", "tar")])
    graph = search(model, vary=(), branching_factor=2, depth=3, max_concurrency=1, limits={"max_tokens": max_tokens})
    output = run(graph, TASK)

    assert (len(model.calls), output["stop_reason"]) == (calls, "token_budget")
    assert output["answer"] == ("mud" if calls == 1 else "stone")
    assert output["usage"]["total_tokens"] == 100 * calls
    assert len(output["branches"]) == calls


def test_a_budget_holds_inside_a_path_too(run: Any) -> None:
    """What siblings spent counts before a path asks its critic."""
    judge = ScriptedModel([priced("bad")] * 9)
    model = ScriptedModel([priced("mud"), priced("stone")])
    graph = search(model, critics=[model_critic(judge)], vary=(), max_concurrency=1, limits={"max_tokens": 300})
    output = run(graph, TASK)

    assert (len(model.calls), len(judge.calls), output["stop_reason"]) == (2, 1, "token_budget")
    assert [path["stop_reason"] for path in output["branches"]] == ["max_rounds", "token_budget"]


def test_a_budget_outlasts_a_crash(run: Any, kept: Any) -> None:
    """What was paid before another process took over still counts."""
    model = ScriptedModel([priced("mud"), priced("stone"), priced("clay")])
    made: Any = {"vary": (), "depth": 2, "max_concurrency": 1, "limits": {"max_tokens": 200}, "checkpointer": kept}
    made["critics"] = [killed_at("stone")]
    with pytest.raises(Killed):
        run(search(model, branching_factor=3, **made), TASK, CONFIG)
    output = run(search(model, branching_factor=3, **made), None, CONFIG)

    assert (len(model.calls), output["stop_reason"], output["usage"]["total_tokens"]) == (2, "token_budget", 200)
    assert output["answer"] == "stone"


@pytest.mark.parametrize(
    ("limits", "revisions"), [({"max_rounds": 0}, 0), ({"max_rounds": 3}, 3), (Limits(), 3), ({"max_rounds": 99}, 8)]
)
def test_rounds_are_counted_over_all_paths(run: Any, limits: Any, revisions: int) -> None:
    """`max_rounds` is the most revisions of the whole search; by default it makes all that its levels need."""
    model = ScriptedModel([f"clay {number}" for number in range(20)])
    output = run(search(model, vary=(), beam_width=2), {**TASK, "limits": limits})

    assert (len(model.calls), output["stop_reason"]) == (2 + revisions, "max_rounds")


def test_other_budgets_stop_the_search_too(run: Any) -> None:
    """Dollars where no price is known, and seconds in calls, end it after the first draft."""
    for limit, reason in (("max_cost_usd", "cost_budget"), ("max_seconds", "time_budget")):
        model = ScriptedModel(["mud", "stone"])
        output = run(search(model, vary=(), max_concurrency=1), {**TASK, "limits": {limit: 0.0000001}})
        assert (len(model.calls), output["stop_reason"], output["answer"]) == (1, reason, "mud")


def test_one_path_at_a_time_is_streamed() -> None:
    """The narrowest bound holds where a search is streamed too, which LangGraph alone can't do synchronously."""
    graph = search(ScriptedModel([grow] * 10), beam_width=2, max_concurrency=1)
    items = list(graph.stream(TASK, stream_mode="custom"))
    begun = [item["branch"] for item in items if item["kind"] in ("start", "verdict") and "branch" in item]
    assert begun == sorted(begun)


@pytest.mark.parametrize(
    ("stop_when", "answers"), [("accepted", ["mud", "gem"]), ("exhausted", ["mud", "gem", "stone", "clay", "sand"])]
)
def test_an_accepted_path_ends_and_frees_its_budget(run: Any, stop_when: Any, answers: list[str]) -> None:
    """By default no further path begins once a draft is accepted; else the others go on, but that one does not."""
    model = ScriptedModel(["mud", "gem", "stone", "clay", "sand"])
    options: Any = {"vary": (), "branching_factor": 3, "depth": 1, "max_concurrency": 1, "limits": {"max_rounds": 2}}
    output = run(search(model, stop_when=stop_when, **options), TASK)

    assert (output["answer"], output["stop_reason"], len(model.calls)) == ("gem", "accepted", len(answers))
    assert all("Current draft:\ngem" not in call[0].text for call in model.calls)
    assert len(output["branches"]) == len(answers)
    assert {path["parent"] for path in output["branches"]} == {None}


def test_paths_run_at_once_but_not_too_many(run: Any) -> None:
    """The builder's bound holds, and so does a lower one of the caller's."""
    active, most, lock, together = 0, 0, threading.Lock(), threading.Barrier(1)

    def reply(messages: list[Any]) -> str:
        nonlocal active, most
        with lock:
            active += 1
            most = max(most, active)
            number = len(model.calls)
        together.wait(30)  # as many as may be begin before one ends
        with lock:
            active -= 1
        return f"clay {number}"

    for options, config, expected in (
        ({"max_concurrency": 2}, None, 2),
        ({"max_concurrency": 6}, {"max_concurrency": 3}, 3),
    ):
        most, together = 0, threading.Barrier(expected)
        model = ScriptedModel([reply] * 6)
        run(search(model, vary=(), branching_factor=6, depth=0, **options), TASK, config)
        assert most == expected


PREFERENCE = '{{"reason": "why", "better": "{}"}}'


def prefers(text: str) -> Any:
    """A judge that prefers one draft in whichever place it stands."""

    def reply(messages: list[Any]) -> str:
        first = messages[0].text.split("First draft:\n")[1].startswith(text)
        return PREFERENCE.format("first" if first else "second")

    return reply


def opinion(task: str, draft: str, history: Any) -> Critique:
    return Critique("so so", accepted=False, score={"mud": 0.5, "stone": 0.5, "clay": 0.4}.get(draft, 0.1))


@pytest.mark.parametrize(
    ("replies", "answer", "winners"),
    [
        ([prefers("clay")] * 4, "clay", [None, "b0.3"]),
        ([prefers("stone")] * 4, "stone", ["b0.2", "b0.2"]),
        ([PREFERENCE.format("second")] * 4, "mud", [None, None]),  # in both orders, so that the scores decide
        ([PREFERENCE.format("neither")] * 2, "mud", [None, None]),
        (["The second is better."] * 2, "mud", [None, None]),
        ([RuntimeError("down")] * 2, "mud", [None, None]),
    ],
    ids=["least-scored", "second", "contradiction", "neither", "unreadable", "down"],
)
def test_a_judge_is_asked_in_both_orders(run: Any, replies: list[Any], answer: str, winners: list[Any]) -> None:
    """Only who wins in both has won; answers that contradict each other, or can't be read, are a tie."""
    model, judge = ScriptedModel(["mud", "stone", "clay"]), ScriptedModel(replies, model_name="judge")
    graph = build_branching_graph(model, critics=[opinion], branching_factor=3, depth=0, judge=judge, max_concurrency=1)
    output = run(graph, TASK)

    assert (output["answer"], len(judge.calls)) == (answer, len(replies))
    assert output["usage"]["calls"] == 3 + sum(not isinstance(reply, Exception) for reply in replies)
    told = output["events"][-1]["evidence"]["comparisons"]
    assert [one["winner"] for one in told] == winners
    assert {len(one.get("reasons", [])) for one in told} == {len(replies) // 2 if "error" not in told[0] else 0}
    if len(replies) == 4:
        texts = [call[0].text for call in judge.calls[:2]]
        assert [text.index("mud") < text.index("stone") for text in texts] == [True, False]


def test_programs_are_not_overruled_by_a_judge(run: Any) -> None:
    """Where verifiers scored the drafts differently nobody is asked, and an accepted draft leads."""
    judge = ScriptedModel([])
    output = run(search(ScriptedModel([grow] * 10), beam_width=2, judge=judge), TASK)
    assert (output["answer"], judge.calls) == ("gem", [])


def test_a_function_judges_too_and_budgets_hold_for_the_judge(run: Any) -> None:
    """A judge can be a plain or async function; a model that judges costs what the search has."""

    async def longest(task: str, first: str, second: str) -> str:
        return "neither" if len(first) == len(second) else "first" if len(first) > len(second) else "second"

    model = ScriptedModel(["mud", "stone", "clay"])
    given: Any = {"critics": [opinion], "branching_factor": 3, "depth": 0, "max_concurrency": 1}
    assert run(build_branching_graph(model, judge=longest, **given), TASK)["answer"] == "stone"

    judge = ScriptedModel([priced(PREFERENCE.format("neither"))] * 4)
    model = ScriptedModel([priced("mud"), priced("stone"), priced("clay")])
    output = run(build_branching_graph(model, judge=judge, limits={"max_tokens": 310}, **given), TASK)
    assert (len(judge.calls), output["usage"]["total_tokens"]) == (1, 400)


async def test_a_function_that_judges_does_not_block_the_event_loop() -> None:
    """An async run goes on with its other tasks while a plain function compares two drafts."""
    loops: list[bool] = []

    def first(task: str, one: str, other: str) -> str:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            loops.append(False)
        else:
            loops.append(True)
        return "first"

    model = ScriptedModel(["mud", "stone"])
    graph = build_branching_graph(model, critics=[opinion], branching_factor=2, depth=0, judge=first)
    await graph.ainvoke(TASK)
    assert loops == [False, False]


def test_siblings_differ_in_what_varies(run: Any) -> None:
    """Variations are taken in turn: their models, prompts and critics write and judge."""
    base, other = ScriptedModel(["mud", "stone, cut"]), ScriptedModel(["stone", "mud!"], model_name="other")
    strict = verifier_critic(lambda task, draft: Critique("no", False, 0.9), name="strict")
    vary = [Variation(), Variation("other", model=other, critic=strict, refine_prompt="Polish {draft}: {feedback}")]
    output = run(search(base, vary=vary, depth=1, max_concurrency=1), TASK)

    assert [path["variation"] for path in output["branches"]] == ["1", "other", "1", "other"]
    assert [path["score"] for path in output["branches"]][:2] == [0.4, 0.9]
    assert [len(base.calls), len(other.calls)] == [2, 2]
    assert other.calls[1][0].text == "Polish stone: no"


class Tempered(ScriptedModel):
    """A scripted model that was built with a temperature, and notes the one it is asked with."""

    temperature: float | None = 0.0

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        ASKED.append(kwargs.get("temperature", self.temperature))
        return super()._generate(messages, stop, run_manager, **kwargs)


ASKED: list[Any] = []


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({}, [0.7, 0.7]),
        ({"branching_factor": 1}, [0.0]),
        ({"vary": [Variation(temperature=0.2), Variation(temperature=1)]}, [0.2, 1]),
    ],
)
def test_siblings_are_sampled(run: Any, options: Any, asked: list[float]) -> None:
    """A model built at temperature 0 would write the same twice, so that siblings are sampled, unless told how."""
    ASKED.clear()
    model = Tempered(["mud", "stone"])
    run(search(model, **{"vary": (), "depth": 0, "max_concurrency": 1, **options}), TASK)
    assert asked == ASKED


def test_paths_that_wait_run_in_the_order_of_their_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """One at a time, a search makes the same calls in the same order every time, whichever thread comes first."""
    turn, another_came = Turns.turn, threading.Event()

    def late(turns: Turns, name: str, siblings: Any, **given: Any) -> Any:
        if name == siblings[0]:
            assert another_came.wait(30)
        another_came.set()
        return turn(turns, name, siblings, **given)

    monkeypatch.setattr(Turns, "turn", late)
    vary = [Variation(temperature=number / 10) for number in range(1, 5)]
    ASKED.clear()
    search(Tempered(["mud"] * 4), vary=vary, branching_factor=4, depth=0, max_concurrency=1).invoke(TASK)
    assert ASKED == [0.1, 0.2, 0.3, 0.4]


def test_an_error_ends_one_path_and_the_others_go_on(run: Any) -> None:
    """Its best draft stays in the running; only where all paths failed has the search failed."""
    model = ScriptedModel(["mud", "stone", RuntimeError("down"), "ore", "clay", "gem"])
    output = run(search(model, vary=(), max_concurrency=1), TASK)
    assert (output["answer"], output["stop_reason"]) == ("gem", "accepted")
    assert sorted(path["stop_reason"] for path in output["branches"])[:2] == ["accepted", "failed"]

    model = ScriptedModel(["mud", "stone", RuntimeError("down"), RuntimeError("down")])
    output = run(search(model, vary=(), max_concurrency=1), TASK)
    assert (output["answer"], output["stop_reason"]) == ("stone", "failed")
    assert [event["text"] for event in output["events"] if event["kind"] == "failure"] == ["down"]


def test_a_draft_that_an_error_prevents_ends_its_path_only(run: Any, kept: Any) -> None:
    """A variation that can't write is `failed` with what it cost, and the others' best draft is the answer."""
    good = ScriptedModel([priced("mud"), priced("gem")])
    paid = ScriptedModel([priced("plan"), RuntimeError("no key")], model_name="paid")
    bad: Any = RunnableLambda(paid.invoke) | (lambda _: paid.invoke("again"))
    vary = [Variation("good"), Variation("bad", model=bad)]
    output = run(
        search(good, vary=vary, depth=1, max_concurrency=1, limits={"max_rounds": 1}, checkpointer=kept), TASK, CONFIG
    )

    assert (output["answer"], output["stop_reason"], output["score"]) == ("gem", "accepted", 1.0)
    assert [path["stop_reason"] for path in output["branches"]] == ["max_rounds", "failed", "accepted"]
    assert [path["usage"]["total_tokens"] for path in output["branches"]] == [100, 100, 100]
    assert output["usage"]["total_tokens"] == 300
    assert output["events"][-1]["evidence"]["lost"] == [{"branch": "b0.2", "error": "RuntimeError: no key"}]


@pytest.mark.parametrize("again", ["same", "new"])
def test_only_where_no_path_has_a_draft_the_search_breaks_off(run: Any, kept: Any, again: str) -> None:
    """The error is raised, each time that the search is resumed, until one of the paths can be written."""
    replies = [RuntimeError("down")] * 4 + [priced("mud"), priced("stone")]
    model = ScriptedModel(replies)
    graphs = [search(model, vary=(), depth=0, checkpointer=kept) for _ in range(3)]
    for number in (0, 1):
        with pytest.raises(RuntimeError, match="down"):
            run(graphs[number if again == "new" else 0], None if number else TASK, CONFIG)
        assert len(model.calls) == 2 * number + 2
    output = run(graphs[2 if again == "new" else 0], None, CONFIG)
    assert (output["answer"], len(model.calls), len(output["branches"])) == ("stone", 6, 2)
    assert output["usage"]["total_tokens"] == 200
    assert Thread(graphs[0], "s").replay().matches


def test_progress_names_the_branch() -> None:
    """Who streams a search sees which path each item comes from, and tokens of all of them."""
    graph = search(ScriptedModel([grow] * 10), beam_width=2)
    items = list(graph.stream(TASK, stream_mode="custom"))
    of = [(item["branch"], item["variation"]) for item in items if item["kind"] == "draft"]
    assert sorted(of) == [("b0.1", "left"), ("b0.2", "right")]
    assert {item["role"] for item in items if item["kind"] in ("draft", "critique", "revision")} == {
        "base",
        "critic",
        "refiner",
    }
    assert next(item["going"] for item in items if item["kind"] == "level") == ["b0.1", "b0.2"]
    assert items[-1]["by"] == "select"

    async def collect() -> list[Any]:
        graph = search(ScriptedModel([grow] * 10), beam_width=2)
        return [item async for item in graph.astream(TASK, stream_mode=["custom", "messages"], subgraphs=True)]

    found = asyncio.run(collect())
    tokens = [item[0].text for _, mode, item in found if mode == "messages"]
    assert {"mud", "stone"} <= set(tokens)
    assert sum(mode == "custom" and item["kind"] == "draft" for _, mode, item in found) == 2


@pytest.mark.parametrize("keeps", [True, False])
def test_it_is_a_node_of_a_bigger_graph(run: Any, keeps: bool) -> None:
    """Inside another graph the paths are kept where that graph keeps its own, and two searches don't mix."""
    with open_checkpointer("memory") as saver:
        outer: Any = StateGraph(Outer)
        outer.add_node("one", search(ScriptedModel([grow] * 10), beam_width=2))
        outer.add_node("two", search(ScriptedModel([grow] * 10), beam_width=1, name="second"))
        outer.add_edge(START, "one")
        outer.add_edge("one", "two")
        graph = outer.compile(checkpointer=saver if keeps else None)
        output = run(graph, {**TASK, "messages": []}, CONFIG)
        assert output["answer"] == "stone, cut"
        children = [row.thread_id for row in saver.runs.children("s")]
        assert len(children) == (4 if keeps else 0)
        assert len({name.rpartition("/")[0] for name in children}) == (2 if keeps else 0)


class Outer(MessagesState):
    task: str
    answer: str


def test_it_draws_itself() -> None:
    """The drawing shows the level, and with xray the loop inside a branch."""
    graph = search(ScriptedModel([]))
    assert {"prepare", "branch", "select"} <= graph.get_graph().nodes.keys()
    assert {"branch:generate", "branch:feedback", "branch:refine"} <= graph.get_graph(xray=True).nodes.keys()


def test_a_small_recursion_limit_ends_it_in_good_order(run: Any) -> None:
    """LangGraph's limit of steps is no error: the best so far is the answer, and the record says what to raise."""
    model = ScriptedModel([grow] * 20)
    output = run(search(model, beam_width=2, depth=30), TASK, {"recursion_limit": 6})
    assert output["stop_reason"] == "max_rounds"
    assert "recursion_limit" in output["events"][-1]["text"]
    assert output["answer"] == "stone, cut"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"branching_factor": 0}, "branching_factor must be a whole number from 1 up, not 0"),
        ({"depth": -1}, "depth must be a whole number from 0 up, not -1"),
        ({"beam_width": True}, "beam_width must be a whole number from 1 up, not True"),
        ({"max_concurrency": 0}, "max_concurrency must be"),
        ({"stop_when": "never"}, "stop_when must be 'accepted' or 'exhausted', not 'never'"),
        ({"check": lambda state: None}, "check= is not for a search"),
        ({"judge_last": False}, "judge_last= is not for a search"),
        ({"critics": [human_critic()]}, "a search asks no person"),
        ({"judge_prompt": "{first} {second}"}, "nothing here would read it"),
        ({"judge": ScriptedModel([]), "judge_prompt": "{first}"}, "it has no second"),
        ({"limits": {"max_rouds": 1}}, "'max_rouds' is not a limit"),
        ({"critic_prompt": "{draft}"}, "critic_prompt= is for the default critic"),
        ({"generate": lambda state: "x"}, "has no effect beside generate="),
        ({"vary": [Variation("2"), Variation()]}, "two variations are called '2'"),
    ],
)
def test_what_makes_no_sense_is_refused_when_the_graph_is_built(options: Any, says: str) -> None:
    """A mistake shows at once, with the argument's name and what would be right."""
    with pytest.raises(ValueError, match=says):
        search(ScriptedModel([]), **options)


def test_what_is_of_the_wrong_kind_is_refused_too() -> None:
    """So do a judge, a variation or a model that is none."""
    for options, says in (
        ({"judge": 7}, "a judge is a chat model or a function"),
        ({"vary": ["left"]}, "'left' is none"),
    ):
        with pytest.raises(TypeError, match=says):
            search(ScriptedModel([]), **options)
    with pytest.raises(TypeError, match="a chat model"):
        build_branching_graph(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="temperature must be a number"):
        Variation(temperature="hot")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"the model of a Variation is a chat model, .* not 7"):
        Variation(model=7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the name of a Variation is a text, not 3"):
        Variation(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"critic=\[\] names no critic"):
        Variation(critic=[])
    with pytest.raises(ValueError, match="temperature must be"):
        Variation(temperature=-1)
    with pytest.raises(ValueError, match="a function reads none"):
        PairwiseJudge(lambda task, first, second: "first", prompt="{first} {second}")


def test_a_search_is_not_forked_but_its_paths_are() -> None:
    """Who forks the search itself is told which thread to fork."""
    with open_checkpointer("memory") as saver:
        graph = search(ScriptedModel([grow] * 10), beam_width=2, checkpointer=saver)
        graph.invoke(TASK, CONFIG)
        with pytest.raises(ValueError, match=r"fork\(\) is not for a search, but for its paths: .*'s/b0.1'"):
            Thread(graph, "s").fork(at=0)


def test_the_terminal_shows_the_tree_of_a_search(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """`redraft tree` and `redraft show` read a search as they read any thread."""
    from redraft.faces.cli.main import main

    database = str(tmp_path / "runs.sqlite")
    with open_checkpointer(database) as saver:
        search(ScriptedModel([grow] * 10), beam_width=2, checkpointer=saver).invoke(TASK, CONFIG)
    for words, shown in ((["tree", "s"], "s/b2."), (["show", "s/b0.1"], "stone"), (["history", "s"], "select")):
        with pytest.raises(SystemExit) as ended:
            main([*words, "--db", database])
        printed = capsys.readouterr()
        assert (ended.value.code or 0, printed.err) == (0, "")
        assert shown in printed.out
