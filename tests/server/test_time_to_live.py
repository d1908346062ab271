"""A server deletes the threads that nobody has touched for their time to live, and no other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.server import Engine, Settings
from redraft.server.engine.ownership import LOCAL
from redraft.server.engine.runs import Caller, NotThereError, Submission
from redraft.state import Thread, open_checkpointer

if TYPE_CHECKING:
    from pathlib import Path

MONTH = timedelta(days=30)
TASK: Any = {"task": "Write."}


async def test_threads_that_nobody_touched_for_a_month_are_deleted(tmp_path: Path, talking: Any) -> None:
    """With `--default-ttl 30d` a finished thread goes with its replies a month after it last moved; one that runs,
    waits for a person, is held by somebody or moved since stays, and so do other callers'."""
    db, theirs = str(tmp_path / "runs.sqlite"), Caller("token-theirs")
    kept = Settings(db=db, default_ttl=MONTH / timedelta(minutes=1))
    with open_checkpointer(db) as saver:

        def thread(name: str) -> Thread:
            return Thread(build_refine_graph(ScriptedModel(["made here"]), critics=[], checkpointer=saver), name)

        thread("shell").graph.invoke({**TASK, "limits": {"max_rounds": 0}}, thread("shell").config)
        engine = Engine(kept, build_model=lambda spec: talking.model)
        await engine.start()
        for name, preset in (("done", "refine"), ("moved", "refine"), ("held", "refine"), ("asks", ASKS)):
            await engine.join(
                await engine.submit(
                    LOCAL, Submission(assistant=preset, thread_id=name, input=TASK, if_not_exists="create")
                )
            )
        other = await engine.submit(
            theirs, Submission(assistant="refine", thread_id="theirs", input=TASK, if_not_exists="create")
        )
        await engine.join(other)
        talking.gate.clear()
        running = await engine.submit(
            LOCAL, Submission(assistant="refine", thread_id="runs", input=TASK, if_not_exists="create")
        )
        later = datetime.now(UTC)
        await thread("moved").graph.aupdate_state(
            thread("moved").config, {"limits": {"max_rounds": 1}}, as_node="check"
        )

        assert await engine.tending.sweep(later + MONTH - timedelta(hours=1)) == []
        async with thread("held").astoppable():
            assert await engine.tending.sweep(later + MONTH) == ["shell", "done"]
        assert saver.get_tuple({"configurable": {"thread_id": "done"}}) is None
        assert saver.journal.calls("done") == []
        with pytest.raises(NotThereError):
            await engine.owned.thread(LOCAL, "done")
        assert await engine.tending.sweep(later + 2 * MONTH) == ["moved", "held"]
        talking.gate.set()
        await engine.join(running)
        assert await engine.tending.sweep(datetime.now(UTC) + MONTH) == ["runs"]
        await engine.stop()

        asked = Engine(
            Settings(**{**kept.model_dump(), "tokens": ("a-token-of-16-letters",)}),
            build_model=lambda spec: talking.model,
        )
        await asked.start()
        assert await asked.tending.sweep(datetime.now(UTC) + MONTH) == ["theirs"]
        await asked.stop()
        asked = Engine(Settings(**{**kept.model_dump(), "ttl_includes_interrupted": True}))
        await asked.start()
        assert await asked.tending.sweep(datetime.now(UTC) + MONTH) == ["asks"]
        await asked.stop()
        assert saver.runs.list() == []


ASKS = "refine-with-a-person"
