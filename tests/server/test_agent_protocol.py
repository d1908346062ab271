"""LangGraph's own clients work against the server, unchanged."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command
from langgraph_sdk import get_client, get_sync_client
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError
from redraft.faces.run_config import RunConfig
from redraft.models import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

TASK = {"task": "Write about autumn."}


@pytest.fixture
def connect() -> Iterator[Callable[..., Any]]:
    """Connect LangGraph's client to a server; it is closed with the test."""
    with ExitStack() as stack:
        yield lambda url, **options: stack.enter_context(get_sync_client(url=url, **options))


@pytest.fixture
async def aconnect() -> AsyncIterator[Callable[..., Any]]:
    """Connect LangGraph's async client; its connections are closed with the test."""
    clients: list[Any] = []
    yield lambda url, **options: clients.append(get_client(url=url, **options)) or clients[-1]  # type: ignore[func-returns-value]
    for client in clients:
        await client.aclose()


@pytest.fixture
def stored(start_server: Callable[..., Any], checkpointer_url: str) -> Any:
    """A server on each kind of database in turn."""
    return start_server(db=checkpointer_url)


def test_a_run_is_waited_for_and_its_thread_read(stored: Any, talking: Any, connect: Any) -> None:
    """`get_sync_client` makes a thread, runs it, and reads its state, its history and its list, on every database."""
    client = connect(stored.url)
    thread = client.threads.create(metadata={"who": "me"})
    output = client.runs.wait(thread["thread_id"], "refine", input=TASK)
    assert (output["answer"], output["stop_reason"], output["rounds"]) == ("second draft", "accepted", 1)
    assert len(talking.model.calls) == 4
    state = client.threads.get_state(thread["thread_id"])
    assert state["values"]["answer"] == "second draft"
    assert (state["next"], state["tasks"]) == ([], [])
    history = client.threads.get_history(thread["thread_id"], limit=50)
    assert history[0]["checkpoint"] == state["checkpoint"]
    assert history[0]["parent_checkpoint"] == history[1]["checkpoint"]
    assert all({"state", "checkpoint"} <= task.keys() for past in history for task in past["tasks"])
    assert "redraft_recipe" not in history[0]["metadata"]
    earlier = client.threads.get_history(thread["thread_id"], before=history[1]["checkpoint"], limit=1)
    assert earlier[0]["checkpoint"] == history[2]["checkpoint"]
    at = client.threads.get_state(thread["thread_id"], checkpoint=history[3]["checkpoint"])
    assert at["values"] == history[3]["values"]
    assert client.threads.get_state(thread["thread_id"], checkpoint_id=history[3]["checkpoint_id"]) == at
    found = client.threads.search(metadata={"who": "me"})
    assert [one["thread_id"] for one in found] == [thread["thread_id"]]
    assert found[0]["values"]["answer"] == "second draft"
    assert found[0]["metadata"]["graph_id"] == "refine"
    assert client.threads.search(metadata={"who": "you"}) == []
    assert client.threads.count() == 1
    assert client.threads.update(thread["thread_id"], metadata={"colour": "red"})["metadata"]["who"] == "me"
    client.threads.delete(thread["thread_id"])
    with pytest.raises(NotFoundError):
        client.threads.get(thread["thread_id"])
    with pytest.raises(NotFoundError):
        client.threads.get_state(thread["thread_id"])


def test_a_thread_is_copied_with_its_history(stored: Any, connect: Any) -> None:
    """A copy has every state of the thread, and goes its own way."""
    client = connect(stored.url)
    one = client.threads.create()["thread_id"]
    client.runs.wait(one, "refine", input=TASK)
    two = client.threads.copy(one)["thread_id"]  # type: ignore[func-returns-value, index]
    before = client.threads.get_history(one, limit=50)
    assert [past["values"] for past in client.threads.get_history(two, limit=50)] == [past["values"] for past in before]
    client.runs.wait(two, "refine", input={"task": "Another one."})
    assert client.threads.get_state(two)["values"]["task"] == "Another one."
    assert client.threads.get_history(one, limit=50) == before


