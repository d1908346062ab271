"""Other agents use the presets as tools of the Model Context Protocol, here with the official client."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from redraft.models import ScriptedModel
from redraft.nodes import mcp_tools, tool_critic
from redraft.server import Engine, Settings, create_app
from redraft.server.engine.runs import Caller

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from langchain_core.runnables import Runnable

TOKENS = ("first-token-0123456789", "second-token-0123456789")
GATE = threading.Event()
ASKED = threading.Event()


def reply(messages: list[Any]) -> str:
    asked = "\n".join(str(message.content) for message in messages)
    if "wait here" in asked:
        ASKED.set()
        assert GATE.wait(30)
    return "second draft" if "first draft" in asked else "first draft"


@pytest.fixture(scope="module")
def server(serving: Any) -> Iterator[Any]:
    """A server with two callers, each of whom may make forty calls a day."""
    settings = Settings(db="memory", model="openai:writer", tokens=TOKENS, max_calls_a_day=40)
    engine = Engine(settings, build_model=lambda spec: ScriptedModel([reply] * 500))
    with serving(create_app(settings, engine=engine)) as served:
        yield served


@asynccontextmanager
async def session(server: Any, token: str = TOKENS[0], **callbacks: Any) -> AsyncIterator[ClientSession]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx.AsyncClient(headers=headers, timeout=60) as http,
        streamable_http_client(f"{server.url}/mcp", http_client=http) as (reading, writing, session_id),
        ClientSession(reading, writing, **callbacks) as client,
    ):
        await client.initialize()
        client.session_id = session_id  # type: ignore[attr-defined]
        yield client


def text(result: types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


async def test_each_preset_is_a_tool_with_typed_arguments(server: Any) -> None:
    """An agent lists the presets as verbs, each with its own options, and nothing of the server's among them."""
    async with session(server) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == {
        "refine", "math", "code", "write", "agent", "reasoning", "rubric", "travel", "answer", "resume"
    }  # fmt: skip
    refine = tools["refine"].inputSchema
    assert refine["required"] == ["task"]
    assert refine["additionalProperties"] is False
    given = refine["properties"]
    assert given["max_rounds"]["maximum"] == 10
    assert given["human"]["type"] == "boolean"
    assert given["verifiers"]["items"] == {"type": "string"}
    assert "verifiers" not in tools["math"].inputSchema["properties"]
    assert tools["rubric"].inputSchema["properties"]["threshold"]["maximum"] == 1
    assert {"thread_id", "stop_reason", "accepted_by"} <= tools["refine"].outputSchema["properties"].keys()  # type: ignore[index]


async def test_a_call_tells_its_progress_and_how_it_ended(server: Any) -> None:
    """An agent hears of each round while it runs, and gets the answer, its thread and who accepted it."""
    heard: list[tuple[float, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, message))

    async with session(server) as client:
        asked = {"task": "Write.", "verifiers": ["uses_words:second"], "max_rounds": 2, "thread_id": None}
        result = await client.call_tool("refine", asked, progress_callback=hear)
    assert not result.isError, text(result)
    found = result.structuredContent or {}
    assert (found["answer"], found["stop_reason"], found["accepted_by"]) == ("second draft", "accepted", "uses_words")
    assert (found["status"], found["rounds"], found["usage"]["calls"]) == ("finished", 1, 2)
    assert isinstance(result.content[0], types.TextContent)
    assert result.content[0].text == "second draft"
    assert json.loads(text(result).partition("\n")[2])["thread_id"] == found["thread_id"]
    assert [number for number, _ in heard] == sorted({number for number, _ in heard})
    assert "first draft" in "\n".join(str(message) for _, message in heard)
    first = Caller(next(iter(server.engine.known.here.values())).caller.id)
    assert (await server.engine.owned.thread(first, found["thread_id"])).owner == first.id


