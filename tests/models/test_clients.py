"""One HTTP client serves every event loop and thread of a process, and leaves quietly."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from redraft.models import chat_model

if TYPE_CHECKING:
    from collections.abc import Callable

SCRIPT = """
import asyncio, sys, threading
from redraft.models import chat_model
model = chat_model(sys.argv[1])
how = sys.argv[2]
async def ask():
    await asyncio.gather(model.ainvoke("a"), model.ainvoke("b"))
async def stream_and_leave():
    async for chunk in model.astream("a"):
        break
if how == "run":
    for _ in range(3):
        asyncio.run(ask())
elif how == "left open":
    loop = asyncio.new_event_loop()
    loop.run_until_complete(ask())
elif how == "closed rudely":
    for _ in range(2):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(ask())
        loop.close()
elif how == "running thread":
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    asyncio.run_coroutine_threadsafe(ask(), loop).result()
elif how == "half a stream":
    asyncio.run(stream_and_leave())
    asyncio.run(ask())
print("done")
"""


def _ask(model: Any) -> list[str]:
    async def ask() -> list[str]:
        return [message.text for message in await asyncio.gather(*(model.ainvoke("x") for _ in range(4)))]

    return asyncio.run(ask())


def test_all_models_share_one_client(serve: Callable[..., Any]) -> None:
    """Any number of models hold one sync and one async client between them."""
    server = serve([])
    models = [chat_model(server.spec), chat_model(f"{server.base_url}#other", temperature=1)]
    assert len({id(model.http_client) for model in models}) == 1
    assert len({id(model.http_async_client) for model in models}) == 1


def test_several_loops_one_after_another(serve: Callable[..., Any]) -> None:
    """`asyncio.run` again and again works with one model."""
    model = chat_model(serve(lambda _: "ok").spec, max_retries=0)
    assert [_ask(model) for _ in range(3)] == [["ok"] * 4] * 3


def test_several_threads_with_a_loop_each(serve: Callable[..., Any]) -> None:
    """Threads that each run a loop share one model."""
    model = chat_model(serve(lambda _: "ok").spec, max_retries=0)
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(lambda _: _ask(model), range(12))) == [["ok"] * 4] * 12


def test_a_closed_model_leaves_the_others_working(serve: Callable[..., Any]) -> None:
    """Closing one model's SDK client does not break the rest."""

    async def close_and_ask() -> str:
        await first.root_async_client.close()
        return (await second.ainvoke("x")).text

    server = serve(lambda _: "ok")
    first, second = chat_model(server.spec), chat_model(server.spec)
    assert asyncio.run(close_and_ask()) == "ok"
    first.root_client.close()
    assert second.invoke("x").text == "ok"


def test_nothing_is_left_open(serve: Callable[..., Any], forking: Any) -> None:
    """Whatever became of the loops, the process ends without a word about unclosed sessions or closed loops."""
    server = serve(lambda _: "one two three")
    for how in ("run", "left open", "closed rudely", "running thread", "half a stream"):
        done = forking.run(["-c", SCRIPT, server.spec, how])
        assert (how, done.returncode, done.stdout, done.stderr) == (how, 0, "done\n", "")
