"""Everybody can use the page: axe finds nothing in any of its views, nor in the page that `redraft html` writes."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest
from redraft.faces.views.run_page import write_run_page
from redraft.graphs.branching import build_branching_graph
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.nodes import uses_words
from redraft.nodes.critics.critics import human_critic, verifier_critic
from redraft.state import Thread, open_checkpointer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

AXE = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
FOUND = """axe.run(document, {resultTypes: ["violations"]}).then((found) => JSON.stringify(
    found.violations.map((one) => [one.id, one.nodes.map((node) => node.html.slice(0, 200))])))"""
READY = "document.getElementById('place')?.getAttribute('aria-busy') === 'false'"
MARKDOWN = "# A lamp\n\n- by the **river**\n\n|a|b|\n|-|-|\n|1|2|\n\n```\nx = 1\n```\n\n> [manual](https://a.example)"


@pytest.fixture
def pages(tmp_path: Path, start_server: Callable[..., Any]) -> dict[str, str]:
    """Address of each view: of a server that has no run yet, and of one whose threads stand as threads can stand."""
    db = str(tmp_path / "runs.sqlite")
    with open_checkpointer(db) as saver:

        def run(name: str, *replies: Any, task: str = "Write.", person: bool = False) -> Thread:
            critics = [verifier_critic(uses_words("river", "bell")), *([human_critic()] if person else [])]
            graph = build_refine_graph(ScriptedModel(list(replies)), critics=critics, checkpointer=saver)
            graph.invoke({"task": task, "limits": {"max_rounds": 2}}, {"configurable": {"thread_id": name}})
            return Thread(graph, name)

        story = run("story", "A lamp.", f"{MARKDOWN} again", f"{MARKDOWN} bell", *[f"A river, {n}." for n in range(6)])
        for number in range(3):
            story.fork(at=0, feedback=f"Name river {number}.", thread_id=f"story-{number}").resume()
        run("asking", "A river, a bell.", person=True)
        run("arabic", "المصباح بجانب النهر.", "- **الأول** river\n- bell", task="اكتب جملة.")
        with pytest.raises(RuntimeError):
            run("failed", RuntimeError("no key"))
        words = verifier_critic(uses_words("boat"))
        search = build_branching_graph(ScriptedModel(["A lamp."] * 9), critics=[words], depth=1, checkpointer=saver)
        search.invoke({"task": "Search."}, {"configurable": {"thread_id": "search"}})
        page = write_run_page(story, tmp_path / "story.html")
    url = start_server(db=db, models=("openai:other",)).url
    threads = ("story", "asking", "arabic", "failed", "search", "nobody")
    return {
        "empty": start_server().url,
        "home": url,
        **{name: f"{url}/#/threads/{name}" for name in threads},
        "branches": f"{url}/#/compare?one=story&two=story-1",
        "html": page.as_uri(),
    }


@pytest.mark.slow
def test_axe_finds_nothing(pages: dict[str, str], chromium: Any) -> None:
    """Whoever reads by ear, by keyboard or enlarged finds names, order and contrast in each view, folded parts open."""
    chromium.looks(390)
    found = {}
    for name, address in pages.items():
        chromium.visit(address)
        if name != "html":
            chromium.wait_for(READY)
        chromium.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        chromium.run(f"{AXE}; null")
        found[name] = json.loads(chromium.run(FOUND))
        assert chromium.run("document.documentElement.scrollWidth <= innerWidth"), name
    assert {name: one for name, one in found.items() if one} == {}
