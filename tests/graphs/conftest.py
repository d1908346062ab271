"""What the tests of graphs share."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest


@pytest.fixture(params=["invoke", "ainvoke"])
def run(request: pytest.FixtureRequest) -> Any:
    """Runs a graph on an input, synchronously and asynchronously."""

    def call(graph: Any, given: Any, config: Any = None) -> Any:
        if request.param == "invoke":
            return graph.invoke(given, config)
        return asyncio.run(graph.ainvoke(given, config))

    return call
