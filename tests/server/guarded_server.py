"""A server that says which callbacks held its loop: `python guarded_server.py SECONDS TOKEN …`; a line each.

The seconds are CPU time of the loop's own thread, so that a busy machine counts nothing; a callback that waits for
something else counts from `BLOCKED_S` on. The first token's caller has much of everything.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import sys
import time
from typing import Any

import uvicorn
from redraft.models import ScriptedModel
from redraft.server import Engine, Settings, create_app
from redraft.server.connections import server_options
from redraft.server.engine.records import now
from redraft.server.engine.thread_records import ThreadRecord

BLOCKED_S = 4.0
"""Wall time of one callback, which no busy machine makes of a short one."""
NESTED = "[" * 13 + "1" + "]" * 13


def main(most: float, tokens: tuple[str, ...]) -> None:
    """Serve on a free port, printed first, until the process is ended."""
    run = asyncio.Handle._run

    def timed(handle: Any) -> None:
        began, began_at = time.thread_time(), time.monotonic()
        run(handle)
        held, waited = time.thread_time() - began, time.monotonic() - began_at
        if held > most or waited > BLOCKED_S:
            by = getattr(handle._callback, "__self__", handle)
            print(json.dumps({"held": round(held, 3), "waited": round(waited, 1), "by": repr(by)[:500]}), flush=True)

    asyncio.Handle._run = timed  # type: ignore[method-assign]
    settings = Settings(db="memory", models=("openai:other",), tokens=tokens)
    engine = Engine(settings, build_model=lambda _: ScriptedModel([NESTED] * 100_000))
    app = create_app(settings, engine=engine)
    server = uvicorn.Server(uvicorn.Config(app, port=0, loop="asyncio", **server_options(settings)))

    async def serve() -> None:
        serving = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110  # it has no event
            await asyncio.sleep(0.01)
        await fill(engine, f"token-{hashlib.sha256(tokens[0].encode()).hexdigest()[:16]}")
        print(server.servers[0].sockets[0].getsockname()[1], flush=True)
        # A collection of garbage is no request's doing.
        gc.collect()
        gc.freeze()
        gc.disable()
        await serving

    asyncio.run(serve())


async def fill(engine: Engine, owner: str) -> None:
    """Write items, assistants in fifty versions and threads of a caller's, as they could have."""
    for at in range(1000):
        value = {"v": at, "text": "x" * 2000}
        await engine.db.write(engine.records.items.put, owner, ("a", str(at % 50)), str(at), value, now=now())
    for at in range(60):
        version = {"graph_id": "refine", "config": {}, "context": {}, "name": f"{at}", "description": None}
        version |= {"metadata": {"many": [1] * 7500}, "created_at": now()}
        saved = {"latest": 50, "versions": [{**version, "version": number} for number in range(1, 51)]}
        await engine.db.write(engine.records.saved.put, owner, (), f"own-{at}", saved, now=now())
    metadata = {f"n{at}": None for at in range(200)}
    for at in range(4000):
        record = ThreadRecord(f"thread-{at}", owner, "refine", metadata, "idle", now(), now())
        await engine.db.write(engine.records.add_thread, record)


if __name__ == "__main__":
    main(float(sys.argv[1]), tuple(sys.argv[2:]))
