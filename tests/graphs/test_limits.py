"""Limits are put over one another in one way, hold whatever a check of one's own says, and can be tightened midway."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel, chat_model
from redraft.nodes.critics.critics import human_critic
from redraft.state import Critique, Limits, Thread

BUDGET = {"max_tokens": 100}
CONFIG: Any = {"configurable": {"thread_id": "a"}}


def no(task: str, draft: str, history: Any) -> Critique:
    return Critique("no", accepted=False, score=0.2)


def graph_of(*replies: Any, **options: Any) -> tuple[Any, ScriptedModel]:
    model = ScriptedModel([*replies, *(f"draft {number}" for number in range(20))])
    return build_refine_graph(model, **{"critics": [no], "checkpointer": InMemorySaver(), **options}), model


def changed(**limits: Any) -> dict[str, Any]:
    return {**Limits(), **limits}


# tightened before a revision

TIGHTER = [({"max_rounds": 0}, "max_rounds"), ({"max_tokens": 1}, "token_budget")]


@pytest.mark.parametrize(("limits", "reason"), TIGHTER)
@pytest.mark.parametrize("resume", ["resume", "aresume"])
def test_a_run_resumed_before_a_revision_obeys_tighter_limits(limits: Any, reason: str, resume: str) -> None:
    """The revision that the new limits rule out is not paid for."""
    graph, model = graph_of()
    graph.invoke({"task": "t"}, CONFIG, interrupt_before=["refine"])
    thread = Thread(graph, "a")
    output: Any = thread.resume(limits) if resume == "resume" else asyncio.run(thread.aresume(limits))
    assert (output["stop_reason"], output["rounds"], output["answer"], len(model.calls)) == (reason, 0, "draft 0", 1)
    assert thread.replay().differences == ()


@pytest.mark.parametrize(("limits", "reason"), TIGHTER)
@pytest.mark.parametrize("fork", ["fork", "afork"])
def test_a_fork_before_a_revision_obeys_tighter_limits(limits: Any, reason: str, fork: str) -> None:
    """The branch stops at once and its record agrees with it, before it runs and after."""
    graph, model = graph_of()
    graph.invoke({"task": "t", "limits": {"max_rounds": 1}}, CONFIG)
    thread = Thread(graph, "a")
    at = next(step.checkpoint_id for step in thread.history() if step.next == ("refine",))
    branch = thread.fork(at=at, limits=limits) if fork == "fork" else asyncio.run(thread.afork(at=at, limits=limits))
    assert branch.replay().differences == ()
    assert (branch.resume()["stop_reason"], len(model.calls)) == (reason, 2)
    assert branch.replay().differences == ()


@pytest.mark.parametrize(("limits", "reason"), TIGHTER)
def test_a_revision_that_failed_is_not_tried_again_against_tighter_limits(limits: Any, reason: str) -> None:
    """After an error in `refine`, resuming with limits that leave it no room stops without a call."""
    graph, model = graph_of("draft", RuntimeError("down"))
    assert graph.invoke({"task": "t"}, CONFIG)["stop_reason"] == "failed"
    assert Thread(graph, "a").resume(limits)["stop_reason"] == reason
    assert len(model.calls) == 2


def test_a_person_who_has_answered_is_not_asked_again_by_tighter_limits() -> None:
    """In a graph with a person, too, `check` alone decides."""
    graph, model = graph_of(critics=[human_critic()])
    graph.invoke({"task": "t"}, CONFIG)
    from langgraph.types import Command

    graph.invoke(Command(resume="warmer"), CONFIG, interrupt_before=["refine"])
    output: Any = Thread(graph, "a").resume({"max_rounds": 0})
    assert "__interrupt__" not in output
    assert (output["stop_reason"], len(model.calls)) == ("max_rounds", 1)


def test_looser_limits_before_a_revision_leave_no_trace_in_the_record() -> None:
    """A resumed revision with more room is simply made."""
    graph, _ = graph_of()
    graph.invoke({"task": "t", "limits": {"max_rounds": 1}}, CONFIG, interrupt_before=["refine"])
    output = Thread(graph, "a").resume({"max_rounds": 2})
    kinds = [event["kind"] for event in output["events"]]
    assert kinds == ["task", "draft", "critique", "verdict", *["revision", "critique", "verdict"] * 2]
    assert Thread(graph, "a").replay().differences == ()


@pytest.mark.parametrize("check", [None, lambda state: None])
def test_refine_pays_for_nothing_once_a_budget_is_spent(check: Any) -> None:
    """A budget written into the state by hand holds before the next call, and the run ends and says which it was."""
    graph, model = graph_of(check=check)
    graph.invoke({"task": "t"}, CONFIG, interrupt_before=["refine"])
    graph.update_state(CONFIG, {"limits": changed(max_tokens=1)}, as_node="check")
    output = graph.invoke(None, CONFIG)
    assert (output["stop_reason"], output["rounds"], len(model.calls)) == ("token_budget", 0, 1)


# a check of one's own


def test_budgets_hold_whatever_a_check_of_ones_own_says() -> None:
    """A check that never stops is stopped by the budget."""
    graph, model = graph_of(check=lambda state: None)
    output = graph.invoke({"task": "t", "limits": {"max_tokens": 1}}, CONFIG)
    assert (output["stop_reason"], output["answer"], len(model.calls)) == ("token_budget", "draft 0", 1)


def test_a_check_of_ones_own_still_outranks_a_spent_budget() -> None:
    """What it accepts with the last token is accepted."""
    graph, _ = graph_of(check=lambda state: "accepted")
    assert graph.invoke({"task": "t", "limits": {"max_tokens": 1}}, CONFIG)["stop_reason"] == "accepted"


@pytest.mark.parametrize("invoke", ["invoke", "ainvoke"])
def test_a_check_that_raises_ends_the_run_with_the_best_draft(invoke: str) -> None:
    """Nothing is lost: the answer is there, the error is in the record, and a resumed run asks the check again."""
    answers: list[Any] = [RuntimeError("no such file"), "accepted"]

    def check(state: Any) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    graph, model = graph_of(check=check)
    output = (
        graph.invoke({"task": "t"}, CONFIG) if invoke == "invoke" else asyncio.run(graph.ainvoke({"task": "t"}, CONFIG))
    )
    assert (output["stop_reason"], output["answer"]) == ("failed", "draft 0")
    failure = output["events"][-2]
    assert (failure["kind"], failure["by"], failure["error"], failure["text"]) == (
        "failure", "check", "RuntimeError", "no such file",
    )  # fmt: skip
    assert Thread(graph, "a").replay().differences == ()
    assert Thread(graph, "a").resume()["stop_reason"] == "accepted"
    assert len(model.calls) == 1


def test_a_run_that_a_check_called_failed_can_be_resumed() -> None:
    """The check is asked again, also where an earlier revision had failed and was made good."""
    answers = [None, "failed", "failed", "accepted"]
    graph, model = graph_of("draft", RuntimeError("down"), "better", check=lambda state: answers.pop(0), keep="last")
    thread = Thread(graph, "a")
    assert graph.invoke({"task": "t"}, CONFIG)["events"][-2]["kind"] == "failure"
    assert thread.resume()["answer"] == "better"
    assert thread.resume()["stop_reason"] == "failed"
    assert (thread.resume()["stop_reason"], len(model.calls)) == ("accepted", 3)


# put over one another


def test_a_callers_dict_is_put_over_the_graphs_limits() -> None:
    """A caller who names one limit keeps the others that the graph was built with; a `Limits` replaces them all."""
    graph, model = graph_of(limits={"max_rounds": 0, "max_tokens": 50}, checkpointer=None)
    output = graph.invoke({"task": "t", "limits": {"max_seconds": 60.0}})
    assert (output["rounds"], len(model.calls)) == (0, 1)
    assert output["events"][0]["limits"] == changed(max_rounds=0, max_tokens=50, max_seconds=60.0)
    assert graph.invoke({"task": "t", "limits": {}})["events"][0]["limits"] == changed(max_rounds=0, max_tokens=50)
    whole = graph.invoke({"task": "t", "limits": Limits(max_rounds=1)})
    assert whole["events"][0]["limits"] == changed(max_rounds=1)


def test_a_second_task_keeps_the_limits_that_it_does_not_name() -> None:
    """Limits stay with the thread, those changed by a resume too, until a task names them or brings a `Limits`."""
    graph, _ = graph_of(limits={"patience": 7})
    thread = Thread(graph, "a")
    graph.invoke({"task": "one", "limits": {"max_rounds": 0, "max_tokens": 900}}, CONFIG)
    thread.resume({"max_tokens": 800})

    def limits_of(given: dict[str, Any]) -> Any:
        graph.invoke({"task": "next", **given}, CONFIG)
        return graph.get_state(CONFIG).values["limits"]

    assert limits_of({}) == changed(max_rounds=0, patience=7, max_tokens=800)
    assert limits_of({"limits": {"patience": 1}}) == changed(max_rounds=0, patience=1, max_tokens=800)
    assert limits_of({"limits": Limits(max_rounds=0)}) == changed(max_rounds=0)


def test_a_task_that_waits_takes_other_limits_over_its_own() -> None:
    """Limits given to a run that was stopped before it began leave the thread's others as they are."""
    graph, _ = graph_of(limits={"max_rounds": 0})
    graph.invoke({"task": "one", "limits": {"max_tokens": 900}}, CONFIG)
    graph.invoke({"task": "two", "limits": {"patience": 2}}, CONFIG, interrupt_before=["prepare"])
    assert Thread(graph, "a").resume({"max_seconds": 60.0})["events"][-4]["limits"] == changed(
        max_rounds=0, patience=2, max_tokens=900, max_seconds=60.0
    )


