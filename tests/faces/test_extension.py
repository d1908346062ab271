"""A package of somebody else's adds a preset, a critic and a verifier, and each is known by name on every face."""

from __future__ import annotations

import ast
import asyncio
import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from redraft import extend
from redraft._plugins import forget_plugins
from redraft.server.engine.assistants import Assistants
from redraft.server.engine.call_options import call_options, checked_options
from redraft.server.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "redraft_haiku"
TASK = "Write about the moon."
POEM = "The moon is rising\nover fields of yellow leaves\nand a quiet lake"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the example package is installed in, from a copy, so that the checkout stays as it is."""
    folder = tmp_path_factory.mktemp("haiku")
    shutil.copytree(EXAMPLE, folder / "source")
    install = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    subprocess.run([sys.executable, *install, "--target", folder / "site", folder / "source"], check=True)
    return folder / "site"


@pytest.fixture
def haiku(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The package, as a process finds it in which it is installed."""
    monkeypatch.syspath_prepend(site)
    importlib.invalidate_caches()
    forget_plugins()
    yield "haiku"
    monkeypatch.undo()
    importlib.invalidate_caches()
    forget_plugins()
    for name in [name for name in sys.modules if name.startswith("redraft_haiku")]:
        del sys.modules[name]


def test_what_a_package_adds_is_run_by_name_and_stays_in_the_recipe(
    shell: Any, scripted: Callable[..., str], haiku: str
) -> None:
    """Its preset with its option, its critic and its verifier are on the help page, run, stored, resumed and forked."""
    page = " ".join(shell("run", "--help").out.replace("│", " ").split())
    for text in ("haiku", "--lines", "season:SEASON (whether a poem is of this season)", "lines:N"):
        assert text in page

    golden = POEM.replace("yellow", "golden")
    model = scripted("One line.", "winter", POEM, "winter", golden, "Autumn.", golden, "Autumn.")
    words = ("run", TASK, "--graph", haiku, "--model", model, "--lines", "3", "--critic", "season:autumn")
    shown = shell(*words, "--thread", "t", "--json")
    assert (shown.json["answer"], shown.json["accepted_by"]) == (golden, "lines, season:autumn")
    [row] = shell("threads", "--json").json
    recipe = row["recipe"]
    assert (recipe["preset"], recipe["lines"], recipe["critics"]) == ("haiku", 3, ["season:autumn"])
    assert shell("resume", "t", "--json").json["answer"] == golden
    assert shell("fork", "t", "--at", "0", "--feedback", "Of autumn.", "--as", "s", "--json").code == 0

    plain = shell("run", TASK, "--model", scripted("One line.", POEM), "--verify", "lines:3", "--json")
    assert (plain.json["accepted_by"], plain.json["answer"]) == ("lines", POEM)
    refused = shell("run", TASK, "--model", scripted("x"), "--verify", "lines:three")
    assert (refused.code, "'three' is not a number of lines" in refused.err) == (2, True)
    refused = shell("run", TASK, "--model", scripted("x"), "--critic", "season")
    assert (refused.code, "the critic 'season' makes no sense: write season:SEASON" in refused.err) == (2, True)


def test_what_a_package_adds_is_evaluated_and_calibrated(
    shell: Any, scripted: Callable[..., str], haiku: str, tmp_path: Path
) -> None:
    """`eval` has its preset as a method, with its option, beside a critic of its own; `calibrate` has the critic."""
    dataset = tmp_path / "sums.jsonl"
    problem = {"id": "1", "question": "What is 2 + 1?", "answer": "So it is\n#### 3"}
    dataset.write_text(json.dumps(problem) + "\n", encoding="utf-8")
    model = scripted("Three\n#### 3", "autumn", "Three\n#### 3", "autumn")
    shown = shell(
        "eval", str(dataset), "--methods", "haiku,self-refine-1", "--option", "lines=2", "--critic", "season:autumn",
        "--model", model, "--concurrency", "1", "--out", str(tmp_path / "out"), "--json",
    )  # fmt: skip
    assert shown.code == 0, shown.err
    info = json.loads((tmp_path / "out" / "haiku" / "run.json").read_text(encoding="utf-8"))
    assert (info["method"], info["options"], info["critic"]) == ("haiku", {"lines": 2}, "season:autumn")
    for method in ("haiku", "self-refine-1"):
        [line] = (tmp_path / "out" / method / "results.jsonl").read_text(encoding="utf-8").splitlines()
        record = json.loads(line)
        assert (record["is_correct"], record["error"]) == (True, None)

    rows = [{"task": f"{TASK} {number}", "draft": POEM, "right": True} for number in range(30)]
    labelled = tmp_path / "rows.jsonl"
    labelled.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    judge = tmp_path / "judge.json"
    told = ("calibrate", str(labelled), "--critic", "season:autumn", "--model", scripted(*["Autumn"] * 30))
    assert shell(*told, "--out", str(judge)).code == 0
    assert json.loads(judge.read_text(encoding="utf-8"))["critics"][0]["spec"] == "season:autumn"
    accepted = shell("run", TASK, "--model", scripted(POEM, "autumn"), "--judge", str(judge), "--json")
    assert accepted.json["accepted_by"] == "judge (calibrated)"


def test_what_a_package_adds_is_served(scripted: Callable[..., str], haiku: str) -> None:
    """The server offers its preset; a caller may set its option and give its verifier, and runs it."""
    settings = Settings(model=scripted("A moon.", POEM))
    offered = Assistants(settings, None, None)
    assistant = offered.known[haiku]
    assert assistant.served.line == "Short poems."
    assert {"lines", "critics", "verifiers"} <= set(call_options(assistant, settings).model_fields)
    options = checked_options(assistant, settings, {"lines": 3, "verifiers": ["lines:3"]})
    out = asyncio.run(offered.graph_of(assistant.recipe(settings.model, options)).ainvoke({"task": TASK}))
    assert (out["answer"], out["stop_reason"]) == (POEM, "accepted")


def test_the_example_uses_public_names_only() -> None:
    """Whoever copies it depends on nothing that redraft may change."""
    allowed = {"redraft": set(importlib.import_module("redraft").__all__), "redraft.extend": set(extend.__all__)}
    for path in EXAMPLE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").startswith("redraft"):
                assert {name.name for name in node.names} <= allowed[node.module or ""], path
            assert not (isinstance(node, ast.Import) and any(name.name.startswith("redraft") for name in node.names))


def test_the_extension_interface_is_there_and_documented() -> None:
    """Each name of `redraft.extend` can be imported, and the page says what each is."""
    assert sorted(extend.__all__) == dir(extend) == sorted(name for names in extend.MEANINGS.values() for name in names)
    assert all(getattr(extend, name) is not None for name in extend.__all__)
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    for names in extend.MEANINGS.values():
        for name, meaning in names.items():
            assert f"| `{name}` | {meaning} |" in page
