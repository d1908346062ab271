"""The loop: which calls happen, and why it stops."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from redraft.graphs import build_adaptive_graph
from redraft.graphs.loop import build_refine_graph
from redraft.models import Price, PriceTable, ScriptedModel
from redraft.nodes import uses_words
from redraft.nodes.critics.critics import human_critic, model_critic, verifier_critic
from redraft.nodes.refine import REFINE_PROMPT
from redraft.state import Critique, Limits, Thread, open_checkpointer
from redraft.state.events import broken_links, digest

pytestmark = pytest.mark.every("run")

TASK = "Write one short sentence that uses river and lamp."
WORDS = verifier_critic(uses_words("river", "lamp"))


def kinds(output: Any) -> list[str]:
    return [event["kind"] for event in output["events"]]


def test_a_draft_that_the_verifier_passes_costs_one_call(run: Any) -> None:
    """A first draft that passes is the answer, and no critic is paid."""
    model = ScriptedModel(["The lamp lit the river."])
    output = run(build_refine_graph(model, critics=[WORDS, model_critic(model)]), {"task": TASK})

    assert output["answer"] == "The lamp lit the river."
    assert (output["stop_reason"], output["rounds"], output["score"]) == ("accepted", 0, 1.0)
    assert output["accepted_by"] == "uses_words"
    assert len(model.calls) == 1
    assert kinds(output) == ["task", "draft", "critique", "verdict"]


def test_a_failing_draft_is_revised_until_the_verifier_passes(run: Any) -> None:
    """Each round shows what was missing and what was written next; tokens and calls add up."""
    model = ScriptedModel(
        [
            {"text": "A river.", "input_tokens": 10, "output_tokens": 2},
            {"text": "A river and a lamp.", "input_tokens": 30, "output_tokens": 5},
        ]
    )
    output = run(build_refine_graph(model, critics=[WORDS]), {"task": TASK})

    assert kinds(output) == ["task", "draft", "critique", "verdict", "revision", "critique", "verdict"]
    assert [event["text"] for event in output["events"] if event["kind"] == "critique"] == [
        "These words are missing: lamp.",
        "",
    ]
    assert "has this word, exactly as written: lamp." in model.calls[1][0].text
    assert (output["usage"]["total_tokens"], output["usage"]["calls"]) == (47, 2)
    assert output["usage"]["cost_usd"] is None


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_judge_last_false_makes_exactly_one_plus_two_n_calls(run: Any, rounds: int) -> None:
    """The published method's cost: N rounds without a last judgement are 1 + 2N model calls."""
    model = ScriptedModel([f"reply {number}" for number in range(20)])
    graph = build_refine_graph(model, judge_last=False)
    output = run(graph, {"task": TASK, "limits": {"max_rounds": rounds}})

    assert len(model.calls) == 1 + 2 * rounds
    assert output["stop_reason"] == "max_rounds"
    assert output["answer"] == f"reply {2 * rounds}"


def test_judging_the_last_revision_costs_one_call_more(run: Any) -> None:
    """By default the last revision is judged too, so it can be accepted."""
    model = ScriptedModel(["one", "it is short", "two", "No issues."])
    output = run(build_refine_graph(model), {"task": TASK, "limits": {"max_rounds": 1}})

    assert len(model.calls) == 4
    assert (output["stop_reason"], output["accepted_by"]) == ("accepted", "self (uncalibrated)")


def test_no_rounds_judges_the_draft_once(run: Any) -> None:
    """`max_rounds=0` says how good the draft is and changes nothing."""
    model = ScriptedModel(["A river."])
    output = run(build_refine_graph(model, critics=[WORDS]), {"task": TASK, "limits": Limits(max_rounds=0)})

    assert (output["stop_reason"], output["score"], output["rounds"]) == ("max_rounds", 0.5, 0)


def test_patience_stops_when_rounds_bring_nothing_better(run: Any) -> None:
    """After two rounds without a better score the run says it makes no progress."""
    model = ScriptedModel(["a", "a river", "no lake", "no sea", "never asked"])
    output = run(build_refine_graph(model, critics=[WORDS]), {"task": TASK, "limits": {"max_rounds": 9, "patience": 2}})

    assert (output["stop_reason"], output["rounds"], output["answer"]) == ("no_progress", 3, "a river")


