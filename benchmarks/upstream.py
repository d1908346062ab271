"""What three changes to LangGraph would save: each a prototype on its own SQLite saver, with nothing of ours in it.

- *short versions*: a channel's version of 16 characters in place of 51. Each checkpoint names the versions of all its
  channels, and those that each node has seen.
- *values once*: a channel's value is kept once for each of its versions, as LangGraph's PostgreSQL saver does, and not
  in every checkpoint that has it.
- *a commit a step*: what a step's only task wrote is committed with the checkpoint that follows it at once.

A loop of four nodes drafts, judges and revises texts of 2 KB for thirty rounds, on a file with the saver's own settings
and `durability="sync"`. A prototype counts where the thread is read back as it was: same values, same history.
docs/upstream.md says what follows.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sqlite3
import string
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from rows import Row, add_options, at_most, finish

__all__ = ["main"]

VALUES = """CREATE TABLE IF NOT EXISTS values_once (
    thread, ns, channel, version, type, value, PRIMARY KEY (thread, ns, channel, version)
)"""


class State(TypedDict, total=False):
    """Of the loop."""

    task: str
    draft: str
    said: str
    score: float
    rounds: int
    stop_reason: str | None


class ShortVersions(SqliteSaver):
    """Versions that are no longer than they need be to be in order and not to meet."""

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Return a version of nine digits and six at random: a thread can have a thousand million."""
        number = 0 if current is None else int(str(current).split(".")[0])
        return f"{number + 1:09}.{random.randrange(10**6):06}"


class ValuesOnce(SqliteSaver):
    """Values by their versions, in a table beside the checkpoints."""

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Write the values that are new, and a checkpoint that names the versions of all."""
        place, values = config["configurable"], checkpoint["channel_values"]
        with self.cursor(transaction=False) as cur:
            cur.execute(VALUES)
            cur.executemany(
                "INSERT OR IGNORE INTO values_once VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (place["thread_id"], place["checkpoint_ns"], name, version, *self.serde.dumps_typed(values[name]))
                    for name, version in new_versions.items()
                    if name in values
                ],
            )
        return super().put(config, {**checkpoint, "channel_values": {}}, metadata, new_versions)

    def get_tuple(self, config: Any) -> Any:
        """Return a checkpoint with its values."""
        found = super().get_tuple(config)
        return None if found is None else self._with_values(found)

    def list(self, *given: Any, **named: Any) -> Any:
        """Return the checkpoints with their values."""
        return map(self._with_values, list(super().list(*given, **named)))

    def _with_values(self, found: Any) -> Any:
        place, versions = found.config["configurable"], found.checkpoint["channel_versions"]
        kept = "SELECT type, value FROM values_once WHERE thread = ? AND ns = ? AND channel = ? AND version = ?"
        values = {}
        for name, version in versions.items():
            key = (place["thread_id"], place["checkpoint_ns"], name, version)
            if (row := self.conn.execute(kept, key).fetchone()) is not None:
                values[name] = self.serde.loads_typed(row)
        return found._replace(checkpoint={**found.checkpoint, "channel_values": values})


class OneCommit(SqliteSaver):
    """What a task wrote waits for the checkpoint of its step, and is committed with it."""

    _open = False

    def put_writes(self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Write without a commit: the next one is the step's."""
        self._open = True
        super().put_writes(config, writes, task_id, task_path)

    @contextlib.contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        """Give a cursor, and commit unless a checkpoint comes next."""
        waits, self._open = self._open, False
        with super().cursor(transaction=transaction and not waits) as cur:
            yield cur


class All(ShortVersions, ValuesOnce, OneCommit):
    """The three together."""


WAYS: dict[str, type[SqliteSaver]] = {
    "as it is": SqliteSaver,
    "short versions": ShortVersions,
    "values once": ValuesOnce,
    "a commit a step": OneCommit,
    "the three together": All,
}


