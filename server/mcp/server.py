"""MCP server of one caller: lists the tools, and calls them; on any transport, also stdin and stdout. Internal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from importlib.metadata import version
from typing import Any

import anyio
from anyio import AsyncFile
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.server.stdio import stdio_server
from mcp.shared.context import RequestContext
from pydantic import ValidationError

from ...faces.views.console import safe
from ...state.threads.answers import REPLIES, read_answer
from ...state.usage import NO_USAGE
from ..api.disconnect import CANCELLING, cancel_unended
from ..engine.call_options import problems_in
from ..engine.engine import Engine
from ..engine.ownership import LOCAL
from ..engine.runs import LOG, BadRequestError, Caller, NotThereError, RefusedError, Run, Submission
from ..progress_text import progress, question_of, question_text
from ..settings import Settings
from .tools import ANSWER, OTHERS, PresetTool, ToolResult, listed, preset_tools

__all__ = ["mcp_server", "serve_stdio"]


def mcp_server(engine: Engine, caller: Caller) -> Server[Any, Any]:
    """Return the server of one caller, to be run on any transport.

    Args:
        engine: Runs what tools ask for; started.
        caller: Whose runs and threads these are.
    """
    server: Server[Any, Any] = Server("redraft", version=version("redraft"), instructions=INSTRUCTIONS)
    tools = preset_tools(engine.presets.known, engine.settings)

    async def list_tools(_: types.ListToolsRequest) -> types.ServerResult:
        return types.ServerResult(types.ListToolsResult(tools=listed(tools)))

    async def call_tool(message: types.CallToolRequest) -> types.ServerResult:
        name, arguments = message.params.name, message.params.arguments or {}
        try:
            request = await _request(engine, caller, tools, name, arguments)
            result = await call(engine, caller, SessionClient(server.request_context), **request)
        except RefusedError as error:
            return _refused(str(error))
        except ValidationError as error:
            return _refused(problems_in(error, most=5))
        except Exception:
            # What it says may hold texts, paths and keys.
            LOG.exception("a call of the tool %r failed", name)
            return _refused("something went wrong; the server's log says what")
        return _tool_result(result)

    # Not by the decorators, which answer a caller with whatever an exception says.
    server.request_handlers[types.ListToolsRequest] = list_tools
    server.request_handlers[types.CallToolRequest] = call_tool
    return server


LONGEST_NOTE = 1000
MOST_QUESTIONS = 5
"""How often a client is asked again that sends a form which says nothing."""


class SessionClient:
    """The client of one request.

    Args:
        context: Of the request.
    """

    def __init__(self, context: RequestContext[ServerSession, Any, Any]) -> None:
        self._session = context.session
        self._request = context.request_id
        self._token = context.meta.progressToken if context.meta else None
        self._notes = 0

    @property
    def can_ask(self) -> bool:
        """True where it can put a question to a person."""
        params = self._session.client_params
        forms = params.capabilities.elicitation if params else None
        return forms is not None and (forms.form is not None or forms.url is None)

    async def tell(self, text: str) -> None:
        """Send progress."""
        if self._token is None:  # the client wants to hear of none
            return
        self._notes += 1
        await self._session.send_progress_notification(
            self._token, self._notes, message=text, related_request_id=str(self._request)
        )

    async def ask(self, question: Mapping[str, Any], problem: str) -> dict[str, Any] | None:
        """Ask the person, and return the reply; `None` where they refuse.

        Args:
            question: As `Thread.question` gives it.
            problem: Why the reply before was none; empty the first time.
        """
        text = question_text(question)
        message = f"{safe(problem)}\n\n{text}" if problem else text
        result = await self._session.elicit_form(message, FORM, self._request)
        if result.action != "accept" or not result.content:
            return None
        return reply_of({name: value for name, value in result.content.items() if value != ""})


def reply_of(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reply to a question as it is resumed with: the text of an edit is the draft."""
    reply = {name: form[name] for name in ("action", "score") if form.get(name) is not None}
    if form.get("text") is None:
        return reply
    return {**reply, "draft" if form.get("action") == "edit" else "text": form["text"]}


