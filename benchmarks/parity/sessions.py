"""Client sessions that run alike on any server of LangGraph's protocol, and what each of them saw.

A session is a function of a client and of `see(name, value)`. It looks at what a program would look at: answers,
states, statuses, codes, events. The model that both servers ask finds fault with a first draft and is content with a
second; a task with the word SLOWLY takes it a second for each call, and one with the word FAIL is refused.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
from langgraph.pregel.remote import RemoteGraph
from langgraph_sdk.errors import APIStatusError

__all__ = ["SESSIONS", "See"]

See = Callable[[str, Any], None]
Session = Callable[[Any, See, str], Awaitable[None]]
SESSIONS: dict[str, Session] = {}

TASK = {"task": "Write about autumn."}
SLOW = {"task": "Write SLOWLY about autumn."}
JSON = {"content-type": "application/json"}
ANSWERS = ("answer", "stop_reason", "accepted_by")


def session(function: Session) -> Session:
    SESSIONS[function.__name__.replace("_", " ")] = function
    return function


async def code(see: See, name: str, asked: Awaitable[Any]) -> Any:
    """Note the status code of a request, and return what it gave."""
    try:
        value = await asked
    except (httpx.HTTPStatusError, APIStatusError) as error:
        see(name, error.response.status_code)
        return None
    except Exception as error:  # the client raises what a run ended by as this
        see(name, f"a run that ended by {str(error).partition(':')[0]}")
        return None
    see(name, 200)
    return value


def answers(values: Any) -> Any:
    """Return what a program reads of a run's output."""
    if not isinstance(values, dict):
        return type(values).__name__
    return {name: values.get(name) for name in ANSWERS} | {"interrupted": "__interrupt__" in values}


async def until(client: Any, run: Any, *statuses: str) -> str:
    """Wait until a run has one of some statuses, and return it."""
    for _ in range(600):
        status = (await client.runs.get(run["thread_id"], run["run_id"]))["status"]
        if status in statuses:
            return str(status)
        await asyncio.sleep(0.05)
    return "never"


async def thread(client: Any, **options: Any) -> str:
    return str((await client.threads.create(**options))["thread_id"])


def shape(value: Any) -> Any:
    """Return which keys there are, without what they hold."""
    return sorted(value) if isinstance(value, dict) else type(value).__name__


def state_of(state: Any) -> Any:
    """Return what a program reads of a thread's state."""
    return {
        "keys": shape(state),
        "next": state["next"],
        "answer": answers(state["values"]),
        "tasks": [
            {"keys": shape(task), "name": task["name"], "error": bool(task["error"]), "asks": len(task["interrupts"])}
            for task in state["tasks"]
        ],
        "metadata": {name: (state["metadata"] or {}).get(name) for name in ("source", "step")},
    }


@session
async def a_run_is_waited_for(client: Any, see: See, _: str) -> None:
    made = await client.threads.create(metadata={"who": "me"})
    see("a new thread", made)
    values = await client.runs.wait(made["thread_id"], "refine", input=TASK)
    see("the output", answers(values))
    see("keys of the output", shape(values))
    see("kinds of events", [event["kind"] for event in values["events"]])
    after = await client.threads.get(made["thread_id"])
    see("the thread", {name: after.get(name) for name in ("status", "metadata", "interrupts", "error")})
    see("keys of the thread", shape(after))
    see("its values", answers(after["values"]))
    (run,) = await client.runs.list(made["thread_id"])
    see("keys of the run", shape(run))
    see("the run", {name: run.get(name) for name in ("status", "metadata", "multitask_strategy")})
    see("its state", state_of(await client.threads.get_state(made["thread_id"])))
    history = await client.threads.get_history(made["thread_id"], limit=100)
    see("its history", [state_of(state) for state in history])


@session
async def a_run_is_streamed(client: Any, see: See, _: str) -> None:
    for mode in ("values", "updates", "tasks", "checkpoints", "debug", "messages-tuple", "messages", "custom"):
        name = await thread(client)
        parts = [part async for part in client.runs.stream(name, "refine", input=TASK, stream_mode=mode)]
        events = [part.event for part in parts]
        see(f"{mode}: events", [event for index, event in enumerate(events) if events[index - 1 : index] != [event]])
        if mode in ("updates", "tasks", "checkpoints", "values"):
            see(f"{mode}: what each holds", [shape(part.data) for part in parts])
    name = await thread(client)
    modes = ["values", "updates"]
    parts = [part async for part in client.runs.stream(name, "refine", input=TASK, stream_mode=modes)]
    see("values and updates: events", [part.event for part in parts])
    see("the last values", answers([part for part in parts if part.event == "values"][-1].data))


