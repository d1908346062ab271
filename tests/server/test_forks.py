"""A thread is forked over HTTP: into a new one, or within itself by what LangGraph's client calls a state update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError

if TYPE_CHECKING:
    from collections.abc import Callable

TASK = {"task": "Write about autumn."}


@pytest.fixture
def client(start_server: Callable[..., Any], checkpointer_url: str) -> Any:
    """A client, and the thread `story`: a first draft, `Name the month.`, and a second one that is accepted."""
    with get_sync_client(url=start_server(db=checkpointer_url).url) as found:
        found.threads.create(thread_id="story")
        assert found.runs.wait("story", "refine", input=TASK)["answer"] == "second draft"
        yield found


def drafted(client: Any) -> str:
    """The checkpoint at which the first draft was just written."""
    past = client.threads.get_history("story", limit=50)
    return next(one["checkpoint_id"] for one in reversed(past) if one["next"] == ["feedback"])


def texts(values: Any) -> list[str]:
    return [event["text"] for event in values["events"] if event["kind"] in ("draft", "revision", "human")]


@pytest.mark.parametrize("checkpointer_url", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ({"feedback": "Name the month."}, ["first draft", "Name the month.", "second draft"]),
        ({"draft": "My own second draft."}, ["My own second draft."]),
        ({"draft": "Mine.", "feedback": "Better.", "limits": {"max_rounds": 0}}, ["Mine.", "Better."]),
    ],
    ids=["feedback", "draft", "all"],
)
def test_a_state_update_with_feedback_or_a_draft_does_what_it_says(client: Any, values: Any, ends: list[str]) -> None:
    """`update_state({"feedback": …})` or `{"draft": …}` at an earlier checkpoint goes on from there with it, as a fork
    of its own would; the thread keeps its other limits, and its record still fits."""
    before = client.threads.get_state("story")
    client.threads.update_state("story", values, checkpoint_id=drafted(client))
    assert client.threads.get_state("story")["values"]["stop_reason"] is None
    ended = client.runs.wait("story", "refine")
    assert texts(ended) == ends
    assert ended["stop_reason"] == ("max_rounds" if "limits" in values else "accepted")
    limits = {**before["values"]["limits"], **values.get("limits", {})}
    assert client.threads.get_state("story")["values"]["limits"] == limits
    past = client.threads.get_state("story", checkpoint_id=before["checkpoint_id"])
    assert past["values"] == before["values"]  # the branch that it left is there as it was
    # The record is whole: a fork of it is made, which an edited one refuses.
    client.http.post("/threads/story/fork", json={"at": 0})


@pytest.mark.parametrize("checkpointer_url", ["sqlite"], indirect=True)
def test_a_wish_has_a_verifier_over_http_and_is_withdrawn(client: Any) -> None:
    """A fork names the program that tells if its feedback is met, and none that opens a file; the state lists it."""
    wish = {"at": 0, "feedback": "Name the month."}
    with pytest.raises(UnprocessableEntityError, match="opens a file"):
        client.http.post("/threads/story/fork", json={**wish, "verifiers": ["json_schema:/etc/hosts"]})
    fork = client.http.post("/threads/story/fork", json={**wish, "verifiers": ["uses_words:second"]})["thread_id"]
    ended = client.runs.wait(fork, "refine")
    (required,) = client.threads.get_state(fork)["values"]["requirements"]
    assert (ended["stop_reason"], required["status"], required["text"]) == ("accepted", "satisfied", wish["feedback"])
    asked: Any = {"task": "Tell a story.", "require": [{"text": "Name a second.", "verifiers": ["uses_words:second"]}]}
    told: Any = client.runs.wait(None, "refine", input=asked)
    assert [one["by"] for one in told["requirements"]] == ["caller"]
    for wrong, says in (
        ("Be brief.", "require is a list"),
        ([str(number) for number in range(51)], "require is too long"),
    ):
        with pytest.raises(UnprocessableEntityError, match=says):
            client.http.post("/runs/wait", json={"assistant_id": "refine", "input": {**asked, "require": wrong}})
    client.threads.update_state(fork, {"withdraw": wish["feedback"]})
    assert client.runs.wait(fork, "refine")["stop_reason"] == "accepted"
    assert client.threads.get_state(fork)["values"]["requirements"][0]["status"] == "withdrawn"


@pytest.mark.parametrize("checkpointer_url", ["sqlite"], indirect=True)
def test_a_state_update_that_makes_no_sense_is_refused_with_what_would(client: Any) -> None:
    """An unknown key is told with those that there are, and feedback that could not be used with the reason; at the end
    other limits open the run again."""
    before = client.threads.get_state("story")
    for values, told in (
        ({"feedbck": "x"}, "there is no 'feedbck' in this state; there are .*draft.* feedback.* limits"),
        ({"feedback": " "}, "feedback is blank"),
        ({"feedback": 3}, "feedback must be a text"),
        ({"feedback": "x" * 60_000}, "feedback is too long"),
        ({"draft": "x", "answer": "y"}, "written by themselves, and not with 'answer'"),
        ({"draft": "x", "limits": {"max_rounds": 99}}, "max_rounds is at most 10"),
    ):
        with pytest.raises(UnprocessableEntityError, match=told):
            client.threads.update_state("story", values)
    with pytest.raises(UnprocessableEntityError, match="without as_node"):
        client.threads.update_state("story", {"draft": "x"}, as_node="generate")
    started = client.threads.get_history("story", limit=50)[-1]["checkpoint_id"]
    with pytest.raises(UnprocessableEntityError, match="has not begun at this checkpoint"):
        client.threads.update_state("story", {"draft": "x"}, checkpoint_id=started)
    assert client.threads.get_state("story") == before
    client.threads.update_state("story", {"limits": {"max_rounds": 7}})
    assert client.threads.get_state("story")["next"] == ["check"]


@pytest.mark.parametrize("checkpointer_url", ["memory"], indirect=True)
def test_a_fork_goes_on_under_another_assistant(client: Any) -> None:
    """A fork has an id and metadata of its caller's, goes on as its parent was begun or under the assistant and options
    that are named, and is refused with what there is where it asks for something else."""
    asked = {"at": 0, "thread_id": "branch", "metadata": {"why": "a test"}}
    made: Any = client.http.post("/threads/story/fork", json=asked)
    assert (made["thread_id"], made["metadata"]["why"], made["metadata"]["graph_id"]) == ("branch", "a test", "refine")
    with pytest.raises(ConflictError):
        client.http.post("/threads/story/fork", json=asked)
    asked = {"at": 0, "draft": "Mine.", "assistant_id": "refine-with-a-person"}
    person: Any = client.http.post("/threads/story/fork", json=asked)
    question = client.runs.wait(person["thread_id"], "refine-with-a-person")["__interrupt__"][0]["value"]
    assert (question["draft"], question["ask"]) == ("Mine.", "review")
    asked = {"at": 0, "draft": "Mine.", "assistant_id": "refine", "options": {"verifiers": ["uses_words:zebra"]}}
    zebra: Any = client.http.post("/threads/story/fork", json={**asked, "limits": {"max_rounds": 1}})
    ended = client.runs.wait(zebra["thread_id"], "refine")
    assert (ended["stop_reason"], ended["score"], ended["accepted_by"]) == ("max_rounds", 0.0, None)
    for asked, told in (
        (
            {"feedbak": "x"},
            "no 'feedbak' in a fork; there are at, feedback, verifiers, draft, prompts, limits, assistant_id",
        ),
        ({"model": "openai:gpt-5"}, "name it as assistant_id"),
        ({"assistant_id": "refine", "model": "openai:gpt-5"}, "not among those that the server allows"),
        ({"assistant_id": "refine", "options": {"verifiers": ["json_schema:/etc/passwd"]}}, "not for callers"),
    ):
        with pytest.raises(UnprocessableEntityError, match=told):
            client.http.post("/threads/story/fork", json={"at": 0, **asked})
    with pytest.raises(NotFoundError):
        client.http.post("/threads/story/fork", json={"at": 0, "assistant_id": "nobody"})
    assert client.threads.count() == 4  # what was refused left nothing behind
