"""Trees: folders as git keeps them, by content, in an object store beside the database. Internal.

Only objects are read and written: a folder's hooks, filters and configuration are never looked at.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property
from io import BytesIO
from pathlib import Path
from time import time
from typing import Any, NamedTuple, cast

__all__ = [
    "Change",
    "FolderError",
    "Snapshot",
    "Trees",
    "fenced",
    "is_secret",
    "matches",
    "shortened",
    "shown",
    "unlock",
]

FOLDER, FILE, PROGRAM, LINK = 0o040000, 0o100644, 0o100755, 0o120000
MOST_BYTES = 256 << 20
MOST_FILES = 20_000
SECRETS: tuple[str, ...] = (
    ".env",
    ".env.*",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
)
SECRETS += (".netrc", ".pypirc", ".npmrc", ".git-credentials", ".aws", ".ssh", ".gnupg", "credentials.json")
CACHES = (b"__pycache__/", b"*.pyc", b".pytest_cache/", b".mypy_cache/", b".ruff_cache/", b".venv/", b"node_modules/")
"""Ignored, unless a `.gitignore` says otherwise."""
EXAMPLES = ("*.example", "*.sample", "*.template", "*.pub")
"""Files that have a secret's name and are made to be read."""


class FolderError(ValueError):
    """A folder can't be read, written or compared as asked; the message says what is in the way."""


class Change(NamedTuple):
    """One path that differs between two trees."""

    kind: str
    """`A` added, `M` changed, `D` deleted."""
    path: str
    mode: int = 0
    """Of what stands there afterwards."""
    blob: bytes = b""


@dataclass(frozen=True)
class Snapshot:
    """A folder at one moment."""

    tree: str
    """Its id: 40 hexadecimal digits, the same wherever the same files are."""
    left_out: tuple[str, ...] = ()
    """Paths that are in the folder and not in the tree: ignored by `.gitignore`, named like a secret, or no file."""


