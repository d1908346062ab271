"""Edits of a draft that a program makes, for checks to choose from: form put right, sentences left out. Internal.

An edit changes how a draft is written down, or leaves whole sentences or lines out. It never cuts into a sentence, and
adds no words of its own.
"""

from __future__ import annotations

import json
import re
from itertools import count
from typing import TYPE_CHECKING

from ..verify.text_verifiers import split_sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["edited"]


def edited(text: str, judged: Callable[[str], tuple[bool, float]], *, most: int = 400) -> str:
    """Return an edit that is accepted: another form, or one with as little left out as the scores lead to; else "".

    Args:
        text: Any text.
        judged: Tells of a text whether it is accepted, and a score, 0–1: how near it is.
        most: How many texts are judged at most.
    """
    forms = [*dict.fromkeys(_forms(text.strip()))]
    tries = 0

    def ranked(one: str) -> tuple[bool, float]:
        nonlocal tries
        tries += 1
        return judged(one) if tries <= most else (False, -1.0)

    for form in [*forms, *_broken(forms[-1])]:
        if ranked(form)[0]:
            return form
    return next((shorter for form in forms if (shorter := _shortened(form, ranked))), "")


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


def _broken(text: str) -> Iterator[str]:
    """Yield the text in two lines and more, broken behind its first clauses."""
    clauses = CLAUSE_END.split(" ".join(text.split()))
    for lines in range(2, min(len(clauses), MOST_LINES) + 1):
        yield "\n".join([*clauses[: lines - 1], " ".join(clauses[lines - 1 :])])


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _shortened(text: str, ranked: Callable[[str], tuple[bool, float]]) -> str:
    """Leave out one line or sentence after another, each time the one whose loss brings the text nearest; or return "".

    The first one stays, and of equal ones the earlier.
    """
    lined = "\n" in text
    units = text.split("\n") if lined else split_sentences(text)
    reached = 0.0
    while len(units) > 1:
        ways = [[*units[:at], *units[at + 1 :]] for at in range(len(units) - 1, 0, -1)]
        texts = [_numbered(way) if lined else " ".join(way) for way in ways]
        ranks = [ranked(one) for one in texts]
        best = max(range(len(ways)), key=ranks.__getitem__)
        accepted, score = ranks[best]
        if accepted:
            return texts[best]
        if score < reached:
            break
        units, reached = ways[best], score
    return ""


def _numbered(lines: Sequence[str]) -> str:
    """Return the lines as a text, with the numbers of a list in order."""
    numbers = count(1)
    return "\n".join(NUMBER.sub(lambda _: f"{next(numbers)}. ", line) for line in lines)


FENCED = re.compile(r"```[a-zA-Z]*[ \t]*\n(?P<inside>[\s\S]*?)\n?```")
DATA = re.compile(r"\{[\s\S]*\}|\[[\s\S]*\]")
QUOTED = re.compile(r"[\"“](?P<inside>[^\"“”]+)[\"”]")
MARKS = re.compile(r"\*\*|__|^#+ +|(?<!\w)\*(?=\w)|(?<=\w)\*(?!\w)", re.MULTILINE)
BULLET = re.compile(r"^(?:[-*•–]|\d+[.)])\s+")
MOST_LINES = 12
CLAUSE_END = re.compile(r"(?<=[,;:.!?])\s+")
NUMBER = re.compile(r"^\d+[.)]\s+")
