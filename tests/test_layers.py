"""The rooms of the house: imports run one way, and no module has two names."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import sysconfig
import tomllib
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).resolve().parents[1]

SETUPTOOLS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
FOLDERS: dict[str, str] = SETUPTOOLS["package-dir"]
"""The packages that a root folder holds, and that folder."""

VAGUE = {"utils", "util", "helpers", "helper", "common", "base", "misc"}


@cache
def sources() -> dict[Path, ast.Module]:
    """Return every module of the package, parsed."""
    paths = [path for folder in FOLDERS.values() for path in sorted((ROOT / folder).rglob("*.py"))]
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def offenders(rule: Callable[[Path, ast.Module], bool]) -> list[str]:
    """Return the modules for which the rule does not hold."""
    return [name(path) for path, tree in sources().items() if not rule(path, tree)]


def imports(tree: ast.Module) -> set[str]:
    """Return the first name of each absolute import."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module.partition(".")[0])
    return found


def test_imports_run_one_way_and_in_no_circle() -> None:
    """A reader of one room never has to read a room above it: the contracts in `pyproject.toml` hold."""
    command = [Path(sysconfig.get_path("scripts")) / "lint-imports", "--no-logo", "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    analysed = re.search(r"Analyzed (\d+) files", done.stdout)
    assert analysed
    assert int(analysed[1]) == len(sources())


def test_benchmarks_import_each_other_in_no_circle() -> None:
    """A reader of one benchmark never has to read those that are built on it."""
    trees = {path.stem: ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "benchmarks").rglob("*.py")}
    graph = {module: (imports(tree) & trees.keys()) - {module} for module, tree in trees.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_imports_inside_are_relative() -> None:
    """A module is known by one name only: nothing of ours is imported as `redraft.…` from inside."""
    assert not offenders(lambda _, tree: "redraft" not in imports(tree))


def test_only_faces_and_models_read_the_environment() -> None:
    """What state, nodes and graphs do depends on their arguments alone; the faces of rooms read it as the core's do."""
    faces = {"faces", "models", "server", "evals/commands", "folders/boxed.py"}  # what it starts gets a part of it
    reads = {"environ", "environb", "getenv", "getenvb"}

    def holds(path: Path, tree: ast.Module) -> bool:
        parts = path.relative_to(ROOT).parts
        if {parts[0], "/".join(parts[:2])} & faces:
            return True
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        return not reads & (used | {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)})

    assert not offenders(holds)


def test_names_say_what_is_inside() -> None:
    """A module is found by its name, which hides no module of the standard library."""
    taken = VAGUE | (sys.stdlib_module_names - {"__main__"})
    # What is for Inspect is named as Inspect is, and imported by its whole name.
    assert not offenders(lambda path, _: path.stem not in taken or name(path) == "evals/inspect.py")


def test_modules_say_what_they_are_for() -> None:
    """Each module opens with a docstring, and lists what it offers in `__all__`."""

    def holds(path: Path, tree: ast.Module) -> bool:
        targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
        listed = any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)
        return bool(ast.get_docstring(tree)) and (listed or path.stem in ("__init__", "__main__"))

    assert not offenders(holds)


def test_what_is_not_public_says_so() -> None:
    """A reader of any module knows whether it may change in any release: only packages with public names, and what
    other programs name (the command, `langgraph.json`), are not internal."""
    named = {"api/extend.py", "evals/inspect.py", "faces/cli/main.py", "faces/studio.py"}
    public = {f"{folder}/__init__.py" for folder in FOLDERS.values()} | named

    def holds(path: Path, tree: ast.Module) -> bool:
        private = path.stem.startswith("_") and path.stem != "__init__"
        internal = (ast.get_docstring(tree) or "").partition("\n")[0].endswith("Internal.")
        return internal != (private or name(path) in public)

    assert not offenders(holds)


def test_every_folder_is_installed() -> None:
    """A folder of modules in the checkout is a package that an installed redraft has too."""
    packages = {package: FOLDERS.get(package) or package.removeprefix("redraft.").replace(".", "/")
                for package in SETUPTOOLS["packages"]}  # fmt: skip
    assert {name(path.parent) for path in sources()} == set(packages.values())


def test_nothing_is_importable_under_two_names(tmp_path: Path) -> None:
    """Installing redraft adds `redraft` and its subpackages, and takes no name such as `state` from the user."""
    code = f"""
        import importlib, importlib.util, sys
        for package in {SETUPTOOLS["packages"]!r}:
            importlib.import_module(package)
        for folder in {[*FOLDERS.values()]!r}:
            assert importlib.util.find_spec(folder) is None, folder
        assert importlib.util.find_spec("tests") is None
        assert not [name for name in sys.modules if name.partition(".")[0] in {[*FOLDERS.values()]!r}]
    """
    isolated(code, cwd=tmp_path)


def test_the_core_works_without_the_rooms_around_it(tmp_path: Path) -> None:
    """Where no room can be imported, a run is made, kept, forked, resumed and replayed all the same."""
    code = """
        import sys
        ROOMS = ("evals", "retrieval", "sandbox", "server", "travel", "folders")
        sys.modules.update({f"redraft.{room}": None for room in ROOMS})
        from redraft import Thread, build_refine_graph, open_checkpointer, uses_words, verifier_critic
        from redraft.models import ScriptedModel
        model = ScriptedModel(["A night.", "A lamp.", "A lamp in winter."])
        with open_checkpointer("runs.sqlite") as saver:
            graph = build_refine_graph(model, critics=[verifier_critic(uses_words("lamp"))], checkpointer=saver)
            out = graph.invoke({"task": "Write."}, {"configurable": {"thread_id": "one"}})
            assert out["answer"] == "A lamp.", out
            branch = Thread(graph, "one").fork(at=0, feedback="Make it about winter.")
            assert branch.resume()["answer"] == "A lamp in winter."
            assert branch.replay().matches
        assert not [name for name in sys.modules if name.split(".")[1:2] and name.split(".")[1] in ROOMS
                    and name.startswith("redraft.") and sys.modules[name] is not None]
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


def test_help_of_a_run_needs_no_graph(tmp_path: Path) -> None:
    """`redraft run --help` lists the options of every preset, and imports none of their graphs."""
    code = """
        import sys
        from redraft.faces.cli.main import main
        try:
            main(["run", "--help"])
        except SystemExit as end:
            assert not end.code, end.code
        print(*sys.modules)
    """
    printed = isolated(code, cwd=tmp_path)
    assert "--threshold" in printed
    parts = ("redraft.nodes.critics.critics", "redraft.nodes.verify.text_verifiers", "redraft.graphs.loop")
    assert not imported(("langgraph", "langchain_core", "openai", *parts), printed)


def imported(names: Sequence[str], printed: str) -> list[str]:
    """Return which of the names are among the modules that were printed last."""
    return sorted({*names} & {*printed.splitlines()[-1].split()})


def isolated(code: str, *, cwd: Path) -> str:
    """Run code in a fresh interpreter that sees installed packages only, and return what it prints."""
    lines = code.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    source = "\n".join(line[indent:] for line in lines)
    # langsmith's, on Python 3.14.
    theirs = "ignore:'asyncio.iscoroutinefunction' is deprecated:DeprecationWarning"
    command = [sys.executable, "-I", "-W", "error", "-W", theirs, "-c", source]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
