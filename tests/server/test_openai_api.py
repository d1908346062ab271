"""Any tool that speaks OpenAI's protocol refines its answers by changing a base URL and the name of the model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from queue import Queue
from typing import Any

import openai
import pytest
from langchain_openai import ChatOpenAI
from redraft.models import ScriptedModel
from redraft.models.http_clients import async_client, sync_client

REPLIES = ["A boat.", "Too short.", "A long boat.", "no issues"]
ASKED = [{"role": "user", "content": "Write about a boat."}]
OTHER = "openai:other"
Served = Callable[..., tuple[str, Any]]


def client(url: str, **options: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", **{"api_key": "none", "http_client": sync_client("direct"), **options})


def async_openai(url: str, **options: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", http_client=async_client("direct"), **options)


def said(chunks: list[Any]) -> tuple[str, str]:
    """What was streamed as reasoning, and as the answer."""
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    reasoning = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
    return reasoning, "".join(delta.content or "" for delta in deltas)


def check_answer(done: Any) -> None:
    message = done.choices[0].message
    assert (message.role, message.content, done.choices[0].finish_reason) == ("assistant", "A long boat.", "stop")
    for part in ("round 0", "A boat.", "Too short.", "round 1", "A long boat.", "accepted"):
        assert part in message.reasoning_content
    assert done.usage.completion_tokens == 2 + 2 + 3 + 2
    assert done.usage.total_tokens == done.usage.prompt_tokens + done.usage.completion_tokens
    assert {name: done.metadata[name] for name in ("stop_reason", "rounds", "accepted_by")} == {
        "stop_reason": "accepted",
        "rounds": "1",
        "accepted_by": "self (uncalibrated)",
    }
    assert done.metadata["thread_id"]


def test_an_answer_comes_with_what_refining_did(served: Served) -> None:
    """The client of OpenAI gets the refined answer, the progress, the usage of the whole run and its metadata."""
    model = ScriptedModel(REPLIES)
    url, _ = served(model)
    done = client(url).chat.completions.create(
        model="redraft-refine", messages=ASKED, temperature=0.3, max_completion_tokens=1
    )
    check_answer(done)
    assert len(model.calls) == 4
    assert done.model == "redraft-refine"


async def test_an_answer_comes_to_the_async_client(served: Served) -> None:
    """The same, asynchronously."""
    url, _ = served(ScriptedModel(REPLIES))
    check_answer(await async_openai(url).chat.completions.create(model="redraft-refine", messages=ASKED))


def check_stream(chunks: list[Any]) -> None:
    reasoning, answer = said(chunks)
    assert answer == "A long boat."
    assert reasoning.index("A boat.") < reasoning.index("Too short.") < reasoning.index("A long boat.")
    kinds = [
        "reasoning" if getattr(chunk.choices[0].delta, "reasoning_content", None) else "answer"
        for chunk in chunks
        if chunk.choices and (chunk.choices[0].delta.content or getattr(chunk.choices[0].delta, "reasoning_content", 0))
    ]
    assert kinds == ["reasoning"] * (len(kinds) - 1) + ["answer"]
    assert len(kinds) > 5
    ends = [chunk for chunk in chunks if chunk.choices and chunk.choices[0].finish_reason]
    assert [end.choices[0].finish_reason for end in ends] == ["stop"]
    assert ends[0].metadata["rounds"] == "1"
    assert chunks[-1].usage.completion_tokens == 9
    assert len({chunk.id for chunk in chunks}) == 1


def test_progress_streams_before_the_answer(served: Served) -> None:
    """A stream tells each step as it happens, then the answer, why it ended, and what it used."""
    url, _ = served(ScriptedModel(REPLIES))
    stream = client(url).chat.completions.create(
        model="redraft-refine", messages=ASKED, stream=True, stream_options={"include_usage": True}
    )
    check_stream(list(stream))


async def test_progress_streams_to_the_async_client(served: Served) -> None:
    """The same, asynchronously; without a wish for usage there is none."""
    url, _ = served(ScriptedModel(REPLIES * 2))
    asked: Any = {"model": "redraft-refine", "messages": ASKED, "stream": True}
    with_usage = await async_openai(url).chat.completions.create(**asked, stream_options={"include_usage": True})
    check_stream([chunk async for chunk in with_usage])
    bare = [chunk async for chunk in await async_openai(url).chat.completions.create(**asked)]
    assert all(chunk.usage is None and chunk.choices for chunk in bare)


def langchain(url: str, **options: Any) -> ChatOpenAI:
    clients = {"http_client": sync_client("direct"), "http_async_client": async_client("direct")}
    return ChatOpenAI(base_url=f"{url}/v1", api_key="none", model="redraft-refine", **clients, **options)


def test_chat_openai_refines(served: Served) -> None:
    """LangChain's `ChatOpenAI` works unchanged: whole, streamed and in a batch of one."""
    url, _ = served(ScriptedModel(REPLIES * 3))
    model = langchain(url, stream_usage=True)
    whole = model.invoke("Write about a boat.")
    assert (whole.text, whole.usage_metadata["output_tokens"]) == ("A long boat.", 9)
    pieces = list(model.stream("Write about a boat."))
    assert "".join(piece.text for piece in pieces) == "A long boat."
    assert sum((piece.usage_metadata or {}).get("output_tokens", 0) for piece in pieces) == 9
    assert model.batch(["Write about a boat."])[0].text == "A long boat."


