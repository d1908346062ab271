"""One process of a history: `actor.py HOST CLOCK LEASE ROLE DATABASE MODEL …`.

HOST is the name of its machine, whose processes no other machine can look up, and whose clock is behind by as much as
the file CLOCK says at any moment; a lease holds LEASE seconds. As `server`, `worker` or `command` it is redraft's
command line, with the words that follow. As `loop`, `agent` or `shell` it takes the threads that are named by the words
that follow to their ends, whoever else does: it begins those that are named with a `+`, and goes on with the others
once they are there. A `shell` does so by `redraft run` and `redraft resume`, each a process of its own.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")

from redraft import Critique, Thread, chat_model, open_checkpointer
from redraft.graphs.loop import build_refine_graph
from redraft.nodes import model_critic
from redraft.state import BusyThreadError
from redraft.state.storage import lease_keeper, leases

ROUNDS = 2
PROMPT = "You check as judge {}.\n{{task}}\n{{draft}}"


def set_clock(file: Path, behind_s: float) -> None:
    """Let the clock of a machine be behind by so many seconds from now on, for all of its processes."""
    with file.open("r+b" if file.exists() else "w+b") as clock:
        clock.write(int(behind_s * 10**9).to_bytes(8, sys.byteorder, signed=True))


def on_machine(host: str, clock: Path, lease: float) -> None:
    """Let this process be on another machine, and leases and servers be as short of patience as a history is."""
    now = time.time_ns
    with clock.open("rb") as file:
        shown = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
    time.time_ns = lambda: now() - int.from_bytes(shown[:8], sys.byteorder, signed=True)
    time.time = lambda: time.time_ns() / 10**9
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

        def begin(name: str) -> None:
            config: Any = {"configurable": {"thread_id": name}}
            graph.invoke(given(role, name), config, durability="sync" if len(name) % 2 else "async")

        to_their_ends(saver, names, begin, lambda name: Thread(graph, name).resume())


def at_shell(command: list[str], database: str, spec: str, names: list[str]) -> None:
    """Do as `work` does by the commands that a person would type.

    Raises:
        RuntimeError: One shows a traceback.
    """

    def typed(*words: str) -> None:
        told = subprocess.run([*command, *words, "--db", database], capture_output=True, text=True, check=False)
        print(told.stderr, file=sys.stderr, flush=True)
        if "Traceback" in told.stderr:
            raise RuntimeError(f"redraft {' '.join(words)} shows a traceback")

    def begin(name: str) -> None:
        typed("run", f"Tell of {name}.", "--thread", name, "--model", spec, "--max-rounds", str(ROUNDS))

    with open_checkpointer(database) as saver:
        to_their_ends(saver, names, begin, lambda name: typed("resume", name))


def to_their_ends(saver: Any, names: list[str], begin: Callable[[str], object], go_on: Callable[[str], object]) -> None:
    """Return when all of these threads have ended.

    Args:
        saver: Where they are kept.
        names: Of the threads; those with a `+` are begun here.
        begin: Begins one.
        go_on: Takes one up that is there and has not ended.
    """
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
                    go_on(name)
                elif name in mine:
                    begin(name)
            except BusyThreadError as error:
                print(f"{name}: {error}", file=sys.stderr, flush=True)
        time.sleep(0.1)


def main(*given: str) -> None:
    host, clock, lease, role, database, spec, *words = given
    on_machine(host, Path(clock), float(lease))
    if role == "shell":
        at_shell([sys.executable, __file__, host, clock, lease, "command", database, spec], database, spec, words)
    elif role in ("server", "worker", "command"):
        from redraft.faces.cli import main as command

        sys.argv = ["redraft", *words]
        if role != "command":
            from redraft.server.engine import tending

            tending.BEAT_S, tending.DEAD_AFTER_S, tending.LOOK_S = float(lease) / 4, 1.2 * float(lease), 0.3
            named = role.replace("server", "serve")
            sys.argv = ["redraft", named, "--db", database, "--model", spec, *words]
        command.main()
    else:
        work(role, database, spec, words)


if __name__ == "__main__":
    main(*sys.argv[1:])
