"""A folder of notes becomes passages that know where they stand."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from redraft.nodes.retrieval.documents import load_folder

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("langchain_text_splitters")


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_markdown_is_cut_at_headings_and_keeps_them(tmp_path: Path) -> None:
    """A passage holds one section; code that begins with # is no heading."""
    write(tmp_path, "b/notes.md", "# Boats\nFor rivers.\n\n## Oars\n```sh\n# not a heading\nrow\n```\n")
    write(tmp_path, "a.TXT", "\ufeffPlain words.")
    found = [(one.metadata["source"], one.metadata["heading"], one.page_content) for one in load_folder(tmp_path)]
    assert found[0] == ("a.TXT", "", "Plain words.")
    assert found[1] == ("b/notes.md", "Boats", "For rivers.")
    assert found[2][:2] == ("b/notes.md", "Boats > Oars")
    assert "# not a heading" in found[2][2]


def test_long_sections_are_cut_with_an_overlap_and_stable_ids(tmp_path: Path) -> None:
    """No passage is longer than asked for, and reading the folder again gives the same ids."""
    write(tmp_path, "long.md", "# Long\n" + " ".join(f"word{number}" for number in range(300)))
    passages = load_folder(tmp_path, chunk_size=200, chunk_overlap=40)
    assert max(len(one.page_content) for one in passages) <= 200
    assert passages[1].page_content.split()[0] in passages[0].page_content
    assert {one.metadata["heading"] for one in passages} == {"Long"}
    ids = [one.metadata["id"] for one in passages]
    assert len(set(ids)) == len(ids) > 5
    assert ids == [one.metadata["id"] for one in load_folder(tmp_path, chunk_size=200, chunk_overlap=40)]


def test_hidden_empty_and_other_files_are_left_out(tmp_path: Path) -> None:
    """Only notes count."""
    write(tmp_path, "seen.md", "text")
    for name in (".hidden.md", ".git/config.md", "picture.png", "code.py"):
        write(tmp_path, name, "not this")
    write(tmp_path, "empty.md", " \n")
    assert [one.metadata["source"] for one in load_folder(tmp_path)] == ["seen.md"]


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    """It is left out with a warning, not in silence."""
    write(tmp_path, "good.md", "text")
    write(tmp_path, "sub/bad.txt", b"\xff\xfe\x00caf\xe9")
    with pytest.warns(UserWarning, match="not UTF-8 text: sub/bad.txt"):
        assert len(load_folder(tmp_path)) == 1


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="no symbolic links here")
def test_links_that_lead_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    """What a user points at is all that is read."""
    write(tmp_path, "outside/secret.md", "secret")
    inside = write(tmp_path, "notes/mine.md", "mine").parent
    (inside / "file.md").symlink_to(tmp_path / "outside" / "secret.md")
    (inside / "folder").symlink_to(tmp_path / "outside")
    assert [one.page_content for one in load_folder(inside)] == ["mine"]


def test_a_folder_without_text_is_refused(tmp_path: Path) -> None:
    """The message names the folder and what would be read."""
    with pytest.raises(ValueError, match="there is no folder"):
        load_folder(tmp_path / "absent")
    with pytest.raises(ValueError, match="there is no folder"):
        load_folder(write(tmp_path, "file.md", "x"))
    (tmp_path / "void").mkdir()
    with pytest.raises(ValueError, match=r"holds no text in files that end in \.md"):
        load_folder(tmp_path / "void")


@pytest.mark.parametrize("sizes", [(0, 0), (100, 100), (100, -1)])
def test_sizes_that_make_no_sense_are_refused(tmp_path: Path, sizes: tuple[int, int]) -> None:
    """Both are named."""
    with pytest.raises(ValueError, match=f"chunk_size={sizes[0]}, chunk_overlap={sizes[1]}"):
        load_folder(tmp_path, chunk_size=sizes[0], chunk_overlap=sizes[1])
