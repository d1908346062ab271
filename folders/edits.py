"""Edits that a chat model writes as text: whole files, and search-and-replace blocks. Internal."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from .trees import is_secret, matches

__all__ = ["FORMAT", "apply_edits", "read_edits"]

FORMAT = """Answer with the files that you change, and nothing else that matters. Write each file whole, like this:

FILE: path/to/file.py
```
the whole content of the file
```

Of a long file you may write the changed part only; SEARCH must be copied from the file, letter by letter:

FILE: path/to/file.py
<<<<<<< SEARCH
the lines to replace
=======
the lines in their place
>>>>>>> REPLACE"""

PATH = re.compile(
    r"^[#*\s]*(?:(?:FILE|File|file|Path|path):\s*[`*]*([^\s`*]+).*|[`*]*([\w@+./-]*\.\w+|[\w./-]*(?:Makefile|Dockerfile))[`*]*:?\s*)$"
)
FENCE = re.compile(r"^\s*(`{3,}|~{3,})(.*)$")
TITLE = re.compile(r"[\w@+./-]*\.\w+")
"""A path in the line that opens a fence: `python:src/a.py`, `title="a.py"`."""
BLOCK = re.compile(r"<{5,} SEARCH\n(.*?)^={5,}\n(.*?)^>{5,} REPLACE", re.DOTALL | re.MULTILINE)


class Edit(NamedTuple):
    """One change of a file."""

    path: str
    """Empty where the reply names none."""
    search: str | None
    """`None`: the text is the whole file."""
    text: str


def read_edits(reply: str) -> list[Edit]:
    """Return the edits in a reply, in order; prose between them is skipped."""
    edits: list[Edit] = []
    path, lines, at = "", reply.splitlines(keepends=True), 0
    while at < len(lines):
        if found := PATH.match(lines[at].rstrip("\n")):
            path = found[1] or found[2]
        elif block := BLOCK.match("".join(lines[at:])) if lines[at].startswith("<<<<<") else None:
            edits.append(Edit(path, block[1], block[2]))
            at += block[0].count("\n")
        elif opening := FENCE.match(lines[at]):
            end = next((n for n in range(at + 1, len(lines)) if lines[n].strip() == opening[1]), len(lines))
            body = "".join(lines[at + 1 : end])
            titles = TITLE.findall(opening[2])
            path = titles[-1] if titles else path
            blocks = BLOCK.findall(body)
            edits += [Edit(path, search, text) for search, text in blocks] or [Edit(path, None, body)]
            path = path if blocks else ""  # what follows a whole file without a path is another one, or a command
            at = end
        at += 1
    return edits


def _named(edits: Sequence[Edit], shown: Collection[str]) -> list[Edit]:
    """Return the edits with their paths: one without may name it in its first line, or be of the only file there is."""
    named = []
    for edit in edits:
        first = edit.text.partition("\n")[0].strip("#/*-<!> \t")
        named.append(edit if edit.path or first not in shown else edit._replace(path=first))
    if any(edit.path for edit in named):
        return [edit for edit in named if edit.path]  # the others are commands to type, and output
    only = next(iter(shown)) if len(shown) == 1 else ""
    longest = sorted(named, key=lambda edit: len(edit.text))[-1:]
    return [edit._replace(path=only) for edit in longest]


def apply_edits(reply: str, folder: Path, shown: Collection[str], protect: Sequence[str] = ()) -> list[str]:
    """Make the edits of a reply in a folder, and return what could not be done, for the writer.

    Args:
        reply: What the model wrote.
        folder: A private copy.
        shown: The files that the model was shown and may change; where it is one, an edit without a path is of that.
        protect: Patterns of files that it may not change.
    """
    edits = _named(read_edits(reply), shown)
    notes = [] if edits else ["no file was in your answer: write each as FILE: path, and its content in a fence"]
    for edit in edits:
        if why := _refused(edit.path, folder, protect):
            notes.append(why)
            continue
        place = folder / edit.path
        try:
            content = place.read_bytes().decode() if place.is_file() else ""
        except UnicodeDecodeError:
            notes.append(f"{edit.path} is no UTF-8 text, and was not changed")
            continue
        ends = "\r\n" if "\r\n" in content else "\n"
        changed = edit.text if edit.search is None else _replaced(content.replace("\r\n", "\n"), edit.search, edit.text)
        if changed is None:
            notes.append(
                f"the SEARCH of {edit.path} is not in the file: copy it letter by letter, or write the file whole"
            )
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(changed.replace("\r\n", "\n").replace("\n", ends).encode())
    return notes


def _refused(path: str, folder: Path, protect: Sequence[str]) -> str:
    """Return why a file may not be written; empty where it may."""
    parts = PurePosixPath(path).parts
    if not path:
        return "an edit named no file: write FILE: path above it"
    if path.startswith("/") or ".." in parts or ".git" in parts or is_secret(path):
        return f"{path} is not part of the work, and was not written"
    if any((folder / parent).is_symlink() for parent in (path, *map(str, PurePosixPath(path).parents))):
        return f"{path} is behind a link, and was not written"
    if matches(path, protect):
        return f"{path} is protected, and was not changed"
    return f"{path} is a folder" if (folder / path).is_dir() else ""


def _replaced(content: str, search: str, text: str) -> str | None:
    """Return a content with a passage replaced; blanks at the end of lines may differ. `None` where it is not there."""
    if not search.strip():
        return text if not content else None
    if content.count(search) >= 1:
        return content.replace(search, text, 1)
    lines, wanted = content.splitlines(keepends=True), [line.rstrip() for line in search.splitlines()]
    for at in range(len(lines) - len(wanted) + 1):
        if [line.rstrip() for line in lines[at : at + len(wanted)]] == wanted:
            return "".join([*lines[:at], text, *lines[at + len(wanted) :]])
    return None
