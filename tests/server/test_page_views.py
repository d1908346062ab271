"""What the page is drawn from obeys the rules of the API: one's own threads alone, limits, and no word too many."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import httpx
import ormsgpack
import pytest
from redraft.graphs.branching import build_branching_graph
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.nodes import uses_words
from redraft.nodes.critics.critics import verifier_critic
from redraft.state import Thread, open_checkpointer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

REFINE = {"assistant_id": "refine", "input": {"task": "Write about autumn."}}


@pytest.fixture
def http(server: Any) -> Iterator[httpx.Client]:
    """Requests as the page makes them."""
    with httpx.Client(base_url=server.url, timeout=30) as client:
        yield client


def ran(client: httpx.Client, thread_id: str, **asked: Any) -> None:
    """Run a thread to its end."""
    client.post("/threads", json={"thread_id": thread_id, "if_exists": "do_nothing"}).raise_for_status()
    client.post(f"/threads/{thread_id}/runs/wait", json={**REFINE, **asked}).raise_for_status()


@pytest.mark.slow
def test_a_thread_tells_the_options_that_it_was_begun_with(start_server: Callable[..., Any]) -> None:
    """Who opens a thread reads what it was told to do, but for what is the server's: its files and addresses."""
    recipe = {"model": "local", "verifiers": ["length:-3 words"], "critics": ["http://10.0.0.1/v1#judge"]}
    server = start_server(recipes={"of-the-server": recipe})
    with httpx.Client(base_url=server.url, timeout=30) as client:
        ran(client, "a", context={"verifiers": ["uses_words:river"], "critics_after": "always"})
        drawn = client.get("/page/threads/a").json()["html"]
        assert "uses_words:river" in drawn
        assert "critics_after" in drawn
        client.post("/threads", json={"thread_id": "b"})
        client.post("/threads/b/runs/wait", json={**REFINE, "assistant_id": "of-the-server"})
        drawn = client.get("/page/threads/b").json()["html"]
        assert "length:-3 words" in drawn
        assert "10.0.0.1" not in drawn
        # What the server's own recipe names, its threads go on with, though no caller may name it.
        again = client.post("/threads/b/runs/wait", json={"assistant_id": "of-the-server"}).json()
        assert "__error__" not in again


def test_the_page_itself_needs_no_token(start_server: Callable[..., Any], tokens: tuple[str, str]) -> None:
    """The page and its files come to everybody, under a policy that allows them alone, and once for as long as they
    are the same; all that is drawn of threads needs a token."""
    from redraft.server.page.meta_api import ASSETS

    server = start_server(tokens=tokens)
    with httpx.Client(base_url=server.url) as client:
        for path in ASSETS:
            reply = client.get(path)
            assert reply.status_code == 200
            policy = reply.headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';")
            assert "unsafe" not in policy
            assert reply.headers["x-content-type-options"] == "nosniff"
            assert client.get(path, headers={"If-None-Match": reply.headers["etag"]}).status_code == 304
            assert client.head(path).status_code == 200
        page = client.get("/").text
        assert "<style" not in page
        assert " style=" not in page
        assert "<script>" not in page
        for path in ("home", "threads", "threads/x", "threads/x/diff", "compare?one=x&two=x", "runs/x/live", "x.js"):
            assert client.get(f"/page/{path}").status_code == 401
        assert client.post("/threads/x/fork", json={"at": 0}).status_code == 401
        assert client.post("/page/start", json={"assistant": "refine", "task": "x"}).status_code == 401


def test_another_s_threads_are_not_there(
    start_server: Callable[..., Any], talking: Any, tokens: tuple[str, str]
) -> None:
    """With one token nothing is seen of another's threads: no view, no stream, no fork, and no branch of a tree."""
    server = start_server(tokens=tokens)
    mine, theirs = ({"Authorization": f"Bearer {token}"} for token in tokens)
    with httpx.Client(base_url=server.url, timeout=30) as client:
        client.headers = httpx.Headers(mine)
        ran(client, "mine")
        run = client.get("/threads/mine/runs").json()[0]["run_id"]
        fork = client.post("/threads/mine/fork", json={"at": 0, "feedback": "Name the month."}).json()["thread_id"]
        client.headers = httpx.Headers(theirs)
        ran(client, "theirs")
        for path in (f"runs/{run}/live", "threads/mine", "threads/mine/diff", "compare?one=mine&two=theirs",
                     "compare?one=theirs&two=mine", f"threads/{fork}"):  # fmt: skip
            reply = client.get(f"/page/{path}")
            assert (reply.status_code, reply.json()["error"]["type"]) == (404, "not_found")
        assert client.post("/threads/mine/fork", json={"at": 0}).status_code == 404
        assert "mine" not in client.get("/page/home").text
        # a program that works on the database itself may fork one's thread for another
        presets = server.engine.presets
        graph = presets.graph_of(presets.get("refine").recipe(server.engine.settings.model))
        Thread(graph, "mine").fork(at=0, thread_id="forked")
        client.post("/threads", json={"thread_id": "forked"})
        server.engine.records.query("DELETE FROM served_threads WHERE thread_id = 'forked' RETURNING thread_id", {})
        record = server.engine.records.thread("theirs")
        server.engine.records.add_thread(type(record)(**{**record.__dict__, "thread_id": "forked"}))
        seen = client.get("/page/threads/forked").json()["html"]
        assert "mine" not in seen
        client.headers = httpx.Headers(mine)
        seen = client.get("/page/threads/mine").json()["html"]
        assert fork in seen
        assert "forked</a>" not in seen


