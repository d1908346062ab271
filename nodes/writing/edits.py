"""Edits of a draft that a program makes, for checks to choose from: form put right, sentences left out. Internal.

An edit changes how a draft is written down, or leaves whole sentences or lines out. It never cuts a sentence, and adds
no words of its own.
"""

from __future__ import annotations

import json
import re
from itertools import combinations, count, islice
from typing import TYPE_CHECKING

from ..verify.text_verifiers import split_sentences

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["edits"]


def edits(draft: str, *, most: int = 100) -> list[str]:
    """Return other forms of a draft, the least changed first, without the draft itself.

    Args:
        draft: Any text.
        most: How many are returned at most; leaving out parts of a long text has many ways.
    """
    forms = [*dict.fromkeys(_forms(draft.strip()))]
    shorter = (text for form in forms for text in _shortened(form))
    return [*islice((text for text in dict.fromkeys([*forms, *islice(shorter, most)]) if text != draft), most)]


def _forms(text: str) -> Iterator[str]:
    """Yield the text in other forms: without a fence, a preface, quotes or marks; in lines or as one paragraph."""
    if fenced := FENCED.search(text):
        text = fenced["inside"].strip()
        yield text
    if (data := DATA.search(text)) and _is_json(data[0]):
        yield data[0]
    preface, _, rest = text.partition("\n")
    if preface.rstrip().endswith(":") and rest.strip():
        text = rest.strip()
        yield text
    if quoted := QUOTED.fullmatch(text):
        text = quoted["inside"]
        yield text
    if (plain := MARKS.sub("", text).strip()) != text:
        yield plain
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    bare = [BULLET.sub("", line) for line in lines]
    if len(lines) > 1:
        yield "\n".join(lines)
        for sign in ("- {}", "{number}. {}", "{}"):
            yield "\n".join(sign.format(line, number=number) for number, line in enumerate(bare, 1))
    yield " ".join(bare)
    yield "\n".join(split_sentences(plain))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _shortened(text: str) -> Iterator[str]:
    """Yield the text with lines or sentences left out, the fewest first, the last ones first; the first one stays."""
    lined = "\n" in text
    first, *others = text.split("\n") if lined else split_sentences(text) or [""]
    for left in range(len(others) - 1, -1, -1):
        # Of a long text only the end is left out, or what stands before the last part: there are too many other ways.
        few = [others[:left], [*others[: left - 1], *others[-1:]][:left]]
        for kept in combinations(others, left) if len(others) <= FEW else few:
            yield _numbered([first, *kept]) if lined else " ".join([first, *kept])


def _numbered(lines: Sequence[str]) -> str:
    """Return the lines as a text, with the numbers of a list in order."""
    numbers = count(1)
    return "\n".join(NUMBER.sub(lambda _: f"{next(numbers)}. ", line) for line in lines)


FEW = 5
FENCED = re.compile(r"```[a-zA-Z]*[ \t]*\n(?P<inside>[\s\S]*?)\n?```")
DATA = re.compile(r"\{[\s\S]*\}|\[[\s\S]*\]")
QUOTED = re.compile(r"[\"“](?P<inside>[^\"“”]+)[\"”]")
MARKS = re.compile(r"\*\*|__|^#+ +|(?<!\w)\*(?=\w)|(?<=\w)\*(?!\w)", re.MULTILINE)
BULLET = re.compile(r"^(?:[-*•–]|\d+[.)])\s+")
NUMBER = re.compile(r"^\d+[.)]\s+")
