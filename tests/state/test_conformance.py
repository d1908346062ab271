"""LangGraph's own conformance suite, run on each saver as a user opens it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from redraft.state import open_checkpointer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytest.importorskip("langgraph.checkpoint.conformance", reason="langgraph-checkpoint-conformance is not installed")

from langgraph.checkpoint.conformance import checkpointer_test, validate

BASE = {"put": 17, "put_writes": 10, "get_tuple": 10, "list": 16, "delete_thread": 5}
"""Tests that the suite has for what each saver must do, counted so that none is skipped unseen."""
ALSO: dict[str, dict[str, int]] = {"memory": {}, "sqlite": {}}
"""What a saver does beyond that. A saver is added here, with the fixture of its URL below."""


@pytest.fixture(params=sorted(ALSO))
def backend(request: pytest.FixtureRequest) -> str:
    """The name of each kind of database in turn."""
    return str(request.param)


@pytest.fixture
def url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What `open_checkpointer` takes for it: an empty database."""
    if backend == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return {"memory": "memory", "sqlite": str(tmp_path / "runs.sqlite")}[backend]


async def test_every_saver_passes_langgraphs_conformance_suite(backend: str, url: str) -> None:
    """What LangGraph asks of a checkpointer, each saver does: no test of the suite fails, and none is left out."""

    @checkpointer_test(name=backend)
    async def opened() -> AsyncIterator[Any]:
        async with open_checkpointer(url) as saver:
            yield saver

    report = await validate(opened)
    results = report.results.items()
    assert {name: result.failures for name, result in results if result.failures} == {}
    assert {name: result.tests_passed for name, result in results if result.detected} == BASE | ALSO[backend]
