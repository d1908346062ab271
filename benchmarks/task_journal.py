"""Model calls paid again after a kill: with redraft's journal, and with `langgraph.func.task`.

A node, and an entrypoint of LangGraph's functional API with a `task` a call, make three calls one after another, of a
model server on loopback. When the third arrives the server kills their process with SIGKILL; another process resumes
the thread, and the server has counted what was asked again though it was answered. Each with its own SQLite saver, with
`durability="sync"`, the strongest, invoked and awaited. Then one thread is run by two callers at once: how many
requests does a call make that both of them need?
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rows import Row, add_options, at_most, finish

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["main"]

PROMPTS = ["Name a lamp.", "Name a river.", "Name a winter."]
WAYS = ("journal", "task")
WORLDS = ("invoke", "ainvoke")
CONFIG: Any = {"configurable": {"thread_id": "one"}}
BOTH_S = 2.0
"""So long the server waits for the second of two equal requests."""
PACKAGES = ("redraft", "langgraph", "langgraph-checkpoint-sqlite")


class Server(ThreadingHTTPServer):
    """Answers every prompt and counts it; kills a process at the last prompt, or holds replies until two have asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: Counter[str] = Counter()
        self.victim: subprocess.Popen[bytes] | None = None
        self.pair: threading.Barrier | None = None

    @property
    def spec(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1#counted"


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        prompt = body["messages"][-1]["content"]
        self.server.asked[prompt] += 1
        victim = self.server.victim
        if victim is not None and prompt == PROMPTS[-1]:
            victim.send_signal(signal.SIGKILL)
            self.close_connection = True
            return
        if self.server.pair is not None:
            with contextlib.suppress(threading.BrokenBarrierError):
                self.server.pair.wait(BOTH_S)
        message = {"role": "assistant", "content": f"An answer to: {prompt}"}
        reply = {
            "id": "one",
            "object": "chat.completion",
            "created": 0,
            "model": "counted",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10},
        }
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    """Serve until the block ends."""
    with Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


def work(way: str, world: str, spec: str, path: str, callers: int) -> None:
    """Begin or resume the thread, in this process, for so many callers at once."""
    if world == "ainvoke":
        asyncio.run(_awaited(way, spec, path, callers))
        return
    from redraft.state import BusyThreadError

    def run_one(given: Any) -> None:
        # With redraft's saver the second caller is told that the thread is being run.
        with contextlib.suppress(BusyThreadError):
            graph.invoke(given, CONFIG, **SYNC)

    with _saver(way, path) as saver:
        graph, given = _graph(way, world, spec, saver)
        begun = saver.get_tuple(CONFIG) is not None
        run = threading.Thread(target=run_one, args=(None if begun else given,))
        others = [threading.Thread(target=run_one, args=(given,)) for _ in range(callers - 1)]
        for one in (run, *others):
            one.start()
        for one in (run, *others):
            one.join()


async def _awaited(way: str, spec: str, path: str, callers: int) -> None:
    from redraft.state import BusyThreadError

    async def run_one(given: Any) -> None:
        with contextlib.suppress(BusyThreadError):
            await graph.ainvoke(given, CONFIG, **SYNC)

    async with _async_saver(way, path) as saver:
        graph, given = _graph(way, "ainvoke", spec, saver)
        begun = await saver.aget_tuple(CONFIG) is not None
        await asyncio.gather(run_one(None if begun else given), *[run_one(given) for _ in range(callers - 1)])


SYNC: dict[str, Any] = {"durability": "sync"}


def _saver(way: str, path: str) -> Any:
    if way == "journal":
        from redraft import open_checkpointer

        return open_checkpointer(path)
    from langgraph.checkpoint.sqlite import SqliteSaver

    return SqliteSaver.from_conn_string(path)


def _async_saver(way: str, path: str) -> Any:
    if way == "journal":
        return _saver(way, path)
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    return AsyncSqliteSaver.from_conn_string(path)


