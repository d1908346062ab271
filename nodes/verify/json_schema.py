"""A verifier of structured drafts: JSON that fits a schema. Internal.

Schema and draft may both be made to harm: a pattern, or references that double the work at each step. A check counts
its steps and searches by RE2; one that would take long is made in a helper process, with a limit of time and memory.
"""

from __future__ import annotations

import json
import re
from contextvars import ContextVar
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn

from ...state.critique import Critique, Verifier
from ..runtime.killable import run_job
from .patterns import check_pattern, quick_search
from .text_verifiers import named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from jsonschema.exceptions import ValidationError


__all__ = ["matches_json_schema"]


def matches_json_schema(schema: Mapping[str, Any] | bool) -> Verifier:
    """Return a verifier that accepts a draft that is JSON, alone, and fits a JSON Schema.

    The critique names the path and the fault of the first few errors. The score is below 0.3 while the draft can't be
    parsed (the share of it that could), then grows as errors get fewer. Nothing is fetched: a `$ref` must lead to a
    place in the schema itself. The dialect is that of `$schema`, else 2020-12. A check that takes more than 5 seconds
    of CPU, or 1 GB of memory, is ended and accepts nothing.

    Raises:
        ImportError: The extra `writing` is not installed. At build.
        ValueError: The schema is not a valid schema, or one of its references leads nowhere. At build.
    """
    dialect = _dialect_of(schema)
    shown = json.dumps(schema, default=repr, ensure_ascii=False)
    if len(shown) <= LONGEST_SCHEMA:
        _check_schema(dialect, schema)
    else:
        try:
            run_job(f"{__name__}:checked_in", shown, cpu_s=MOST_SECONDS)
        except ENDED as error:
            raise ValueError(f"the JSON schema can't be read: {error}") from None
    errors_of = _schema_checker(_bounded(dialect), schema)
    is_costly = False

    def check(task: str, draft: str, /) -> Critique:
        nonlocal is_costly
        if not is_costly and len(draft) <= LONGEST_HERE:
            # Messages quote values: each step may copy the draft.
            LEFT.set([min(MOST_STEPS, MOST_COPIED // (len(draft) + 1))])
            try:
                return Critique(*_judged(errors_of, draft))
            except TimeoutError:
                is_costly = True
        try:
            return Critique(*run_job(f"{__name__}:judged_in", shown, draft, cpu_s=MOST_SECONDS))
        except ENDED as error:
            return Critique(f"It could not be checked: {error}.", accepted=False, score=0.0)

    wants = f"It is JSON alone, without a fence, and fits this JSON Schema: {shown}"
    return named(check, "matches_json_schema", wants=wants)


def judged_in(schema: str, draft: str) -> tuple[str, bool, float]:
    """Judge a draft in a helper process, which keeps the schemas that it has read."""
    return _judged(_kept_checker(schema), draft)


def checked_in(schema: str) -> None:
    """Check a schema in a helper process."""
    data = json.loads(schema)
    _check_schema(_dialect_of(data), data)


@lru_cache(maxsize=16)
def _kept_checker(schema: str) -> Callable[[Any], Iterator[str]]:
    data = json.loads(schema)
    return _schema_checker(_dialect_of(data), data)


def _judged(errors_of: Callable[[Any], Iterator[str]], draft: str) -> tuple[str, bool, float]:
    """Return what is wrong with a draft, whether it is accepted, and its score.

    Raises:
        TimeoutError: It would take long, and is not for this process.
    """
    fenced = FENCE.fullmatch(draft.strip())
    try:
        value = json.loads(fenced["inside"] if fenced else draft, parse_constant=_refuse)
        faults = list(islice(errors_of(value), MOST_COUNTED))
    except RecursionError:
        return "The JSON is nested too deeply.", False, 0.0
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        text = f"The draft must be JSON and nothing else; at {where}: {error.msg}."
        return text, False, PARSED * error.pos / max(len(error.doc), 1) * 0.99
    except (ValueError, OverflowError) as error:
        return f"The draft must be JSON and nothing else: {error}.", False, 0.0
    if fenced:
        faults.insert(0, "Give the JSON alone, without the ``` fence around it.")
    more = [f"And {len(faults) - MOST_SHOWN} more errors."] if len(faults) > MOST_SHOWN else []
    return "\n".join(faults[:MOST_SHOWN] + more), not faults, PARSED + (1 - PARSED) / (1 + len(faults))


def _dialect_of(schema: Mapping[str, Any] | bool) -> Any:
    """Return the class of validators for a schema.

    Raises:
        ImportError: The extra `writing` is not installed.
    """
    try:
        from jsonschema.exceptions import SchemaError  # noqa: F401  # that it is all there
        from jsonschema.validators import Draft202012Validator, validator_for
    except ImportError as error:
        raise ImportError(f'a JSON schema needs an extra: pip install "redraft[writing]" ({error})') from None
    return validator_for(schema, default=Draft202012Validator)


def _check_schema(dialect: Any, schema: Mapping[str, Any] | bool) -> None:
    """Raise ValueError for what is no schema, or has a reference that leads nowhere."""
    from jsonschema import FormatChecker
    from jsonschema.exceptions import SchemaError

    try:
        dialect.check_schema(schema, format_checker=FormatChecker([]))
        _check_references(schema)
    except SchemaError as error:
        raise ValueError(f"this is not a JSON schema: {error.json_path}: {error.message[:LONGEST_MESSAGE]}") from None
    except RecursionError:
        raise ValueError("the JSON schema is nested too deeply") from None


def _schema_checker(dialect: Any, schema: Mapping[str, Any] | bool) -> Callable[[Any], Iterator[str]]:
    """Return a function that yields what is wrong with a value, as `$.path: message`."""
    from jsonschema.exceptions import best_match
    from referencing.jsonschema import EMPTY_REGISTRY

    validator = dialect(schema, registry=EMPTY_REGISTRY, format_checker=dialect.FORMAT_CHECKER)

    def complaint(error: ValidationError) -> str:
        nearest = best_match(iter([error])) or error
        cut = " …" if len(nearest.message) > LONGEST_MESSAGE else ""
        return f"{nearest.json_path}: {nearest.message[:LONGEST_MESSAGE]}{cut}"

    def errors_of(value: Any) -> Iterator[str]:
        return map(complaint, validator.iter_errors(value))

    return errors_of


@lru_cache(maxsize=16)
def _bounded(dialect: Any) -> Any:
    """Return a dialect that searches by RE2 and counts its steps, and raises TimeoutError where there are too many."""
    from jsonschema.exceptions import ValidationError
    from jsonschema.validators import extend

    @lru_cache(maxsize=256)
    def kept(pattern: str) -> tuple[Callable[[str], bool | None], int]:
        search, size = quick_search(pattern, multiline=False)
        _spend(size * size // 1000)  # what RE2 took to compile it
        return search, size

    def matched(pattern: str, text: str) -> bool:
        search, size = kept(pattern)
        _spend(size * (len(text) + 12) // 100)
        if (result := search(text)) is None:
            raise TimeoutError
        return result

    def pattern(_: Any, wanted: str, value: Any, __: Any) -> Iterator[ValidationError]:
        if isinstance(value, str) and not matched(wanted, value):
            yield ValidationError(f"{value!r} does not match {wanted!r}")

    def pattern_properties(validator: Any, wanted: Any, value: Any, _: Any) -> Iterator[ValidationError]:
        for form, inside in wanted.items() if isinstance(value, dict) else ():
            for name, part in value.items():
                if matched(form, name):
                    yield from validator.descend(part, inside, path=name, schema_path=form)

    def additional_properties(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
        if isinstance(value, dict) and (forms := schema.get("patternProperties")):
            value = {name: part for name, part in value.items() if not any(matched(form, name) for form in forms)}
            schema = {key: inside for key, inside in schema.items() if key != "patternProperties"}
        yield from dialect.VALIDATORS["additionalProperties"](validator, wanted, value, schema)

    own = {"pattern": pattern, "patternProperties": pattern_properties, "additionalProperties": additional_properties}
    checks = {**dialect.VALIDATORS, **own}
    # A type of draft 3 may hold schemas.
    leaves = LEAVES - {"type"} if "disallow" in checks else LEAVES
    return extend(dialect, {name: _counted(name, checks[name]) for name in checks.keys() - leaves})


def _counted(name: str, check: Callable[..., Any]) -> Callable[..., Any]:
    """Return the check of a keyword, which spends the steps that it takes."""
    cost = COSTS.get(name)

    def within(validator: Any, wanted: Any, value: Any, schema: Any) -> Any:
        steps = 1 if cost is None else 1 + cost(wanted, value)
        for one in (wanted, value):
            if type(one) in SIZED:
                steps += len(one)
        _spend(steps)
        return check(validator, wanted, value, schema)

    return within


def _spend(steps: int) -> None:
    left = LEFT.get()
    left[0] -= steps
    if left[0] < 0:
        raise TimeoutError


def _check_references(schema: Mapping[str, Any] | bool) -> None:
    """Look up every reference, so that one that leads nowhere shows when the graph is built."""
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012, EMPTY_REGISTRY, UnknownDialect, specification_with

    try:
        specification = specification_with(schema["$schema"]) if not isinstance(schema, bool) else DRAFT202012
    except (KeyError, UnknownDialect):
        specification = DRAFT202012
    root = specification.create_resource(schema)
    waiting = [(root, EMPTY_REGISTRY.with_resource(root.id() or "", root).resolver_with_root(root))]
    while waiting:
        resource, resolver = waiting.pop()
        contents = resource.contents if isinstance(resource.contents, dict) else {}
        for pattern in [contents.get("pattern"), *contents.get("patternProperties", {})]:
            if pattern is not None:
                check_pattern(pattern)
        references = [contents[key] for key in ("$ref", "$dynamicRef") if isinstance(contents.get(key), str)]
        for reference in references:
            try:
                resolver.lookup(reference)
            except Unresolvable:
                raise ValueError(f"the JSON schema refers to {reference!r}, which it does not hold") from None
        waiting += [(inside, resolver.in_subresource(inside)) for inside in resource.subresources()]


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


LEFT: ContextVar[list[int]] = ContextVar("redraft_steps_left")
"""Of the check that is made here."""
MOST_STEPS = 50_000
"""Of a check in this process: some 50 ms. One is a keyword on a value, or a part of either."""
MOST_COPIED = 50_000_000
"""Steps times the characters of a draft."""
LONGEST_HERE = 20_000
"""Characters of a draft that is read in this process."""
LONGEST_SCHEMA = 4000
"""Characters of a schema that is checked in this process."""
MOST_SECONDS = 5
ENDED = (TimeoutError, MemoryError, ChildProcessError)
SIZED = frozenset([list, dict])
NEVER = MOST_STEPS + 1
LEAVES = frozenset(
    ["type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]
    + [f"{end}{what}" for end in ("min", "max") for what in ("Length", "Items", "Properties")]
)
"""Keywords that take next to no time, of which a schema has each once: the step to the schema stands for them."""
COSTS: Mapping[str, Callable[[Any, Any], int]] = {
    # Compares each with each.
    "uniqueItems": lambda _, value: len(value) ** 2 if isinstance(value, list) else 0,
    "format": lambda wanted, value: NEVER if wanted == "regex" or (isinstance(value, str) and len(value) > 1000) else 0,
    # An anchor is looked for in the whole schema, each time.
    "$ref": lambda wanted, _: 10 if wanted == "#" or str(wanted).startswith("#/") else NEVER,
    # These search by Python's `re`, look for anchors, or check again what was checked.
    **dict.fromkeys(["$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties"], lambda *_: NEVER),
}
"""Steps of a keyword, by its own value and that which is checked, beside their sizes."""
PARSED = 0.3
MOST_SHOWN = 5
MOST_COUNTED = 100
LONGEST_MESSAGE = 300
FENCE = re.compile(r"```[a-zA-Z]*[ \t]*\n(?P<inside>.*)```", re.DOTALL)