async def test_chat_openai_refines_asynchronously(served: Served) -> None:
    """The same, with `ainvoke` and `astream`."""
    url, _ = served(ScriptedModel(REPLIES * 2))
    model = langchain(url)
    assert (await model.ainvoke("Write about a boat.")).text == "A long boat."
    assert "".join([piece.text async for piece in model.astream("Write about a boat.")]) == "A long boat."


def test_a_conversation_reaches_the_writer(served: Served) -> None:
    """What was said before the last message is in the prompt, instructions too."""
    model = ScriptedModel(["Shorter.", "no issues"])
    url, _ = served(model)
    before = [
        {"role": "system", "content": "Write in verse."},
        *ASKED,
        {"role": "assistant", "content": "A long tale."},
    ]
    asked = [*before, {"role": "user", "content": "Shorter, please."}]
    client(url).chat.completions.create(model="redraft-refine", messages=asked)
    prompt = "\n".join(message.text for message in model.calls[0])
    for part in ("Write in verse.", "Write about a boat.", "A long tale.", "Shorter, please."):
        assert part in prompt


def test_limits_can_be_given(served: Served) -> None:
    """A caller may say how much refining there is, up to what the server allows."""
    url, _ = served(ScriptedModel(["A boat.", "Too short."]), max_rounds=2)
    create = client(url).chat.completions.create
    done = create(model="redraft-refine", messages=ASKED, extra_body={"limits": {"max_rounds": 0}})
    assert (done.choices[0].message.content, done.metadata["stop_reason"]) == ("A boat.", "max_rounds")
    with pytest.raises(openai.BadRequestError, match="at most 2"):
        create(model="redraft-refine", messages=ASKED, extra_body={"limits": {"max_rounds": 3}})


def test_a_spent_budget_is_the_length_of_the_answer(served: Served) -> None:
    """A run that a budget ended gives its best draft, and says so as OpenAI says that tokens ran out."""
    url, _ = served(ScriptedModel(["A boat.", "Too short."]))
    done = client(url).chat.completions.create(
        model="redraft-refine", messages=ASKED, extra_body={"limits": {"max_tokens": 1}}
    )
    assert (done.choices[0].finish_reason, done.metadata["stop_reason"]) == ("length", "token_budget")


def test_models_are_the_workflows(served: Served) -> None:
    """The list of models holds each workflow that needs no person, alone and with each model that may be chosen."""
    url, _ = served(ScriptedModel([]))
    names = [model.id for model in client(url).models.list()]
    assert {"redraft-refine", "redraft-math", "redraft-travel", f"redraft-math/{OTHER}"} <= set(names)
    assert not [name for name in names if "person" in name or "unrefined" in name]
    for name in ("redraft-refine", f"redraft-refine/{OTHER}"):
        assert client(url).models.retrieve(name).id == name
    with pytest.raises(openai.NotFoundError):
        client(url).models.retrieve("redraft-nothing")


def test_an_upstream_model_can_be_chosen(served: Served) -> None:
    """The part of the name after the slash picks who writes, among the models that the server allows."""
    mine, other = ScriptedModel([]), ScriptedModel(["A raft.", "no issues"])
    url, _ = served(mine, other=other)
    done = client(url).chat.completions.create(model=f"redraft-refine/{OTHER}", messages=ASKED)
    assert done.choices[0].message.content == "A raft."
    assert (len(mine.calls), len(other.calls)) == (0, 2)
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client(url).chat.completions.create(model="redraft-refine/openai:gpt-5", messages=ASKED)