def loop(saver: SqliteSaver, rounds: int) -> Any:
    """Return a loop of four nodes whose texts are its own."""
    words = random.Random(1)

    def text(size: int) -> str:
        return "".join(words.choices(string.ascii_lowercase + " ", k=size))

    def generate(_: State) -> State:
        return {"draft": text(2000), "rounds": 0, "stop_reason": None}

    def feedback(_: State) -> State:
        return {"said": text(400), "score": words.random()}

    def check(state: State) -> State:
        return {"stop_reason": "max_rounds" if state["rounds"] >= rounds else None}

    def refine(state: State) -> State:
        return {"draft": text(2000), "rounds": state["rounds"] + 1}

    graph = StateGraph(State)
    for node in (generate, feedback, check, refine):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "generate")
    graph.add_edge("generate", "feedback")
    graph.add_edge("feedback", "check")
    graph.add_conditional_edges("check", lambda state: END if state["stop_reason"] else "refine", ["refine", END])
    graph.add_edge("refine", "feedback")
    return graph.compile(checkpointer=saver)


def measured(kind: type[SqliteSaver], folder: Path, rounds: int) -> tuple[float, float, float, Any]:
    """Return the bytes of a thread, the CPU and the seconds of its run, and what is read back of it."""
    path = folder / f"{kind.__name__}.sqlite"
    path.unlink(missing_ok=True)
    with SqliteSaver.from_conn_string(str(path)) as stock:
        saver = kind(stock.conn)
        graph, config = loop(saver, rounds), {"configurable": {"thread_id": "one"}, "recursion_limit": 10 * rounds + 10}
        saver.setup()
        began, spent = time.perf_counter(), time.process_time()
        graph.invoke({"task": "x" * 2000}, config, durability="sync")
        seconds, cpu = time.perf_counter() - began, time.process_time() - spent
        history = [
            (state.values, state.next, [(task.name, task.result) for task in state.tasks])
            for state in graph.get_state_history(config)
        ]
        saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        saver.conn.execute("VACUUM")
        (size,) = saver.conn.execute(
            "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        ).fetchone()
    return float(size), cpu, seconds, history


def rows_of(rounds: int, repeats: int, place: str | None) -> Iterator[Row]:
    """Yield what each change saves, by turns.

    Raises:
        RuntimeError: A prototype reads back something else than the saver as it is.
    """
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in WAYS}
    with tempfile.TemporaryDirectory(dir=place) as folder:
        for _ in range(repeats):
            seen = None
            for name, kind in WAYS.items():
                *numbers, history = measured(kind, Path(folder), rounds)
                seen = seen or history
                if history != seen:
                    raise RuntimeError(f"with {name} the thread is another")
                found[name].append((numbers[0], numbers[1], numbers[2]))
    for name, each in list(found.items())[1:]:
        for what, unit, number in (("bytes of a thread", "KB", 0), ("CPU", "ms", 1), ("seconds", "ms", 2)):
            stock = [one[number] for one in found["as it is"]]
            ratio = median(one[number] / other for one, other in zip(each, stock, strict=True))
            scale = 1e-3 if unit == "KB" else 1e3
            note = f"{scale * median(one[number] for one in each):,.0f} {unit}, was {scale * median(stock):,.0f}"
            yield at_most(f"{what}, {name} ÷ as it is", ratio, None, n=repeats, note=note)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--rounds", type=int, help="default: 30, with --quick 5")
    parser.add_argument("--repeats", type=int, help="turns; default: 11, with --quick 3")
    parser.add_argument("--folder", metavar="DIR", help="where the files lie: a disk, for its seconds")
    given = parser.parse_args()
    os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
    rounds = given.rounds or (5 if given.quick else 30)
    repeats = given.repeats or (3 if given.quick else 11)
    rows = list(rows_of(rounds, repeats, given.folder))
    return finish(rows, given.json, packages=("langgraph", "langgraph-checkpoint-sqlite"))


if __name__ == "__main__":
    sys.exit(main())