def test_a_fork_goes_on_as_the_callers_own(http: httpx.Client, talking: Any) -> None:
    """A fork is made at a round or a checkpoint, with limits of its own, and runs as any thread of its caller's."""
    ran(http, "story")
    checkpoint = next(
        state["checkpoint_id"]
        for state in http.post("/threads/story/history", json={"limit": 100}).json()
        if state["next"] == ["refine"]
    )
    for at in (0, checkpoint):
        asked = {"at": at, "feedback": "Name the month.", "limits": {"max_rounds": 1}}
        fork = http.post("/threads/story/fork", json=asked).json()["thread_id"]
        output = http.post(f"/threads/{fork}/runs/wait", json={"assistant_id": "refine"}).json()
        assert (output["answer"], output["stop_reason"]) == ("second draft", "accepted")
    assert http.post("/threads/count", json={}).json() == 3


@pytest.mark.slow
def test_reports_open_from_the_page(start_server: Callable[..., Any], tokens: tuple[str, str], tmp_path: Path) -> None:
    """With `--evaluations` the reports of a folder are shown to who started the server, and no other file."""
    method = tmp_path / "results" / "adaptive"
    method.mkdir(parents=True)
    for folder in (method.parent, method):
        (folder / "report.html").write_text("<p>What it came to.</p>")
    (tmp_path / "report.html").write_text("outside")
    server = start_server(evaluations=str(method.parent))
    with httpx.Client(base_url=server.url) as client:
        assert 'href="page/evaluations/results/adaptive"' in client.get("/page/home").json()["html"]
        shown = client.get("/page/evaluations/results")
        assert shown.text == "<p>What it came to.</p>"
        assert "default-src 'none'" in shown.headers["content-security-policy"]
        for name in ("..", "results/..", "results/report.html", "results%2F..%2F.."):
            assert client.get(f"/page/evaluations/{name}").status_code == 404
    server = start_server(evaluations=str(method.parent), tokens=tokens)
    with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {tokens[0]}"}) as client:
        assert "evaluations" not in client.get("/page/home").json()["html"]
        assert client.get("/page/evaluations/results").status_code == 404


@pytest.mark.slow
def test_prompts_are_for_who_started_the_server(
    start_server: Callable[..., Any], tokens: tuple[str, str], talking: Any
) -> None:
    """Without tokens prompts are read, and forks asked with others; a wrong one is refused with the reason, and a
    caller with a token is shown none and changes none."""
    server = start_server()
    with httpx.Client(base_url=server.url, timeout=30) as client:
        ran(client, "a")
        assert "Write about autumn." in client.get("/page/threads/a/prompts").json()["html"]
        for prompts, says in (
            ({"refine_prompt": "{tusk} {draft} {feedback}"}, "unknown variables ['tusk']"),
            ({"refine_prompt": "Again."}, "lacks {draft}"),
            ({"documents": "/etc"}, "String should match pattern"),
            ({"other_prompt": "Again."}, "other_prompt"),
        ):
            refused = client.post("/threads/a/fork", json={"at": 0, "prompts": prompts})
            assert (refused.status_code, says in refused.text) == (422, True), refused.text
        asked = {"at": 0, "prompts": {"refine_prompt": "Shorter: {draft} {feedback}"}}
        made = client.post("/threads/a/fork", json=asked).json()["thread_id"]
        calls = len(talking.model.calls)
        client.post(f"/threads/{made}/runs/wait", json={"assistant_id": "refine"}).raise_for_status()
        assert talking.model.calls[calls][-1].text.startswith("Shorter: first draft")
    server = start_server(tokens=tokens)
    bearer = {"Authorization": f"Bearer {tokens[0]}"}
    with httpx.Client(base_url=server.url, timeout=30, headers=bearer) as client:
        ran(client, "b")
        assert client.get("/page/threads/b/prompts").status_code == 404
        assert 'id="prompts"' not in client.get("/page/threads/b").json()["html"]
        refused = client.post("/threads/b/fork", json={"at": 0, "prompts": asked["prompts"]})
        assert (refused.status_code, "no caller's to change" in refused.text) == (422, True)


