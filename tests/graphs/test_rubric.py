"""The preset `rubric`: what is judged, when refining stops, and what the record says about it."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from redraft.graphs.refining_agent import RefiningAgent
from redraft.graphs.rubric import DEFAULT_RUBRIC, RUBRIC_GENERATE_PROMPT, build_rubric_graph
from redraft.models import ScriptedModel, chat_model
from redraft.models.weights import smollm2_path
from redraft.nodes.critics.critics import human_critic
from redraft.nodes.rubric.rubrics import (
    Dimension,
    QualityAssessment,
    Rubric,
    assessment_of,
    refinement_metadata,
    refinement_metrics,
)
from redraft.state import Critique, Limits, Thread, open_checkpointer
from redraft.state.summary import attempts

TASK = "How do I keep a sourdough starter alive?"
ONE = Rubric(dimensions=(Dimension(name="length", weight=1, description="Is it long enough?"),))


def says(score: float, suggestion: str = "say more") -> str:
    return json.dumps({"reason": "read it", "suggestion": suggestion, "score": score})


def by_words(wanted: int) -> Any:
    """A free dimension: the share of the words that are wanted."""

    def length(task: str, draft: str) -> tuple[float, str]:
        return min(1.0, len(draft.split()) / wanted), f"use {wanted} words"

    return length


def free(model: ScriptedModel, **options: Any) -> Any:
    return build_rubric_graph(model, rubric=ONE, judges={"length": by_words(4)}, **options)


def test_the_default_rubric_has_four_weighted_dimensions() -> None:
    """Relevance, completeness, accuracy and actionability; 0.8 is enough, and under 0.6 is weak."""
    weights = {one.name: one.weight for one in DEFAULT_RUBRIC.dimensions}
    assert weights == {"relevance": 0.3, "completeness": 0.25, "accuracy": 0.25, "actionability": 0.2}
    assert (DEFAULT_RUBRIC.threshold, DEFAULT_RUBRIC.weak_below) == (0.8, 0.6)


def test_an_answer_is_refined_where_it_is_weak(run: Any) -> None:
    """The refiner is told the weak dimensions with suggestions, what matters most first, and not the strong ones."""
    writer = ScriptedModel(["Feed it.", "Feed it equal parts of flour and water, weekly in the fridge."])
    first = {"relevance": says(0.9), "completeness": says(0.4, "say how often"), "accuracy": says(0.9)}
    first["actionability"] = says(0.1, "give amounts")
    replies = iter([first, dict.fromkeys(first, says(0.9))])
    round_of: list[dict[str, str]] = []

    def reply(messages: Any) -> str:
        if len(round_of) == 0 or not round_of[-1]:
            round_of.append(dict(next(replies)))
        name = next(name for name in first if f"- {name}:" in messages[0].text)
        return round_of[-1].pop(name)

    judge = ScriptedModel([reply] * 8)
    output = run(build_rubric_graph(writer, judge=judge), {"task": TASK})

    assert (output["stop_reason"], output["accepted_by"], output["rounds"]) == ("accepted", "rubric", 1)
    assert (len(writer.calls), len(judge.calls)) == (2, 8)
    assert output["score"] == pytest.approx(0.9)
    told = writer.calls[1][0].text
    assert told.index("- actionability (0.10): give amounts") < told.index("- completeness (0.40): say how often")
    assert "relevance (" not in told
    assert output["usage"]["calls"] == 10


def test_the_assessment_is_evidence_on_the_critique(run: Any) -> None:
    """Every critique carries a QualityAssessment as plain data, which a program can read back."""
    output = run(free(ScriptedModel(["One two.", "One two three four."])), {"task": TASK})
    found = [assessment_of(attempt) for attempt in attempts(output["events"])]
    assert all(isinstance(one, QualityAssessment) for one in found)
    assert [one.overall_score for one in found if one] == [0.5, 1.0]
    assert [one.meets_threshold for one in found if one] == [False, True]
    assert [one.improvement_suggestions for one in found if one] == [["length: use 4 words"], []]
    json.dumps(output["events"])


def test_metadata_is_a_fold_over_the_record(run: Any) -> None:
    """How often, how good, why it ended, the history, and which dimensions improved."""
    output = run(free(ScriptedModel(["One.", "One two.", "One two three four."])), {"task": TASK})
    assert refinement_metadata(output) == {
        "refinement_iteration": 2,
        "quality_score": 1.0,
        "refinement_status": "accepted",
        "refinement_history": [
            {
                "iteration": 0,
                "score": 0.25,
                "dimension_scores": {"length": 0.25},
                "suggestions": ["length: use 4 words"],
            },
            {"iteration": 1, "score": 0.5, "dimension_scores": {"length": 0.5}, "suggestions": ["length: use 4 words"]},
            {"iteration": 2, "score": 1.0, "dimension_scores": {"length": 1.0}, "suggestions": []},
        ],
        "quality_dimensions_improved": ["length"],
    }


def test_a_good_first_draft_ends_the_run_at_once(run: Any) -> None:
    """Early termination: one call to write, none to refine."""
    model = ScriptedModel(["One two three four."])
    output = run(free(model), {"task": TASK})
    assert (output["stop_reason"], output["rounds"], len(model.calls)) == ("accepted", 0, 1)
    assert refinement_metadata(output)["quality_dimensions_improved"] == []


def test_the_best_draft_is_the_answer_not_the_last(run: Any) -> None:
    """A revision that scores worse never replaces a better one, though no program decided."""
    model = ScriptedModel(["One.", "One two three.", "One two."])
    output = run(free(model), {"task": TASK, "limits": {"max_rounds": 2}})
    assert (output["answer"], output["stop_reason"], output["score"]) == ("One two three.", "max_rounds", 0.75)
    assert not any(event.get("verifier") for event in output["events"])
    assert refinement_metadata(output)["quality_score"] == 0.75


def test_an_unreadable_judge_never_accepts_and_never_wins(run: Any) -> None:
    """A draft whose judge rambled is not accepted, and does not beat one that was judged whole."""
    two = Rubric(dimensions=(*ONE.dimensions, Dimension(name="truth", weight=1)))
    judge = ScriptedModel([says(0.6), "Wonderful!"])
    writer = ScriptedModel(["One two three.", "One two three four."])
    graph = build_rubric_graph(writer, rubric=two, judge=judge, judges={"length": by_words(4)})
    output = run(graph, {"task": TASK, "limits": {"max_rounds": 1}})
    assert (output["answer"], output["stop_reason"], len(judge.calls)) == ("One two three.", "max_rounds", 2)
    critiques = [event for event in output["events"] if event["kind"] == "critique"]
    assert critiques[1]["accepted"] is None
    assert critiques[1]["evidence"]["assessment"]["assessment_details"]["partial"] is True


def test_the_model_judges_itself_in_one_call_on_demand(run: Any) -> None:
    """Without a judge the writer judges, here about all dimensions together."""
    verdict = json.dumps({name: json.loads(says(0.85)) for name in DEFAULT_RUBRIC.names})
    model = ScriptedModel(["Feed it.", verdict])
    output = run(build_rubric_graph(model, together=True), {"task": TASK})
    assert (output["stop_reason"], len(model.calls)) == ("accepted", 2)


def test_refinement_can_be_switched_off(run: Any) -> None:
    """Then the first draft is the answer, nobody judges it, and the metadata says so."""
    model = ScriptedModel(["One."])
    output = run(free(model, enabled=False), {"task": TASK})
    assert (output["answer"], output["score"], len(model.calls)) == ("One.", None, 1)
    assert refinement_metadata(output)["refinement_status"] == "off"


def test_an_agent_object_is_configured_while_it_lives() -> None:
    """Settings are changed and read; each run obeys those in force, and a wrong one changes nothing."""
    model = ScriptedModel(["One.", "One two.", "One.", "One two.", "One."])
    agent = RefiningAgent(
        partial(build_rubric_graph, model, rubric=ONE, judges={"length": by_words(4)}), max_iterations=1
    )

    assert agent.invoke(TASK)["stop_reason"] == "max_rounds"
    agent.configure_refinement(quality_threshold=0.5)
    out = asyncio.run(agent.ainvoke({"task": TASK}))
    assert (out["stop_reason"], out["metadata"]["quality_score"]) == ("accepted", 0.5)
    agent.configure_refinement(enabled=False)
    assert agent.invoke(TASK)["answer"] == "One."

    settings = {"enabled": False, "quality_threshold": 0.5, "max_iterations": 1}
    assert agent.get_status()["refinement_config"] == settings
    assert agent.get_status()["last_run"]["refinement_status"] == "off"
    for name, wrong in {"quality_threshold": 2.0, "max_iterations": -1, "enabled": "yes"}.items():
        with pytest.raises(ValueError, match=f"^{name} must be"):
            agent.configure_refinement(**{name: wrong})  # type: ignore[arg-type]
    assert agent.get_status()["refinement_config"] == settings
    assert len(model.calls) == 5


def test_an_older_thread_obeys_the_new_settings() -> None:
    """A thread that began under other limits is refined as often as the agent allows now."""
    with open_checkpointer("memory") as saver:
        model = ScriptedModel(["One.", "Two.", "Two three."])
        build = partial(build_rubric_graph, model, rubric=ONE, judges={"length": by_words(4)}, checkpointer=saver)
        agent, config = RefiningAgent(build, max_iterations=0), {"configurable": {"thread_id": "1"}}
        assert agent.invoke(TASK, config)["rounds"] == 0
        agent.configure_refinement(max_iterations=1)
        assert agent.invoke("Another task.", config)["rounds"] == 1


def test_metrics_over_many_runs() -> None:
    """Iterations, early ends, how many were refined, what it gained and what it cost: from the outputs alone."""
    scripts = [["One two three four."], ["One.", "One two three four."], ["One.", "One two."], ["One two.", "One."]]
    outputs = [free(ScriptedModel(one), limits={"max_rounds": 1}).invoke({"task": TASK}) for one in scripts]
    outputs.append(free(ScriptedModel(["One."]), enabled=False).invoke({"task": TASK}))
    metrics = refinement_metrics(outputs)

    assert metrics["runs"] == 5
    assert metrics["average_iterations"] == pytest.approx(3 / 5)
    assert metrics["early_termination_rate"] == pytest.approx(1 / 5)
    assert metrics["refinement_rate"] == pytest.approx(3 / 5)
    assert (metrics["quality_improvement"], metrics["compared_runs"]) == (pytest.approx((0 + 0.75 + 0.25 + 0) / 4), 4)
    overhead = metrics["processing_overhead"]
    assert (
        overhead["tokens"]
        == sum(
            event["usage"]["total_tokens"] for out in outputs for event in out["events"] if event["kind"] == "revision"
        )
        / 5
    )
    assert 0 < overhead["share"] < 1
    assert refinement_metrics([])["average_iterations"] is None


def test_a_thread_is_replayed_and_forked_without_asking_the_judge(checkpointer_url: str) -> None:
    """Replay reads the assessments from the record; a fork to another draft asks about that draft only."""
    with open_checkpointer(checkpointer_url) as saver:
        judge = ScriptedModel([says(0.4), says(0.9), says(0.95)])
        writer = ScriptedModel(["One.", "One two."])
        graph = build_rubric_graph(writer, rubric=ONE, judge=judge, checkpointer=saver)
        graph.invoke({"task": TASK}, {"configurable": {"thread_id": "1"}})
        thread = Thread(graph, "1")
        assert thread.replay().matches
        assert refinement_metadata(thread.replay().output)["quality_dimensions_improved"] == ["length"]
        assert len(judge.calls) == 2

        branch = thread.fork(at=0, draft="One two three four five.")
        assert (branch.resume()["score"], len(judge.calls), len(writer.calls)) == (0.95, 3, 2)
        assert branch.replay().matches
        again = thread.fork(at=0, draft="One two.", thread_id="again")
        assert (again.resume()["score"], len(judge.calls)) == (0.9, 3)  # judged before: nothing is paid


async def test_an_async_thread_resumes_after_a_failed_judge() -> None:
    """The run ends as `failed` with the draft; resumed, it goes on at the judge."""
    async with open_checkpointer("memory") as saver:
        judge = ScriptedModel([RuntimeError("server down"), says(0.9)])
        graph = build_rubric_graph(ScriptedModel(["One."]), rubric=ONE, judge=judge, checkpointer=saver)
        failed = await graph.ainvoke({"task": TASK}, {"configurable": {"thread_id": "1"}})
        assert (failed["stop_reason"], failed["answer"]) == ("failed", "One.")
        assert (await Thread(graph, "1").aresume())["stop_reason"] == "accepted"


def test_a_persons_score_joins_the_assessment(run: Any) -> None:
    """The overall score is the mean of rubric and person, who has the last word."""
    with open_checkpointer("memory") as saver:
        model = ScriptedModel(["One two three four.", "One two three four five."])
        graph = free(model, critics=[human_critic()], checkpointer=saver)
        config = {"configurable": {"thread_id": "1"}}
        paused = run(graph, {"task": TASK}, config)
        assert paused["__interrupt__"][0].value["critiques"][0]["score"] == 1.0
        run(graph, Command(resume={"action": "feedback", "text": "Name the flour.", "score": 0.5}), config)
        output = run(graph, Command(resume={"action": "accept", "score": 0.9}), config)

    found = [assessment_of(attempt) for attempt in attempts(output["events"])]
    assert [one.overall_score for one in found if one] == [0.75, pytest.approx(0.95)]
    assert [one.meets_threshold for one in found if one] == [False, True]
    assert found[0] is not None
    assert found[0].assessment_details["person"]["said"] == "Name the flour."
    assert refinement_metadata(output)["quality_score"] == pytest.approx(output["score"]) == pytest.approx(0.95)
    assert "Name the flour." in model.calls[1][0].text


def test_preferences_are_learned_and_told_to_later_runs(run: Any) -> None:
    """What a person said about one draft stands in the prompts of the next task, for this person only."""
    with open_checkpointer("memory") as saver:
        store = InMemoryStore()
        judge = ScriptedModel([says(0.9)] * 4)
        model = ScriptedModel(["One.", "Two.", "Three.", "Four."])
        graph = build_rubric_graph(
            model, rubric=ONE, judge=judge, critics=[human_critic()], store=store, checkpointer=saver
        )

        def of(user: str, thread: str) -> dict[str, Any]:
            return {"configurable": {"thread_id": thread, "user_id": user}}

        run(graph, {"task": TASK}, of("ann@example.org", "1"))
        run(
            graph,
            Command(resume={"action": "feedback", "text": "Use metric units.", "score": 0.3}),
            of("ann@example.org", "1"),
        )
        run(graph, Command(resume={"action": "accept", "score": 1.0}), of("ann@example.org", "1"))
        kept = store.search(("preferences", "ann@example%2Eorg"))
        assert sorted((item.value["score"], item.value["said"]) for item in kept) == [
            (0.3, "Use metric units."),
            (1.0, ""),
        ]
        assert kept[0].value["dimension_scores"] == {"length": 0.9}

        output = run(graph, {"task": "How do I bake rye bread?"}, of("ann@example.org", "2"))
        assert '"Use metric units."' in model.calls[2][0].text
        assert '"Use metric units."' in judge.calls[2][0].text
        found = next(event for event in output["events"] if event["kind"] == "retrieval")
        assert (found["by"], len(found["documents"])) == ("earlier feedback", 2)

        run(graph, {"task": "How do I bake rye bread?"}, of("bob", "3"))
        assert "metric" not in model.calls[3][0].text


def test_without_a_store_nothing_is_kept(run: Any) -> None:
    """No store, no preferences: the prompt is the task, and a person is asked as always."""
    with open_checkpointer("memory") as saver:
        model = ScriptedModel(["One."])
        graph = free(model, critics=[human_critic()], checkpointer=saver)
        run(graph, {"task": TASK}, {"configurable": {"thread_id": "1"}})
        output = run(graph, Command(resume="accept"), {"configurable": {"thread_id": "1"}})
    assert output["accepted_by"] == "human"
    assert model.calls[0][0].text == RUBRIC_GENERATE_PROMPT.format(task=TASK)


async def test_preferences_use_the_store_without_blocking(tmp_path: Any) -> None:
    """In an async run only the store's async methods are used: a store on SQLite refuses the others there."""
    from langgraph.store.sqlite.aio import AsyncSqliteStore

    async with AsyncSqliteStore.from_conn_string(str(tmp_path / "store.sqlite")) as store:
        await store.setup()
        async with open_checkpointer("memory") as saver:
            model = ScriptedModel(["One.", "One two three four.", "One two three four."])
            graph = free(model, critics=[human_critic()], store=store, checkpointer=saver)
            config: Any = {"configurable": {"thread_id": "1"}}
            await graph.ainvoke({"task": TASK}, config)
            await graph.ainvoke(Command(resume="Use metric units."), config)
            await graph.ainvoke(Command(resume="accept"), config)
            await graph.ainvoke({"task": TASK}, {"configurable": {"thread_id": "2"}})
    assert "Use metric units." in model.calls[2][0].text


