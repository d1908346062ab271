"""Datasets kept in LangSmith, Langfuse and Phoenix, and results sent back to them as experiments. Internal.

Each service is asked through its own client, which takes address and key from its own environment variables.
"""

from __future__ import annotations

import importlib
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from ...state.masking import masked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..run.result_record import ResultRecord
    from ..run.run_folder import Run

__all__ = ["SERVICES", "Example", "read_examples", "send_results", "service_of"]

CORRECT = "correct"
"""By the gold answer: the name of the score that each result gets."""


class Example(NamedTuple):
    """One row of a dataset, as a service keeps it."""

    id: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    """With the gold answer."""


class Service(NamedTuple):
    """A service that keeps datasets: its client package, and functions to read from it and send to it."""

    package: str
    install: str
    read: Callable[[Any, str], list[Example]]
    """Takes the package and the dataset's name."""
    send: Callable[[Any, str, str, Run], None]
    """Takes the package, the names of dataset and experiment, and the results."""


def service_of(spec: str) -> str:
    """Return the service that a dataset's name such as `langsmith:trips` begins with; empty where there is none."""
    service, colon, name = spec.partition(":")
    return service if colon and name.strip() and service in SERVICES else ""


def read_examples(spec: str) -> list[Example]:
    """Return the examples of a dataset such as `langsmith:trips`.

    Raises:
        ImportError: The service's client is not installed.
        ConnectionError: The service did not give them; the message says why.
    """
    service, _, name = spec.partition(":")
    with _asked(service, f"the dataset {spec!r} can't be read") as package:
        return SERVICES[service].read(package, name)


def send_results(spec: str, run: Run, *, attempt: int = 1) -> str:
    """Send the results of a method to the service that the dataset is from, and return the experiment's name.

    Args:
        spec: As `load_dataset` was given it.
        run: The results.
        attempt: Results that changed since are another experiment; from 2 on its name says which.

    Raises:
        ImportError: The service's client is not installed.
        ConnectionError: The service did not take them; the message says why.
    """
    service, _, name = spec.partition(":")
    parts = [run.info.method, getattr(run.info, "run_id", ""), f"({attempt})" if attempt > 1 else ""]
    experiment = " ".join(filter(None, parts))
    with _asked(service, f"the results of {run.info.method} can't be sent to {service}") as package:
        SERVICES[service].send(package, name, experiment, run)
    return experiment


@contextmanager
def _asked(service: str, failing: str) -> Iterator[Any]:
    entry = SERVICES[service]
    try:
        package = importlib.import_module(entry.package)
    except ImportError as error:
        raise ImportError(f"{service!r} needs its client: pip install {entry.install} ({error})") from None
    try:
        yield package
    except Exception as error:  # each client has errors of its own
        raise ConnectionError(masked(f"{failing}: {type(error).__name__}: {error}")) from None


def _plain(value: Any, name: str) -> dict[str, Any]:
    return dict(value) if isinstance(value, dict) else {} if value is None else {name: value}


def _times(record: ResultRecord) -> tuple[datetime, datetime]:
    """Return the start and end of a result, as if it had ended just now."""
    end = datetime.now(UTC)
    return end - timedelta(seconds=min(record.seconds, 86_400)), end


def _about(run: Run) -> dict[str, Any]:
    info = run.info
    return {
        **{"method": info.method, "model": info.model, "dataset_sha256": info.dataset_sha256, "by": "redraft"},
        **({"oracle": True} if run.oracle else {}),
    }


