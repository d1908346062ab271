"""Runs the loop once in a process that kills itself, or is killed.

`killed_run.py DB MODEL_SPEC MOMENT CHECKPOINTS [async]`

MOMENT is `node:NAME` (on entering that node), `put:N` (when checkpoint N is about to be saved, the writes of the node
before it being saved already) or `call` (never: the model server kills this process). Used by test_kill.py.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from redraft.graphs.loop import build_refine_graph
from redraft.models import chat_model
from redraft.nodes.runtime.step import Step
from redraft.state import open_checkpointer

TASK = "Write one short sentence that uses river and lamp."


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_on_entering(node: str) -> None:
    """Patch the node's drivers."""
    invoke, ainvoke = Step.invoke, Step.ainvoke

    def dying_invoke(self: Step, given: Any, config: Any = None, **rest: Any) -> Any:
        if self.name == node:
            die()
        return invoke(self, given, config, **rest)

    async def dying_ainvoke(self: Step, given: Any, config: Any = None, **rest: Any) -> Any:
        if self.name == node:
            die()
        return await ainvoke(self, given, config, **rest)

    Step.invoke, Step.ainvoke = dying_invoke, dying_ainvoke  # type: ignore[method-assign]


def kill_at_put(saver: Any, number: int) -> None:
    """Patch the saver: checkpoint `number` is never saved."""
    count = 0

    def dying(put: Any) -> Any:
        def dying_put(self: Any, *args: Any) -> Any:
            nonlocal count
            count += 1
            if count == number:
                die()
            return put(self, *args)

        return dying_put

    for name in ("put", "aput"):
        setattr(type(saver), name, dying(getattr(type(saver), name)))


def main(database: str, spec: str, moment: str, checkpoints: Any, *asynchronous: str) -> None:
    kind, _, what = moment.partition(":")
    if kind == "node":
        kill_on_entering(what)
    with open_checkpointer(database) as saver:
        if kind == "put":
            kill_at_put(saver, int(what))
        graph = build_refine_graph(chat_model(spec), checkpointer=saver, checkpoints=checkpoints)
        config: Any = {"configurable": {"thread_id": "killed"}}
        if asynchronous:
            asyncio.run(graph.ainvoke({"task": TASK}, config, durability="sync"))
        else:
            graph.invoke({"task": TASK}, config, durability="sync")


if __name__ == "__main__":
    main(*sys.argv[1:])
