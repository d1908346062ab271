"""A run is started, watched, compared and forked in a browser, by keyboard or on a phone, and what models write stays
text."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from redraft.faces.views import rounds
from redraft.faces.views.documents import macros
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.server.page import live_api
from redraft.state.summary import RunSummary
from redraft.state.threads.snapshots import state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REFINE = {"assistant_id": "refine", "input": {"task": "Write about autumn."}}
OPTIONS = "Budgets, and what the preset can be told"
READY = "document.getElementById('place')?.getAttribute('aria-busy') === 'false'"
HOSTILE = (
    "</textarea></script><script>window.taken = 1</script><img src=x onerror='window.taken = 2'>"
    "<a href='javascript:window.taken = 3'>x</a>{{ 7 * 7 }} \u202e"
)


class Stepwise:
    """A model that answers when it is let: a first draft, an objection, a second draft, and no objection."""

    def __init__(self, *replies: str) -> None:
        self.steps = threading.Semaphore(0)
        replies = replies or ("first draft", "Name the month.", "second draft", "no issues")
        self.model = ScriptedModel([lambda messages, reply=reply: self.answer(reply) for reply in replies])

    def answer(self, reply: str) -> str:
        assert self.steps.acquire(timeout=60)
        return reply


@pytest.fixture
def stepwise(start_server: Callable[..., Any]) -> Iterator[Callable[..., Stepwise]]:
    """Make such models; at the end of the test, before the server ends, they may say all that they still have."""
    made: list[Stepwise] = []

    def make(*replies: str) -> Stepwise:
        made.append(Stepwise(*replies))
        return made[-1]

    yield make
    for one in made:
        one.steps.release(100)


def ran(client: httpx.Client, thread_id: str, **asked: Any) -> None:
    """Run a thread to its end, as another client of the server does."""
    client.post("/threads", json={"thread_id": thread_id, "if_exists": "do_nothing"}).raise_for_status()
    client.post(f"/threads/{thread_id}/runs/wait", json={**REFINE, **asked}).raise_for_status()


def shows(page: Any, words: str, *, within: str = "#place") -> None:
    """Return when the page shows some words."""
    page.wait_for(f"document.querySelector({within!r})?.innerText.includes({words!r})")


def written(page: Any) -> str:
    found: str = page.run("document.querySelector('#place').innerText")
    return found


def unharmed(page: Any) -> None:
    """Nothing that a model wrote was run or asked for, and the policy of the page had nothing to forbid."""
    assert page.run("window.taken") is None
    assert page.complaints() == []


def drop_connections(server: Any) -> None:
    """Cut every connection, as a network does."""
    for one in list(server.server.server_state.connections):
        one.loop.call_soon_threadsafe(one.transport.abort)


def tab_to(page: Any, condition: str) -> None:
    """Press Tab until what has the focus is meant."""
    for _ in range(40):
        if page.run(f"document.activeElement.{condition}"):
            return
        page.press("Tab")
    pytest.fail(f"no Tab reaches what is {condition}")


def test_a_run_is_started_and_watched(start_server: Callable[..., Any], stepwise: Any, chromium: Any) -> None:
    """Who types a task and presses Ctrl+Enter sees each draft and critique as it comes, also after reloading in the
    middle of the run and after the connection was cut, each once; at the end there is the answer."""
    writer = stepwise()
    server = start_server(build_model=lambda spec: writer.model)
    chromium.visit(server.url)
    chromium.wait_for(READY)
    shows(chromium, "No run yet")
    chromium.run("document.getElementById('task').focus()")
    chromium.type("Write about autumn.")
    chromium.press("Control+Enter")
    shows(chromium, "drafting, round 0", within=".doing")
    writer.steps.release()
    shows(chromium, "first draft", within=".rounds")
    shows(chromium, "self is judging", within=".doing")
    address = chromium.run("location.href")
    assert "#/threads/" in address
    chromium.visit(address)
    shows(chromium, "first draft", within=".rounds")
    shows(chromium, "self is judging", within=".doing")
    writer.steps.release()
    shows(chromium, "Name the month.", within=".rounds")
    chromium.run(
        "(() => { const doing = document.querySelector('.doing'); window.told = [];"
        "new MutationObserver(() => told.push(doing.innerText)).observe(doing, {childList: true}); })()"
    )
    drop_connections(server)
    writer.steps.release()
    shows(chromium, "second draft", within=".rounds")
    assert "the connection was lost; trying again …" in chromium.run("told")
    # The words come first, and what they changed once the draft is whole: what was said of the first draft stands below
    # that, and beside what it changed.
    chromium.wait_for("document.querySelector('.rounds').innerText.split('Name the month.').length > 2")
    shown = chromium.run("document.querySelector('.rounds').innerText")
    assert [shown.count(text) for text in ("first draft", "Name the month.", "second draft")] == [1, 2, 1]
    assert chromium.run("[...document.querySelectorAll('.round h3')].map((one) => one.innerText)") == [
        "Round 0",
        "Round 1",
    ]
    writer.steps.release()
    shows(chromium, "second draft", within=".answer")
    assert chromium.run("document.querySelector('.live')") is None
    assert "first draft" in written(chromium)
    assert len(writer.model.calls) == 4
    chromium.run("document.querySelector('a.brand').click()")
    shows(chromium, "accepted", within=".threads")
    chromium.run("history.back()")
    shows(chromium, "second draft", within=".answer")


def test_words_come_as_they_are_written(start_server: Callable[..., Any], stepwise: Any) -> None:
    """The page gets what a writer writes piece by piece, before the draft is whole; of a critic it gets the verdict."""
    writer = stepwise()
    server = start_server(build_model=lambda spec: writer.model)
    modes = {"stream_mode": ["custom", "messages-tuple"], "if_not_exists": "create"}
    with httpx.Client(base_url=server.url, timeout=30) as client:
        run = client.post("/threads/mine/runs", json={**REFINE, **modes}).json()
        seen: list[tuple[str, str]] = []
        with client.stream("GET", f"/page/runs/{run['run_id']}/live") as reply:
            name = ""
            for line in reply.iter_lines():
                if line.startswith("event: "):
                    name = line[7:]
                if line.startswith("data: "):
                    seen.append((name, line[6:]))
                    if name == "doing":  # its model is asked by now, or soon
                        writer.steps.release()
                    if name == "row" and '"kind":"critique"' in line:
                        break
        names = [name for name, _ in seen]
        tokens = "".join(httpx.Response(200, content=data).json()["text"] for name, data in seen if name == "token")
        assert names.index("token") < names.index("row")
        assert tokens == "first draft"
        writer.steps.release(4)
        client.get(f"/threads/mine/runs/{run['run_id']}/join")


def test_in_a_conversation_the_page_shows_what_the_newest_task_did(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rounds of an earlier task are not among those of a run that is watched; an event is read once, and a round is
    drawn again only for an event of its own."""
    taken, compared = list[Any](), list[str]()
    take, diff = RunSummary.take, rounds.diff_words
    monkeypatch.setattr(RunSummary, "take", lambda one, news: take(one, taken.extend(news) or news))
    monkeypatch.setattr(rounds, "diff_words", lambda before, after: diff(before, compared.append(after) or after))
    model = ScriptedModel(["one", "Mend it.", "two", "Mend it again.", "three", "No, mend it."] * 2)
    graph = build_refine_graph(model, checkpointer=InMemorySaver(), limits={"max_rounds": 2, "patience": None})
    config: Any = {"configurable": {"thread_id": "talk"}}
    graph.invoke({"task": "Write."}, config)
    before = list(graph.get_state(config).values["events"])
    sent = [item for item in graph.stream({"task": "Write anew."}, config, stream_mode="custom") if "text" in item]
    after = list(graph.get_state(config).values["events"])
    live = live_api.LiveRounds(after[: len(before) + 3])  # its task, draft and critique are kept
    taken.clear()
    drawn = []
    for item in sent:
        live.take(item)
        drawn.append(live.drawn(item))
    assert len(taken) <= len(sent) + 1
    assert compared == ["two", "two", "two", "three", "three", "three"]
    last = {one["name"]: one["html"] for one in drawn if one}
    whole = {
        card["name"]: str(macros().round({**card, "open": True}, False, "fork")) for card in rounds.round_cards(after)
    }
    assert [*last] == ["Round 0", "Round 1", "Round 2"]
    assert last == whole


