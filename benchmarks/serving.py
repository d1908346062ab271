"""Throughput of 200 runs at once on `redraft serve` beside the ideal, and the latency of a stream's start.

A scripted model answers every call after 200 ms, over HTTP and in a process of its own. A run of the preset `refine`
with one round asks it four times, so that 200 runs at once would ideally take as long as one: 0.8 s. The first row has
the same runs without a server, so that the difference is the server's: `ratio` is the CPU time of a run beside that
row's. Bursts of all take turns. Before them, single streams on the idle server: the milliseconds until their first
event. Prints a table; exits with 1 when a goal is missed.

`--peer PATH/TO/langgraph` adds LangGraph's development server; its environment needs redraft and langgraph-cli[inmem].
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.metadata
import itertools
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import ClientSession, ClientTimeout, TCPConnector, web
from rows import Row, add_options, at_least, at_most, finish

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

__all__ = ["main"]

SHARE_GOAL = 0.9
FIRST_EVENT_GOAL_MS = 50.0
CALLS_A_RUN = 4
"""Draft, critique, revision, critique."""
VERDICT = json.dumps({"feedback": "Say more.", "score": 0.5, "accepted": False})
SHELL = "from redraft.faces.cli.main import main; main()"
QUIET = ("--no-browser", "--no-reload", "--server-log-level", "error")
PACKAGES = ("fastapi", "uvicorn", "langgraph", "langchain-openai", "openai", "aiohttp")


async def answer(request: web.Request) -> web.Response:
    """Reply as OpenAI's server does, after the delay; each draft is another one."""
    asked = await request.json()
    request.app["calls"][0] += 1
    await asyncio.sleep(request.app["delay_s"])
    judged = "response_format" in asked or "tools" in asked
    message = {"role": "assistant", "content": VERDICT if judged else f"Draft {request.app['calls'][0]}."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": asked["model"]}
    return web.json_response({**head, "choices": [choice], "usage": usage})


def serve_model(port: int, delay_s: float) -> None:
    """Serve the scripted model until the process ends."""
    app = web.Application()
    app["calls"], app["delay_s"] = [0], delay_s
    app.router.add_post("/v1/chat/completions", answer)
    web.run_app(app, host="127.0.0.1", port=port, print=None, access_log=None, backlog=1024)


def free_port() -> int:
    """A port of loopback that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.asynccontextmanager
async def process(*command: str, ready: str, **options: Any) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process of ours, from when this address answers until the block ends."""
    started = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL, **options)
    try:
        async with ClientSession() as session:
            while True:
                if started.returncode is not None:
                    raise RuntimeError(f"it ended with {started.returncode}: {' '.join(command)}")
                with contextlib.suppress(OSError):
                    async with session.get(ready) as got:
                        if got.status != 503:
                            break
                await asyncio.sleep(0.05)
        yield started
    finally:
        if started.returncode is None:
            started.terminate()
            await started.wait()


async def one_run(session: ClientSession, url: str) -> None:
    """One run, waited for."""
    given = {"task": "Write about a boat.", "limits": {"max_rounds": 1}}
    asked = {"assistant_id": "refine", "input": given, "on_completion": "keep"}
    async with session.post(f"{url}/runs/wait", json=asked) as got:
        out = await got.json()
        if got.status != 200 or out.get("rounds") != 1 or out["usage"]["calls"] != CALLS_A_RUN:
            raise RuntimeError(f"a run went wrong: {got.status} {str(out)[:300]}")


