"""Choices of adaptive runs: which arm is next, when none is left, and that a replay comes to the same."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from redraft.state.checked_channels import append_events
from redraft.state.events import record
from redraft.state.limits import Limits
from redraft.state.stopping import Arm, choose, decide, latest_choice
from redraft.state.threads.replay import replay_record

TRIED = [Arm("sample", 2), Arm("revise", 1), Arm("repair", 2, needs="tests"), Arm("pair", 1, drafts=2)]
LIMITS = Limits(max_rounds=99)


class Run:
    """A record that grows as the nodes have it grow."""

    def __init__(self, arms: list[Arm]) -> None:
        self.events: Any = append_events([], [])
        self.head = ""
        options = {"arms": [list(arm) for arm in arms], "order": 2}
        self.add(kind="task", round=0, by="caller", text="T", limits=dict(LIMITS), options=options)
        self.add(kind="draft", round=0, by="m", text="0")

    def add(self, **event: Any) -> None:
        update = record({"head": self.head}, event)
        self.events, self.head = append_events(self.events, [update["events"]]), update["head"]

    def judged(self, number: int, score: int, evidence: bool) -> None:
        held = {"tests": 1} if evidence else {}
        self.add(kind="critique", round=number, by="c", text="", accepted=False, score=score / 3, evidence=held)


@given(
    st.lists(st.sampled_from(TRIED), min_size=1, max_size=4, unique_by=lambda arm: arm.name),
    st.lists(st.tuples(st.sampled_from([None, 0, 1, 2, 3]), st.booleans()), min_size=80, max_size=80),
)
def test_a_run_tries_what_has_worked_and_ends_once_every_arm_was_in_vain(arms: list[Arm], found: Any) -> None:
    """No arm is tried again after its tries in vain, nor without the evidence that it needs; the arm that brought the
    last gain goes first; where none is left the run ends as `no_progress`, and a replay says the same."""
    run, gained, best, drafts = Run(arms), None, -1.0, iter(found)
    in_vain = dict.fromkeys((arm.name for arm in arms), 0)
    score, held = next(drafts)
    run.judged(0, score or 0, held)
    best, number = score or 0, 0
    while chosen := choose(run.events):
        choice, why = chosen
        arm = next(arm for arm in arms if arm.name == choice["arm"])
        worth = [one for one in arms if in_vain[one.name] < one.tries and (held or not one.needs)]
        preferred = next((one for one in worth if one.name == gained), worth[0])
        assert (arm, choice["drafts"]) == (preferred, arm.drafts)
        assert why.startswith(f"Next: {arm.name}, ")
        run.add(kind="verdict", round=number, by="check", text=why, choice=choice, stop_reason=None)
        assert latest_choice(run.events) == choice
        news = [next(drafts) for _ in range(arm.drafts)]
        for at, (score, _) in enumerate(news, number + 1):
            rejected = "" if score is not None else "repeat"
            run.add(kind="revision", round=at, by="m", text=str(at), rejected=rejected)
        for at, (score, evidence) in enumerate(news, number + 1):
            if score is not None:
                run.judged(at, score, evidence)
        number += arm.drafts
        scored = [(score, evidence) for score, evidence in news if score is not None]
        # Of a step whose drafts were all rejected, the evidence of the draft before it is still the newest.
        held = any(evidence for _, evidence in scored) if scored else held
        if scored and max(scored)[0] > best:
            best, gained, in_vain = max(scored)[0], arm.name, dict.fromkeys(in_vain, 0)
        else:
            in_vain[arm.name] += 1
    assert all(in_vain[arm.name] >= arm.tries or (arm.needs and not held) for arm in arms)
    assert decide(run.events, LIMITS) == "no_progress"
    run.add(kind="verdict", round=number, by="check", text="", stop_reason="no_progress")
    assert replay_record({"events": run.events, "head": run.head}).output["stop_reason"] == "no_progress"


def test_what_a_person_asks_for_is_done_next() -> None:
    """A person's word goes to an arm that reads it, however often that was in vain; a sample would not know of it."""
    run = Run([Arm("sample", 2), Arm("repair", 1, needs="tests")])
    run.add(kind="human", round=0, by="Ann", text="Use a loop.", accepted=False, score=None)
    assert choose(run.events) == ({"arm": "repair", "drafts": 1}, "Next: repair, as a person asks.")
    alone = Run([Arm("sample", 1)])
    alone.add(kind="human", round=0, by="Ann", text="Use a loop.", accepted=False, score=None)
    assert choose(alone.events) == ({"arm": "sample", "drafts": 1}, "Next: sample, the first way to try.")
