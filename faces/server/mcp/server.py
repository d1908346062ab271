"""MCP server of one caller: lists the tools, and calls them; on any transport, also stdin and stdout. Internal."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager, redirect_stdout
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from pydantic import ValidationError

from ....state.threads.answers import REPLIES
from ...views.console import safe
from ..api.disconnect import CANCELLING
from ..engine.engine import Engine
from ..engine.ownership import LOCAL
from ..engine.runs import LOG, NotThereError, RefusedError
from ..progress_text import question_text
from .calls import call
from .tools import ANSWER, OTHERS, PresetTool, listed, preset_tools

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anyio import AsyncFile
    from mcp.server.session import ServerSession
    from mcp.shared.context import RequestContext

    from ..engine.runs import Caller
    from ..settings import Settings
    from .tools import ToolResult

__all__ = ["mcp_server", "serve_stdio"]


def mcp_server(engine: Engine, caller: Caller) -> Server[Any, Any]:
    """Return the server of one caller, to be run on any transport.

    Args:
        engine: Runs what tools ask for; started.
        caller: Whose runs and threads these are.
    """
    server: Server[Any, Any] = Server("redraft", version=version("redraft"), instructions=INSTRUCTIONS)
    tools = preset_tools(engine.assistants(), engine.settings)

    async def list_tools(_: types.ListToolsRequest) -> types.ServerResult:
        return types.ServerResult(types.ListToolsResult(tools=listed(tools)))

    async def call_tool(asked: types.CallToolRequest) -> types.ServerResult:
        name, given = asked.params.name, asked.params.arguments or {}
        try:
            request = await _request(engine, caller, tools, name, given)
            result = await call(engine, caller, SessionClient(server.request_context), **request)
        except RefusedError as error:
            return _refused(str(error))
        except ValidationError as error:
            return _refused(_reasons(error))
        except Exception:
            # What it says may hold texts, paths and keys.
            LOG.exception("a call of the tool %r failed", name)
            return _refused("something went wrong; the server's log says what")
        return _shown(result)

    # Not by the decorators, which answer a caller with whatever an exception says.
    server.request_handlers[types.ListToolsRequest] = list_tools
    server.request_handlers[types.CallToolRequest] = call_tool
    return server


class SessionClient:
    """The client of one request.

    Args:
        context: Of the request.
    """

    def __init__(self, context: RequestContext[ServerSession, Any, Any]) -> None:
        self._session = context.session
        self._request = context.request_id
        self._token = context.meta.progressToken if context.meta else None
        self._told = 0

    @property
    def can_ask(self) -> bool:
        params = self._session.client_params
        forms = params.capabilities.elicitation if params else None
        return forms is not None and (forms.form is not None or forms.url is None)

    async def tell(self, text: str) -> None:
        if self._token is None:  # the client wants to hear of none
            return
        self._told += 1
        await self._session.send_progress_notification(
            self._token, self._told, message=text, related_request_id=str(self._request)
        )

    async def ask(self, question: Mapping[str, Any], problem: str) -> dict[str, Any] | None:
        shown = question_text(question)
        message = f"{safe(problem)}\n\n{shown}" if problem else shown
        result = await self._session.elicit_form(message, FORM, self._request)
        if result.action != "accept" or not result.content:
            return None
        said = {name: value for name, value in result.content.items() if value not in (None, "")}
        return reply_of(said)


def reply_of(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reply to a question as it is resumed with: the text of an edit is the draft."""
    reply = {name: said[name] for name in ("action", "score") if said.get(name) is not None}
    if said.get("text") is None:
        return reply
    return {**reply, "draft" if said.get("action") == "edit" else "text": said["text"]}


async def _request(
    engine: Engine, caller: Caller, tools: Mapping[str, PresetTool], name: str, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what `Engine.submit` takes for a tool and its arguments."""
    if name in tools:
        return tools[name].request(tools[name].arguments.model_validate(given))
    if name not in OTHERS:
        raise NotThereError("there is no such tool")
    arguments = OTHERS[name][1].model_validate(given).model_dump()
    record = await engine.owned.thread(caller, arguments["thread_id"])
    answer = {"command": {"resume": reply_of(arguments)}} if name == ANSWER else {}
    return {"assistant": str(record.assistant), "thread_id": record.thread_id, **answer}


def _shown(result: ToolResult) -> types.ServerResult:
    content = result.model_dump(mode="json")
    told = {name: value for name, value in content.items() if name != "answer"}
    # The answer by itself, as a model reads it best; the rest for clients that read no structured content.
    texts = [result.answer, json.dumps(told, ensure_ascii=False)]
    blocks: list[types.ContentBlock] = [types.TextContent(type="text", text=text) for text in texts if text]
    return types.ServerResult(types.CallToolResult(content=blocks, structuredContent=content))


def _refused(message: str) -> types.ServerResult:
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=message)]
    return types.ServerResult(types.CallToolResult(content=content, isError=True))


def _reasons(error: ValidationError) -> str:
    """Return what is wrong with the arguments, without repeating them."""
    found = error.errors(include_url=False, include_input=False)[:5]
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found)[:1000]


FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "action": {
            "type": "string",
            "title": "What now",
            "enum": list(REPLIES),
            "description": "accept the draft; edit: your text takes its place; feedback: your text says what to "
            "change; stop ends the run.",
        },
        "text": {"type": "string", "title": "Text", "description": "The whole new text, what to change, or why."},
        "score": {"type": "number", "title": "Score", "minimum": 0, "maximum": 1},
    },
    "required": ["action"],
}

INSTRUCTIONS = (
    "Each tool but answer and resume drafts, has the draft judged, and revises it until it is accepted or a limit says "
    "stop. Read accepted_by and stop_reason: an answer that nobody accepted may be wrong. verifiers are programs that "
    "check the draft: give some where the task says what can be checked. Where the result is waiting, a person "
    "decides: show them the question, and call answer with what they say."
)


async def serve_stdio(settings: Settings) -> None:
    """Serve until the client closes stdin.

    Raises:
        ValueError: The database or the model can't be used.
        OSError: The database can't be opened.
        ImportError: An extra is missing.
    """
    engine = Engine(settings)
    try:
        await engine.start()
        server = mcp_server(engine, LOCAL)
        with _files() as files:
            async with stdio_server(*files) as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())
        await CANCELLING.close()  # the runs of a client that has gone are ended
    finally:
        await engine.stop()


@contextmanager
def _files() -> Iterator[tuple[AsyncFile[str], AsyncFile[str]]]:
    """Give stdin and stdout; whatever else prints meanwhile would be taken for a message, and goes to stderr."""
    # Not the process's own, which the SDK would close.
    with (
        open(0, encoding="utf-8", errors="replace", closefd=False) as stdin,
        open(1, "w", encoding="utf-8", closefd=False) as stdout,
        redirect_stdout(sys.stderr),
    ):
        yield anyio.wrap_file(stdin), anyio.wrap_file(stdout)