def test_patience_does_not_take_an_equal_score_for_progress(run: Any) -> None:
    """A revision that scores as high as the best draft, and no higher, brings nothing: patience runs out."""
    model = ScriptedModel(["a river", "the river", "one river", "never asked"])
    output = run(build_refine_graph(model, critics=[WORDS]), {"task": TASK, "limits": {"max_rounds": 9, "patience": 2}})

    assert (output["stop_reason"], output["rounds"], output["score"]) == ("no_progress", 2, 0.5)


def test_repeating_an_earlier_draft_stops_the_run(run: Any) -> None:
    """A revision that repeats a draft, after whitespace, ends a run with one prompt: it would bring the same again."""
    model = ScriptedModel(["a river", "a sea", "  a   river\n"])
    graph = build_refine_graph(model, critics=[WORDS], keep="last", refine_prompt=REFINE_PROMPT)
    output = run(graph, {"task": TASK, "limits": {"max_rounds": 9}})

    assert (output["stop_reason"], output["rounds"], output["answer"]) == ("no_progress", 2, "a sea")
    assert output["events"][-2]["rejected"] == "repeat"


@pytest.mark.parametrize(
    ("limits", "reason"),
    [({"max_tokens": 20}, "token_budget"), ({"max_cost_usd": 0.001}, "cost_budget")],
)
def test_a_spent_budget_stops_before_the_next_call(run: Any, limits: dict[str, Any], reason: str) -> None:
    """Once a budget is spent no model is asked again: neither critic nor refiner."""
    model = ScriptedModel([{"text": "a river", "input_tokens": 10, "output_tokens": 10}, "never asked"])
    prices = PriceTable({"scripted": Price(input_per_mtok=50.0, output_per_mtok=50.0)})
    output = run(build_refine_graph(model, prices=prices), {"task": TASK, "limits": {"max_rounds": 9, **limits}})

    assert output["stop_reason"] == reason
    assert len(model.calls) == 1
    assert output["usage"]["cost_usd"] == pytest.approx(0.001)
    assert output["answer"] == "a river"


def test_a_draft_that_nobody_could_judge_stands(run: Any) -> None:
    """Where the only verifier can't tell, nothing is revised at random: the draft stands, and the run says why."""
    model = ScriptedModel(["a lamp"])
    saver = InMemorySaver()
    graph = build_refine_graph(model, critics=[verifier_critic(lambda task, draft: None)], checkpointer=saver)
    thread = Thread(graph, "t")
    output = run(graph, {"task": TASK}, thread.config)
    assert thread.replay().matches
    assert (output["answer"], output["stop_reason"], output["accepted_by"]) == ("a lamp", "no_progress", None)
    assert output["events"][-1]["text"] == "No critic could tell anything about the draft, so it stands as it is."


def test_an_unknown_price_spends_a_cost_budget(run: Any) -> None:
    """A cost budget that can't be kept, because no price is known, ends the run rather than being ignored."""
    model = ScriptedModel(["a river", "never asked"])
    output = run(build_refine_graph(model), {"task": TASK, "limits": {"max_cost_usd": 5.0}})

    assert (output["stop_reason"], output["usage"]["cost_usd"]) == ("cost_budget", None)


def test_the_time_budget_counts_seconds_in_calls(run: Any) -> None:
    """Seconds are those spent in calls, so a budget of almost none stops after the first draft."""
    model = ScriptedModel(["a river", "never asked"])
    output = run(build_refine_graph(model), {"task": TASK, "limits": {"max_seconds": 1e-9}})

    assert output["stop_reason"] == "time_budget"
    assert len(model.calls) == 1