@pytest.mark.parametrize("at", [pytest.param(0, id="before its task was kept"), pytest.param(1, id="after")])
def test_the_second_run_of_a_thread_is_watched_alone(
    start_server: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Whether the record holds the run's own task when it is read or ends before it, the rounds of the run before are
    not among those of the run that is watched."""
    read: list[Any] = []
    monkeypatch.setattr(live_api, "state_of", lambda *of: read.append(state_of(*of)) or read[min(at, len(read) - 1)])
    texts = [f"{text} {number}" for number in (1, 2) for text in ("draft", "objection", "revision", "more")]
    model = ScriptedModel(texts)
    server = start_server(build_model=lambda spec: model)
    asked = {**REFINE, "input": {**REFINE["input"], "limits": {"max_rounds": 1}}, "stream_mode": ["custom"]}
    with httpx.Client(base_url=server.url, timeout=30) as client:
        client.post("/threads", json={"thread_id": "mine"})
        for number in (1, 2):
            run = client.post("/threads/mine/runs", json=asked).json()
            client.get(f"/threads/mine/runs/{run['run_id']}/join")
            lines = client.get(f"/page/runs/{run['run_id']}/live").text.splitlines()
            rows = [json.loads(line.removeprefix("data: ")) for line in lines if '"html"' in line]
            assert {row["name"] for row in rows} == {"Round 0", "Round 1"}
            shown = " ".join(row["html"] for row in rows)
            assert [text for text in texts if text in shown] == texts[number * 4 - 4 :][:4]
    assert len(read) == 2


def test_a_run_is_told_who_judges_and_what_it_may_cost(start_server: Callable[..., Any], chromium: Any) -> None:
    """The form has each preset's options, as far as this server leaves them to callers: with a verifier, another model
    and a budget the run is judged by that verifier, and what the verifier's name is wrong about is said beside it."""
    built: list[str] = []

    def build(spec: str) -> ScriptedModel:
        built.append(spec)
        return ScriptedModel(["first draft", "second draft"])

    server = start_server(model="openai:writer", models=("openai:other",), build_model=build)
    chromium.visit(server.url)
    chromium.wait_for(READY)
    shown = "[...document.querySelectorAll('fieldset.preset:enabled [data-kind]')].map((one) => one.name)"
    assert set(chromium.run(shown)) == {
        "human", "ask", "critics_after", "critics", "verifiers", "answer_type",
    }  # fmt: skip
    chromium.run("document.querySelector('details.options').open = true")
    for name, value in (("task", "Write."), ("model", "openai:other"), ("max-tokens", "5000")):
        chromium.run(f"document.getElementById({name!r}).value = {value!r}")
    for verifier in ("no_such", "uses_words:second"):
        chromium.run(f"document.getElementById('refine-verifiers').value = {verifier!r}")
        chromium.run("document.querySelector('[data-form=start] .main').click()")
        if verifier == "no_such":
            shows(chromium, "'no_such' is not a verifier", within="[data-form=start] .problem")
    shows(chromium, "second draft", within=".answer")
    assert "accepted by uses_words" in written(chromium)
    assert built == ["openai:writer", "openai:other"]
    with httpx.Client(base_url=server.url, timeout=30) as client:
        (thread,) = client.post("/threads/search", json={}).json()
        assert thread["values"]["limits"]["max_tokens"] == 5000


@pytest.mark.parametrize("width", [1200, 360])
def test_a_fork_is_run_and_compared(server: Any, talking: Any, chromium: Any, width: int) -> None:
    """Forked with edited feedback, a thread goes on as another branch; tree, timeline, diff and both branches side by
    side are a key or a click away, also on a phone, where nothing is wider than the screen."""
    with httpx.Client(base_url=server.url, timeout=30) as client:
        ran(client, "story")
    calls = len(talking.model.calls)
    chromium.looks(width)
    chromium.visit(f"{server.url}/#/threads/story")
    chromium.wait_for("document.querySelector('.made ins')")
    assert chromium.run("document.querySelector('.made del').innerText").strip() == "first"
    assert "Name the month." in chromium.run("document.querySelector('.made .why').innerText")
    assert chromium.run("document.querySelectorAll('#steps tbody tr').length") > 5
    chromium.run("document.querySelector('button[data-fork=\"0\"]').click()")
    assert chromium.run("document.getElementById('fork-feedback').value") == "Name the month."
    chromium.run("document.getElementById('fork-feedback').select()")
    chromium.type("Name the month. Write it shorter.")
    chromium.press("Control+Enter")
    chromium.wait_for("document.querySelector('.ids code')?.innerText.startsWith('story-')")
    shows(chromium, "second draft", within=".answer")
    assert chromium.run("location.hash").startswith("#/threads/story-")
    assert "Write it shorter." in "\n".join(str(call) for call in talking.model.calls[calls:])
    assert chromium.run("document.documentElement.scrollWidth <= innerWidth")
    chromium.run("document.querySelector('a.with').click()")
    chromium.wait_for("document.querySelectorAll('.beside-each section').length === 2")
    shows(chromium, "What differs")
    assert chromium.run("document.documentElement.scrollWidth <= innerWidth")
    chromium.run(
        "(() => { const pick = document.getElementById('after'); pick.focus(); pick.value = '0';"
        "pick.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )
    chromium.wait_for("location.hash.includes('after=0')")
    chromium.wait_for("document.getElementById('after')?.value === '0' && document.activeElement.id === 'after'")
    unharmed(chromium)


@pytest.mark.slow
def test_prompts_are_read_and_changed(start_server: Callable[..., Any], talking: Any, chromium: Any) -> None:
    """Who started the server reads what each model was asked with, and runs again with another prompt, also from before
    the first draft; the new thread leads to both side by side."""
    server = start_server()
    with httpx.Client(base_url=server.url, timeout=30) as client:
        ran(client, "story")
    chromium.looks(1000)
    chromium.visit(f"{server.url}/#/threads/story")
    chromium.wait_for("document.querySelector('#prompts')")
    chromium.run("document.querySelector('#prompts').open = true")
    chromium.wait_for("document.querySelectorAll('#prompts .sent details').length === 4")
    assert "Write about autumn." in chromium.run("document.querySelector('#prompts pre').textContent")
    chromium.run(
        "(() => { const form = document.querySelector('form[data-form=fork]'); form.closest('details').open = true;"
        "form.elements.at.selectedIndex = 0; form.elements.at.dispatchEvent(new Event('change'));"
        "form.querySelector('[value=prompts]').click(); form.elements.generate_prompt.select(); })()"
    )
    calls = len(talking.model.calls)
    chromium.press("Control+Enter")
    shows(chromium, "No prompt was changed.")
    chromium.type("In French: {task}")
    chromium.press("Control+Enter")
    chromium.wait_for("document.querySelector('.ids code')?.innerText.startsWith('story-')")
    shows(chromium, "second draft", within=".answer")
    assert talking.model.calls[calls][-1].text == "In French: Write about autumn."
    chromium.run("[...document.querySelectorAll('a')].find((one) => one.innerText.startsWith('Side by side')).click()")
    chromium.wait_for("document.querySelectorAll('.beside-each section').length === 2")
    unharmed(chromium)


def test_what_models_write_stays_text(start_server: Callable[..., Any], stepwise: Any, chromium: Any) -> None:
    """A task, draft or critique that holds scripts and markup is shown as it is in every view, while the run goes on
    and after it, and nothing of it runs."""
    image = "<img src=x onerror='window.taken = 2'>"
    writer = stepwise(f"first {HOSTILE}", f"Fix it {HOSTILE}", f"second {HOSTILE}", "no issues")
    server = start_server(build_model=lambda spec: writer.model)
    asked = {"assistant_id": "refine", "input": {"task": f"Write {HOSTILE}"}, "if_not_exists": "create"}
    with httpx.Client(base_url=server.url, timeout=30) as client:
        client.post("/threads/bad/runs", json={**asked, "stream_mode": ["custom", "messages-tuple"]})
        chromium.visit(f"{server.url}/#/threads/bad")
        writer.steps.release(3)
        for _ in range(2):  # seen as it is written, and opened anew in the middle of the run
            # two drafts and a critique, which stands twice when the second draft has been drawn
            chromium.wait_for(f'document.querySelector(".rounds")?.innerText.split("{image}").length > 3')
            unharmed(chromium)
            chromium.visit(f"{server.url}/#/threads/bad")
        writer.steps.release()
        chromium.wait_for("document.querySelector('.answer') && document.querySelector('.made ins')")
        fork = client.post("/threads/bad/fork", json={"at": 0, "feedback": f"Again {HOSTILE}"}).json()["thread_id"]
    chromium.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert written(chromium).count(image) >= 6
    assert chromium.run("document.querySelectorAll('#place :is(script, iframe, img)').length") == 0
    unharmed(chromium)
    for view in ("", f"#/compare?one=bad&two={fork}&before=0&after=0"):
        chromium.visit(f"{server.url}/{view}")
        shows(chromium, "<script>window.taken")
        unharmed(chromium)


def test_the_keyboard_is_enough(server: Any, talking: Any, chromium: Any) -> None:
    """From the first Tab to the answer no pointer is needed, and what has the focus can be seen."""
    chromium.visit(server.url)
    chromium.wait_for(READY)
    focused = "document.activeElement.id || document.activeElement.textContent.trim()"
    chromium.run("document.activeElement.blur()")
    order = []
    for _ in range(7):
        chromium.press("Tab")
        order.append(chromium.run(focused))
        assert chromium.run("getComputedStyle(document.activeElement).outlineStyle") != "none"
        if order[-1] == "task":
            chromium.type("Write about autumn.")
    assert order == ["skip", "redraft", "task", "assistant", "rounds", OPTIONS, "Start"]
    chromium.press("Enter")
    shows(chromium, "second draft", within=".answer")
    chromium.wait_for("document.activeElement.tagName === 'H1'")
    unlabelled = (
        "[...document.querySelectorAll('#place :is(input, select, textarea)')].filter((one) => !one.labels.length)"
    )
    assert chromium.run(f"{unlabelled}.length") == 0
    tab_to(chromium, "matches('#fork-title ~ details > summary')")
    chromium.press("Enter")
    assert chromium.run("document.activeElement.parentElement.open")
    tab_to(chromium, "type === 'radio'")
    chromium.press("ArrowRight")
    assert chromium.run("document.getElementById('fork-draft').checkVisibility()")
    assert not chromium.run("document.getElementById('fork-feedback').checkVisibility()")
    assert len(talking.model.calls) == 4


def test_a_person_answers(server: Any, chromium: Any) -> None:
    """A run that waits for a person asks in the page, and goes on with what they say."""
    with httpx.Client(base_url=server.url, timeout=30) as client:
        ran(client, "asking", assistant_id="refine-with-a-person")
    chromium.visit(f"{server.url}/#/threads/asking")
    shows(chromium, "Your turn")
    chromium.run("document.querySelector('input[value=edit]').click()")
    assert chromium.run("document.getElementById('answer-draft').value") == "first draft"
    chromium.run("document.querySelector('input[value=feedback]').click()")
    chromium.run("document.getElementById('answer-text').focus()")
    chromium.type("Name the month.")
    chromium.press("Control+Enter")
    shows(chromium, "round 1", within=".asks")
    chromium.run("document.querySelector('form[data-form=answer] button').click()")
    shows(chromium, "second draft", within=".answer")


def test_a_run_is_stopped_and_goes_on(server: Any, talking: Any, chromium: Any) -> None:
    """A run that is stopped stands where it was, and goes on when asked to."""
    talking.gate.clear()
    with httpx.Client(base_url=server.url, timeout=30) as client:
        client.post("/threads/mine/runs", json={**REFINE, "if_not_exists": "create", "stream_mode": ["custom"]})
        chromium.visit(f"{server.url}/#/threads/mine")
        shows(chromium, "drafting, round 0", within=".doing")
        chromium.run("document.querySelector('[data-stop]').click()")
        chromium.wait_for("document.querySelector('form[data-form=go-on]')")
        assert client.get("/threads/mine/runs").json()[0]["status"] == "interrupted"
        shows(chromium, "unfinished", within=".facts")
        assert "error" not in written(chromium)
        talking.gate.set()
        chromium.run("document.querySelector('form[data-form=go-on] button').click()")
        shows(chromium, "second draft", within=".answer")
        assert client.get("/threads/mine").json()["values"]["stop_reason"] == "accepted"


def test_errors_are_told(start_server: Callable[..., Any], talking: Any, chromium: Any) -> None:
    """What the server refuses is said beside the form in its words, and nothing that was typed is lost."""
    server = start_server(max_concurrent_runs=1, queue_length=0)
    talking.gate.clear()
    with httpx.Client(base_url=server.url, timeout=30) as client:
        running = client.post("/runs", json=REFINE).json()
        chromium.visit(server.url)
        chromium.wait_for(READY)
        chromium.run("document.getElementById('task').focus()")
        chromium.type("One too many.")
        chromium.press("Control+Enter")
        shows(chromium, "Too many runs are waiting; try again in", within="#place .problem")
        assert chromium.run("document.getElementById('task').value") == "One too many."
        assert client.post("/threads/count", json={}).json() == 1
        talking.gate.set()
        client.get(f"/threads/{running['thread_id']}/runs/{running['run_id']}/join")
    chromium.visit(f"{server.url}/#/threads/nothing")
    shows(chromium, "There is no such thread", within="#problem")


def test_a_token_is_asked_for(
    start_server: Callable[..., Any], talking: Any, tokens: tuple[str, str], chromium: Any
) -> None:
    """Who has a token gives it once a tab, and it is nowhere else; another's thread is as good as none."""
    server = start_server(tokens=tokens)
    with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {tokens[1]}"}, timeout=30) as other:
        ran(other, "theirs")
    chromium.visit(server.url)
    chromium.wait_for("!document.getElementById('door').hidden && document.activeElement.id === 'token'")
    chromium.type("wrong-token-0123456789")
    chromium.press("Enter")
    shows(chromium, "A token is needed", within="#door-problem")
    chromium.run("document.getElementById('token').select()")
    chromium.type(tokens[0])
    chromium.press("Enter")
    shows(chromium, "No run yet")
    chromium.run("location.hash = '#/threads/theirs'")
    shows(chromium, "There is no such thread", within="#problem")
    assert chromium.run("Object.values(sessionStorage)") == [tokens[0]]
    assert chromium.run("[Object.keys(localStorage).length, document.cookie]") == [0, ""]
    assert not any(tokens[0] in one["request"]["url"] for one in chromium.seen("Network.requestWillBeSent"))
    chromium.run("document.getElementById('forget').click()")
    chromium.wait_for("!document.getElementById('door').hidden")
    assert chromium.run("Object.values(sessionStorage)") == []