def test_a_fork_takes_a_dict_over_its_limits_and_a_limits_whole() -> None:
    """The same rule in a branch."""
    graph, _ = graph_of()
    graph.invoke({"task": "one", "limits": {"max_rounds": 0, "max_tokens": 900}}, CONFIG)
    for given, expected in (
        ({"patience": 2}, changed(max_rounds=0, patience=2, max_tokens=900)),
        (Limits(max_rounds=1), changed(max_rounds=1)),
    ):
        branch = Thread(graph, "a").fork(at=0, limits=given)
        assert graph.get_state(branch.config).values["limits"] == expected


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_rounds": 10**30}, "max_rounds=10*: input should be less than or equal to 1000000"),
        ({"max_tokens": 10**30}, "max_tokens=1000000000000000000000000000000"),
        ({1: 2}, "1 is not a limit; the limits are max_rounds, patience"),
        ([3], r"limits must be Limits or a dict of limits, not \[3\]"),
    ],
)  # fmt: skip
def test_a_limit_that_no_checkpoint_could_hold_is_refused_by_name(limits: Any, message: str) -> None:
    """At build, at run, in a resume and in a fork, and nothing is written."""
    graph, model = graph_of(limits={"max_rounds": 0})
    with pytest.raises(ValueError, match=message):
        build_refine_graph(model, limits=limits)
    with pytest.raises(ValueError, match=message):
        build_refine_graph(model).invoke({"task": "t", "limits": limits})
    graph.invoke({"task": "t"}, CONFIG)
    thread = Thread(graph, "a")
    before = thread.history()
    with pytest.raises(ValueError, match=message):
        thread.resume(limits)
    with pytest.raises(ValueError, match=message):
        thread.fork(at=0, limits=limits)
    assert (thread.history(), len(model.calls)) == (before, 1)


