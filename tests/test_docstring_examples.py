"""The example in the docstring of each name of `import redraft` works as it stands there."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path
from typing import Any

import pytest
import redraft
from redraft import _version

OPTIONS = doctest.NORMALIZE_WHITESPACE


def documented(name: str) -> str:
    # A text has no docstring of its own, so the version's stands in its module.
    return inspect.getdoc(_version if name == "__version__" else getattr(redraft, name)) or ""


@pytest.mark.parametrize("name", redraft.__all__)
def test_the_example_of_a_public_name_works(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """What a reader copies out of `help(redraft.…)` runs offline, in any folder, and prints what is shown."""
    if name == "build_retrieval_graph":
        pytest.importorskip("wordllama")
    monkeypatch.chdir(tmp_path)
    example = doctest.DocTestParser().get_doctest(documented(name), {}, name, None, None)
    assert example.examples, f"the docstring of {name} has no example"
    with capsys.disabled():
        wrong = doctest.DocTestRunner(optionflags=OPTIONS).run(example)
    assert not wrong.failed