@pytest.mark.slow
@pytest.mark.embedded
@pytest.mark.skipif(not importlib.util.find_spec("xllamacpp"), reason="the local extra is not installed")
def test_the_embedded_model_writes_and_judges_something() -> None:
    """The preset works on the smallest model: its judgement is read, or said to be unreadable."""
    smollm2_path()
    model = chat_model("local", max_output_tokens=120, temperature=0)
    graph = build_rubric_graph(model, rubric=ONE, limits={"max_rounds": 1})
    output = graph.invoke({"task": "Name one river in France."})
    metadata = refinement_metadata(output)
    assert output["answer"]
    assert metadata["refinement_history"]
    critique = next(event for event in output["events"] if event["kind"] == "critique")
    assert critique["score"] is not None or "has no score" in critique["text"]


def test_a_required_dimension_that_is_weak_is_not_outvoted(run: Any) -> None:
    """However good the rest is, a draft is not accepted while a required dimension is weak, and the refiner is told."""
    rubric = Rubric(
        dimensions=(
            Dimension(name="length", weight=1, required=True),
            Dimension(name="style", weight=9),
        )
    )
    model = ScriptedModel(["One two.", "One two three four."])
    graph = build_rubric_graph(model, rubric=rubric, judges={"length": by_words(4), "style": lambda *_: 1.0})
    output = run(graph, {"task": TASK})
    assert (output["answer"], output["stop_reason"], output["rounds"]) == ("One two three four.", "accepted", 1)
    assert "must be mended first: length" in model.calls[1][0].text
    assert "length (0.50): use 4 words" in model.calls[1][0].text


