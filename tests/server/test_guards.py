"""Nobody gets more from the server than is theirs: callers see their own threads alone, and limits hold."""

from __future__ import annotations

import asyncio
import json
import select
import socket
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from langgraph_sdk import get_client
from pydantic import ValidationError
from redraft.models import ScriptedModel
from redraft.server import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TASK = {"task": "Write about autumn."}
REFINE = {"assistant_id": "refine", "input": TASK}
TRICKS = (
    "../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e",
    "a' OR '1'='1",
    'a"; DROP TABLE served_threads; --',
    "%00",
    "a%00b",
    "%F0%28%8C%28",
    "%ED%A0%80",
    "x" * 5000,
    "%25s",
    "%(thread_id)s",
    "{thread_id}",
    ":thread_id",
    "\u202e",
)


@pytest.fixture
def http(server: Any) -> Iterator[httpx.Client]:
    """Requests as anybody on this machine can make them."""
    with httpx.Client(base_url=server.url, timeout=30) as client:
        yield client


def told(reply: httpx.Response) -> dict[str, Any]:
    """Return what an error says, having looked that it has the one shape and gives nothing away."""
    error: dict[str, Any] = reply.json()["error"]
    assert error.keys() == {"type", "message", "code"}
    assert error["code"] == reply.status_code
    for secret in ("Traceback", "/tmp", "site-packages", ".py", "sqlite", "psycopg", "Write about"):
        assert secret not in reply.text
    return error


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.4", "::", "example.org", ""])
def test_an_open_host_needs_a_token(host: str) -> None:
    """A server that others can reach doesn't start without tokens, and not with short ones."""
    with pytest.raises(ValidationError, match="a token is needed"):
        Settings(host=host)
    with pytest.raises(ValidationError, match="at least 16"):
        Settings(host=host, tokens=("short",))
    assert "long-enough-0123456789" not in repr(Settings(host=host, tokens=("long-enough-0123456789",)))


def test_a_token_is_needed_for_everything(start_server: Callable[..., Any], tokens: tuple[str, str]) -> None:
    """Without a token that the server knows every path but the health check answers 401, whatever is sent."""
    server = start_server(tokens=tokens)
    with httpx.Client(base_url=server.url) as client:
        assert client.get("/healthz").json() == {"ok": True}
        wrong = [{}, {"Authorization": f"Bearer {tokens[0]}x"}, {"Authorization": tokens[0]}, {"X-Api-Key": ""},
                 {"Authorization": "Bearer " + "x" * 5000}, {"Authorization": f"Basic {tokens[0]}"}]  # fmt: skip
        for headers in wrong:
            for path in ("/threads/search", "/runs/wait", "/openapi.json", "/metrics", "/nothing", "/v1/models"):
                reply = client.post(path, headers=headers, content=b"not json")
                assert (reply.status_code, told(reply)["type"]) == (401, "unauthorized")
                assert reply.headers["WWW-Authenticate"] == "Bearer"
        for headers in ({"Authorization": f"Bearer {tokens[0]}"}, {"X-Api-Key": tokens[1]}):
            assert client.post("/threads/search", headers=headers, json={}).json() == []


