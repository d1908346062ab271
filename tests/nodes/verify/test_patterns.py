"""Patterns of a user are searched for in bounded time, and found where Python's own engine finds them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redraft.nodes import matches, matches_json_schema
from redraft.nodes.verify import json_schema, patterns
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


@pytest.mark.parametrize(
    ("schema", "draft"),
    [
        ({"pattern": "^a+$"}, '"ab"'),
        ({"patternProperties": {"^x+_": {"type": "string"}}, "additionalProperties": False}, '{"x_a": "b"}'),
        (
            {"patternProperties": {"^x+_": {"type": "string"}}, "additionalProperties": {"const": 1}},
            '{"x_a": 1, "b": 2}',
        ),
        ({"properties": {"a": {"pattern": r"^(a)\1$"}}, "unevaluatedProperties": False}, '{"a": "aa", "b": 1}'),
        ({"uniqueItems": True, "items": {"enum": [1, [2]]}}, "[1, 3, 1]"),
        ({"$defs": {"name": {"minLength": 3}}, "items": {"$ref": "#/$defs/name"}}, '["ab", "abc"]'),
        ({"format": "regex"}, '"("'),
    ],
)
def test_a_helper_process_judges_as_this_one_does(
    monkeypatch: pytest.MonkeyPatch, schema: dict[str, object], draft: str
) -> None:
    """Where a draft is checked, nobody can tell from the verdict."""
    pytest.importorskip("jsonschema")
    here = matches_json_schema(schema)("", draft)
    monkeypatch.setattr(json_schema, "LONGEST_HERE", -1)
    assert matches_json_schema(schema)("", draft) == here


def test_a_schema_of_many_characters_is_checked_where_it_can_be_killed() -> None:
    """It is refused in the same words as a short one, and judges in the same way."""
    pytest.importorskip("jsonschema")
    long = {"description": "x" * json_schema.LONGEST_SCHEMA}
    assert matches_json_schema({**long, "type": "string"})("", "1").accepted is False
    for wrong in ({"type": "strings"}, {"$ref": "#/nowhere"}, {"pattern": "("}):
        told = []
        for schema in (wrong, {**long, **wrong}):
            with pytest.raises(ValueError, match=r"schema|expression") as error:
                matches_json_schema(schema)
            told.append(str(error.value))
        assert told[0] == told[1]


def test_a_pattern_that_takes_forever_rejects_the_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a second or two of another process, and at once where RE2 can search."""
    monkeypatch.setattr(patterns, "MOST_SECONDS", 1)
    draft = "a" * 60 + "!"
    assert matches("^(a+)+$")("", draft).accepted is False
    found = matches(r"^(a+)+\1$")("", draft)
    assert found.accepted is False
    assert "it took more than" in found.text
    assert matches_json_schema({"pattern": "^(a+)+$"})("", f'"{draft}"').accepted is False
