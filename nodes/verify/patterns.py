"""Bounded search for a user's regular expression, by RE2 or by a process with a time limit. Internal.

A pattern such as `(a+)+$` takes Python's engine exponential time over a draft that a model wrote, and holds every other
run of the process meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from re import _constants, _parser  # type: ignore[attr-defined]  # the standard library has no public parser of patterns
from typing import Any

from ..runtime.killable import run_job

__all__ = ["MOST_SECONDS", "bounded_search", "check_pattern", "forbidden_word", "pattern_form", "quick_search"]

MOST_SECONDS = 2
"""Of CPU time, for one search of a process."""


def bounded_search(pattern: str, *, multiline: bool = True) -> Callable[[str], bool]:
    """Return a function that says whether a pattern of Python's `re` is found in a text.

    RE2 takes linear time, and searches where it reads pattern and text as Python does and both are small. What it can't
    take (such as a lookaround), would read otherwise (`\\w` beside letters that are not ASCII) or would need long for
    is left to a process of its own; where that one reaches its limit, the function raises TimeoutError.

    Args:
        pattern: The regular expression.
        multiline: Whether `^` and `$` match at lines.

    Raises:
        ValueError: It is no regular expression.
    """
    check_pattern(pattern, multiline=multiline)
    search, size = quick_search(pattern, multiline=multiline)

    def found(text: str) -> bool:
        result = search(text) if size * len(text) < MOST_STEPS else None
        if result is not None:
            return result
        try:
            return bool(run_job(FOUND, pattern, text, multiline, cpu_s=MOST_SECONDS))
        except (TimeoutError, MemoryError, ChildProcessError) as error:
            raise TimeoutError(f"a search for {pattern!r} was ended: {error}") from None

    return found


def check_pattern(pattern: str, *, multiline: bool = False) -> None:
    """Raise ValueError for a text that is no regular expression of Python's, or takes it long to read."""
    if _is_plain(pattern):
        _compiled(pattern, multiline=multiline)
        return
    try:
        run_job(FOUND, pattern, None, multiline, cpu_s=MOST_SECONDS)
    except (TimeoutError, MemoryError, ChildProcessError) as error:
        raise ValueError(f"{pattern!r:.200} can't be read as a regular expression: {error}") from None


def quick_search(pattern: str, *, multiline: bool) -> tuple[Callable[[str], bool | None], int]:
    """Return a search that takes linear time, and its steps for each character at most.

    The search gives `None` where it can't tell: RE2 is not installed, can't take the pattern, or might read pattern or
    text in another way than Python does.
    """
    if _is_plain(pattern) and WITHOUT_REPEATS.fullmatch(pattern):
        python = _compiled(pattern, multiline=multiline)
        return lambda text: python.search(text) is not None, len(pattern)
    compiled = _linear(pattern, multiline=multiline) if _is_plain(pattern) else None
    if compiled is None:
        return lambda _: None, 0

    def search(text: str) -> bool | None:
        # Not at lines, `$` matches before a final line break as well, in Python alone.
        alike = text.isascii() and not ODD_SPACE.search(text) and (multiline or not text.endswith("\n"))
        return compiled.search(text.encode()) is not None if alike else None

    return search, compiled.programsize


def _linear(pattern: str, *, multiline: bool) -> Any:
    """Return the pattern compiled by RE2, or `None` where it can't be, is large, or would mean something else."""
    if READ_OTHERWISE.search(pattern):
        return None
    try:
        import re2

        options = re2.Options()
    except (ImportError, AttributeError):  # another package is called re2, too
        return None
    options.log_errors = False
    options.max_mem = RE2_MEMORY
    try:
        return re2.compile(f"(?m){pattern}" if multiline else pattern, options)
    except re2.error:
        return None


def found_in(pattern: str, text: str | None, multiline: bool) -> bool:
    """Search in a helper process; without a text only read the pattern.

    Raises:
        ValueError: It is no regular expression.
    """
    compiled = _compiled(pattern, multiline=multiline)
    if text is None:
        return False
    result = quick_search(pattern, multiline=multiline)[0](text)
    return compiled.search(text) is not None if result is None else result


def _compiled(pattern: str, *, multiline: bool) -> Any:
    try:
        return re.compile(pattern, re.MULTILINE if multiline else 0)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None


def _is_plain(pattern: str) -> bool:
    """Return True if Python reads a pattern soon: not with ranges of letters that have thousands of them."""
    return len(pattern) <= LONGEST_PLAIN and pattern.isascii() and not WIDE.search(pattern)


FOUND = f"{__name__}:{found_in.__name__}"
RE2_MEMORY = 64 << 10
"""Bytes: it compiles some 2,700 steps in a few milliseconds; the time grows with their square."""
MOST_STEPS = 2_000_000
"""Of a pattern times the characters of a text, below which RE2 needs less than 50 ms at worst."""
LONGEST_PLAIN = 1000
WITHOUT_REPEATS = re.compile(r"[^*+?{(|]*")
WIDE = re.compile(r"\\[uUN]")


def forbidden_word(pattern: str) -> str:
    """Return the word that a pattern forbids and says nothing else of, as `^(?!.*[Ll]oud)` does; else an empty text."""
    forbids = FORBIDS.fullmatch(pattern)
    return CHOICE.sub(r"\1", forbids["word"]).strip() if forbids else ""


def pattern_form(pattern: str) -> str:
    """Return the form of the texts that a pattern is found in, `…` for what is free: `- …` of `^- [^\\n]+$`.

    Empty where an example can't say it, since the pattern forbids something or refers back, or says nothing.

    Args:
        pattern: A regular expression.
    """
    try:
        form = _form(_parser.parse(pattern, re.MULTILINE))
    except (NotImplementedError, RecursionError):
        return ""
    return form if form.strip(" …") and len(form) < LONGEST_FORM else ""


def _form(parts: Any) -> str:
    """Return the form of a parsed pattern: of choices the first, of repetitions the fewest."""
    form = ""
    for kind, value in parts:
        if kind is _constants.LITERAL:
            form += chr(value)
        elif kind in REPEATS:
            fewest, _, inside = value
            once = _form(inside)
            form += "…" if once == "…" else (once * min(fewest, LONGEST_FORM))[:LONGEST_FORM]
        elif kind is _constants.IN and value[0][0] is _constants.LITERAL:
            form += chr(value[0][1])
        elif kind in FREE:
            form += "…"
        elif kind is _constants.SUBPATTERN:
            form += _form(value[-1])
        elif kind is _constants.BRANCH:
            form += _form(value[1][0])
        elif kind is not _constants.AT:
            raise NotImplementedError(kind)
    return REST.sub("…", form)


FREE = (_constants.ANY, _constants.IN, _constants.NOT_LITERAL)
REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT)
REST = re.compile("…+")
LONGEST_FORM = 500


READ_OTHERWISE = re.compile(r"\[\[?:|\{,|\\Z")
ODD_SPACE = re.compile(r"[\x0b\x1c-\x1f]")
"""White space of Python's that is none of RE2's."""
FORBIDS = re.compile(r"(?:\(\?[ims]+\))?\^\(\?!\.\*(?:\\b)?(?P<word>(?:\[\w\w\]|[\w '-])+)(?:\\b)?\)(?:\.\*\$?)?")
CHOICE = re.compile(r"\[\w(\w)\]")
"""Of a large and a small letter, as people write it."""