REFUSED: dict[str, tuple[int, dict[str, Any]]] = {
    "a round that is none": (422, {"at": 7}),
    "a round below all": (422, {"at": -1}),
    "a checkpoint that is none": (404, {"at": "1f0b6a3e-0000-6000-8000-000000000000"}),
    "a path": (422, {"at": "../x"}),
    "nothing": (422, {}),
    "a blank text": (422, {"at": 0, "feedback": " "}),
    "a long text": (422, {"at": 0, "draft": "x" * 1001}),
    "more rounds": (422, {"at": 0, "limits": {"max_rounds": 6}}),
    "limits that are none": (422, {"at": 0, "limits": {"rounds": 1}}),
}


@pytest.mark.parametrize(("status", "asked"), REFUSED.values(), ids=REFUSED.keys())
def test_a_fork_raises_no_limit(
    start_server: Callable[..., Any], talking: Any, status: int, asked: dict[str, Any]
) -> None:
    """A fork that asks for more than the server allows, or makes no sense, is refused in plain words and not made."""
    server = start_server(max_rounds=5, max_task_characters=1000)
    with httpx.Client(base_url=server.url, timeout=30) as client:
        ran(client, "story")
        reply = client.post("/threads/story/fork", json=asked)
        assert reply.status_code == status
        assert "Traceback" not in reply.text
        assert client.post("/threads/count", json={}).json() == 1


def test_what_is_not_there_is_said(http: httpx.Client, talking: Any) -> None:
    """Odd ids and rounds are answered with a plain 404 or 422, and a thread without a run is shown as such."""
    ran(http, "story")
    for thread_id in ("nothing", "%00", "..%2f..%2fetc", "a%20b", "x" * 5000, "%ED%A0%80"):
        assert http.get(f"/page/threads/{thread_id}").status_code == 404
    assert http.get("/page/threads/story/diff?before=0&after=7").status_code == 404
    assert http.get("/page/threads/story/diff?before=x").status_code == 422
    assert http.get("/page/compare?one=story").status_code == 422
    assert http.get("/page/threads?offset=-1").status_code == 422
    http.post("/threads", json={"thread_id": "empty"})
    assert "Nothing was run on this thread yet." in http.get("/page/threads/empty").json()["html"]
    assert http.get("/page/compare?one=story&two=empty").status_code == 404
    assert http.post("/threads/empty/fork", json={"at": 0}).status_code == 404


def test_threads_come_in_pages(http: httpx.Client) -> None:
    """Twenty threads are on a page, those that changed last first, with ways to the others."""
    for number in range(45):
        http.post("/threads", json={"thread_id": f"thread-{number:02}"})
    pages = [http.get(f"/page/threads?offset={offset}").json()["html"] for offset in (0, 20, 40, 60)]
    assert [page.count("<li>") for page in pages] == [20, 20, 5, 0]
    assert "thread-44" in pages[0]
    assert "#/?from=20" in pages[0]
    assert 'href="#/"' in pages[1]
    assert "older" not in pages[2]
    assert "nothing on this page" in pages[3]


