"""Each method of LangGraph's client works against the server, or says in a sentence that it isn't served."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.errors import NotFoundError, RateLimitError, UnprocessableEntityError
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.nodes import human_critic
from redraft.server.app import NOT_SERVED
from redraft.state import Thread

TASK = {"task": "Write about autumn."}
PAGE = Path(__file__).parents[2] / "docs" / "serving.md"


@pytest.fixture
def client(server: Any) -> Iterator[Any]:
    with get_sync_client(url=server.url) as client:
        yield client


def under_way(client: Any, run: Any) -> str:
    return str(client.runs.get(run["thread_id"], run["run_id"])["status"])


def test_many_runs_are_cancelled_at_once(client: Any, talking: Any) -> None:
    """Runs are cancelled by their ids, or all that wait or run, on one thread or on every one; the ended stay as they
    are."""
    ended = client.runs.create(None, "refine", input=TASK, on_completion="keep")
    client.runs.join(ended["thread_id"], ended["run_id"])
    talking.gate.clear()
    names = [client.threads.create(thread_id=name)["thread_id"] for name in ("a", "b")]
    first, second, third = (client.runs.create(name, "refine", input=TASK) for name in ("a", "a", "b"))
    while under_way(client, first) == "pending" or under_way(client, third) == "pending":
        pass
    with pytest.raises(NotFoundError):
        client.runs.cancel_many(run_ids=[first["run_id"], "nothing"])
    with pytest.raises(NotFoundError):
        client.runs.cancel_many(thread_id="b", run_ids=[first["run_id"]])
    with pytest.raises(UnprocessableEntityError, match="run_ids, or by status"):
        client.runs.cancel_many(thread_id="a")
    with pytest.raises(UnprocessableEntityError, match="action is interrupt"):
        client.runs.cancel_many(status="all", action="rollback")
    assert [under_way(client, run) for run in (first, second, third)] == ["running", "pending", "running"]
    client.runs.cancel_many(status="pending")
    assert [under_way(client, run) for run in (first, second, third)] == ["running", "interrupted", "running"]
    client.runs.cancel_many(thread_id="b", status="all")
    assert [under_way(client, run) for run in (first, third)] == ["running", "interrupted"]
    client.runs.cancel_many(run_ids=[first["run_id"], ended["run_id"]])
    assert [under_way(client, run) for run in (first, ended)] == ["interrupted", "success"]
    client.runs.cancel_many(status="all")
    talking.gate.set()
    assert [client.threads.get(name)["status"] for name in names] == ["interrupted", "interrupted"]


def test_nobody_cancels_the_runs_of_another(start_server: Any, talking: Any, tokens: Any) -> None:
    """Who asks for all runs to be cancelled means their own; those of another caller go on."""
    server = start_server(tokens=tokens)
    talking.gate.clear()
    with get_sync_client(url=server.url, api_key=tokens[0]) as mine, get_sync_client(
        url=server.url, api_key=tokens[1]
    ) as theirs:  # fmt: skip
        run = mine.runs.create(None, "refine", input=TASK, on_completion="keep")
        theirs.runs.cancel_many(status="all")
        with pytest.raises(NotFoundError):
            theirs.runs.cancel_many(run_ids=[run["run_id"]])
        assert theirs.threads.prune([run["thread_id"]]) == {"pruned_count": 0}
        talking.gate.set()
        assert mine.runs.join(run["thread_id"], run["run_id"])["answer"] == "second draft"


def test_a_batch_runs_whole_or_not_at_all(start_server: Any, talking: Any) -> None:
    """Runs are asked for together; where one can't be, none of them is made."""
    server = start_server(max_concurrent_runs=1, queue_length=2)
    with get_sync_client(url=server.url) as client:
        one = {"assistant_id": "refine", "input": TASK, "on_completion": "keep"}
        runs = client.runs.create_batch([one, one, one])
        assert [client.runs.join(run["thread_id"], run["run_id"])["answer"] for run in runs] == ["second draft"] * 3
        calls = len(talking.model.calls)
        talking.gate.clear()
        with pytest.raises(UnprocessableEntityError, match="task"):
            client.runs.create_batch([one, {**one, "input": {"tusk": ""}}])
        with pytest.raises(RateLimitError):
            client.runs.create_batch([one] * 4)
        assert (server.engine.queue.running, server.engine.records.waiting("")[0]) == (0, {})
        assert client.threads.count() == 3
        talking.gate.set()
        assert len(talking.model.calls) <= calls + 2  # those that had begun
        assert httpx.post(f"{server.url}/runs/batch", json=[]).status_code == 422
        assert httpx.post(f"{server.url}/runs/batch", json=[one] * 101).status_code == 422


