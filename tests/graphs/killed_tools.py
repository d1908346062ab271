"""Runs an agent that calls a tool three times in one message: `killed_tools.py DB CHARGES DURABILITY HOW KILL`.

CHARGES is the file that the tool writes to, a line a call: amount and idempotency key. With KILL `yes` the third call
kills the process once the others are kept. Used by test_kill.py.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

from langchain_core.tools import tool
from redraft.graphs.agent import build_agent_graph
from redraft.models import ScriptedModel
from redraft.nodes import idempotency_key
from redraft.state import open_checkpointer

CONFIG: Any = {"configurable": {"thread_id": "charges"}}


class Cashier(ScriptedModel):
    """Charges three times in its first message."""

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        result = super()._generate(messages, stop, run_manager, **kwargs)
        message: Any = result.generations[0].message
        if message.content == "CHARGE":
            # The last two are alike: each is a charge of its own.
            message.tool_calls = [
                {"name": "charge", "args": {"amount": amount}, "id": f"c{number}"}
                for number, amount in enumerate((1, 2, 2, 3))
            ]
        return result


def main(db: str, charges: str, durability: Any, how: str, kill: str) -> None:
    with open_checkpointer(db) as saver:

        @tool
        def charge(amount: int) -> str:
            """Charge so many dollars."""
            if amount == 3:
                while len(saver.journal.calls("charges")) < 4:
                    pass
            with open(charges, "a", encoding="utf-8") as file:
                file.write(f"{amount} {idempotency_key()}\n")
            if amount == 3 and kill == "yes":
                os.kill(os.getpid(), signal.SIGKILL)
            return f"charged {amount}"

        model = Cashier(["CHARGE"] if kill == "yes" else ["All charged.", "no issues"])
        graph = build_agent_graph(model=model, tools=[charge], checkpointer=saver)
        given = {"task": "Charge them."}
        # With `exit` nothing was saved, so the task is given again.
        begun = kill == "yes" or graph.get_state(CONFIG).next == ()
        if how == "async":
            output = asyncio.run(graph.ainvoke(given if begun else None, CONFIG, durability=durability))
        else:
            output = graph.invoke(given if begun else None, CONFIG, durability=durability)
        print(json.dumps({"answer": output["answer"], "calls": output["usage"]["calls"]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
