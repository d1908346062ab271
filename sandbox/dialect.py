"""Monty's dialect: the bridge for values, and telling gaps of the interpreter from failures of the code. Internal."""

from __future__ import annotations

import builtins
import functools
import re
import textwrap
from pathlib import Path

__all__ = ["PROXY", "REPLY", "TAKE", "VALUE", "bridge", "difference", "is_gap", "split_last"]

REPLY = """
def __sandbox_call(function, text):
    args, kwargs = __sandbox_unpack(__sandbox_json.loads(text))
    value = function(*args, **kwargs)
    try:
        return __sandbox_json.dumps({'value': __sandbox_pack(value), 'after': __sandbox_pack(args)})
    except (TypeError, RecursionError) as error:
        return __sandbox_json.dumps({'value': None, 'unplain': str(error)})
def __sandbox_show(value):
    try:
        return __sandbox_json.dumps({'value': __sandbox_jsonable(__sandbox_pack(value))})
    except (TypeError, ValueError, RecursionError) as error:
        return __sandbox_json.dumps({'value': None, 'unplain': str(error)})
0
"""
VALUE = """
if __sandbox_value is None:
    try:
        __sandbox_value = answer
    except NameError:
        pass
f'{__sandbox_show(__sandbox_value)}'
"""
PROXY = """
def {name}(*args, **kwargs):
    text = __sandbox_json.dumps(__sandbox_pack((args, kwargs)))
    return __sandbox_take(args, __sandbox_json.loads(__sandbox_ask({name!r}, text)))
"""
TAKE = """
def __sandbox_take(args, reply, isinstance=isinstance, zip=zip, list=list, dict=dict, set=set):
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
TAKEN = [
    "bool",
    "bytes",
    "complex",
    "dict",
    "float",
    "frozenset",
    "hex",
    "int",
    "isinstance",
    "len",
    "list",
    "set",
    "str",
    "tuple",
    "type",
    "ValueError",
]

STATEMENT = re.compile(
    r"(?:def|class|if|for|while|with|try|else|elif|except|finally|import|from|pass|del|assert|raise|global|async|match"
    r"|@|[\w.\[\]'\" ,()*]+?(?::[^=]+)?(?:[-+*/%&|^@]|//|\*\*|<<|>>)?=(?!=))"
)
GAP = re.compile(
    r"NotImplementedError|.*not (?:yet )?support|RuntimeError: Internal error in monty|ModuleNotFoundError|ImportError"
    r"|AttributeError: module |AttributeError: .*has no attribute '__|io\.UnsupportedOperation"
)
DIFFERENT = re.compile(r"\b(?:re|round|nan)\b")
"""Names that Monty treats otherwise, as `benchmarks/monty_differences.py` saw."""
MISSING_NAME = re.compile(r"NameError: name '(\w+)' is not defined")
MISSING_ATTRIBUTE = re.compile(r"AttributeError: '(\w+)' object has no attribute '(\w+)'")


@functools.cache
def bridge() -> str:
    """Return the source of `plain.py` inside one function, so that the code meets no name it did not define."""
    source = Path(__file__).with_name("plain.py").read_text(encoding="utf-8")
    body = textwrap.indent(source.replace("from __future__ import annotations", ""), "    ")
    taken = ", ".join(f"{name}={name}" for name in TAKEN)  # an entry point may have such a name
    call = "__sandbox_json, __sandbox_pack, __sandbox_unpack, __sandbox_jsonable = __sandbox_bridge()\n"
    return f"def __sandbox_bridge({taken}):\n    import json\n{body}\n    return json, pack, unpack, jsonable\n{call}"


def split_last(code: str) -> tuple[str, str] | None:
    """Return the code before its last expression, and that expression; `None` as text when it ends in a statement.

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


def difference(code: str) -> str:
    """Return one line on a part of `code` that Monty runs otherwise than CPython; empty where none is known."""
    match = DIFFERENT.search(code)
    return f"Monty's {match[0]} is not that of CPython" if match else ""


def is_gap(error: Exception) -> bool:
    """Return True where `error` of Monty says that Monty lacks something, rather than that the code is wrong."""
    words = str(error)[:2000]
    if type(error).__name__ == "MontyCrashedError" or GAP.match(words):
        return True
    if name := MISSING_NAME.match(words):
        return hasattr(builtins, name[1])
    if attribute := MISSING_ATTRIBUTE.match(words):
        return hasattr(getattr(builtins, attribute[1], None), attribute[2])
    return False
