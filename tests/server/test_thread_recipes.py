"""A thread is judged by what it was begun with, whichever face goes on with it."""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from langgraph_sdk import get_sync_client
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.state import open_checkpointer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.parametrize("checkpointer_url", ["sqlite", "postgres"], indirect=True)
ZEBRA = ("Write about a zebra.", "--draft", "No.", "--verify", "uses_words:zebra", "--max-rounds", "1")


@pytest.fixture
def opened(start_server: Callable[..., Any], shell: Any, scripted: Callable[..., str], checkpointer_url: str) -> Any:
    """A server and the shell on one database and one model, which writes of no zebra and, asked over HTTP, finds no
    issues."""
    spec = scripted("one", "two", "three")
    over_http = (f"over HTTP {number}" for number in count())

    def reply(messages: list[Any]) -> str:
        return "no issues" if any("no issues" in str(message.content) for message in messages) else next(over_http)

    def on_shell(*words: str) -> Any:
        model = ("--model", spec) if words[0] == "run" else ()
        return shell(*words, *model, "--db", checkpointer_url, "--json")

    def serve(**settings: Any) -> Any:
        given = {"model": spec, **settings}
        model = ScriptedModel([reply] * 50)
        return get_sync_client(url=start_server(build_model=lambda spec: model, db=checkpointer_url, **given).url)

    return on_shell, serve


def test_a_thread_of_the_shell_is_judged_by_its_own_verifiers_over_http(opened: Any) -> None:
    """A run that the shell began with a verifier ends over HTTP as at the shell, forked or given more room: the
    server's own assistant, which would accept it, has no say."""
    shell, serve = opened
    assert shell("run", *ZEBRA, "--thread", "z").json["stop_reason"] == "max_rounds"
    forked = shell("fork", "z", "--at", "0", "--feedback", "Again.", "--as", "over-http").json["thread_id"]
    at_shell = shell("fork", "z", "--at", "0", "--feedback", "Again.", "--run").json
    with serve() as client:
        over_http = client.runs.wait(forked, "refine")
        told = ("stop_reason", "score", "accepted_by", "rounds")
        assert [over_http[name] for name in told] == [at_shell[name] for name in told] == ["max_rounds", 0.0, None, 1]
    assert shell("resume", forked, "--max-rounds", "2").json["score"] == 0.0  # the recipe is still its own


def test_an_answer_given_over_http_reaches_a_thread_of_the_shell(opened: Any) -> None:
    """A person who is asked by a run of the shell sees the question over HTTP, and the answer is in the record."""
    shell, serve = opened
    shell("run", "Write.", "--human", "--thread", "h")
    with serve() as client:
        assert client.threads.get("h")["status"] == "interrupted"
        (question,) = client.threads.get_state("h")["interrupts"]
        assert question["value"]["ask"] == "review"
        again = client.runs.wait("h", "refine", command={"resume": {"action": "feedback", "text": "More stripes."}})
        assert again["__interrupt__"][0]["value"]["round"] == 1
        ended = client.runs.wait("h", "refine", command={"resume": {"action": "accept"}})
    assert (ended["stop_reason"], ended["accepted_by"]) == ("accepted", "human")
    assert "More stripes." in [event["text"] for event in ended["events"]]


def test_a_callers_assistant_answers_its_own_question(opened: Any) -> None:
    """What an assistant of a caller's began, it goes on with: it answers its question, continues after
    `update_state`, and goes on from a checkpoint. Only an option that differs from the thread's is refused, by name."""
    _, serve = opened
    with serve() as client:
        asking = client.assistants.create("refine", context={"human": True})["assistant_id"]
        thread = client.threads.create()["thread_id"]
        client.runs.wait(thread, asking, input={"task": "Write.", "draft": "One."})
        place = client.threads.get_state(thread)["checkpoint"]["checkpoint_id"]
        more = {"resume": {"action": "feedback", "text": "More."}}
        assert client.runs.wait(thread, asking, command=more)["__interrupt__"][0]["value"]["round"] == 1
        client.threads.update_state(thread, {"limits": {"max_rounds": 1}})
        assert client.runs.wait(thread, asking)["__interrupt__"][0]["value"]["round"] == 1
        assert client.runs.wait(thread, asking, command={"resume": {"action": "accept"}})["stop_reason"] == "accepted"
        (question,) = client.runs.wait(thread, asking, checkpoint_id=place)["__interrupt__"]
        assert question["value"]["round"] == 0
        other = client.assistants.create("refine", context={"human": True, "verifiers": ["length:-9"]})["assistant_id"]
        with pytest.raises(httpx.HTTPStatusError) as refused:
            client.runs.wait(thread, other, command={"resume": {"action": "accept"}})
        assert "verifiers differs; fork it" in refused.value.response.text
        again = client.runs.wait(thread, "refine", command={"resume": {"action": "accept"}}, context={"human": True})
        assert again["stop_reason"] == "accepted"


