"""The rubric critic: what is judged by whom, what is asked once, and what accepts nothing."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from langgraph.cache.memory import InMemoryCache
from langgraph.cache.sqlite import SqliteCache
from pydantic import ValidationError
from redraft.models import ScriptedModel
from redraft.nodes.rubric.critic import rubric_critic, task_complexity, threshold_by_task
from redraft.nodes.rubric.judges import JUDGE_PROMPT, ModelJudge
from redraft.nodes.rubric.rubrics import Dimension, Judgement, QualityAssessment, Rubric, assess, vote_on
from redraft.nodes.runtime.meter import METER, Meter
from redraft.state import Critique

TASK, DRAFT = "Name a river.", "The Loire."
TWO = Rubric(dimensions=(Dimension(name="depth", weight=3), Dimension(name="style", weight=1)))


def says(score: float | str, suggestion: str = "say more") -> str:
    return json.dumps({"reason": "read it", "suggestion": suggestion, "score": score})


def half(task: str, draft: str) -> float:
    return 0.5


@pytest.fixture(params=["call", "acall"])
def ask(request: pytest.FixtureRequest) -> Any:
    """Asks a critic synchronously and asynchronously."""

    def call(critic: Any, task: str = TASK, draft: str = DRAFT, history: Any = ()) -> Critique:
        if request.param == "call":
            return critic(task, draft, history)
        return asyncio.run(critic.acall(task, draft, history))

    return call


def assessed(critique: Critique) -> QualityAssessment:
    assert critique.evidence is not None
    return QualityAssessment(**critique.evidence["assessment"])


def test_the_overall_score_is_weighted_and_weak_dimensions_get_suggestions() -> None:
    """What lacks most by weight comes first, and a judge without a suggestion gets one from the dimension."""
    rubric = Rubric(
        dimensions=(
            Dimension(name="small", weight=1, description="Is it small?"),
            Dimension(name="large", weight=8),
            Dimension(name="fine", weight=1),
        )
    )
    given = {
        "small": Judgement(score=0.2),
        "large": Judgement(score=0.5, suggestion="grow"),
        "fine": Judgement(score=0.6),
    }
    found = assess(rubric, given)

    assert found.overall_score == pytest.approx(0.1 * 0.2 + 0.8 * 0.5 + 0.1 * 0.6)
    assert found.improvement_suggestions == ["large: grow", "small: This falls short: Is it small?"]
    assert not found.meets_threshold
    assert assess(rubric, given, threshold=0.48).meets_threshold


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dimensions": ()}, "at least 1"),
        ({"dimensions": (Dimension(name="a", weight=1), Dimension(name="a", weight=2))}, "stand there twice"),
        ({"dimensions": (Dimension(name="a", weight=1),), "threshold": 1.5}, "threshold"),
        ({"dimensions": (Dimension(name="a", weight=1e308), Dimension(name="b", weight=1e308))}, "add up to more"),
    ],
)
def test_a_rubric_that_makes_no_sense_is_refused(fields: Any, message: str) -> None:
    """A mistake shows when the rubric is written down."""
    with pytest.raises(ValidationError, match=message):
        Rubric(**fields)
    for wrong in (
        {"name": "Two words", "weight": 1},
        {"name": "a", "weight": 0},
        {"name": "a", "weight": float("nan")},
    ):
        with pytest.raises(ValidationError):
            Dimension(**wrong)  # type: ignore[arg-type]


def test_models_and_functions_judge_side_by_side(ask: Any) -> None:
    """A dimension with a function costs no call; the model is asked about its own dimension only."""
    model = ScriptedModel([{"structured": json.loads(says(0.9))}], structured=True)
    critique = ask(rubric_critic(TWO, judge=model, judges={"style": half}))

    assert (len(model.calls), critique.accepted, critique.score) == (1, True, pytest.approx(0.8))
    assert "- depth" in model.calls[0][0].text
    assert "style" not in model.calls[0][0].text
    assert assessed(critique).assessment_details["judged_by"] == {"depth": "scripted", "style": "half"}


def test_dimensions_are_judged_at_the_same_time(ask: Any) -> None:
    """Each judge waits for the other: one after the other they would never meet."""
    meeting = threading.Barrier(2, timeout=10)

    def judge(task: str, draft: str) -> float:
        meeting.wait()
        return 1.0

    assert ask(rubric_critic(TWO, judges={"depth": judge, "style": judge})).accepted is True


def test_calls_of_all_threads_are_counted(ask: Any) -> None:
    """Judging in parallel does not hide what it costs."""
    meter = Meter(None)
    token = METER.set(meter)
    try:
        ask(rubric_critic(TWO, judge=ScriptedModel([says(1), says(1)])))
    finally:
        METER.reset(token)
    assert meter.usage(seconds=0)["calls"] == 2


def test_one_call_can_judge_all_dimensions(ask: Any) -> None:
    """`together=True` asks once, and reads one form with every dimension in it."""
    both = json.dumps({"depth": json.loads(says(0.5)), "style": json.loads(says(1.0))})
    model = ScriptedModel([both])
    critique = ask(rubric_critic(TWO, judge=model, together=True))
    assert (len(model.calls), critique.score) == (1, pytest.approx(0.625))
    assert assessed(critique).dimension_scores == {"depth": 0.5, "style": 1.0}


def test_a_dimension_may_have_any_name(ask: Any) -> None:
    """Also one that the form's own class has as an attribute, or braces in its description."""
    names = ["copy", "json", "model_fit"]
    rubric = Rubric(dimensions=tuple(Dimension(name=name, weight=1, description="Is {it} so?") for name in names))
    whole = {"structured": {name: json.loads(says(0.9)) for name in names}}
    model = ScriptedModel([whole], structured=True)
    assert ask(rubric_critic(rubric, judge=model, together=True)).accepted is True
    assert "- json: Is {it} so?" in model.calls[0][0].text