@session
async def a_chat_sees_one_answer(client: Any, see: See, _: str) -> None:
    name = await thread(client)
    said = {"messages": [{"role": "user", "content": "Write about autumn."}]}
    async for part in client.runs.stream(name, "refine", input=said, stream_mode="messages"):
        if part.event == "messages/complete":
            see("a complete message", [message["content"] for message in part.data])
    state = await client.threads.get_state(name)
    see("the conversation", [(one["type"], one["content"]) for one in state["values"]["messages"]])


@session
async def without_a_thread(client: Any, see: See, _: str) -> None:
    values = await client.runs.wait(None, "refine", input=TASK)
    see("the output", answers(values))
    parts = [part async for part in client.runs.stream(None, "refine", input=TASK, stream_mode="values")]
    see("the stream", [part.event for part in parts][:1] + [part.event for part in parts][-1:])
    see("its answer", answers(parts[-1].data))
    runs = await client.runs.create_batch([{"assistant_id": "refine", "input": TASK}] * 2)
    see("a batch", [run["status"] for run in runs])
    see("keys of a run", shape(runs[0]))
    kept = await client.runs.create(None, "refine", input=TASK, on_completion="keep")
    see("a kept one", answers(await client.runs.join(kept["thread_id"], kept["run_id"])))
    see("its thread", (await client.threads.get(kept["thread_id"]))["status"])


@session
async def a_person_is_asked(client: Any, see: See, _: str) -> None:
    for reply, title in (("accept", "accepted"), ("Name the month.", "told")):
        name = await thread(client)
        values = await client.runs.wait(name, "refine-with-a-person", input=TASK)
        see(f"{title}: asks", answers(values))
        see(f"{title}: keys of the question", shape(values["__interrupt__"][0]["value"]))
        see(f"{title}: keys of the interrupt", shape(values["__interrupt__"][0]))
        asked = await client.threads.get(name)
        see(f"{title}: status", asked["status"])
        see(f"{title}: interrupts", [[shape(one) for one in many] for many in asked["interrupts"].values()])
        see(f"{title}: state", state_of(await client.threads.get_state(name)))
        (run,) = await client.runs.list(name)
        see(f"{title}: the run", run["status"])
        values = await client.runs.wait(name, "refine-with-a-person", command={"resume": reply})
        see(f"{title}: afterwards", answers(values))
        see(f"{title}: status afterwards", (await client.threads.get(name))["status"])


@session
async def a_question_is_streamed_and_answered_by_id(client: Any, see: See, _: str) -> None:
    name = await thread(client)
    stream = client.runs.stream(name, "refine-with-a-person", input=TASK, stream_mode=["updates", "values"])
    parts = [part async for part in stream]
    see("events", [part.event for part in parts])
    see("the last", shape(parts[-1].data))
    asked = next(part.data["__interrupt__"] for part in parts if "__interrupt__" in (part.data or {}))
    see("a question", shape(asked[0]))
    resume = {"resume": {asked[0]["id"]: "accept"}}
    stream = client.runs.stream(name, "refine-with-a-person", command=resume, stream_mode="values")
    see("afterwards", answers([part async for part in stream][-1].data))


@session
async def a_cancelled_run_goes_on(client: Any, see: See, _: str) -> None:
    name = await thread(client)
    run = await client.runs.create(name, "refine", input=SLOW)
    see("begun", await until(client, run, "running"))
    see("the thread meanwhile", (await client.threads.get(name))["status"])
    await asyncio.sleep(1.5)
    await code(see, "cancel", client.runs.cancel(name, run["run_id"], wait=True))
    see("the run", await until(client, run, "interrupted", "error", "success"))
    see("the thread", (await client.threads.get(name))["status"])
    see("state", state_of(await client.threads.get_state(name)))
    await code(see, "cancel again", client.runs.cancel(name, run["run_id"], wait=True))
    see("goes on", answers(await client.runs.wait(name, "refine")))
    see("the thread afterwards", (await client.threads.get(name))["status"])


