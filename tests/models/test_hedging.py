"""Slow calls of a batch are asked twice, a few of them, and what that costs is counted."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from redraft import build_refine_graph, chat_model, run_many, uses_words
from redraft.models import hedging
from redraft.models.hedging import Hedges

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow
USAGE: Any = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}


def reply(text: str) -> ChatResult:
    message = AIMessage(text, usage_metadata=dict(USAGE), response_metadata={"model_name": "m"})
    return ChatResult(generations=[ChatGeneration(message=message)])


async def warm(hedges: Hedges) -> None:
    """Make the calls after which it is known what is slow."""

    async def ask() -> ChatResult:
        return reply("soon")

    for _ in range(40):
        await hedges.first_of("m", ask)


class Never:
    """Calls that answer in turn; `None` never does."""

    def __init__(self, *answers: Any) -> None:
        self.answers = [*answers]
        self.asked = self.cancelled = 0
        self.twice = asyncio.Event()

    async def __call__(self) -> ChatResult:
        answer = self.answers[self.asked]
        self.asked += 1
        if self.asked == 2:
            self.twice.set()
        try:
            if answer is None:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if isinstance(answer, Exception):
            raise answer
        return reply(answer)


async def test_a_call_that_takes_long_is_asked_again_and_counted_twice() -> None:
    """The second reply is taken where the first call hangs; that one is cancelled, and its tokens are in the usage."""
    hedges, hung = Hedges(), Never(None, "second")
    await warm(hedges)
    message: Any = (await hedges.first_of("m", hung)).generations[0].message
    assert (message.text, hung.asked, hung.cancelled, hedges.twice) == ("second", 2, 1, 1)
    assert message.usage_metadata == {name: 2 * count for name, count in USAGE.items()}
    assert message.response_metadata == {"model_name": "m", "hedged": True}


async def test_few_calls_are_asked_twice_and_errors_are_waited_out() -> None:
    """Beyond the share, or before it is known what is slow, a call is waited for; so is the other where one fails."""
    hedges = Hedges(share=0.02)
    early = asyncio.create_task(hedges.first_of("m", Never(None)))
    await warm(hedges)
    assert hedges.twice == 0
    early.cancel()
    hedges = Hedges()
    await warm(hedges)
    for answers, wanted in (((ValueError("no"),), "no"), ((None, ValueError("no")), None)):
        asked = Never(*answers)
        running = asyncio.create_task(hedges.first_of("m", asked))
        if wanted:
            with pytest.raises(ValueError, match=wanted):
                await running
        else:
            await asked.twice.wait()
            assert not running.done()  # the first may still reply
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert asked.cancelled == 1


def test_a_batch_hedges_its_calls(serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """`run_many(…, hedge=True)`: a call that hangs at the server is answered by its twin, and the bar tells of it."""
    monkeypatch.setattr(hedging, "SLOWER_BY", 30)  # so that only the call that hangs is asked twice
    hung, told = threading.Event(), list[int]()
    times: dict[str, int] = {}

    def answers(request: Any) -> str:
        text = str(request["messages"][-1]["content"])
        times[text] = times.get(text, 0) + 1
        if "Write 30." in text and times[text] == 1:
            hung.wait(30)
        elif "Write 30." in text:
            hung.set()
        return "rain"

    server = serve(answers)
    graph = build_refine_graph(chat_model(server.spec, max_retries=0), verifiers=[uses_words("rain")])
    tasks = [f"Write {number}." for number in range(40)]
    results = run_many(graph, tasks, hedge=True, on_progress=lambda progress, _: told.append(progress.hedged))
    assert {one["stop_reason"] for one in results} == {"accepted"}
    assert hung.is_set()
    assert told[-1] >= 1
    tokens = [one["usage"]["total_tokens"] for one in results]
    assert tokens[30] == max(tokens) > min(tokens)