def test_the_same_question_is_asked_once(ask: Any) -> None:
    """The same task, draft, rubric and judge cost nothing the second time; another draft or task is judged anew."""
    model = ScriptedModel([says(0.7)] * 6)
    critic = rubric_critic(TWO, judge=model)
    first, again = ask(critic), ask(critic)
    assert (len(model.calls), again.score) == (2, first.score)
    assert assessed(again).assessment_details["cached"] == ["depth", "style"]
    ask(critic, draft="The Seine.")
    ask(critic, task="Name two rivers.")
    assert len(model.calls) == 6


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_cache_can_be_shared_or_switched_off(ask: Any, kind: str, tmp_path: Any) -> None:
    """Critics with one cache and the same judge share its judgements; `cache=False` asks each time."""
    model = ScriptedModel([says(0.7)] * 6)
    cache: Any = InMemoryCache() if kind == "memory" else SqliteCache(path=str(tmp_path / "judged.sqlite"))
    ask(rubric_critic(TWO, judge=model, cache=cache))
    ask(rubric_critic(TWO, judge=model, cache=cache))
    assert len(model.calls) == 2
    ask(critic := rubric_critic(TWO, judge=model, cache=False))
    ask(critic)
    assert len(model.calls) == 6


def test_after_an_error_only_the_judge_that_failed_is_asked_again(ask: Any) -> None:
    """What the others said is kept, so that a resumed run does not pay for it twice."""
    failing = ScriptedModel([RuntimeError("server down"), says(0.9)])
    steady = ScriptedModel([says(0.9), says(0.9)])
    critic = rubric_critic(TWO, judges={"depth": failing, "style": steady})
    with pytest.raises(RuntimeError, match="server down"):
        ask(critic)
    assert ask(critic).accepted is True
    assert (len(failing.calls), len(steady.calls)) == (2, 1)


