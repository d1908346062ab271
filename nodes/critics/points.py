"""Points of a critique: each with the words of the draft that it is about, and what would be right. Internal.

What a model says twice, what is beyond the third point, and a point about words that the draft does not have are left
out before a writer reads the critique. None of that changes the verdict.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FEW", "NO_POINT", "Point", "Points", "borne_out", "points_text", "read_points", "unrepeated"]

MOST_POINTS = 3
# Bounds that a server makes a grammar of; a reply beyond them is read all the same.
SHORT: Any = {"maxLength": 200}
# A small model that may write no point at all writes none, and rejects.
FEW: Any = {"minItems": 1, "maxItems": MOST_POINTS}


def _said(text: str) -> str:
    """Return a text, or an empty one where it says "nothing"."""
    return "" if _plain(text) in NOTHING else text


Said = Annotated[str, AfterValidator(_said)]


class Point(BaseModel):
    """One thing to mend in a draft."""

    model_config = ConfigDict(extra="ignore")

    quote: Said = Field(
        description="The words of the draft that it is about, copied exactly; empty where something is missing.",
        json_schema_extra=SHORT,
    )
    problem: Said = Field(description="What is wrong there.", json_schema_extra=SHORT)
    better: Said = Field(description="What would be right.", json_schema_extra=SHORT)


def read_points(text: str) -> list[Point]:
    """Return the points in a text whose lines begin with `Quote:`, `Problem:` and `Better:`.

    A text without such lines is one point, without what it says twice.
    """
    _, *labelled = LABEL.split(text)
    points: list[dict[str, str]] = [] if labelled else [{"problem": unrepeated(text)}]
    for label, rest in zip(map(str.casefold, labelled[::2]), labelled[1::2], strict=True):
        if not points or label in points[-1]:
            points.append({})
        points[-1][label] = " ".join(rest.split())
    return [Point(**{"quote": "", "problem": "", "better": "", **point}) for point in points]


def _as_points(feedback: Any) -> Any:
    """Return the points of feedback that is a text; a judge may well write one."""
    return read_points(feedback) if isinstance(feedback, str) else feedback


Points = Annotated[list[Point], BeforeValidator(_as_points)]


def borne_out(points: Sequence[Point], draft: str) -> list[Point]:
    """Return the points that quote words of the draft or nothing, each once whatever it quotes, and three at most."""
    body = _plain(draft)
    distinct: dict[tuple[str, str], Point] = {}
    for point in points:
        parts = map(_plain, GAP.split(point.quote))
        if (point.problem or point.better).strip() and all(part in body for part in parts):
            distinct.setdefault((_plain(point.problem), _plain(point.better)), point)
    return [*distinct.values()][:MOST_POINTS]


def points_text(points: Sequence[Point]) -> str:
    """Return points as the text of a critique: one as it is, several as a list."""
    texts = []
    for point in points:
        about = f'"{point.quote.strip(MARKS)}": ' if point.quote else ""
        better = f" Better: {point.better.strip()}" if point.better.strip() else ""
        texts.append(f"{about}{point.problem}{better}".strip())
    return texts[0] if len(texts) == 1 else "\n".join(f"- {text}" for text in texts)


def unrepeated(text: str) -> str:
    """Return a text without the sentences, of more than two words, that stand in it before."""
    before: set[str] = set()

    def once(sentence: re.Match[str]) -> str:
        plain = _plain(sentence[0])
        if plain in before and plain.count(" ") > 1:
            return ""
        before.add(plain)
        return sentence[0]

    return SENTENCE.sub(once, text).strip()


def _plain(text: str) -> str:
    """Return the words of a text in small letters: quotes differ from it in marks, case and white space."""
    return " ".join(WORD.findall(text.casefold()))


MARKS = " \"'“”„‘’«»`*_"
WORD = re.compile(r"\w+")
GAP = re.compile(r"…|\.\.\.|\[\.\.\.\]")
"""Where a quote leaves words out."""
LABEL = re.compile(r"^[ \t\d.)*#-]{0,12}(quote|problem|better)[*_]{0,2}:[*_]{0,2}", re.IGNORECASE | re.MULTILINE)
SENTENCE = re.compile(r"[^\n.!?]+[.!?]* ?")
NOTHING = frozenset(["", "nothing", "none", "n a", "empty", "missing"])
"""Words that stand for none."""
NO_POINT = """\
The draft is not accepted, but no point of the critique is about words that stand in it. Compare it with the task, and \
mend what falls short."""