def test_what_a_preparation_makes_of_task_and_limits_is_recorded() -> None:
    """A task reworded before the first draft is the one in the record, and its limits are checked like a caller's."""
    graph, model = graph_of(prepare=lambda state: {"task": f"{state['task']}, kindly", "limits": {"max_rounds": 0}})
    output = graph.invoke({"task": "write", "limits": {"patience": 3}}, CONFIG)
    assert model.calls[0][0].text == "write, kindly"
    assert (output["events"][0]["text"], output["rounds"]) == ("write, kindly", 0)
    assert output["events"][0]["limits"] == changed(max_rounds=0, patience=3)
    assert Thread(graph, "a").replay().differences == ()
    wrong, _ = graph_of(prepare=lambda state: {"limits": {"max_rounds": -3}})
    with pytest.raises(ValueError, match="max_rounds=-3"):
        wrong.invoke({"task": "write"}, CONFIG)


def test_a_verdict_cut_short_is_paid_for_and_counted(run: Any, serve: Any) -> None:
    """A structured reply that ran into the output limit accepts nothing, and its tokens count towards the budget."""
    cut = {"text": '{"feedback": "too', "input_tokens": 40, "output_tokens": 60, "finish_reason": "length"}
    cut["prompt_tokens_details"] = {"cached_tokens": 30}
    server = serve([{"text": "a draft", "input_tokens": 10, "output_tokens": 5}, cut])
    graph = build_refine_graph(chat_model(server.spec))
    output = run(graph, {"task": "Write.", "limits": {"max_tokens": 100}})
    assert (output["stop_reason"], output["accepted_by"]) == ("token_budget", None)
    assert (output["usage"]["calls"], output["usage"]["total_tokens"]) == (2, 115)
    assert output["usage"]["cache_read_tokens"] == 30
    assert "could not be read" in output["events"][2]["text"]