@dataclass
class Candidate:
    """A candidate: a server, or the graph without one."""

    name: str
    burst: Callable[[int], Awaitable[Any]]
    """So many runs that all begin at once."""
    cpu_s: Callable[[], float]
    """CPU seconds of its process so far."""
    first_ms: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)

    async def measure(self, runs: int) -> None:
        """Note the seconds of one burst, and its CPU milliseconds a run."""
        cpu_before, started = self.cpu_s(), time.perf_counter()
        await self.burst(runs)
        self.seconds.append(time.perf_counter() - started)
        self.cpu_ms.append(1000 * (self.cpu_s() - cpu_before) / runs)

    def share(self, ideal_s: float) -> float:
        """The share of the ideal that the median burst reached."""
        return ideal_s / statistics.median(self.seconds)

    def row(self, ideal_s: float, alone: Candidate) -> str:
        """The line of the table; the ratio is the median of those of each round of bursts."""
        ratio = statistics.median(mine / its for mine, its in zip(self.cpu_ms, alone.cpu_ms, strict=True))
        numbers = f"{statistics.median(self.seconds):>9.2f}{self.share(ideal_s):>9.2f}"
        cpu = f"{statistics.median(self.cpu_ms):>12.1f}{ratio:>9.2f}"
        return f"{self.name:<16}{numbers}{cpu}" + "".join(f"{first:>12.1f}" for first in self.first_ms)


@contextlib.contextmanager
def graph_alone(model: str) -> Iterator[Candidate]:
    """The same runs without a server, on the saver in memory, with the garbage collector set as the server sets it."""
    from redraft import build_refine_graph, chat_model, open_checkpointer, tuned_gc

    with open_checkpointer("memory") as saver:
        graph = build_refine_graph(chat_model(model), checkpointer=saver)
        threads = itertools.count()

        async def burst(runs: int) -> None:
            asked = {"task": "Write about a boat.", "limits": {"max_rounds": 1}}
            configs = [{"configurable": {"thread_id": str(next(threads))}} for _ in range(runs)]
            await asyncio.gather(*(graph.ainvoke(asked, config) for config in configs))

        with tuned_gc():
            yield Candidate("no server", burst, time.process_time)


async def first_event(session: ClientSession, path: str, body: dict[str, Any]) -> float:
    """Milliseconds until a stream's first event is here."""
    started = time.perf_counter()
    async with session.post(path, json=body) as got:
        while not (await got.content.readline()).startswith((b"data:", b"event:")):
            if got.content.at_eof():
                raise RuntimeError(f"a stream without an event: {got.status}")
        taken = 1000 * (time.perf_counter() - started)
        await got.read()
        return taken


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far; 0 where the system doesn't tell."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


@contextlib.asynccontextmanager
async def served(
    name: str, command: Sequence[str], url: str, streams: int, *, chat: bool = True, **options: Any
) -> AsyncIterator[Candidate]:
    """A server that this command starts; how soon its streams begin is measured at once, while it is idle."""
    async with (
        process(*command, ready=f"{url}/ok" if not chat else f"{url}/healthz", **options) as server,
        ClientSession(connector=TCPConnector(limit=0), timeout=ClientTimeout(900)) as session,
    ):

        async def burst(runs: int) -> None:
            await asyncio.gather(*(one_run(session, url) for _ in range(runs)))

        await burst(5)
        asked = {"task": "Write about a boat.", "limits": {"max_rounds": 0}}
        kinds: dict[str, dict[str, Any]] = {
            "/runs/stream": {"assistant_id": "refine", "input": asked, "stream_mode": ["custom"]}
        }
        if chat:
            said = {"messages": [{"role": "user", "content": asked["task"]}], "limits": asked["limits"]}
            kinds["/v1/chat/completions"] = {"model": "redraft-refine", "stream": True, **said}
        found = Candidate(name, burst, partial(cpu_s, server.pid))
        for path, body in kinds.items():
            taken = [await first_event(session, url + path, body) for _ in range(streams)]
            found.first_ms.append(statistics.median(taken))
        yield found


@contextlib.contextmanager
def named_graphs() -> Iterator[str]:
    """A folder whose `langgraph.json` names our graph, for the peer."""
    graphs = {"dependencies": ["."], "graphs": {"refine": "redraft.faces.studio:refine"}}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "langgraph.json").write_text(json.dumps(graphs), encoding="utf-8")
        yield folder


