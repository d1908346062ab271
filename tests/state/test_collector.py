"""Many runs in one process: the garbage collector is set for them, and put back."""

from __future__ import annotations

import asyncio
import gc
import logging
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest
import redraft
from redraft.models import ScriptedModel
from redraft.nodes.runtime import step
from redraft.state import collector
from redraft.state.collector import THRESHOLDS, StepCount

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redraft.state import Critique


@pytest.fixture(autouse=True)
def _untuned(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begin with nothing frozen, as a user's process does, and not with what the suite freezes of its own objects."""
    monkeypatch.setattr(collector, "gc", gc)
    gc.unfreeze()
    yield
    gc.freeze()


def test_the_outermost_block_sets_the_collector_and_puts_it_back() -> None:
    """A service that is tuned can start a batch that tunes itself, and is tuned afterwards; after both, nothing is."""
    before = gc.get_threshold()
    with redraft.tuned_gc():
        with redraft.tuned_gc():
            assert gc.get_threshold() == THRESHOLDS
        assert gc.get_threshold() == THRESHOLDS
        assert gc.get_freeze_count()
    assert gc.get_threshold() == before
    assert not gc.get_freeze_count()


@pytest.mark.parametrize("tuned", [False, True])
def test_a_hint_names_tuned_gc_once(
    tuned: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who starts many runs at once is told once what would make them cheaper; who has done it is told nothing."""
    monkeypatch.setattr(step, "RUNNING", StepCount(many=4))

    async def go() -> None:
        all_wait = asyncio.Barrier(4)

        async def critic(task: str, draft: str, history: object, /) -> Critique:
            await all_wait.wait()
            return redraft.Critique("", accepted=True)

        graph = redraft.build_refine_graph(ScriptedModel(["draft"] * 8), critics=[critic])
        for _ in range(2):
            await asyncio.gather(*(graph.ainvoke({"task": "Write."}) for _ in range(4)))

    with caplog.at_level(logging.WARNING, "redraft"), redraft.tuned_gc() if tuned else nullcontext():
        asyncio.run(go())
    assert caplog.text.count("redraft.tuned_gc()") == (0 if tuned else 1)
    assert step.RUNNING.now == 0
