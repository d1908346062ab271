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
    r"^[#*\s]*(?:FILE|File|file)?:?\s*[`*]*([\w@+-]?[\w@+./-]*\.\w+|[\w./-]*(?:Makefile|Dockerfile))[`*]*:?\s*$"
)
FENCE = re.compile(r"^\s*(`{3,}|~{3,})\s*([\w+-]*)\s*$")
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
        line = lines[at]
        if found := PATH.match(line):
            path = found[1]
        elif line.startswith("<<<<<"):
            block = BLOCK.match("".join(lines[at:]))
            if block:
                edits.append(Edit(path, block[1], block[2]))
                at += block[0].count("\n")
        elif opening := FENCE.match(line):
            end = next((n for n in range(at + 1, len(lines)) if lines[n].strip() == opening[1]), len(lines))
            body = "".join(lines[at + 1 : end])
            blocks = BLOCK.findall(body)
            edits += [Edit(path, search, text) for search, text in blocks] or [Edit(path, None, body)]
            at = end
        at += 1
    return edits


def apply_edits(reply: str, folder: Path, shown: Collection[str], protect: Sequence[str] = ()) -> list[str]:
    """Make the edits of a reply in a folder, and return what could not be done, for the writer.

    Args:
        reply: What the model wrote.
        folder: A private copy.
        shown: The files that the model was shown and may change; where it is one, an edit without a path is of that.
        protect: Patterns of files that it may not change.
    """
    edits = read_edits(reply)
    notes = [] if edits else ["no file was in your answer: write each as FILE: path, and its content in a fence"]
    only = next(iter(shown)) if len(shown) == 1 else ""
    for edit in edits:
        path = edit.path or only
        if why := _refused(path, folder, protect):
            notes.append(why)
            continue
        place = folder / path
        if edit.search is None:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(edit.text, encoding="utf-8", newline="")
            continue
        content = place.read_text(encoding="utf-8") if place.is_file() else ""
        if (changed := _replaced(content, edit.search, edit.text)) is None:
            notes.append(f"the SEARCH of {path} is not in the file: copy it letter by letter, or write the file whole")
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(changed, encoding="utf-8", newline="")
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