def test_writing_a_state_forks(stored: Any, talking: Any, connect: Any) -> None:
    """Fewer rounds written after a draft's checkpoint end the run earlier when it goes on from there."""
    client = connect(stored.url)
    name = client.threads.create()["thread_id"]
    client.runs.wait(name, "refine", input=TASK)
    calls = len(talking.model.calls)
    drafted = next(past for past in client.threads.get_history(name, limit=50) if past["next"] == ["feedback"]
                   and len(past["values"]["events"]) == 2)  # fmt: skip
    limits = {**drafted["values"]["limits"], "max_rounds": 0}
    written = client.threads.update_state(
        name, {"limits": limits}, as_node="generate", checkpoint=drafted["checkpoint"]
    )
    assert client.threads.get_state(name)["checkpoint"] == written["checkpoint"]
    assert client.threads.get_state(name)["next"] == ["feedback"]
    output = client.runs.wait(name, "refine", input=None)
    assert (output["answer"], output["stop_reason"]) == ("first draft", "max_rounds")
    assert len(talking.model.calls) == calls  # what was said about this draft is in the journal


async def test_a_run_is_streamed_as_it_goes(server: Any, aconnect: Any) -> None:
    """The async client gets values, updates, what nodes say, and tokens."""
    client = aconnect(server.url)
    thread = await client.threads.create()
    created: list[Any] = []
    modes: Any = ["values", "updates", "custom", "messages-tuple"]
    parts = [
        part
        async for part in client.runs.stream(
            thread["thread_id"], "refine", input=TASK, stream_mode=modes, on_run_created=created.append
        )
    ]
    names = [part.event for part in parts]
    assert (names[0], names[-1]) == ("metadata", "values")
    assert created[0]["run_id"] == parts[0].data["run_id"]
    updates = [next(iter(part.data)) for part in parts if part.event == "updates"]
    assert updates == ["prepare", "generate", "feedback", "check", "refine", "feedback", "check"]
    assert [part.data for part in parts if part.event == "values"][-1]["answer"] == "second draft"
    assert "draft" in [part.data.get("kind") for part in parts if part.event == "custom"]
    tokens = [part.data[0]["content"] for part in parts if part.event == "messages"]
    assert "".join(tokens).startswith("first draft")
    again = [part async for part in client.runs.join_stream(thread["thread_id"], created[0]["run_id"])]
    assert [part.event for part in again] == names
    rest = client.runs.join_stream(thread["thread_id"], created[0]["run_id"], last_event_id=parts[-2].id)
    assert [part.event async for part in rest] == names[-1:]
    only = client.runs.join_stream(thread["thread_id"], created[0]["run_id"], stream_mode="updates")
    assert {part.event async for part in only} == {"metadata", "updates"}


async def test_messages_grow(server: Any, aconnect: Any) -> None:
    """The stream mode `messages` gives each message whole so far."""
    client = aconnect(server.url)
    parts = [part async for part in client.runs.stream(None, "zero-shot", input=TASK, stream_mode="messages")]
    texts = [part.data[0]["content"] for part in parts if part.event in ("messages/partial", "messages/complete")]
    assert texts == ["first", "first draft", "first draft"]


@pytest.mark.parametrize("subgraphs", [False, True])
def test_remote_graph_is_a_graph(server: Any, subgraphs: bool, connect: Any) -> None:
    """`RemoteGraph` invokes, streams, reads, and forks a preset as if it were here."""
    remote = RemoteGraph("refine", sync_client=connect(server.url))
    config: Any = {"configurable": {"thread_id": "remote-1"}}
    assert remote.invoke(TASK, config)["answer"] == "second draft"
    updates = list(remote.stream({"task": "More."}, config, stream_mode="updates", subgraphs=subgraphs))
    assert len(updates) == 7
    state = remote.get_state(config, subgraphs=subgraphs)
    assert state.values["answer"] == "second draft"
    history = list(remote.get_state_history(config, limit=100))
    assert history[0].config == state.config
    first = next(past for past in history if past.next == ("check",))
    written = remote.update_state(first.config, {"limits": {"max_rounds": 0}}, as_node="feedback")
    assert remote.get_state(written).next == ("check",)
    assert remote.invoke(None, config)["stop_reason"] == "accepted"  # it was accepted there already
    assert {"generate", "refine"} <= remote.get_graph().nodes.keys()


async def test_remote_graph_is_a_node(server: Any, aconnect: Any) -> None:
    """A graph here has a preset on the server as a node, without a thread of its own there."""
    from langgraph.graph import END, START, StateGraph
    from typing_extensions import TypedDict

    class State(TypedDict, total=False):
        task: str
        answer: str

    graph = StateGraph(State)
    graph.add_node("far", RemoteGraph("refine", client=aconnect(server.url)))
    graph.add_edge(START, "far")
    graph.add_edge("far", END)
    output = await graph.compile().ainvoke({"task": "Write."})
    assert output["answer"] == "second draft"
    assert await aconnect(server.url).threads.count() == 0