def _graph(way: str, world: str, spec: str, saver: Any) -> tuple[Any, Any]:
    """Return the graph that makes the three calls, and what it is given."""
    from langgraph.func import entrypoint, task
    from redraft import Critique, build_refine_graph, chat_model

    model = chat_model(spec, max_retries=0)
    if way == "task":
        if world == "invoke":

            @task
            def call(prompt: str) -> str:
                return model.invoke(prompt).text

            @entrypoint(checkpointer=saver)
            def three(prompts: list[str]) -> str:
                return "\n".join([call(prompt).result() for prompt in prompts])

            return three, PROMPTS

        @task
        async def acall(prompt: str) -> str:
            return (await model.ainvoke(prompt)).text

        @entrypoint(checkpointer=saver)
        async def athree(prompts: list[str]) -> str:
            return "\n".join([await acall(prompt) for prompt in prompts])

        return athree, PROMPTS

    def write(state: Any) -> str:
        return "\n".join([model.invoke(prompt).text for prompt in PROMPTS])

    async def awrite(state: Any) -> str:
        return "\n".join([(await model.ainvoke(prompt)).text for prompt in PROMPTS])

    def accept(task: str, draft: str, history: Any, /) -> Critique:
        return Critique("", accepted=True)

    writer = write if world == "invoke" else awrite
    graph = build_refine_graph(generate=writer, refine=writer, critics=[accept], checkpointer=saver)
    return graph, {"task": "Write."}


def process(way: str, world: str, spec: str, path: Path, *, callers: int = 1) -> subprocess.Popen[bytes]:
    """Start a process that does `work`."""
    command = [sys.executable, __file__, "--work", way, world, spec, str(path), str(callers)]
    return subprocess.Popen(command, stderr=subprocess.PIPE)


def paid_again(way: str, world: str) -> int:
    """Return how many answered calls were asked again after one kill."""
    with tempfile.TemporaryDirectory() as folder, serving() as server:
        path = Path(folder) / "runs.sqlite"
        server.victim = first = process(way, world, server.spec, path)
        _, said = first.communicate()
        server.victim = None
        if first.returncode != -signal.SIGKILL or server.asked[PROMPTS[-1]] != 1:
            raise RuntimeError(f"{way}, {world}: was not killed after {dict(server.asked)}: {said.decode()[-2000:]}")
        second = process(way, world, server.spec, path)
        _, said = second.communicate()
        if second.returncode or server.asked[PROMPTS[-1]] != 2:
            raise RuntimeError(f"{way}, {world}: was not resumed: {said.decode()[-2000:]}")
        return sum(server.asked[prompt] - 1 for prompt in PROMPTS[:-1])


def most_at_once(way: str, world: str) -> int:
    """Return how many requests one call made where two callers run the thread at once."""
    with tempfile.TemporaryDirectory() as folder, serving() as server:
        server.pair = threading.Barrier(2)
        running = process(way, world, server.spec, Path(folder) / "runs.sqlite", callers=2)
        _, said = running.communicate()
        if len(server.asked) != len(PROMPTS):
            raise RuntimeError(f"{way}, {world}: asked {dict(server.asked)}: {said.decode()[-2000:]}")
        return max(server.asked.values())


def main() -> int:
    """Print the table."""
    if sys.argv[1:2] == ["--work"]:
        work(*sys.argv[2:6], callers=int(sys.argv[6]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--kills", type=int, help="default: 10; --quick: 3")
    given = parser.parse_args()
    kills = given.kills or (3 if given.quick else 10)
    rows: list[Row] = []
    for way in WAYS:
        limits = (0, 1) if way == "journal" else (None, None)
        for world in WORLDS:
            found = [paid_again(way, world) for _ in range(kills)]
            note = f"of {kills * (len(PROMPTS) - 1)}; by kill: {' '.join(map(str, found))}"
            what = f"answered calls paid again after {kills} kills, {way}, {world}"
            rows.append(at_most(what, sum(found), limits[0], unit="calls", n=kills, note=note))
        for world in WORLDS:
            what = f"requests of one call, two callers at once, {way}, {world}"
            rows.append(at_most(what, most_at_once(way, world), limits[1], unit="requests"))
    return finish(rows, given.json, packages=PACKAGES)


if __name__ == "__main__":
    sys.exit(main())
