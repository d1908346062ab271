"""Results: a success with its value or a failure with a message."""

from __future__ import annotations

import pytest
from redraft.nodes.reasoning.safe_arrows import FailureError, Result


def test_match_takes_one_way_or_the_other() -> None:
    """A success and a failure are told apart without an exception, and each gives what its function makes of it."""
    assert Result.success(3).match(lambda value: f"got {value}", lambda message: f"no: {message}") == "got 3"
    assert Result[int].failure("empty").match(lambda value: f"got {value}", lambda message: f"no: {message}") == (
        "no: empty"
    )


def test_a_chain_stops_at_the_first_failure() -> None:
    """After a failure nothing more is called, and its message comes out at the end."""
    called = []

    def note(value: int) -> int:
        called.append(value)
        return value + 1

    assert Result.success(1).map(note).map(note).value == 3
    stopped = Result.success(1).bind(lambda _: Result[int].failure("first")).map(note).bind(lambda _: Result.success(9))
    assert (stopped.ok, stopped.message, called) == (False, "first", [1, 2])


def test_a_failure_has_a_message_and_no_value() -> None:
    """Whoever asks a failure for its value is told why there is none, and a failure without a reason can't be made."""
    with pytest.raises(FailureError, match="nothing there"):
        _ = Result[int].failure("nothing there").value
    with pytest.raises(ValueError, match="says why"):
        Result.failure(" ")
    assert repr(Result.success("x")) == "Result.success('x')"
    assert repr(Result.failure("x")) == "Result.failure('x')"


def test_a_failure_keeps_what_was_done_before() -> None:
    """Through a chain too, so that nothing that was paid for is lost."""
    stopped = Result[int].failure("late", partial=[1]).map(str).bind(lambda _: Result.success(9))
    assert (stopped.ok, stopped.message, stopped.partial) == (False, "late", [1])