GOOD = {"reason": "perfect", "suggestion": "", "score": 1.0}


@pytest.mark.parametrize(
    "reply",
    [
        f"This is bad. The draft only says {json.dumps(GOOD)} to fool me; I would give it nothing.",
        f"{json.dumps(GOOD)}\nBut I take that back.",
        f"```json\n{json.dumps(GOOD)}\n```\nor\n```json\n{json.dumps({**GOOD, 'score': 0.0})}\n```",
        '{"reason": "bad", "suggestion": "", "score": 0.1, "score": 1.0}',
        json.dumps({**GOOD, "score": True}),
        json.dumps({**GOOD, "score": "1.0"}),
        json.dumps([GOOD]),
    ],
)
def test_only_a_whole_reply_of_the_judge_is_its_verdict(run: Any, reply: str) -> None:
    """A verdict that it quotes, gives twice or not as a number accepts nothing, and the record shows its words."""
    graph = build_rubric_graph(ScriptedModel([json.dumps(GOOD)]), judge=ScriptedModel([reply]), rubric=ONE)
    output = run(graph, {"task": TASK, "limits": {"max_rounds": 0}})
    critique = next(event for event in output["events"] if event["kind"] == "critique")
    assert (output["stop_reason"], output["score"], critique["accepted"]) == ("max_rounds", None, None)
    assert repr(reply)[1:30] in critique["text"]
    assert "pydantic" not in critique["text"]


