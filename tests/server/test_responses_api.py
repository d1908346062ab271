"""OpenAI's Responses API: answers that are stored, gone on from, streamed, structured and deleted."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx
import openai
import pytest
from langchain_openai import ChatOpenAI
from pydantic import BaseModel
from redraft.models import ScriptedModel, chat_model
from redraft.models.http_clients import sync_client

Served = Callable[..., tuple[str, Any]]
REPLIES = ["A boat.", "Too short.", "A long boat.", "no issues"]
ASKED = {"model": "redraft-refine", "input": "Write about a boat."}


class Boat(BaseModel):
    name: str
    metres: int


def client(url: str, **options: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", **{"api_key": "none", "http_client": sync_client("direct"), **options})


def prompt(call: Any) -> str:
    return "\n".join(message.text for message in call)


def test_a_response_is_stored_and_gone_on_from(served: Served) -> None:
    """The refined answer, its progress and its usage come back, again when they are asked for, and each response is a
    turn of one thread: what was said before is known, instructions of an earlier request are not, and what is said
    after an earlier response knows nothing of later ones."""
    turns = ["Second.", "no issues", "Third.", "no issues", "Unkept.", "no issues"]
    model = ScriptedModel([*REPLIES, *turns])
    url, _ = served(model)
    create = client(url).responses.create
    first = create(**ASKED, instructions="Write in verse.", metadata={"mine": "1"}, temperature=0.2)
    assert (first.output_text, first.status, first.usage.output_tokens) == ("A long boat.", "completed", 9)
    assert (first.metadata["mine"], first.metadata["stop_reason"], first.metadata["rounds"]) == ("1", "accepted", "1")
    assert "Too short." in first.output[0].summary[0].text
    again = client(url).responses.retrieve(first.id)
    assert again.model_dump() == first.model_dump()
    second = create(model="redraft-refine", input=[{"role": "user", "content": "Two."}], previous_response_id=first.id)
    assert second.metadata["thread_id"] == first.metadata["thread_id"]
    assert all(part in prompt(model.calls[4]) for part in ("Write about a boat.", "A long boat.", "Two."))
    assert "verse" not in prompt(model.calls[4])
    third = create(model="redraft-refine", input="Three.", previous_response_id=first.id)
    assert "A long boat." in prompt(model.calls[6])
    assert "Second." not in prompt(model.calls[6])
    unkept = create(model="redraft-refine", input="Four.", previous_response_id=third.id, store=False)
    assert all(part in prompt(model.calls[8]) for part in ("A long boat.", "Third.", "Four."))
    with pytest.raises(openai.NotFoundError):
        client(url).responses.retrieve(unkept.id)
    assert client(url).responses.retrieve(second.id).output_text == "Second."
    items = client(url).responses.input_items.list(second.id).data
    assert [item.content[0].text for item in items] == ["Two."]
    for one in (first, second, third):
        client(url).responses.delete(one.id)
    with pytest.raises(openai.BadRequestError, match="not found"):
        create(**ASKED, previous_response_id=third.id)
    assert httpx.get(f"{url}/threads/{first.metadata['thread_id']}").status_code == 404


def test_a_stream_has_the_events_of_openai(served: Served) -> None:
    """The client puts the events together to the response that it gets when it asks for it afterwards; LangChain's
    `ChatOpenAI` reads them too, and goes on from the response before."""
    url, _ = served(ScriptedModel([*REPLIES, *REPLIES, "Next.", "no issues"]))
    with client(url).responses.stream(**ASKED) as stream:
        events = list(stream)
        whole = stream.get_final_response()
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    assert kinds.index("response.reasoning_summary_text.delta") < kinds.index("response.output_text.delta")
    assert [event.sequence_number for event in events] == sorted(event.sequence_number for event in events)
    assert whole.output_text == client(url).responses.retrieve(whole.id).output_text == "A long boat."
    model = ChatOpenAI(
        base_url=f"{url}/v1", api_key="none", model="redraft-refine", http_client=sync_client("direct"),
        use_responses_api=True, use_previous_response_id=True,
    )  # fmt: skip
    pieces = list(model.stream("Write about a boat."))
    said = pieces[0]
    for piece in pieces[1:]:
        said += piece
    assert (said.text, said.usage_metadata["output_tokens"]) == ("A long boat.", 9)
    after = model.invoke([("user", "Write about a boat."), said, ("user", "And now?")])
    assert after.text == "Next."


@pytest.mark.parametrize("protocol", ["chat", "responses"])
def test_a_json_schema_is_a_verifier(served: Served, protocol: str) -> None:
    """Structured output is checked by a program and revised until it fits; what never does is a refusal, and never
    passes for an answer."""
    good, bad = '{"name": "Ann", "metres": 7}', '{"name": "Ann"}'
    model = ScriptedModel([bad, f"```json\n{good}\n```", bad, "nothing", "more"])
    ask = client(served(model)[0])

    def parsed(**more: Any) -> tuple[Any, Any]:
        if protocol == "chat":
            asked = [{"role": "user", "content": "A boat."}]
            done: Any = ask.chat.completions.parse(model="redraft-refine", messages=asked, response_format=Boat, **more)
            message = done.choices[0].message
            return message.parsed, message.refusal
        reply: Any = ask.responses.parse(model="redraft-refine", input="A boat.", text_format=Boat, **more)
        part = reply.output[-1].content[0]
        return reply.output_parsed, getattr(part, "refusal", None)

    assert parsed() == (Boat(name="Ann", metres=7), None)
    assert "metres" in prompt(model.calls[0])
    found, refusal = parsed(extra_body={"limits": {"max_rounds": 1}})
    assert found is None
    assert "no draft fits the schema" in refusal
    with pytest.raises(openai.BadRequestError, match="not supported by redraft-math"):
        ask.chat.completions.create(
            model="redraft-math", messages=[{"role": "user", "content": "1"}], response_format={"type": "json_object"}
        )


UPSTREAM = [(401, openai.AuthenticationError), (429, openai.RateLimitError), (500, openai.InternalServerError)]


@pytest.mark.parametrize(("status", "kind"), UPSTREAM)
@pytest.mark.parametrize("protocol", ["chat", "responses"])
def test_an_error_of_the_provider_is_told(served: Served, serve: Any, protocol: str, status: int, kind: Any) -> None:
    """A caller hears that the provider refused the server's key or is out of quota, and when to come again; of the
    provider's own words nothing is told."""
    error = {"status": status, "body": {"error": {"message": "key sk-secret"}}, "headers": {"retry-after": "7"}}
    provider = serve([error] * 3)
    url, _ = served(chat_model(provider.spec, max_retries=0))
    ask = client(url)
    chat: dict[str, Any] = {"model": "redraft-refine", "messages": [{"role": "user", "content": "x"}]}
    asked = {"chat": partial(ask.chat.completions.create, **chat), "responses": partial(ask.responses.create, **ASKED)}
    with pytest.raises(kind, match=f"the provider of its model answered {status}") as told:
        asked[protocol]()
    assert told.value.status_code == (502 if status == 500 else status)
    assert told.value.response.headers["retry-after"] == "7"
    assert "secret" not in json.dumps(told.value.body)
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"background": True}, "background"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "text only"),
        ({"input": [{"type": "function_call_output", "call_id": "x", "output": "y"}]}, "no user message"),
        ({"previous_response_id": "resp_none"}, "not found"),
        ({"model": "redraft-math", "previous_response_id": "resp_none"}, "no chat"),
        ({"text": {"format": {"type": "json_schema", "name": "x", "schema": {"$ref": "#/nowhere"}}}}, "nowhere"),
    ],
)
def test_what_can_not_be_given_is_refused(served: Served, changed: Any, says: str) -> None:
    """A request that asks for more is refused with a sentence, before anything is called."""
    model = ScriptedModel([])
    with pytest.raises(openai.BadRequestError, match=says):
        client(served(model)[0]).responses.create(**{**ASKED, **changed})
    assert not model.calls