@pytest.mark.parametrize(
    ("tool", "given", "told"),
    [
        ("refine", {}, "task"),
        ("refine", {"task": "Write.", "max_rounds": 99}, "max_rounds"),
        ("refine", {"task": "Write.", "folder": "/etc"}, "folder"),
        ("refine", {"task": "Write.", "verifiers": ["json_schema:/etc/passwd"]}, "not for callers"),
        ("refine", {"task": "Write.", "thread_id": "nobody's"}, "an id has"),
        ("refine", {"task": "Write.", "thread_id": "nobodys"}, "no such thread"),
        ("answer", {"thread_id": "nobodys", "action": "accept"}, "no such thread"),
        ("retrieve", {"task": "Write."}, "no such tool"),
    ],
)
async def test_a_bad_call_is_refused_in_a_sentence(server: Any, tool: str, given: Any, told: str) -> None:
    """An agent that asks for what makes no sense or isn't its own is told what is wrong, and nothing is run."""
    async with session(server) as client:
        before = len(server.engine.known.here)
        # Not by the client's own look at the tool, which would refuse some of them first.
        asked = types.CallToolRequest(params=types.CallToolRequestParams(name=tool, arguments=given))
        result = await client.send_request(types.ClientRequest(asked), types.CallToolResult)
    assert result.isError
    assert told in text(result)
    assert len(server.engine.known.here) == before


