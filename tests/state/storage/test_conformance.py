"""LangGraph's own conformance suite and the contract of delta channels, on each saver as a user opens it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from redraft.state import open_checkpointer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytest.importorskip("langgraph.checkpoint.conformance", reason="langgraph-checkpoint-conformance is not installed")

from langgraph.checkpoint.conformance import checkpointer_test, validate

TESTS = {
    **{"put": 17, "put_writes": 10, "get_tuple": 10, "list": 16, "delete_thread": 5},
    **{"copy_thread": 8, "prune": 8, "delete_for_runs": 7},
}
"""Tests that the suite has, counted so that none is skipped unseen."""


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def backend(request: pytest.FixtureRequest) -> str:
    """The name of each kind of database in turn."""
    return str(request.param)


@pytest.fixture
def url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What `open_checkpointer` takes for it: an empty database."""
    if backend == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return {"memory": "memory", "sqlite": str(tmp_path / "runs.sqlite")}[backend]


async def test_every_saver_passes_langgraphs_conformance_suite(backend: str, url: str) -> None:
    """What LangGraph asks of a checkpointer, each saver does: no test of the suite fails, and none is left out."""

    @checkpointer_test(name=backend)
    async def opened() -> AsyncIterator[Any]:
        async with open_checkpointer(url) as saver:
            yield saver

    report = await validate(opened)
    results = report.results.items()
    assert {name: result.failures for name, result in results if result.failures} == {}
    assert {name: result.tests_passed for name, result in results if result.detected} == TESTS


async def _chain(saver: Any, steps: list[tuple[Any, list[tuple[str, str, Any]]]]) -> Any:
    """Checkpoints of one thread, each with what it holds of the channel and the writes saved under it; the newest."""
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    for number, (held, writes) in enumerate(steps, start=1):
        values = {} if held is None else {"words": held}
        checkpoint: Any = {**empty_checkpoint(), "channel_values": values, "channel_versions": {"words": str(number)}}
        config = await saver.aput(config, checkpoint, {"step": number}, {"words": str(number)})
        for task_id, task_path, value in writes:
            await saver.aput_writes(config, [("words", value), ("other", value)], task_id, task_path)
    return config


SNAPSHOT = _DeltaSnapshot(["kept"])


@pytest.mark.parametrize(
    ("steps", "seed", "written"),
    [
        ([(None, [("a", "", 1)]), (None, [("b", "", 2)]), (None, [("c", "", 3)])], None, [1, 2]),
        ([(None, [("a", "", 1)]), (SNAPSHOT, [("b", "", 2)]), (None, [("c", "", 3)]), (None, [])], SNAPSHOT, [2, 3]),
        ([(SNAPSHOT, [("a", "", 1)]), (["plain"], [("b", "", 2)]), (None, [])], ["plain"], [2]),
        ([(None, [("a", "~2", 2), ("z", "~1", 1), ("m", "", 0)]), (None, [])], None, [0, 1, 2]),
        ([(SNAPSHOT, [])], None, []),
    ],
    ids=["no snapshot", "nearest snapshot and its own writes", "a plain value", "tasks in order", "one checkpoint"],
)
async def test_a_delta_channels_history_is_what_led_to_a_checkpoint(
    url: str, steps: list[Any], seed: Any, written: list[Any]
) -> None:
    """The writes after the nearest stored value, oldest first and tasks in order, without the checkpoint's own."""
    async with open_checkpointer(url) as saver:
        newest = await _chain(saver, steps)
        latest: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        for config in (newest, latest):
            for found in (
                await saver.aget_delta_channel_history(config=config, channels=["words"]),
                saver.get_delta_channel_history(config=config, channels=["words"]),
            ):
                assert found["words"].get("seed") == seed
                assert [value for _, _, value in found["words"]["writes"]] == written
        assert await saver.aget_delta_channel_history(config=newest, channels=[]) == {}
