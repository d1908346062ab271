"""`redraft index`: documents are read once, and searched by the index's name from then on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

for extra in ("wordllama", "bm25s", "langchain_text_splitters"):
    pytest.importorskip(extra)


@pytest.fixture(autouse=True)
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REDRAFT_DATA", str(tmp_path / "data"))
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "rain.md").write_text("# Rain\nRain falls from clouds.\n")
    (folder / "map.png").write_bytes(b"x")
    return folder


def test_an_index_is_made_renewed_searched_listed_moved_and_deleted(shell: Any, scripted: Any, notes: Path) -> None:
    """Each subcommand does what it says, and presets search the index by its name, without the documents."""
    made = shell("index", "notes", "--name", "weather", "--embedding", "static")
    assert (made.code, made.err) == (0, "")
    assert "weather: 1 passages of 1 files by static; 1 files read, 0 unchanged, 0 removed" in made.out
    assert "left out: 1 .png" in made.out
    (notes / "snow.md").write_text("# Snow\nSnow is frozen rain.\n")
    again = shell("index", "--name", "weather", "--json").json
    assert (again["read"], again["unchanged"], again["left_out"]) == (1, 1, {".png": 1})

    (listed,) = shell("index", "list", "--json").json
    assert {key: listed[key] for key in ("name", "files", "passages", "model", "unfinished")} == {
        "name": "weather", "files": 2, "passages": 2, "model": "static", "unfinished": False,
    }  # fmt: skip
    assert "weather" in shell("index", "list").out

    assert shell("index", "export", "weather", "weather.index").code == 0
    assert shell("index", "import", "weather.index", "--name", "theirs").code == 0
    assert "Deleted weather." in shell("index", "delete", "weather").out
    for file in notes.iterdir():
        file.unlink()
    asked = shell(
        "run", "What is frozen rain?", "--graph", "retrieval", "--index", "theirs", "--json", "--db", "memory"
    )
    assert asked.json["answer"].startswith("[1] snow.md\nSnow\nSnow is frozen rain.")
    model = scripted("Frozen rain.", "Good.", "Snow.")
    drafted = ("run", "Snow", "--graph", "reasoning", "--model", model, "--max-rounds", "1", "--db", "memory")
    shown = shell(*drafted, "--index", "theirs")
    assert shown.code == 0
    assert "2 passages" in shown.out
    steps = "SetTopic('Snow') | UseIndex('theirs') | UseDraft"
    shown = shell("pipeline", steps, "--model", scripted("Frozen rain."), "--db", "memory", "--trace")
    assert (shown.code, "[1] snow.md" in shown.out) == (0, True), shown
    missing = shell("pipeline", steps.replace("theirs", "none"), "--model", scripted("Rain."), "--db", "memory")
    assert (missing.code, "there is no index 'none'" in missing.err) == (2, True), missing


def test_a_thread_is_resumed_with_its_index(shell: Any) -> None:
    """The recipe holds the index's name; who searches it still needs it."""
    assert shell("index", "notes", "--name", "weather", "--embedding", "static").code == 0
    words = ("run", "What falls from clouds?", "--graph", "retrieval", "--index", "weather", "--max-rounds", "0")
    assert shell(*words, "--thread", "one").code == 0
    assert shell("resume", "one", "--max-rounds", "1").code == 0
    shell("index", "delete", "weather")
    gone = shell("resume", "one", "--max-rounds", "2")
    assert (gone.code, "there is no index weather" in gone.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["notes"], "the index needs a --name"),
        (["nowhere", "--name", "x"], "there is no folder or file"),
        (["notes", "--name", "../x"], "is named by letters"),
        (["--name", "x"], "there is no index x: name the folder"),
        (["notes", "--name", "x", "--embedding", "word2vec"], "embeddings 'word2vec' are not known"),
        (["delete", "x"], "there is no index x"),
        (["export", "x", "y"], "there is no index x"),
        (["import", "notes/rain.md"], "is no index of redraft's"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_what_makes_no_sense_is_told_in_a_line(shell: Any, words: list[str], told: str) -> None:
    """With exit code 2, and nothing is left behind."""
    shown = shell("index", *words)
    assert (shown.code, shown.err.count("\n")) == (2, 1)
    assert told in shown.err
    assert shell("index", "list", "--json").json == []


def test_a_folder_and_an_index_are_not_both_searched(shell: Any) -> None:
    """One of them must go."""
    for graph in ("retrieval", "reasoning"):
        words = ("run", "Rain", "--graph", graph, "--dir", "notes", "--index", "weather")
        shown = shell(*words, "--model", "scripted:nowhere")
        assert shown.code == 2


def test_a_server_searches_an_index_in_place_of_a_folder() -> None:
    """`redraft serve --index NAME` offers the search, which without either is not offered."""
    pytest.importorskip("fastapi")
    from redraft.server.engine.assistants import assistants_of
    from redraft.server.settings import Settings

    assert "retrieval" not in assistants_of(Settings())
    assert assistants_of(Settings(index="weather"))["retrieval"].options["index"] == "weather"
