"""Whatever is sent to the server is answered as its OpenAPI description says, and never by an error of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import requests
import schemathesis
from redraft.models import ScriptedModel
from redraft.server import Engine, Settings, create_app
from schemathesis.checks import not_a_server_error
from schemathesis.config import (
    CoveragePhaseConfig,
    GenerationConfig,
    PhasesConfig,
    ProjectConfig,
    ProjectsConfig,
    SchemathesisConfig,
)
from schemathesis.specs.openapi import checks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
TWINS = ["/threads/{thread_id}/runs", "/threads/{thread_id}/runs/stream", "/runs", "/runs/wait", "/runs/stream",
         "/threads/count", "/assistants/count"]  # fmt: skip
"""Paths whose bodies are those of another one, so that each field of them is not tried again."""


def described(*, each_field: bool) -> Any:
    """The description of the server, with requests that are the same in every run of the tests.

    Args:
        each_field: Whether every field of a body is tried with values at and beyond its bounds, too.
    """
    generation = GenerationConfig(deterministic=True, max_examples=5, database="none")
    phases = PhasesConfig(coverage=CoveragePhaseConfig(enabled=each_field))
    project = ProjectConfig(generation=generation, phases=phases)
    config = SchemathesisConfig(projects=ProjectsConfig(default=project))
    return schemathesis.openapi.from_dict(create_app(Settings(db="memory")).openapi(), config=config)


@pytest.fixture(scope="module")
def url(serving: Any) -> Iterator[str]:
    """A server whose model always has something to say."""
    given = Settings(db="memory", max_body_bytes=20_000, max_rounds=1)
    engine = Engine(given, build_model=lambda spec: ScriptedModel(["a draft", "no issues"] * 10_000))
    with serving(create_app(given, engine=engine)) as served:
        yield served.url


@pytest.fixture(scope="module")
def send(url: str) -> Iterator[Callable[[Any], None]]:
    """Send a request as it was made up, or to ids that are there; and look at the answer."""
    with requests.Session() as session:
        ids = {"assistant_id": "refine", "name": "redraft-refine"}

        def make(operation: str) -> None:
            """Each operation has a thread of its own; one that was deleted is made again."""
            name = "".join(letter for letter in operation if letter.isalnum())
            found = session.get(f"{url}/threads/{name}/runs/{ids.get('run_id')}")
            if found.status_code != 200:
                asked = {"assistant_id": "refine", "input": {"task": "Write."}, "if_not_exists": "create"}
                run = session.post(f"{url}/threads/{name}/runs", json=asked).json()
                ids.update(thread_id=name, run_id=run["run_id"])

        def sent(case: Any) -> None:
            has_ids = case.path_parameters and case.path_parameters.keys() & {"thread_id", *ids}
            if not has_ids or case.meta.phase.name == "fuzzing":
                case.call_and_validate(base_url=url, session=session, checks=CHECKS)
            if has_ids:
                make(case.operation.label)
                case.path_parameters = {name: ids.get(name, part) for name, part in case.path_parameters.items()}
                case.call_and_validate(base_url=url, session=session, checks=CHECKS)

        yield sent


@described(each_field=True).exclude(path=TWINS, method="POST").parametrize()
@pytest.mark.filterwarnings("ignore:Do not use the `random` module")  # the server does, in a thread beside it
def test_every_field_is_looked_at(case: Any, send: Any) -> None:
    """Requests that fit the description and such that don't, field by field and at random."""
    send(case)


@described(each_field=False).include(path=TWINS, method="POST").parametrize()
@pytest.mark.filterwarnings("ignore:Do not use the `random` module")
def test_every_path_is_looked_at(case: Any, send: Any) -> None:
    """The same at random, on the paths that take the same bodies."""
    send(case)