async def measure_all(given: argparse.Namespace) -> list[Row]:
    """Measure without a server, on memory, on SQLite, and the peer where there is one; one burst of each in turn."""
    port = free_port()
    model = f"http://127.0.0.1:{port}/v1#scripted"
    mine = [sys.executable, __file__, "--serve-model", str(port), "--delay-ms", str(given.delay_ms)]
    ideal_s = CALLS_A_RUN * given.delay_ms / 1000
    async with contextlib.AsyncExitStack() as stack:
        folder = stack.enter_context(named_graphs())
        await stack.enter_async_context(process(*mine, ready=f"http://127.0.0.1:{port}/v1/models"))
        alone = stack.enter_context(graph_alone(model))
        await alone.burst(5)
        servers = []
        for name, db in (("memory", "memory"), ("SQLite", str(Path(folder) / "runs.sqlite"))):
            own = str(free_port())
            command = [sys.executable, "-c", SHELL, "serve", "--port", own, "--db", db, "--model", model]
            command += ["--watchdog", "0"]  # whose parent would be measured
            url = f"http://127.0.0.1:{own}"
            servers.append(await stack.enter_async_context(served(name, command, url, given.streams)))
        ours = list(servers)
        if given.peer:
            own = str(free_port())
            command = [given.peer, "dev", *QUIET, "--port", own, "--n-jobs-per-worker", str(given.runs)]
            options = {"cwd": folder, "env": {**os.environ, "REDRAFT_MODEL": model}}
            peer = served("langgraph dev", command, f"http://127.0.0.1:{own}", given.streams, chat=False, **options)
            servers.append(await stack.enter_async_context(peer))
        for _ in range(given.repeats):
            for one in (alone, *servers):
                await one.measure(given.runs)
    print(f"{'':<16}{'seconds':>9}{'of ideal':>9}{'CPU ms/run':>12}{'ratio':>9}{'first: runs':>12}{'chat':>12}")
    print(*(one.row(ideal_s, alone) for one in (alone, *servers)), sep="\n")
    print()
    rows = []
    for one in ours:
        ratio = statistics.median(mine / its for mine, its in zip(one.cpu_ms, alone.cpu_ms, strict=True))
        note = f"without a server {alone.share(ideal_s):.2f}; CPU a run {ratio:.2f} × that"
        what = f"redraft serve, {one.name}: {given.runs} runs at once, share of ideal"
        rows.append(at_least(what, one.share(ideal_s), SHARE_GOAL, n=given.repeats, note=note))
        what = f"redraft serve, {one.name}: first event of a stream"
        rows.append(at_most(what, max(one.first_ms), FIRST_EVENT_GOAL_MS, unit="ms", n=given.streams))
    return rows


def version(package: str) -> str:
    """`package` and its version."""
    return f"{package} {importlib.metadata.version(package)}"


def main() -> int:
    """Print the table; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--runs", type=int, default=200, metavar="N", help="runs at once (default: 200)")
    parser.add_argument("--repeats", type=int, metavar="N", help="bursts, of which the median (default: 3; --quick: 1)")
    parser.add_argument("--streams", type=int, metavar="N", help="streams of each kind (default: 20; --quick: 9)")
    parser.add_argument("--delay-ms", type=float, default=200.0, metavar="MS", help="of each call (default: 200)")
    parser.add_argument("--peer", metavar="LANGGRAPH", help="the command of LangGraph's development server, to compare")
    parser.add_argument("--serve-model", type=int, metavar="PORT", help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.repeats = given.repeats or (1 if given.quick else 3)
    given.streams = given.streams or (9 if given.quick else 20)
    if given.serve_model is not None:
        serve_model(given.serve_model, given.delay_ms / 1000)
        return 0
    print(f"Python {platform.python_version()}, {', '.join(version(package) for package in PACKAGES)}")
    if given.peer:
        print(subprocess.run([given.peer, "--version"], check=True, capture_output=True, text=True).stdout.strip())
    print(f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} cores\n")
    return finish(asyncio.run(measure_all(given)), given.json)


if __name__ == "__main__":
    sys.exit(main())
