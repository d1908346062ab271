"""Verifiers of texts: words, length, patterns, reading level. Internal."""

from __future__ import annotations

import inspect
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from ...state.critique import Critique, Verifier
from .patterns import bounded_search, forbidden_word, pattern_form

__all__ = [
    "avoids_words",
    "count_sentences",
    "has_length",
    "hint",
    "matches",
    "named",
    "reading_grade",
    "reading_level",
    "split_sentences",
    "split_words",
    "uses_words",
    "wanted",
    "wish",
]


def named(
    check: Verifier,
    name: str,
    *,
    wants: str = "",
    form: str = "",
    advises: Callable[[str], str] | None = None,
    adds: Callable[[str], str] | None = None,
    faulty: Callable[[str], str] | None = None,
) -> Verifier:
    """Return the verifier, under the name of the factory that made it.

    Args:
        check: The verifier, a function.
        name: Shown in events.
        wants: A sentence that tells a writer what to do, so that a draft can be right the first time.
        form: The same where an example of the form says it better.
        advises: Takes a draft that is rejected, and returns what to tell a writer who is to mend it.
        adds: The same where something is only to be added to it: returns what a writer is asked for, "one more
            sentence", say, or an empty text.
        faulty: The same where one sentence is to be rewritten and all else may stay: returns that sentence, or "".
    """
    check.__name__, check.wants = name, wants  # type: ignore[attr-defined]  # a function can carry all of it
    check.form, check.advises, check.adds, check.faulty = form, advises, adds, faulty  # type: ignore[attr-defined]
    return check


def wanted(check: object) -> str:
    """Return a verifier's wish as a sentence; empty where it does not say."""
    return str(getattr(check, "wants", ""))


def wish(check: object) -> str:
    """Return the wish of a verifier as a writer reads it: its form, its wish, or the first line of its docstring.

    Args:
        check: A verifier, or any callable in the role of one.
    """
    own = getattr(check, "form", "") or wanted(check)
    return own or (inspect.getdoc(check) or "").partition("\n")[0] if inspect.isroutine(check) else own


def hint(check: object, kind: Literal["advises", "adds", "faulty"], draft: str) -> str:
    """Return what a verifier says of a rejected draft to a writer who is to mend it; empty where it does not say.

    Args:
        check: A verifier.
        kind: What is asked for, as `named` has it.
        draft: The draft.
    """
    says = getattr(check, kind, None)
    return says(draft) if says else ""


