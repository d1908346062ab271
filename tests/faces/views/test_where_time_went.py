"""Where the seconds of runs went."""

from __future__ import annotations

from typing import Any

import pytest
from redraft.faces.views.where_time_went import flame_of, profile_of
from redraft.state.threads.history import HistoryStep
from redraft.state.usage import NO_USAGE


def step(number: int, node: str, at: str, *events: Any) -> HistoryStep:
    """A step that ended at a time of one hour."""
    return HistoryStep(str(number), number, node, (), events, None, f"2026-11-27T10:{at}+00:00")


def test_the_time_of_people_callers_and_pauses_is_told_apart() -> None:
    """Calls and programs share the run's time; who was asked has its own, and the pause before an input is nobody's."""
    draft: Any = {"kind": "draft", "by": "small", "usage": {**NO_USAGE, "calls": 2, "total_tokens": 9, "seconds": 3.0}}
    edited: Any = {"kind": "human", "by": "human", "usage": NO_USAGE}
    steps = [
        step(-1, "input", "00:00"),
        step(0, "start", "00:00.5"),
        step(1, "generate", "00:04.5", draft),
        step(2, "human", "30:04.5", edited),
        step(3, "check", "30:05.5"),
        step(4, "input", "59:00"),
        step(5, "start", "59:01"),
    ]
    told = profile_of([steps, steps])
    assert (told["threads"], told["seconds"], told["person_seconds"]) == (2, 13.0, 3600.0)
    (row,) = told["models"]
    assert (row["node"], row["by"], row["usage"]["calls"], row["usage"]["seconds"]) == ("generate", "small", 4, 6.0)
    assert told["rest"] == {"start": 3.0, "generate": 2.0, "check": 2.0}


@pytest.mark.slow
def test_a_flame_chart_has_rounds_over_nodes_over_calls() -> None:
    """Each bar begins where its time did, on one axis without people's time; calls side by side lie below another."""

    def asked(kind: str, by: str, number: int, seconds: float) -> Any:
        usage = {**NO_USAGE, "calls": 1, "total_tokens": 5, "seconds": seconds}
        return {"kind": kind, "by": by, "round": number, "usage": usage}

    steps = [
        step(0, "prepare", "00:00"),
        step(1, "generate", "00:04", asked("draft", "small", 0, 3.0)),
        step(2, "human", "30:04", asked("human", "human", 0, 0.0)),
        step(3, "refine", "30:08", asked("revision", "small", 1, 4.0)),
        step(4, "feedback", "30:10", asked("critique", "a", 1, 2.0), asked("critique", "b", 1, 1.0)),
    ]
    told = flame_of(steps)
    assert told
    assert (told["seconds"], told["levels"]) == (10.0, 4)
    assert [(bar["level"], bar["name"], bar["start"], bar["width"]) for bar in told["bars"]] == [
        (0, "round 0", 0.0, 400.0),
        (1, "generate", 0.0, 400.0),
        (2, "small", 0.0, 300.0),
        (0, "round 1", 400.0, 600.0),
        (1, "refine", 400.0, 400.0),
        (2, "small", 400.0, 400.0),
        (1, "feedback", 800.0, 200.0),
        (2, "a", 800.0, 200.0),
        (3, "b", 800.0, 100.0),
    ]
    assert told["bars"][3]["tokens"] == 15
    assert flame_of(steps[:1]) is None
    assert flame_of([step(0, "prepare", "00:00"), step(1, "generate", "00:00")]) is None  # too fast to be drawn