@pytest.mark.parametrize("remote", [False, True])
def test_a_person_answers_over_http(stored: Any, talking: Any, remote: bool, connect: Any) -> None:
    """A run that asks a person waits as long as they need, and goes on with what they say; who joins it after a restart
    is told the same."""
    client = connect(stored.url)
    name = client.threads.create()["thread_id"]
    output = client.runs.wait(name, "refine-with-a-person", input=TASK)
    asked = output["__interrupt__"][0]
    assert asked["value"]["draft"] == "first draft"
    thread = client.threads.get(name)
    assert thread["status"] == "interrupted"
    assert next(iter(thread["interrupts"].values()))[0]["id"] == asked["id"]
    calls = len(talking.model.calls)
    refused = client.runs.wait(name, "refine-with-a-person", command={"resume": {"nonsense": 1}}, raise_error=False)
    assert refused["__error__"]["error"] == "BadRequestError"
    assert len(talking.model.calls) == calls
    if remote:
        graph = RemoteGraph("refine-with-a-person", sync_client=client)
        ended = graph.invoke(Command(resume={"action": "accept"}), {"configurable": {"thread_id": name}})
    else:
        ended = client.runs.wait(name, "refine-with-a-person", command={"resume": {"action": "accept"}})
    assert (ended["answer"], ended["accepted_by"]) == ("first draft", "human")
    assert client.threads.get(name)["status"] == "idle"
    stored.forget_runs()
    _, _, first = client.runs.list(name)
    assert client.runs.join(name, first["run_id"]) == output


@pytest.mark.parametrize("stop", [{"interrupt_before": ["check"]}, {"interrupt_after": ["feedback"]}])
def test_a_run_stops_where_it_is_told(server: Any, connect: Any, stop: Any) -> None:
    """A run that is to stop at a node does, its thread says so, and it goes on from there."""
    client = connect(server.url)
    name = client.threads.create()["thread_id"]
    client.runs.wait(name, "refine", input=TASK, **stop)
    assert [run["status"] for run in client.runs.list(name)] == ["interrupted"]
    assert (client.threads.get(name)["status"], client.threads.get_state(name)["next"]) == ("interrupted", ["check"])
    # Gone on with by another assistant it would be another run: that is said, and nothing changes.
    with pytest.raises(httpx.HTTPStatusError) as refused:
        client.runs.wait(name, "refine-with-a-person", input=None)
    assert "critics, human differs; fork it to go on under another" in refused.value.response.text
    assert client.runs.wait(name, "refine", input=None)["answer"] == "second draft"
    assert client.threads.get(name)["status"] == "idle"


async def test_background_runs_are_listed_joined_and_cancelled(server: Any, talking: Any, aconnect: Any) -> None:
    """A run in the background has a status, and is joined or cancelled from elsewhere; a cancelled one can go on."""
    client = aconnect(server.url)
    name = (await client.threads.create())["thread_id"]
    talking.gate.clear()
    run = await client.runs.create(name, "refine", input=TASK)
    while (await client.runs.get(name, run["run_id"]))["status"] != "running":
        pass
    assert (await client.threads.get(name))["status"] == "busy"
    with pytest.raises(ConflictError):
        await client.threads.update_state(name, {"answer": "x"}, as_node="check")
    with pytest.raises(ConflictError):
        await client.runs.create(name, "refine", input=TASK, multitask_strategy="reject")
    second = await client.runs.create(name, "refine", input={"task": "Later."})
    assert (await client.runs.get(name, second["run_id"]))["status"] == "pending"
    await client.runs.cancel(name, second["run_id"])
    await client.runs.cancel(name, run["run_id"], wait=True)
    talking.gate.set()
    listed = await client.runs.list(name)
    assert {(one["run_id"], one["status"]) for one in listed} == {
        (run["run_id"], "interrupted"),
        (second["run_id"], "interrupted"),
    }
    third = await client.runs.create(name, "refine", input=None)
    output = await client.runs.join(name, third["run_id"])
    assert (output["answer"], output["task"] if "task" in output else TASK["task"]) == ("second draft", TASK["task"])
    assert (await client.runs.get(name, third["run_id"]))["status"] == "success"
    await client.runs.delete(name, third["run_id"])
    with pytest.raises(NotFoundError):
        await client.runs.get(name, third["run_id"])