def test_a_person_can_accept_stop_or_give_feedback() -> None:
    """The run pauses for a person, goes on with their feedback, and stops when they say so."""
    model = ScriptedModel(["one", "two", "three"])
    graph = build_refine_graph(model, critics=[human_critic()], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}

    paused = graph.invoke({"task": TASK}, config)
    assert paused["__interrupt__"][0].value["draft"] == "one"
    graph.invoke(Command(resume="warmer, please"), config)
    assert "warmer, please" in model.calls[1][0].text
    output = graph.invoke(Command(resume="stop"), config)

    assert (output["stop_reason"], output["answer"]) == ("human", "two")
    graph.invoke({"task": "another"}, config)
    assert graph.invoke(Command(resume={"action": "accept", "score": 0.9}), config)["accepted_by"] == "human"


def test_a_person_is_asked_after_the_models_and_these_are_paid_once() -> None:
    """Answering a pause does not pay the other critics again."""
    model, judge = ScriptedModel(["one"]), ScriptedModel(["too short"])
    critics = [human_critic(), model_critic(judge, name="judge")]
    graph = build_refine_graph(model, critics=critics, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}

    graph.invoke({"task": TASK}, config)
    output = graph.invoke(Command(resume="stop"), config)

    assert output["stop_reason"] == "human"
    assert len(judge.calls) == 1


def test_when_several_reasons_hold_the_first_of_the_order_counts(run: Any) -> None:
    """A draft accepted with the last token counts as accepted; a spent budget outranks the last round."""
    accepted = ScriptedModel([{"text": "a river, a lamp", "input_tokens": 9, "output_tokens": 9}])
    output = run(
        build_refine_graph(accepted, critics=[WORDS]), {"task": TASK, "limits": {"max_rounds": 0, "max_tokens": 5}}
    )
    assert output["stop_reason"] == "accepted"

    rejected = ScriptedModel([{"text": "a river", "input_tokens": 9, "output_tokens": 9}])
    output = run(
        build_refine_graph(rejected, critics=[WORDS]), {"task": TASK, "limits": {"max_rounds": 0, "max_tokens": 5}}
    )
    assert output["stop_reason"] == "token_budget"


def test_a_second_task_on_a_thread_gets_its_own_answer(run: Any) -> None:
    """A thread that answered once answers the new task, with counts of its own; the record keeps both."""
    model = ScriptedModel(["a river", "a river, a lamp", "lamp river two"])
    graph = build_refine_graph(model, critics=[WORDS], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}

    run(graph, {"task": TASK}, config)
    output = run(graph, {"task": "again"}, config)

    assert (output["answer"], output["rounds"], output["usage"]["calls"]) == ("lamp river two", 0, 1)
    assert kinds(output).count("task") == 2


@pytest.mark.parametrize(
    ("limits", "named"),
    [
        ({"max_rounds": -1}, "max_rounds=-1"),
        ({"patience": 0}, "patience=0"),
        ({"max_tokens": "many"}, "max_tokens='many'"),
        ({"max_seconds": float("nan")}, "max_seconds=nan"),
        ({"rounds": 3}, "'rounds' is not a limit"),
        ([3], "limits must be"),
    ],
)
def test_limits_that_make_no_sense_are_refused_by_name(run: Any, limits: Any, named: str) -> None:
    """A plain dict, as HTTP brings it, is refused like `Limits` itself, and no model is called."""
    model = ScriptedModel(["never asked"])
    with pytest.raises(ValueError, match=named):
        run(build_refine_graph(model), {"task": TASK, "limits": limits})
    assert model.calls == []
    if isinstance(limits, dict):
        with pytest.raises(ValueError, match=named):
            Limits(**limits)


@pytest.mark.parametrize("task", ["", "  \n", None, 7])
def test_an_empty_task_is_refused(run: Any, task: Any) -> None:
    """There is no draft of nothing."""
    with pytest.raises(ValueError, match="task must be a text"):
        run(build_refine_graph(ScriptedModel(["never asked"])), {"task": task})


