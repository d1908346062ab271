"""Calls collected into batches, by a real server that speaks the interfaces of OpenAI and Anthropic."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest
from langchain_core.language_models import BaseChatModel
from redraft.models import PriceTable, ScriptedModel, chat_model
from redraft.models.batches import CALL, Batches
from redraft.nodes.runtime.meter import Meter

KINDS = ("openai", "anthropic")


def told(body: dict[str, Any]) -> str:
    """Say again what the last message says."""
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else content[0]["text"]


@pytest.fixture
def model_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., BaseChatModel]:
    def build(server: Any, kind: str, **options: Any) -> BaseChatModel:
        if kind == "openai":
            return chat_model(server.spec, **options)
        pytest.importorskip("langchain_anthropic")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.root)
        return chat_model("anthropic:claude-of-tests", **options)

    return build


def quick(path: Path, said: list[str] | None = None, **options: Any) -> Batches:
    tell = (lambda _: None) if said is None else said.append
    return Batches(path / "batches.jsonl", tell=tell, **{"quiet_s": 0.3, "poll_s": 0.01, **options})


async def asked(model: BaseChatModel, call: str, text: str) -> Any:
    CALL.set(call)  # of this task alone, as a node's journal sets it
    return await model.ainvoke(text)


@pytest.mark.one_of_each
@pytest.mark.parametrize("kind", KINDS)
async def test_calls_go_out_together_and_cost_half(model_of: Any, batch_server: Any, tmp_path: Path, kind: str) -> None:
    """Ten runs that ask at once make one batch; each gets its own reply, in no order, and half the price is counted."""
    said: list[str] = []
    with batch_server(told) as server, quick(tmp_path, said):
        model = model_of(server, kind)
        replies = await asyncio.gather(*(asked(model, f"run {n}", f"question\u2028{n}") for n in range(10)))
    assert [reply.content for reply in replies] == [f"question\u2028{n}" for n in range(10)]
    assert [len(batch["calls"]) for batch in server.batches] == [10]
    assert not server.singles
    assert "10 calls in a batch, which may take a day" in said[0]
    assert "has ended" in said[-1]
    prices = PriceTable(
        {name: {"input_per_mtok": 1.0, "output_per_mtok": 5.0} for name in ("test-model", "claude-of-tests")}
    )
    meter = Meter(prices)
    meter.count(replies[0])
    assert meter.usage(seconds=0.0)["cost_usd"] == pytest.approx((10 * 1.0 + 2 * 5.0) / 1e6 / 2)


@pytest.mark.one_of_each
@pytest.mark.parametrize("kind", KINDS)
async def test_equal_questions_of_two_calls_get_two_replies(
    model_of: Any, batch_server: Any, tmp_path: Path, kind: str
) -> None:
    """Samples of one prompt are as many calls as they are, whether their runs say who asks or not."""
    with batch_server(told) as server, quick(tmp_path):
        model = model_of(server, kind)
        await asyncio.gather(*(asked(model, call, "again") for call in ("a.1", "a.2", "", "")))
        await asyncio.gather(*(asked(model, call, "again") for call in ("a.1", "")))
    assert [len(batch["calls"]) for batch in server.batches] == [4, 2]
    assert len({call for batch in server.batches for call in batch["calls"]}) == 6


@pytest.mark.one_of_each
@pytest.mark.parametrize("kind", KINDS)
async def test_what_a_batch_leaves_out_is_asked_singly_or_fails_by_name(
    model_of: Any, batch_server: Any, tmp_path: Path, kind: str
) -> None:
    """A call that expired, or met a server's error, goes out by itself at the whole price; a refused one says why."""
    in_batch = {
        "expired": {"expire": True},
        "error": {"status": 500},
        "busy": {"status": 529 if kind == "anthropic" else 503},
    }

    def answer(body: dict[str, Any]) -> Any:
        if told(body) == "wrong":
            return {"status": 400, "message": "max_tokens is too large"}
        # By itself, a call comes when the batch has ended.
        alone = any(single == body for single in server.singles)
        return told(body) if alone else in_batch.get(told(body), told(body))

    with batch_server(answer) as server, quick(tmp_path):
        model = model_of(server, kind)
        names = ("right", "expired", "error", "busy", "wrong")
        right, expired, error, busy, wrong = await asyncio.gather(
            *(asked(model, name, name) for name in names), return_exceptions=True
        )
    assert [reply.content for reply in (right, expired, error, busy)] == ["right", "expired", "error", "busy"]
    assert "max_tokens is too large" in str(wrong)
    assert sorted(map(told, server.singles)) == ["busy", "error", "expired"]
    assert len(server.batches) == 1
    tiers = [
        json.dumps(reply.response_metadata, default=str).count('"batch"') for reply in (right, expired, error, busy)
    ]
    assert tiers == [1, 0, 0, 0]