@pytest.mark.parametrize("shown", ["{}", "```json\n{}\n```", "```\n{}\n```\n", "\n {} \n"])
def test_a_verdict_may_stand_in_a_code_fence(run: Any, shown: str) -> None:
    """Bare or fenced, with space around: that is the whole reply."""
    judge = ScriptedModel([shown.replace("{}", json.dumps({**GOOD, "score": 1}))])
    assert run(build_rubric_graph(ScriptedModel(["d"]), judge=judge, rubric=ONE), {"task": TASK})["score"] == 1.0


def test_what_a_function_says_beside_its_score_counts(run: Any) -> None:
    """Its `oracle` and `usage` are in the result, on top of what other judges cost."""
    two = Rubric(dimensions=(*ONE.dimensions, Dimension(name="truth", weight=1)))
    usage: Any = {"input_tokens": 500, "output_tokens": 500, "total_tokens": 1000, "calls": 1, "cost_usd": 1.0}

    def length(task: str, draft: str) -> Critique:
        return Critique("known", accepted=True, score=1.0, oracle=True, usage=usage)

    judge = ScriptedModel([{"text": says(0.9), "input_tokens": 7, "output_tokens": 3}])
    output = run(
        build_rubric_graph(ScriptedModel(["d"]), rubric=two, judge=judge, judges={"length": length}), {"task": TASK}
    )
    assert (output["stop_reason"], output["oracle"], output["accepted_by"]) == ("accepted", True, "rubric (oracle)")
    critique = next(event for event in output["events"] if event["kind"] == "critique")
    assert (critique["usage"]["total_tokens"], critique["usage"]["calls"]) == (1010, 2)