def test_threads_are_found_by_what_they_are(client: Any) -> None:
    """Threads are searched by id, status, metadata and assistant, in any order, page by page and field by field."""
    for name, colour in (("c", "red"), ("a", "blue"), ("b", "red")):
        client.threads.create(thread_id=name, metadata={"colour": colour})
    client.runs.wait("a", "refine-with-a-person", input=TASK)

    def found(**wanted: Any) -> list[str]:
        return [one["thread_id"] for one in client.threads.search(**wanted)]

    assert found() == ["b", "a", "c"]
    assert found(sort_by="thread_id", sort_order="asc") == ["a", "b", "c"]
    assert found(sort_by="updated_at", sort_order="desc", limit=1) == ["a"]
    assert found(metadata={"colour": "red"}, limit=1, offset=1) == ["c"]
    assert found(status="interrupted") == found(metadata={"graph_id": "refine-with-a-person"}) == ["a"]
    assert found(ids=["a", "c", "nothing"]) == ["a", "c"]
    assert client.threads.search(ids=["a"], select=["thread_id", "status"]) == [
        {"thread_id": "a", "status": "interrupted"}
    ]
    assert client.threads.count(metadata={"colour": "red"}) == 2
    assert client.threads.count(status="interrupted") == 1
    assert client.threads.prune(["a", "b", "b", "nothing"]) == {"pruned_count": 2}
    assert found() == ["c"]


def test_a_thread_that_asks_at_the_shell_is_found_as_waiting(server: Any, client: Any) -> None:
    """Whoever lists what waits for a person also sees what the shell or Python left waiting, and not among the idle."""
    for name, critics in (("asks", [human_critic()]), ("done", [])):
        graph: Any = build_refine_graph(
            ScriptedModel(["a draft", "no issues"]), critics=critics, checkpointer=server.engine.saver
        )
        graph.invoke({**TASK, "limits": {"max_rounds": 0}}, {"configurable": {"thread_id": name}})
    ids = [[one["thread_id"] for one in client.threads.search(status=one)] for one in ("interrupted", "idle")]
    assert ids == [["asks"], ["done"]]
    assert [client.threads.count(status=one) for one in ("interrupted", "idle", None)] == [1, 1, 2]


def test_a_thread_that_was_answered_at_the_shell_waits_no_more(server: Any, client: Any) -> None:
    """What asked a person over HTTP and was answered in Python or at the shell is idle for whoever lists or gets it."""
    run = client.runs.create("t", "refine-with-a-person", input=TASK, if_not_exists="create")
    client.runs.join("t", run["run_id"])
    assert client.threads.get("t")["status"] == "interrupted"
    graph: Any = build_refine_graph(
        ScriptedModel(["no issues"]), critics=[human_critic()], checkpointer=server.engine.saver
    )
    thread = Thread(graph, "t")
    thread.resume(allow_changes=True)
    thread.answer(accept=True)
    assert [client.threads.count(status=one) for one in ("interrupted", "idle")] == [0, 1]
    assert client.threads.get("t")["status"] == "idle"


def test_runs_and_assistants_are_shown_in_parts(client: Any) -> None:
    """Lists of runs and assistants hold the fields that were asked for; an assistant has one version."""
    client.threads.create(thread_id="a")
    run = client.runs.create("a", "zero-shot", input=TASK)
    client.runs.join("a", run["run_id"])
    assert client.runs.list("a", select=["run_id", "status"]) == [{"run_id": run["run_id"], "status": "success"}]
    assert client.runs.list("a", status="error") == []
    names = client.assistants.search(select=["name"], sort_by="name", sort_order="desc", limit=2)
    assert [one["name"] for one in names] == ["zero-shot", "writing"]
    assert client.assistants.search(response_format="object", limit=1).keys() == {"assistants", "next"}
    assert [one["version"] for one in client.assistants.get_versions("refine")] == [1]
    assert client.assistants.get_subgraphs("refine") == {}
    with pytest.raises(NotFoundError, match="no such subgraph"):
        client.assistants.get_subgraphs("refine", namespace="nothing")
    with pytest.raises(NotFoundError):
        client.assistants.get_versions("nothing")
    assert client.assistants.count(name="few") == 1


