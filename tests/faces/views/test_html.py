"""`redraft html` writes a run as one page that opens anywhere, without a network or a script, light and dark."""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from redraft.faces.views.run_page import write_run_page
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.nodes import uses_words
from redraft.nodes.critics.critics import verifier_critic
from redraft.state import Thread, open_checkpointer

VERIFY = ("--verify", "uses_words:river,lamp")
HOSTILE = (
    "</style></svg></script><script>window.taken = 1</script>"
    "<img src='http://127.0.0.1:4/x' onerror='window.taken = 2'>{{ 7 * 7 }} \x1b[31m \u202e שלום 漢字 "
)
SECTIONS = ["task", "answer", "rounds", "timeline", "graph", "branches"]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three drafts with a fork, in a hostile model's words."""
    endless = "x" * 400
    replies = [HOSTILE, f"{HOSTILE} river {endless}", f"river and lamp {HOSTILE}", "A river, a lamp."]
    with open_checkpointer("memory") as saver:
        graph = build_refine_graph(
            ScriptedModel(replies), critics=[verifier_critic(uses_words("river", "lamp"))], checkpointer=saver
        )
        graph.invoke({"task": HOSTILE}, {"configurable": {"thread_id": f"run {HOSTILE}"}})
        thread = Thread(graph, f"run {HOSTILE}")
        thread.fork(at=0, feedback=HOSTILE, thread_id="fork").resume()
        return write_run_page(thread, tmp_path_factory.mktemp("page") / "run.html")


def test_a_page_is_written_from_the_shell(shell: Any, scripted: Any) -> None:
    """`redraft html ID` writes ID.html, `-o` names another file, and each view is in it."""
    model = scripted("A lamp.", "A lamp by the river.", "Ice on a river, a lamp.")
    assert shell("run", "Write one.", "--model", model, *VERIFY, "--thread", "first/b0.1").code == 0
    wish = ("--feedback", "Winter.", "--verify", "uses_words:ice")
    assert shell("fork", "first/b0.1", "--at", "0", *wish, "--as", "winter", "--run").code == 0
    shell("html", "winter", "-o", "winter.html")
    assert '<span class="badge good">satisfied · uses_words:ice</span>' in Path("winter.html").read_text("utf-8")
    assert shell("html", "first/b0.1").out.strip() == "wrote first-b0.1-c59c19ee.html"
    done = shell("html", "first/b0.1", "-o", "run.html", "--json")
    assert done.json == {"thread_id": "first/b0.1", "page": "run.html"}
    text = Path("run.html").read_text(encoding="utf-8")
    assert text == Path("first-b0.1-c59c19ee.html").read_text(encoding="utf-8")
    assert re.findall(r'<section id="(\w+)"', text) == SECTIONS
    assert "<del>lamp</del><ins>lamp by the river</ins>" in text
    assert "These words are missing: river." in text
    assert '<li dir="auto">It has each of the words &#34;river&#34;, &#34;lamp&#34;, exactly as written.</li>' in text
    assert text.count("winter") == 1


@pytest.mark.parametrize(
    ("options", "node"), [(("--graph", "writing"), "refine"), (("--critic", "self"), "feedback"), ((), "check")]
)
def test_the_drawing_is_that_of_the_runs_own_graph(
    shell: Any, scripted: Any, options: tuple[str, ...], node: str
) -> None:
    """The page is made without a model or a key, whatever the run was made with."""
    model = scripted(*["A lamp by the river."] * 3)
    assert shell("run", "Write one.", "--model", model, "--thread", "one", *options, "--max-rounds", "0").code == 3
    assert shell("html", "one").code == 0
    text = Path("one.html").read_text(encoding="utf-8")
    assert f'data-id="{node}"' in text
    assert "not in this drawing" not in text


def test_a_run_that_is_not_at_its_end_has_a_page(shell: Any, scripted: Any) -> None:
    """What is spent is told before the first verdict too, and no draft is called the answer."""
    model = scripted("A lamp.", "A river.")
    assert shell("run", "Write one.", "--model", model, *VERIFY, "--thread", "one", "--max-rounds", "1").code == 3
    assert shell("fork", "one", "--at", "1", "--draft", "A boat.", "--as", "waiting").code == 0
    assert shell("html", "waiting").code == 0
    text = Path("waiting.html").read_text(encoding="utf-8")
    spent = shell("history", "waiting", "--json").json["total"]["tokens"]
    assert spent > 0
    assert f"<span>{spent} tokens</span>" in text
    assert "the answer" not in text
    assert "the best so far" in text


def test_what_can_not_be_written_is_named(shell: Any, scripted: Any) -> None:
    """An unknown thread or a folder that is not there ends with 2 and a line that says so."""
    assert shell("run", "Write.", "--model", scripted("A river, a lamp."), *VERIFY, "--thread", "one").code == 0
    unknown = shell("html", "nobody")
    assert (unknown.code, "no thread 'nobody'" in unknown.err) == (2, True)
    nowhere = shell("html", "one", "-o", "missing/run.html")
    assert (nowhere.code, "missing/run.html" in nowhere.err) == (2, True)
    lost = shell("html", "one", "-o", "runs.sqlite")
    assert (lost.code, "is there already and is no page" in lost.err) == (2, True)
    assert shell("show", "one").code == 0