async def test_threads_of_another_caller_are_not_there(
    start_server: Callable[..., Any], tokens: tuple[str, str], tmp_path: Any
) -> None:
    """Whatever one caller asks about another's thread and run, it is as if there were none; and nothing changes."""
    server = start_server(db=str(tmp_path / "runs.sqlite"), tokens=tokens)
    async with get_client(url=server.url, api_key=tokens[0]) as mine:
        thread = (await mine.threads.create())["thread_id"]
        run = await mine.runs.create(thread, "refine", input=TASK)
        await mine.runs.join(thread, run["run_id"])
        before = await mine.threads.get(thread)
        checkpoint = (await mine.threads.get_state(thread))["checkpoint"]
        async with httpx.AsyncClient(base_url=server.url, headers={"X-Api-Key": tokens[1]}) as theirs:
            path, of_run = f"/threads/{thread}", f"/threads/{thread}/runs/{run['run_id']}"
            asked: list[tuple[str, str, Any]] = [
                ("GET", path, None),
                ("PATCH", path, {"metadata": {"a": 1}}),
                ("DELETE", path, None),
                ("POST", f"{path}/copy", None),
                ("GET", f"{path}/state", None),
                ("GET", f"{path}/state/{checkpoint['checkpoint_id']}", None),
                ("POST", f"{path}/state/checkpoint", {"checkpoint": checkpoint}),
                ("POST", f"{path}/state", {"values": {"answer": "x"}, "as_node": "check"}),
                ("POST", f"{path}/history", {}),
                ("GET", f"{path}/history", None),
                ("POST", f"{path}/runs", REFINE),
                ("POST", f"{path}/runs/wait", REFINE),
                ("POST", f"{path}/runs/stream", REFINE),
                ("GET", f"{path}/runs", None),
                ("GET", of_run, None),
                ("GET", f"{of_run}/join", None),
                ("GET", f"{of_run}/stream", None),
                ("POST", f"{of_run}/cancel", None),
                ("DELETE", of_run, None),
            ]
            for method, where, body in asked:
                reply = await theirs.request(method, where, json=body)
                assert (reply.status_code, told(reply)["type"]) == (404, "not_found"), (method, where)
            assert (await theirs.post("/threads/search", json={})).json() == []
            assert (await theirs.post("/threads/search", json={"ids": [thread]})).json() == []
            assert (await theirs.post("/threads/count", json={})).json() == 0
            taken = await theirs.post("/threads", json={"thread_id": thread, "if_exists": "do_nothing"})
            assert taken.status_code == 409
            # a checkpoint of another's thread, asked for through one's own
            own = (await theirs.post("/threads", json={})).json()["thread_id"]
            body = {"checkpoint": checkpoint}
            assert (await theirs.post(f"/threads/{own}/state/checkpoint", json=body)).status_code == 404
            config = {"configurable": {"thread_id": thread, "checkpoint_id": checkpoint["checkpoint_id"]}}
            output = await theirs.post(f"/threads/{own}/runs/wait", json={**REFINE, "config": config})
            assert output.json()["answer"] == "second draft"
        assert await mine.threads.get(thread) == before


def test_ids_are_only_ids(start_server: Callable[..., Any], checkpointer_url: str) -> None:
    """An id with a path, SQL or bytes in it is one that isn't there, or none, on every database."""
    server = start_server(db=checkpointer_url)
    with httpx.Client(base_url=server.url, timeout=30) as client:
        for known, trick in enumerate(TRICKS, start=1):
            name = client.post("/threads", json={}).json()["thread_id"]
            for path in (f"/threads/{trick}", f"/threads/{trick}/state", f"/threads/{name}/runs/{trick}",
                         f"/assistants/{trick}", f"/threads/{name}/state/{trick}"):  # fmt: skip
                reply = client.get(path)
                assert reply.status_code in (404, 405, 422), path
                told(reply)
            for body in ({"thread_id": trick}, {"thread_id": "\x00"}, {"metadata": {"graph_id": trick}}):
                reply = client.post("/threads", json=body)
                assert reply.status_code in (404, 422), body
                told(reply)
            for where in ("state/checkpoint", "state", "history"):
                reply = client.post(f"/threads/{name}/{where}", json={"checkpoint": {"checkpoint_ns": trick[:500]}})
                assert reply.status_code in (404, 422), (where, trick)
                told(reply)
            past = client.post(f"/threads/{name}/history", json={"metadata": {trick: "x"}})
            assert past.status_code == 422, trick
            assert client.post(f"/threads/{name}/history", json={"metadata": {"a": trick}}).json() == [], trick
            found = client.post("/threads/search", json={"metadata": {trick: trick}})
            assert found.json() == [], trick
            assert client.post("/threads/count", json={}).json() == known, trick