def test_what_prepare_pays_for_is_counted(run: Any) -> None:
    """A model that is asked before the first draft counts towards the budget like any other."""
    helper = ScriptedModel([{"text": "be kind", "input_tokens": 30, "output_tokens": 20}])

    def prepare(state: Any) -> Any:
        return {"task": f"{state['task']} {helper.invoke('how?').text}"}

    model = ScriptedModel(["a draft"])
    graph = build_refine_graph(model, prepare=prepare)
    output = run(graph, {"task": "Write.", "limits": {"max_tokens": 50}})
    assert (output["stop_reason"], len(model.calls)) == ("token_budget", 0)
    assert (output["usage"]["calls"], output["usage"]["total_tokens"]) == (1, 50)


# in the middle of a node


def costs(text: str, tokens: int = 100) -> dict[str, Any]:
    return {"text": text, "input_tokens": tokens, "output_tokens": 0}


def chain_of(model: ScriptedModel, calls: int) -> Any:
    """A chain that asks a model several times for one reply."""

    def several(given: Any) -> str:
        return [model.invoke(f"call {number}").text for number in range(calls)][-1]

    return RunnableLambda(several)


def test_a_chain_that_drafts_makes_no_call_once_the_budget_is_spent(run: Any) -> None:
    """Within one node too: the second call of a chain is refused, what the first cost is kept, and the budget named."""
    model = ScriptedModel([costs(f"reply {number}") for number in range(5)])
    output = run(build_refine_graph(ScriptedModel([]), generate=chain_of(model, 5)), {"task": "x", "limits": BUDGET})
    assert (len(model.calls), output["stop_reason"], output["answer"]) == (1, "token_budget", "")
    assert output["usage"]["total_tokens"] == 100


WARNING = "80% of the token budget is used up, or another round would take the rest."


@pytest.mark.parametrize(
    ("calls", "limit", "where"),
    [(1, 240, ["verdict"]), (3, 240, ["draft"]), (1, 200, ["verdict"]), (1, 90, []), (1, None, [])],
    ids=["at the end of a step", "in mid-step", "by another round", "spent at once", "no budget"],
)
def test_a_run_warns_once_when_80_percent_of_a_budget_is_used(calls: int, limit: int | None, where: list[str]) -> None:
    """Whoever streams the run is told while there is still something left, by one `warning`, which the record knows."""
    model = ScriptedModel([costs(f"draft {number}") for number in range(9)])
    graph = build_refine_graph(generate=chain_of(model, calls), refine=chain_of(model, 1), critics=[no])
    limits = {"max_tokens": limit, "max_rounds": 2}
    items: list[Any] = list(graph.stream({"task": "x", "limits": limits}, stream_mode=["custom", "values"]))
    said = [item for mode, item in items if mode == "custom" and item["kind"] == "warning"]
    events = items[-1][1]["events"]
    assert [item["text"] for item in said] == [WARNING] * bool(where)
    assert [event["kind"] for event in events if event.get("warned") == ["token_budget"]] == where


