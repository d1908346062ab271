"""What a server lets a run and a caller use holds whatever the graph, the process or the number of servers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from langgraph_sdk import get_sync_client
from redraft.graphs import build_majority_graph
from redraft.models import PriceTable, ScriptedModel
from redraft.nodes.runtime.call_ceiling import under_ceiling
from redraft.nodes.runtime.meter import BudgetSpentError
from redraft.server import Settings
from redraft.server.engine.assistants import assistants_of
from redraft.server.engine.ceilings import Ceilings
from redraft.server.engine.records import Database
from redraft.server.engine.runs import Caller, Run
from redraft.state import open_checkpointer
from redraft.state.summary import usage_total

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REFINE = {"assistant_id": "refine", "input": {"task": "Write."}}
PIPELINES = {"essay": "UseThinking | UseDraft | UseRefinementLoop('3')"}
ASSISTANTS = sorted(assistants_of(Settings(db="memory", pipelines=PIPELINES)))


def numbers(text: str, name: str) -> float:
    """The sum of a metric over its labels."""
    lines = [line for line in text.splitlines() if line.startswith(f"redraft_{name}{{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


class CallingModel(ScriptedModel):
    """A scripted model that is offered tools, and uses none."""

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


@pytest.fixture
def limited(start_server: Callable[..., Any], talking: Any) -> Any:
    """A server that allows a run two calls."""
    talking.model = CallingModel([talking.reply] * 500)
    return start_server(max_calls_a_run=2, pipelines=PIPELINES)


def test_no_graph_makes_more_calls_than_a_server_allows(limited: Any, talking: Any) -> None:
    """Of every assistant a run makes two calls at most, says that it was stopped for that, and all are counted."""
    told = {}
    with httpx.Client(base_url=limited.url, timeout=60) as client:
        for name in ASSISTANTS:
            before = len(talking.model.calls)
            given = {"task": "assert add(1, 2) == 3" if name == "code" else "Write."}
            output = client.post("/runs/wait", json={"assistant_id": name, "input": given}).json()
            made = len(talking.model.calls) - before
            assert made <= 2, name
            told[name] = (made, output.get("stop_reason") or output.get("__error__", {}).get("error"))
        for name in ("refine", "essay", "majority-5", "agent", "travel"):
            assert told[name] == (2, "call_budget"), told
        assert numbers(client.get("/metrics").text, "model_calls_total") == len(talking.model.calls)


def test_a_call_that_is_cancelled_is_counted(served: Callable[..., Any], held: Any) -> None:
    """Who cancels a run in the middle of a call has made that call: it stands in the metrics and in the quota."""
    with held() as (model, asked), httpx.Client(timeout=60) as client:
        url, _ = served(model, max_calls_a_day=1)
        run = client.post(f"{url}/runs", json={**REFINE, "on_completion": "keep"}).json()
        assert asked.wait(20)
        of_run = f"{url}/threads/{run['thread_id']}/runs/{run['run_id']}"
        assert client.post(f"{of_run}/cancel").status_code == 204
        assert client.get(of_run).json()["status"] == "interrupted"
        assert numbers(client.get(f"{url}/metrics").text, "model_calls_total") == len(model.calls) == 1
        assert client.post(f"{url}/runs", json=REFINE).status_code == 429


def test_a_run_that_was_stopped_for_its_calls_goes_on(limited: Any, talking: Any) -> None:
    """A thread whose run was allowed no more calls goes on where it stopped when it is asked to; none is paid twice."""
    with get_sync_client(url=limited.url) as client:
        name = client.threads.create()["thread_id"]
        assert client.runs.wait(name, "refine", input={"task": "Write."})["stop_reason"] == "call_budget"
        output = client.runs.wait(name, "refine", input=None)
    assert (output["answer"], output["stop_reason"], output["usage"]["calls"]) == ("second draft", "accepted", 4)
    assert len(talking.model.calls) == 4


@pytest.mark.parametrize("ceiling", [{"max_tokens_a_run": 1}, {"max_cost_usd_a_run": 0.01}])
def test_tokens_and_dollars_of_a_run(start_server: Callable[..., Any], talking: Any, ceiling: Any) -> None:
    """Past its tokens, or its dollars, a price that nobody knows among them, a run begins no further call."""
    server = start_server(**ceiling)
    with httpx.Client(base_url=server.url) as client:
        output = client.post("/runs/wait", json=REFINE).json()
    reason = "token_budget" if "max_tokens_a_run" in ceiling else "cost_budget"
    assert (output["answer"], output["stop_reason"], len(talking.model.calls)) == ("first draft", reason, 1)


@pytest.mark.parametrize("told", [-1000, 10**400, True])
def test_tokens_that_are_none_buy_no_calls(start_server: Callable[..., Any], talking: Any, told: Any) -> None:
    """A provider that reports fewer tokens than none, or more than there can be, is one that reports none."""

    class Telling(ScriptedModel):
        def _generate(self, *given: Any, **named: Any) -> Any:
            result = super()._generate(*given, **named)
            usage = {"input_tokens": told, "output_tokens": 1, "total_tokens": told}
            result.generations[0].message.usage_metadata = usage
            return result

    talking.model = Telling([talking.reply] * 500)
    server = start_server(max_tokens_a_run=1000)
    with httpx.Client(base_url=server.url) as client:
        output = client.post("/runs/wait", json=REFINE).json()
    assert (output["answer"], output["stop_reason"]) == ("first draft", "token_budget")
    assert (output["usage"]["total_tokens"], output["usage"]["uncounted_calls"]) == (0, 1)


async def test_what_a_run_used_outlives_its_server() -> None:
    """A run that another server goes on with may make the calls that are left, in whatever code makes them."""
    model = ScriptedModel(["a reply"] * 3)
    run = Run("r", "t", "refine", Caller("local"), "")
    with open_checkpointer("memory") as saver:
        settings = Settings(db="memory", max_calls_a_run=2)
        database = Database(saver)
        ceilings = Ceilings(settings, database, PriceTable())
        with under_ceiling(await ceilings.of_run(run)):
            await model.ainvoke("x")
        run.attempts = 2
        with under_ceiling(await ceilings.of_run(run)):
            model.invoke("x")
            with pytest.raises(BudgetSpentError, match="the call budget is spent"):
                await model.ainvoke("x")
        database.close()
    assert len(model.calls) == 2


async def test_calls_that_are_under_way_beside_a_refused_one_are_counted() -> None:
    """A step whose third call is refused waits for the two that were made: the run and its record count both."""

    class Slow(ScriptedModel):
        async def _agenerate(self, *given: Any, **named: Any) -> Any:
            result = self._generate(*given, **named)
            await asyncio.sleep(0.2)
            return result

    model = Slow(["#### 4"] * 5)
    run = Run("r", "t", "majority-5", Caller("local"), "")
    with open_checkpointer("memory") as saver:
        database = Database(saver)
        ceiling = await Ceilings(Settings(db="memory", max_calls_a_run=2), database, PriceTable()).of_run(run)
        with under_ceiling(ceiling):
            output = await build_majority_graph(model).ainvoke({"task": "What is 2 + 2?"})
        database.close()
    assert output["stop_reason"] == "call_budget"
    assert (len(model.calls), ceiling.used["calls"], usage_total(output["events"])["calls"]) == (2, 2, 2)


@pytest.fixture(params=["sqlite", "postgres"])
def db(request: Any, tmp_path: Path) -> str:
    """A database that two servers can have open."""
    return request.getfixturevalue("postgres_url") if request.param == "postgres" else str(tmp_path / "runs.sqlite")


def test_a_quota_is_one_for_all_servers(
    start_server: Callable[..., Any], talking: Any, tokens: tuple[str, str], db: str
) -> None:
    """What a caller used today counts on a second server of the database and after a restart; another has their own."""
    shared = {"db": db, "tokens": tokens, "max_tokens_a_day": 5}
    first, second = start_server(**shared), start_server(**shared)
    mine, others = ({"X-Api-Key": token} for token in tokens)
    output = httpx.post(f"{first.url}/runs/wait", json=REFINE, headers=mine, timeout=60).json()
    assert output["stop_reason"] == "quota"
    calls = len(talking.model.calls)
    first.stop()
    for server in (second, start_server(**shared)):
        refused = httpx.post(f"{server.url}/runs/wait", json=REFINE, headers=mine)
        assert (refused.status_code, refused.json()["error"]["type"]) == (429, "quota_spent")
        assert "renews at 20" in refused.json()["error"]["message"]
        assert 0 < int(refused.headers["Retry-After"]) <= 86_401
    chat = {"model": "redraft-refine", "messages": [{"role": "user", "content": "Write."}]}
    refused = httpx.post(f"{second.url}/v1/chat/completions", json=chat, headers=mine)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "insufficient_quota")
    assert refused.headers["x-should-retry"] == "false"
    assert len(talking.model.calls) == calls
    assert httpx.post(f"{second.url}/runs/wait", json=REFINE, headers=others, timeout=60).status_code == 200
    assert len(talking.model.calls) > calls


def test_nobody_reads_the_numbers_of_others(start_server: Callable[..., Any], tokens: tuple[str, str]) -> None:
    """A caller's metrics are of their own runs; the operator's token reads those of all, and nothing else."""
    operator = "operator-0123456789"
    server = start_server(tokens=tokens, metrics_tokens=(operator,))
    with httpx.Client(base_url=server.url, timeout=60) as client:
        client.post("/runs/wait", json=REFINE, headers={"X-Api-Key": tokens[0]})
        read = [client.get("/metrics", headers={"X-Api-Key": token}).text for token in (*tokens, operator)]
        assert [numbers(text, "model_calls_total") for text in read] == [4, 0, 4]
        assert ["redraft_queue_length" in text for text in read] == [False, False, True]
        assert client.post("/runs/wait", json=REFINE, headers={"X-Api-Key": operator}).status_code == 403
        assert client.get("/metrics").status_code == 401


def test_browsers_keep_answers_to_this_site(start_server: Callable[..., Any], tokens: tuple[str, str]) -> None:
    """Every answer, refusals too, says that it is what its type says, and for no page of another site."""
    server = start_server(tokens=tokens)
    for path in ("/healthz", "/threads/x", "/metrics", "/nothing", "/openapi.json"):
        for headers in ({}, {"X-Api-Key": tokens[0]}):
            reply = httpx.get(f"{server.url}{path}", headers=headers)
            found = [reply.headers[name] for name in ("x-content-type-options", "cross-origin-resource-policy")]
            assert found == ["nosniff", "same-origin"], path
