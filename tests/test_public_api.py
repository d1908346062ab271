"""The public API: what each package offers, what the page lists, and what type checkers see."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = [
    "redraft",
    *(
        f"redraft.{name}"
        for name in (
            "state",
            "models",
            "nodes",
            "graphs",
            "faces",
            "evals",
            "retrieval",
            "sandbox",
            "server",
            "travel",
            "folders",
        )
    ),
]
PAGE = (ROOT / "docs" / "public_api.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \|(?: `([\w.]+)` \|)?", re.MULTILINE)


def listed() -> dict[str, set[str]]:
    """Return the names that the page lists for each package."""
    found: dict[str, set[str]] = {}
    for section in PAGE.split("\n## ")[1:]:
        package = section.splitlines()[0].strip("`")
        for name, also in ROW.findall(section):
            found.setdefault(package, set()).add(name)
            if also:
                found.setdefault(also, set()).add(name)
    return found


@pytest.fixture(params=PACKAGES)
def package(request: pytest.FixtureRequest) -> ModuleType:
    return import_module(request.param)


def test_every_public_name_is_there(package: ModuleType) -> None:
    """Each name of `__all__` can be imported from its package, and `dir` lists it."""
    assert sorted(package.__all__) == dir(package)
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'nonsense'"):
        package.nonsense  # noqa: B018


def test_a_plain_install_has_all_names_but_those_of_extras(forking: Any) -> None:
    """Without LangChain's agents `from redraft import *` and `help(redraft)` work, and leave out the middleware."""
    code = """
import importlib.util
import pydoc

find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "langchain" else find_spec(name, *more)
for package in ("redraft", "redraft.graphs"):
    names = {}
    exec(f"from {package} import *", names)
    print("build_refine_graph" in names, "RefineMiddleware" in names)
    print("build_refine_graph" in pydoc.render_doc(importlib.import_module(package)))
"""
    done = forking.run(["-c", code])
    assert done.stdout.split() == ["True", "False", "True"] * 2, done.stderr


def test_no_public_name_is_a_module(package: ModuleType) -> None:
    """What a name means does not depend on which modules were imported before."""
    assert not [
        name for name in package.__all__ if not name.startswith("_") and find_spec(f"{package.__name__}.{name}")
    ]


def test_the_page_lists_what_is_public() -> None:
    """`docs/public_api.md` names all that is public, and nothing that a package does not offer."""
    assert listed() == {name: set(import_module(name).__all__) for name in PACKAGES}


def test_importing_redraft_costs_next_to_nothing(tmp_path: Path) -> None:
    """`import redraft` loads two modules of ours, and nothing that is installed beside it."""
    code = "import sys; before = {*sys.modules}; import redraft; print(*sorted({*sys.modules} - before))"
    done = subprocess.run([sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {name for name in loaded if name.partition(".")[0] not in sys.stdlib_module_names} == {
        "redraft",
        "redraft._lazy",
    }


@pytest.mark.slow
def test_type_checkers_see_the_types(tmp_path: Path) -> None:
    """A typed program has the types of all public names, and is told of a misspelt one."""
    names = {name: ", ".join(import_module(name).__all__) for name in PACKAGES}
    imports = "\n".join(f"from {name} import {names[name]}" for name in reversed(PACKAGES))
    (tmp_path / "program.py").write_text(f"""{imports}
from redraft.nodes import has_length, same_number
graph = build_refine_graph(chat_model("local"), critics=[verifier_critic(uses_words("river"))])
reveal_type(Thread(graph, "a").fork(at=0))
reveal_type(Limits(max_rounds=1))
reveal_type(same_number("1", "1.0"))
reveal_type(__version__)
from redraft import build_refine_grap
""")
    shared = ["--config-file", ROOT / "pyproject.toml", "--cache-dir", ROOT / ".mypy_cache"]  # that of `make types`
    command = [sys.executable, "-m", "mypy", *shared, "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    revealed = re.findall(r'Revealed type is "([^"]+)"', done.stdout)
    assert [found.rpartition(".")[2] for found in revealed] == ["Thread", "Limits", "bool", "str"], done.stdout
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert len(errors) == 1, done.stdout
    assert 'Module "redraft" has no attribute "build_refine_grap"' in errors[0]


def test_a_name_that_moved_works_and_says_where_it_is() -> None:
    """Code that imports a name from where it was goes on, with a warning that names the new place."""
    from redraft._lazy import MOVED

    assert sum(map(len, MOVED.values())) > 20
    for package, names in MOVED.items():
        for name, home in names.items():
            with pytest.warns(DeprecationWarning, match=f"{package}.{name} is {home}.{name} now"):
                moved = getattr(import_module(package), name)
            assert moved is getattr(import_module(home), name)
