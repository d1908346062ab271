"""Bounded search for a user's regular expression, by RE2 or by a process with a time limit. Internal.

A pattern such as `(a+)+$` takes Python's engine exponential time over a draft that a model wrote, and holds every other
run of the process meanwhile.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from re import _constants, _parser  # type: ignore[attr-defined]  # the standard library has no public parser of patterns
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MOST_SECONDS", "bounded_search", "pattern_form"]

MOST_SECONDS = 2
"""Of CPU time, for one search of a process."""


def bounded_search(pattern: str, *, multiline: bool = True) -> Callable[[str], bool]:
    """Return a function that says whether a pattern of Python's `re` is found in a text.

    RE2 takes linear time, and searches where it reads pattern and text as Python does. What it can't take (such as a
    lookaround) or would read otherwise (`\\w` beside letters that are not ASCII) is left to Python in a process of its
    own; where that one reaches its limit, the function raises TimeoutError.

    Args:
        pattern: The regular expression.
        multiline: Whether `^` and `$` match at lines.

    Raises:
        ValueError: It is no regular expression.
    """
    flags = re.MULTILINE if multiline else 0
    try:
        re.compile(pattern, flags)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
    linear = _linear(pattern, multiline=multiline)

    def found(text: str) -> bool:
        # Not at lines, `$` matches before a final line break as well, in Python alone.
        alike = text.isascii() and not ODD_SPACE.search(text) and (multiline or not text.endswith("\n"))
        if linear is not None and alike:
            return linear.search(text) is not None
        return _found_in_process(pattern, text, int(flags))

    return found


def pattern_form(pattern: str) -> str:
    """Return the form of the texts that a pattern is found in, `…` for what is free: `- …` of `^- [^\\n]+$`.

    Empty where an example can't say it, since the pattern forbids something or refers back, or says nothing.

    Args:
        pattern: A regular expression.
    """
    try:
        form = _form(_parser.parse(pattern, re.MULTILINE))
    except NotImplementedError:
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
            form += "…" if once == "…" else once * min(fewest, LONGEST_FORM)
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


def _linear(pattern: str, *, multiline: bool) -> Any:
    """Return the pattern compiled by RE2, or `None` where it can't be, or would mean something else."""
    if not pattern.isascii() or READ_OTHERWISE.search(pattern):
        return None
    try:
        import re2

        options = re2.Options()
    except (ImportError, AttributeError):  # another package is called re2, too
        return None
    options.log_errors = False
    try:
        return re2.compile(f"(?m){pattern}" if multiline else pattern, options)
    except re2.error:
        return None


def _found_in_process(pattern: str, text: str, flags: int) -> bool:
    command = [sys.executable, "-I", "-S", "-B", "-c", SEARCH.format(seconds=MOST_SECONDS)]
    question = json.dumps([pattern, text, flags]).encode()
    try:
        # Waits longer than the process may work, as the machine may be busy.
        done = subprocess.run(command, input=question, capture_output=True, timeout=5 * MOST_SECONDS, check=True)  # noqa: S603  # this Python, and the program below
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        raise TimeoutError(f"a search for {pattern!r} takes more than {MOST_SECONDS} seconds") from None
    return done.stdout.strip() == b"1"


SEARCH = """
import json, re, sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))
except ImportError:
    pass
pattern, text, flags = json.load(sys.stdin)
print(int(re.search(pattern, text, flags) is not None))
"""
READ_OTHERWISE = re.compile(r"\[\[?:|\{,|\\Z")
ODD_SPACE = re.compile(r"[\x0b\x1c-\x1f]")
"""White space of Python's that is none of RE2's."""