@dataclass(frozen=True)
class Trees:
    """A store of trees. Forks and rounds share what is the same in them.

    Args:
        path: Its folder, which is made when the first tree is written.
    """

    path: Path

    def __init__(self, path: str | Path) -> None:
        object.__setattr__(self, "path", Path(path))

    @cached_property
    def _objects(self) -> Any:
        try:
            from dulwich.object_store import DiskObjectStore
        except ImportError as error:
            raise ImportError(f"folders need an extra: pip install '.[folders]' in a checkout ({error})") from None

        if not (self.path / "pack").is_dir():
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            with contextlib.suppress(FileExistsError):  # another run was first
                return DiskObjectStore.init(str(self.path))
        return DiskObjectStore(str(self.path))

    def snapshot(self, folder: Path, *, base: str | None = None) -> Snapshot:
        """Store what is in a folder, and return its tree.

        Args:
            folder: Nothing in it is followed, run or changed; `.git`, the store and its database are not part of it.
            base: A tree whose paths are kept also where `.gitignore` names them by now.

        Raises:
            FolderError: It is no folder, or holds more than 20,000 files or 256 MB.
        """
        from dulwich.ignore import IgnoreFilter, IgnoreFilterManager

        if not folder.is_dir():
            raise FolderError(f"there is no folder {str(folder)!r}")
        tracked = {path for path, _, _ in self.entries(base)} if base else set()
        ignored = IgnoreFilterManager(str(folder), [IgnoreFilter(CACHES)], ignorecase=False)
        reading = _Reading(self._objects, ignored, tracked, os.fsencode(self.path.absolute()))
        return Snapshot(reading.tree(os.fsencode(folder.absolute()), b"").decode(), tuple(sorted(reading.left_out)))

    def entries(self, tree: str) -> Iterator[tuple[str, int, bytes]]:
        """Yield path, mode and id of all in a tree, folders before what is in them.

        Raises:
            FolderError: The store lacks it, or it holds a name that no folder may have.
        """
        yield from self._entries(tree.encode(), "")

    def _entries(self, tree: bytes, prefix: str) -> Iterator[tuple[str, int, bytes]]:
        try:
            items = self._objects[tree].items()
        except (KeyError, AttributeError, ValueError):
            raise FolderError(f"{self.path} has no tree {tree.decode(errors='replace')!r}") from None
        for name, mode, blob in items:
            if name.lower() in {b"", b".", b"..", b".git"} or b"/" in name:
                raise FolderError(f"the tree {tree.decode()} holds the name {name!r}, which no folder may have")
            path = prefix + os.fsdecode(name)
            yield path, mode, blob
            if mode == FOLDER:
                yield from self._entries(blob, f"{path}/")

    @contextlib.contextmanager
    def copy(self, tree: str) -> Iterator[Path]:
        """Give a private copy of a tree; it is gone when the block ends."""
        with tempfile.TemporaryDirectory(prefix="redraft-", ignore_cleanup_errors=True) as scratch:
            folder = Path(scratch) / "work"
            self.write(tree, folder)
            try:
                yield folder
            finally:
                unlock(folder)

    def write(self, tree: str, folder: Path) -> None:
        """Write a tree out.

        Raises:
            FolderError: The folder exists and is not empty.
        """
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise FolderError(f"{folder} is not empty")
        for path, mode, blob in self.entries(tree):
            self._put(folder / path, mode, blob)

    def put_back(self, tree: str, base: str, protected: Sequence[str], folder: Path) -> list[str]:
        """Put the protected files in a copy of `tree` back as `base` has them, and return the paths that differed."""
        changed = [one for one in self.changes(tree, base) if matches(one.path, protected)]
        self._make(changed, folder)
        return [one.path for one in changed]

    def changes(self, before: str, after: str) -> list[Change]:
        """Return what differs between two trees, by path."""
        old, new = ({path: (mode, blob) for path, mode, blob in self.entries(tree)} for tree in (before, after))
        changes = [Change("D", path, *old[path]) for path in old.keys() - new.keys()]
        for path, (mode, blob) in new.items():
            was = old.get(path, (0, b""))
            folders = (was[0] == FOLDER) + (mode == FOLDER)
            if was == (mode, blob) or folders == 2:
                continue
            if path in old and folders:  # a file where a folder was, or the other way round
                changes.append(Change("D", path, *was))
            changes.append(Change("M" if path in old and not folders else "A", path, mode, blob))
        return sorted(changes, key=lambda one: (one.path, one.kind != "D"))

    def diff(self, before: str, after: str, *, most: int = 6000) -> str:
        """Return a unified diff in git's form, shortened from the middle to some `most` characters."""
        from dulwich.patch import write_object_diff

        self.changes(before, after)  # both are there, and safe to show
        out, trees = BytesIO(), (cast("Any", tree.encode()) for tree in (before, after))
        for paths, modes, blobs in self._objects.tree_changes(*trees):
            names = [None if path is None else shown(os.fsdecode(path)).encode() for path in paths]
            old, new = zip(names, modes, blobs, strict=True)
            write_object_diff(out, self._objects, old, new)
        return shortened(out.getvalue().decode(errors="replace"), most)

    def apply(self, base: str, tree: str, folder: Path) -> list[Change]:
        """Bring a folder from `base` to `tree`, and return what changed. What the trees do not hold stays as it is.

        An application that was cut off is finished by the next one.

        Raises:
            FolderError: The folder is no longer as `base` has it.
        """
        now = self.snapshot(folder, base=base).tree
        wanted = set(self.changes(base, tree))
        reached = {(one.kind, one.path, one.blob) for one in wanted}
        moved = [one.path for one in self.changes(base, now) if (one.kind, one.path, one.blob) not in reached]
        if moved:
            raise FolderError(
                f"{folder} has changed since it was read: {_few(moved)}; put these back, or write the result elsewhere "
                "with `redraft checkout`"
            )
        changes = self.changes(now, tree)
        gone = {one.path for one in changes if one.kind == "D"}
        new = [one.path for one in changes if one.kind == "A" and gone.isdisjoint(_upwards(one.path))]
        if there := [path for path in new if os.path.lexists(folder / path)]:
            raise FolderError(f"{_few(there)} is in {folder} already, and in no tree; nothing was written")
        self._make(changes, folder)
        return sorted(wanted)

    def prune(self, wanted: Iterable[str], *, age_s: float = 86_400) -> int:
        """Remove what is in no wanted tree, and return how many objects were.

        Args:
            wanted: Trees that stay.
            age_s: Seconds that an object stays in any case: a run may have written it just now.
        """
        kept = {*wanted}
        for tree in [*kept]:
            with contextlib.suppress(FolderError):  # it was never here
                kept.update(blob.decode() for _, _, blob in self.entries(tree))
        before = time() - age_s
        removed = 0
        for place in self.path.glob("[0-9a-f][0-9a-f]/*"):
            if place.parent.name + place.name not in kept and place.stat().st_mtime < before:
                place.unlink(missing_ok=True)
                removed += 1
        return removed

    def _make(self, changes: Sequence[Change], folder: Path) -> None:
        # What goes, goes first and from the bottom: a folder may stand where a file or link was.
        for one in sorted(changes, key=lambda one: one.path, reverse=True):
            if one.kind != "A":
                _remove(folder, one.path)
        for one in changes:
            if one.kind != "D":
                self._put(folder / one.path, one.mode, one.blob, within=folder)

    def _put(self, place: Path, mode: int, blob: bytes, *, within: Path | None = None) -> None:
        for parent in [*place.relative_to(within).parents][:-1] if within else ():
            if within and (within / parent).is_symlink():
                raise FolderError(f"{within / parent} is a link, through which nothing is written")
        if mode == FOLDER:
            place.mkdir(exist_ok=True, parents=True)
            return
        place.parent.mkdir(exist_ok=True, parents=True)
        data = self._objects[blob].as_raw_string()
        if mode == LINK:
            place.symlink_to(os.fsdecode(data))
            return
        with place.open("xb") as file:
            file.write(data)
        if mode == PROGRAM:
            place.chmod(place.stat().st_mode | 0o111)


