"""Word-level differences between two texts. Internal."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

__all__ = ["Change", "Diff", "diff_words"]


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

    def __str__(self) -> str:
        """Plain text: removed words in `[-…-]`, added ones in `{+…+}`."""
        marks = {"same": "{}", "removed": "[-{}-]", "added": "{{+{}+}}"}
        return "".join(marks[change.kind].format(change.text) for change in self.changes)


def diff_words(before: str, after: str) -> Diff:
    """Return what differs between two texts, word by word; joining what is not removed gives `after`.

    Where too many words are the same, the texts are compared line by line, and where too many lines are, as wholes.
    """
    for pattern in PIECES:
        old, new = pattern.findall(before), pattern.findall(after)
        counts = Counter(new)
        if sum(count * counts[piece] for piece, count in Counter(old).items()) <= MOST_PAIRS:
            break
    changes: list[Change] = []
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            changes.append(Change("same", "".join(old[i1:i2])))
            continue
        if i2 > i1:
            changes.append(Change("removed", "".join(old[i1:i2])))
        if j2 > j1:
            changes.append(Change("added", "".join(new[j1:j2])))
    return Diff(before, after, tuple(changes))


PIECES = (re.compile(r"\w+ *|[^\w\s] *|\s+"), re.compile(r"[^\n]*\n|[^\n]+"), re.compile(r"(?s).+"))
MOST_PAIRS = 200_000
"""Pairs of equal pieces, with which the time of a comparison grows; some 25,000 characters of prose have as many."""
