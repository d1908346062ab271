"""A process that takes one thread to its end, from where it is: `resuming.py MODEL DATABASE THREAD`."""

from __future__ import annotations

import os
import sys

os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")

from redraft import Thread, chat_model, open_checkpointer
from redraft.evals import build_method


def main(model: str, database: str, thread_id: str) -> None:
    """Print the answer."""
    with open_checkpointer(database) as saver:
        graph = build_method("self-refine-3", "exact", chat_model(model), checkpointer=saver).graph
        config = {"configurable": {"thread_id": thread_id}}
        if saver.get_tuple(config) is None:
            print(graph.invoke({"task": "Solve it."}, config, durability="sync")["answer"])
        else:
            print(Thread(graph, thread_id).resume()["answer"])


if __name__ == "__main__":
    main(*sys.argv[1:])
