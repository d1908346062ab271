"""CPU of a chat model's call in the client, beside the same request by bare aiohttp.

A server in a process of its own answers each request of OpenAI's protocol after some milliseconds. Here, so many calls
at once are kept in flight until all are done, and the CPU of this process is divided by the calls: for aiohttp alone
(one session; the request as a dict, the reply as a dict), for `ChatOpenAI` as it comes, and for what `chat_model`
builds. They take turns, `n` times; the ratios are those within one turn, and the median is shown.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import subprocess
import sys
from contextlib import contextmanager
from time import process_time
from typing import TYPE_CHECKING, Any

from rows import Row, add_options, at_most, finish

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

__all__ = ["main"]

GOAL = 10.0
PACKAGES = ("redraft", "langchain-openai", "langchain-core", "openai", "aiohttp", "pydantic")
QUESTION = "Write one short sentence about the night, with a river and a lamp in it. " * 4
REPLY = "The lamp by the river burned low, and the night leaned in to listen to the water. " * 4


def completion() -> dict[str, Any]:
    """A reply with all that OpenAI sends."""
    message = {"role": "assistant", "content": REPLY, "refusal": None, "annotations": []}
    details = {
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "bench",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 80, "completion_tokens": 72, "total_tokens": 152, **details},
        "service_tier": "default",
        "system_fingerprint": "fp_1",
    }


class Answering(asyncio.Protocol):
    """Just enough of an HTTP server: every request gets the same reply, `delay_s` later, on the same connection."""

    def __init__(self, delay_s: float) -> None:
        body = json.dumps(completion()).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.reply = head.encode() + body
        self.delay_s = delay_s
        self.received = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        while (end := self.received.find(b"\r\n\r\n")) >= 0:
            head = self.received[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self.received) < end + 4 + length:
                return
            self.received = self.received[end + 4 + length :]
            asyncio.get_running_loop().call_later(self.delay_s, self.answer)

    def answer(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(self.reply)


def serve(delay_s: float) -> None:
    """Print the port, and answer until the input is closed."""

    async def forever() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Answering(delay_s), "127.0.0.1", 0, backlog=2048)
        print(server.sockets[0].getsockname()[1], flush=True)
        await loop.run_in_executor(None, sys.stdin.read)

    asyncio.run(forever())


@contextmanager
def server(delay_s: float) -> Iterator[str]:
    """The address of a server that lives as long as the block."""
    words = [sys.executable, __file__, "--serve", str(delay_s)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.stdin.close()


async def cpu_per_call(ask: Callable[[], Awaitable[Any]], *, calls: int, at_once: int) -> float:
    """Seconds of CPU of this process for one call, with `at_once` of them in flight all the time."""
    left = iter(range(calls))

    async def one_after_another() -> None:
        for _ in left:
            await ask()

    async def burst() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(one_after_another())

    await asyncio.gather(*(ask() for _ in range(at_once)))  # so that every connection is open
    gc.collect()
    start = process_time()
    await burst()
    return (process_time() - start) / calls


def clients(base_url: str, session: Any) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Return the clients to measure, by name; the others are divided by the first."""
    from langchain_core.messages import HumanMessage
    from langchain_openai import ChatOpenAI
    from pydantic import SecretStr
    from redraft import chat_model

    payload = {"model": "bench", "messages": [{"role": "user", "content": QUESTION}], "temperature": 0.0}
    messages = [HumanMessage(QUESTION)]
    stock = ChatOpenAI(
        model="bench", base_url=base_url, api_key=SecretStr("none"), temperature=0.0, use_responses_api=False
    )
    ours = chat_model(f"{base_url}#bench", temperature=0.0)

    async def bare() -> str:
        async with session.post(
            f"{base_url}/chat/completions", json=payload, headers={"Authorization": "Bearer none"}
        ) as response:
            return str((await response.json())["choices"][0]["message"]["content"])

    async def check(model: Any) -> None:
        reply = await model.ainvoke(messages)
        assert reply.content == REPLY
        assert reply.usage_metadata["total_tokens"] == 152

    return {
        "aiohttp": bare,
        "chat_model": lambda: check(ours),
        "ChatOpenAI as it comes": lambda: check(stock),
    }


async def measure(base_url: str, *, at_once: int, calls: int, repeats: int) -> list[Row]:
    """The rows for one number of calls in flight."""
    import aiohttp

    taken: dict[str, list[float]] = {}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        asked = clients(base_url, session)
        for _ in range(repeats):
            for name, ask in asked.items():
                taken.setdefault(name, []).append(await cpu_per_call(ask, calls=calls, at_once=at_once))
    reference, *others = taken
    rows = []
    for name in others:
        ratio = statistics.median(a / b for a, b in zip(taken[name], taken[reference], strict=True))
        note = f"{1e6 * statistics.median(taken[name]):.0f} µs a call, {reference} "
        note += f"{1e6 * statistics.median(taken[reference]):.0f} µs"
        goal = GOAL if name == "chat_model" else None
        rows.append(
            at_most(
                f"client CPU per call ÷ bare aiohttp, {at_once} in flight: {name}", ratio, goal, n=repeats, note=note
            )
        )
    return rows


async def measure_all(base_url: str, *, calls: int, repeats: int) -> list[Row]:
    """The rows, all in one event loop: the client that `ChatOpenAI` opens by itself serves no second one."""
    rows = []
    for at_once in (64, 512):
        rows += await measure(base_url, at_once=at_once, calls=calls, repeats=repeats)
    return rows


def main() -> int:
    """Print the table; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--repeats", type=int, metavar="N", help="turns (default: 7; --quick: 3)")
    parser.add_argument(
        "--calls", type=int, metavar="N", help="of each client in each turn (default: 4096; --quick: 512)"
    )
    parser.add_argument("--delay-ms", type=float, default=20.0, metavar="MS", help="of each reply (default: 20)")
    parser.add_argument("--serve", type=float, metavar="S", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is not None:
        serve(given.serve)
        return 0
    calls = given.calls or (512 if given.quick else 4096)
    repeats = given.repeats or (3 if given.quick else 7)
    with server(given.delay_ms / 1000) as base_url:
        rows = asyncio.run(measure_all(base_url, calls=calls, repeats=repeats))
    return finish(rows, given.json, packages=PACKAGES)


if __name__ == "__main__":
    sys.exit(main())