def _facts(record: ResultRecord) -> dict[str, Any]:
    drafts = [step for step in record.iterations_log if step.type != "feedback"]
    facts = {
        "rounds": record.num_iterations,
        "stop_reason": record.stop_reason,
        "accepted_by": record.accepted_by,
        "first_draft_correct": drafts[0].is_correct if drafts else None,
        "total_tokens": record.total_tokens,
        "cost_usd": record.cost_usd,
        "seconds": record.seconds,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _from_langsmith(langsmith: Any, name: str) -> list[Example]:
    examples = langsmith.Client().list_examples(dataset_name=name)
    return [
        Example(str(example.id), _plain(example.inputs, "input"), _plain(example.outputs, "output"))
        for example in examples
    ]


def _to_langsmith(langsmith: Any, name: str, experiment: str, run: Run) -> None:
    """Send each result as a run of the project, with its drafts below, each with its round and whether it was right."""
    client = langsmith.Client()
    project = client.create_project(
        experiment, reference_dataset_id=client.read_dataset(dataset_name=name).id, metadata=_about(run)
    )

    def judged(tree: Any, right: bool | None) -> None:
        if right is not None:
            client.create_feedback(
                tree.id, CORRECT, score=right, trace_id=tree.trace_id, session_id=project.id, feedback_source_type="api"
            )

    for record in run.records:
        start, end = _times(record)
        tree = langsmith.RunTree(
            name=run.info.method,
            inputs={"task": record.question},
            start_time=start,
            project_name=project.name,
            reference_example_id=UUID(record.question_id),
            extra={"metadata": {**_facts(record), **_about(run)}},
            ls_client=client,
        )
        tree.end(outputs={"answer": record.final_solution}, error=record.error, end_time=end)
        tree.post()
        judged(tree, record.is_correct)
        for step in record.iterations_log:
            if step.type == "feedback" or step.rejected:
                continue
            draft = tree.create_child(
                step.type,
                inputs={"task": record.question},
                start_time=start,
                end_time=end,
                outputs={"answer": step.solution},
                extra={"metadata": {"round": step.iteration, "by": step.by}},
            )
            draft.post()
            judged(draft, step.is_correct)
    client.flush()
    client.update_project(project.id, end_time=datetime.now(UTC))


def _from_langfuse(langfuse: Any, name: str) -> list[Example]:
    items = [item for item in langfuse.get_client().get_dataset(name).items if item.status != "ARCHIVED"]
    return [
        Example(item.id, _plain(item.input, "input"), _plain(item.expected_output, "expected_output")) for item in items
    ]


def _to_langfuse(langfuse: Any, name: str, experiment: str, run: Run) -> None:
    """Send the results as an experiment whose task looks each answer up."""
    client, records = langfuse.get_client(), {record.question_id: record for record in run.records}
    items = [item for item in client.get_dataset(name).items if item.id in records]

    def answer(*, item: Any, **_: Any) -> str:
        return records[item.id].final_solution

    outcome = client.run_experiment(
        name=experiment,
        run_name=experiment,
        data=items,
        task=answer,
        metadata={key: str(value) for key, value in _about(run).items()},
        max_concurrency=4,
    )
    for result in outcome.item_results:
        item: Any = result.item
        record = records[item.id]
        if record.is_correct is not None:
            client.create_score(
                name=CORRECT, value=float(record.is_correct), trace_id=result.trace_id, metadata=_facts(record)
            )
    client.flush()


def _from_phoenix(phoenix: Any, name: str) -> list[Example]:
    examples = phoenix.Client().datasets.get_dataset(dataset=name).examples
    return [
        Example(example["node_id"], _plain(example["input"], "input"), _plain(example["output"], "output"))
        for example in examples
    ]


def _to_phoenix(phoenix: Any, name: str, experiment: str, run: Run) -> None:
    client = phoenix.Client()
    dataset = client.datasets.get_dataset(dataset=name)
    created = client.experiments.create(
        dataset_id=dataset.id,
        dataset_version_id=dataset.version_id,
        experiment_name=experiment,
        experiment_metadata=_about(run),
    )
    for record in run.records:
        start, end = _times(record)
        logged = client.experiments.log_run(
            experiment_id=created["id"],
            dataset_example_id=record.question_id,
            output=record.final_solution,
            start_time=start,
            end_time=end,
            error=record.error,
        )
        if record.is_correct is not None:
            client.experiments.log_evaluation(
                experiment_run_id=logged["id"],
                name=CORRECT,
                score=float(record.is_correct),
                label=str(record.is_correct).lower(),
                metadata=_facts(record),
            )


SERVICES: dict[str, Service] = {
    "langsmith": Service("langsmith", "'.[langsmith]' in a checkout", _from_langsmith, _to_langsmith),
    "langfuse": Service("langfuse", "'.[langfuse]' in a checkout", _from_langfuse, _to_langfuse),
    "phoenix": Service("phoenix.client", "'.[phoenix]' in a checkout", _from_phoenix, _to_phoenix),
}
