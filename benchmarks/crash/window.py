"""The window in which a paid reply is lost with its process: from when it was sent to when it is committed.

`python benchmarks/crash/window.py --concurrency 1 16 64` lets a process refine problems against a model on loopback,
so many at once, and prints how long replies were on their way into the database: through the process, which may be
busy with other runs, until the journal had them, and from there until they were committed. `--ways` compares two other
ways to hand them over: at the end of the event loop's turn, and with the loop waiting for the commit (`sync`).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from model_server import ModelServer

__all__ = ["main"]

HERE = Path(__file__).parent
WAYS = ("at once", "end of turn", "sync")
ID = re.compile(r'"id":"([0-9a-f]{16})"')
PROBLEMS_EACH = 2


def measured(server: ModelServer, way: str, concurrency: int) -> tuple[list[float], list[float], float]:
    """Return for each reply the seconds to the journal and to the commit, and the process's CPU time."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "times.json"
        words = [server.spec, f"{folder}/runs.sqlite", f"{folder}/results.jsonl"]
        words += ["--problems", str(PROBLEMS_EACH * concurrency), "--concurrency", str(concurrency)]
        server.answers()
        subprocess.run([sys.executable, __file__, "--child", way, str(out), *words], check=True)
        sent = {key[:16]: when for key, when in server.answers()}
        told = json.loads(out.read_text(encoding="utf-8"))
    times = [(begun - sent[name], done - sent[name]) for name, begun, done in told["replies"]]
    return sorted(begun for begun, _ in times), sorted(done for _, done in times), told["cpu"]


def child(way: str, out: str, words: list[str]) -> None:
    """Do what `worker.py` does, and write when each reply came to the journal and was committed."""
    import resource
    import time

    os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
    import worker
    from redraft.state.storage.group_writer import SqliteCommitter
    from redraft.state.storage.journal import Journal, KeptReply

    committed: dict[str, float] = {}
    replies: list[Any] = []
    commit = SqliteCommitter.commit

    def commit_noted(self: SqliteCommitter, puts: Any) -> Any:
        refused = commit(self, puts)
        at = time.monotonic()
        committed.update({put.key[1]: at for put in puts if isinstance(put.key, tuple) and put.key[0] == "reply"})
        return refused

    async def add(self: Any, thread_id: str, call: str, kept: KeptReply) -> None:
        begun, row = time.monotonic(), self.rows(thread_id, {call: kept})
        named = {"thread_id": thread_id, "key": ("reply", call)}
        if way == "sync":
            self._writer.write(row, **named)
        else:
            await self._writer.awrite(row, **named, urgent=way == "at once")
        if found := ID.search(kept.reply):
            replies.append((found[1], begun, committed[call]))

    SqliteCommitter.commit = commit_noted  # type: ignore[method-assign]
    Journal.aadd = add  # type: ignore[method-assign,assignment]
    sys.argv = ["worker.py", *words]
    worker.main()
    used = resource.getrusage(resource.RUSAGE_SELF)
    Path(out).write_text(json.dumps({"replies": replies, "cpu": used.ru_utime + used.ru_stime}), encoding="utf-8")


def shown(times: list[float]) -> str:
    """Return the median, the ninth decile and the largest, in milliseconds."""
    return " ".join(f"{1000 * times[min(len(times) - 1, int(share * len(times)))]:>6.0f}" for share in (0.5, 0.9, 1))


def main() -> None:
    """Print the table."""
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3], sys.argv[4:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--delay", type=float, default=0.2, metavar="SECONDS", help="of a reply, at most")
    parser.add_argument("--ways", action="store_true", help="all ways to hand replies over")
    given = parser.parse_args()
    print("runs  handed over      replies  ms to the journal       ms to the commit     CPU s")
    print("                                p50    p90    max      p50    p90    max")
    for concurrency in given.concurrency:
        for way in WAYS if given.ways else WAYS[:1]:
            with ModelServer(delay_s=given.delay) as server:
                begun, done, cpu = measured(server, way, concurrency)
            print(
                f"{concurrency:>4}  {way:<14}{len(done):>10}  {shown(begun)}   {shown(done)}  {cpu:>6.1f}", flush=True
            )


if __name__ == "__main__":
    main()
