"""Small datasets that the tests of evaluations share."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from redraft.evals.datasets.dataset import Dataset, Problem


@pytest.fixture
def sums() -> Dataset:
    """Six word problems: the i-th one asks for i + 1, and its gold answer is that."""
    problems = tuple(Problem(f"sum-{number}", f"What is {number} + 1?", Decimal(number + 1)) for number in range(6))
    return Dataset("sums", "numeric", "0" * 64, problems)


def asked_number(messages: Any) -> int:
    """Return the number that a prompt of `sums` asks about."""
    import re

    text = "\n".join(str(message.text) for message in messages)
    found = re.findall(r"What is (\d+) \+ 1\?", text)
    return int(found[-1])


@pytest.fixture
def right() -> Any:
    """Replies of a model that always adds right."""
    return lambda messages: f"It is {asked_number(messages) + 1}.\n#### {asked_number(messages) + 1}"
