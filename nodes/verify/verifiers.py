"""Verifiers and answer types by name, as the shell, recipes and a server's callers write them. Internal.

It imports none of them, so that a help page can list them at once. A package adds one with an entry point in the group
`redraft.verifiers`.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, NamedTuple

from ..._files import read_file
from ..._plugins import plugin_cache, registered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...state.critique import Critique, Verifier

__all__ = [
    "RETIRED",
    "VerifierKind",
    "as_stated",
    "holds_schema",
    "known_verifiers",
    "named_type",
    "opened_file",
    "stored_type",
    "stored_verifier",
    "type_in",
    "verifier",
]


class VerifierKind(NamedTuple):
    """A verifier that is known by name: `--verify uses_words:river,lamp`.

    A package of one's own registers it by an entry point:

        [project.entry-points."redraft.verifiers"]
        syllables = "my_package.haiku:SYLLABLES"
    """

    name: str
    """The text before the colon."""
    build: Callable[..., Verifier]
    """Of the text behind the colon makes the verifier; without `argument` it is given nothing. It raises ValueError
    where the text makes no sense, and imports what it needs when it is called."""
    argument: str = ""
    """The argument as a help page shows it: `WORD,WORD`. Empty: it takes none."""
    opens: bool = False
    """Its argument may be a file's path: it is stored absolute, told before a foreign recipe is followed, and not for a
    server's callers."""
    line: str = ""
    """What it wants of a draft, for a help page."""


def verifier(spec: str) -> Verifier:
    """Return the verifier that a text names, as the shell does: `uses_words:river,lamp`, `length:20-40`.

    The shell has `uses_words:WORD,WORD`, `avoids_words:WORD,WORD`, `matches:REGEX`, `length:20-40` (also
    `length:-280 characters`, `length:3 lines` and `length:20-40 words, 2- sentences`), `json_schema:FILE` or the schema
    itself as `json_schema:{…}`, `reading_level:GRADE`, `as_stated`, `ends_with_answer`, and what
    installed packages add.

    Raises:
        ValueError: No such verifier, or what follows the colon makes no sense.
        OSError: The file of a JSON schema can't be read.
        ImportError: The verifier needs an extra that is not installed.
    """
    name, colon, argument = spec.partition(":")
    kind = known_verifiers().get(name)
    if kind is not None and not kind.argument and not colon:
        return kind.build()
    if kind is not None and kind.argument and (argument.strip() or name == "uses_words"):
        return kind.build(argument) if opened_file(spec) else _built(kind, argument)
    names = ", ".join(repr(f"{one.name}:{one.argument}".rstrip(":")) for one in known_verifiers().values())
    raise ValueError(f"{spec!r} is not a verifier; known are {names}")


@lru_cache(maxsize=64)
def _built(kind: VerifierKind, argument: str) -> Verifier:
    """Build a verifier once for all who name it: a server does so when a run is asked for, begins, and is answered."""
    return kind.build(argument)


def stored_verifier(spec: str) -> Verifier:
    """Return the verifier that a stored recipe names; a retired one can't tell, so it accepts and rejects nothing.

    Raises:
        ValueError: As `verifier`.
        OSError: As `verifier`.
        ImportError: As `verifier`.
    """
    if spec not in RETIRED:
        return verifier(spec)
    from .text_verifiers import named

    def check(task: str, draft: str, /) -> None:
        return None

    return named(check, spec.partition(":")[0])


def as_stated() -> Verifier:
    """Return a verifier of what the task itself says of its answer, as `stated_requirements` reads it.

    The score is the mean of those of its programs. It can't tell where the task says nothing that it can read.

    Example:
        >>> from redraft.nodes import as_stated
        >>> as_stated()("Name two rivers. Do not use any commas.", "Elbe, Oder").text
        'Do not use any commas.'
    """
    from ...state.critique import Critique
    from .text_verifiers import named

    def check(task: str, draft: str, /) -> Critique | None:
        found = [critique for program in _stated(task) if (critique := program(task, draft)) is not None]
        if not found:
            return None
        texts = [one.text for one in found if not one.accepted]
        scores = [float(one.accepted is True) if one.score is None else one.score for one in found]
        return Critique("\n".join(texts), not texts, sum(scores) / len(scores))

    wants = "It has the length, the words and the form that the task says."
    return named(check, "as_stated", wants=wants)


@lru_cache(maxsize=256)
def _stated(task: str) -> list[Verifier]:
    from .stated import stated_requirements

    return [stored_verifier(name) for one in stated_requirements(task) for name in one["verifiers"]]


@plugin_cache
def known_verifiers() -> Mapping[str, VerifierKind]:
    """Return the verifiers by name: redraft's own, then those of installed packages.

    Raises:
        ValueError: One of another package can't be used.
    """
    return registered("redraft.verifiers", VerifierKind, OWN)


