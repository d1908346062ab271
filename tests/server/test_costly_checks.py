"""What a caller supplies to judge drafts by can't hold the server: it is judged where it can be killed."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import requests
from redraft.models import ScriptedModel
from redraft.nodes.runtime import killable
from redraft.nodes.verify import json_schema, patterns, verifiers
from redraft.server.api import openai_runs

if TYPE_CHECKING:
    from collections.abc import Callable

DRAFT = json.dumps({"a" * 40 + "!": 1})
DOUBLING: dict[str, Any] = {
    "$defs": {f"d{step}": {"anyOf": [{"$ref": f"#/$defs/d{step + 1}"}] * 2} for step in range(30)}
}
DOUBLING["$defs"]["d30"] = {"type": "string"}
DOUBLING["$ref"] = "#/$defs/d0"


@pytest.fixture(autouse=True)
def _little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_schema, "MOST_SECONDS", 1)
    monkeypatch.setattr(patterns, "MOST_SECONDS", 1)


@pytest.mark.parametrize(
    ("form", "accepted", "told"),
    [
        ("^(a+)+$", "matches_json_schema", ""),  # what RE2 reads is searched at once
        (r"^(a+)+\1$", None, "It could not be checked: it took more than"),
    ],
)
def test_names_of_properties_can_not_hold_the_server(
    start_server: Callable[..., Any], form: str, accepted: str | None, told: str
) -> None:
    """A pattern for which Python's engine needs for ever ends with a verdict, and the server answers others meanwhile;
    a run of theirs that is judged in the same way does not wait for it."""
    server = start_server(tokens=("first-token-0123456789", "second-token-0123456789"))

    def judged(token: str, schema: Any, draft: str) -> Any:
        body = {
            "assistant_id": "refine",
            "input": {"task": "x", "draft": draft, "limits": {"max_rounds": 0}},
            "context": {"verifiers": [f"json_schema:{json.dumps(schema)}"]},
        }
        headers = {"Authorization": f"Bearer {token}"}
        return requests.post(f"{server.url}/runs/wait", json=body, headers=headers, timeout=120).json()

    with ThreadPoolExecutor(1) as threads:
        attack = threads.submit(judged, "first-token-0123456789", {"patternProperties": {form: {}}}, DRAFT)
        assert requests.get(f"{server.url}/healthz", timeout=60).ok
        plain = judged("second-token-0123456789", {"patternProperties": {r"^(b)\1$": {}}}, '{"bb": 1}')
        assert plain["accepted_by"] == "matches_json_schema"
        attacked = attack.result(120)
    assert attacked["accepted_by"] == accepted
    critique = next(event for event in attacked["events"] if event["kind"] == "critique")
    assert critique["text"].startswith(told)


def test_a_verifier_is_made_beside_the_event_loop_and_once(
    start_server: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight patterns that took nineteen seconds to compile are read in a thread, for request and run together."""
    made, looped = [], []
    build = patterns.bounded_search

    def noted(pattern: str, **options: Any) -> Any:
        made.append(pattern)
        with suppress(RuntimeError):
            looped.append(asyncio.get_running_loop())
        return build(pattern, **options)

    monkeypatch.setattr("redraft.nodes.verify.text_verifiers.bounded_search", noted)
    verifiers._built.cache_clear()
    forms = [f"{'[a-z]{1,1000}' * 30}{number}" for number in range(8)]
    body = {
        "assistant_id": "refine",
        "input": {"task": "x", "draft": "a text", "limits": {"max_rounds": 0}},
        "context": {"verifiers": [f"matches:{form}" for form in forms]},
    }
    reply = requests.post(f"{start_server().url}/runs/wait", json=body, timeout=120).json()
    assert reply["accepted_by"] is None
    assert (sorted(made), looped) == (sorted(forms), [])


@pytest.mark.parametrize("schema", [DOUBLING, {"type": "string"}], ids=["costly", "cheap"])
def test_a_structured_reply_is_read_once(
    start_server: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, schema: dict[str, Any]
) -> None:
    """A response that is asked for again is not judged again; a schema whose work doubles at each step is a refusal."""
    read, misfit = [], openai_runs._misfit

    def noted(spec: str, text: str) -> Any:
        read.append(text)
        return misfit(spec, text)

    monkeypatch.setattr(openai_runs, "_misfit", noted)
    openai_runs.READ.clear()
    server = start_server(build_model=lambda spec: ScriptedModel(["1"] * 9))
    form = {
        "type": "json_schema",
        "name": "x",
        "schema": {**schema, "$ref": "#/$defs/d0"} if "$defs" in schema else schema,
    }
    body = {"model": "redraft-refine", "input": "x", "text": {"format": form}, "limits": {"max_rounds": 0}}
    first = requests.post(f"{server.url}/v1/responses", json=body, timeout=120).json()
    assert first["output"][-1]["content"][0]["type"] == "refusal"
    again = [requests.get(f"{server.url}/v1/responses/{first['id']}", timeout=120).json() for _ in range(3)]
    assert all(one["output"] == first["output"] for one in again)
    assert read == ["1"]


def test_nobody_shares_a_callers_threads(start_server: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A run and what its request asks for count as their caller's."""
    callers = set()
    build = patterns.bounded_search

    def noted(pattern: str, **options: Any) -> Any:
        search = build(pattern, **options)
        callers.add(("request", killable.CALLER.get()))
        return lambda text: callers.add(("run", killable.CALLER.get())) or search(text)

    monkeypatch.setattr("redraft.nodes.verify.text_verifiers.bounded_search", noted)
    verifiers._built.cache_clear()
    server = start_server(tokens=("first-token-0123456789",))
    body = {
        "assistant_id": "refine",
        "input": {"task": "x", "draft": "a text", "limits": {"max_rounds": 0}},
        "context": {"verifiers": ["matches:a text"]},
    }
    headers = {"Authorization": "Bearer first-token-0123456789"}
    assert requests.post(f"{server.url}/runs/wait", json=body, headers=headers, timeout=120).ok
    assert {kind for kind, _ in callers} == {"request", "run"}
    assert len({caller for _, caller in callers}) == 1
    assert all(caller.startswith("token-") for _, caller in callers)
