"""A verifier of structured drafts: JSON that fits a schema. Internal."""

from __future__ import annotations

import json
import re
from contextvars import ContextVar
from functools import lru_cache, partial
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn

from ...state.critique import Critique, Verifier
from .patterns import bounded_search
from .text_verifiers import named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from jsonschema.exceptions import ValidationError


__all__ = ["matches_json_schema"]


def matches_json_schema(schema: Mapping[str, Any] | bool) -> Verifier:
    """Return a verifier that accepts a draft that is JSON, alone, and fits a JSON Schema.

    The critique names the path and the fault of the first few errors. The score is below 0.3 while the draft can't be
    parsed (the share of it that could), then grows as errors get fewer. Nothing is fetched: a `$ref` must lead to a
    place in the schema itself. The dialect is that of `$schema`, else 2020-12.

    Raises:
        ImportError: The extra `writing` is not installed. At build.
        ValueError: The schema is not a valid schema, or one of its references leads nowhere. At build.
    """
    errors_of = _schema_checker(schema)

    def check(task: str, draft: str, /) -> Critique:
        fenced = FENCE.fullmatch(draft.strip())
        try:
            value = json.loads(fenced["inside"] if fenced else draft, parse_constant=_refuse)
            faults = list(islice(errors_of(value), MOST_COUNTED))
        except RecursionError:
            return Critique("The JSON is nested too deeply.", accepted=False, score=0.0)
        except TimeoutError:
            return Critique(f"It could not be checked within {MOST_SECONDS} s.", accepted=False, score=0.0)
        except json.JSONDecodeError as error:
            where = f"line {error.lineno}, column {error.colno}"
            text = f"The draft must be JSON and nothing else; at {where}: {error.msg}."
            return Critique(text, accepted=False, score=PARSED * error.pos / max(len(error.doc), 1) * 0.99)
        except ValueError as error:
            return Critique(f"The draft must be JSON and nothing else: {error}.", accepted=False, score=0.0)
        if fenced:
            faults.insert(0, "Give the JSON alone, without the ``` fence around it.")
        more = [f"And {len(faults) - MOST_SHOWN} more errors."] if len(faults) > MOST_SHOWN else []
        score = PARSED + (1 - PARSED) / (1 + len(faults))
        return Critique("\n".join(faults[:MOST_SHOWN] + more), not faults, score)

    shown = json.dumps(schema, default=repr, ensure_ascii=False)
    wants = f"It is JSON alone, without a fence, and fits this JSON Schema: {shown}"
    return named(check, "matches_json_schema", wants=wants)


def _schema_checker(schema: Mapping[str, Any] | bool) -> Callable[[Any], Iterator[str]]:
    """Return a function that yields what is wrong with a value, as `$.path: message`."""
    try:
        from jsonschema.exceptions import SchemaError, ValidationError, best_match
        from jsonschema.validators import Draft202012Validator, extend, validator_for
        from referencing.jsonschema import EMPTY_REGISTRY
    except ImportError as error:
        raise ImportError(f'a JSON schema needs an extra: pip install "redraft[writing]" ({error})') from None
    dialect = validator_for(schema, default=Draft202012Validator)
    try:
        dialect.check_schema(schema)
        _check_references(schema)
    except SchemaError as error:
        raise ValueError(f"this is not a JSON schema: {error.json_path}: {error.message}") from None
    search = lru_cache(partial(bounded_search, multiline=False))

    def pattern(_: Any, wanted: str, value: Any, __: Any) -> Iterator[ValidationError]:
        try:
            if isinstance(value, str) and not search(wanted)(value):
                yield ValidationError(f"{value!r} does not match {wanted!r}")
        except TimeoutError as error:
            yield ValidationError(str(error))

    until: ContextVar[float] = ContextVar("until")

    def timed(check: Callable[..., Any]) -> Callable[..., Any]:
        def within(*asked: Any) -> Any:
            if monotonic() > until.get():
                raise TimeoutError
            return check(*asked)

        return within

    # References that lead to one another can double the work at each step.
    checks = {**dialect.VALIDATORS, "pattern": pattern}
    dialect = extend(dialect, {name: timed(check) for name, check in checks.items()})
    validator = dialect(schema, registry=EMPTY_REGISTRY, format_checker=dialect.FORMAT_CHECKER)

    def complaint(error: ValidationError) -> str:
        nearest = best_match(iter([error])) or error
        cut = " …" if len(nearest.message) > LONGEST_MESSAGE else ""
        return f"{nearest.json_path}: {nearest.message[:LONGEST_MESSAGE]}{cut}"

    def errors_of(value: Any) -> Iterator[str]:
        until.set(monotonic() + MOST_SECONDS)
        return map(complaint, validator.iter_errors(value))

    return errors_of


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
        references = [contents[key] for key in ("$ref", "$dynamicRef") if isinstance(contents.get(key), str)]
        for reference in references:
            try:
                resolver.lookup(reference)
            except Unresolvable:
                raise ValueError(f"the JSON schema refers to {reference!r}, which it does not hold") from None
        waiting += [(inside, resolver.in_subresource(inside)) for inside in resource.subresources()]


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


PARSED = 0.3
MOST_SECONDS = 5
MOST_SHOWN = 5
MOST_COUNTED = 100
LONGEST_MESSAGE = 300
FENCE = re.compile(r"```[a-zA-Z]*[ \t]*\n(?P<inside>.*)```", re.DOTALL)