def opened_file(spec: str) -> str:
    """Return the path that a verifier's spec names; empty where it opens no file."""
    name, _, argument = spec.partition(":")
    kind = known_verifiers().get(name)
    return argument if kind is not None and kind.opens and not holds_schema(argument) else ""


def holds_schema(argument: str) -> bool:
    """Return True if what stands behind `json_schema:` is a schema, and no file's name."""
    return argument.lstrip().startswith("{")


def _words(argument: str) -> Verifier:
    from .text_verifiers import uses_words

    return uses_words(*(word.strip() for word in argument.split(",")))


def _forbidden(argument: str) -> Verifier:
    from .text_verifiers import avoids_words

    return avoids_words(*(word.strip() for word in argument.split(",")))


def _pattern(argument: str) -> Verifier:
    from .text_verifiers import matches

    return matches(argument)


def _length(argument: str) -> Verifier:
    from .text_verifiers import has_length

    limits: dict[str, int | None] = {}
    for part in argument.split(","):
        length = LENGTH.fullmatch(part.strip())
        if length is None or not (length["low"] or length["high"]):
            raise ValueError(f"{part.strip()!r} is not a length, such as '20-40', '20-' or '-280 characters'")
        unit = (length["unit"] or "word").removesuffix("s") + "s"
        low, high = (int(length[end]) if length[end] else None for end in ("low", "high"))
        limits |= {f"min_{unit}": low, f"max_{unit}": high if length["dash"] else low}
    return has_length(**limits)


def _schema(argument: str) -> Verifier:
    from .json_schema import matches_json_schema

    text = argument if holds_schema(argument) else read_file(argument)
    try:
        return matches_json_schema(json.loads(text))
    except RecursionError:
        raise ValueError("the JSON schema is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{argument!r:.200} holds no JSON: {error}") from None


def _grade(argument: str) -> Verifier:
    from .text_verifiers import reading_level

    try:
        grade = float(argument)
    except ValueError:
        raise ValueError(f"{argument!r} is not a grade, such as 8") from None
    return reading_level(grade)


def _answer() -> Verifier:
    from .numeric_answers import ends_with_answer

    return ends_with_answer()


LENGTH = re.compile(
    r"(?P<low>\d{1,9})?(?:(?P<dash>-)(?P<high>\d{1,9})?)?(?:\s?(?P<unit>(?:word|character|sentence|line|paragraph)s?))?"
)
RETIRED = frozenset({"arithmetic_holds", "arithmetic_holds:optional"})
"""Verifiers of earlier versions, which threads may still name."""

OWN = (
    VerifierKind("uses_words", _words, "WORD,WORD", line="it has each word"),
    VerifierKind("avoids_words", _forbidden, "WORD,WORD", line="it has none of the words"),
    VerifierKind("matches", _pattern, "REGEX", line="the pattern is found in it"),
    VerifierKind("length", _length, "20-40", line="it has so many words"),
    VerifierKind("json_schema", _schema, "FILE", opens=True, line="it is JSON of the schema"),
    VerifierKind("reading_level", _grade, "GRADE", line="it reads at that school grade or below"),
    VerifierKind("as_stated", as_stated, line="it has the length, words and form that the task says"),
    VerifierKind("ends_with_answer", _answer, line="its last line is #### and a number"),
)


def type_in(text: str) -> str:
    """Return the form in which a recipe stores `--answer-type`: `module:Name` as it is, of a file the schema in it.

    Raises:
        ValueError: It is neither.
        OSError: The file can't be read.
    """
    if NAMED.fullmatch(text) or holds_schema(text):
        return stored_type(text)
    return stored_type(read_file(text).strip())


def stored_type(text: str) -> str:
    """Return the name or the schema of a type; raises ValueError for what is neither. No file is opened."""
    if NAMED.fullmatch(text):
        return text
    try:
        return json.dumps(_type_schema(text), ensure_ascii=False)
    except (ValueError, RecursionError):
        raise ValueError(f"{text!r:.80} is no type: give module:Name, or a file with a JSON Schema") from None


def named_type(text: str) -> Any:
    """Return the type of a name, which is imported, or the schema that a text is.

    Raises:
        ValueError: There is none of that name, or the text is no schema.
    """
    if not NAMED.fullmatch(text):
        return _type_schema(text)
    try:
        return resolve_name(text)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"the answer type {text!r} can't be imported: {error}") from None


def _type_schema(text: str) -> dict[str, Any]:
    schema = json.loads(text)
    if not isinstance(schema, dict):
        raise ValueError("a JSON Schema is an object here")  # noqa: TRY004  (as any other bad one)
    return schema


NAMED = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