@session
async def a_thread_is_forked(client: Any, see: See, _: str) -> None:
    name = await thread(client)
    await client.runs.wait(name, "refine", input=TASK)
    history = await client.threads.get_history(name, limit=100)
    old = next(state for state in history if "feedback" in state["next"])
    see("keys of a checkpoint", shape(old["checkpoint"]))
    values = await client.runs.wait(name, "refine", checkpoint_id=old["checkpoint"]["checkpoint_id"])
    see("from a checkpoint's id", answers(values))
    values = await client.runs.wait(name, "refine", checkpoint=old["checkpoint"])
    see("from a checkpoint", answers(values))
    made = await client.threads.update_state(name, {"feedback": "Name the month."})
    see("keys of an update's answer", shape(made))
    see("keys of its checkpoint", shape(made["checkpoint"]))
    see("state after an update", state_of(await client.threads.get_state(name)))
    forked = await client.threads.update_state(name, {"feedback": "Name the month."}, checkpoint=old["checkpoint"])
    see("state after an update of an old one", state_of(await client.threads.get_state(name)))
    state = await client.threads.get_state(name, checkpoint=forked["checkpoint"])
    see("state by checkpoint", state_of(state))
    see("goes on", answers(await client.runs.wait(name, "refine")))
    see("one state of the history", len(await client.threads.get_history(name, limit=1)))
    before = await client.threads.get_history(name, before={"configurable": history[1]["checkpoint"]})
    see("the history before one", [state["next"] for state in before])
    copied = await client.threads.copy(name)
    see("keys of a copy", shape(copied))
    same = await client.threads.get_state(copied["thread_id"])
    see("the copy's state", state_of(same))


@session
async def runs_in_the_background(client: Any, see: See, _: str) -> None:
    name = await thread(client)
    run = await client.runs.create(name, "refine", input=TASK, metadata={"a": 1})
    see("created", {key: run[key] for key in ("status", "multitask_strategy")})
    see("keys", shape(run))
    see("metadata", run["metadata"].get("a"))
    see("joined", answers(await client.runs.join(name, run["run_id"])))
    see("joined again", answers(await client.runs.join(name, run["run_id"])))
    run = await client.runs.create(name, "refine", input=SLOW, stream_mode=["values"], stream_resumable=True)
    parts = [part async for part in client.runs.join_stream(name, run["run_id"], stream_mode="values")]
    see("a joined stream ends with", answers(parts[-1].data))
    see("its kinds", sorted({part.event for part in parts}))
    see("listed", [one["status"] for one in await client.runs.list(name)])
    see("listed by status", len(await client.runs.list(name, status="success")))
    see("listed by limit", len(await client.runs.list(name, limit=1)))
    await code(see, "deleted", client.runs.delete(name, run["run_id"]))
    await code(see, "gone", client.runs.get(name, run["run_id"]))
    see("left", len(await client.runs.list(name)))


@session
async def two_runs_on_one_thread(client: Any, see: See, _: str) -> None:
    for strategy in ("reject", "enqueue", "interrupt", "rollback"):
        name = await thread(client)
        first = await client.runs.create(name, "refine", input=SLOW)
        await until(client, first, "running")
        asked = client.runs.create(name, "refine", input=TASK, multitask_strategy=strategy)
        second = await code(see, f"{strategy}: second", asked)
        if second:
            see(f"{strategy}: answer of the second", answers(await client.runs.join(name, second["run_id"])))
        await client.runs.join(name, first["run_id"]) if strategy in ("reject", "enqueue") else None
        runs = await client.runs.list(name)
        see(f"{strategy}: runs", sorted(run["status"] for run in runs))
        see(f"{strategy}: the thread", (await client.threads.get(name))["status"])


@session
async def assistants_are_found_and_made(client: Any, see: See, _: str) -> None:
    (stock,) = await client.assistants.search(graph_id="refine", metadata={"created_by": "system"}) or [{}]
    see("keys", shape(stock))
    see("the preset's", {key: stock.get(key) for key in ("graph_id", "name", "metadata", "version", "config")})
    made = await client.assistants.create("refine", name="mine", metadata={"colour": "red"})
    see("made", {key: made.get(key) for key in ("graph_id", "name", "metadata", "version", "context", "description")})
    see("found", [one["name"] for one in await client.assistants.search(metadata={"colour": "red"})])
    see("counted", await client.assistants.count(metadata={"colour": "red"}))
    changed = await client.assistants.update(made["assistant_id"], name="ours", metadata={"size": 1})
    see("changed", {key: changed.get(key) for key in ("name", "metadata", "version")})
    versions = await client.assistants.get_versions(made["assistant_id"])
    see("versions", [one["version"] for one in versions])
    see("keys of a version", shape(versions[0]))
    back = await client.assistants.set_latest(made["assistant_id"], 1)
    see("set back", {key: back.get(key) for key in ("name", "metadata", "version")})
    see("run by id", answers(await client.runs.wait(None, made["assistant_id"], input=TASK)))
    await code(see, "a graph by its name", client.assistants.get_graph("refine"))
    mine = made["assistant_id"]
    graph = await client.assistants.get_graph(mine)
    see("nodes of the graph", sorted(str(node["id"]) for node in graph["nodes"]))
    see("edges of the graph", sorted(f"{edge['source']} {edge['target']}" for edge in graph["edges"]))
    see("keys of the schemas", shape(await client.assistants.get_schemas(mine)))
    see("subgraphs", shape(await client.assistants.get_subgraphs(mine)))
    await code(see, "deleted", client.assistants.delete(made["assistant_id"]))
    await code(see, "gone", client.assistants.get(made["assistant_id"]))
    await code(see, "a graph that is not there", client.assistants.create("nothing"))
    name = str(uuid.uuid4())
    await client.assistants.create("refine", assistant_id=name)
    await code(see, "an id twice", client.assistants.create("refine", assistant_id=name))
    same = client.assistants.create("refine", assistant_id=name, if_exists="do_nothing")
    await code(see, "an id twice, if it exists nothing", same)


