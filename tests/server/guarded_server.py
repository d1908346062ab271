"""A server that says which callbacks held its loop: `python guarded_server.py SECONDS`; a line of JSON for each.

The seconds are CPU time of the loop's own thread, so that a busy machine counts nothing; a callback that waits for
something else counts from `BLOCKED_S` on.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from typing import Any

import uvicorn
from redraft.models import ScriptedModel
from redraft.server import Engine, Settings, create_app
from redraft.server.connections import server_options

BLOCKED_S = 4.0
"""Wall time of one callback, which no busy machine makes of a short one."""
NESTED = "[" * 13 + "1" + "]" * 13


def main(most: float) -> None:
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
    settings = Settings(db="memory", models=("openai:other",))
    engine = Engine(settings, build_model=lambda _: ScriptedModel([NESTED] * 100_000))
    app = create_app(settings, engine=engine)
    server = uvicorn.Server(uvicorn.Config(app, port=0, loop="asyncio", **server_options(settings)))

    async def serve() -> None:
        serving = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110  # it has no event
            await asyncio.sleep(0.01)
        print(server.servers[0].sockets[0].getsockname()[1], flush=True)
        # A collection of garbage is no request's doing.
        gc.collect()
        gc.freeze()
        gc.disable()
        await serving

    asyncio.run(serve())


if __name__ == "__main__":
    main(float(sys.argv[1]))