def test_a_thread_built_in_python_has_a_page(shell: Any) -> None:
    """A run of a script, which the shell can't resume, can be looked at all the same."""
    with open_checkpointer("runs.sqlite") as saver:
        graph = build_refine_graph(ScriptedModel(["A river."]), critics=[verifier_critic(uses_words("river"))],
                                   checkpointer=saver)  # fmt: skip
        graph.invoke({"task": "Write."}, {"configurable": {"thread_id": "mine"}})
    assert shell("html", "mine").code == 0
    assert "A river." in Path("mine.html").read_text(encoding="utf-8")


def test_the_terminal_says_what_the_page_says(shell: Any, scripted: Any) -> None:
    """`history` ends with what all cost, `diff` says which critique did it, `tree` has tokens."""
    model = scripted("A lamp.", "A lamp by the river.")
    assert shell("run", "Write one.", "--model", model, *VERIFY, "--thread", "one").code == 0
    used = shell("show", "one", "--json").json["usage"]
    history = shell("history", "one")
    assert f"in all: 2 calls · {used['total_tokens']} tokens" in history.out
    assert shell("history", "one", "--json").json["total"]["tokens"] == used["total_tokens"]
    differs = shell("diff", "one")
    assert "because of what was said about round 0" in differs.out
    assert "These words are missing: river." in differs.out
    found = shell("diff", "one", "--json").json
    assert (found["rounds"], found["because"][0]["round"]) == ([0, 1], 0)
    assert found["because"][0]["critiques"][0]["by"] == "uses_words"
    assert re.search(rf"accepted +\d +1\.00 +{used['total_tokens']}\n", shell("tree", "one").out)


# In a browser.


@pytest.mark.one_of_each("width")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1200, 700, 400])
def test_the_page_fits_the_screen_and_fetches_nothing(chromium: Any, page: Path, width: int, dark: bool) -> None:
    """At every width nothing is cut off, the theme is the system's, and no request or complaint is made."""
    from matplotlib.image import imread

    chromium.looks(width, dark=dark)
    chromium.open(page)
    assert chromium.run("window.taken ?? null") is None
    assert chromium.requested() == []
    assert chromium.complaints() == []
    assert chromium.run("document.documentElement.scrollWidth <= innerWidth")
    assert chromium.run("document.querySelectorAll('script, main img').length") == 0
    assert chromium.run("document.querySelector('svg.curve').getBoundingClientRect().height") > 40
    picture = imread(BytesIO(chromium.picture()))
    corner = picture[2, 2, :3].mean()
    assert (corner < 0.2) if dark else (corner > 0.9)
    assert len({tuple(pixel) for pixel in picture[::7, ::7, :3].reshape(-1, 3).round(2).tolist()}) > 20


def test_what_a_model_wrote_is_shown(chromium: Any, page: Path) -> None:
    """Markup in a draft, a task, feedback or a thread's name is text like any other."""
    chromium.open(page)
    answer = chromium.run("document.querySelector('.answer').textContent")
    assert answer.startswith("river and lamp </style></svg></script><script>window.taken = 1</script>")
    assert "{{ 7 * 7 }} ␛[31m \\u202e שלום 漢字" in answer
    assert chromium.run("document.querySelector('h1').textContent").startswith("run </style>")
    assert chromium.run("document.querySelectorAll('#graph svg.drawing .taken').length") >= 7
    assert chromium.run("[...document.querySelectorAll('h2')].length") == len(SECTIONS)


def test_a_script_that_got_into_the_page_does_not_run(chromium: Any, page: Path, tmp_path: Path) -> None:
    """The page's policy allows its own style and nothing else."""
    changed = tmp_path / "changed.html"
    added = "<script>window.taken = 1</script><img src='http://127.0.0.1:4/x' onerror='window.taken = 2'>"
    text = page.read_text(encoding="utf-8")
    changed.write_text(text.replace("</main>", f"{added}</main>"), encoding="utf-8")
    chromium.open(changed)
    assert chromium.run("window.taken ?? null") is None
    assert len(chromium.complaints()) == 3
    assert all("Content Security Policy" in one for one in chromium.complaints())


def test_the_page_prints(chromium: Any, page: Path) -> None:
    """On paper it is light, nothing scrolls, and no column runs off the sheet."""
    chromium.looks(760, dark=True)
    dark = {"name": "prefers-color-scheme", "value": "dark"}
    chromium.ask("Emulation.setEmulatedMedia", media="print", features=[dark])
    chromium.open(page)
    assert chromium.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert chromium.run("document.documentElement.scrollWidth <= innerWidth")
    whole = "[...document.querySelectorAll('.prose')].every((one) => one.scrollHeight <= one.offsetHeight + 1)"
    assert chromium.run(whole)
    chromium.ask("Emulation.setEmulatedMedia", media="", features=[])
