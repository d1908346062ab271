"""Verifiers of prose and of JSON: what is accepted, and what a writer hears."""

from __future__ import annotations

import sys

import pytest
from redraft.nodes import avoids_words, has_length, matches, matches_json_schema, reading_level, uses_words


def test_uses_words_counts_whole_words_in_any_case() -> None:
    """A word inside another word does not count; the critique lists what is missing."""
    check = uses_words("river", "lamp", "C++")
    assert check("", "RIVER and lamp and C++.").accepted is True
    found = check("", "Rivers and lamps")
    assert (found.accepted, found.score, found.text) == (False, 0.0, "These words are missing: river, lamp, C++.")
    assert check("", "river and lamp").score == 2 / 3
    assert check("", "river").score == 1 / 3
    with pytest.raises(ValueError, match="no blank ones"):
        uses_words("river", " ")


def test_words_to_avoid_count_as_whole_words_in_any_case() -> None:
    """The critique names those that stand in it, and the score is the share of those that do not."""
    check = avoids_words("loud", "thunder")
    assert check("", "A cloud; thunderous.").accepted is True
    found = check("", "It was LOUD.")
    assert (found.accepted, found.score, found.text) == (False, 0.5, "These words must not stand in it: loud.")
    assert check.faulty("All was still. It was loud. Then rain.") == "It was loud."  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="no blank ones"):
        avoids_words()


def test_uses_words_finds_a_word_however_it_is_encoded() -> None:
    """Curly apostrophes, accents as signs of their own, and scripts without spaces between words."""
    assert uses_words("don't", "café", "well-known")("", "I don’t know the well‑known cafe\u0301.").accepted
    assert uses_words("東京", "タワー")("", "私は東京タワーに行きます").accepted
    assert uses_words("กิน", "tea")("", "ฉันกินteaและข้าว").accepted
    assert not uses_words("tea", "東京")("", "私は京都でsteakを食べます").accepted


def test_a_pattern_is_found_on_any_line() -> None:
    """The critique is the caller's own sentence, or quotes the pattern."""
    assert matches(r"^\d+:\d+$")("", "at\n12:30").accepted
    assert matches("x", says="Use an x.")("", "y").text == "Use an x."
    assert matches("x")("", "y").text == "The draft must match 'x'."
    assert matches("(?#End with a question.)[?]$")("", "y").text == "End with a question."
    with pytest.raises(ValueError, match=r"'\(' is not a regular expression"):
        matches("(")


def test_a_length_says_how_far_off_it_is() -> None:
    """Both ends of a limit are included, and the score is the share that fits."""
    check = has_length(2, 4)
    assert check("", "one two").accepted
    assert check("", "one - two three four").accepted
    short, long = check("", "one"), check("", "1 2 3 4 5 6 7 8")
    assert (short.text, short.score) == ("The draft has 1 word, 1 word too short: 2 to 4 words are wanted.", 0.5)
    assert (long.text, long.score) == ("The draft has 8 words, 4 words too long: 2 to 4 words are wanted.", 0.5)
    both = has_length(max_characters=4, min_sentences=2)("", " 12345678 ")
    assert both.text.splitlines() == [
        "The draft has 8 characters, 4 characters too long: at most 4 characters are wanted.",
        "The draft has 1 sentence, 1 sentence too short: at least 2 sentences are wanted.",
    ]
    assert has_length(min_lines=2, max_lines=2, max_paragraphs=2)("", "- a\n\n***\n\n- b\n").accepted
    for limits in ({}, {"min_words": -1}, {"min_words": 3, "max_words": 2}):
        with pytest.raises(ValueError, match=r"at least one limit|must be 0 or more"):
            has_length(**limits)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", 0),
        ("One", 1),
        ("Dr. J. Smith of the U.S. Army came. He left!", 2),
        ('"Really?" she asked. Yes…', 2),
        ("Pi is 3.14. So e.g. this counts.", 2),
        ("A title\n\nA line", 2),
    ],
)
def test_titles_initials_and_decimals_end_no_sentence(text: str, sentences: int) -> None:
    """Sentences are counted as a reader would."""
    found = has_length(min_sentences=sentences, max_sentences=sentences)("", text)
    assert (found.accepted, found.text) == (True, "")


def test_a_reading_level_says_what_to_shorten() -> None:
    """A text above the grade is told its grade and its mean sentence; an empty one is rejected."""
    pytest.importorskip("syllapy")
    check = reading_level(6)
    assert check("", "The cat sat on the mat. It was warm.").score == 1
    hard = check("", "Institutional responsibility necessitates considerable deliberation before implementation.")
    assert hard.accepted is False
    assert "at most grade 6 is wanted" in hard.text
    assert "have 7 words on average: use shorter sentences" in hard.text
    assert check("", "…").text == "The draft has no words to read."
    with pytest.raises(ValueError, match="between 0 and 30, not -1"):
        reading_level(-1)


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}}},
    "required": ["name"],
    "$defs": {"tag": {"enum": ["a", "b"]}},
}


@pytest.mark.parametrize(
    ("draft", "text"),
    [
        ('{"name": "x", "tags": ["a"]}', ""),
        ('{"name": 1}', "$.name: 1 is not of type 'string'"),
        ('{"name": "x", "tags": ["c"]}', "$.tags[0]: 'c' is not one of ['a', 'b']"),
        ("{}", "$: 'name' is a required property"),
        ('```json\n{"name": "x"}\n```', "Give the JSON alone, without the ``` fence around it."),
        ('{"name": }', "The draft must be JSON and nothing else; at line 1, column 10: Expecting value."),
        ('{"name": NaN}', "The draft must be JSON and nothing else: NaN is not JSON."),
        ("[" * 100_000, "The JSON is nested too deeply."),
    ],
)
def test_json_is_told_where_it_fails(draft: str, text: str) -> None:
    """The writer reads the path and the fault, or where the JSON could not be parsed."""
    pytest.importorskip("jsonschema")
    found = matches_json_schema(SCHEMA)("", draft)
    assert (found.text, found.accepted) == (text, not text)


def test_json_scores_grow_as_faults_get_fewer() -> None:
    """Text, broken JSON, two faults, one fault and none are told apart by score."""
    pytest.importorskip("jsonschema")
    check = matches_json_schema({"required": ["a", "b"], "properties": {"a": {}}})
    scores = [check("", draft).score for draft in ("hello", '{"a": 1,', "{}", '{"a": 1}', '{"a": 1, "b": 2}')]
    assert scores == sorted(scores, key=lambda score: score or 0)
    assert (len(set(scores)), scores[-1]) == (5, 1)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "text"}, "is not a JSON schema"),
        ({"$ref": "#/$defs/none"}, r"refers to '#/\$defs/none', which it does not hold"),
        ({"items": {"$ref": "https://example.org/x"}}, "refers to 'https://example.org/x'"),
    ],
)
def test_a_bad_schema_is_refused_when_the_graph_is_built(schema: dict[str, object], message: str) -> None:
    """A schema that is none, or whose reference leads nowhere, is named at build; nothing is fetched."""
    pytest.importorskip("jsonschema")
    with pytest.raises(ValueError, match=message):
        matches_json_schema(schema)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the optional packages the error says what to install, at build."""
    for package in ("jsonschema", "jsonschema.exceptions", "syllapy"):
        monkeypatch.setitem(sys.modules, package, None)
    for make in (lambda: matches_json_schema({}), lambda: reading_level(8)):
        with pytest.raises(ImportError, match=r"\.\[writing\]"):
            make()
