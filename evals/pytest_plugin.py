"""Plugin for pytest: tests that hold a graph against its baseline, run with `pytest --redraft`. Internal.

The `conftest.py` at the top of the tests names it: `pytest_plugins = ["redraft.evals.pytest_plugin"]`. An entry point
would load it, and rewrite redraft's modules, in every run of pytest where redraft is installed. Each test is marked
`redraft`, since it calls models: without the option it is skipped.

    @pytest.mark.redraft
    def test_answers_stay_as_good(redraft_gate):
        redraft_gate(graph, "rows.jsonl", "baseline.json", score=is_right)
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

__all__ = ["pytest_addoption", "pytest_collection_modifyitems", "pytest_configure", "redraft_gate"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("redraft")
    group.addoption("--redraft", action="store_true", help="run tests marked redraft, which call models")
    group.addoption("--redraft-write", action="store_true", help="the same, and write their baselines anew")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "redraft: holds a graph against its baseline; run with --redraft")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip the tests that call models, unless they are asked for."""
    if not config.getoption("--redraft") and not config.getoption("--redraft-write"):
        for item in items:
            if item.get_closest_marker("redraft"):
                item.add_marker(pytest.mark.skip(reason="calls models: run with --redraft"))


@pytest.fixture
def redraft_gate(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Return a function that plays a graph against its baseline, and fails the test where it got worse.

    It takes graph, dataset, the path of the baseline and the options of `redraft.evals.gate`, and returns the result.
    What can't be told within the problems and the budget fails nothing, and is a warning. With `--redraft-write`, or
    where there is no baseline yet, it is written.
    """
    from .gating import gate, write_baseline

    def played(graph: Any, dataset: Any, baseline: str | Path, **options: Any) -> Any:
        if request.config.getoption("--redraft-write") or not Path(baseline).exists():
            of_gate = ("margin", "alpha", "budget_tokens", "seed", "on_progress")
            return write_baseline(
                graph, dataset, baseline, **{key: value for key, value in options.items() if key not in of_gate}
            )
        result = gate(graph, dataset, baseline, **options)
        if result.verdict == "worse":
            pytest.fail(result.sentence, pytrace=False)
        if result.verdict == "can't tell":
            request.node.warn(pytest.PytestWarning(result.sentence))
        return result

    return played
