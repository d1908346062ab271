"""Where the seconds of runs went."""

from __future__ import annotations

from typing import Any

from redraft.faces.views.where_time_went import profile_of
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
