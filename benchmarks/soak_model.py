"""The model of `benchmarks/soak.py`: OpenAI's protocol on loopback, in a process of its own.

It drafts, finds fault with a first draft and is content with a second. What a task asks for besides goes wrong:
`FAILING_DRAFT` and `FAILING_VERDICT` are refused with 400, the latter once for each task, and `HANGING_VERDICT` is
never answered. So many requests for `TOGETHER n` are answered once all `n` of them are here.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FAILING_DRAFT", "FAILING_VERDICT", "HANGING_VERDICT", "TOGETHER", "served_model"]

FAILING_DRAFT = "[no draft of this]"
FAILING_VERDICT = "[the first verdict on this fails]"
HANGING_VERDICT = "[no verdict on this, ever]"
TOGETHER = "[together]"
FIRST = "The lamp by the river burned low, and the night leaned in to listen: a first draft of it."
SECOND = "By the river the lamp burned low, and the whole night leaned in to listen: a second draft."
DELAY_S = 0.002


class Model:
    """The memory of the scripted server: which tasks failed once, and who waits for whom."""

    def __init__(self) -> None:
        self.failed: set[str] = set()
        self.together: dict[str, tuple[int, asyncio.Event]] = {}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        asked = await request.json()
        said = "\n".join(str(message["content"]) for message in asked["messages"])
        judging = "response_format" in asked
        if said.startswith(TOGETHER):
            await self._all_here(said)
        if FAILING_DRAFT in said and not judging:
            return _refused("no draft")
        if FAILING_VERDICT in said and judging and "first draft" in said and said not in self.failed:
            self.failed.add(said)
            return _refused("no verdict")
        if HANGING_VERDICT in said and judging:
            await asyncio.Event().wait()  # until the client has left
        await asyncio.sleep(DELAY_S)
        if judging:
            good = "second draft" in said
            verdict = {"feedback": "" if good else "Begin with the river.", "score": 0.9 if good else 0.4}
            text = json.dumps({**verdict, "accepted": good})
        else:
            text = SECOND if "first draft" in said else FIRST
        return await _streamed(request, asked, text) if asked.get("stream") else web.json_response(_whole(asked, text))

    async def _all_here(self, said: str) -> None:
        wanted = int(said.removeprefix(TOGETHER).split()[0])
        here, all_here = self.together.pop(said, (0, asyncio.Event()))
        if here + 1 == wanted:
            all_here.set()
            return
        self.together[said] = (here + 1, all_here)
        await all_here.wait()


def _head(asked: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": asked["model"]}


USAGE = {"prompt_tokens": 60, "completion_tokens": 20, "total_tokens": 80}


def _whole(asked: dict[str, Any], text: str) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {**_head(asked, "chat.completion"), "choices": [choice], "usage": USAGE}


async def _streamed(request: web.Request, asked: dict[str, Any], text: str) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    head = _head(asked, "chat.completion.chunk")
    pieces: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    pieces += [{"content": f"{word} "} for word in text.split(" ")]
    choices: list[list[dict[str, Any]]] = [[{"index": 0, "delta": piece, "finish_reason": None}] for piece in pieces]
    choices.append([{"index": 0, "delta": {}, "finish_reason": "stop"}])
    for choice in choices:
        await response.write(f"data: {json.dumps({**head, 'choices': choice})}\n\n".encode())
    await response.write(f"data: {json.dumps({**head, 'choices': [], 'usage': USAGE})}\n\n".encode())
    await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


def _refused(message: str) -> web.Response:
    return web.json_response({"error": {"message": message, "type": "invalid_request_error"}}, status=400)


async def _serve() -> None:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", Model().answer)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, keepalive_timeout=3600, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await runner.cleanup()


@contextmanager
def served_model() -> Iterator[str]:
    """Give the spec of the model, as `chat_model` takes it, while its process lives."""
    with subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1#soak"
        finally:
            process.stdin.close()


if __name__ == "__main__":
    asyncio.run(_serve())
