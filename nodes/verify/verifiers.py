"""Verifiers by name, as the command line writes them. Internal."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from .json_schema import matches_json_schema
from .numeric_answers import ends_with_answer
from .text_verifiers import has_length, matches, named, reading_level, uses_words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...state.critique import Verifier

__all__ = ["RETIRED", "holds_schema", "stored_verifier", "verifier"]


def verifier(spec: str) -> Verifier:
    """Return the verifier that a text names, as the shell does: `uses_words:river,lamp`, `length:20-40`.

    The shell has `uses_words:WORD,WORD`, `matches:REGEX`, `length:20-40` (also `length:-280 characters` and
    `length:20-40 words, 2- sentences`), `json_schema:FILE` or the schema itself as `json_schema:{…}`,
    `reading_level:GRADE` and `ends_with_answer`.

    Raises:
        ValueError: No such verifier, or what follows the colon makes no sense.
        OSError: The file of a JSON schema can't be read.
        ImportError: The verifier needs an extra that is not installed.
    """
    name, _, argument = spec.partition(":")
    if spec in WITHOUT_ARGUMENT:
        return WITHOUT_ARGUMENT[spec]()
    if name in WITH_ARGUMENT and (argument.strip() or name == "uses_words"):
        return WITH_ARGUMENT[name](argument)
    raise ValueError(f"{spec!r} is not a verifier; known are {KNOWN}")


def stored_verifier(spec: str) -> Verifier:
    """Return the verifier that a stored recipe names; a retired one can't tell, so it accepts and rejects nothing.

    Raises:
        ValueError: As `verifier`.
        OSError: As `verifier`.
        ImportError: As `verifier`.
    """
    if spec not in RETIRED:
        return verifier(spec)

    def check(task: str, draft: str, /) -> None:
        return None

    return named(check, spec.partition(":")[0])


def _length(argument: str) -> Verifier:
    limits: dict[str, int | None] = {}
    for part in argument.split(","):
        found = LENGTH.fullmatch(part.strip())
        if found is None or not (found["low"] or found["high"]):
            raise ValueError(f"{part.strip()!r} is not a length, such as '20-40', '20-' or '-280 characters'")
        unit = (found["unit"] or "word").removesuffix("s") + "s"
        low, high = (int(found[end]) if found[end] else None for end in ("low", "high"))
        limits |= {f"min_{unit}": low, f"max_{unit}": high if found["dash"] else low}
    return has_length(**limits)


def _schema(argument: str) -> Verifier:
    text = argument if holds_schema(argument) else Path(argument).expanduser().read_text(encoding="utf-8")
    try:
        return matches_json_schema(json.loads(text))
    except RecursionError:
        raise ValueError("the JSON schema is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{argument!r:.200} holds no JSON: {error}") from None


def holds_schema(argument: str) -> bool:
    """Return whether what stands behind `json_schema:` is a schema, and no file's name."""
    return argument.lstrip().startswith("{")


def _grade(argument: str) -> Verifier:
    try:
        grade = float(argument)
    except ValueError:
        raise ValueError(f"{argument!r} is not a grade, such as 8") from None
    return reading_level(grade)


KNOWN = (
    "'uses_words:WORD,WORD', 'matches:REGEX', 'length:20-40', 'json_schema:FILE', 'reading_level:GRADE' "
    "and 'ends_with_answer'"
)
LENGTH = re.compile(
    r"(?P<low>\d{1,9})?(?:(?P<dash>-)(?P<high>\d{1,9})?)?(?:\s?(?P<unit>(?:word|character|sentence)s?))?"
)
RETIRED = frozenset({"arithmetic_holds", "arithmetic_holds:optional"})
"""Verifiers of earlier versions, which threads may still name."""

WITHOUT_ARGUMENT: Mapping[str, Callable[[], Verifier]] = {
    "ends_with_answer": ends_with_answer,
}
WITH_ARGUMENT: Mapping[str, Callable[[str], Verifier]] = {
    "uses_words": lambda argument: uses_words(*(word.strip() for word in argument.split(","))),
    "matches": matches,
    "length": _length,
    "json_schema": _schema,
    "reading_level": _grade,
}