def split_words(text: str) -> list[str]:
    """Return the words of a text: what white space parts and holds a letter or a digit. `well-known` is one word."""
    return [word for word in text.split() if any(sign.isalnum() for sign in word)]


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, without white space around them.

    One ends at `.`, `!`, `?` or `…` (and the quotes and brackets behind it) before white space and anything but a
    small letter, at `。`, `！` or `？`, or at an empty line. Titles (`Dr.`), initials (`J.`) and the like of `e.g.`
    end none.
    """
    sentences = []
    for paragraph in PARAGRAPH.split(text):
        start = 0
        for end in END.finditer(paragraph):
            near = paragraph[max(start, end.start() - LONGEST_ABBREVIATION) : end.start()]
            if not (end["stop"] == "." and ABBREVIATED.fullmatch((near.split() or [""])[-1])):
                sentences.append(paragraph[start : end.end()])
                start = end.end()
        sentences.append(paragraph[start:])
    return [sentence.strip() for sentence in sentences if split_words(sentence)]


def count_sentences(text: str) -> int:
    """Return the number of sentences of a text, as `split_sentences` parts them."""
    return len(split_sentences(text))


def reading_grade(text: str) -> float:
    """Return the Flesch–Kincaid grade of an English text: the US school year that it suits; 0 without words.

    Raises:
        ImportError: `syllapy`, which counts syllables offline, is not installed.
    """
    try:
        import syllapy
    except ImportError as error:
        raise ImportError(f'a reading level needs an extra: pip install ".[writing]" in a checkout ({error})') from None
    words = [part[:LONGEST_WORD] for word in split_words(text) for part in LETTERS.findall(word.replace("’", "'"))]
    if not words:
        return 0.0
    syllables = sum(max(1, int(syllapy.count(word))) for word in words)
    return 0.39 * len(words) / max(1, count_sentences(text)) + 11.8 * syllables / len(words) - 15.59


def uses_words(*words: str) -> Verifier:
    """Return a verifier that accepts a draft in which every word occurs: as a whole word, in any case.

    Apostrophes, hyphens and accents count as the same however they are encoded. In scripts that put no space between
    words (Chinese, Japanese, Thai, Lao, Khmer, Burmese) a word may stand inside a longer one.

    The score is the share of the words that occur; the evidence names those `missing`.

    Raises:
        ValueError: No word is given, or one is blank. At build.

    Example:
        >>> from redraft import uses_words
        >>> uses_words("leaf", "wind")("One sentence about autumn.", "A leaf fell.").text
        'These words are missing: wind.'
    """
    patterns = _patterns("uses_words", words)

    def check(task: str, draft: str, /) -> Critique:
        text = _one_form(draft)
        missing = [word for word, pattern in patterns.items() if not pattern.search(text)]
        if not missing:
            return Critique("", accepted=True, score=1.0)
        score = (len(patterns) - len(missing)) / len(patterns)
        said = f"These words are missing: {', '.join(missing)}."
        return Critique(said, accepted=False, score=score, evidence={"missing": missing})

    def advice(draft: str) -> str:
        missing = (check("", draft).evidence or {}).get("missing", [])
        which = "this word" if len(missing) == 1 else "each of these words"
        return f"Use {which} exactly as written: {', '.join(missing)}."

    def added(draft: str) -> str:
        missing = (check("", draft).evidence or {}).get("missing", [])
        if not 0 < len(missing) <= FEW_WORDS:
            return ""
        which = "this word" if len(missing) == 1 else "all of these words"
        return f"one short sentence that could stand next in this text and has {which}, exactly as written: " + (
            f"{', '.join(missing)}."
        )

    wants = f"It uses each of these words as it stands: {', '.join(patterns)}."
    which = "the word" if len(patterns) == 1 else "each of the words"
    quoted = ", ".join(f'"{word}"' for word in patterns)
    form = f"It has {which} {quoted}, exactly as written."
    return named(check, "uses_words", wants=wants, form=form, advises=advice, adds=added)


def avoids_words(*words: str) -> Verifier:
    """Return a verifier that accepts a draft in which none of the words occurs: as a whole word, in any case.

    The score is the share of the words that do not occur.

    Raises:
        ValueError: No word is given, or one is blank. At build.
    """
    patterns = _patterns("avoids_words", words)

    def found(draft: str) -> list[str]:
        text = _one_form(draft)
        return [word for word, pattern in patterns.items() if pattern.search(text)]

    def check(task: str, draft: str, /) -> Critique:
        used = found(draft)
        said = f"These words must not stand in it: {', '.join(used)}." if used else ""
        return Critique(said, not used, 1 - len(used) / len(patterns))

    def faulty(draft: str) -> str:
        return next((one for one in split_sentences(draft) if found(one)), "")

    wants = f"It uses none of these words: {', '.join(patterns)}."
    return named(check, "avoids_words", wants=wants, faulty=faulty)


def _patterns(name: str, words: Sequence[str]) -> dict[str, re.Pattern[str]]:
    if not words or not all(isinstance(word, str) and word.strip() for word in words):
        raise ValueError(f"{name} needs at least one word and no blank ones, each a text, not {words!r}")
    return {word: _whole_word(_one_form(word.strip())) for word in words}


def _one_form(text: str) -> str:
    return unicodedata.normalize("NFC", text).translate(LIKE_ASCII)


def _whole_word(word: str) -> re.Pattern[str]:
    before = "" if UNSPACED.match(word[0]) else rf"(?<!{SPACED_LETTER})"
    after = "" if UNSPACED.match(word[-1]) else rf"(?!{SPACED_LETTER})"
    return re.compile(f"{before}{re.escape(word)}{after}", re.IGNORECASE)


def matches(pattern: str, *, says: str | None = None) -> Verifier:
    """Return a verifier that accepts a draft in which a regular expression is found.

    The search takes bounded time: RE2 searches where the extra `writing` is installed, it reads the pattern as Python
    does and both are small, else a process with a limit of 2 seconds. A draft that reaches the limit is rejected.

    Args:
        pattern: Searched anywhere in the draft; `^` and `$` match at lines.
        says: The critique when it is not found. Default: a comment that the pattern begins with, as
            `(?#End with a question.)\\?$`; else the pattern is quoted.

    Raises:
        ValueError: The pattern is not a regular expression, or Python takes more than 2 seconds to read it. At build.
    """
    if comment := COMMENT.match(pattern):
        says, pattern = says or comment[1].strip(), pattern[comment.end() :]
    search = bounded_search(pattern)

    def check(task: str, draft: str, /) -> Critique:
        try:
            match = search(draft)
        except TimeoutError as error:
            return Critique(f"The draft can't be checked: {error}.", accepted=False)
        return Critique("" if match else says or f"The draft must match {pattern!r}.", match)

    shown = pattern_form(pattern)
    size = "this form" if "\n" not in shown else f"{len(shown.splitlines())} lines of this form"
    form = f"It has {size}, with words in place of each …:\n{shown}" if shown and not says else ""
    word = forbidden_word(pattern)

    def faulty(draft: str) -> str:
        return next((one for one in split_sentences(draft) if word and word.casefold() in one.casefold()), "")

    wants = says or (f'It does not use "{word}".' if word else f"It matches the regular expression {pattern}")
    verifier = named(check, "matches", wants=wants, form=form, advises=lambda _: form or wants, faulty=faulty)
    verifier.shape = shown  # type: ignore[attr-defined]
    return verifier


def has_length(
    min_words: int | None = None,
    max_words: int | None = None,
    *,
    min_characters: int | None = None,
    max_characters: int | None = None,
    min_sentences: int | None = None,
    max_sentences: int | None = None,
    min_lines: int | None = None,
    max_lines: int | None = None,
    min_paragraphs: int | None = None,
    max_paragraphs: int | None = None,
) -> Verifier:
    """Return a verifier that accepts a draft whose length is within the limits given, both ends included.

    Words are parted by white space; characters count without white space at the ends of the draft. Lines and
    paragraphs, which empty lines part, count where they hold a letter or a digit. The score is the
    share of the length that fits: a text twice as long as allowed, or half as long as wanted, scores 0.5. With several
    limits it is the mean.

    Raises:
        ValueError: No limit is given, one is negative, or a minimum is above its maximum. At build.
    """
    bounds = {
        "word": (min_words, max_words),
        "character": (min_characters, max_characters),
        "sentence": (min_sentences, max_sentences),
        "line": (min_lines, max_lines),
        "paragraph": (min_paragraphs, max_paragraphs),
    }
    limits = {unit: (low or 0, high) for unit, (low, high) in bounds.items() if (low, high) != (None, None)}
    if not limits:
        raise ValueError("has_length needs at least one limit, such as max_words=40")
    for unit, (low, high) in limits.items():
        numbers = all(isinstance(one, int | None) for one in (low, high))
        if not numbers or low < 0 or (high is not None and high < low):
            raise ValueError(f"the limits of {unit}s must be 0 or more, the lower one first, not {low!r} and {high!r}")

    def check(task: str, draft: str, /) -> Critique:
        problems, scores = [], []
        for unit, (low, high) in limits.items():
            count = COUNTS[unit](draft)
            wanted = low if count < low else high if high is not None and count > high else count
            scores.append(1.0 if wanted == count else min(count, wanted) / max(count, wanted))
            if wanted != count:
                off = f"{_many(abs(count - wanted), unit)} too {'short' if count < wanted else 'long'}"
                problems.append(f"The draft has {_many(count, unit)}, {off}: {_size(low, high, unit)} are wanted.")
        return Critique("\n".join(problems), not problems, sum(scores) / len(scores))

    def advice(draft: str) -> str:
        advices = [_resize(COUNTS[unit](draft), low, high, unit) for unit, (low, high) in limits.items()]
        return "\n".join(filter(None, advices))

    sizes = " and ".join(_size(low, high, unit) for unit, (low, high) in limits.items())
    words = limits.get("word", (0, None))
    return named(
        check,
        "has_length",
        wants=f"It has {sizes}.",
        form=_in_sentences(sizes, *words) if len(limits) == 1 else "",
        advises=advice,
        adds=lambda draft: _more_sentences(draft, *words),
    )


def _in_sentences(sizes: str, low: int, high: int | None) -> str:
    """Return a wish for so many words, told in sentences; empty where it says nothing more.

    Rather too many: models count badly, and one sentence too many can be left out again.
    """
    sentences = round(high / WORDS_TOLD) if low and high else 0
    return f"It has {sizes}: about {sentences} sentences." if sentences > 1 else ""


def _more_sentences(draft: str, low: int, high: int | None) -> str:
    """Return the request for more words where a draft has too few; empty where a sentence would be too long for it."""
    count = COUNTS["word"](draft)
    if count >= low or (high is not None and high < WORDS_A_SENTENCE):
        return ""
    lacking = ((low + high) // 2 if high else low) - count
    return f"{_many(max(1, round(lacking / WORDS_ADDED)), 'more sentence')} that could stand next in this text."


def reading_level(max_grade: float) -> Verifier:
    """Return a verifier that accepts an English draft that a reader of a US school grade can read.

    The grade is Flesch–Kincaid's: 0.39 words per sentence + 11.8 syllables per word - 15.59. A draft without words is
    rejected. The score falls by 0.1 for each grade above the limit, and is 0 from ten grades above it.

    Args:
        max_grade: The highest grade that is accepted; 8 reads easily, 12 is a newspaper for adults.

    Raises:
        ImportError: The extra `writing` is not installed. At build.
        ValueError: The grade is not between 0 and 30. At build.
    """
    if not 0 <= max_grade <= HIGHEST_GRADE:
        raise ValueError(f"the grade must be between 0 and {HIGHEST_GRADE}, not {max_grade!r}")
    reading_grade("")

    def check(task: str, draft: str, /) -> Critique:
        words, sentences = len(split_words(draft)), count_sentences(draft)
        if not words:
            return Critique("The draft has no words to read.", accepted=False, score=0.0)
        grade = round(reading_grade(draft), 1)
        if grade <= max_grade:
            return Critique("", accepted=True, score=1.0)
        text = (
            f"The draft reads at grade {grade:g}; at most grade {max_grade:g} is wanted. Its sentences have "
            f"{words / max(1, sentences):.0f} words on average: use shorter sentences, and shorter words."
        )
        return Critique(text, accepted=False, score=max(0.0, 0.99 - (grade - max_grade) / 10))

    wants = f"It reads easily, at US school grade {max_grade:g} or below: short sentences, short words."
    return named(check, "reading_level", wants=wants)


def _many(count: int, unit: str) -> str:
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


def _size(low: int, high: int | None, unit: str) -> str:
    if high is None:
        return f"at least {_many(low, unit)}"
    if low == high:
        return f"exactly {_many(low, unit)}"
    return f"{low} to {_many(high, unit)}" if low else f"at most {_many(high, unit)}"


def _resize(count: int, low: int, high: int | None, unit: str) -> str:
    """Return the advice that brings a text to a size: well inside it, since models count badly, and in sentences."""
    if low <= count and (high is None or count <= high):
        return ""
    size = _size(low, high, unit)
    aim = low if high is None else round(0.75 * high) if not low else (low + high) // 2
    if unit not in ("word", "character"):
        return f"Write {size}."
    words = aim if unit == "word" else round(aim / CHARACTERS_A_WORD)
    if high is not None and count > high:
        sentences, in_all = _many(max(1, round(words / WORDS_A_SENTENCE)), "short sentence"), _many(words, "word")
        return f"Make it shorter: {size}. Say only what matters most, in {sentences}, about {in_all} in all."
    lacking = words - count if unit == "word" else round((aim - count) / CHARACTERS_A_WORD)
    sentences = _many(max(1, round(lacking / WORDS_A_SENTENCE)), "more sentence")
    return f"Make it longer: {size}. Keep what is there, and add {sentences} with further details."


CHARACTERS_A_WORD = 6.5
WORDS_A_SENTENCE = 14
FEW_WORDS = 3
"""So many, or fewer, fit into one short sentence."""
WORDS_TOLD = 12
WORDS_ADDED = 10
"""Words of a sentence that is asked for as an addition: too many can be left out again."""
HIGHEST_GRADE = 30
COUNTS: Mapping[str, Callable[[str], int]] = {
    "word": lambda text: len(split_words(text)),
    "character": lambda text: len(text.strip()),
    "sentence": count_sentences,
    "line": lambda text: sum(map(bool, map(split_words, text.splitlines()))),
    "paragraph": lambda text: sum(map(bool, map(split_words, PARAGRAPH.split(text)))),
}


COMMENT = re.compile(r"\(\?#([^)]*)\)")
LIKE_ASCII = str.maketrans("’‘ʼ＇‐‑", "'" * 4 + "--")
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
UNSPACED = re.compile(f"[{_UNSPACED}\U00020000-\U0003ffff]")
SPACED_LETTER = rf"[^\W{_UNSPACED}\U00020000-\U0003ffff]"
LONGEST_WORD = 100
LONGEST_ABBREVIATION = 40
"""Characters; of a longer one the end is looked at."""
LETTERS = re.compile(r"[^\W\d_]++(?:'[^\W\d_]++)*+")
PARAGRAPH: re.Pattern[str] = re.compile(r"\n[ \t]*+\n")
END = re.compile(r"""(?<![.!?…؟।])(?P<stop>[.!?…؟।]++)["'”’»)\]*_]*+(?=\s++[^\sa-z]|\s*+$)|[。！？]++[」』”’）]*+""")
ABBREVIATED = re.compile(
    r"[\"'“‘(\[]*(?:Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|Rev|Gen|No|Nr|Fig|Eq|Vol|Art|pp?|z|ca|al|bzw|Inc|Ltd|vs|cf|approx|[A-Z]|(?:[A-Za-z]\.)+[A-Za-z])"
)