MALFORMED = {
    "no JSON": b"{",
    "a number beyond all": b'{"limit": 1e999}',
    "not a number": b'{"limit": NaN}',
    "half a character": b'{"metadata": {"a": "\\ud800"}}',
    "not UTF-8": b'{"metadata": {"a": "\xff"}}',
    "very deep": b"[" * 100_000,
    "deep": b'{"metadata": {"a": ' + b"[" * 100 + b"]" * 100 + b"}}",
    "a list": b"[]",
    "a text": b'"x"',
    "a huge number": b'{"limit": ' + b"9" * 1000 + b"}",
    "a negative one": b'{"offset": -1}',
    "another type": b'{"metadata": "x"}',
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_bodies_are_refused(http: httpx.Client, body: bytes) -> None:
    """What can't be read, and what no database could hold, is refused with a sentence."""
    reply = http.post("/threads/search", content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code in (400, 422)
    told(reply)


def test_bodies_have_a_bound(start_server: Callable[..., Any]) -> None:
    """A body that is too long is refused, also one that comes in pieces and tells no length."""
    server = start_server(max_body_bytes=2048)
    sent = 0

    def pieces() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(10_000):
            sent += 1
            yield b" " * 1024

    headers = {"Content-Type": "application/json"}
    with httpx.Client(base_url=server.url) as client:
        long = client.post("/threads", content=b" " * 4096, headers=headers)
        assert (long.status_code, told(long)["type"]) == (413, "too_large")
        try:
            chunked = client.post("/threads", content=pieces(), headers=headers)
            assert chunked.status_code == 413
        except httpx.TransportError:  # the connection was closed before all was sent
            pass
        assert sent < 10_000
        assert client.post("/threads", content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415


def test_a_body_with_two_lengths_is_refused(start_server: Callable[..., Any]) -> None:
    """A proxy may see its end elsewhere, and what stands behind it as another caller's request."""
    server = start_server()
    with httpx.Client(base_url=server.url) as client:
        headers = {"Content-Type": "application/json", "Content-Length": "2", "Transfer-Encoding": "chunked"}
        reply = client.post("/threads", content=b"2\r\n{}\r\n0\r\n\r\n", headers=headers)
    assert (reply.status_code, reply.headers["connection"]) == (400, "close")


@pytest.mark.parametrize("path", ["/threads", "/threads/{}/runs/wait"])
def test_metadata_have_a_bound(start_server: Callable[..., Any], path: str) -> None:
    """They stand in every list and checkpoint: what a request brings is bounded, and so is what several add up to."""
    server = start_server()
    half = {"a": "x" * 10_000}
    with httpx.Client(base_url=server.url) as client:
        thread = client.post("/threads", json={"metadata": half}).json()["thread_id"]
        body = {"metadata": half | {"b": "y" * 10_000}, "assistant_id": "refine", "input": {"task": "x"}}
        assert client.post(path.format(thread), json=body).status_code == 422
        assert client.patch(f"/threads/{thread}", json={"metadata": {"b": "y" * 10_000}}).status_code == 422
        assert client.get(f"/threads/{thread}").json()["metadata"] == half


def test_a_list_has_a_bound(start_server: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks for gigabytes is told to ask for less, and fewer are given."""
    monkeypatch.setattr("redraft.server.api.wire.MOST_LISTED", 5_000)
    with httpx.Client(base_url=start_server().url) as client:
        for _ in range(3):
            client.post("/threads", json={"metadata": {"a": "x" * 2_000}})
        refused = client.post("/threads/search", json={"limit": 3})
        assert (refused.status_code, "limit" in refused.text) == (422, True)
        assert len(client.post("/threads/search", json={"limit": 2}).json()) == 2
        assert len(client.post("/threads/search", json={"select": ["thread_id"]}).json()) == 3


def test_a_list_reads_what_it_shows(start_server: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many threads a search reads those that it is asked for, and one page of them; one that must look through all
    does so beside the event loop, and finds the same."""
    server = start_server()
    records = server.engine.records
    with httpx.Client(base_url=server.url) as client:
        for number in range(40):
            client.post("/threads", json={"thread_id": f"thread-{number:02}", "metadata": {"n": number % 2}})
        query, read, threads = records.query, list[int](), set[str]()

        def noted(statement: str, values: Any) -> Any:
            rows = query(statement, values)
            read.append(len(rows))
            threads.add(threading.current_thread().name.rpartition("_")[0])
            return rows

        monkeypatch.setattr(records, "query", noted)
        asked: list[tuple[dict[str, Any], list[str]]] = [
            ({"ids": [f"none-{number}" for number in range(1000)]}, []),
            ({"ids": ["thread-07", "thread-03"], "sort_by": "thread_id"}, ["thread-07", "thread-03"]),
            ({"limit": 2, "offset": 1, "sort_by": "thread_id", "sort_order": "asc"}, ["thread-01", "thread-02"]),
            ({"status": "busy", "limit": 2}, []),
        ]
        for body, names in asked:
            found = client.post("/threads/search", json={**body, "select": ["thread_id"]}).json()
            assert ([one["thread_id"] for one in found], max(read)) == (names, len(names)), body
            read.clear()
        looked = {"metadata": {"n": 1}, "status": "idle", "sort_by": "thread_id", "limit": 3, "offset": 2}
        found = client.post("/threads/search", json={**looked, "select": ["thread_id"]}).json()
        assert [one["thread_id"] for one in found] == ["thread-35", "thread-33", "thread-31"]
        assert client.post("/threads/count", json={"metadata": {"n": 1}}).json() == 20
        assert threads == {"redraft-server-read", "redraft-caller"}  # and none on the event loop


def test_a_slow_body_is_given_up(start_server: Callable[..., Any]) -> None:
    """Who sends a byte now and then holds no connection for long."""
    server = start_server(max_body_seconds=0.2)
    host, _, port = server.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as slow:
        slow.sendall(b"POST /threads HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     b"Content-Length: 100\r\n\r\n{")  # fmt: skip
        reply = slow.recv(65_536)
    assert reply.startswith(b"HTTP/1.1 408")


@contextmanager
def unfinished(server: Any, token: str, sizes: list[int]) -> Iterator[list[socket.socket]]:
    """Requests whose bodies never end, of a caller: so many bytes of each have come."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    with ExitStack() as stack:
        sockets = []
        for size in sizes:
            one = stack.enter_context(socket.create_connection((host, int(port)), timeout=20))
            one.sendall(
                f"POST /threads HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: {token}\r\n"
                "Content-Type: application/json\r\nContent-Length: 1024\r\n\r\n".encode()
                + b" " * size
            )
            sockets.append(one)
        yield sockets


@pytest.mark.parametrize(("of_all", "status"), [(64, 429), (2, 503)], ids=["of a caller", "of all"])
def test_bodies_in_flight_have_a_bound(
    start_server: Callable[..., Any],
    tokens: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    of_all: int,
    status: int,
) -> None:
    """Who sends many bodies and ends none is refused the next and told when to come again, while another caller is
    served; so are they when the others are gone."""
    monkeypatch.setattr("redraft.server.api.guards.MOST_OF_ALL", of_all)
    server = start_server(tokens=tokens, max_body_bytes=1024)
    with httpx.Client(base_url=server.url, headers={"X-Api-Key": tokens[1]}, timeout=20) as other:
        with unfinished(server, tokens[0], [1000] * 20) as sockets:
            refused = select.select(sockets, [], [], 20)[0][0].recv(65_536).decode()
            assert refused.startswith(f"HTTP/1.1 {status}")
            assert {"retry-after: 5", "connection: close"} <= set(refused.lower().split("\r\n"))
            assert other.post("/threads", json={"metadata": {"a": "x" * 900}}).status_code == 200
        mine = {"X-Api-Key": tokens[0]}
        while (reply := other.post("/threads", json={}, headers=mine)).status_code == status:
            assert reply.headers["retry-after"] == "5"  # the server has not heard yet that they are gone
        assert reply.status_code == 200


def test_a_body_has_so_many_values(start_server: Callable[..., Any]) -> None:
    """A megabyte of empty lists, which takes a second to read, is refused before it is read; one of text is read."""
    with httpx.Client(base_url=start_server().url) as client:
        refused = client.post("/threads", json={"metadata": {"a": [[]] * 70_000}})
        assert (refused.status_code, "65536 values" in refused.text) == (400, True)
        assert "metadata have at most" in client.post("/threads", json={"metadata": {"a": "text " * 100_000}}).text


def test_half_a_body_disturbs_nobody(start_server: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    """Who leaves in the middle of a request is forgotten, and the next one is served."""
    server = start_server()
    host, _, port = server.url.removeprefix("http://").partition(":")
    for sent in (b"{", b"", b'{"thread_id": "half"}'):
        with socket.create_connection((host, int(port)), timeout=20) as gone:
            gone.sendall(b"POST /threads HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                         b"Content-Length: 100\r\n\r\n" + sent)  # fmt: skip
    with httpx.Client(base_url=server.url, timeout=30) as client:
        assert client.post("/threads/search", json={}).json() == []
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_who_reads_nothing_holds_up_nobody(start_server: Callable[..., Any]) -> None:
    """A client that asks for a stream and reads none of it neither stops its run nor anybody else's."""
    long = "word " * 40_000
    server = start_server(build_model=lambda spec: ScriptedModel([long, "no issues", "short", "no issues"]))
    host, _, port = server.url.removeprefix("http://").partition(":")
    body = json.dumps({**REFINE, "stream_mode": ["values", "updates"]}).encode()
    with httpx.Client(base_url=server.url, timeout=30) as client, socket.socket() as slow:
        client.post("/threads", json={"thread_id": "slow"})
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.settimeout(20)
        slow.connect((host, int(port)))
        slow.sendall(b"POST /threads/slow/runs/stream HTTP/1.1\r\nHost: localhost\r\n"
                     b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)  # fmt: skip
        assert slow.recv(12) == b"HTTP/1.1 200"
        run = client.get("/threads/slow/runs").json()[0]
        assert client.get(f"/threads/slow/runs/{run['run_id']}/join").json()["answer"] == long
        assert client.post("/runs/wait", json=REFINE).json()["answer"] == "short"


def test_pages_of_other_sites_are_refused(http: httpx.Client) -> None:
    """A page of another site, open in a browser here, can neither use the server nor read from it."""
    for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}, {"Origin": "null"}):
        reply = http.post("/threads", json={}, headers=headers)
        assert (reply.status_code, told(reply)["type"]) == (403, "forbidden")
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    preflight = http.request("OPTIONS", "/threads", headers=asked)
    assert preflight.status_code == 403
    assert not [name for name in preflight.headers if name.startswith("access-control")]
    own = str(http.base_url).rstrip("/")
    assert http.post("/threads", json={}, headers={"Origin": own}).status_code == 200


REFUSED: dict[str, Any] = {
    "more rounds": {"input": {**TASK, "limits": {"max_rounds": 6}}},
    "rounds that are none": {"input": {**TASK, "limits": {"max_rounds": "many"}}},
    "an unknown limit": {"input": {**TASK, "limits": {"rounds": 1}}},
    "limits that are none": {"input": {**TASK, "limits": [1]}},
    "a long task": {"input": {"task": "x" * 1001}},
    "long messages": {"input": {"messages": [{"role": "user", "content": "x" * 1001}]}},
    "a blank task": {"input": {"task": " \n"}},
    "a task that is a number": {"input": {"task": 7}},
    "no task": {"input": {}},
    "an input that is a text": {"input": "x"},
    "neither input nor thread": {"input": None},
    "more rounds by command": {"input": None, "command": {"update": {"limits": {"max_rounds": 6}}}},
    "a node that is none": {"input": None, "command": {"goto": "rm -rf"}},
    "a node many times": {"input": None, "command": {"goto": ["generate", "generate"]}},
    "a node with a state": {"input": None, "command": {"goto": {"node": "generate", "input": {"task": "x"}}}},
    "the first node": {"input": None, "command": {"goto": "prepare"}},
    "what only nodes write": {"input": None, "command": {"update": {"stop_reason": None}}},
    "a node of a graph without entries": {"assistant_id": "majority-5", "input": None, "command": {"goto": "x"}},
    "an empty command": {"input": None, "command": {}},
    "another model": {"config": {"configurable": {"model": "openai:gpt-5"}}},
    "a model that is a list": {"config": {"configurable": {"model": ["x"]}}},
    "steps without end": {"config": {"recursion_limit": 10**9}},
    "a webhook": {"webhook": "http://169.254.169.254/"},
    "stops at no node": {"interrupt_before": ["nothing"]},
    "no checkpoint": {"checkpoint": {"checkpoint_id": "../x"}},
    "a rollback of what it answers": {"multitask_strategy": "rollback", "input": None, "command": {"resume": "x"}},
}


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED.keys())
def test_no_caller_raises_a_limit(start_server: Callable[..., Any], talking: Any, change: dict[str, Any]) -> None:
    """What asks for more than the server allows, or makes no sense, is refused before a model is asked."""
    server = start_server(max_rounds=5, max_task_characters=1000)
    with httpx.Client(base_url=server.url) as client:
        path = "/threads/mine/runs/wait" if "multitask_strategy" in change else "/runs/wait"
        client.post("/threads", json={"thread_id": "mine"})
        reply = client.post(path, json={**REFINE, **change})
        assert (reply.status_code, told(reply)["type"]) == (422, "bad_request")
        state = client.post("/threads/mine/state", json={"values": {"limits": {"max_rounds": 6}}, "as_node": "check"})
        assert state.status_code == 422
        garbage = client.post("/threads/mine/state", json={"values": {"events": [{"x": 1}]}, "as_node": "check"})
        assert garbage.status_code == 422
    assert talking.model.calls == []


CHAT = '"model": "redraft-refine", "messages": [{"role": "user", "content": "x"}]'
HUGE = "1" + "0" * 400
NO_JSON_TYPES = [
    ("/threads/search", '{"limit": "5"}'),
    ("/threads/search", '{"limit": true}'),
    ("/threads/search", f'{{"limit": {HUGE}}}'),
    ("/runs/wait", '{"assistant_id": "refine", "input": {"task": "x"}, "stream_subgraphs": "true"}'),
    ("/runs/wait", '{"assistant_id": "refine", "input": {"task": "x", "limits": {"max_rounds": true}}}'),
    ("/runs/wait", '{"assistant_id": "refine", "input": {"task": "x", "limits": {"max_tokens": "5"}}}'),
    ("/runs/wait", f'{{"assistant_id": "refine", "input": {{"task": "x", "limits": {{"max_tokens": {HUGE}}}}}}}'),
    ("/runs/wait", f'{{"assistant_id": "refine", "input": {{"task": "x", "limits": {{"max_seconds": {HUGE}}}}}}}'),
    ("/runs/wait", '{"assistant_id": "refine", "input": {"task": "x"}, "config": {"recursion_limit": "9"}}'),
    ("/threads", f'{{"metadata": {{"n": {HUGE}}}}}'),
    ("/v1/chat/completions", '{"model": "redraft-refine", "messages": [{"role": "user", "content": "x"}], "n": "1"}'),
    (
        "/v1/chat/completions",
        '{"model": "redraft-refine", "messages": [{"role": "user", "content": "x"}], "stream": "true"}',
    ),
]


def test_json_types_are_taken_as_they_are(server: Any, talking: Any) -> None:
    """A text in the place of a number or of true and false is refused, and so is a number that nothing could hold."""
    with httpx.Client(base_url=server.url, headers={"Content-Type": "application/json"}) as client:
        for path, body in NO_JSON_TYPES:
            assert client.post(path, content=body).status_code in (400, 422), (path, body[:100])
        thread = client.post("/threads", json={}).json()["thread_id"]
        for query in (f"limit={HUGE}", f"offset={HUGE}", f"limit=-{HUGE}"):
            assert client.get(f"/threads/{thread}/runs?{query}").status_code in (200, 422)
    assert talking.model.calls == []


def test_fewer_rounds_than_the_usual_hold(start_server: Callable[..., Any], talking: Any) -> None:
    """A server that allows no revision makes none, though the caller says nothing of rounds."""
    server = start_server(max_rounds=0)
    with httpx.Client(base_url=server.url) as client:
        output = client.post("/runs/wait", json=REFINE).json()
    assert (output["answer"], output["stop_reason"], len(talking.model.calls)) == ("first draft", "max_rounds", 2)


async def test_a_full_queue_says_when_to_come_again(start_server: Callable[..., Any], talking: Any) -> None:
    """Past the bound a caller gets 429 and `Retry-After`; when runs have ended, there is room again."""
    server = start_server(max_concurrent_runs=1, queue_length=2)
    talking.gate.clear()
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as client:
        replies = await asyncio.gather(*(client.post("/runs", json=REFINE) for _ in range(8)))
        accepted = [reply.json() for reply in replies if reply.status_code == 200]
        refused = [reply for reply in replies if reply.status_code == 429]
        assert (len(accepted), len(refused)) == (3, 5)
        assert {told(reply)["type"] for reply in refused} == {"queue_full"}
        assert all(int(reply.headers["Retry-After"]) > 0 for reply in refused)
        assert (server.engine.queue.running, server.engine.records.waiting("")[0]) == (1, {"local": 2})
        talking.gate.set()
        for run in accepted:
            await client.get(f"/threads/{run['thread_id']}/runs/{run['run_id']}/join")
        assert (await client.post("/runs/wait", json=REFINE)).json()["answer"] == "second draft"


def test_a_run_has_its_time(start_server: Callable[..., Any]) -> None:
    """A run that takes too long is ended and says so; its thread goes on later where it stood."""
    slow = SlowOnce(["first draft", "no issues"])
    server = start_server(max_seconds_a_run=0.5, build_model=lambda spec: slow)
    with httpx.Client(base_url=server.url, timeout=30) as client:
        client.post("/threads", json={"thread_id": "slow"})
        output = client.post("/threads/slow/runs/wait", json=REFINE).json()
        assert output == {"__error__": {"error": "RunTimeoutError", "message": "the run took longer than 0.5 s"}}
        assert client.get("/threads/slow").json()["status"] == "error"
        assert client.get("/threads/slow/runs").json()[0]["status"] == "timeout"
        again = client.post("/threads/slow/runs/wait", json={"assistant_id": "refine"}).json()
    assert again["answer"] == "first draft"


class SlowOnce(ScriptedModel):
    """Never answers its first call."""

    stuck: bool = True

    async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
        if self.stuck:
            self.stuck = False
            await asyncio.Event().wait()
        return await super()._agenerate(*args, **kwargs)


def test_errors_keep_secrets(start_server: Callable[..., Any]) -> None:
    """What a model's error says, which may hold a key and a path, reaches no caller in error or record."""
    secret = "Incorrect API key sk-secret-123456 in /home/me/.env for: Write about"
    error = RuntimeError(secret)
    model = ScriptedModel([error, "first draft", error])
    server = start_server(build_model=lambda spec: model)
    with httpx.Client(base_url=server.url, timeout=30) as client:
        first = client.post("/runs/wait", json=REFINE)
        assert first.json()["__error__"]["error"] == "RuntimeError"
        client.post("/threads", json={"thread_id": "two"})
        second = client.post(
            "/threads/two/runs/stream", json={**REFINE, "stream_mode": ["values", "updates", "custom"]}
        )
        state, past = client.get("/threads/two/state"), client.post("/threads/two/history", json={"limit": 100})
    assert json.loads(state.text)["values"]["stop_reason"] == "failed"
    for reply in (first, second, state, past):
        assert "sk-secret" not in reply.text
        assert "/home/me" not in reply.text


async def test_who_hangs_up_disturbs_nobody(server: Any, talking: Any) -> None:
    """A client that goes away in mid-stream leaves the run going, or ends it where it asked for that."""
    talking.gate.clear()
    async with get_client(url=server.url) as client, httpx.AsyncClient(base_url=server.url) as other:
        for name, on_disconnect, status in (("a", "continue", "success"), ("b", "cancel", "interrupted")):
            await client.threads.create(thread_id=name)
            body = {**REFINE, "on_disconnect": on_disconnect}
            async with other.stream("POST", f"/threads/{name}/runs/stream", json=body) as reply:
                async for line in reply.aiter_lines():
                    if line.startswith("event: metadata"):
                        break
            run = (await client.runs.list(name))[0]
            if on_disconnect == "continue":
                talking.gate.set()
            await client.runs.join(name, run["run_id"])
            assert (await client.runs.get(name, run["run_id"]))["status"] == status
            talking.gate.clear()
        talking.gate.set()


@pytest.mark.parametrize("path", ["state", "history", ""])
def test_a_thread_with_values_of_wrong_types_is_refused(
    start_server: Callable[..., Any], tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    """Callers are told that it is refused, the log says why; a run on it fails, and other threads are served."""
    served = start_server(db=str(tmp_path / "runs.sqlite"))
    with httpx.Client(base_url=served.url, timeout=30) as http:
        bad, good = (http.post("/threads", json={}).json()["thread_id"] for _ in "12")
        run = {"assistant_id": "refine", "input": {"task": "write"}}
        for thread in (bad, good):
            assert http.post(f"/threads/{thread}/runs/wait", json=run).json()["answer"] == "second draft"
        saver = served.engine.saver
        last = saver.get_tuple({"configurable": {"thread_id": bad}})
        values = {**last.checkpoint["channel_values"], "score": "very secret"}
        checkpoint = {**last.checkpoint, "channel_values": values}
        place = {"configurable": {"thread_id": bad, "checkpoint_ns": ""}}
        saver.put(place, checkpoint, {"source": "loop", "step": 9, "parents": {}}, {})
        shown = http.get(f"/threads/{bad}/{path}".rstrip("/"))
        if path:
            assert shown.status_code == 500
            assert shown.json()["error"]["type"] == "bad_checkpoint"
        assert "secret" not in shown.text
        failed = http.post(f"/threads/{bad}/runs/wait", json=run)
        assert "__error__" in failed.json()
        assert "secret" not in failed.text
        assert http.get(f"/threads/{good}/state").json()["values"]["answer"] == "second draft"
    assert f"thread '{bad}'" in caplog.text
    assert "its channel 'score' holds 'very secret', which should be a valid number" in caplog.text