@pytest.mark.parametrize(
    ("said", "score", "suggestion"),
    [
        (0.5, 0.5, ""),
        (1, 1.0, ""),
        ((0.25, "add a bridge"), 0.25, "add a bridge"),
        (Critique("add a ford", accepted=False), 0.0, "add a ford"),
        (Critique("add a ford", score=0.4), 0.4, "add a ford"),
    ],
)
def test_a_custom_dimension_is_one_function(ask: Any, said: Any, score: float, suggestion: str) -> None:
    """A number, a number with a suggestion, or a critique: all are read, sync and async."""
    rubric = Rubric(dimensions=(Dimension(name="crossing", weight=1),))

    async def later(task: str, draft: str) -> Any:
        return said

    for judge in (lambda task, draft: said, later):
        critique = ask(rubric_critic(rubric, judges={"crossing": judge}))
        assert critique.score == score
        assert suggestion in critique.text


@pytest.mark.parametrize("said", [None, 1.7, -0.1, float("nan"), "0.9", (0.5, 3), Critique("can't tell")])
def test_a_function_that_gives_no_score_accepts_nothing(ask: Any, said: Any) -> None:
    """The dimension has no score, the assessment says why, and the draft is not accepted though the rest is perfect."""
    critique = ask(rubric_critic(TWO, judges={"depth": lambda *_: 1.0, "style": lambda task, draft: said}))
    found = assessed(critique)

    assert (critique.accepted, found.meets_threshold, found.overall_score) == (None, False, 1.0)
    assert found.dimension_scores == {"depth": 1.0}
    assert found.assessment_details["partial"] is True
    assert "returned" in found.assessment_details["unreadable"]["style"]
    assert critique.score == 0.75  # what could not be read counts nothing, so it wins no comparison


@pytest.mark.parametrize("reply", ["Looks great, 10/10!", says(1.7), says("high"), "{}", ""])
def test_an_unreadable_judge_accepts_nothing_and_is_not_asked_again(ask: Any, reply: str) -> None:
    """A judge that rambles is no judge: it is asked once, and says nothing."""
    model = ScriptedModel([reply])
    critique = ask(rubric_critic(TWO, judge=model, judges={"style": lambda *_: 1.0}))
    assert (critique.accepted, len(model.calls)) == (None, 1)
    assert "depth has no score" in critique.text
    alone = ask(rubric_critic(TWO, judge=ScriptedModel([reply] * 2)))
    assert (alone.accepted, alone.score, assessed(alone).overall_score) == (None, None, None)


def test_a_draft_that_is_evenly_mediocre_is_told_what_lacks(ask: Any) -> None:
    """Where no dimension is weak, the refiner is told those below the threshold."""
    judges = {"depth": lambda *_: (0.7, "go deeper"), "style": lambda *_: (0.9, "fewer commas")}
    text = ask(rubric_critic(TWO, judges=judges)).text
    assert text == "Overall score 0.75; 0.80 is wanted.\n- depth (0.70): go deeper"


def ballots(*scores: float | None) -> list[tuple[str, dict[str, Judgement]]]:
    return [
        (f"judge {number}", {"a": Judgement(score=score, suggestion=f"from {number}", by=f"judge {number}")})
        for number, score in enumerate(scores)
    ]


@pytest.mark.parametrize(
    ("vote", "scores", "overall", "meets"),
    [
        ("mean", (0.2, 0.9, 1.0), 0.7, False),
        ("median", (0.2, 0.9, 1.0), 0.9, True),
        ("majority", (0.2, 0.9, 1.0), 0.9, True),
        ("majority", (0.2, 0.9), 0.55, False),
        ("majority", (None, 0.9, 1.0), 0.95, True),
        ("majority", (None, None, 1.0), 1.0, False),
        ("mean", (None, 0.9, 1.0), None, False),
        ("median", (None, 0.9, 1.0), None, False),
    ],
)
def test_several_judges_vote(vote: Any, scores: Any, overall: float | None, meets: bool) -> None:
    """The mean, the median, or more than half of them; one that can't be read never helps a draft."""
    rubric = Rubric(dimensions=(Dimension(name="a", weight=1),))
    found = vote_on(rubric, ballots(*scores), vote=vote, threshold=0.8)
    assert (found.overall_score, found.meets_threshold) == (pytest.approx(overall) if overall else None, meets)
    assert len(found.assessment_details["votes"]) == len(scores)
    if overall == 0.7:
        assert found.assessment_details["suggestions"]["a"] == "from 0"


