"""Words, sentences and syllables of English prose, counted."""

from __future__ import annotations

import re

__all__ = ["count_sentences", "reading_grade", "split_words"]


def split_words(text: str) -> list[str]:
    """Return the words of a text: what white space parts and holds a letter or a digit. `well-known` is one word."""
    return [word for word in text.split() if any(sign.isalnum() for sign in word)]


def count_sentences(text: str) -> int:
    """Return how many sentences a text has.

    One ends at `.`, `!`, `?` or `…` (and the quotes and brackets behind it) before white space and anything but a
    small letter, or at an empty line. Titles (`Dr.`) and initials (`J.`) end none.
    """
    count = 0
    for paragraph in PARAGRAPH.split(text):
        start = 0
        for end in END.finditer(paragraph):
            last = paragraph[start : end.start()].rpartition(" ")[2]
            if not (end["stop"] == "." and ABBREVIATED.fullmatch(last)):
                count += bool(split_words(paragraph[start : end.end()]))
                start = end.end()
        count += bool(split_words(paragraph[start:]))
    return count


def reading_grade(text: str) -> float:
    """Return the Flesch–Kincaid grade of an English text: the US school year that it suits; 0 without words.

    Raises:
        ImportError: `syllapy`, which counts syllables offline, is not installed.
    """
    try:
        import syllapy
    except ImportError as error:
        raise ImportError(f'a reading level needs an extra: pip install "redraft[writing]" ({error})') from None
    words = [part[:LONGEST_WORD] for word in split_words(text) for part in LETTERS.findall(word.replace("’", "'"))]
    if not words:
        return 0.0
    syllables = sum(max(1, int(syllapy.count(word))) for word in words)
    return 0.39 * len(words) / max(1, count_sentences(text)) + 11.8 * syllables / len(words) - 15.59


LONGEST_WORD = 100
LETTERS = re.compile(r"[^\W\d_]++(?:'[^\W\d_]++)*+")
PARAGRAPH = re.compile(r"\n[ \t]*+\n")
END = re.compile(r"""(?P<stop>[.!?…]++)["'”’»)\]*_]*+(?=\s++[^\sa-z]|\s*+$)""")
ABBREVIATED = re.compile(
    r"[\"'“‘(\[]*(?:Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|Rev|Gen|No|vs|cf|approx|[A-Z]|(?:[A-Za-z]\.)+[A-Za-z])"
)
