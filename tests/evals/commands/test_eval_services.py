"""`redraft eval` reads datasets of LangSmith, Langfuse and Phoenix and sends the results back, by their own clients."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langsmith.utils import get_env_var
from redraft.evals.datasets.dataset import load_dataset
from redraft.evals.logs.registry import read_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytest.importorskip("scipy")
pytest.importorskip("statsmodels")

KEY = "sk-lf-0123456789abcdef0123456789abcdef"
DAY = "2026-11-23T00:00:00Z"
IDS = [str(uuid.UUID(int=n)) for n in (1, 2)]
ROWS = [({"question": "What is 1 + 1?"}, {"answer": "2"}), ({"question": "What is 6 * 7?"}, {"answer": "42"})]
"""Their fields need not be named: each example has one input and one output."""
DATASET, TENANT, PROJECT = (str(uuid.UUID(int=n)) for n in (7, 8, 9))


def langsmith() -> dict[str, Any]:
    sizes = dict.fromkeys(["size_limit", "scale_up_qsize_trigger", "scale_down_nempty_trigger"], 100)
    batches = {**sizes, "use_multipart_endpoint": False, "scale_up_nthreads_limit": 1, "size_limit_bytes": 9_000_000}
    examples = [
        {"id": name, "dataset_id": DATASET, "inputs": given, "outputs": wanted, "created_at": DAY}
        for name, (given, wanted) in zip(IDS, ROWS, strict=True)
    ]
    project = {"id": PROJECT, "tenant_id": TENANT, "reference_dataset_id": DATASET, "start_time": DAY}
    return {
        "GET /info": {"version": "0.13.0", "batch_ingest_config": batches},
        "GET /datasets": [{"id": DATASET, "name": "sums", "created_at": DAY}],
        "GET /examples": examples[::-1],
        "POST /sessions": lambda asked: {**project, "name": asked.json["name"]},
        "PATCH /sessions/.*": project,
        "POST /(runs/batch|feedback)": {},
    }


def in_langsmith(server: Any) -> tuple[str, dict[str, Any]]:
    """Read it also as LangSmith exports runs: `redraft report` finds each draft of each problem again."""
    runs = [one for sent in server.to("POST /runs/batch") for one in sent.json["post"]]
    right = {sent.json["run_id"]: sent.json["score"] for sent in server.to("POST /feedback")}
    exported = Path("exported.json")
    exported.write_text(json.dumps([{**one, "feedback_stats": {"correct": {"avg": right[one["id"]]}}} for one in runs]))
    assert read_log(exported).run().verdicts == {IDS[0]: True, IDS[1]: False}
    roots = {
        one["reference_example_id"]: (one["outputs"]["answer"], right[one["id"]])
        for one in runs
        if one.get("parent_run_id") is None
    }
    drafts = [one for one in runs if one.get("parent_run_id")]
    assert {one["extra"]["metadata"]["round"] for one in drafts} == {0}
    assert all(one["id"] in right for one in drafts)
    return server.to("POST /sessions")[0].json["name"], roots


def langfuse() -> dict[str, Any]:
    stamped = {"createdAt": DAY, "updatedAt": DAY}
    items = [
        {"id": name, "status": "ACTIVE", "input": given, "expectedOutput": wanted, "datasetId": DATASET}
        | {"datasetName": "sums", "metadata": None, "mediaReferences": [], **stamped}
        for name, (given, wanted) in zip(IDS, ROWS, strict=True)
    ]
    page = {"page": 1, "limit": 50, "totalItems": 2, "totalPages": 1}
    return {
        "GET /api/public/(v2/)?datasets/sums": {
            "id": DATASET,
            "name": "sums",
            "metadata": None,
            "projectId": PROJECT,
            **stamped,
        },
        "GET /api/public/dataset-items": {"data": items, "meta": page},
        "POST .*": {},
    }


def in_langfuse(server: Any) -> tuple[str, dict[str, Any]]:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    traces: dict[str, dict[str, str]] = {}
    for sent in server.to("POST .*/otel/v1/traces"):
        for resource in ExportTraceServiceRequest.FromString(sent.body).resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    told = {one.key: one.value.string_value for one in span.attributes}
                    traces.setdefault(span.trace_id.hex(), {}).update(told)
    found = {}
    for sent in server.to("POST /api/public/scores"):
        for score in sent.json:
            told = traces[score["traceId"]]
            found[told["langfuse.experiment.item.id"]] = told["langfuse.observation.output"], score["value"]
    return next(iter(traces.values()))["langfuse.experiment.name"], found


def phoenix() -> dict[str, Any]:
    examples = [
        {"id": name, "node_id": name, "input": given, "output": wanted, "metadata": {}, "updated_at": DAY}
        for name, (given, wanted) in zip(IDS, ROWS, strict=True)
    ]
    dataset = {"id": DATASET, "name": "sums", "metadata": {}, "created_at": DAY, "updated_at": DAY}
    listed = {"dataset_id": DATASET, "version_id": "v1", "examples": examples}
    return {
        "GET /arize_phoenix_version": "20.0.0",
        "GET /v1/datasets": {"data": [dataset], "next_cursor": None},
        f"GET /v1/datasets/{DATASET}": {"data": dataset},
        f"GET /v1/datasets/{DATASET}/examples": {"data": listed},
        f"POST /v1/datasets/{DATASET}/experiments": lambda asked: {"data": {"id": "E1", **asked.json}},
        "POST /v1/experiments/E1/runs": lambda asked: {"data": {"id": asked.json["dataset_example_id"]}},
        "POST /v1/experiment_evaluations": {"data": {"id": "A1"}},
    }


def in_phoenix(server: Any) -> tuple[str, dict[str, Any]]:
    answers = {one.json["dataset_example_id"]: one.json["output"] for one in server.to("POST /v1/experiments/E1/runs")}
    judged = [one.json for one in server.to("POST /v1/experiment_evaluations")]
    found = {one["experiment_run_id"]: (answers[one["experiment_run_id"]], one["result"]["score"]) for one in judged}
    return server.to("POST .*/experiments")[0].json["name"], found


SERVICES: dict[str, tuple[Callable[[], dict[str, Any]], Callable[[Any], tuple[str, dict[str, Any]]], str]] = {
    "langsmith": (langsmith, in_langsmith, "LANGSMITH_ENDPOINT"),
    "langfuse": (langfuse, in_langfuse, "LANGFUSE_BASE_URL"),
    "phoenix": (phoenix, in_phoenix, "PHOENIX_COLLECTOR_ENDPOINT"),
}


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("LANGSMITH_API_KEY", "LANGFUSE_SECRET_KEY", "PHOENIX_API_KEY"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "pk-lf-eval")
    get_env_var.cache_clear()
    yield
    get_env_var.cache_clear()


@pytest.mark.parametrize("service", SERVICES)
def test_results_go_back_to_where_the_dataset_is_from(
    service: str, record: Any, shell: Any, scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dataset's name is enough: its examples are the problems, and the results become an experiment there, once."""
    answers, read, variable = SERVICES[service]
    server = record(answers())
    monkeypatch.setenv(variable, server.url)
    words = ("eval", f"{service}:sums", "--methods", "zero-shot", "--concurrency", "1", "--out", "out")
    model = ("--model", scripted("#### 2", "#### 41"))
    shown = shell(*words, *model)
    assert shown.code == 0, shown.err
    experiment, found = read(server)
    assert found == {IDS[0]: ("#### 2", 1), IDS[1]: ("#### 41", 0)}
    info = json.loads(Path("out/zero-shot/run.json").read_text())
    assert (info["dataset"], info["sent"]["experiment"]) == ("sums", experiment)
    assert experiment == f"zero-shot {info['run_id']}"
    assert KEY.encode() not in server.told
    assert KEY not in json.dumps(info)
    before = len(server.asked)
    assert shell(*words, *model, "--resume").code == 0
    assert not [one for one in server.asked[before:] if one.method != "GET"]