async def test_runs_of_one_thread_come_one_after_the_other(server: Any, aconnect: Any) -> None:
    """Runs that are asked for at once on one thread all happen, in order; where it is new, any of them makes it, and of
    metadata that are put over it at once all stay. When it is deleted, its runs are, too."""
    client = aconnect(server.url)
    name = (await client.threads.create())["thread_id"]
    new = str(uuid.uuid4())
    made = [client.threads.create(thread_id=new, if_exists="do_nothing") for _ in range(4)]
    assert {thread["thread_id"] for thread in await asyncio.gather(*made)} == {new}
    new = str(uuid.uuid4())
    asked = [client.runs.create(new, "zero-shot", input=TASK, if_not_exists="create") for _ in range(4)]
    first, *others = await asyncio.gather(*asked)
    assert {run["thread_id"] for run in (first, *others)} == {new}
    labels = {f"label-{number}": number for number in range(4)}
    await asyncio.gather(*(client.threads.update(new, metadata={name: labels[name]}) for name in labels))
    assert labels.items() <= (await client.threads.get(new))["metadata"].items()
    await client.threads.delete(new)
    with pytest.raises(NotFoundError):
        await client.runs.get(new, first["run_id"])
    runs = [await client.runs.create(name, "zero-shot", input={"task": f"Task {number}."}) for number in range(4)]
    for run in runs:
        await client.runs.join(name, run["run_id"])
    values: Any = (await client.threads.get_state(name))["values"]
    assert [event["text"] for event in values["events"] if event["kind"] == "task"] == [f"Task {n}." for n in range(4)]


def test_assistants_tell_what_they_take(server: Any, connect: Any) -> None:
    """The presets are found by name, with their schemas and drawings."""
    client = connect(server.url)
    found = client.assistants.search(limit=100)
    assert {"refine", "math", "writing", "travel", "refine-with-a-person"} <= {one["assistant_id"] for one in found}
    assert "retrieval" not in {one["assistant_id"] for one in found}
    assert client.assistants.get("refine")["graph_id"] == "refine"
    schemas = client.assistants.get_schemas("refine")
    assert "task" in schemas["input_schema"]["properties"]  # type: ignore[index]
    assert "answer" in schemas["output_schema"]["properties"]  # type: ignore[index]
    assert {node["id"] for node in client.assistants.get_graph("refine")["nodes"]} >= {"generate", "refine"}
    with pytest.raises(NotFoundError):
        client.assistants.get("nothing")


@pytest.mark.parametrize("name", ["math", "writing", "travel", "rubric", "reasoning", "zero-shot", "few-shot"])
def test_every_preset_can_be_asked_for(server: Any, name: str, connect: Any) -> None:
    """Each preset that is listed has a graph, on the one model of the server."""
    assert connect(server.url).assistants.get_schemas(name)["input_schema"]


def test_a_run_over_http_goes_on_from_the_callers_draft(server: Any, talking: Any, connect: Any) -> None:
    """A `draft` beside the task is judged first; no call writes another one."""
    output = connect(server.url).runs.wait(None, "refine", input={**TASK, "draft": "My autumn."})
    assert [event["text"] for event in output["events"] if event["kind"] == "draft"] == ["My autumn."]
    assert (output["answer"], len(talking.model.calls)) == ("second draft", 3)


def test_stateless_runs_leave_nothing(server: Any, connect: Any) -> None:
    """A run without a thread gives its output, and nothing of it is kept."""
    client = connect(server.url)
    assert client.runs.wait(None, "refine", input=TASK)["answer"] == "second draft"
    assert client.threads.count() == 0
    kept = client.runs.create(None, "refine", input=TASK)
    assert kept["status"] in ("pending", "running")