@pytest.mark.parametrize(
    ("changed", "kind", "param"),
    [
        ({"model": "gpt-5"}, openai.NotFoundError, "model"),
        ({"n": 2}, openai.BadRequestError, "n"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, openai.BadRequestError, "tools"),
        ({"messages": []}, openai.BadRequestError, "messages"),
        ({"messages": [{"role": "system", "content": "x"}]}, openai.BadRequestError, "messages"),
        ({"messages": [{"role": "user", "content": "x" * 200}]}, openai.BadRequestError, None),
        ({"stream": "perhaps"}, openai.BadRequestError, "stream"),
    ],
)
def test_refusals_have_the_shape_of_openai(served: Served, changed: dict[str, Any], kind: Any, param: Any) -> None:
    """What is refused comes back as the client's own exception, with the field it is about."""
    model = ScriptedModel([])
    url, _ = served(model, max_task_characters=100)
    with pytest.raises(kind) as refused:
        client(url).chat.completions.create(**{"model": "redraft-refine", "messages": ASKED, **changed})
    assert refused.value.param == param
    assert refused.value.type == "invalid_request_error"
    assert refused.value.body["message"]
    assert not model.calls


@pytest.mark.parametrize("stream", [False, True])
def test_a_failed_run_is_not_paid_for_again(served: Served, stream: bool) -> None:
    """An error of the model is told without its words, and the client does not send the request again."""
    model = ScriptedModel([RuntimeError("SECRET of /etc/x"), "A boat.", "no issues"])
    url, _ = served(model)
    with pytest.raises(openai.APIError) as failed:
        list(client(url).chat.completions.create(model="redraft-refine", messages=ASKED, stream=stream))
    assert "SECRET" not in str(failed.value)
    assert "the run failed" in str(failed.value)
    assert len(model.calls) == 1


def test_a_failure_after_the_first_draft_keeps_the_answer(served: Served) -> None:
    """The best draft is the answer, the metadata says that the run failed, and the progress names the error's type."""
    url, _ = served(ScriptedModel(["A boat.", "Too short.", RuntimeError("SECRET")]))
    done = client(url).chat.completions.create(model="redraft-refine", messages=ASKED)
    assert (done.choices[0].message.content, done.metadata["stop_reason"]) == ("A boat.", "failed")
    assert "RuntimeError" in done.choices[0].message.reasoning_content
    assert "SECRET" not in done.choices[0].message.reasoning_content


@pytest.mark.parametrize("stream", [False, True])
async def test_who_leaves_cancels_the_run(served: Served, held: Any, stream: bool) -> None:
    """A client that closes the connection leaves no run behind that nobody reads."""
    ended: Queue[str] = Queue()
    with held() as (model, asked):
        url, engine = served(model)
        engine.on_finished.append(lambda run, output: ended.put(run.status))

        async def ask() -> None:
            got: Any = await async_openai(url).chat.completions.create(
                model="redraft-refine", messages=ASKED, stream=stream
            )
            async for _ in got:
                pass

        task = asyncio.create_task(ask())
        assert await asyncio.to_thread(asked.wait, 20)
        task.cancel()
        assert await asyncio.to_thread(ended.get, timeout=10) == "interrupted"


def test_a_full_queue_is_a_rate_limit(served: Served, held: Any) -> None:
    """Past the bound of the queue the client is told when to come again."""
    with held() as (model, asked):
        url, _ = served(model, max_concurrent_runs=1, queue_length=0)
        with client(url).chat.completions.create(model="redraft-refine", messages=ASKED, stream=True) as first:
            next(iter(first))
            assert asked.wait(20)
            with pytest.raises(openai.RateLimitError) as full:
                client(url, max_retries=0).chat.completions.create(model="redraft-refine", messages=ASKED)
    assert int(full.value.response.headers["retry-after"]) > 0
    assert full.value.type == "rate_limit_error"


def test_the_key_is_the_token(served: Served) -> None:
    """Where the server has tokens, the client's key must be one of them."""
    token = "a-token-of-16-or-more"
    url, _ = served(ScriptedModel(REPLIES), tokens=(token,))
    with pytest.raises(openai.AuthenticationError):
        client(url).models.list()
    with pytest.raises(openai.AuthenticationError):
        client(url).chat.completions.create(model="redraft-refine", messages=ASKED)
    check_answer(client(url, api_key=token).chat.completions.create(model="redraft-refine", messages=ASKED))
