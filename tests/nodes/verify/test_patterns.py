"""Patterns of a user are searched for in bounded time, and found where Python's own engine finds them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redraft.nodes import matches, matches_json_schema
from redraft.nodes.verify import patterns
from redraft.nodes.verify.patterns import check_pattern, quick_search

PIECES = [
    *"ab1_-. $^|?*+()[]",
    "\\w",
    "\\b",
    "\\s",
    "\\d",
    "\\S",
    "[^a]",
    "(?:",
    "(?i)",
    "{2}",
    "{,1}",
    "(?=a)",
    "\\.",
    "\n",
]


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), st.text("aAb1_-. \n\t", max_size=12), st.booleans())
def test_a_pattern_is_found_where_python_finds_it(pattern: str, text: str, multiline: bool) -> None:
    """Whichever engine searches."""
    try:
        expected = re.search(pattern, text, re.MULTILINE if multiline else 0) is not None
    except re.error:
        with pytest.raises(ValueError, match="regular expression"):
            check_pattern(pattern, multiline=multiline)
        return
    # Where it gives none, a process has Python's own answer.
    assert quick_search(pattern, multiline=multiline)[0](text) in (expected, None)


@pytest.mark.parametrize(
    ("pattern", "text"), [(r"(\w)\1", "ball"), (r"^\w+$", "größer"), (r"a(?!b)", "ac"), ("é", "é")]
)
def test_what_re2_reads_otherwise_is_found_too(pattern: str, text: str) -> None:
    """Backreferences, lookarounds and letters that are not ASCII work as before."""
    assert matches(pattern)("", text).accepted
    assert not matches(pattern)("", "-").accepted


def test_a_pattern_that_takes_forever_rejects_the_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a second or two of another process, and at once where RE2 can search."""
    monkeypatch.setattr(patterns, "MOST_SECONDS", 1)
    draft = "a" * 60 + "!"
    assert matches("^(a+)+$")("", draft).accepted is False
    found = matches(r"^(a+)+\1$")("", draft)
    assert found.accepted is False
    assert "more than 1 s of CPU" in found.text
    assert matches_json_schema({"pattern": "^(a+)+$"})("", f'"{draft}"').accepted is False
