"""Callers make assistants of the presets, in versions, and keep values in the store, each apart from every other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError
from redraft.state.storage.rekey import rekey

TASK = {"task": "Write about autumn."}


def test_an_assistant_is_made_changed_and_run(start_server: Any, checkpointer_url: str) -> None:
    """An assistant of a preset with options runs as they say; each change is a version, to which one can go back, and a
    run may say otherwise for itself. Of changes at the same moment none is lost. It outlives the server, on every
    database."""
    server = start_server(db=checkpointer_url)
    with get_sync_client(url=server.url) as client:
        made = client.assistants.create("refine", context={"verifiers": ["uses_words:first"]}, name="Firsts",
                                        metadata={"team": "a"})  # fmt: skip
        name = made["assistant_id"]
        assert (made["version"], made["graph_id"], made["name"]) == (1, "refine", "Firsts")
        run = client.runs.create(None, name, input=TASK, on_completion="keep")
        assert (run["assistant_id"], client.runs.join(run["thread_id"], run["run_id"])["answer"]) == (
            name, "first draft"
        )  # fmt: skip
        assert client.threads.get(run["thread_id"])["metadata"]["graph_id"] == "refine"
        changed = client.assistants.update(
            name, context={"verifiers": ["uses_words:second"]}, metadata={"colour": "red"}
        )
        assert (changed["version"], changed["metadata"]) == (2, {"team": "a", "colour": "red"})
        assert client.runs.wait(None, name, input=TASK)["stop_reason"] != "accepted"
        assert [one["version"] for one in client.assistants.get_versions(name)] == [2, 1]
        assert client.assistants.set_latest(name, 1)["context"] == {"verifiers": ["uses_words:first"]}
        assert client.runs.wait(None, name, input=TASK)["answer"] == "first draft"
        own = client.runs.wait(None, name, input=TASK, context={"verifiers": ["uses_words:autumn"]})
        assert own["stop_reason"] != "accepted"
        assert [one["assistant_id"] for one in client.assistants.search(metadata={"team": "a"})] == [name]
        assert client.assistants.count(graph_id="refine") == 2
        schemas = client.assistants.get_schemas(name)
        assert "verifiers" in schemas["context_schema"]["properties"]
        assert client.assistants.get_graph(name)["nodes"]
        with ThreadPoolExecutor(8) as pool:
            each = [*pool.map(lambda at: client.assistants.update(name, metadata={f"n{at}": at}), range(8))]
        assert sorted(one["version"] for one in each) == [*range(3, 11)]
        assert client.assistants.get(name)["metadata"].items() >= {f"n{at}": at for at in range(8)}.items()
        assert client.assistants.update(name, graph_id="zero-shot")["context"] == {}
    if checkpointer_url == "memory":
        return
    server.stop()
    with get_sync_client(url=start_server(db=checkpointer_url).url) as client:
        assert client.assistants.get(name)["graph_id"] == "zero-shot"
        assert client.runs.wait(None, name, input=TASK)["answer"] == "first draft"
        client.assistants.delete(name)
        with pytest.raises(NotFoundError):
            client.assistants.get(name)
        with pytest.raises(NotFoundError):
            client.runs.create(None, name, input=TASK)


REFUSED = (
    {"context": {"judge": "/etc/passwd"}},
    {"context": {"verifiers": ["json_schema:/etc/passwd"]}},
    {"context": {"model": "http://169.254.169.254/"}},
    {"config": {"configurable": {"prices": "/etc/passwd"}}},
    {"config": {"configurable": "x"}},
    {"context": {"verifiers": ["uses_words:" + "x" * 20_000]}},
    {"metadata": {"a": "x" * 20_000}},
)


def test_an_assistant_holds_nothing_that_is_the_servers(server: Any) -> None:
    """No path, address or model beyond those that callers may name stands in an assistant, new or changed; the presets
    stay as they are."""
    with get_sync_client(url=server.url) as client:
        name = client.assistants.create("refine", assistant_id="mine")["assistant_id"]
        for given in REFUSED:
            with pytest.raises(UnprocessableEntityError):
                client.assistants.create("refine", **given)
            with pytest.raises(UnprocessableEntityError):
                client.assistants.update(name, **given)
        with pytest.raises(NotFoundError):
            client.assistants.create("nothing")
        for taken in (name, "refine"):
            with pytest.raises(ConflictError):
                client.assistants.create("refine", assistant_id=taken)
        assert client.assistants.create("zero-shot", assistant_id=name, if_exists="do_nothing")["graph_id"] == "refine"
        for change in (
            lambda: client.assistants.update("refine", name="x"),
            lambda: client.assistants.delete("refine"),
            lambda: client.assistants.set_latest("refine", 1),
        ):
            with pytest.raises(UnprocessableEntityError, match="stays as it is"):
                change()
        with pytest.raises(NotFoundError, match="no such version"):
            client.assistants.set_latest(name, 7)
        assert client.assistants.get_versions("refine")[0]["version"] == 1


def test_values_are_kept_and_found(start_server: Any, checkpointer_url: str) -> None:
    """The store keeps values under namespaces and keys, finds them by namespace and by what they hold, and forgets
    them, on every database."""
    with get_sync_client(url=start_server(db=checkpointer_url).url) as client:
        store = client.store
        assert store.get_item(["a"], key="x") is None
        for space, key, value in ((["a"], "x", {"n": 1}), (["a", "b"], "y", {"n": 2}), (["ab"], "z", {"n": "2"})):
            store.put_item(space, key=key, value=value)
        store.put_item(["a"], key="x", value={"n": 3})
        item = store.get_item(["a"], key="x")
        assert (item["value"], item["namespace"]) == ({"n": 3}, ["a"])
        assert item["created_at"] < item["updated_at"]

        def found(*prefix: str, **wanted: Any) -> list[str]:
            return [one["key"] for one in store.search_items(list(prefix), **wanted)["items"]]

        assert found("a") == ["x", "y"]
        assert sorted(found()) == ["x", "y", "z"]
        assert found("a", limit=1, offset=1) == ["y"]
        assert found(filter={"n": 3}) == ["x"]
        assert found(filter={"n": {"$gte": 2}}) == ["x", "y"]
        assert found("b") == []
        assert store.list_namespaces()["namespaces"] == [["a"], ["a", "b"], ["ab"]]
        assert store.list_namespaces(prefix=["a"], max_depth=1)["namespaces"] == [["a"]]
        assert store.list_namespaces(suffix=["b"])["namespaces"] == [["a", "b"]]
        store.delete_item(["a"], key="x")
        assert found("a") == ["y"]
        for wrong in (
            lambda: store.put_item(["a.b"], key="x", value={}),
            lambda: store.put_item([], key="x", value={}),
            lambda: store.put_item(["a"], key="", value={}),
            lambda: store.put_item(["a"], key="x", value={"a": "x" * 20_000}),
            lambda: store.put_item(["a"], key="x", value={}, ttl=5),
            lambda: store.put_item(["a"], key="x", value={}, index=["n"]),
            lambda: store.search_items(["a"], query="meaning"),
            lambda: store.search_items(["a"], filter={"n": {"$where": "1"}}),
        ):
            with pytest.raises((UnprocessableEntityError, ValueError)):
                wrong()


def test_nobody_sees_what_another_keeps(start_server: Any, tokens: Any) -> None:
    """Assistants and values of one caller are not there for another, under the same names too."""
    server = start_server(tokens=tokens)
    with (
        get_sync_client(url=server.url, api_key=tokens[0]) as mine,
        get_sync_client(url=server.url, api_key=tokens[1]) as theirs,
    ):
        mine.assistants.create("refine", assistant_id="one", metadata={"secret": "red"})
        mine.store.put_item(["a"], key="x", value={"secret": "red"})
        assert theirs.store.get_item(["a"], key="x") is None
        assert theirs.store.search_items([])["items"] == theirs.store.list_namespaces()["namespaces"] == []
        theirs.store.delete_item(["a"], key="x")
        for ask in (
            lambda: theirs.assistants.get("one"),
            lambda: theirs.assistants.update("one", name="x"),
            lambda: theirs.assistants.delete("one"),
            lambda: theirs.assistants.get_versions("one"),
            lambda: theirs.assistants.get_schemas("one"),
            lambda: theirs.runs.create(None, "one", input=TASK),
        ):
            with pytest.raises(NotFoundError):
                ask()
        assert theirs.assistants.search(metadata={"secret": "red"}) == []
        assert theirs.assistants.create("zero-shot", assistant_id="one")["graph_id"] == "zero-shot"
        theirs.store.put_item(["a"], key="x", value={"n": 1})
        assert mine.assistants.get("one")["graph_id"] == "refine"
        assert mine.store.get_item(["a"], key="x")["value"] == {"secret": "red"}


def test_what_is_kept_is_encrypted(start_server: Any, tmp_path: Any, monkeypatch: Any) -> None:
    """In an encrypted database neither values nor assistants can be read, and a new key leaves them whole."""
    path = tmp_path / "kept.sqlite"
    old, new = "0" * 64, "1" * 64
    monkeypatch.setenv("REDRAFT_ENCRYPTION_KEY", old)
    server = start_server(db=str(path))
    with get_sync_client(url=server.url) as client:
        client.store.put_item(["a"], key="x", value={"said": "marigold"})
        client.assistants.create("refine", assistant_id="one", metadata={"said": "marigold"})
    server.stop()
    assert not any(b"marigold" in part.read_bytes() for part in tmp_path.iterdir())
    rekey(path, old, new)
    monkeypatch.setenv("REDRAFT_ENCRYPTION_KEY", new)
    with get_sync_client(url=start_server(db=str(path)).url) as client:
        assert client.store.get_item(["a"], key="x")["value"] == {"said": "marigold"}
        assert client.assistants.get("one")["metadata"] == {"said": "marigold"}


def test_a_filter_names_a_hundred_fields_at_most(server: Any) -> None:
    """A filter, or a selection, of more fields is refused in words before anything is looked through."""
    few, many = ({f"n{at}": None for at in range(number)} for number in (100, 101))
    searches = {"/store/items/search": "filter", "/threads/search": "metadata", "/assistants/search": "metadata"}
    for path, name in searches.items():
        assert httpx.post(f"{server.url}{path}", json={name: few}).status_code == 200
        refused = httpx.post(f"{server.url}{path}", json={name: many})
        assert refused.status_code == 422
        assert "at most 100 names, not 101" in refused.json()["error"]["message"]
    assert httpx.post(f"{server.url}/threads/search", json={"select": [*many]}).status_code == 422
    faulty = httpx.post(f"{server.url}/threads/prune", json={"thread_ids": [1] * 900})
    assert "too many faults" in faulty.json()["error"]["message"]