@dataclass
class _Reading:
    """One walk through a folder that is being stored."""

    objects: Any
    ignored: Any
    tracked: set[str]
    store: bytes
    """Path of the store, `runs.sqlite.trees`: it and its database are no part of a folder that they are in."""
    left_out: list[str] = field(default_factory=list)
    files: int = 0
    size: int = 0

    def tree(self, directory: bytes, prefix: bytes) -> bytes:
        from dulwich.objects import Tree

        tree: Any = Tree()
        with os.scandir(directory) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                path = prefix + entry.name
                try:
                    item = self._item(entry, path)
                except OSError:  # it may not be read, or is gone by now
                    self.left_out.append(shown(os.fsdecode(path)))
                    continue
                if item is not None:
                    tree.add(entry.name, *item)
        self.objects.add_object(tree)
        return bytes(tree.id)

    def _item(self, entry: os.DirEntry[bytes], path: bytes) -> tuple[int, bytes] | None:
        from dulwich.objects import Blob

        name = os.fsdecode(path)
        database = self.store.removesuffix(b".trees")
        own = (self.store, *(database + suffix for suffix in (b"", b"-wal", b"-shm", b"-journal")))
        if entry.name.lower() == b".git" or entry.path in own:
            return None
        mode = entry.stat(follow_symlinks=False).st_mode
        marked = f"{name}/" if stat.S_ISDIR(mode) else name
        tracked = name in self.tracked
        usable = stat.S_ISDIR(mode) or stat.S_ISREG(mode) or stat.S_ISLNK(mode)
        if not usable or is_secret(name) or (not tracked and self.ignored.is_ignored(marked)):
            self.left_out.append(shown(marked))
            return None
        if stat.S_ISDIR(mode):
            return FOLDER, self.tree(entry.path, path + b"/")
        self.files += 1
        data = os.readlink(entry.path) if stat.S_ISLNK(mode) else self._content(entry.path)
        self.size += len(data)
        if self.files > MOST_FILES or self.size > MOST_BYTES:
            raise FolderError(
                f"the folder holds more than {MOST_FILES:,} files or {MOST_BYTES >> 20} MB: name in .gitignore what is "
                "no part of the work"
            )
        blob = Blob.from_string(data)
        self.objects.add_object(blob)
        return (LINK if stat.S_ISLNK(mode) else PROGRAM if mode & 0o100 else FILE), blob.id

    def _content(self, path: bytes) -> bytes:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            return file.read(MOST_BYTES - self.size + 1)


def is_secret(path: str) -> bool:
    """Return True if a part of a path is named as files with keys and passwords are."""
    parts = path.split("/")
    return any(matches(part, SECRETS) and not matches(part, EXAMPLES) for part in parts)


def matches(path: str, patterns: Sequence[str]) -> bool:
    """Return True if a path, or a folder that it is in, matches a pattern: `tests/**`, `tests`, `*.lock`."""
    for pattern in patterns:
        wanted = pattern.removeprefix("./").removesuffix("/**").rstrip("/")
        if any(fnmatch(part, wanted) for part in _upwards(path)):
            return True
    return False


def shortened(text: str, most: int) -> str:
    """Return a text that is longer than `most` characters without its middle, by lines."""
    if len(text) <= most:
        return text
    head, tail = text[: most // 2].rpartition("\n")[0], text[-most // 2 :].partition("\n")[2]
    return f"{head}\n[… {len(text) - len(head) - len(tail):,} characters left out …]\n{tail}"


def fenced(text: str, language: str = "") -> str:
    """Return a text as a block of code in Markdown, in which models and pages read it as it is."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text.strip()}\n{fence}"


def shown(path: str) -> str:
    """Return a path as a text on one line: what can't be printed, or is no UTF-8, is escaped."""
    return path if path.isprintable() else path.encode("unicode_escape").decode()


def _upwards(path: str) -> list[str]:
    """Return a path and the folders that it is in."""
    parts = path.split("/")
    return ["/".join(parts[: end + 1]) for end in range(len(parts))]


def _few(paths: Sequence[str]) -> str:
    return ", ".join(map(shown, paths[:5])) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")


def _remove(folder: Path, path: str) -> None:
    place = folder / path
    if any((folder / parent).is_symlink() for parent in Path(path).parents):
        return  # it is elsewhere by now
    if place.is_dir() and not place.is_symlink():
        with contextlib.suppress(OSError):  # something is left in it that no tree holds
            place.rmdir()
    else:
        place.unlink(missing_ok=True)


def unlock(folder: Path) -> None:
    """Let all in a copy be read and removed, whatever modes were set there."""
    folder.chmod(0o700)
    for directory, names, files in os.walk(folder):
        for name in (*names, *files):
            place = Path(directory) / name
            if not place.is_symlink():
                place.chmod(place.stat().st_mode | (0o700 if name in names else 0o400))
