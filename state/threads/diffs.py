"""Word-level differences between two texts. Internal."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any, Literal

__all__ = ["Change", "Diff", "diff_fields", "diff_words"]


@dataclass(frozen=True)
class Change:
    """A run of words that two texts share, or that only one has."""

    kind: Literal["same", "removed", "added"]
    text: str


@dataclass(frozen=True)
class Diff:
    """Two texts and what differs."""

    before: str
    after: str
    changes: tuple[Change, ...]
    fields: tuple[tuple[str, str | None, str | None], ...] = ()
    """Of typed drafts the fields that differ: the path, and its JSON before and after; `None` where it is not there."""

    def __str__(self) -> str:
        """Plain text: a line for each field that differs; else removed words in `[-…-]`, added ones in `{+…+}`."""
        if self.fields:
            return "\n".join(
                f"{path}: {before or 'nothing'} → {after or 'nothing'}" for path, before, after in self.fields
            )
        marks = {"same": "{}", "removed": "[-{}-]", "added": "{{+{}+}}"}
        return "".join(marks[change.kind].format(change.text) for change in self.changes)


def diff_words(before: str, after: str) -> Diff:
    """Compare two texts word by word; joining what is not removed gives `after`.

    Where too many words are the same, sentences are compared, or lines, and words within those that changed.
    """
    for pattern in PIECES:
        old, new = pattern.findall(before), pattern.findall(after)
        if _pairs(old, new) <= MOST_PAIRS:
            break
    left = MOST_PAIRS
    changes: list[Change] = []
    for removed, added, same in _hunks(old, new):
        gone, come = WORD.findall(removed), WORD.findall(added)
        pairs = _pairs(gone, come)
        if pattern is not WORD and 0 < pairs <= left:
            left -= pairs
            for less, more, shared in _hunks(gone, come):
                changes += _changes(less, more, shared)
        else:
            changes += _changes(removed, added, "")
        changes += _changes("", "", same)
    return Diff(before, after, tuple(changes))


def diff_fields(before: str, after: str) -> Diff:
    """Compare two typed drafts field by field, and word by word as well."""
    diff = diff_words(before, after)
    try:
        old, new = dict(_fields("$", json.loads(before))), dict(_fields("$", json.loads(after)))
    except (ValueError, RecursionError):
        return diff  # one is no JSON
    paths = [path for path in {**old, **new} if old.get(path) != new.get(path)]
    return replace(diff, fields=tuple((path, old.get(path), new.get(path)) for path in paths))


def _fields(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if not value or not isinstance(value, dict | list):
        yield path, json.dumps(value, ensure_ascii=False)
        return
    for name, inside in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _fields(f"{path}.{name}" if isinstance(value, dict) else f"{path}[{name}]", inside)


def _pairs(old: list[str], new: list[str]) -> int:
    counts = Counter(new)
    return sum(count * counts[piece] for piece, count in Counter(old).items())


def _hunks(old: list[str], new: list[str]) -> Iterator[tuple[str, str, str]]:
    """Give what was removed and what was added in its place, and the text that both have after it."""
    i = j = 0
    for block in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
        yield "".join(old[i : block.a]), "".join(new[j : block.b]), "".join(old[block.a : block.a + block.size])
        i, j = block.a + block.size, block.b + block.size


def _changes(removed: str, added: str, same: str) -> list[Change]:
    kinds: tuple[Literal["removed", "added", "same"], ...] = ("removed", "added", "same")
    return [Change(kind, text) for kind, text in zip(kinds, (removed, added, same), strict=True) if text]


WORD = re.compile(r"\w+ *|[^\w\s] *|\s+")
PIECES = (
    WORD,
    re.compile(r"[^.!?؟。！？\n]*[.!?؟。！？\n]+\s*|[^.!?؟。！？\n]+"),
    re.compile(r"[^\n]*\n|[^\n]+"),
    re.compile(r"(?s).+"),
)
MOST_PAIRS = 200_000
"""Pairs of equal pieces, with which the time of a comparison grows; some 25,000 characters of prose have as many."""
