"""Verifiers: programs that check a draft."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from redraft import nodes
from redraft.nodes import verifier

if TYPE_CHECKING:
    from pathlib import Path


def test_verifiers_have_names_that_a_shell_can_give() -> None:
    """The shell names verifiers by text, and hears what is known where it errs."""
    assert verifier("uses_words:river, lamp")("", "lamp river").accepted
    assert verifier(r"matches:^\d+:\d+$")("", "12:30").accepted
    for wrong in ("spelling", "uses_words:", "matches", "matches:(", "ends_with_answer:5", "arithmetic_holds"):
        with pytest.raises(ValueError, match=r"is not a verifier|needs at least one word|not a regular expression"):
            verifier(wrong)


def test_all_verifiers_come_from_one_module() -> None:
    """One import line gives every verifier, and events show each under its own name."""
    factories = (
        nodes.ends_with_answer,
        lambda: nodes.uses_words("a"),
        lambda: nodes.matches("a"),
        lambda: nodes.has_length(min_words=1),
    )
    for factory in factories:
        assert factory().__name__ in nodes.__all__  # type: ignore[attr-defined]
    names = ("extract_number", "matches_json_schema", "reading_level", "same_number", "verifier")
    assert all(callable(getattr(nodes, name)) for name in names)


@pytest.mark.parametrize(
    ("spec", "fits", "fails"),
    [
        ("length:2-3", "one two", "one"),
        ("length:2", "one two", "one two three"),
        ("length:2-", "one two three", "one"),
        ("length:-5 characters", "12345", "123456"),
        ("length:1-4 words, 2- sentences", "Yes. No.", "Yes"),
        ("reading_level:3", "The cat sat.", "Considerable institutional responsibility necessitates deliberation."),
    ],
)
def test_an_argument_follows_the_colon(spec: str, fits: str, fails: str) -> None:
    """Limits are written as ranges, of words unless a unit is named."""
    assert verifier(spec)("", fits).accepted
    assert not verifier(spec)("", fails).accepted


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("length:many", "'many' is not a length, such as '20-40'"),
        ("length:-", "is not a length"),
        ("length:40-20", "the lower one first, not 40 and 20"),
        ("reading_level:easy", "'easy' is not a grade, such as 8"),
        ("reading_level:99", "must be between 0 and 30"),
    ],
)
def test_an_argument_that_makes_no_sense_is_quoted(spec: str, message: str) -> None:
    """The shell hears the bad value and what would be right."""
    with pytest.raises(ValueError, match=message):
        verifier(spec)


def test_a_schema_is_read_from_a_file(tmp_path: Path) -> None:
    """`json_schema:FILE` checks drafts by the schema in the file; a file without JSON is named."""
    file = tmp_path / "schema.json"
    file.write_text('{"type": "array"}', encoding="utf-8")
    assert verifier(f"json_schema:{file}")("", "[1]").accepted
    assert not verifier(f"json_schema:{file}")("", "{}").accepted
    file.write_text("type: array", encoding="utf-8")
    with pytest.raises(ValueError, match="holds no JSON"):
        verifier(f"json_schema:{file}")
