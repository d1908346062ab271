"""A verifier of structured drafts: JSON that fits a schema. Internal.

Schema and draft may both be made to harm: a pattern, or references that double the work at each step. A check counts
its steps and searches by RE2; one that would take long is made in a helper process, with a limit of time and memory.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache
from itertools import islice
from types import UnionType
from typing import TYPE_CHECKING, Any, NoReturn, NotRequired, Required, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter
from pydantic import ValidationError as ValidationErrors
from pydantic.errors import PydanticUserError
from typing_extensions import TypedDict, is_typeddict

from ...state.critique import Critique, Verifier
from ..runtime.killable import run_job
from .patterns import check_pattern, quick_search
from .text_verifiers import named

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError


__all__ = [
    "adapter_of",
    "faults_of",
    "matches_json_schema",
    "readable_type",
]


def matches_json_schema(schema: Any) -> Verifier:
    """Return a verifier that accepts a draft that is JSON, alone, and fits a JSON Schema, or a type.

    A type is a pydantic model, a dataclass, a TypedDict, or a list or union of them; its own validators judge then, in
    this process. A writer that asks a model has the schema in its request, where the provider takes one.

    The critique names the path and the fault of the first few errors. The score is below 0.3 while the draft can't be
    parsed (the share of it that could), then grows as errors get fewer. Nothing is fetched: a `$ref` must lead to a
    place in the schema itself. The dialect is that of `$schema`, else 2020-12. A check that takes more than 5 seconds
    of CPU, or 1 GB of memory, is ended and accepts nothing.

    Raises:
        ImportError: The extra `writing` is not installed. At build.
        ValueError: The schema is not a valid schema, or one of its references leads nowhere. At build.
    """
    if not isinstance(schema, Mapping | bool):
        return _of_type(adapter_of(schema))
    dialect = _dialect_of(schema)
    schema_text = json.dumps(schema, default=repr, ensure_ascii=False)
    if len(schema_text) <= LONGEST_SCHEMA:
        _check_schema(dialect, schema)
    else:
        try:
            run_job(f"{__name__}:checked_in", schema_text, cpu_s=MOST_SECONDS)
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
            return Critique(*run_job(f"{__name__}:judged_in", schema_text, draft, cpu_s=MOST_SECONDS))
        except ENDED as error:
            return Critique(f"It could not be checked: {error}.", accepted=False, score=0.0)

    return _named(check, schema, schema_text)


def _named(check: Verifier, schema: Mapping[str, Any] | bool, shown: str) -> Verifier:
    check.schema = schema  # type: ignore[attr-defined]  # for writers, see `schema_of_checks`
    return named(check, "matches_json_schema", wants=f"{WANTS}{shown}")


def _of_type(adapter: TypeAdapter[Any]) -> Verifier:
    """Return the verifier of a type of the user's own."""

    def errors_of(value: Any) -> Iterator[str]:
        try:
            adapter.validate_json(json.dumps(value))
        except Exception as error:  # a validator of the user's may raise anything, for a draft that is odd
            yield from faults_of(error, value)

    def check(task: str, draft: str, /) -> Critique:
        return Critique(*_judged(errors_of, draft))

    schema = adapter.json_schema()
    return _named(check, schema, json.dumps(schema, ensure_ascii=False))


def adapter_of(kind: Any) -> TypeAdapter[Any]:
    """Return the reader of a type.

    Raises:
        ValueError: JSON can't hold it.
    """
    if isinstance(kind, str):  # pydantic takes a text for the name of a type
        what = "a JSON Schema is a mapping, as json.loads gives it, or a type"
        raise ValueError(f"{what}, not the text {kind!r:.80}")  # noqa: TRY004  (a file may hold one)
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(readable_type(kind))
        adapter.json_schema()
    except PydanticUserError as error:
        raise ValueError(f"{kind!r:.200} is no type that JSON can hold: {error.message}") from None
    return adapter


def faults_of(error: Exception, value: Any) -> list[str]:
    """Return pydantic's objections to a value, as `$.path: message`, without the names of types in its paths.

    Of a union they are those of the member that fits best: one in which no literal is another, and least is wrong.
    """
    if not isinstance(error, ValidationErrors):
        return [
            str(error) if isinstance(error, ValueError) else f"$: a validator raised {type(error).__name__}: {error}"
        ]
    faults: list[tuple[str, list[tuple[Any, ...]]]] = []
    wrong: Counter[tuple[Any, ...]] = Counter()
    for fault in error.errors(include_url=False, include_input=False):
        path, inside = "$", value
        members = []
        for place, part in enumerate(fault["loc"], start=1):
            lacks = fault["type"] == "missing" and place == len(fault["loc"])
            if isinstance(inside, list) and isinstance(part, int) and (lacks or part < len(inside)):
                path, inside = f"{path}[{part}]", inside[part] if part < len(inside) else None
            elif isinstance(inside, dict) and (part in inside or lacks):
                path, inside = f"{path}.{part}", inside.get(part)
            else:
                members.append(fault["loc"][:place])
        wrong.update(dict.fromkeys(members, OTHER_MEMBER if fault["type"] == "literal_error" else 1))
        faults.append((f"{path}: {fault['msg'].removeprefix('Value error, ')}", members))
    least = {one[:-1]: min(n for other, n in wrong.items() if other[:-1] == one[:-1]) for one in wrong}
    return [text for text, members in faults if all(wrong[one] == least[one[:-1]] for one in members)]


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
    """Return the faults of a draft, whether it is accepted, and its score.

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
        raise ImportError(f'a JSON schema needs an extra: pip install ".[writing]" in a checkout ({error})') from None
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
        for reference in [contents[key] for key in ("$ref", "$dynamicRef") if isinstance(contents.get(key), str)]:
            try:
                resolver.lookup(reference)
            except Unresolvable:
                raise ValueError(f"the JSON schema refers to {reference!r}, which it does not hold") from None
        waiting += [(inside, resolver.in_subresource(inside)) for inside in resource.subresources()]


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


WANTS = "It is JSON alone, without a fence, and fits this JSON Schema: "
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
OTHER_MEMBER = 1000
"""Faults that a literal of another member of a union counts as."""
LONGEST_MESSAGE = 300
FENCE = re.compile(r"```[a-zA-Z]*[ \t]*\n(?P<inside>.*)```", re.DOTALL)


def readable_type(kind: Any) -> Any:
    """Return a type with `typing_extensions.TypedDict` in place of `typing.TypedDict`, also inside lists and unions."""
    if sys.version_info >= (3, 12):
        return kind
    if is_typeddict(kind) and type(kind).__module__ == "typing":
        fields = get_type_hints(kind, include_extras=True).items()
        typed: Any = TypedDict
        return typed(kind.__name__, {name: _field(name, field, kind) for name, field in fields})
    origin, inside = get_origin(kind), tuple(map(readable_type, get_args(kind)))
    if origin in (Union, UnionType):
        return Union[inside]  # noqa: UP007  # made of a tuple
    return origin[inside] if isinstance(origin, type) and inside else kind  # type: ignore[index]


def _field(name: str, field: Any, kind: Any) -> Any:
    marked = get_origin(field) in (Required, NotRequired)
    needed = get_origin(field) is Required if marked else name in kind.__required_keys__
    inside = readable_type(get_args(field)[0] if marked else field)
    return Required[inside] if needed else NotRequired[inside]
