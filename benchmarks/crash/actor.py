"""One process of a history: `actor.py HOST BEHIND LEASE ROLE DATABASE MODEL …`.

HOST is the name of its machine, whose clock is BEHIND by so many seconds and whose processes no other machine can look
up; a lease holds LEASE seconds. As `server` or `worker` it is the command of that name, with the words that follow. As
`loop` or `agent` it takes the threads that are named by the words that follow to their ends, whoever else does: it
begins those that are named with a `+`, and goes on with the others once they are there.
"""

from __future__ import annotations

import hashlib
import os
import socket
import sys
import time
from typing import Any

os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")

from redraft import Critique, Thread, chat_model, open_checkpointer
from redraft.graphs.loop import build_refine_graph
from redraft.nodes import model_critic
from redraft.state import BusyThreadError
from redraft.state.storage import lease_keeper, leases

ROUNDS = 2
PROMPT = "You check as judge {}.\n{{task}}\n{{draft}}"


def on_machine(host: str, behind: float, lease: float) -> None:
    """Let this process be on another machine, and leases and servers be as short of patience as a history is."""
    now, real = time.time_ns, time.time
    late = int(behind * 10**9)
    time.time_ns = lambda: now() - late
    time.time = lambda: real() - behind
    socket.gethostname = lambda: host
    of_host: Any = lambda: host  # noqa: E731
    leases._machine = of_host  # type: ignore[assignment]
    leases._named.cache_clear()
    lease_keeper.LEASE_S = leases.LEASE_S = lease
    lease_keeper.BEAT_S = lease / 4
    lease_keeper.LOOK_S = min(lease / 4, 0.5)
    lease_keeper.PATIENCE_S = 0.1


def accept(task: str, draft: str, history: Any, /) -> Critique:
    """Accept one draft in three."""
    good = int(hashlib.sha256(draft.encode()).hexdigest()[:4], 16) % 3 == 0
    return Critique("" if good else f"Mend {len(draft)}.", accepted=good, score=1.0 if good else 0.3)


def look(word: str) -> str:
    """Look a word up."""
    return hashlib.sha256(word.encode()).hexdigest()


def built(role: str, model: Any, saver: Any) -> Any:
    """Return the graph of a role."""
    if role == "loop":
        # Several calls in one step: killed between them, it finds those that were answered in the journal.
        judges = [model_critic(model, prompt=PROMPT.format(number), name=f"judge-{number}") for number in range(3)]
        return build_refine_graph(model, critics=judges, checkpointer=saver, limits={"max_rounds": ROUNDS})
    from langchain.agents import create_agent
    from redraft import RefineMiddleware

    middleware = [RefineMiddleware([accept], max_rounds=ROUNDS)]
    return create_agent(model, [look], middleware=middleware, checkpointer=saver)


def given(role: str, name: str) -> Any:
    """Return the input that a thread begins with."""
    task = f"Tell of {name}."
    return {"task": task} if role == "loop" else {"messages": [("user", task)]}


def work(role: str, database: str, spec: str, names: list[str]) -> None:
    """Return when all of these threads have ended."""
    with open_checkpointer(database) as saver:
        graph = built(role, chat_model(spec), saver)
        mine, left = {name[1:] for name in names if name[0] == "+"}, [name.removeprefix("+") for name in names]
        while left:
            for name in list(left):
                config: Any = {"configurable": {"thread_id": name}}
                row = saver.runs.get(name)
                if row is not None and row.stop_reason is not None:
                    left.remove(name)
                    continue
                try:
                    if saver.get_tuple(config) is not None:
                        Thread(graph, name).resume()
                    elif name in mine:
                        graph.invoke(given(role, name), config, durability="sync" if len(name) % 2 else "async")
                except BusyThreadError as error:
                    print(f"{name}: {error}", file=sys.stderr, flush=True)
            time.sleep(0.1)


def main(*given: str) -> None:
    host, behind, lease, role, database, spec, *words = given
    on_machine(host, float(behind), float(lease))
    if role in ("server", "worker"):
        from redraft.faces.cli import main as command
        from redraft.server.engine import tending

        tending.BEAT_S, tending.DEAD_AFTER_S, tending.LOOK_S = float(lease) / 4, 1.2 * float(lease), 0.3
        sys.argv = ["redraft", role.replace("server", "serve"), "--db", database, "--model", spec, *words]
        command.main()
    else:
        work(role, database, spec, words)


if __name__ == "__main__":
    main(*sys.argv[1:])
