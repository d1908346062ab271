"""Drafts of folders as text: the tree, and what a reader wants to know of it. Internal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from .trees import FolderError, Trees, fenced, shown

__all__ = ["Draft", "draft_text", "read_draft"]

MOST_PATHS = 40
TREE = re.compile(r"tree ([0-9a-f]{40})\n")
NOTE = "note: "


class Draft(NamedTuple):
    """What a draft's text says."""

    tree: str
    notes: tuple[str, ...]
    """What the writer is to know: an edit that did not apply, say."""


def draft_text(trees: Trees, base: str, tree: str, notes: Sequence[str] = ()) -> str:
    """Return a tree as the text of a draft: its id, the notes, which paths changed since `base`, and a short diff."""
    changes = trees.changes(base, tree)
    listed = [f"{one.kind} {shown(one.path)}" for one in changes[:MOST_PATHS]]
    if len(changes) > MOST_PATHS:
        listed.append(f"and {len(changes) - MOST_PATHS} more")
    told = [f"{NOTE}{' '.join(note.split())}" for note in notes]
    parts = ["\n".join([f"tree {tree}", *told, *(listed or ["nothing changed"])])]
    if diff := trees.diff(base, tree):
        parts.append(fenced(diff, "diff"))
    return "\n\n".join(parts) + "\n"


def read_draft(text: str) -> Draft:
    """Return what a draft says.

    Raises:
        FolderError: It is no draft of a folder.
    """
    if not (found := TREE.match(text)):
        raise FolderError(f"a draft of a folder begins with its tree, not with {text[:60]!r}")
    lines = text[found.end() :].partition("\n\n")[0].splitlines()
    return Draft(found[1], tuple(line.removeprefix(NOTE) for line in lines if line.startswith(NOTE)))