def test_results_stay_here_on_request_or_where_they_are_not_taken(
    record: Any, shell: Any, scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --no-upload nothing is sent; what a service refuses is kept, and sent by the next --resume."""
    server = record(phoenix())
    taken = server.answers.pop("POST /v1/experiments/E1/runs")
    monkeypatch.setenv("PHOENIX_COLLECTOR_ENDPOINT", server.url)
    words = ("eval", "phoenix:sums", "--methods", "zero-shot", "--concurrency", "1", "--out", "out")
    model = ("--model", scripted("#### 2", "#### 42"))
    assert shell(*words, *model, "--no-upload").code == 0
    assert not [one for one in server.asked if one.method != "GET"]
    shown = shell(*words, *model, "--resume")
    assert shown.code == 0
    assert "the results of zero-shot can't be sent to phoenix" in " ".join(shown.err.split())
    assert len(Path("out/zero-shot/results.jsonl").read_text().splitlines()) == 2
    server.answers["POST /v1/experiments/E1/runs"] = taken
    assert "sent to phoenix:sums" in " ".join(shell(*words, *model, "--resume").err.split())


def test_a_dataset_that_is_not_there_is_said(record: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a service does not have, what it keeps from us, and an id of one's own, are refused in one line."""
    server = record({"GET /arize_phoenix_version": "20.0.0", "GET /v1/datasets": {"data": [], "next_cursor": None}})
    monkeypatch.setenv("PHOENIX_COLLECTOR_ENDPOINT", server.url)
    with pytest.raises(ConnectionError, match=r"the dataset 'phoenix:none' can't be read: .*none"):
        load_dataset("phoenix:none")
    with pytest.raises(ValueError, match="leave id_field='key' out"):
        load_dataset("phoenix:sums", id_field="key")
    with pytest.raises(FileNotFoundError, match="'langsmith:NAME', 'langfuse:NAME' or 'phoenix:NAME'"):
        load_dataset("langsmith:")
