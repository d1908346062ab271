"""Type of an answer: the drafts of a run are JSON in the record, and objects to who takes them. Internal."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import WRAPPER_ASSIGNMENTS, update_wrapper
from typing import Any

from langchain_core.messages import BaseMessage
from pydantic import BaseModel
from pydantic_core import to_json

from ...state.dual import DualCallable
from ...state.typed_answer import ANSWER_SCHEMA
from ..runtime.killable import beside
from .json_schema import adapter_of, faults_of, matches_json_schema
from .text_verifiers import wanted

__all__ = ["AnswerType", "answer_type_of", "known_type", "schema_option", "takes_draft", "takes_object"]


class AnswerType:
    """A type that answers must have; its verifier tells by the field what is wrong with a draft.

    Args:
        given: A pydantic model, a dataclass, a TypedDict, a list or union of them, or a JSON Schema.

    Raises:
        ValueError: It is no JSON Schema, or no type that JSON can hold.
        TypeError: It is neither.
        ImportError: A JSON Schema needs the extra `writing`.
    """

    def __init__(self, given: Any) -> None:
        if isinstance(given, str | int | float | None) or inspect.isroutine(given):
            raise TypeError(f"answer_type is {KINDS}, not {given!r:.200}")
        self.given = given
        self._adapter = None if isinstance(given, Mapping) else adapter_of(given)
        self.schema: dict[str, Any] = dict(given) if self._adapter is None else self._adapter.json_schema()
        self.verifier = matches_json_schema(given)
        self.wants = wanted(self.verifier)

    def object(self, text: str) -> Any:
        """Return the object in a draft.

        Raises:
            ValueError: It does not fit; the message names the fields.
        """
        critique = self.verifier("", text)
        if critique is None or not critique.accepted:
            raise ValueError("" if critique is None else critique.text)
        return self.parsed(text)

    def parsed(self, text: str) -> Any:
        """Return the object in a draft that is known to fit; raises ValueError for what a type can't read."""
        return json.loads(text) if self._adapter is None else self._adapter.validate_json(text)

    def text(self, answer: Any) -> str:
        """Return the JSON of an object, or of a text that holds one.

        Raises:
            ValueError: It does not fit; the message names the fields.
        """
        try:
            return self._written(self.object(answer if isinstance(answer, str) else self._written(answer)))
        except ValueError:
            if isinstance(answer, str) and self.fits(text := json.dumps(answer, ensure_ascii=False)):
                return text  # of a type that is a text itself
            raise

    def fits(self, text: str) -> bool:
        """Return True if a draft is of the type."""
        critique = self.verifier("", text)
        return critique is not None and critique.accepted is True

    def canonical(self, text: str) -> str:
        """Return a draft as it is recorded: of JSON that does not fit only the layout is changed, of others nothing."""
        try:
            data = json.loads(text)
            # A schema changes nothing, and a check by one may take long.
            fits = self._adapter is not None and self.fits(text)
            return self.text(text) if fits else json.dumps(data, ensure_ascii=False, indent=2)
        except (ValueError, RecursionError):
            return text

    def read(self, result: Any) -> Any:
        """Return a writer's result, with JSON in the place of an object of the type, which may be its `draft`."""
        if isinstance(result, str | BaseMessage):
            return result
        try:
            return self.text(result)
        except (TypeError, ValueError):
            pass
        if isinstance(result, Mapping) and not isinstance(result.get("draft", ""), str):
            return {**result, "draft": self.read(result["draft"])}
        if isinstance(result, BaseModel) or is_dataclass(result):
            return to_json(result, indent=2, fallback=str).decode()  # one that does not fit is a draft all the same
        return result

    def taken(self, target: Any, *, without: Any = None) -> Any:
        """Return a judge that is given the object, where it annotates its draft as another type than `str`.

        Args:
            target: `(task, draft)`, or `(task, draft, history)`.
            without: What it says of a draft that does not fit, which it is not asked about.
        """
        if not takes_object(target):
            return target

        def judge(task: str, draft: str, /, *more: Any, **named: Any) -> Any:
            try:
                answer = self.object(draft)
            except ValueError:
                return without
            return target(task, answer, *more, **named)

        judge.__name__ = type(target).__name__  # of one that has no name itself
        return update_wrapper(judge, target, (*WRAPPER_ASSIGNMENTS, "name", "oracle", "calibrated", "wants"))

    def _written(self, answer: Any) -> str:
        if self._adapter is None:
            return json.dumps(answer, ensure_ascii=False, indent=2, allow_nan=False)
        try:
            valid = self._adapter.validate_python(answer)
        except Exception as error:
            raise ValueError("\n".join(faults_of(error, answer))) from None
        return self._adapter.dump_json(valid, indent=2, by_alias=True, round_trip=True).decode()


def answer_type_of(given: Any) -> AnswerType | None:
    """Return the type of the answers, where one is given."""
    return given if given is None or isinstance(given, AnswerType) else AnswerType(given)


def known_type(answer: AnswerType | None) -> Callable[[Any, Any], Any]:
    """Return the function that makes the call for a draft's JSON by the schema in a record, beside the event loop.

    Both may be a caller's. A graph with a type goes by its own, which has validators too.
    """
    return lambda schema, draft: beside(lambda: (answer or AnswerType(schema)).text(draft))


def schema_option(answer: AnswerType | None) -> dict[str, Any]:
    """Return the schema of the drafts as an option of the graph; empty where they are texts."""
    return {} if answer is None else {ANSWER_SCHEMA: answer.schema}


def takes_object(target: Any) -> bool:
    """Return True if a judge or writer annotates its draft, and not as a text, which may be missing."""
    draft = takes_draft(target)
    if draft is None or draft.annotation is draft.empty:
        return False
    return not set(re.findall(r"\w+", inspect.formatannotation(draft.annotation))) <= TEXTS


def takes_draft(target: Any) -> inspect.Parameter | None:
    """Return the second parameter, the draft; `None` where there is none that takes an argument by its place."""
    try:
        parameters = inspect.signature(target.logic if isinstance(target, DualCallable) else target).parameters
    except (TypeError, ValueError):
        return None
    second = [*parameters.values()][1:2]
    return second[0] if second and second[0].kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD else None


# Words in the annotation of a draft that is taken as a text.
TEXTS = {"str", "None", "Any", "Optional", "Union", "typing"}
KINDS = "a pydantic model, a dataclass, a TypedDict, a list or union of them, or a JSON Schema"
