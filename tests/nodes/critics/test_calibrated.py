"""Calibrated judges in a run: who is asked when they may not say, and how the run ends."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from redraft import Critique, Thread, build_refine_graph, calibrated, human_critic, open_checkpointer
from redraft.models import ScriptedModel
from redraft.nodes.critics.judge_file import JudgeFile, bin_of, drifted, read_judge

if TYPE_CHECKING:
    from pathlib import Path

JUDGE: dict[str, Any] = {
    "critics": [{"spec": "", "name": "length", "reading": "score", "votes": 1}],
    "threshold": 0.8,
    "alpha": 0.1,
    "delta": 0.1,
    "rounds": 0,
    "n": 100,
    "right": 60,
    "accepted": 50,
    "wrong": 1,
    "date": "2026-01-01",
    "scores": {"0.9": 50, "0.2": 50},
}
TASK = {"task": "Write.", "limits": {"max_rounds": 2}}


def length(task: str, draft: str, history: Any) -> Critique:
    return Critique("Longer.", None, min(len(draft), 10) / 10)


def opinion(*accepted: bool) -> Any:
    given = iter(accepted)

    def other(task: str, draft: str, history: Any) -> Critique:
        return Critique("No." if not (said := next(given)) else "", said)

    return other


def run(*drafts: str, judge: dict[str, Any] | None = None, critics: tuple[Any, ...] = ()) -> dict[str, Any]:
    judges = [calibrated([length], judge or JUDGE), *critics]
    graph = build_refine_graph(ScriptedModel(list(drafts)), critics=judges)
    return dict(graph.invoke(TASK))  # type: ignore[call-overload]


def test_it_accepts_above_its_threshold_and_leaves_the_rest_to_others() -> None:
    """At the threshold the draft is accepted, and nobody else asked; below it the next critic decides."""
    output = run("long enough", critics=(opinion(),))
    assert (output["stop_reason"], output["accepted_by"], output["score"]) == ("accepted", "judge (calibrated)", 1.0)
    assert output["events"][2]["calibration"]["alpha"] == 0.1
    output = run("short", critics=(opinion(True),))
    assert (output["stop_reason"], output["accepted_by"]) == ("accepted", "other")
    output = run("short", "long enough", critics=(opinion(False, True),))
    # The judge was calibrated on first drafts, so of the revision it says nothing.
    assert (output["stop_reason"], output["accepted_by"], output["answer"]) == ("accepted", "other", "long enough")


def test_where_nobody_decides_the_run_stops_undecided() -> None:
    """A judge of first drafts ends the run at once; one that was calibrated on revisions lets it revise first."""
    output = run("short")
    assert (output["stop_reason"], output["rounds"], output["accepted_by"]) == ("undecided", 0, None)
    assert output["answer"] == "short"
    output = run("short", "long enough", judge={**JUDGE, "rounds": 2})
    assert (output["stop_reason"], output["rounds"], output["answer"]) == ("accepted", 1, "long enough")
    output = run("a", "longer", "ab", judge={**JUDGE, "rounds": 2})
    assert (output["stop_reason"], output["rounds"], output["answer"]) == ("undecided", 2, "longer")


def test_a_person_is_asked_only_what_the_judge_may_not_say() -> None:
    """With a person behind the judge an accepted draft does not pause the run, and an undecided one does."""
    with open_checkpointer("memory") as saver:
        model = ScriptedModel(["long enough", "short"])
        graph = build_refine_graph(model, critics=[human_critic(), calibrated([length], JUDGE)], checkpointer=saver)
        output = graph.invoke(TASK, {"configurable": {"thread_id": "a"}})  # type: ignore[call-overload]
        assert output["accepted_by"] == "judge (calibrated)"
        graph.invoke(TASK, {"configurable": {"thread_id": "b"}})  # type: ignore[call-overload]
        thread = Thread(graph, "b")
        assert thread.answer(accept=True)["accepted_by"] == "human"
        assert thread.replay().matches


def test_votes_are_asked_one_by_one_and_the_first_critic_below_ends_it() -> None:
    """Three verdicts of one critic make a score; a critic that can't reach the threshold spares the next one."""
    part = {**JUDGE["critics"][0], "reading": "verdict", "votes": 3, "name": "other"}
    judge = {**JUDGE, "critics": [part, JUDGE["critics"][0]], "threshold": 0.6}
    critic = calibrated([opinion(True, False, True, False, False, True), length], judge)
    assert (found := critic("Write.", "0123456789", ())).accepted is True
    assert found.score == pytest.approx(2 / 3)
    found = critic("Write.", "0123456789", ())
    assert (found.accepted, found.text) == (None, "No.")
    assert found.evidence is not None
    assert [one["critic"] for one in found.evidence["asked"]] == ["other"]


def test_scores_that_drift_are_said(caplog: pytest.LogCaptureFixture) -> None:
    """Live scores like those of the calibration are silent; where they sink, a warning says so."""
    judge = JudgeFile.model_validate(JUDGE)
    assert drifted(judge, [0.9, 0.2] * 40) is None
    assert drifted(judge, [0.2] * 29) is None
    assert "no longer look like the calibration's" in str(drifted(judge, [0.2] * 40))
    critic = calibrated([length], JUDGE)
    with caplog.at_level(logging.WARNING, "redraft"):
        for _ in range(30):
            critic("Write.", "ab", ())
    assert "calibrate again" in caplog.text
    assert [bin_of(score) for score in (1.0, 0.99997, 0.123, 0.0)] == [1.0, 0.99995, 0.12, 0.0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"threshold": 2}, "threshold: Input should be less than or equal to 1"),
        ({"wrong": 60}, "can't be counts of one file"),
        ({"colour": 1}, "colour: Extra inputs are not permitted"),
        ({"critics": []}, "critics: Tuple should have at least 1 item"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_in_words(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    """A judge file that was edited wrongly is named with the field; so is one that is missing or no JSON."""
    (tmp_path / "judge.json").write_text(json.dumps({**JUDGE, **change}))
    with pytest.raises(ValueError, match=r"judge\.json") as caught:
        read_judge(tmp_path / "judge.json")
    assert said in str(caught.value)
    with pytest.raises(ValueError, match="No such file"):
        calibrated([length], tmp_path / "none.json")


def test_another_critic_than_the_calibrated_one_is_refused() -> None:
    """As many critics as the file has, on the model and with the prompts that were calibrated, or the build fails."""
    from redraft import model_critic
    from redraft.nodes.critics.calibrated import critic_identity

    with pytest.raises(ValueError, match=r"1 critics \(length\), and 2 are given"):
        calibrated([length, length], JUDGE)
    model = ScriptedModel(["x"])
    same = critic_identity(model_critic(model))
    part = {**JUDGE["critics"][0], "identity": same}
    calibrated([model_critic(model)], {**JUDGE, "critics": [part]})
    with pytest.raises(ValueError, match="not the one that was calibrated"):
        calibrated([model_critic(model, prompt="Is it good? {draft}")], {**JUDGE, "critics": [part]})