def test_nobody_reads_the_responses_of_another(served: Served, tokens: Any) -> None:
    """Another caller can neither read, go on from, cancel nor delete a response."""
    url, _ = served(ScriptedModel(REPLIES), tokens=tokens)
    mine, other = (client(url, api_key=token) for token in tokens)
    made = mine.responses.create(**ASKED)
    for call in (other.responses.retrieve, other.responses.delete, other.responses.cancel):
        with pytest.raises(openai.NotFoundError):
            call(made.id)
    with pytest.raises(openai.BadRequestError, match="not found"):
        other.responses.create(**ASKED, previous_response_id=made.id)
    assert mine.responses.retrieve(made.id).output_text == "A long boat."


def test_a_hostile_schema_neither_holds_the_server_up_nor_imports(served: Served) -> None:
    """A schema whose readings multiply ends as a refusal in the reply; the name of a type is no schema, and nothing is
    imported for it."""
    pairs = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(25)} | {"a25": {"type": "null"}}
    form = {"name": "x", "schema": {"$defs": pairs, "$ref": "#/$defs/a0"}}
    url, _ = served(ScriptedModel(["1"]))
    asked: Any = {"model": "redraft-refine", "messages": [{"role": "user", "content": "1"}]}
    reply = client(url, timeout=300, max_retries=0).chat.completions.create(
        **asked, response_format={"type": "json_schema", "json_schema": form}, extra_body={"limits": {"max_rounds": 0}}
    )
    assert "no draft fits the schema" in str(reply.choices[0].message.refusal)
    body = {"input": {"task": "1"}, "config": {"configurable": {"answer_type": "os:system"}}}
    refused = httpx.post(f"{url}/runs/wait", json={"agent_id": "refine", **body}, trust_env=False)
    assert refused.status_code in (400, 422)


def test_a_typed_draft_may_be_an_object_and_options_may_stand_in_configurable(served: Served) -> None:
    """The draft of an input and of a fork is an object where the answer has a type, and only there; LangGraph's clients
    may give the type where they give everything else."""
    url, _ = served(ScriptedModel([]))
    schema = json.dumps({"type": "object", "required": ["name"]})
    run: Any = {"assistant_id": "refine", "input": {"task": "A boat.", "draft": {"name": "Ann"}}}
    typed = {**run, "config": {"configurable": {"answer_type": schema, "user_id": "ann"}}}
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as ask:
        ask.post("/threads", json={"thread_id": "boat"}).raise_for_status()
        ended = ask.post("/threads/boat/runs/wait", json=typed).raise_for_status().json()
        assert (ended["stop_reason"], ended["structured_response"]) == ("accepted", {"name": "Ann"})
        fork = ask.post("/threads/boat/fork", json={"at": 0, "draft": {"name": "Bo"}}).raise_for_status().json()
        again = ask.post(f"/threads/{fork['thread_id']}/runs/wait", json={"assistant_id": "refine"}).json()
        assert again["structured_response"] == {"name": "Bo"}
        assert ask.post("/threads/boat/fork", json={"at": 0, "draft": {"title": "Bo"}}).status_code == 422
        assert ask.post("/runs/wait", json=run).status_code == 422