async def call(engine: Engine, caller: Caller, client: SessionClient, **request: Any) -> ToolResult:
    """Run, and return how it ended: finished, or waiting for a person who could not be asked here or refused.

    Args:
        engine: Runs it.
        caller: Whose run it is.
        client: Hears of progress and is asked.
        request: As `Engine.submit` takes it.

    Raises:
        BadRequestError: It makes no sense or is not allowed, or the run failed.
        NotThereError: There is no such thread.
        TakenError: The thread is busy.
        QueueFullError: As many runs wait as may.
        QuotaSpentError: The caller has used up what they may use today.
    """
    run = await engine.submit(
        caller,
        Submission(
            **{"stream_modes": ("custom",), "multitask": "reject", "keep": request.get("thread_id") is None, **request}
        ),
    )
    while True:
        await _follow(engine, run, client)
        question = question_of((run.output or {}).get("__interrupt__"))
        reply = await _replied(client, question) if question is not None and client.can_ask else None
        if reply is None:
            return _result(run, question)
        run = await engine.submit(
            caller,
            Submission(
                assistant=run.assistant,
                thread_id=run.thread_id,
                command={"resume": reply},
                stream_modes=("custom",),
            ),
        )


async def _follow(engine: Engine, run: Run, client: SessionClient) -> None:
    """Send a run's progress until it has ended; where the client gives up, it is cancelled.

    Raises:
        BadRequestError: It failed or was cancelled.
    """
    try:
        async for text in progress(run):
            if note := text.strip():
                await client.tell(note if len(note) <= LONGEST_NOTE else f"{note[: LONGEST_NOTE - 1]}…")
    except BaseException:
        if not engine.stopped:
            cancel_unended(engine, run)
        raise
    if run.status in ("error", "timeout"):
        message = (run.error or {}).get("message") or "the run failed"
        raise BadRequestError(f"{message} (thread {run.thread_id})")
    if run.status == "interrupted" and not (run.output or {}).get("__interrupt__"):
        raise BadRequestError(f"the run was cancelled; resume goes on with thread {run.thread_id}")


async def _replied(client: SessionClient, question: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a reply that says something; `None` where the person refuses, or the question is none of ours."""
    problem = str(question.get("error", ""))
    for _ in range(MOST_QUESTIONS if "draft" in question else 0):
        reply = await client.ask(question, problem)
        if reply is None:
            return None
        try:
            read_answer(reply, draft=str(question["draft"]))
        except ValueError as error:
            problem = str(error)
        else:
            return reply
    return None


def _result(run: Run, question: dict[str, Any] | None) -> ToolResult:
    output = run.output or {}
    used = {**NO_USAGE, **(output.get("usage") or {})}
    return ToolResult(
        thread_id=run.thread_id,
        run_id=run.id,
        status="finished" if question is None else "waiting",
        answer=output.get("answer") or "",
        stop_reason=output.get("stop_reason") if question is None else None,
        accepted_by=output.get("accepted_by"),
        score=output.get("score"),
        rounds=output.get("rounds") or 0,
        usage={name: value for name, value in used.items() if isinstance(value, int | float) or value is None},
        question=question,
    )


async def _request(
    engine: Engine, caller: Caller, tools: Mapping[str, PresetTool], name: str, values: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the fields of a `Submission` for a tool and its arguments."""
    if name in tools:
        return tools[name].request(tools[name].arguments.model_validate(values))
    if name not in OTHERS:
        raise NotThereError("there is no such tool")
    arguments = OTHERS[name][1].model_validate(values).model_dump()
    record = await engine.owned.thread(caller, arguments["thread_id"])
    answer = {"command": {"resume": reply_of(arguments)}} if name == ANSWER else {}
    return {"assistant": str(record.assistant), "thread_id": record.thread_id, **answer}


def _tool_result(result: ToolResult) -> types.ServerResult:
    # The answer by itself, as a model reads it best; the rest for clients that read no structured content.
    texts = [result.answer, json.dumps(result.model_dump(mode="json", exclude={"answer"}), ensure_ascii=False)]
    blocks: list[types.ContentBlock] = [types.TextContent(type="text", text=text) for text in texts if text]
    return types.ServerResult(types.CallToolResult(content=blocks, structuredContent=result.model_dump(mode="json")))


def _refused(message: str) -> types.ServerResult:
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=message)]
    return types.ServerResult(types.CallToolResult(content=content, isError=True))


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
