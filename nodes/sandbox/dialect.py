"""Monty's dialect: the bridge for values, and telling gaps of the interpreter from failures of the code. Internal."""

from __future__ import annotations

import builtins
import functools
import re
import textwrap
from pathlib import Path

__all__ = ["ANSWER", "PROXY", "REPLY", "bridge", "is_gap", "split_last"]

REPLY = """
def __sandbox_reply(value, after=None):
    try:
        return __sandbox_json.dumps({'value': __sandbox_pack(value), 'after': __sandbox_pack(after)})
    except (TypeError, RecursionError) as error:
        return __sandbox_json.dumps({'value': None, 'unplain': str(error)})
def __sandbox_call(function, text):
    args, kwargs = __sandbox_unpack(__sandbox_json.loads(text))
    return __sandbox_reply(function(*args, **kwargs), args)
0
"""
ANSWER = """
try:
    __sandbox_value = answer
except NameError:
    pass
f'{__sandbox_reply(__sandbox_value)}'
"""
PROXY = """
def {name}(*args, **kwargs):
    text = __sandbox_json.dumps(__sandbox_pack((args, kwargs)))
    reply = __sandbox_json.loads(__sandbox_ask({name!r}, text))
    if 'unplain' in reply:
        raise NotImplementedError('only plain data can be checked: ' + reply['unplain'])
    for before, after in zip(args, __sandbox_unpack(reply['after'])):
        if isinstance(before, list):
            before[:] = after
        elif isinstance(before, (dict, set)):
            before.clear()
            before.update(after)
    return __sandbox_unpack(reply['value'])
"""

STATEMENT = re.compile(
    r"(?:def|class|if|for|while|with|try|else|elif|except|finally|import|from|pass|del|assert|raise|global|async|match"
    r"|@|[\w.\[\]'\" ,()*]+?(?::[^=]+)?(?:[-+*/%&|^@]|//|\*\*|<<|>>)?=(?!=))"
)
GAP = re.compile(
    r"NotImplementedError|.*not (?:yet )?support|RuntimeError: Internal error in monty|ModuleNotFoundError|ImportError"
    r"|AttributeError: module |AttributeError: .*has no attribute '__|io\.UnsupportedOperation"
)
MISSING_NAME = re.compile(r"NameError: name '(\w+)' is not defined")
MISSING_ATTRIBUTE = re.compile(r"AttributeError: '(\w+)' object has no attribute '(\w+)'")


@functools.cache
def bridge() -> str:
    """The source of `pack` and `unpack` inside one function, so that the code meets no name it did not define."""
    source = Path(__file__).with_name("plain.py").read_text(encoding="utf-8")
    body, _, _ = source.partition("\ndef jsonable(")
    body = textwrap.indent(body.replace("from __future__ import annotations", ""), "    ")
    made = "__sandbox_json, __sandbox_pack, __sandbox_unpack = __sandbox_bridge()\n"
    return f"def __sandbox_bridge():\n    import json\n{body}\n    return json, pack, unpack\n{made}"


def split_last(code: str) -> tuple[str, str] | None:
    """The code before its last expression, and that expression; `None` as text when it ends in a statement.

    Our process never parses model-written code, since deep nesting can crash a parser, so this goes by lines. Where
    lines can't tell, None: another layer says.
    """
    lines = code.rstrip().split("\n")
    start = next((at for at in range(len(lines) - 1, -1, -1) if re.match(r"[^\s)\]}#]", lines[at])), None)
    if start is None:
        return code, "None"
    last = "\n".join(lines[start:])
    if STATEMENT.match(last):
        return code, "None"
    uneven = any(last.count(left) != last.count(right) for left, right in ("()", "[]", "{}"))
    if uneven or ";" in last or '"""' in last or "'''" in last or (start and lines[start - 1].endswith("\\")):
        return None
    return "\n".join(lines[:start]), f"(\n{last}\n)"


def is_gap(error: Exception) -> bool:
    """True when `error` of Monty says that Monty lacks something, rather than that the code is wrong."""
    words = str(error)
    if type(error).__name__ == "MontyCrashedError" or GAP.match(words):
        return True
    if name := MISSING_NAME.match(words):
        return hasattr(builtins, name[1])
    if attribute := MISSING_ATTRIBUTE.match(words):
        return hasattr(getattr(builtins, attribute[1], None), attribute[2])
    return False
