"""Budgets: what redraft may cost its readers, so that a release does not win back what the last one tidied away.

`budgets.json` holds the numbers. A change that needs a larger one raises it in the same commit, whose message says why;
one that leaves much less than a number lowers it.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
BUDGETS: dict[str, Any] = json.loads(Path(__file__).with_name("budgets.json").read_text(encoding="utf-8"))
ROUTES: dict[str, dict[str, int]] = BUDGETS["routes"]
SLACK = 1.03
"""Routes count what threads do, which varies by a few."""
UNUSED = 0.93
"""A number that is used less than this is no budget any more."""


def within(what: str, measured: int, budget: int) -> None:
    """Fail where a number is over its budget, or so far below that the budget holds nothing."""
    mend = "merge or take out something, or raise it in tests/budgets.json and say why in the same commit"
    assert measured <= budget, f"{what}: {measured}, budget {budget}; {mend}"
    assert measured >= budget * UNUSED, f"{what}: {measured}, budget {budget}. Lower it in tests/budgets.json"


def statements() -> Counter[str]:
    """Return the statements of the product by room: comments, docstrings' length and line breaks cost nothing."""
    counts = Counter[str]()
    for room in BUDGETS["statements"]:
        for path in (ROOT / room).rglob("*.py") if room != "all" else ():
            tree = ast.parse(path.read_text(encoding="utf-8"))
            counts[room] += sum(isinstance(node, ast.stmt) for node in ast.walk(tree))
    counts["all"] = counts.total()
    return counts


def test_the_product_stays_small() -> None:
    """A reader has no more code to hold in the head than was agreed, in all and room by room."""
    counts = statements()
    assert {room for room in BUDGETS["statements"] if room != "all"} == package_folders()
    for room, budget in BUDGETS["statements"].items():
        within(f"statements of {room}", counts[room], budget)


def package_folders() -> set[str]:
    """Return the root folders that are installed."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    table = text.partition("[tool.setuptools.package-dir]")[2].partition("\n[")[0]
    return set(re.findall(r'^"redraft[.\w]*" = "(\w+)"$', table, re.MULTILINE))


@pytest.mark.parametrize("name", ROUTES)
def test_a_command_takes_a_short_way(name: str) -> None:
    """Who follows a command through the code opens no more files than was agreed, and jumps between them no more often.

    Counted in a process of its own, which has imported nothing else.
    """
    command = [sys.executable, str(ROOT / "benchmarks" / "routes.py"), "--route", name, "--counts"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    for unit in ("files", "changes"):
        budget = ROUTES[name][unit]
        within(f"{unit} of {name}", counts[unit], round(budget * SLACK))


def test_public_names_are_few() -> None:
    """What has to be learned, and kept stable, does not grow by the way."""
    counts = Counter[str]()
    for package in BUDGETS["public_names"]:
        counts[package] = len(importlib.import_module(package).__all__)
    for package, budget in BUDGETS["public_names"].items():
        within(f"public names of {package}", counts[package], budget)


def test_importing_redraft_imports_next_to_nothing() -> None:
    """`import redraft` costs a fraction of `import pydantic`: it loads a handful of modules.

    The ratio of times is measured by `benchmarks/startup.py`, since a test asserts no timing.
    """
    code = "import sys; before = set(sys.modules); import redraft; print(len(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    count, budget = int(done.stdout), BUDGETS["modules_of_import_redraft"]
    if sys.version_info < (3, 12):
        within("modules that `import redraft` loads", count, budget)
    else:  # later versions need fewer of their own
        assert count <= budget


def test_functions_stay_readable() -> None:
    """No function has more branches than a reader can follow, and few come near that."""
    budget = BUDGETS["complexity"]
    near = {name: count for name, count in complexities().items() if count >= budget["near"]}
    assert not {name: count for name, count in near.items() if count > budget["most"]}
    within(f"functions of complexity {budget['near']} or more", len(near), budget["functions"])


def complexities() -> dict[str, int]:
    """Return the cyclomatic complexity of each function, its inner ones included.

    Beside statements that branch it counts `and`, `or`, conditional expressions and comprehensions, where ruff's C901
    does not: a reader has to follow those too.
    """
    counts = {}
    for room in package_folders():
        for path in (ROOT / room).rglob("*.py"):
            nodes = [ast.parse(path.read_text(encoding="utf-8"))]
            while nodes:
                node = nodes.pop()
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    counts[f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"] = 1 + sum(
                        map(branches, ast.walk(node))
                    )
                else:
                    nodes += ast.iter_child_nodes(node)
    return counts


def branches(node: ast.AST) -> int:
    """Return how many ways a node adds."""
    match node:
        case ast.BoolOp():
            return len(node.values) - 1
        case ast.comprehension():
            return 1 + len(node.ifs)
    branching = (
        ast.If | ast.For | ast.AsyncFor | ast.While | ast.ExceptHandler | ast.IfExp | ast.Assert | ast.match_case
    )
    return int(isinstance(node, branching))