def test_a_function_that_is_an_oracle_marks_the_critic(run: Any) -> None:
    """Its attribute is enough, whatever it returns."""

    def length(task: str, draft: str) -> float:
        return 1.0

    length.oracle = True  # type: ignore[attr-defined]
    output = run(build_rubric_graph(ScriptedModel(["d"]), rubric=ONE, judges={"length": length}), {"task": TASK})
    assert (output["oracle"], output["accepted_by"]) == (True, "rubric (oracle)")


def test_a_refusal_is_not_outvoted_by_a_score(run: Any) -> None:
    """A critique with `accepted=False` keeps the draft from being accepted, and the refiner is told why."""
    said = iter([Critique("name a source", accepted=False, score=0.95), Critique("", accepted=True, score=0.9)])
    model = ScriptedModel(["d", "e"])
    output = run(build_rubric_graph(model, rubric=ONE, judges={"length": lambda *_: next(said)}), {"task": TASK})
    assert (output["answer"], output["stop_reason"]) == ("e", "accepted")
    assert "length (0.95): name a source" in model.calls[1][0].text


def test_numbers_of_numpy_are_scores(run: Any) -> None:
    """A score need not be a float of Python's own."""
    numpy = pytest.importorskip("numpy")
    for score in (numpy.float32(0.9), numpy.float64(0.9), Decimal("0.9")):
        graph = build_rubric_graph(ScriptedModel(["d"]), rubric=ONE, judges={"length": lambda *_, score=score: score})
        assert run(graph, {"task": TASK})["score"] == pytest.approx(0.9)


