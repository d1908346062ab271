"""What crosses the boundary of the sandbox, and what is said of what can't."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from redraft.sandbox import Sandbox
from redraft.sandbox.plain import jsonable, pack, unpack

PLAIN: list[Any] = [
    None,
    True,
    -7,
    7**100,
    0.1,
    1e300,
    2 + 3j,
    "text with é and 🐍",
    b"\x00\xff",
    [1, [2, []]],
    (1, (2,)),
    {1, 2},
    frozenset({"a"}),
    {"a": {1: [2]}, (1, 2): None},
    Decimal("1.10"),
    Fraction(1, 3),
]


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_data_crosses_unchanged(value: Any) -> None:
    """Arguments and results of checked code keep their value and their exact type."""
    there = unpack(json.loads(json.dumps(pack(value))))
    assert there == value
    assert type(there) is type(value)


@pytest.mark.parametrize(
    "tree", [["list"], ["list", 1], ["int", 4], ["dict", [[1]]], ["eval", "1"], {"a": 1}, [], ["fraction", 1]], ids=repr
)
def test_a_forged_tree_is_refused(tree: Any) -> None:
    """A reply that is no plain data is an error, never half read."""
    with pytest.raises(ValueError, match="not a tagged tree"):
        jsonable(tree)


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("1 + 1", 2),
        ("x = 1\nx", 1),
        ("answer = 'kept'\nx = 1", "kept"),
        ("(1, {2})", [1, [2]]),
        ("{1: 2}", {"1": 2}),
        ("from fractions import Fraction\nstr(1 + 1)", "2"),
        ("pass", None),
        ("", None),
    ],
)
def test_a_run_gives_the_value_as_json_data(code: str, value: Any, sandbox: Sandbox) -> None:
    """The value is that of the last expression, else of `answer`."""
    result = sandbox.run(code)
    assert result.status in {"ok", "unsupported"} if result.layer == "monty" else result.ok
    assert result.value == (value if result.ok else None)


def test_a_huge_integer_is_a_value_that_can_be_printed(sandbox: Sandbox) -> None:
    """A number too long for decimals comes as hexadecimal text, so that showing it does not fail."""
    assert sandbox.run("1 << 20_000").value == hex(1 << 20_000)


def test_a_value_that_can_not_cross_is_named(sandbox: Sandbox) -> None:
    """Code that ends in a function still ran; the result says why there is no value."""
    result = sandbox.run("def f():\n    pass\nf")
    assert (result.ok, result.value) == (True, None)
    assert "not plain data" in str(result.error)


def test_an_error_quotes_the_line_that_raised_it(sandbox: Sandbox) -> None:
    """A model that reads the error learns the type and the message; CPython quotes the line too."""
    result = sandbox.run("x = 1\nraise ValueError('no good')")
    assert "ValueError: no good" in str(result.error)
    assert result.layer == "monty" or "line 2, in <module>: raise ValueError" in str(result.error)


def test_a_failed_check_shows_the_last_call(sandbox: Sandbox) -> None:
    """A model that reads why its code failed sees which test it was."""
    verdict = sandbox.check("def f(x):\n    return x + 1", "assert f(2) == 4", "f")
    assert verdict.status == "failed"
    assert verdict.layer == "monty" or "last call: f(2) returned 3" in str(verdict.error)


CHECKS = {
    "changes its argument in place": ("def f(x):\n    x.append(1)", "x = []\nf(x)\nassert x == [1]"),
    "raises what is expected": (
        "def f(x):\n    raise ValueError('no')",
        "try:\n    f(1)\n    done = True\nexcept ValueError:\n    done = False\nassert not done",
    ),
    "takes keywords": ("def f(x, *, y):\n    return x - y", "assert f(3, y=1) == 2"),
    "returns a tuple": ("def f(x):\n    return (x, [x])", "assert f(1) == (1, [1])"),
    "prints what looks like a verdict": ("def f(x):\n    print('passed')\n    return x", "assert f(1) == 1"),
}


@pytest.mark.parametrize(("code", "tests"), CHECKS.values(), ids=CHECKS)
def test_tests_see_what_a_caller_would(code: str, tests: str, sandbox: Sandbox) -> None:
    """Tests written for a plain function hold across the boundary."""
    assert (verdict := sandbox.check(code, tests, "f")).ok, verdict


def test_several_functions_can_be_checked_together(sandbox: Sandbox) -> None:
    """Tests may call each entry point by its name."""
    code = "def f(x):\n    return x + 1\ndef g(x):\n    return f(x) * 2"
    assert sandbox.check(code, "assert f(1) == 2\nassert g(1) == 4", ["f", "g"]).ok


OBJECTS = {
    "a function": ("def f(x):\n    return lambda y: x + y", "assert f(1)(2) == 3", True),
    "a generator": ("def f(x):\n    yield from x", "assert list(f([1, 2])) == [1, 2] and next(f([3])) == 3", True),
    "a generator for a list": ("def f(x):\n    yield from x", "assert f([1, 2]) == [1, 2]", False),
    "an object equal to all": (
        "class f:\n    def __init__(s, x): ...\n    def __eq__(s, o): return True",
        "assert f(1) == 1",
        False,
    ),
    "objects in a list": ("class A: n = 4\ndef f(x):\n    return [A()]", "assert f(1)[0].n == 4 and f(1) != [4]", True),
    "a class": (
        "class Stack:\n    def __init__(s): s.all = []\n    def push(s, x): s.all.append(x)\n"
        "    def __len__(s): return len(s.all)\n    def __repr__(s): return f'Stack{s.all}'\nf = Stack",
        "s = f()\nassert not s\ns.push(3)\nassert len(s) == 1 and s.all == [3] and repr(s) == 'Stack[3]' and s == s",
        True,
    ),
    "an object given back": ("class A: n = 4\ndef f(x):\n    return x.n if x else A()", "assert f(f(0)) == 4", True),
    "one that has nothing": (
        "def f(x):\n    return object()",
        "assert f(1) == 1 or list(f(1)) or f(1)() or f(1).x",
        False,
    ),
    "a mock": ("from unittest.mock import ANY\ndef f(x):\n    return ANY", "assert f(1) == 1", False),
    "its own end": (
        "class f:\n    def __init__(s, x): ...\n    def __len__(s): return 1\n    def __getattr__(s, n): return s",
        "assert f(1) == 1 or list(f(1)) == [1]",
        False,
    ),
}


@pytest.mark.parametrize(("code", "tests", "holds"), OBJECTS.values(), ids=OBJECTS)
def test_tests_use_an_object_that_stays_where_it_is(code: str, tests: str, holds: bool, sandbox: Sandbox) -> None:
    """Functions, generators and objects that code returns are judged as a caller would; none equals what it says."""
    verdict = sandbox.check(code, tests, "f")
    if verdict.layer == "monty":
        assert not verdict.ok
    else:
        assert verdict.status == ("ok" if holds else "failed"), verdict


HALF = "'\\ud800'"
"""Half of a surrogate pair: text for Python, and for no file, database or terminal."""


@pytest.mark.parametrize("code", [HALF, f"{{{HALF}: [{HALF}]}}", f"print({HALF})", f"raise ValueError({HALF})"])
def test_what_leaves_can_be_written_anywhere(code: str, sandbox: Sandbox) -> None:
    """Text that no database holds does not leave the sandbox: it could end the run that stores it."""
    result = sandbox.run(code)
    assert json.dumps([result.value, result.stdout, result.error], ensure_ascii=False).encode()


@pytest.mark.parametrize("code", ["x = '\ud800'", "1\0", "# coding: nonsense\n1", "\ufeff1", "\r\x1a\r1"], ids=ascii)
def test_source_that_is_no_text_fails_in_the_sandbox(code: str, sandbox: Sandbox) -> None:
    """Source that can't be read is a failure of the code, never an exception of the caller."""
    result = sandbox.run(code)
    assert result.status in {"ok", "failed", "unsupported"}
    assert json.dumps([result.value, result.stdout, result.error], ensure_ascii=False).encode()
