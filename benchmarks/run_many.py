"""Whether `run_many` finds how many runs at once a server bears: its own level beside fixed ones, in one sitting.

Three servers speak OpenAI's protocol in a process of their own, each call takes `LATENCY_S`: one answers any number of
calls at once, one so many at once and lets the others wait (as llama.cpp and vLLM do), and one refuses what is more
with 429 (as providers do), which the client tries again. A fourth, with a long tail, is for `hedging.py`. Each run
drafts and is judged: two calls. Shown are runs a second as a share of the best fixed level, and the runs that
failed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from redraft import build_refine_graph, chat_model, run_many
from rows import Row, add_options, at_least, at_most, finish

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["main"]

LATENCY_S = 0.4
SLOTS = 12
FIXED = (4, 12, 48)
SERVERS = ("any", "queues", "refuses")
TAIL = ("tail", 0.02, 10)
"""A server: of its calls this share takes so many times as long."""


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer one call."""
    if scope["type"] != "http":
        return
    state, kind = app.state, app.kind  # type: ignore[attr-defined]
    while (await receive()).get("more_body"):
        pass
    state["calls"] += 1
    refused = kind == "refuses" and state["busy"] >= SLOTS
    state["refused"] += refused
    if not refused:
        state["busy"] += 1
        try:
            if kind == "queues":
                async with state["slots"]:
                    await asyncio.sleep(LATENCY_S)
            else:
                slow = kind == TAIL[0] and state["drawn"].random() < TAIL[1]
                await asyncio.sleep(LATENCY_S * (TAIL[2] if slow else 1))
        finally:
            state["busy"] -= 1
    message = {"role": "assistant", "content": "A draft. SOLUTION_IS_CORRECT"}
    body: dict[str, Any] = {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }
    if refused:
        body = {"error": {"message": "too many requests", "type": "rate_limit"}}
    if scope["path"].endswith("/counts"):
        body = {name: state[name] for name in ("calls", "refused")}
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 429 if refused else 200, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})


def serve(kind: str) -> None:
    """Serve until the process is ended; the port is printed first."""
    import uvicorn

    async def go() -> None:
        app.kind = kind  # type: ignore[attr-defined]
        drawn = random.Random(1)
        app.state = {"busy": 0, "calls": 0, "refused": 0, "slots": asyncio.Semaphore(SLOTS), "drawn": drawn}  # type: ignore[attr-defined]
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
        serving = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110  # it has no event
            await asyncio.sleep(0.01)
        print(server.servers[0].sockets[0].getsockname()[1], flush=True)
        await serving

    asyncio.run(go())


@contextmanager
def served(kind: str) -> Iterator[str]:
    """Give the address of a server."""
    with subprocess.Popen([sys.executable, __file__, "--serve", kind], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
        finally:
            process.kill()


def measured(kind: str, concurrency: int | None, runs: int) -> tuple[float, float, int]:
    """Return runs a second, the share of them that failed, and how many were under way at once in the end."""
    levels = [0]
    with served(kind) as url:
        model = chat_model(f"{url}#m")
        graph = build_refine_graph(model, critics=[model], limits={"max_rounds": 0})
        began = time.perf_counter()
        results = run_many(
            graph,
            [f"Write {number}." for number in range(runs)],
            concurrency=concurrency,
            on_progress=lambda progress, _: levels.append(progress.at_once),
        )
        seconds = time.perf_counter() - began
    failed = sum(result["error"] is not None for result in results)
    return (runs - failed) / seconds, failed / runs, levels[-1]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", choices=(*SERVERS, TAIL[0]), help=argparse.SUPPRESS)
    parser.add_argument("--runs", type=int, default=400)
    add_options(parser)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
        return 0
    runs, levels = (120, FIXED[1:]) if given.quick else (given.runs, FIXED)
    rows: list[Row] = []
    for kind in SERVERS:
        fixed = {level: measured(kind, level, runs) for level in levels}
        own, failed, level = measured(kind, None, runs)
        best = max(fixed, key=lambda one: fixed[one][0])
        note = ", ".join(f"{at}: {fixed[at][0]:.1f} runs/s, {fixed[at][1]:.0%} failed" for at in levels)
        what = f"{kind}: runs/s at its own level ÷ the best of {levels} at once"
        rows.append(
            at_least(
                what,
                own / fixed[best][0],
                0.7,
                unit="ratio",
                n=1,
                note=f"{own:.1f} runs/s, {level} at once at the end; {note}",
            )
        )
        rows.append(at_most(f"{kind}: share of runs that failed", failed, 0.02, unit="share", n=runs))
    return finish(rows, given.json)


if __name__ == "__main__":
    sys.exit(main())