@session
async def threads_are_kept(client: Any, see: See, _: str) -> None:
    mark = str(uuid.uuid4())
    name = str(uuid.uuid4())
    made = await client.threads.create(thread_id=name, metadata={"mark": mark})
    see("keys", shape(made))
    see("made", {key: made.get(key) for key in ("status", "values", "interrupts")})
    await code(see, "an id twice", client.threads.create(thread_id=name))
    await code(see, "an id twice, if it exists nothing", client.threads.create(thread_id=name, if_exists="do_nothing"))
    changed = await client.threads.update(name, metadata={"more": 1})
    see("changed", changed["metadata"].get("more"))
    see("found", len(await client.threads.search(metadata={"mark": mark})))
    see("found idle", len(await client.threads.search(metadata={"mark": mark}, status="idle")))
    see("counted", await client.threads.count(metadata={"mark": mark}))
    see("selected", await client.threads.search(metadata={"mark": mark}, select=["status"]))
    state = await client.threads.get_state(name)
    see("keys of an empty state", shape(state))
    see("an empty state", {key: state[key] for key in ("values", "next", "tasks")})
    see("no history", await client.threads.get_history(name))
    await code(see, "deleted", client.threads.delete(name))
    await code(see, "gone", client.threads.get(name))
    await code(see, "deleted again", client.threads.delete(name))
    see("a run makes a thread", answers(
        await client.runs.wait(str(uuid.uuid4()), "refine", input=TASK, if_not_exists="create")))  # fmt: skip


@session
async def the_store(client: Any, see: See, _: str) -> None:
    space = ["parity", str(uuid.uuid4())]
    see("put", await client.store.put_item(space, "a", {"text": "one", "n": 1}))
    await client.store.put_item(space, "b", {"text": "two", "n": 2})
    item = await client.store.get_item(space, "a")
    see("keys", shape(item))
    see("got", item["value"])
    found = await client.store.search_items(space)
    see("found", sorted(one["key"] for one in found["items"]))
    see("keys of what was found", shape(found["items"][0]))
    see("filtered", [one["key"] for one in (await client.store.search_items(space, filter={"n": 2}))["items"]])
    spaces = await client.store.list_namespaces(prefix=space)
    see("namespaces", len(spaces["namespaces"]))
    see("deleted", await client.store.delete_item(space, "a"))
    see("left", [one["key"] for one in (await client.store.search_items(space))["items"]])
    await code(see, "not there", client.store.get_item(space, "a"))
    await code(see, "deleted again", client.store.delete_item(space, "a"))
    await code(see, "a dot in a namespace", client.store.put_item(["a.b"], "a", {}))


