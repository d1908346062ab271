"""Whatever a model's server does, a run ends, says why in plain words, accepts nothing that is not whole, and goes on
when it is resumed."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import openai
import pytest
from redraft.graphs.loop import build_refine_graph
from redraft.models import BrokenReplyError, chat_model
from redraft.nodes.critics.critics import model_critic
from redraft.nodes.generate import EmptyDraftError
from redraft.state import Thread, open_checkpointer
from redraft.state.stopping import STOP_REASONS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LATE = ("timeout", "drip", "drip_headers")
WORDS = {
    "429": "429",
    "429_retry_after": "429",
    "500": "500",
    "503": "503",
    "timeout": "timed out: no whole reply within 0.1 s",
    "drip": "timed out: no whole reply within 0.1 s",
    "drip_headers": "timed out: no whole reply within 0.1 s",
    "reset": "Connection error: ",
    "truncated": "Connection error: ",
    "invalid_json": "sent no chat completion",
    "empty_choices": "sent no chat completion",
    "wrong_type": "Sign in to this network",
}
IN_STREAMS = {"truncated": "stream ended before"}
RETRIED = ("429", "429_retry_after", "500", "503", "timeout", "drip_headers")
RETRIED_WHOLE = (*RETRIED, "reset", "truncated", "drip")
THREAD: Any = {"configurable": {"thread_id": "lamp"}}


def streamed(graph: Any) -> None:
    for _ in graph.stream({"task": "Say lamp."}, THREAD, stream_mode="messages"):
        pass


async def astreamed(graph: Any) -> None:
    async for _ in graph.astream({"task": "Say lamp."}, THREAD, stream_mode="messages"):
        pass


WAYS: dict[str, Callable[[Any], Any]] = {
    "invoke": lambda graph: graph.invoke({"task": "Say lamp."}, THREAD),
    "ainvoke": lambda graph: asyncio.run(graph.ainvoke({"task": "Say lamp."}, THREAD)),
    "stream": streamed,
    "astream": lambda graph: asyncio.run(astreamed(graph)),
}


def told(event: Any) -> str:
    return f"{event['error']}: {event['text']}"


@pytest.mark.one_of_each("kind")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", WORDS)
def test_a_fault_after_the_first_draft(fail: Callable[..., Any], tmp_path: Path, kind: str, way: str) -> None:
    """The run ends as failed with its draft, after no more attempts than allowed; resumed, it is finished."""
    server = fail(rate=1, kinds=[kind], first=[None])
    patient = chat_model(server.spec, timeout_s=60)
    judge = chat_model(server.spec, timeout_s=0.1 if kind in LATE else 60, max_retries=2)
    with open_checkpointer(str(tmp_path / "runs.sqlite")) as saver:
        graph = build_refine_graph(patient, critics=[model_critic(judge)], checkpointer=saver)
        WAYS[way](graph)
        found = graph.get_state(THREAD).values
        assert found["stop_reason"] == "failed"
        assert found["answer"].split() == next(iter(server.said)).split()
        failure, verdict = found["events"][-2:]
        assert (failure["kind"], failure["node"], verdict["kind"]) == ("failure", "feedback", "verdict")
        in_stream = "stream" in way
        assert (IN_STREAMS.get(kind, WORDS[kind]) if in_stream else WORDS[kind]) in told(failure)
        retried = kind in (RETRIED if in_stream else RETRIED_WHOLE)
        sent = [attempt.number for attempt in server.attempts]
        if kind not in LATE:
            assert sent == [0, 0, 1, 2][: 4 if retried else 2]
        else:  # a busy machine may give up on a request before the server has it
            assert max(sent) <= 2
        if (kind, in_stream) != ("drip", True):  # and on a stream before it has begun
            assert ("attempt 3, the last one" in told(failure)) == (retried and not kind[0].isdigit())

        server.rate = 0
        again = build_refine_graph(patient, critics=[model_critic(patient)], checkpointer=saver)
        out = Thread(again, "lamp").resume(allow_changes=True)
        assert out["stop_reason"] in ("accepted", "max_rounds")
        assert out["events"][: len(found["events"])] == found["events"]


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("500", openai.InternalServerError),
        ("reset", openai.APIConnectionError),
        ("wrong_type", BrokenReplyError),
        ("refusal", EmptyDraftError),
    ],
)
def test_a_fault_in_the_first_draft(
    fail: Callable[..., Any], tmp_path: Path, run: Any, kind: str, error: type[Exception]
) -> None:
    """It is raised, since there is nothing to keep; the thread goes on from there, and pays nothing twice."""
    server = fail(rate=1, kinds=[kind])
    with open_checkpointer(str(tmp_path / "runs.sqlite")) as saver:
        graph = build_refine_graph(chat_model(server.spec, max_retries=1), checkpointer=saver)
        words = {"refusal": "was refused: This request is against the rules."}.get(kind, WORDS.get(kind, ""))
        with pytest.raises(error, match=words):
            run(graph, {"task": "Say lamp."}, THREAD)
        assert len(server.attempts) == (2 if kind in RETRIED_WHOLE else 1)
        server.rate = 0
        out = Thread(graph, "lamp").resume()
        assert out["stop_reason"] in ("accepted", "max_rounds")


def test_a_refused_verdict_accepts_nothing(fail: Callable[..., Any], run: Any) -> None:
    """A judge that refuses is no judge: the run says so, and stops where nobody can tell anything."""
    server = fail(rate=1, kinds=["refusal"], first=[None])
    out = run(build_refine_graph(chat_model(server.spec)), {"task": "Say lamp."})
    critique = next(event for event in out["events"] if event["kind"] == "critique")
    assert critique["accepted"] is None
    assert "This request is against the rules." in critique["text"]
    assert out["stop_reason"] not in ("accepted", None)


def test_many_runs_at_one_fault_in_five(fail: Callable[..., Any], tmp_path: Path) -> None:
    """Each run ends or raises by its rules, no call is tried more often than allowed, and a second pass ends all."""
    server = fail(rate=0.2, seed=9)
    most = 2

    async def all_runs(graph: Any, *, again: bool) -> list[Any]:
        busy = asyncio.Semaphore(16)

        async def one(number: int) -> Any:
            async with busy:
                if again:
                    return await Thread(graph, str(number)).aresume()
                config: Any = {"configurable": {"thread_id": str(number)}}
                return await graph.ainvoke({"task": f"Say lamp {number}."}, config)

        return await asyncio.gather(*map(one, range(60)), return_exceptions=True)

    async def twice() -> tuple[list[Any], list[Any]]:
        async with open_checkpointer(str(tmp_path / "runs.sqlite")) as saver:
            hasty, patient = (chat_model(server.spec, max_retries=most, timeout_s=limit) for limit in (1.5, 60))
            first = await all_runs(build_refine_graph(hasty, checkpointer=saver), again=False)
            server.rate = 0
            return first, await all_runs(build_refine_graph(patient, checkpointer=saver), again=True)

    first, second = asyncio.run(twice())
    raised = [one for one in first if isinstance(one, BaseException)]
    assert [one for one in raised if not isinstance(one, openai.APIError | BrokenReplyError | EmptyDraftError)] == []
    ended = [one for one in first if not isinstance(one, BaseException)]
    assert all(one["stop_reason"] in STOP_REASONS for one in ended)
    assert {"failed", "accepted"} <= {one["stop_reason"] for one in ended}
    assert {one["stop_reason"] for one in second} <= {*STOP_REASONS} - {"failed"}
    for one in [*ended, *second]:
        assert one["answer"] in server.said
        if one["stop_reason"] == "accepted":
            verdict = next(event for event in reversed(one["events"]) if event["kind"] == "critique")
            assert any(verdict["text"] in said for said in server.said if said.startswith("{"))
    assert max(attempt.number for attempt in server.attempts) <= most
    assert len({attempt.fault for attempt in server.attempts}) > 8
    for attempts in server.calls().values():
        for refused, again in itertools.pairwise(attempts):
            if refused.fault == "429_retry_after" and again.number == refused.number + 1:
                assert again.began - refused.ended >= server.retry_after_s