async def test_a_batch_that_is_refused_as_a_whole_says_why(model_of: Any, batch_server: Any, tmp_path: Path) -> None:
    """Over the account's limit, every call fails with the provider's words, and none goes out at the whole price."""
    with batch_server(told, refuse="Enqueued token limit reached") as server, quick(tmp_path):
        model = model_of(server, "openai")
        failed = await asyncio.gather(*(asked(model, "c", str(n)) for n in range(3)), return_exceptions=True)
    assert all(isinstance(error, openai.BadRequestError) for error in failed), failed
    assert "Enqueued token limit reached" in str(failed[0])
    assert not server.singles


@pytest.mark.one_of_each("lost")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lost", ["before", "after"])
async def test_a_connection_lost_while_submitting_submits_nothing_twice(
    model_of: Any, batch_server: Any, tmp_path: Path, kind: str, lost: str
) -> None:
    """Whether the batch had come there is looked up before it is sent again."""
    said: list[str] = []
    with batch_server(told) as server, quick(tmp_path, said):
        server.lose.append(lost)
        model = model_of(server, kind)
        replies = await asyncio.gather(*(asked(model, "c", str(n)) for n in range(3)))
    assert [reply.content for reply in replies] == ["0", "1", "2"]
    assert len(server.batches) == 1
    assert "Connection error" in said[0]


@pytest.mark.one_of_each("killed")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "killed", ["under way", "before its id was noted", "while its id was written", "before it came"]
)
async def test_a_process_that_ended_goes_on_with_its_batch(
    model_of: Any, batch_server: Any, tmp_path: Path, kind: str, killed: str
) -> None:
    """The same calls of another process wait for the batch that was submitted, wherever the first was killed."""
    with batch_server(told, looks=1_000_000) as server:
        with quick(tmp_path):
            model = model_of(server, kind)
            first = asyncio.gather(*(asked(model, f"run {n}", "same") for n in range(3)))
            while not first.done() and not (server.batches and server.batches[0]["looks"]):  # noqa: ASYNC110
                await asyncio.sleep(0)
        first.cancel()
        path = tmp_path / "batches.jsonl"
        intent, submitted = path.read_text().splitlines()
        assert "same" not in intent, "a prompt stands in the file"
        if killed == "before its id was noted":
            path.write_text(intent + "\n")
        elif killed == "while its id was written":
            path.write_text(intent + "\n" + submitted[:20])
        elif killed == "before it came":
            path.write_text(intent + "\n")
            server.batches.clear()
        server.looks = 1
        with quick(tmp_path):
            model = model_of(server, kind)
            # One more than before: it makes a batch of its own.
            replies = await asyncio.gather(*(asked(model, f"run {n}", "same") for n in range(4)))
    assert [reply.content for reply in replies] == ["same"] * 4
    sizes = [len(batch["calls"]) for batch in server.batches]
    assert sizes == ([4] if killed == "before it came" else [3, 1])
    calls = [call for batch in server.batches for call in batch["calls"]]
    assert len(set(calls)) == 4


