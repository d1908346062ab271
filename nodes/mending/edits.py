"""Edits of a draft that a program makes, for verifiers to choose from: form put right, sentences left out. Internal.

An edit changes how a draft is written down, or leaves whole sentences or lines out. It never cuts into a sentence, and
adds no words of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import count

from ...models.thoughts import is_json
from ..verify.text_verifiers import split_sentences
from ..writing.gate import opened

__all__ = ["edited", "extended"]


def edited(
    text: str, judged: Callable[[str], tuple[bool, float]], *, shapes: Sequence[str] = (), most: int = 400
) -> str:
    """Return an edit that is accepted: another form, or one with as little left out as the scores lead to; else "".

    Args:
        text: Any text.
        judged: Tells of a text whether it is accepted, and a score, 0–1: how near it is.
        shapes: Forms that are wanted, as `pattern_form` shows them: "- …\\n- …".
        most: How many texts are judged at most.
    """
    plain, forms = _forms(text.strip())
    forms += [shaped for shape in shapes if "\n" in shape for shaped in _shaped(plain, shape.split("\n"))]
    forms = [form for form in dict.fromkeys(forms) if form != text]
    tries = 0

    def ranked(one: str) -> tuple[bool, float]:
        nonlocal tries
        tries += 1
        return judged(one) if tries <= most and not one.rstrip().endswith(UNFINISHED) else (False, -1.0)

    for form in forms:
        if ranked(form)[0]:
            return form
    return next((shorter for form in [text, *forms] if (shorter := _shortened(form, ranked))), "")


def extended(text: str, added: str) -> str:
    """Return a text with what is to stand next in it, without sentences that it has already.

    An addition that has half of the text's words is the whole of it, written anew.
    """
    words = {*WORD.findall(text.casefold())}
    if len(words & {*WORD.findall(added.casefold())}) >= len(words) / 2:
        return added
    text, added = text.rstrip(), added.strip()
    return _unrepeated(f"{text}\n{added}" if "\n" in text else f"{text} {added}")


def _forms(text: str) -> tuple[str, list[str]]:
    """Return the text as it is meant, and in other forms: without a fence, a preface, quotes, marks, or repetitions."""
    forms = []
    if fenced := FENCED.search(text):
        text = fenced["inside"].strip()
        forms.append(text)
    if (data := DATA.search(text)) and is_json(data[0]):
        forms.append(data[0])
    if (without := opened(text, any_heading=True)).stripped:
        text = without.text
        forms.append(text)
    if quoted := QUOTED.fullmatch(text):
        text = quoted["inside"]
        forms.append(text)
    text = MARKS.sub("", text).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    forms += [text, "\n".join(lines), " ".join(BULLET.sub("", line) for line in lines), _unrepeated(text)]
    return text, forms


def _shaped(text: str, shape: Sequence[str]) -> Iterator[str]:
    """Yield the text in lines that begin as those of a shape: its own lines, its sentences, or its first clauses."""
    clauses = CLAUSE_END.split(" ".join(text.split()))
    broken = [*clauses[: len(shape) - 1], " ".join(clauses[len(shape) - 1 :])]
    for lines in (text.splitlines(), split_sentences(text), broken):
        bare = [BULLET.sub("", line.strip()) for line in lines if line.strip()]
        begins = [line.partition("…")[0] for line in shape] + [shape[-1].partition("…")[0]] * len(bare)
        if len(bare) >= len(shape):
            yield "\n".join(begin + line for begin, line in zip(begins, bare, strict=False))


def _unrepeated(text: str) -> str:
    """Return a text without the sentences that stand in it before."""
    if "\n" in text:
        return "\n".join(dict.fromkeys(text.split("\n")))
    return " ".join(dict.fromkeys(split_sentences(text)))


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


UNFINISHED = (",", ";", ":")
"""What an edit does not end with: the rest of the sentence was left out."""
FENCED = re.compile(r"```[a-zA-Z]*[ \t]*\n(?P<inside>[\s\S]*?)\n?```")
DATA = re.compile(r"\{[\s\S]*\}|\[[\s\S]*\]")
QUOTED = re.compile(r"[\"“](?P<inside>[^\"“”]+)[\"”]")
MARKS = re.compile(r"\*\*|__|^#+ +|(?<!\w)\*(?=\w)|(?<=\w)\*(?!\w)", re.MULTILINE)
BULLET = re.compile(r"^(?:[-*•–]|\d+[.)])\s+")
CLAUSE_END = re.compile(r"(?<=[,;:.!?])\s+")
WORD = re.compile(r"\w+")
NUMBER = re.compile(r"^\d+[.)]\s+")
