"""Code in replies, as a completion of the code that the task gives; tasks and hidden tests of HumanEval. Internal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import Any

from ...models.thoughts import without_thought
from .visible_tests import FUTURE, parse_python

__all__ = ["code_task", "find_entry_point", "given_code", "read_code", "row_text"]


def read_code(reply: str, task: str = "", *, entry_point: str = "") -> str:
    """Return the Python in a reply, ready to run, or an empty string where it holds none.

    It is the last fenced block that defines the entry point, or else the last one; without a block, the reply itself
    where it is code. Where the task gives code, as HumanEval does, what precedes the function there (imports, helpers)
    precedes it here too, and a reply with only the function's body completes it.

    Args:
        reply: What a model wrote; it is never parsed here, only read line by line.
        task: The task as it was given.
        entry_point: Name of the function; default: as `find_entry_point` finds it.
    """
    entry_point = entry_point or find_entry_point(task)
    frame = given_code(task)
    reply = without_thought(reply)
    blocks = [block for block in _blocks(reply) if block.strip()] or [_unfenced(reply, frame)]
    code = [block for block in blocks if _defines(textwrap.dedent(block), entry_point)] or blocks
    return _completed(code[-1].strip("\n"), frame, entry_point)


def _completed(code: str, given: str, entry_point: str) -> str:
    whole = textwrap.dedent(code)
    definition = re.search(rf"^(?:async )?def {re.escape(entry_point)}\b", given, re.MULTILINE) if entry_point else None
    if not code.strip() or definition is None:
        return whole
    if _defines(whole, entry_point):
        head = given[: definition.start()].strip("\n")
        future = "".join(f"{line}\n" for line in FUTURE.findall(whole))
        return f"{future}{head}\n\n\n{FUTURE.sub('', whole)}" if head else whole
    if DEFINITION.match(code) and not _lost_indent(code):  # a function of another name: no body of this one
        return whole
    body = textwrap.indent(textwrap.dedent(f"    {code}" if _lost_indent(code) else code), "    ")
    return f"{given.rstrip()}\n{body}\n"


def find_entry_point(task: str) -> str:
    """Return the name of the function that a task asks for, or an empty string where it names none.

    It is the last one that the task's code defines, or else the one that its words name: "a function `f`", "a function
    called f", "a function f(x)".
    """
    defined = MARK.findall(task) or DEFINITION.findall(given_code(task))
    if defined:
        return str(defined[-1])
    named = NAMED.search(task)
    return str(named[named.lastgroup or 0]) if named else ""


def given_code(task: str) -> str:
    """Return the code that a task gives: all of it, or its last fenced block that defines a function."""
    for source in [task, *reversed(_blocks(task))]:
        whole = source if parse_python(source) else f"{source.rstrip()}\n    pass\n"
        if DEFINITION.search(source) and parse_python(whole):
            return source
    return ""


def _blocks(text: str) -> list[str]:
    """Return the insides of the fenced blocks; one that is never closed runs to the end."""
    blocks: list[list[str]] = []
    fence = ""
    for line in text.splitlines():
        mark = FENCE.match(line)
        if fence:
            if mark and mark["fence"].startswith(fence) and not mark["info"].strip():
                fence = ""
            else:
                blocks[-1].append(line)
        elif mark:
            fence = mark["fence"]
            blocks.append([])
    return ["\n".join(lines) for lines in blocks]


def _unfenced(reply: str, given: str) -> str:
    """Return the code in a reply without fences: from the first line of code to where prose begins again."""
    lines = reply.splitlines()
    start = next((number for number, line in enumerate(lines) if OPENING.match(line)), None)
    if start is None:
        first = next((line for line in lines if line.strip()), "")
        return reply if given and BODY.match(first) else ""
    end = next((n for n, line in enumerate(lines[start:], start) if line[:1].strip() and not CODE.match(line)), None)
    return "\n".join(lines[start:end])


def _defines(code: str, entry_point: str) -> bool:
    name = re.escape(entry_point)
    return bool(
        entry_point
        and re.search(rf"^(?:(?:async )?def|class) {name}\b|^{name}[ \t]*(?::[^=\n]*)?=(?!=)", code, re.MULTILINE)
    )


def _lost_indent(code: str) -> bool:
    """Return True if the first line of a body stands at the margin only because the reply was stripped."""
    first, *rest = [line for line in code.splitlines() if line.strip()]
    indents = [len(line) - len(line.lstrip()) for line in rest]
    if not rest or first[0].isspace() or min(indents) < INDENT:
        return False
    return not first.rstrip().endswith(":") or indents[0] > min(indents) or min(indents) > INDENT


def code_task(row: Mapping[str, Any]) -> str:
    """Return the task of a HumanEval row: its prompt, and nothing of its tests or its solution.

    Where the prompt's last function is not the one to write, a comment at the end names it.

    Raises:
        ValueError: The row has no text `prompt` or no `entry_point`.
    """
    prompt, name = row_text(row, "prompt"), row_text(row, "entry_point")
    return prompt if find_entry_point(prompt) == name else f"{prompt.rstrip()}\n\n# Write the function {name}.\n"


def row_text(row: Mapping[str, Any], key: str) -> str:
    """Return a text of a HumanEval row.

    Raises:
        ValueError: There is none.
    """
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"a HumanEval row needs a text {key!r}, not {value!r}")
    return value


INDENT = 4
FENCE = re.compile(r"^[ \t]*(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)$")
DEFINITION = re.compile(r"^(?:async )?def (\w+)", re.MULTILINE)
MARK = re.compile(r"^# Write the function (\w+)\.$", re.MULTILINE)
NAMED = re.compile(
    r"\bfunction,?\s+(?:(?:named|called)\s+)?(?:`(?P<quoted>\w+)|(?P<called>\w+)(?=\())"
    r"|\bfunction\s+(?:named|called)\s+(?P<named>\w+)"
)
OPENING = re.compile(
    r"(?:async def|def) \w+\s*\(|class \w+\s*[:(]|import [\w.]+(?: as \w+)?(?:,.*)?\s*$|from [\w.]+ import "
    r"|@\w+|\w+ = lambda\b"
)
CODE = re.compile(
    r"(?:async|def|class|import|from|if|elif|else|for|while|try|except|finally|with|assert)\b|[@#)\]}\"']"
    r"|\w+\s*[=(.\[:]|\w+\s*,.*="
)
BODY = re.compile(r"\s+\S|(?:return|if|for|while|try|with)\b.*|\w+(?:\s*,\s*\w+)*\s*[-+*/]?=")
"""Beginning of a function's body."""