@pytest.mark.slow
async def test_a_batch_that_is_gone_is_made_anew(model_of: Any, batch_server: Any, tmp_path: Path) -> None:
    """A provider keeps replies for a month; who resumes later pays for those that no run has kept, and is told."""
    said: list[str] = []
    with batch_server(told) as server:
        for _ in range(2):
            with quick(tmp_path, said):
                assert (await asked(model_of(server, "openai"), "c", "q")).content == "q"
            server.batches.clear()
    assert any("no longer there" in line for line in said)


async def test_calls_that_nobody_waits_for_are_not_submitted(model_of: Any, batch_server: Any, tmp_path: Path) -> None:
    """Interrupted while calls are collected, nothing is paid; asked again, they are the same calls."""
    with batch_server(told) as server, quick(tmp_path, quiet_s=0.3):
        model = model_of(server, "openai")
        early = asyncio.create_task(asked(model, "c", "q"))
        while not early.done() and not asyncio.current_task().cancelling():  # type: ignore[union-attr]
            await asyncio.sleep(0.05)
            early.cancel()
        kept = await asyncio.gather(*(asked(model, "c", text) for text in ("q", "r")))
    assert [reply.content for reply in kept] == ["q", "r"]
    assert [sorted(map(told, batch["calls"].values())) for batch in server.batches] == [["q", "r"]]


@pytest.mark.slow
async def test_a_batch_has_a_largest_size(model_of: Any, batch_server: Any, tmp_path: Path) -> None:
    """Providers take so many calls at once; what is more goes into the next batch."""
    with batch_server(told) as server, quick(tmp_path, most_calls=4):
        model = model_of(server, "openai")
        await asyncio.gather(*(asked(model, "c", str(n)) for n in range(10)))
    sizes = [len(batch["calls"]) for batch in server.batches]
    assert (max(sizes), sum(sizes)) == (4, 10)


async def test_models_that_block_are_collected_too(model_of: Any, batch_server: Any, tmp_path: Path) -> None:
    """A node that is a plain function calls `invoke`; from several threads, those calls make one batch."""
    with batch_server(told) as server, quick(tmp_path):
        model = model_of(server, "openai")
        replies = await asyncio.gather(*(asyncio.to_thread(model.invoke, str(n)) for n in range(3)))
    assert [reply.content for reply in replies] == ["0", "1", "2"]
    assert [len(batch["calls"]) for batch in server.batches] == [3]
    assert not server.singles


async def test_tools_and_schemas_come_back_out_of_a_batch(model_of: Any, batch_server: Any, tmp_path: Path) -> None:
    """The request is the one that the model makes by itself, so tools and structured output are in it."""
    with batch_server(lambda _: '{"answer": 4}') as server, quick(tmp_path):
        model = model_of(server, "openai")
        schema = {"title": "Answer", "type": "object", "properties": {"answer": {"type": "integer"}}}
        assert await model.with_structured_output(schema, method="json_mode").ainvoke("2+2 in JSON") == {"answer": 4}
    (call,) = server.calls()
    assert call["response_format"] == {"type": "json_object"}
    assert not server.singles


def test_providers_without_batches_are_refused_at_the_start(batch_server: Any, tmp_path: Path) -> None:
    """Nothing is run, and paid, with a model that takes no batches; the message says which do."""
    with quick(tmp_path):
        with pytest.raises(
            ValueError, match=r"ScriptedModel takes no batches: openai:NAME, anthropic:NAME and servers"
        ):
            chat_model(ScriptedModel(replies=["4"]))
        with batch_server(told, without=True) as server, pytest.raises(ValueError, match=r"takes no batches \(.*404"):
            chat_model(server.spec)
    with batch_server(told) as server:
        assert chat_model(server.spec).invoke("q").content == "q"
    assert len(server.singles) == 1, "outside of the block, a model's calls go out by themselves"


def test_another_file_is_refused(tmp_path: Path) -> None:
    """A file that holds something else is named with its line, and nothing is added to it."""
    path = tmp_path / "batches.jsonl"
    path.write_text('{"question": "2 + 2"}\n')
    with pytest.raises(ValueError, match=re.escape(f"{path}, line 1: not of submitted batches")):
        Batches(path)
    assert path.read_text() == '{"question": "2 + 2"}\n'