def test_a_stopped_run_is_unfinished_everywhere(
    start_server: Callable[..., Any], talking: Any, tmp_path: Path, shell: Callable[..., Any]
) -> None:
    """A run that was stopped in the middle of a call is `unfinished` on its page, in the list and in the shell: no
    error, no question to a person and no price is told of it, and each says how it goes on."""
    db = str(tmp_path / "runs.sqlite")
    server = start_server(db=db)
    with httpx.Client(base_url=server.url, timeout=30) as client:
        ran(client, "asks", assistant_id="refine-with-a-person")
        talking.gate.clear()
        started = client.post("/page/start", json={"assistant": "refine", "task": "Write about winter."})
        stopped = started.json()["thread_id"]
        run_id = client.get(f"/threads/{stopped}/runs").json()[0]["run_id"]
        with client.stream("GET", f"/page/runs/{run_id}/live") as live:
            next(line for line in live.iter_lines() if "drafting" in line)
        assert client.post(f"/threads/{stopped}/runs/{run_id}/cancel", params={"wait": "true"}).is_success
        assert client.get(f"/threads/{stopped}/state").json()["tasks"][0]["error"] == "CancelledError"
        assert client.get(f"/threads/{stopped}").json()["status"] == "interrupted"

        def found(stop: str) -> list[str]:
            html = client.get("/page/threads", params={"stop": stop}).json()["html"]
            return re.findall(r'<li><a href="#/threads/([^"]+)"><span', html)

        assert found("unfinished") == [stopped]
        assert found("interrupted") == ["asks"]
        listed = client.get("/page/threads", params={"q": stopped}).json()["html"]
        page = client.get(f"/page/threads/{stopped}").json()["html"]
        side = client.get("/page/compare", params={"one": "asks", "two": "asks"}).json()["html"]
    assert "waits for a person" in side
    for html in (listed, page):
        assert ">unfinished<" in html
        assert not re.search(r"error ended|waits|\$0\.00", html)
    assert 'data-form="go-on"' in page
    listed_by_shell = shell("threads", "--db", db, "--stopped", "unfinished", "--json").json
    assert stopped in [row["thread_id"] for row in listed_by_shell]
    told = shell("history", stopped, "--db", db).out
    assert "unfinished; go on with:" in told
    assert "$0.00" not in told


def test_threads_are_found(start_server: Callable[..., Any], talking: Any, tmp_path: Path) -> None:
    """Threads are found by words of their task or id, by preset, and by why they stopped; the paths of a search stand
    folded under it, and nowhere else."""
    db = str(tmp_path / "runs.sqlite")
    with open_checkpointer(db) as saver:
        verifier = verifier_critic(uses_words("boat"))
        search = build_branching_graph(ScriptedModel(["A lamp."] * 9), critics=[verifier], depth=1, checkpointer=saver)
        search.invoke({"task": "Look for a boat."}, {"configurable": {"thread_id": "search"}})
    server = start_server(db=db)
    with httpx.Client(base_url=server.url, timeout=30) as client:
        ran(client, "story")
        ran(client, "short", input={"task": "Write about winter.", "limits": {"max_rounds": 0}})

        def found(**asked: str) -> set[str]:
            html = client.get("/page/threads", params=asked).json()["html"]
            return set(re.findall(r'<li><a href="#/threads/([^"]+)"><span', html))

        everything = client.get("/page/threads").json()["html"]
        assert found() == {"story", "short", "search"}
        assert "6 paths of this search" in everything
        assert everything.count("#/threads/search/b") == 6
        assert found(q="ABOUT write") == {"story", "short"}
        assert found(q="autumn") == {"story"} == found(stop="accepted", assistant="refine")
        assert found(stop="max_rounds", assistant="refine") == {"short"}
        assert found(q="boat") == {"search"}
        assert found(q="nothing") == set()
        assert client.get("/page/threads", params={"q": "x" * 300}).status_code == 422


def test_what_can_not_be_done_says_why(start_server: Callable[..., Any], tmp_path: Path) -> None:
    """A thread of the shell that failed before its first draft shows where, and the kind of error without its words;
    a search says that its paths are forked in its place, and not with a button that does nothing."""
    db = str(tmp_path / "runs.sqlite")
    with open_checkpointer(db) as saver:
        writer = ScriptedModel([RuntimeError("Incorrect API key sk-secret-123456")])
        verifier = verifier_critic(uses_words("boat"))
        with pytest.raises(RuntimeError):
            build_refine_graph(writer, critics=[verifier], checkpointer=saver).invoke(
                {"task": "Write."}, {"configurable": {"thread_id": "failed"}}
            )
        search = build_branching_graph(ScriptedModel(["A lamp."] * 9), critics=[verifier], depth=1, checkpointer=saver)
        search.invoke({"task": "Look."}, {"configurable": {"thread_id": "search"}})
    server = start_server(db=db)
    with httpx.Client(base_url=server.url, timeout=30) as client:
        failed, searched = (client.get(f"/page/threads/{name}").json()["html"] for name in ("failed", "search"))
    assert "An error ended the last run: RuntimeError in generate" in failed
    assert "sk-secret" not in failed
    assert "A search is not forked as a whole" in searched
    assert 'data-form="fork"' not in searched


