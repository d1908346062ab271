"""Call options: what a caller may set of a preset for one run, typed and bounded, made from the registry. Internal.

Only values that are closed go in: numbers, yes or no, a choice, models that the server allows, verifiers that open no
file. Paths, prompts, judges and whatever else a recipe may hold stay the server's.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal, get_origin

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, create_model

from ...graphs.preset import COMMON, Preset
from ...nodes.critics.registry import SELF, known_critics
from ...nodes.verify.answer_type import AnswerType
from ...nodes.verify.verifiers import holds_schema, known_verifiers, named_type, opened_file, verifier
from ..settings import Settings
from .assistants import Assistant
from .runs import BadRequestError

__all__ = ["MOST", "call_options", "checked_options", "problems_in", "told_options"]

MOST = 100
"""Of a number that its preset bounds by nothing."""
MOST_VERIFIERS, LONGEST_VERIFIER = 8, 500
FUNCTIONS = "functions"
"""The option of a preset whose base agent can be offered functions that it can't run."""
MOST_FUNCTIONS = 64
CALLED = "Tools that the caller runs, each as the JSON of an OpenAI function: the run ends where the agent calls one."
ANSWER_TYPE = "The JSON Schema of the answer, as a text: each draft is JSON that fits it, and what does not is revised."
LONGEST_SCHEMA = 20_000
SCHEMA = "json_schema"
"""Only with the schema in it: callers have no files here."""
OF_DOCUMENTS = ("top_k", "search")
"""Options that say something only where documents are searched."""
JUDGES = "Who judges: self is the model that writes; else another model, or a critic by its name."


def call_options(assistant: Assistant, settings: Settings) -> type[BaseModel]:
    """Return the model of the options that a caller may give an assistant; each may be left out.

    An assistant that searches the server's documents has none: its index would be built anew for each set of them.
    """
    fields: dict[str, Any] = {}
    preset = assistant.preset
    if assistant.served.build is None and not assistant.served.documents:
        both_judge = not preset.no_critics and not preset.no_verifiers
        for option in (*preset.options, *(COMMON if both_judge else ())):
            offered = option.flag and option.name not in OF_DOCUMENTS
            if offered and (option.kind in (int, float, bool) or get_origin(option.kind) is Literal):
                most = MOST if option.kind is int and option.most is None else option.most
                bounds: dict[str, Any] = {"ge": option.least, "le": most} if option.kind in (int, float) else {}
                bounds["validation_alias"] = AliasChoices(option.name, *option.aliases)
                fields[option.name] = (option.kind, Field(None, description=option.help, **bounds))
        if not preset.no_critics:
            choices = _critic_choices(preset, settings)
            most_critics = 1 if preset.one_critic else len(choices)
            # The choices are known when it runs only.
            kind: Any = list[Literal[choices]]  # type: ignore[valid-type]
            fields["critics"] = (kind, Field(None, description=JUDGES, max_length=most_critics))
        if FUNCTIONS in {option.name for option in preset.options}:
            fields[FUNCTIONS] = (list[str], Field(None, description=CALLED, max_length=MOST_FUNCTIONS))
        if not preset.no_verifiers:
            fields["verifiers"] = (list[str], Field(None, description=_verifier_help(), max_length=MOST_VERIFIERS))
            fields["answer_type"] = (str, Field(None, description=ANSWER_TYPE, max_length=LONGEST_SCHEMA))
    return create_model("Options", __config__=ConfigDict(extra="forbid", strict=True), **fields)


def checked_options(assistant: Assistant, settings: Settings, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a run as they are kept.

    Raises:
        BadRequestError: One is not a caller's to set, or makes no sense.
    """
    try:
        options = call_options(assistant, settings)(**values).model_dump(exclude_unset=True)
    except ValidationError as error:
        raise BadRequestError(problems_in(error)) from None
    if options.get("ask") == "unaccepted" and not {**assistant.options, **options}.get("human"):
        raise BadRequestError("ask says when a person is asked, and none is: give human, too")
    for spec in options.get("verifiers", ()):
        name, _, argument = spec.partition(":")
        longest = LONGEST_SCHEMA if name == SCHEMA and holds_schema(argument) else LONGEST_VERIFIER
        if opened_file(spec) or len(spec) > longest:
            raise BadRequestError(f"verifiers: {name:.40} is not for callers, or is too long. {_verifier_help()}")
        try:
            verifier(spec)
        except (ValueError, ImportError) as error:
            raise BadRequestError(f"verifiers: {error}"[:500]) from None
    if (schema := options.get("answer_type")) is not None:
        try:
            # Only the schema itself: the name of a type would be imported.
            AnswerType(named_type(schema if holds_schema(schema) else ""))
        except (ValueError, RecursionError, ImportError) as error:
            raise BadRequestError(f"answer_type: {error}"[:500]) from None
    functions = options.get(FUNCTIONS, ())
    if sum(map(len, functions)) > LONGEST_SCHEMA:
        raise BadRequestError(f"functions are too long: at most {LONGEST_SCHEMA} characters")
    try:
        names = [_Tool.model_validate_json(function).function.name for function in functions]
    except ValidationError as error:
        raise BadRequestError(f"functions: {problems_in(error)}") from None
    if len(set(names)) < len(names):
        raise BadRequestError("functions: two have one name")
    return options


def told_options(assistant: Assistant, settings: Settings, recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a recipe says that a caller could have set: what is the server's, such as its files, is not told."""
    told: dict[str, Any] = {}
    for name in call_options(assistant, settings).model_fields.keys() & recipe.keys():
        with suppress(BadRequestError):
            told |= checked_options(assistant, settings, {name: recipe[name]})
    return dict(sorted(told.items()))


def problems_in(error: ValidationError, *, most: int = 1) -> str:
    """Return the first places that are wrong, and why, without what was sent."""
    problems = error.errors(include_url=False, include_input=False)[:most]
    return "; ".join(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems)[: 500 * most]


def _critic_choices(preset: Preset, settings: Settings) -> tuple[str, ...]:
    """Return the critics that a caller may name: models that the server allows, and those that take no other text."""
    models = (SELF, *settings.models)
    named = [
        f"{name}:{model}" if kind.argument else name
        for name, kind in known_critics().items()
        if kind.argument in ("", "MODEL") and name not in known_verifiers()
        for model in (models if kind.argument else ("",))
    ]
    return tuple(dict.fromkeys((*models, *preset.critic_names, *named)))


class _Function(BaseModel, strict=True):
    """A function as OpenAI describes it."""

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    description: str = ""
    parameters: dict[str, Any] = {}


class _Tool(BaseModel):
    type: Literal["function"]
    function: _Function


def _verifier_help() -> str:
    return (
        f"Programs that check each draft, and decide alone: {', '.join(known_verifiers())}. Examples: "
        "uses_words:river,lamp; length:20-40 words; matches:REGEX; reading_level:8; "
        'json_schema:{"type": "object"}, with the schema itself.'
    )