def test_a_wrong_request_says_what_is_wrong(server: Any, connect: Any) -> None:
    """The clients raise their own errors, with a sentence of ours."""
    client = connect(server.url)
    name = client.threads.create()["thread_id"]
    with pytest.raises(UnprocessableEntityError, match="task"):
        client.runs.create(name, "refine", input={"tusk": "x"})
    wrong_numbers = (({"top_k": 0}, "top_k"), ({"confidence_threshold": "x"}, "between"))
    for wrong, says in (({"draft": 7}, "draft"), ({"max_tokens": 1}, "takes no 'max_tokens'"), *wrong_numbers):
        with pytest.raises(UnprocessableEntityError, match=says):
            client.runs.create(name, "refine", input={**TASK, **wrong})
    with pytest.raises(UnprocessableEntityError, match="stream modes are"):
        list(client.runs.stream(name, "refine", input=TASK, stream_mode="everything"))
    with pytest.raises(ConflictError):
        client.threads.create(thread_id=name)
    assert client.threads.create(thread_id=name, if_exists="do_nothing")["thread_id"] == name


def test_a_pipeline_is_served_under_its_name(start_server: Any, talking: Any, connect: Any) -> None:
    """It takes the caller's task and draft, and its thread keeps the recipe that the shell resumes it by."""
    server = start_server(pipelines={"two-steps": "UseThinking | UseDraft | UseCritique | UseImprove"})
    client = connect(server.url)
    (found,) = client.assistants.search(name="two-steps")
    assert found["description"] == "UseThinking | UseDraft | UseCritique | UseImprove"
    thread = client.threads.create()["thread_id"]
    output = client.runs.wait(thread, "two-steps", input=TASK)
    assert [event["kind"] for event in output["events"]][:3] == ["task", "thought", "draft"]
    assert output["answer"] == "first draft"
    own = client.runs.wait(None, "two-steps", input={**TASK, "draft": "My autumn."})
    assert "My autumn." in [event["text"] for event in own["events"] if event["kind"] == "draft"]
    recipe, own = RunConfig.kept(server.app.state.engine.saver, thread)
    assert (recipe.preset, recipe.options["pipeline"], own) == ("pipeline", found["description"], True)


def test_a_recipe_is_served_under_its_name(start_server: Any, connect: Any) -> None:
    """It is an assistant with the judges, prompts and rounds that the recipe says, and its threads keep them."""
    recipe = {"model": "local", "verifiers": ["length:-3 words"], "limits": {"max_rounds": 1}}
    server = start_server(recipes={"short": recipe}, build_model=lambda spec: ScriptedModel(["Too long a text."] * 9))
    client = connect(server.url)
    thread = client.threads.create()["thread_id"]
    output = client.runs.wait(thread, "short", input=TASK)
    assert (output["stop_reason"], output["rounds"]) == ("max_rounds", 1)
    assert client.threads.get_state(thread)["values"]["limits"]["max_rounds"] == 1
    kept, own = RunConfig.kept(server.app.state.engine.saver, thread)
    assert (kept.preset, kept.verifiers, own) == ("refine", ("length:-3 words",), True)


@pytest.mark.parametrize(
    ("recipes", "says"),
    [
        ({"mine": {"preset": "refind"}}, "the recipe mine: .*refind"),
        ({"mine": {"verifierz": []}}, "the recipe mine: verifierz"),
        ({"mine": {"model": "openai:gpt-5"}}, "is for the model openai:gpt-5: serve it with --model openai:gpt-5"),
        ({"My own": {}}, "under a name of"),
        ({"math": {}}, "'math' is taken"),
    ],
)
def test_a_recipe_that_cant_be_served_ends_the_server_at_once(recipes: Any, says: str) -> None:
    """And not its first run."""
    from redraft.server.engine.assistants import assistants_of
    from redraft.server.settings import Settings

    with pytest.raises(ValueError, match=says):
        assistants_of(Settings(recipes=recipes))


@pytest.mark.parametrize(
    ("pipelines", "says"),
    [
        ({"tea": "SetTopic('Tea') | UseDraft"}, "sets its topic"),
        ({"tea": "UseDarft"}, "the pipeline tea: there is no step 'UseDarft'"),
        ({"tea": "UseDir('/nowhere/at/all') | UseDraft"}, "there is no folder"),
        ({"Tea time": "UseDraft"}, "under a name of"),
        ({"refine": "UseDraft"}, "'refine' is taken"),
    ],
)
def test_a_pipeline_that_cant_be_served_ends_the_server_at_once(start_server: Any, pipelines: Any, says: str) -> None:
    """And not its first run."""
    from redraft.server.engine.assistants import assistants_of
    from redraft.server.settings import Settings

    with pytest.raises(ValueError, match=says):
        assistants_of(Settings(pipelines=pipelines))