REFUSED = {
    "threads.create with ttl": lambda client: client.threads.create(ttl=5),
    "threads.create with supersteps": lambda client: client.threads.create(
        supersteps=[{"updates": [{"values": {}, "as_node": "check"}]}]
    ),
    "threads.update with ttl": lambda client: client.threads.update("a", metadata={}, ttl=5),
    "threads.search by values": lambda client: client.threads.search(values={"answer": "x"}),
    "threads.search with extract": lambda client: client.threads.search(extract={"a": "values.answer"}),
    "threads.prune to the latest": lambda client: client.threads.prune(["a"], strategy="keep_latest"),
    "runs with a context": lambda client: client.runs.create("a", "refine", input=TASK, context={"user": "me"}),
    "runs much later": lambda client: client.runs.create("a", "refine", input=TASK, after_seconds=10**9),
    "runs with a webhook here": lambda client: client.runs.create(
        "a", "refine", input=TASK, webhook="http://127.0.0.1"
    ),
    "runs that roll back": lambda client: client.runs.cancel("a", "x", action="rollback"),
}


@pytest.mark.parametrize("ask", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_served_is_refused(client: Any, talking: Any, ask: Any) -> None:
    """An option that the server doesn't have is refused with a sentence, never left out in silence."""
    with pytest.raises(UnprocessableEntityError) as refused:
        ask(client)
    assert len(str(refused.value)) > 20
    assert talking.model.calls == []


ABSENT = {
    "crons.create": lambda client: client.crons.create("refine", schedule="* * * * *", input=TASK),
    "crons.create_for_thread": lambda client: client.crons.create_for_thread("a", "refine", schedule="* * * * *"),
    "crons.update": lambda client: client.crons.update("a", schedule="* * * * *"),
    "crons.delete": lambda client: client.crons.delete("a"),
    "crons.search": lambda client: client.crons.search(),
    "crons.count": lambda client: client.crons.count(),
}


@pytest.mark.parametrize("ask", ABSENT.values(), ids=ABSENT.keys())
def test_methods_that_are_not_served_say_so(client: Any, ask: Any) -> None:
    """A method that the server doesn't have raises the client's own error, with what to do instead."""
    with pytest.raises(NotFoundError) as refused:
        ask(client)
    assert any(told in str(refused.value) for told in NOT_SERVED.values())


def test_every_path_that_is_not_served_says_so(server: Any) -> None:
    """So does each path that the client could use, to whatever else speaks to it."""
    with httpx.Client(base_url=server.url) as http:
        for (method, path), told in NOT_SERVED.items():
            error = http.request(method, path.replace("{", "").replace("}", "")).json()["error"]
            assert (error["type"], error["message"]) == ("not_served", told)


def test_the_page_names_every_method(client: Any) -> None:
    """`docs/serving.md` says of each method of the client whether it is served."""
    page = PAGE.read_text(encoding="utf-8")
    for part in ("assistants", "threads", "runs", "crons", "store"):
        for name, _ in inspect.getmembers(getattr(client, part), inspect.ismethod):
            assert name.startswith("_") or f"`{part}.{name}`" in page, f"{part}.{name}"
    for name in ABSENT:
        line = next(line for line in page.splitlines() if f"`{name}`" in line)
        assert "no:" in line, name


def test_the_page_names_every_operation(server: Any) -> None:
    """`docs/serving.md` says of each operation of the platform whether it is served, and so it is."""
    served = {(method.upper(), path) for path, told in server.app.openapi()["paths"].items() for method in told}
    served |= {("GET", path) for path in ("/docs", "/metrics")}
    told: dict[str, set[tuple[str, str]]] = {}
    for row in re.findall(r"^\| (`/.*`) \| ([A-Z, ]+) \| (\w+).*\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
        paths, methods, answer = re.findall("`(.*?)`", row[0]), row[1].split(", "), row[2]
        told.setdefault(answer, set()).update((method, path) for method in methods for path in paths)
    assert sum(map(len, told.values())) == 64
    assert told["yes"] <= served
    assert told["no"] == NOT_SERVED.keys()
    assert f"{len(told['yes']) + len(told['with'])} are served" in PAGE.read_text(encoding="utf-8")
