"""A preset is declared once, and is on every face: the command line, stored recipes, Studio, the server, the docs."""

from __future__ import annotations

import asyncio
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from redraft._plugins import forget_plugins
from redraft.faces import studio
from redraft.graphs import registry
from redraft.server.engine.assistants import Assistants
from redraft.server.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]
TASK = "Write about the moon."

HAIKU = """
from redraft.graphs.preset import Option, Preset


def build(model, critics, verifiers, *, lines=3, **options):
    from redraft.graphs.loop import build_refine_graph

    return build_refine_graph(model, generate_prompt=f"Write a poem of {lines} lines: {{task}}", **options)


LINES = Option("lines", int, "--lines", "How many lines the poem has.", metavar="N", least=1)
PRESET = Preset("haiku", "Short poems.", build, options=(LINES,), no_critics="lines are counted by a program")
"""


@pytest.fixture
def haiku(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package of somebody else's, installed: one file, and the entry point that names it."""
    site = tmp_path / "site"
    info = site / "haiku_preset-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "haiku_preset.py").write_text(HAIKU, encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: haiku-preset\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[redraft.presets]\nhaiku = haiku_preset:PRESET\n", encoding="utf-8")
    monkeypatch.syspath_prepend(site)
    forget()
    yield "haiku"
    monkeypatch.undo()
    forget()
    sys.modules.pop("haiku_preset", None)
    importlib.reload(studio)


def forget() -> None:
    """Look for packages anew, as a new process does."""
    importlib.invalidate_caches()
    forget_plugins()


def test_a_preset_of_one_file_is_run_resumed_and_forked(shell: Any, scripted: Callable[..., str], haiku: str) -> None:
    """The help page has its name and its option; the option is checked, stored with the run, and used on resuming."""
    page = shell("run", "--help").out
    assert "haiku" in page
    assert "--lines" in page
    assert "For --graph haiku." in " ".join(page.replace("│", " ").split())

    words = ("run", TASK, "--graph", haiku, "--model", scripted("a", "Too long.", "b", "No issues"), "--thread", "t")
    assert "Invalid value for '--lines'" in shell(*words, "--lines", "0").err
    assert "--critic has no use in haiku: lines are counted by a program" in shell(*words, "--critic", "self").err
    assert "--depth is for --graph branching" in shell(*words, "--depth", "1").err
    assert "--lines is for --graph haiku" in shell("run", TASK, "--model", words[5], "--lines", "2").err

    shown = shell(*words, "--lines", "4", "--max-rounds", "0", "--json")
    assert (shown.json["stop_reason"], shown.json["answer"]) == ("max_rounds", "a")
    [row] = shell("threads", "--json").json
    assert (row["recipe"]["preset"], row["recipe"]["lines"]) == ("haiku", 4)
    assert shell("resume", "t", "--max-rounds", "1", "--json").json["rounds"] == 1
    assert shell("fork", "t", "--at", "0", "--feedback", "Shorter.", "--as", "s", "--json").code == 0
    assert shell("html", "t").code == 0


def test_a_preset_of_one_file_is_served(scripted: Callable[..., str], haiku: str, monkeypatch: Any) -> None:
    """LangGraph's Studio and redraft's own server offer it under its name, with what it does in a sentence."""
    model = scripted("a moon", "No issues")
    monkeypatch.setenv("REDRAFT_MODEL", model)
    importlib.reload(studio)
    assert studio.served_graphs()[haiku] == "redraft.faces.studio:haiku"
    answer = vars(studio)[haiku]().invoke({"task": TASK, "limits": {"max_rounds": 0}})["answer"]
    assert answer == "a moon"

    offered = Assistants(Settings(model=model), None, None)
    assert offered.known[haiku].served.line == "Short poems."
    out = asyncio.run(
        offered.graph_of(offered.known[haiku].recipe(model)).ainvoke({"task": TASK, "limits": {"max_rounds": 0}})
    )
    assert out["answer"] == "a moon"


def test_without_its_package_a_thread_is_still_read(
    shell: Any, scripted: Callable[..., str], haiku: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine that lacks the package the thread is shown, and resuming it says which graph is missing."""
    assert shell("run", TASK, "--graph", haiku, "--model", scripted("a", "No issues"), "--thread", "t").code == 0
    monkeypatch.setattr(sys, "path", [place for place in sys.path if not place.endswith("site")])
    forget()
    assert shell("show", "t", "--json").json["answer"] == "a"
    refused = shell("resume", "t", "--max-rounds", "1")
    assert refused.code == 2
    assert "there is no graph 'haiku'" in refused.err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("PRESET = None", "is no Preset"),
        ("import nothing_of_this_name", "can't be loaded: No module named 'nothing_of_this_name'"),
        (HAIKU.replace('"haiku", "Short', '"math", "Short'), "its name is taken"),
        (HAIKU.replace('"lines"', '"depth"'), "the option 'depth' of the preset 'haiku' is another preset's"),
        (HAIKU.replace('"lines"', '"model"'), "the option 'model' of the preset 'haiku' is another preset's"),
    ],
)
def test_a_preset_that_can_not_be_used_is_named(shell: Any, tmp_path: Path, haiku: str, text: str, says: str) -> None:
    """Whoever installed a broken preset reads which one it is."""
    (tmp_path / "site" / "haiku_preset.py").write_text(text, encoding="utf-8")
    forget()
    shown = shell("run", "--help")
    assert shown.code == 2
    assert says in shown.err


def test_the_docs_list_every_preset_and_option() -> None:
    """The table in docs/presets.md has a row for each preset of the registry, with its options."""
    page = (ROOT / "docs" / "presets.md").read_text(encoding="utf-8")
    rows = ["| graph | what it does | options of its own |", "| --- | --- | --- |"]
    for preset in registry.registered():
        options = ", ".join(f"`{option.flag}`" for option in preset.options if option.flag)
        rows.append(f"| `{preset.name}` | {preset.line} | {options} |")
    assert "\n".join(rows) in page, "\n".join(["docs/presets.md should hold:", *rows])