@session
async def errors(client: Any, see: See, url: str) -> None:
    name, nobody = await thread(client), str(uuid.uuid4())
    await code(see, "no such assistant", client.runs.wait(name, "nothing", input=TASK))
    await code(see, "no such assistant id", client.runs.wait(name, nobody, input=TASK))
    await code(see, "no such thread", client.runs.wait(nobody, "refine", input=TASK))
    await code(see, "no such thread to read", client.threads.get(nobody))
    await code(see, "no such thread's state", client.threads.get_state(nobody))
    await code(see, "no such thread's history", client.threads.get_history(nobody))
    await code(see, "no such thread to copy", client.threads.copy(nobody))
    await code(see, "no such run", client.runs.get(name, nobody))
    await code(see, "no such run to join", client.runs.join(name, nobody))
    await code(see, "no such run to cancel", client.runs.cancel(name, nobody))
    await code(see, "no such run to delete", client.runs.delete(name, nobody))
    await code(see, "no such checkpoint", client.runs.wait(name, "refine", checkpoint_id=nobody))
    await code(see, "a thread's id that is none", client.threads.get("no-uuid"))
    await code(see, "no such stream mode", client.runs.create(name, "refine", input=TASK, stream_mode="nothing"))
    await code(see, "no such strategy", client.runs.create(name, "refine", input=TASK, multitask_strategy="nothing"))
    await code(
        see, "no such node to update as", client.threads.update_state(name, {"feedback": "x"}, as_node="nothing")
    )
    async with httpx.AsyncClient(base_url=url) as http:
        for title, method, path, options in (
            ("no such path", "GET", "/nothing", {}),
            ("no such method", "PUT", "/threads", {}),
            ("no JSON", "POST", f"/threads/{name}/runs/wait", {"content": b"{", "headers": JSON}),
            ("a list in place of an object", "POST", f"/threads/{name}/runs/wait", {"json": []}),
            ("no assistant", "POST", f"/threads/{name}/runs/wait", {"json": {"input": TASK}}),
            ("is there", "GET", "/ok", {}),
            ("info", "GET", "/info", {}),
        ):
            reply = await http.request(method, path, **options)
            kind = reply.headers.get("content-type", "").partition(";")[0]
            see(title, [reply.status_code, kind])
            if reply.status_code >= 400:
                see(f"{title}: has detail", "detail" in reply.json())
    await code(see, "an input of another type", client.runs.wait(name, "refine", input={"task": 7}))
    await code(see, "an input that lacks the task", client.runs.wait(name, "refine", input={"tusk": "x"}))


@session
async def a_model_that_fails(client: Any, see: See, _: str) -> None:
    name = await thread(client)
    values = await client.runs.wait(name, "refine", input={"task": "FAIL"}, raise_error=False)
    see("the output", answers(values))
    see("the thread", (await client.threads.get(name))["status"])
    see("the run", (await client.runs.list(name))[0]["status"])
    parts = [part async for part in client.runs.stream(await thread(client), "refine", input={"task": "FAIL"})]
    see("the stream's last", parts[-1].event)


@session
async def where_a_run_stops(client: Any, see: See, _: str) -> None:
    name = await thread(client)
    values = await client.runs.wait(name, "refine", input=TASK, interrupt_before=["feedback"])
    see("before feedback", answers(values))
    see("thread", (await client.threads.get(name))["status"])
    see("state", state_of(await client.threads.get_state(name)))
    see("goes on", answers(await client.runs.wait(name, "refine")))
    name = await thread(client)
    await client.runs.wait(name, "refine", input=TASK, interrupt_after=["generate"])
    see("after generate", state_of(await client.threads.get_state(name)))
    await code(see, "at a node that is not there", client.runs.wait(name, "refine", input=TASK, interrupt_before=["x"]))


@session
async def later_and_hooks(client: Any, see: See, _: str) -> None:
    name = await thread(client)
    run = await client.runs.create(name, "refine", input=TASK, after_seconds=60)
    see("later", run["status"])
    see("the thread", (await client.threads.get(name))["status"])
    await code(see, "cancelled", client.runs.cancel(name, run["run_id"], wait=True))
    see("the run", await until(client, run, "interrupted", "error", "success"))
    await code(see, "cancelled many", client.runs.cancel_many(thread_id=name, status="all"))
    see("the thread afterwards", (await client.threads.get(name))["status"])


@session
async def a_remote_graph(client: Any, see: See, url: str) -> None:
    graph = RemoteGraph("refine", url=url)
    see("invoke", answers(await graph.ainvoke(TASK)))
    config: Any = {"configurable": {"thread_id": await thread(client)}}
    parts = [part async for part in graph.astream(TASK, config, stream_mode="updates")]
    see("updates", [shape(part) for part in parts])
    state = await graph.aget_state(config)
    see("next", list(state.next))
    see("values", answers(state.values))
    see("source", (state.metadata or {}).get("source"))
    see("history", [list(one.next) async for one in graph.aget_state_history(config)])
    changed = await graph.aupdate_state(config, {"feedback": "Name the month."})
    see("an update", shape(changed["configurable"]))
    see("goes on", answers(await graph.ainvoke(None, config)))
    drawn = await graph.aget_graph()
    see("nodes", sorted(drawn.nodes))


@session
async def crons(client: Any, see: See, _: str) -> None:
    made = await code(see, "create", client.crons.create("refine", schedule="0 0 1 1 *", input=TASK))
    await code(see, "search", client.crons.search())
    if made:
        await client.crons.delete(made["cron_id"])