def test_many_rounds_stay_readable(start_server: Callable[..., Any]) -> None:
    """Of a thread of many rounds the comparison begins with what changed; what was said on the way is folded away."""
    judged = [json.dumps({"feedback": f"Not yet {n}.", "score": n / 10, "accepted": False}) for n in range(9)]
    # Each draft is a little better, so that each revises the one before.
    replies = [text for number in range(9) for text in (f"draft {number}", judged[number])]
    server = start_server(build_model=lambda spec: ScriptedModel(replies, structured=True))
    with httpx.Client(base_url=server.url, timeout=30) as client:
        ran(client, "many", input={"task": "Write.", "limits": {"max_rounds": 8}})
        many = client.get("/page/threads/many/diff?before=0&after=8").json()["html"]
        few = client.get("/page/threads/many/diff?before=6&after=8").json()["html"]
    assert "about 8 drafts, from round 0 to round 7</summary>" in many
    assert all(f"Not yet {number}." in many for number in range(8))
    assert "<summary>" not in few


def test_errors_keep_secrets(start_server: Callable[..., Any]) -> None:
    """What a model's error says, which may hold a key and a path, is in no view and in no stream of the page."""
    secret = RuntimeError("Incorrect API key sk-secret-123456 in /home/me/.env")
    model = ScriptedModel(["first draft", secret, secret])
    server = start_server(build_model=lambda spec: model)
    with httpx.Client(base_url=server.url, timeout=30) as client:
        ran(client, "failed", stream_mode=["custom"])
        ran(client, "broken", stream_mode=["custom"])
        for name, told in (("failed", "RuntimeError"), ("broken", "The last run ended early")):
            run = client.get(f"/threads/{name}/runs").json()[0]["run_id"]
            seen = client.get(f"/page/threads/{name}").text
            assert told in seen
            for text in (seen, client.get(f"/page/runs/{run}/live").text, client.get("/page/home").text):
                assert "sk-secret" not in text
                assert "/home/me" not in text


def test_a_run_that_tells_nothing_is_followed_all_the_same(http: httpx.Client, talking: Any) -> None:
    """A run that another client started without progress says so in the stream of the page, and tells its end."""
    ran(http, "quiet", stream_mode="values")
    run = http.get("/threads/quiet/runs").json()[0]["run_id"]
    events = [line[7:] for line in http.get(f"/page/runs/{run}/live").text.splitlines() if line.startswith("event: ")]
    assert events == ["silent", "end"]


def test_threads_of_the_shell_are_shown(
    start_server: Callable[..., Any], scripted: Callable[..., str], shell: Callable[..., Any]
) -> None:
    """A thread that the shell made is in the list and opens, and forks, whatever its id."""
    for name in ("from-shell", "two words/b é"):
        assert shell("run", "Write.", "--model", scripted("draft", "no issues"), "--thread", name).code == 0
    server = start_server(db="runs.sqlite")
    with httpx.Client(base_url=server.url, timeout=30) as client:
        assert "two%20words/b%20%C3%A9" in client.get("/page/home").json()["html"]
        for name in ("from-shell", "two%20words%2Fb%20%C3%A9"):
            html = client.get(f"/page/threads/{name}").json()["html"]
            assert "draft" in html
            assert 'data-form="fork"' in html
            assert client.post(f"/threads/{name}/fork", json={"at": 0}).status_code == 200


def test_no_request_forks_an_edited_record(start_server: Any, talking: Any, tmp_path: Path) -> None:
    """By the page, by a state written at a checkpoint, or by a run from one: each is told which event was changed."""
    server = start_server(db=str(tmp_path / "a.sqlite"))
    with httpx.Client(base_url=server.url, timeout=30) as client:
        ran(client, "x")
        past = client.post("/threads/x/history", json={"limit": 10}).json()
        place = next(one["checkpoint"]["checkpoint_id"] for one in past if one["next"] == ["check"])
        with closing(sqlite3.connect(tmp_path / "a.sqlite")) as connection, connection:
            rows = connection.execute("SELECT rowid, value FROM writes WHERE channel = 'events'").fetchall()
            for rowid, value in rows:
                events = ormsgpack.unpackb(value)
                if events[0]["kind"] == "draft":
                    events[0]["text"] = "forged"
                    connection.execute("UPDATE writes SET value = ? WHERE rowid = ?", (ormsgpack.packb(events), rowid))
        state = {"values": {"limits": {"max_rounds": 2}}, "as_node": "feedback", "checkpoint_id": place}
        told = [
            client.post("/threads/x/fork", json={"at": 0}).text,
            client.post("/threads/x/state", json=state).text,
            client.post("/threads/x/runs/wait", json={"assistant_id": "refine", "checkpoint_id": place}).text,
        ]
        assert all("is not forked: its record was changed" in one for one in told), told