@pytest.mark.parametrize("limit", [5, 6, 7, 8, 25])
def test_a_callers_recursion_limit_ends_the_run_with_an_answer(run: Any, limit: int) -> None:
    """Under LangGraph's `recursion_limit` the run stops in time, says so, and still answers."""
    model = ScriptedModel([f"draft {number}" for number in range(40)])
    graph = build_refine_graph(model, critics=[lambda *_: Critique("no", accepted=False)])
    output = run(graph, {"task": TASK, "limits": {"max_rounds": 30}}, {"recursion_limit": limit})

    assert (output["stop_reason"], output["rounds"]) == ("max_rounds", (limit - 5) // 3)
    assert "recursion_limit" in output["events"][-1]["text"]
    assert output["answer"] == "draft 0"  # nobody scored a later one higher


def test_build_errors_say_what_would_be_right() -> None:
    """A graph that can't work is refused when it is built."""
    model = ScriptedModel([])
    with pytest.raises(ValueError, match="without a model"):
        build_refine_graph()
    with pytest.raises(ValueError, match="judge_last=False with a verifier"):
        build_refine_graph(model, critics=[WORDS], judge_last=False)
    with pytest.raises(ValueError, match=r"unknown variables \['answer'\]; known are task, draft"):
        build_refine_graph(model, refine_prompt="Mend {answer}")
    with pytest.raises(TypeError, match="a critic is a callable"):
        build_refine_graph(model, critics=["self"])
    with pytest.raises(ValueError, match="stop_phrase is empty"):
        model_critic(model, stop_phrase=" ")
    with pytest.raises(ValueError, match="max_rounds=-2"):
        build_refine_graph(model, limits={"max_rounds": -2})
    with pytest.raises(TypeError, match=r"critics must be a list, as in critics=\[…\], not .*ModelCritic"):
        build_refine_graph(model, critics=model_critic(model))
    with pytest.raises(TypeError, match="verifiers must be a list"):
        build_adaptive_graph(model, verifiers=uses_words("lamp"))
    with pytest.raises(TypeError, match=r"a verifier is a callable \(task, draft\), .* not <function rhymes"):
        build_refine_graph(model, verifiers=[rhymes])
    with pytest.raises(TypeError, match=r"no saver yet: open it by `with open_checkpointer\(…\) as saver:`"):
        build_refine_graph(model, checkpointer=open_checkpointer("memory"))
    with pytest.raises(TypeError, match=r"'runs.sqlite', which is no saver yet: open it by"):
        build_refine_graph(model, checkpointer="runs.sqlite")
    with pytest.raises(AttributeError, match=r"has no 'get_tuple': open it by `with open_checkpointer"):
        open_checkpointer("memory").get_tuple({})
    with pytest.raises(ValueError, match=r"entry 'mine' is wrong: .*; right is {'input_per_mtok': 0.5"):
        build_refine_graph(model, prices={"mine": 3})
    with pytest.raises(TypeError, match=r"prices is a redraft.models.PriceTable, or prices by model, not 3"):
        build_refine_graph(model, prices=3)


def rhymes(draft: str) -> bool:
    return True


def test_prices_by_model_are_a_price_table() -> None:
    """`prices=` takes the prices themselves, so that a run of a model of one's own has its cost."""
    price = {"input_per_mtok": 1e6, "output_per_mtok": 0}
    graph = build_refine_graph(ScriptedModel(["one two"]), verifiers=[lambda *_: True], prices={"scripted": price})
    usage = graph.invoke({"task": TASK})["usage"]
    assert usage["cost_usd"] == usage["input_tokens"] > 0


class Silent(FakeListChatModel):
    """A model whose replies do not say who wrote them."""

    model: str = "silent-1"


def test_events_say_which_model_wrote_or_judged_and_when(run: Any) -> None:
    """Writer and judge are named by their model, also where a reply names none; a program has none; times only grow."""
    judge = model_critic(ScriptedModel(["Name the bell.", "no issues"], model_name="strict-2"), name="editor")
    writer = Silent(responses=["A river.", "A river and a bell."])
    output = run(build_refine_graph(writer, critics=[WORDS, judge], critics_after="always"), {"task": TASK})
    events = output["events"]

    said = [(event["kind"], event["by"], event.get("model")) for event in events if event["round"] == 1]
    assert said[:3] == [
        ("revision", "silent-1", "silent-1"),
        ("critique", "uses_words", None),
        ("critique", "editor", "strict-2"),
    ]
    times = [datetime.fromisoformat(event["at"]) for event in events]
    assert times == sorted(times)
    assert all(time.utcoffset() == timedelta(0) for time in times)
    assert broken_links(events, digest(events[-1])) == []
