"""How several critics are asked about one draft."""

from __future__ import annotations

import asyncio
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from redraft import Thread, build_refine_graph, model_critic
from redraft.models import ScriptedModel

ONE: Any = {"configurable": {"thread_id": "one"}}
GOOD, BAD = "no issues", "Shorter, and say which lamp."


class Counted(ScriptedModel):
    """A scripted model that notes how many calls of all of them are under way at once."""

    async def _agenerate(self, *args: Any, **named: Any) -> Any:
        UNDER_WAY[0] += 1
        UNDER_WAY[1] = max(UNDER_WAY)
        for _ in range(100):  # the others get to where they call
            await asyncio.sleep(0)
        try:
            return await super()._agenerate(*args, **named)
        finally:
            UNDER_WAY[0] -= 1


UNDER_WAY = [0, 0]
"""Now, and at most."""


def graph_of(*judges: Any, **options: Any) -> Any:
    """A loop that two models judge."""
    UNDER_WAY[:] = [0, 0]
    named = [model_critic(judge, name=f"judge {number}") for number, judge in enumerate(judges)]
    return build_refine_graph(ScriptedModel(["A draft."]), critics=named, **options)


def critiques(output: Any) -> list[Any]:
    """Who said what, in the order of the record."""
    return [(event["by"], event["accepted"]) for event in output["events"] if event["kind"] == "critique"]


async def test_models_that_are_asked_in_any_case_are_asked_side_by_side() -> None:
    """Two judges take the time of one; the record has them in order, and each one's tokens. Budgets ask in turn."""
    graph = graph_of(Counted([BAD]), Counted([GOOD]))
    output = await graph.ainvoke({"task": "Write.", "limits": {"max_rounds": 0}})
    assert UNDER_WAY[1] == 2
    assert critiques(output) == [("judge 0", False), ("judge 1", True)]
    assert output["usage"]["calls"] == 3
    for given in ({"max_tokens": 10_000}, {"max_seconds": 100}):
        graph = graph_of(Counted([BAD]), Counted([GOOD]))
        output = await graph.ainvoke({"task": "Write.", "limits": {"max_rounds": 0, **given}})
        assert UNDER_WAY[1] == 1
        assert critiques(output) == [("judge 0", False), ("judge 1", True)]
    graph = graph_of(ScriptedModel([BAD]), ScriptedModel([GOOD]))
    assert critiques(graph.invoke({"task": "Write.", "limits": {"max_rounds": 0}})) == critiques(output)


async def test_where_one_of_them_fails_the_others_are_not_asked_again() -> None:
    """The answer that came is kept; who resumes the run asks the one that failed, and nobody else."""
    with_failure = graph_of(Counted([ValueError("down")]), Counted([GOOD]), checkpointer=InMemorySaver())
    failed = await with_failure.ainvoke({"task": "Write."}, ONE)
    assert failed["stop_reason"] == "failed"
    assert critiques(failed) == [("judge 1", True)]
    saver = with_failure.checkpointer
    second = Counted([])
    output = await Thread(graph_of(Counted([GOOD]), second, checkpointer=saver), "one").aresume()
    assert output["stop_reason"] == "accepted"
    assert critiques(output) == [("judge 1", True), ("judge 0", True)]
    assert not second.calls
