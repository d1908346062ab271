"""Prompt files: prompts by name, for builders and commands. Internal."""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import Any

from ..._files import read_file
from .prompts import chat_prompt

__all__ = ["builder_prompts", "check_prompt", "read_prompts", "read_tuned"]

ARGUMENTS = {
    "generate": "generate_prompt",
    "refine": "refine_prompt",
    "critic": "critic_prompt",
    "refine_after_programs": "evidence_prompt",
    "refine_after_tests": "evidence_prompt",
    "clause": "clause_prompt",
}
"""By the name of a prompt, the argument of the builders that take it; `program_1` and on are `program_prompts`."""


def builder_prompts(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the prompts of a file as arguments of a builder: `build_math_graph(model, **builder_prompts(path))`.

    Args:
        path: A JSON object whose `prompts` are texts by name: `generate`, `refine`,
            `critic`, `refine_after_programs`, `refine_after_tests`, `clause`, `program_1` and on. In place of a text
            may stand what LangChain (`dumpd`) or the LangSmith Hub (`manifest`) exported of a prompt.

    Raises:
        ValueError: The file can't be read, holds no prompts, or other ones than those that it says were measured.
    """
    arguments: dict[str, Any] = {}
    programs: dict[int, str] = {}
    for name, text in read_prompts(path).items():
        if number := re.fullmatch(r"program_([1-9][0-9]?)", name):
            programs[int(number[1])] = text
        elif name in ARGUMENTS:
            arguments[ARGUMENTS[name]] = text
        else:
            raise ValueError(f"{_shown(path)} names a prompt {name!r}; known are {', '.join(ARGUMENTS)} and program_N")
    if programs:
        arguments["program_prompts"] = tuple(programs[number] for number in sorted(programs))
    return arguments


def read_prompts(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the prompts of a file by name.

    Raises:
        ValueError: As `builder_prompts`.
    """
    prompts: dict[str, str] = read_tuned(path)["prompts"]
    return prompts


def read_tuned(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return all that a file of prompts says, with what it was measured on.

    Raises:
        ValueError: As `builder_prompts`.
    """
    where = _shown(path)
    try:
        content: Any = json.loads(read_file(path))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{where} can't be read: {error}") from None
    prompts = content.get("prompts") if isinstance(content, dict) else None
    if _is_export(content):
        raise ValueError(f'{where} is one exported prompt: name it, as in {{"prompts": {{"critic": …}}}}')
    if isinstance(prompts, dict):  # an exported prompt is kept as its text, like any other
        prompts = {name: json.dumps(one) if _is_export(one) else one for name, one in prompts.items()}
    if not isinstance(prompts, dict) or not prompts or not all(isinstance(one, str) for one in prompts.values()):
        raise ValueError(f'{where} holds no prompts: it must be an object with "prompts", texts by name')
    if content.get("format", FORMAT) != FORMAT:
        raise ValueError(f"{where} has format {content['format']!r}, and this version reads {FORMAT}")
    for name, digest in (content.get("prompts_sha256") or {}).items():
        if hashlib.sha256(prompts.get(name, "").encode()).hexdigest() != digest:
            raise ValueError(
                f"the prompt {name!r} of {where} is not the one that was measured; "
                'to use it all the same, take "prompts_sha256" out'
            )
    return {**content, "prompts": prompts}


def _is_export(value: Any) -> bool:
    return isinstance(value, dict) and bool({"lc", "manifest"} & value.keys())


def check_prompt(name: str, text: str, untuned: str) -> None:
    """Raise ValueError unless a prompt has just the variables of the one that it stands in for.

    Raises:
        ValueError: It lacks one, uses another, or its braces can't be read; the message says which.
    """
    needed = chat_prompt(untuned, what=name, known=KNOWN)[0].input_variables
    used = chat_prompt(text, what=f"the prompt {name!r}", known=needed)[0].input_variables
    if missing := sorted(set(needed) - set(used)):
        listed = ", ".join("{" + one + "}" for one in missing)
        raise ValueError(f"the prompt {name!r} lacks {listed}: each must stand in it, in single braces")


def _shown(path: str | os.PathLike[str]) -> str:
    return repr(str(path))


FORMAT = 1
KNOWN = ("task", "draft", "feedback", "history", "round", "context", "words")