def test_a_critic_with_several_calls_makes_none_once_the_budget_is_spent(run: Any) -> None:
    """The draft is kept and not accepted; the critique that was cut short counts what it cost."""
    judge = ScriptedModel([costs(f"reply {number}", 60) for number in range(5)])

    def critic(task: str, draft: str, history: Any) -> Critique:
        return Critique([judge.invoke("again").text for _ in range(5)][-1], accepted=True)

    writer = ScriptedModel([costs("a draft", 10)])
    output = run(build_refine_graph(writer, critics=[critic]), {"task": "x", "limits": BUDGET})
    assert (len(judge.calls), output["stop_reason"], output["answer"]) == (2, "token_budget", "a draft")
    assert (output["accepted_by"], output["usage"]["total_tokens"]) == (None, 130)


def test_a_refiner_with_several_calls_makes_none_once_the_budget_is_spent(run: Any) -> None:
    """A revision that could not be finished is none; the best draft is the answer."""
    model = ScriptedModel([costs(f"reply {number}", 60) for number in range(5)])
    graph = build_refine_graph(ScriptedModel([costs("a draft", 10)]), refine=chain_of(model, 5), critics=[no])
    output = run(graph, {"task": "x", "limits": BUDGET})
    assert (len(model.calls), output["stop_reason"], output["answer"]) == (2, "token_budget", "a draft")
    assert output["rounds"] == 0


def test_a_graph_inside_a_node_obeys_the_budget_outside(run: Any) -> None:
    """A whole loop of ours as the writer makes no call once the outer run's budget is spent."""
    inner_model = ScriptedModel([costs(f"draft {number}") for number in range(9)])
    inner = build_refine_graph(inner_model, critics=[no])
    output = run(build_refine_graph(ScriptedModel([]), generate=inner), {"task": "x", "limits": BUDGET})
    assert (len(inner_model.calls), output["stop_reason"], output["answer"]) == (1, "token_budget", "draft 0")
    assert output["usage"]["total_tokens"] == 100


def test_a_run_that_a_budget_ended_in_mid_draft_goes_on_with_more(run: Any) -> None:
    """With a larger budget the draft is written anew, and the run comes to its end."""
    model = ScriptedModel([costs(f"reply {number}") for number in range(5)])
    graph = build_refine_graph(
        ScriptedModel([]), generate=chain_of(model, 2), critics=[lambda *_: Critique("", True)],
        checkpointer=InMemorySaver(),
    )  # fmt: skip
    run(graph, {"task": "x", "limits": BUDGET}, CONFIG)
    output = Thread(graph, "a").resume({"max_tokens": 1000})
    assert (output["stop_reason"], output["answer"], len(model.calls)) == ("accepted", "reply 2", 3)


def test_seconds_and_dollars_hold_in_mid_node_too(run: Any) -> None:
    """A price that is not known counts as spent after the first call, also within a node."""
    model = ScriptedModel([costs(f"reply {number}") for number in range(5)])
    graph = build_refine_graph(ScriptedModel([]), generate=chain_of(model, 5))
    output = run(graph, {"task": "x", "limits": {"max_cost_usd": 1.0}})
    assert (len(model.calls), output["stop_reason"]) == (1, "cost_budget")


# streamed

VERDICT = '{"feedback": "Longer.", "score": 0.4, "accepted": false}'


@pytest.mark.parametrize(("stock", "silent"), [(False, False), (False, True), (True, False)])
async def test_streaming_changes_no_outcome(serve: Any, stock: bool, silent: bool) -> None:
    """A run under a token budget ends the same way whether its messages stream or not, also where a stream reports no
    tokens: those are counted here, and marked."""

    def reply(request: Any) -> dict[str, Any]:
        text = VERDICT if "response_format" in request else f"A text about {len(str(request))} boats."
        return {"text": text, "no_stream_usage": silent}

    server = serve(reply)
    address, name = server.spec.split("#")
    model = ChatOpenAI(model=name, base_url=address, api_key="none") if stock else chat_model(server.spec)
    graph = build_refine_graph(model)
    ends, counted = [], []
    for modes in (["values"], ["values", "messages"]):
        given = {"task": "Write.", "limits": {"max_tokens": 2000, "max_rounds": 1}}
        output = [part async for mode, part in graph.astream(given, stream_mode=modes) if mode == "values"][-1]
        ends.append((output["stop_reason"], output["rounds"], output["usage"]["calls"]))
        counted.append(output["usage"].get("counted_here", 0))
    assert ends == [("max_rounds", 1, 4)] * 2
    assert counted == [0, 4 if stock or silent else 0]