def test_a_panel_of_models_is_asked_and_counted(ask: Any) -> None:
    """Each model of the panel judges each open dimension; two of one name answer for themselves."""
    panel = [ScriptedModel([says(0.9)]), ScriptedModel([says(0.9)]), ScriptedModel([says(0.1)])]
    critique = ask(rubric_critic(TWO, judge=panel, judges={"style": half}, vote="majority"))
    assert [len(model.calls) for model in panel] == [1, 1, 1]
    assert critique.accepted is True
    assert [one["meets_threshold"] for one in assessed(critique).assessment_details["votes"]] == [True, True, False]


def test_the_threshold_follows_the_task(ask: Any) -> None:
    """A complex task is accepted with a little less; a function of one's own decides as it likes."""
    plain = "Name a river."
    full = "Plan a week: " + " and ".join(f"compare {n} inns, each under {n}0 euros, without a car?" for n in range(9))
    assert task_complexity(plain) < 0.1
    assert 0.6 < task_complexity(full) <= 1
    assert threshold_by_task(plain, 0.8) > 0.8 > threshold_by_task(full, 0.8)
    judged = {"depth": lambda *_: 0.78, "style": lambda *_: 0.78}
    assert ask(rubric_critic(TWO, judges=judged, adaptive=True), task=plain).accepted is False
    assert ask(rubric_critic(TWO, judges=judged, adaptive=True), task=full).accepted is True
    own = rubric_critic(TWO, judges=judged, adaptive=lambda task, threshold: threshold - 0.1)
    assert ask(own).accepted is True


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ValueError, "nobody judges 'depth'"),
        ({"judges": {"depth": half}}, ValueError, "nobody judges 'style'"),
        ({"judges": {"width": half}}, ValueError, r"\['width'\]: the rubric has no such dimension"),
        ({"judge": ScriptedModel([]), "vote": "loudest"}, ValueError, "'loudest'"),
        ({"judge": ScriptedModel([]), "threshold": 8}, ValueError, "threshold must be between 0 and 1, not 8"),
        ({"judge": ScriptedModel([]), "prompt": "Judge {draft}"}, ValueError, "RUBRIC"),
        ({"judge": ScriptedModel([]), "prompt": "RUBRIC {answer}"}, ValueError, "answer"),
        (
            {"judge": ScriptedModel([]), "prompt": "RUBRIC {draft} {history}"},
            ValueError,
            "knows task and draft, not history",
        ),
        ({"judge": [half]}, TypeError, "functions stand in judges="),
        ({"judges": {"depth": lambda draft: 1.0, "style": half}}, TypeError, r"\(task, draft\)"),
    ],
)
def test_a_critic_that_makes_no_sense_is_refused_when_built(arguments: Any, error: Any, message: str) -> None:
    """The message names what is wrong and what would be right."""
    with pytest.raises(error, match=message):
        rubric_critic(TWO, **arguments)


def test_judges_of_one_name_at_other_servers_or_settings_are_told_apart() -> None:
    """What one server's model said is not taken for what another's, or the same with other settings, would say."""
    from langchain_openai import ChatOpenAI

    settings: list[dict[str, Any]] = [
        {"base_url": "http://a.example/v1"},
        {"base_url": "http://b.example/v1"},
        {"base_url": "http://a.example/v1", "reasoning_effort": "high"},
        {"base_url": "http://a.example/v1", "temperature": 0.5},
    ]
    keys = [
        ModelJudge(ChatOpenAI(model="m", api_key="secret", **one), TWO.dimensions, prompt=JUDGE_PROMPT).key(
            "t", "d", ()
        )
        for one in [*settings, settings[0]]
    ]
    assert len(set(keys)) == 4
    assert keys[0] == keys[-1]
