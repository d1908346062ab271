"""What a user gets who installs redraft."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FOLDERS: dict[str, str] = PROJECT["tool"]["setuptools"]["package-dir"]
PACKAGES = {
    package: FOLDERS.get(package) or package.removeprefix("redraft.").replace(".", "/")
    for package in PROJECT["tool"]["setuptools"]["packages"]
}
"""Each package, and the folder that holds its files."""
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
NEEDS = [Requirement(need) for need in [*PROJECT["project"]["dependencies"], *chain(*EXTRAS.values())]]
IGNORED = shutil.ignore_patterns("__pycache__", "*.py[co]", ".*_cache")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy, so that nothing left over from an earlier build gets into it."""
    copy = tmp_path_factory.mktemp("checkout")
    for folder in FOLDERS.values():
        shutil.copytree(ROOT / folder, copy / folder, ignore=IGNORED)
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / file, copy)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", "dist", "."]
    setuptools = list(importlib.metadata.distributions(name="setuptools"))
    if setuptools and int(setuptools[0].version.partition(".")[0]) >= 77:
        command.append("--no-build-isolation")
    subprocess.run(command, cwd=copy, check=True, capture_output=True)
    return next((copy / "dist").glob("redraft-*.whl"))


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    """A user gets every module and data file under `redraft/`, typed, and no other top-level name."""
    names = set(zipfile.ZipFile(wheel).namelist())
    info = f"redraft-{PROJECT['project']['version']}.dist-info"
    assert {name.partition("/")[0] for name in names} == {"redraft", info}
    expected = {
        f"{package.replace('.', '/')}/{path.relative_to(ROOT / folder).as_posix()}"
        for package, folder in PACKAGES.items()
        for path in (ROOT / folder).glob("*")
        if path.is_file()
        and path.suffix not in (".pyc", ".md")
        and not any(part.endswith("_cache") for part in path.parts)
    }
    assert {name for name in names if name.startswith("redraft/")} == expected
    assert "redraft/py.typed" in names
    assert f"{info}/licenses/LICENSE" in names


def test_the_wheel_imports_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    """A user who has installed the wheel can import each part and call `redraft`, far from any checkout."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    site = environment.joinpath(*Path(sysconfig.get_path("purelib")).relative_to(sys.prefix).parts)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", site, wheel]
    subprocess.run(install, check=True, capture_output=True)
    # Its dependencies are those of this environment; a plain path, so that no editable install comes along.
    code = f"""
import importlib, importlib.metadata, sys
sys.path.append({sysconfig.get_path("purelib")!r})
sys.path.append({sysconfig.get_path("platlib")!r})
for package in {list(PACKAGES)!r}:
    found = importlib.import_module(package).__file__
    assert found.startswith({str(site)!r}), found
from redraft.graphs.loop import build_refine_graph
from redraft.state import Limits, Thread, open_checkpointer
points = importlib.metadata.distribution("redraft").entry_points
(entry,) = points.select(group="console_scripts")
presets = sorted(point.load().name for point in points.select(group="redraft.presets"))
assert presets == ["folder", "retrieval", "travel"]
assert (entry.name, entry.value) == ("redraft", "redraft.faces.cli.main:main")
assert callable(entry.load())
"""
    python = environment / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    done = subprocess.run([python, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_import_is_declared() -> None:
    """A user of an extra has all that it imports, and none of it by the luck of another library's dependencies."""
    declared = {normal(need.name) for need in NEEDS}
    owners = importlib.metadata.packages_distributions()
    missing: dict[str, str] = {}
    for folder in FOLDERS.values():
        for path in (ROOT / folder).rglob("*.py"):
            for top in top_level_imports(path) - sys.stdlib_module_names:
                found = {normal(owner) for owner in owners.get(top, [top])}
                if not (found | {whole for owner in found for whole in declared if is_part(owner, whole)}) & declared:
                    missing[top] = str(path.relative_to(ROOT))
    assert missing == {}


def test_constraints_meet_the_declared_ranges() -> None:
    """The exact versions that CI tests are versions that a user may have."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    exact = [Requirement(line) for line in lines if line and not line.startswith("#")]
    assert all(str(pin.specifier).startswith("==") and pin.url is None for pin in exact)
    pinned = {normal(pin.name): str(pin.specifier)[2:] for pin in exact}
    groups = PROJECT["dependency-groups"]
    for need in [*NEEDS, *map(Requirement, groups["dev"] + groups["install"] + groups["supply"])]:
        assert pinned[normal(need.name)] in need.specifier


def test_langgraph_json_names_graphs_by_module() -> None:
    """The graphs that `langgraph dev` serves can be imported where redraft is installed."""
    config = json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8"))
    assert config["dependencies"] == ["."]
    assert config["graphs"]
    for name, target in config["graphs"].items():
        module, colon, attribute = target.partition(":")
        assert (colon, module.split(".")[:2]) == (":", ["redraft", "faces"]), f"{name} names a file, not a module"
        assert callable(getattr(import_module(module), attribute))


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def is_part(owner: str, whole: str) -> bool:
    """Whether a declared library is published in parts, of which this is one: `whole-part`, which `whole` requires."""
    if not owner.startswith(f"{whole}-"):
        return False
    return owner in {normal(Requirement(need).name) for need in importlib.metadata.requires(whole) or []}


def top_level_imports(path: Path) -> set[str]:
    """Names of the libraries that a module imports when it runs; what only type checkers read is left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    unread = {child for node in ast.walk(tree) if for_type_checkers(node) for child in ast.walk(node)}
    tops = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and node not in unread:
            tops |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node not in unread and not node.level and node.module:
            tops.add(node.module.partition(".")[0])
    return tops


def for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
