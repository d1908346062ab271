"""What is written once serves who calls and who awaits, with the same results and the same errors."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.errors import GraphBubbleUp
from redraft.nodes.runtime.step import DualRunnable, tolerated
from redraft.state.dual import Do, DualCallable

if TYPE_CHECKING:
    from collections.abc import Generator


def half(number: int) -> int:
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number // 2


async def ahalf(number: int) -> int:
    await asyncio.sleep(0)
    return half(number)


class Halves(DualCallable[[int], list[int]]):
    def logic(self, number: int, /) -> Generator[Do, Any, list[int]]:
        found = []
        while number:
            try:
                number = yield Do(half, ahalf, (number,))
            except ValueError:
                return found
            found.append(number)
        return found


class Half(DualRunnable[int, int]):
    def logic(self, input: int, config: Any) -> Generator[Do, Any, int]:  # noqa: A002
        return (yield Do(half, ahalf, (input,)))


def test_called_and_awaited_it_is_the_same() -> None:
    """Called or awaited, a callable has one result, and handles an error of a call where it came."""
    assert Halves()(12) == asyncio.run(Halves().acall(12)) == [6, 3]


def test_an_error_that_nobody_handles_is_raised() -> None:
    """An error of a call comes out as it is, invoked or awaited, and so does a result in a chain."""
    assert (Half() | Half()).invoke(12) == asyncio.run((Half() | Half()).ainvoke(12)) == 3
    with pytest.raises(ValueError, match="3 is odd"):
        Half().invoke(3)
    with pytest.raises(ValueError, match="3 is odd"):
        asyncio.run(Half().ainvoke(3))


def test_a_part_may_fail_but_not_a_pause() -> None:
    """What may fail is noted and replaced; a pause of LangGraph's own passes through it."""
    noted: list[Exception] = []

    class Part(DualCallable[[Any], int]):
        def logic(self, given: Any, /) -> Generator[Do, Any, int]:
            def work() -> Generator[Do, Any, int]:
                if isinstance(given, Exception):
                    raise given
                return (yield Do(half, ahalf, (given,)))

            return (yield from tolerated(work(), instead=-1, note=noted.append))

    assert [Part()(4), Part()(3), asyncio.run(Part().acall(3))] == [2, -1, -1]
    assert [str(error) for error in noted] == ["3 is odd"] * 2
    with pytest.raises(GraphBubbleUp):
        Part()(GraphBubbleUp())
