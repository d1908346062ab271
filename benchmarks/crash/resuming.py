"""A process that takes one thread to its end, from where it is: `resuming.py MODEL DATABASE THREAD [HOST [BEHIND]]`.

HOST is another name for this machine, whose clock then is BEHIND by so many seconds.
"""

from __future__ import annotations

import os
import socket
import sys
import time

os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")

from redraft import Thread, chat_model, open_checkpointer
from redraft.evals import build_method


def main(model: str, database: str, thread_id: str, host: str = "", behind: str = "0") -> None:
    """Print the answer."""
    if host:
        now, late = time.time_ns, int(behind) * 10**9
        socket.gethostname = lambda: host
        time.time_ns = lambda: now() - late
    with open_checkpointer(database) as saver:
        graph = build_method("self-refine-3", "exact", chat_model(model), checkpointer=saver).graph
        config = {"configurable": {"thread_id": thread_id}}
        if saver.get_tuple(config) is None:
            print(graph.invoke({"task": "Solve it."}, config, durability="sync")["answer"])
        else:
            print(Thread(graph, thread_id).resume()["answer"])


if __name__ == "__main__":
    main(*sys.argv[1:])