async def test_a_person_is_asked_through_the_client(server: Any) -> None:
    """A person's edit, given in the client's own form, is the answer; a form that says nothing is shown once more."""
    asked: list[str] = []

    async def fill_in(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        content: Any = {"action": "edit"} if len(asked) == 1 else {"action": "edit", "text": "My own."}
        return types.ElicitResult(action="accept", content=content)

    async with session(server, elicitation_callback=fill_in) as client:
        result = await client.call_tool("write", {"task": "Write.", "human": True, "max_rounds": 1})
    found = result.structuredContent or {}
    assert (found["answer"], found["accepted_by"], found["status"]) == ("My own.", "human", "finished"), text(result)
    assert "first draft" in asked[0]
    assert "an edit needs the whole new text" in asked[1]


@pytest.mark.parametrize("can_ask", [False, True])
async def test_where_nobody_answers_the_thread_waits(server: Any, can_ask: bool) -> None:
    """Where the client has no forms, or the person refuses, the call returns the paused thread, which is answered
    later."""

    async def refuse(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="decline")

    async with session(server, elicitation_callback=refuse if can_ask else None) as client:
        verifiers = ["uses_words:second"]
        result = await client.call_tool("refine", {"task": "Write.", "human": True, "verifiers": verifiers})
        found = result.structuredContent or {}
        assert (found["status"], found["stop_reason"], found["question"]["draft"]) == ("waiting", None, "first draft")
    # Another session of the same caller, and nobody else's.
    reply = {"thread_id": found["thread_id"], "action": "feedback", "text": "Another."}
    async with session(server, TOKENS[1]) as client:
        assert "no such thread" in text(await client.call_tool("answer", reply))
    async with session(server) as client:
        asked = (await client.call_tool("answer", reply)).structuredContent or {}
        assert (asked["status"], asked["question"]["draft"]) == ("waiting", "second draft")
        given = {"thread_id": found["thread_id"], "action": "accept", "score": 0.9}
        ended = (await client.call_tool("answer", given)).structuredContent or {}
    assert (ended["status"], ended["answer"], ended["accepted_by"]) == ("finished", "second draft", "human")


async def test_a_session_is_its_callers_alone(server: Any) -> None:
    """Whoever learns the id of another caller's session reaches nothing with it."""
    async with session(server) as client:
        name = client.session_id()  # type: ignore[attr-defined]
        for token, status in ((TOKENS[0], 200), (TOKENS[1], 404), ("no-token-0123456789", 401)):
            headers = {
                "Authorization": f"Bearer {token}",
                "Mcp-Session-Id": name,
                "Accept": "application/json, text/event-stream",
            }
            ping = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
            async with httpx.AsyncClient() as http:
                assert (await http.post(f"{server.url}/mcp", json=ping, headers=headers)).status_code == status


async def test_a_call_that_is_given_up_ends_its_run(server: Any) -> None:
    """A client that cancels a call pays for no further round; the thread goes on when it is asked to."""
    GATE.clear()
    ASKED.clear()
    async with session(server) as client:
        request = types.CallToolRequestParams(name="refine", arguments={"task": "Write: wait here.", "max_rounds": 0})
        number = client._request_id
        call = asyncio.create_task(
            client.send_request(types.ClientRequest(types.CallToolRequest(params=request)), types.CallToolResult)
        )
        assert await asyncio.to_thread(ASKED.wait, 20)
        run = list(server.engine.known.here.values())[-1]
        cancelled = types.CancelledNotification(params=types.CancelledNotificationParams(requestId=number))
        await client.send_notification(types.ClientNotification(cancelled))
        with pytest.raises(McpError, match="cancelled"):
            await call
        GATE.set()
        # The run's own page of the HTTP protocol waits for its end.
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {TOKENS[0]}"}, timeout=60) as http:
            await http.get(f"{server.url}/threads/{run.thread_id}/runs/{run.id}/join")
        assert run.status == "interrupted"
        ended = (await client.call_tool("resume", {"thread_id": run.thread_id})).structuredContent or {}
    assert (ended["answer"], ended["stop_reason"]) == ("first draft", "max_rounds")


async def test_the_quota_holds_for_tools(server: Any) -> None:
    """A caller whose calls of the day are used up is told so by every tool, and when they renew."""
    engine = server.engine
    async with session(server, TOKENS[1]) as client:
        await client.call_tool("refine", {"task": "Write.", "max_rounds": 0})
        caller = list(engine.known.here.values())[-1].caller
        used = {"calls": 40, "input_tokens": 0, "output_tokens": 0, "total_tokens": 0, "cost_usd": 0.0, "seconds": 0.0}
        await engine.db.write(lambda: engine.records.usage.add("more", caller.id, used))
        result = await client.call_tool("refine", {"task": "Write."})
    assert result.isError
    assert "the quota of calls a day is used up" in text(result)


class CallingModel(ScriptedModel):
    """A scripted model whose first reply calls a tool."""

    def bind_tools(self, tools: Any, **_: Any) -> Runnable[Any, Any]:
        return self

    def _next(self, messages: Any) -> Any:
        message: Any = super()._next(messages)
        name, called, arguments = message.content.partition(" CALL ")
        if called:
            message.content = ""
            message.tool_calls = [{"name": name, "args": json.loads(arguments), "id": "1", "type": "tool_call"}]
        return message


@pytest.mark.parametrize("way", ["invoked", "awaited"])
async def test_a_critic_uses_the_tools_of_a_server(server: Any, way: str) -> None:
    """A critic of the user's own calls a tool of an MCP server before it judges, and what it heard is the evidence."""
    headers = {"Authorization": f"Bearer {TOKENS[0]}"}
    connection = {"transport": "streamable_http", "url": f"{server.url}/mcp", "headers": headers}
    tools = await asyncio.to_thread(mcp_tools, {"redraft": connection})
    called = "refine CALL " + json.dumps({"task": "Write.", "max_rounds": 0})
    critic = tool_critic(CallingModel([called, "It says otherwise."]), tools)
    said = critic("Write.", "A draft.", ()) if way == "invoked" else await critic.acall("Write.", "A draft.", ())
    assert (said.accepted, said.text) == (False, "It says otherwise.")
    (result,) = [step for step in said.evidence["steps"] if step["step"] == "tool_result"]
    assert (result["tool"], "first draft" in result["text"]) == ("refine", True)


async def test_the_command_is_a_server_on_stdin_and_stdout(tmp_path: Path) -> None:
    """An agent that starts `redraft mcp` itself gets the same tools, and the thread can be read at the shell."""
    replies = tmp_path / "replies.jsonl"
    replies.write_text('{"text": "A boat."}\n{"text": "no issues"}\n')
    db = str(tmp_path / "runs.sqlite")
    script = "from redraft.faces.cli.main import main; main()"
    arguments = ["-c", script, "mcp", "--db", db, "--model", f"scripted:{replies}"]
    parameters = StdioServerParameters(command=sys.executable, args=arguments)
    async with stdio_client(parameters) as (reading, writing), ClientSession(reading, writing) as client:
        await client.initialize()
        assert len((await client.list_tools()).tools) == 10
        result = await client.call_tool("refine", {"task": "Write."})
    found = result.structuredContent or {}
    assert (found["answer"], found["accepted_by"]) == ("A boat.", "self (uncalibrated)"), text(result)
    from redraft.state import open_checkpointer

    with open_checkpointer(db) as saver:
        assert saver.runs.get(found["thread_id"]).preset == "refine"
