"""The rooms of the house: who may import whom, and that no module has two names."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[1]

BELOW: dict[str, set[str]] = {
    "state": set(),
    "models": set(),
    "nodes": {"state", "models"},
    "graphs": {"state", "models", "nodes"},
    "evals": {"state", "models", "nodes", "graphs"},
    "faces": {"state", "models", "nodes", "graphs", "evals"},
}
"""For each layer, those that it may import."""

VAGUE = {"utils", "util", "helpers", "helper", "common", "base", "misc"}
MODULES = sorted(path for layer in BELOW for path in (ROOT / layer).rglob("*.py"))


PACKAGED: set[str] = set(
    tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["package-dir"].values()
)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture(params=MODULES, ids=name)
def module(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def imports(path: Path) -> Iterator[tuple[str, ...]]:
    """Every import of ours in a module, as (layer, module, name …); those of other libraries as their full name."""
    here = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = here[: len(here) - node.level + 1] if node.level else ()
            target = (*start, *(node.module or "").split(".")) if node.module else start
            yield from ((*target, alias.name) for alias in node.names)


def test_imports_run_one_way(module: Path) -> None:
    """A reader of one layer never has to read a layer above it."""
    layer = module.relative_to(ROOT).parts[0]
    found = {target[0] for target in imports(module)} & BELOW.keys()
    assert found - {layer} <= BELOW[layer]


def test_imports_inside_are_relative(module: Path) -> None:
    """A module is known by one name only: nothing of ours is imported as `redraft.…` from inside."""
    assert "redraft" not in {target[0] for target in imports(module)}


def test_presets_import_only_the_loop() -> None:
    """Each preset in `graphs/` can be read, changed or deleted without its siblings."""
    presets = [path for path in (ROOT / "graphs").rglob("*.py") if path.stem not in ("__init__", "loop")]
    for path in [*presets, ROOT / "graphs" / "loop.py"]:
        siblings = {target[1] for target in imports(path) if target[0] == "graphs" and len(target) > 1}
        assert siblings <= ({"loop"} if path in presets else set()), name(path)


def test_only_faces_and_models_read_the_environment(module: Path) -> None:
    """What state, nodes and graphs do depends on their arguments alone."""
    if module.relative_to(ROOT).parts[0] in ("faces", "models"):
        return
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        read = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        assert read not in ("environ", "environb", "getenv", "getenvb"), f"{name(module)}:{getattr(node, 'lineno', 0)}"


def test_names_say_what_is_inside(module: Path) -> None:
    """A module is found by its name, which hides no module of the standard library."""
    assert module.stem not in VAGUE
    assert module.stem not in sys.stdlib_module_names - {"__main__"}


def test_modules_say_what_they_are_for(module: Path) -> None:
    """Each module opens with a docstring, and lists what it offers in `__all__`."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)
    assigned = {target.id for node in tree.body if isinstance(node, ast.Assign) for target in node.targets
                if isinstance(target, ast.Name)}  # fmt: skip
    if module.stem not in ("__init__", "__main__"):
        assert "__all__" in assigned


def test_every_layer_is_installed() -> None:
    """A layer in the checkout is one that an installed redraft has too."""
    assert {path.parent.relative_to(ROOT).as_posix() for path in MODULES} == PACKAGED


def test_nothing_is_importable_under_two_names(tmp_path: Path) -> None:
    """Installing redraft adds `redraft.state` and its kin, and takes no name such as `state` from the user."""
    packages = sorted(folder.replace("/", ".") for folder in PACKAGED)
    layers = sorted({folder.partition("/")[0] for folder in PACKAGED})
    code = f"""
        import importlib, importlib.util, sys
        for package in {packages!r}:
            importlib.import_module("redraft." + package)
        for layer in {layers!r}:
            assert importlib.util.find_spec(layer) is None, layer
        assert importlib.util.find_spec("tests") is None
        assert not [name for name in sys.modules if name.partition(".")[0] in {layers!r}]
    """
    isolated(code, cwd=tmp_path)


LIGHT = ("pydantic", "langgraph", "langchain_core", "langsmith", "openai", "httpx", "httpx2", "aiohttp", "rich")


def test_importing_the_state_stays_light(tmp_path: Path) -> None:
    """`import redraft.state` costs next to nothing: pydantic and langgraph come only with what needs them."""
    printed = isolated("import sys, redraft.state as state; print(*sys.modules); dir(state)", cwd=tmp_path)
    assert not imported(LIGHT, printed)


def test_limits_need_no_langgraph(tmp_path: Path) -> None:
    """`from redraft.state import Limits` takes no second: langgraph comes only with what needs it."""
    printed = isolated("import sys; from redraft.state import Limits; Limits(); print(*sys.modules)", cwd=tmp_path)
    assert not imported(("langgraph", "langchain_core", "openai", "rich"), printed)


def test_help_stays_light(tmp_path: Path) -> None:
    """`redraft --help` imports no model, no graph, no validation and not even the commands that it lists."""
    code = """
        import sys
        from redraft.faces.cli.main import main
        try:
            main(["--help"])
        except SystemExit as end:
            assert not end.code, end.code
        print(*sys.modules)
    """
    printed = isolated(code, cwd=tmp_path)
    assert "redraft" in printed
    assert not imported((*LIGHT, "redraft.state", "redraft.models", "redraft.nodes"), printed)
    assert "redraft.faces.commands_" not in printed


def imported(names: Sequence[str], printed: str) -> list[str]:
    """Return which of the names are among the modules that were printed last."""
    return sorted({*names} & {*printed.splitlines()[-1].split()})


def isolated(code: str, *, cwd: Path) -> str:
    """Run code in a fresh interpreter that sees installed packages only, and return what it prints."""
    lines = code.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    source = "\n".join(line[indent:] for line in lines)
    command = [sys.executable, "-I", "-W", "error", "-c", source]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