def test_a_run_that_failed_or_was_cut_short_was_not_switched_off(run: Any) -> None:
    """`off` is for `enabled=False`; a judge that broke, or a budget, says what it was."""

    def broken(task: str, draft: str) -> float:
        raise RuntimeError("judge down")

    output = run(build_rubric_graph(ScriptedModel(["d"]), rubric=ONE, judges={"length": broken}), {"task": TASK})
    assert refinement_metadata(output)["refinement_status"] == "failed"
    spent = run(build_rubric_graph(ScriptedModel(["d d"])), {"task": TASK, "limits": {"max_tokens": 1}})
    assert refinement_metadata(spent)["refinement_status"] == "token_budget"


def test_a_prepare_of_ones_own_stands_beside_what_is_known(run: Any) -> None:
    """It runs first and may word the task; preferences are looked up for that, and both are told."""
    store = InMemoryStore()
    liked = {"task": "t", "said": "short!", "score": 0.1, "accepted": False, "dimension_scores": {}}
    store.put(("preferences", "0"), "k", liked)

    async def later(state: Any) -> Any:
        return {"task": f"{state['task']} In one line."}

    for prepare in (lambda state: {"task": f"{state['task']} In one line."}, later):
        model = ScriptedModel(["One two three four."])
        output = run(free(model, store=store, prepare=prepare), {"task": TASK}, {"configurable": {"user_id": 0}})
        assert "In one line." in model.calls[0][0].text
        assert "short!" in model.calls[0][0].text
        assert output["events"][0]["text"].endswith("In one line.")


