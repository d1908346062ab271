"""Trees: what of a folder is kept, how it comes back, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from redraft.folders import FolderError, Trees, trees


@pytest.fixture
def store(tmp_path: Path) -> Trees:
    return Trees(tmp_path / "runs.sqlite.trees")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of all that git knows, and some that it does not."""
    place = tmp_path / "project"
    (place / "empty").mkdir(parents=True)
    (place / "dos.txt").write_bytes(b"one\r\ntwo\r\n")
    (place / "run.sh").write_text("#!/bin/sh\n")
    (place / "run.sh").chmod(0o755)
    (place / "naïve name\n.txt").write_text("odd")
    (place / os.fsdecode(b"\xff.bin")).write_bytes(b"\x00\xff")
    (place / "link").symlink_to("/etc")
    (place / ".gitignore").write_text("*.log\n")
    return place


def listing(place: Path) -> dict[str, tuple[str, bytes | str]]:
    """Return all that is in a folder, without its caches."""
    found: dict[str, tuple[str, bytes | str]] = {}
    for one in place.rglob("*"):
        name = str(one.relative_to(place))
        if one.is_symlink():
            found[name] = "link", str(one.readlink())
        elif one.is_dir():
            found[name] = "folder", ""
        else:
            found[name] = "program" if os.access(one, os.X_OK) else "file", one.read_bytes()
    return found


def test_a_folder_comes_back_as_it_was(folder: Path, store: Trees, tmp_path: Path) -> None:
    """Line ends, modes, links, odd names and empty folders survive, and a second look comes to the same tree."""
    made = store.snapshot(folder)
    store.write(made.tree, tmp_path / "out")
    assert listing(tmp_path / "out") == listing(folder)
    assert store.snapshot(tmp_path / "out").tree == made.tree
    assert made.left_out == ()


def test_secrets_ignored_files_and_what_is_no_file_are_left_out_by_name(folder: Path, store: Trees) -> None:
    """No copy holds a key, and the user is told which files are in none."""
    for name in (".env", "server.pem", "id_ed25519", "old.log", ".env.example", "id_rsa.pub"):
        (folder / name).write_text("x")
    os.mkfifo(folder / "pipe")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("[core]\n hooksPath = /tmp\n")
    made = store.snapshot(folder)
    assert made.left_out == (".env", "id_ed25519", "old.log", "pipe", "server.pem")
    kept = {path for path, _, _ in store.entries(made.tree)}
    assert {".env.example", "id_rsa.pub"} <= kept
    assert not any(path.startswith(".git/") for path in kept)


def test_what_was_in_a_tree_stays_in_it_whatever_is_ignored_later(folder: Path, store: Trees) -> None:
    """A writer can't hide a file from its judges by a line in `.gitignore`."""
    base = store.snapshot(folder).tree
    (folder / ".gitignore").write_text("*\n")
    later = store.snapshot(folder, base=base).tree
    assert [one.path for one in store.changes(base, later)] == [".gitignore"]


def test_the_store_and_its_database_are_no_part_of_the_folder(folder: Path) -> None:
    """A database in the folder that is worked on is not worked on, and does not count as a change of it."""
    store = Trees(folder / "runs.sqlite.trees")
    base = store.snapshot(folder).tree
    (folder / "runs.sqlite").write_text("rows")
    (folder / "runs.sqlite-wal").write_text("rows")
    assert store.snapshot(folder).tree == base


def test_changes_are_applied_to_the_folder_that_was_read(folder: Path, store: Trees, tmp_path: Path) -> None:
    """What changed is written, a link is replaced and not followed, and what no tree holds stays."""
    base = store.snapshot(folder).tree
    (folder / "mine.log").write_text("stays")
    with store.copy(base) as copy:
        (copy / "dos.txt").unlink()
        (copy / "link").unlink()
        (copy / "link").mkdir()
        (copy / "link" / "passwd").write_text("mine")
        (copy / "new").mkdir()
        (copy / "new" / "a.py").write_text("a = 1\n")
        tree = store.snapshot(copy, base=base).tree
    passwd = Path("/etc/passwd").read_bytes()
    changes = store.apply(base, tree, folder)
    assert {(one.kind, one.path) for one in changes} == {
        ("D", "dos.txt"),
        ("D", "link"),
        ("A", "link"),
        ("A", "link/passwd"),
        ("A", "new"),
        ("A", "new/a.py"),
    }
    assert store.snapshot(folder).tree == tree
    assert (folder / "mine.log").read_text() == "stays"
    assert Path("/etc/passwd").read_bytes() == passwd
    assert store.apply(base, tree, folder) == changes  # once more: nothing is left to do


def test_a_folder_that_has_changed_is_not_overwritten(folder: Path, store: Trees) -> None:
    """Neither a change of the user's own nor a file that is in the way is lost."""
    base = store.snapshot(folder).tree
    with store.copy(base) as copy:
        (copy / "out.log").write_text("theirs")
        (copy / ".gitignore").write_text("")
        tree = store.snapshot(copy, base=base).tree
    (folder / "out.log").write_text("mine")
    with pytest.raises(FolderError, match=r"out\.log is in .* already"):
        store.apply(base, tree, folder)
    assert (folder / "out.log").read_text() == "mine"
    (folder / "run.sh").write_text("mine")
    with pytest.raises(FolderError, match=r"has changed since it was read: run\.sh"):
        store.apply(base, tree, folder)


def test_a_copy_is_read_and_removed_whatever_modes_were_set_in_it(folder: Path, store: Trees) -> None:
    """A writer that locks files away loses nothing and leaves nothing behind."""
    base = store.snapshot(folder).tree
    with store.copy(base) as copy:
        (copy / "dos.txt").chmod(0)
        (copy / "empty").chmod(0)
        copy.chmod(0o500)
        trees.unlock(copy)
        assert store.snapshot(copy, base=base).tree == base
        copy.chmod(0o500)
    assert not copy.exists()


def test_trees_that_nobody_wants_are_removed(folder: Path, store: Trees) -> None:
    """What a wanted tree shares stays, and so does what was written just now."""
    first = store.snapshot(folder).tree
    (folder / "new.txt").write_text("new")
    second = store.snapshot(folder).tree
    assert store.prune([first]) == 0
    assert store.prune([first], age_s=-60) == 2
    assert {path for path, _, _ in store.entries(first)} >= {"dos.txt", "empty"}
    with pytest.raises(FolderError, match="has no tree"):
        list(Trees(store.path).entries(second))


def test_what_is_no_folder_or_too_large_is_refused(
    folder: Path, store: Trees, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says what is in the way, and what would be right."""
    tree = store.snapshot(folder).tree
    with pytest.raises(FolderError, match="there is no folder"):
        store.snapshot(tmp_path / "nowhere")
    with pytest.raises(FolderError, match="is not empty"):
        store.write(tree, folder)
    with pytest.raises(FolderError, match="has no tree"):
        list(store.entries("0" * 40))
    monkeypatch.setattr(trees, "MOST_BYTES", 10)
    with pytest.raises(FolderError, match=r"name in \.gitignore"):
        store.snapshot(folder)
