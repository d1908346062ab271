"""Prompts as LangChain and the LangSmith Hub export them: JSON, read as data. Internal.

LangChain's own loader builds whatever class a file names. This one builds messages of texts, and refuses the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.prompts import ChatPromptTemplate

__all__ = ["EXPORTED", "exported_prompt"]

EXPORTED = re.compile(r'\s*\{\s*"')
"""The beginning of a text that may be an export."""
TAG = re.compile(r"\{\{\{([^{}]*)\}\}\}|\{\{([^{}]*)\}\}")
ROLES = {"System": "system", "Human": "human", "AI": "ai"}
"""By the beginning of a message's class."""


def exported_prompt(text: str, *, what: str) -> ChatPromptTemplate | None:
    """Return the prompt that a text is the export of; `None` for a text that is a prompt itself.

    Exported is what `langchain_core.load.dumps(prompt)` writes, and a commit of the Hub with its `manifest`.
    Templates are f-strings, or mustache with nothing but variables.

    Args:
        text: What was given as a prompt.
        what: Names it in messages.

    Raises:
        ValueError: It is an export of something else than texts with variables; the message says of what.
    """
    try:
        export = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(export, dict) or not {"lc", "manifest"} & export.keys():
        return None
    try:
        messages = list(_messages(export.get("manifest", export)))
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{what} is no prompt as LangChain exports it: {type(error).__name__}: {error}") from None
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None
    if not messages:
        raise ValueError(f"{what}: the exported prompt has no messages")
    return ChatPromptTemplate.from_messages(messages)


def _messages(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield roles with templates, whatever they were, as f-strings."""
    name, fields = _constructed(found)
    # An optional placeholder's messages are none.
    if filled := sorted(key for key, value in (fields.get("partial_variables") or {}).items() if value != []):
        raise ValueError(f"its variables {', '.join(filled)} are filled in already: write them into the template")
    if name == "PromptTemplate":
        yield "human", _template(fields)
    elif name == "ChatPromptTemplate":
        for message in fields["messages"]:
            yield from _message(message)
    else:
        raise ValueError(
            f"it is a {name}, and neither a ChatPromptTemplate nor a PromptTemplate; export the prompt alone"
        )


def _message(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    name, fields = _constructed(found)
    role = ROLES.get(name.removesuffix("MessagePromptTemplate").removesuffix("Message"))
    if role and name.endswith("Template"):
        inner, template = _constructed(fields["prompt"])
        if inner != "PromptTemplate":
            raise ValueError(f"its {role} message is a {inner}; a prompt is texts")
        yield role, _template(template)
    elif role and isinstance(fields["content"], str):
        yield role, _literal(fields["content"])
    elif not (name == "MessagesPlaceholder" and fields.get("optional")):
        raise ValueError(f"a {name} can't be in a prompt here: nothing would fill it, or it is no text")


def _constructed(found: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the class of an export by its name, and what it was made of. Nothing is imported."""
    package, *_, name = found["id"]
    if found["type"] != "constructor" or package not in ("langchain", "langchain_core"):
        raise ValueError(f"it holds a {found['type']} of {package}, and no prompt of LangChain's")
    return str(name), dict(found["kwargs"])


def _template(kept: Mapping[str, Any]) -> str:
    text, form = kept["template"], kept.get("template_format", "f-string")
    if not isinstance(text, str):
        raise TypeError(f"its template is a {type(text).__name__}")
    if form == "f-string":
        return text
    if form != "mustache":
        raise ValueError(
            f"its template is {form}, which may do more than show a text; write it as f-string or mustache"
        )
    # As an f-string: its tags are variables, and all other braces are meant.
    parts, end = [], 0
    for tag in TAG.finditer(text):
        name = (tag[1] or tag[2] or "").removeprefix("&").strip()
        if not name.isidentifier():
            raise ValueError(f"its mustache tag {tag[0]!r:.80} is no variable")
        parts += [_literal(text[end : tag.start()]), f"{{{name}}}"]
        end = tag.end()
    return "".join([*parts, _literal(text[end:])])


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
