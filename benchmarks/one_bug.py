"""Writes small projects with one bug each, for `benchmarks/folders.py`.

    python benchmarks/one_bug.py --programs quixbugs.jsonl --functions humaneval.jsonl --count 60 --out projects.jsonl

A row of `--programs` has `name`, `buggy` and `cases` (`[arguments, result]`): each is a project of one module. A row of
`--functions` is one of HumanEval's. About every second of their projects has three modules: two functions in two files,
and a third file that the tests import both from. The bug is the first change of one operator, comparison or number, in
an order drawn by the project's name, that visible and hidden assertions notice. Functions with fewer than four plain
assertions are left out.

A line of `--out` has `name`, `target` (the file with the bug), `files`, `tests` (each by its path) and `hidden`
(tests that no check and no model sees).
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from redraft.folders.boxed import Box

PYTEST = f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {sys.executable} -m pytest -q -p no:cacheprovider"
SETTINGS = "[pytest]\npythonpath = .\n"
CASES = """import json, types
from pathlib import Path
import pytest
from {name} import {name}

CASES = json.loads(Path(__file__).with_name("cases.json").read_text())


def plain(value):
    if isinstance(value, types.GeneratorType | tuple | list | set):
        return [plain(one) for one in value]
    return value


@pytest.mark.parametrize("given, result", CASES)
def test_case(given, result):
    wanted = pytest.approx(result, rel=1e-2) if isinstance(result, float) else result
    assert plain({name}(*given)) == wanted
"""
SWAPS: dict[type[ast.AST], Any] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


def from_program(row: dict[str, Any]) -> dict[str, Any]:
    """Return the project of a program that has its bug: every second case in its tests, the others hidden."""
    name, test = row["name"], f"test_{row['name']}.py"
    code = CASES.format(name=name)
    tests, hidden = (
        {f"{folder}/{test}": code, f"{folder}/cases.json": json.dumps(cases)}
        for folder, cases in (("tests", row["cases"][::2]), ("held_back", row["cases"][1::2]))
    )
    files = {f"{name}.py": row["buggy"], "pytest.ini": SETTINGS}
    return {"name": name, "target": f"{name}.py", "files": files, "tests": tests, "hidden": hidden}


def assertions(row: dict[str, Any]) -> list[str]:
    """Return the plain assertions of a HumanEval test, as calls of the function by its name."""
    check = next(node for node in ast.parse(row["test"]).body if isinstance(node, ast.FunctionDef))
    if not all(isinstance(node, ast.Assert | ast.Expr) for node in check.body):
        return []
    found = [node for node in check.body if isinstance(node, ast.Assert) and "candidate(" in ast.unparse(node.test)]
    return [f"assert {ast.unparse(node.test).replace('candidate(', row['entry_point'] + '(')}" for node in found]


def mutants(source: str, name: str) -> Iterator[str]:
    """Yield a module with one operator, comparison or number changed, in an order that its name draws."""
    places = [i for i, node in enumerate(ast.walk(ast.parse(source))) if change(node)]
    random.Random(name).shuffle(places)
    for place in places:
        tree = ast.parse(source)
        change([*ast.walk(tree)][place])
        yield ast.unparse(tree) + "\n"


def change(node: ast.AST) -> bool:
    """Change a number, or the operator of a node; return whether it has one that can be."""
    match node:
        case ast.Constant(value=int() as value) if type(value) is int:
            node.value = value + 1
        case ast.Compare(ops=[first, *_]) if type(first) in SWAPS:
            node.ops[0] = SWAPS[type(first)]()
        case ast.BinOp(op=operator) | ast.BoolOp(op=operator) if type(operator) in SWAPS:
            node.op = SWAPS[type(operator)]()
        case _:
            return False
    return True


def from_functions(row: dict[str, Any], beside: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the project of a function that gets a bug, and of another beside it that keeps none."""
    rows = [row, beside] if beside else [row]
    name = "_and_".join(one["entry_point"] for one in rows)
    files = {f"{one['entry_point']}.py": one["prompt"] + one["canonical_solution"] for one in rows}
    imports = "".join(f"from {one['entry_point']} import {one['entry_point']}\n" for one in rows)
    if beside:
        files["tools.py"] = f'"""The functions of this project, in one place."""\n\n{imports}'
        imports = "".join(f"from tools import {one['entry_point']}\n" for one in rows)
    tests, hidden = ({}, {})
    for one in rows:
        lines = assertions(one)
        for folder, part, kept in (("tests", lines[::2], tests), ("held_back", lines[1::2], hidden)):
            cases = "".join(f"\n\ndef test_{i}():\n    {line}\n" for i, line in enumerate(part))
            kept[f"{folder}/test_{one['entry_point']}.py"] = imports + cases
    target = f"{row['entry_point']}.py"
    project = {"name": name, "target": target, "files": files | {"pytest.ini": SETTINGS}}
    project |= {"tests": tests, "hidden": hidden}
    if (failed(project, "tests"), failed(project, "held_back")) != (0, 0):
        return None
    for code in mutants(files[target], name):
        bad = project | {"files": project["files"] | {target: code}}
        if failed(bad, "tests") > 0 and failed(bad, "held_back") > 0:
            return bad
    return None


def failed(project: dict[str, Any], folder: str) -> int:
    """Return how many tests of a folder fail; where they did not run to their end, -1."""
    with tempfile.TemporaryDirectory() as scratch:
        write(project, Path(scratch), hidden=True)
        done = Box(timeout_s=10).run(f"{PYTEST} -rf {folder}", Path(scratch))
    return done.output.count("\nFAILED ") if done.code in (0, 1) and not done.ended else -1


def write(project: dict[str, Any], folder: Path, *, hidden: bool = False) -> None:
    """Write the files of a project, and the tests that its checks run; the hidden ones too where `hidden` says so."""
    for path, text in (project["files"] | project["tests"] | (project["hidden"] if hidden else {})).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


def main(args: argparse.Namespace) -> None:
    """Write the projects."""
    programs, functions = (
        [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for path in (args.programs, args.functions)
    )
    projects = [from_program(row) for row in programs][: args.count]
    usable = [row for row in functions if len(assertions(row)) >= 4]
    for row, beside in zip(usable, usable[1:] + usable[:1], strict=True):
        if len(projects) < args.count:
            made = from_functions(row, beside if len(projects) % 2 else None)
            projects += [made] if made else []
    args.out.write_text("".join(json.dumps(one) + "\n" for one in projects), encoding="utf-8")
    print(f"{len(projects)} projects, {sum('tools.py' in one['files'] for one in projects)} of three modules")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, required=True, help="programs with a bug each, as JSONL")
    parser.add_argument("--functions", type=Path, required=True, help="rows of HumanEval, as JSONL")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--out", type=Path, required=True, help="a line for each project")
    main(parser.parse_args())