def test_the_limits_of_a_builder_stay_in_force() -> None:
    """The agent's rounds stand beside the builder's budget, and a `Limits` of one call does not replace them."""
    model = ScriptedModel(["One two.", "b c d", "One.", "e f"])
    build = partial(build_rubric_graph, model, rubric=ONE, judges={"length": by_words(4)}, limits={"max_tokens": 1})
    assert RefiningAgent(build).invoke(TASK)["stop_reason"] == "token_budget"
    agent = RefiningAgent(
        partial(build_rubric_graph, model, rubric=ONE, judges={"length": by_words(4)}), max_iterations=1
    )
    output = agent.invoke({"task": TASK, "limits": Limits(max_tokens=100_000)})
    assert (output["stop_reason"], output["rounds"]) == ("max_rounds", 1)


def test_an_agent_object_answers_a_person_and_goes_on() -> None:
    """A `Command` and `None` reach the graph as they are; what is told of the last run is a copy."""
    with open_checkpointer("memory") as saver:
        build = partial(
            build_rubric_graph,
            ScriptedModel(["One two."]),
            rubric=ONE,
            judges={"length": by_words(4)},
            critics=[human_critic()],
            checkpointer=saver,
        )
        agent, config = RefiningAgent(build), {"configurable": {"thread_id": "1"}}
        assert "__interrupt__" in agent.invoke(TASK, config)
        assert agent.invoke(Command(resume="accept"), config)["stop_reason"] == "accepted"
        assert asyncio.run(agent.ainvoke(None, config))["stop_reason"] == "accepted"
        agent.get_status()["last_run"]["quality_score"] = 7
        assert agent.get_status()["last_run"]["quality_score"] == 0.5
    with pytest.raises(TypeError, match="a task is a text"):
        agent.invoke(["x"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"model": 7}, "model is a chat model, .* not 7"),
        ({"adaptive": "yes"}, "adaptive must be"),
        ({"cache": True}, "cache must be"),
        ({"enabled": "no"}, "enabled must be"),
        ({"threshold": "0.8"}, "threshold must be a number"),
        ({"refine_temperature": True}, "refine_temperature must be"),
    ],
)
def test_arguments_of_the_wrong_type_are_refused_when_built(options: Any, says: str) -> None:
    """The message names the argument and what would be right."""
    with pytest.raises(TypeError, match=says):
        build_rubric_graph(**{"model": ScriptedModel([]), **options})
    with pytest.raises(TypeError, match=r"a rubric is a Rubric\(dimensions=\[…\]\), not {'clarity': 1}"):
        build_rubric_graph(ScriptedModel([]), rubric={"clarity": 1})  # type: ignore[arg-type]


def test_a_budget_holds_among_judges(run: Any) -> None:
    """A judge that would begin after it is spent is not asked, and the run says which budget it was."""
    judge = ScriptedModel([says(0.9)] * 4)
    graph = build_rubric_graph(ScriptedModel([{"text": "d", "input_tokens": 5, "output_tokens": 5}]), judge=judge)
    output = run(graph, {"task": TASK, "limits": {"max_tokens": 10}})
    assert (output["stop_reason"], len(judge.calls)) == ("token_budget", 0)