def test_a_thread_that_the_server_can_not_follow_says_so(opened: Any, scripted: Any, checkpointer_url: str) -> None:
    """A model that the server does not allow, a graph built in Python and another assistant are refused with a sentence
    that names the way out, before anything is run."""
    shell, serve = opened
    shell("run", *ZEBRA, "--thread", "z")
    with open_checkpointer(checkpointer_url) as saver:
        graph = build_refine_graph(ScriptedModel(["mine"]), keep="last", checkpointer=saver)
        graph.invoke({"task": "Write."}, {"configurable": {"thread_id": "python"}}, interrupt_before=["feedback"])
    with serve() as client, pytest.raises(httpx.HTTPStatusError) as refused:
        client.runs.wait("z", "refine-with-a-person")
    assert re.search("critics, human differs; fork it .*/fork", refused.value.response.text)
    with serve(model=scripted("another")) as client:
        with pytest.raises(httpx.HTTPStatusError) as refused:
            client.runs.wait("z", "refine")
        assert re.search("replies-1.* does not allow; fork it .*/fork", refused.value.response.text)
        assert client.threads.get("z")["values"]["stop_reason"] == "max_rounds"
        with pytest.raises(httpx.HTTPStatusError) as refused:
            client.runs.wait("python", "refine")
        assert re.search("begun with another graph: .*keep.* fork it .*/fork", refused.value.response.text)
        for name, why in (("z", "that this server does not allow"), ("python", "was built in Python")):
            html: Any = client.http.get(f"/page/threads/{name}")
            assert why in html["html"]
            assert '<option value="">it was begun' not in html["html"]
            fork: Any = client.http.post(f"/threads/{name}/fork", json={"at": 0, "assistant_id": "refine"})
            assert client.runs.wait(fork["thread_id"], "refine")["accepted_by"] == "self (uncalibrated)"


@pytest.mark.parametrize("tokens", [(), ("a-token-0123456789",)], ids=["open", "tokens"])
def test_a_recipe_opens_no_file_that_the_server_no_longer_offers(
    start_server: Callable[..., Any], talking: Any, tmp_path: Path, checkpointer_url: str, tokens: tuple[str, ...]
) -> None:
    """Where callers have tokens, a thread begun with a file that whoever started the server has since withdrawn is not
    gone on with; without tokens it is the user's own, and goes on with it."""
    headers = {"Authorization": f"Bearer {tokens[0]}"} if tokens else {}
    for name in ("old", "new"):
        path = tmp_path / f"{name}.json"
        path.write_text('{"scripted": {"input_per_mtok": 1, "output_per_mtok": 1}}')
        server = start_server(db=checkpointer_url, tokens=tokens, prices=str(path))
        with get_sync_client(url=server.url, headers=headers) as client:
            if name == "old":
                client.threads.create(thread_id="t")
                client.runs.wait("t", "refine", input={"task": "Write."}, interrupt_before=["check"])
            elif tokens:
                with pytest.raises(httpx.HTTPStatusError) as refused:
                    client.runs.wait("t", "refine")
                assert "that this server does not offer; fork it" in refused.value.response.text
                assert str(tmp_path) not in refused.value.response.text
            else:
                assert client.runs.wait("t", "refine")["answer"] == "second draft"
        server.stop()
