"""Attacks on the process that asked: replies made to be expensive to read, and replies that code forges."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from redraft.sandbox import Sandbox
from redraft.sandbox.frames import REPLY_BYTES, read_json, read_value, read_words
from redraft.sandbox.launch import ON_DEMAND, imported
from redraft.sandbox.monty import MontyLayer
from redraft.sandbox.result import Limits

EXPENSIVE = {
    "many numbers": '{"value":[' + "0," * 410_000 + "0]}",
    "many lists": '{"value":[' + "[]," * 410_000 + "0]}",
    "many objects": '{"value":[' + "{}," * 410_000 + "0]}",
    "many strings": '{"value":[' + '"",' * 410_000 + "0]}",
    "strings and nothing else": '""' * 410_000,
    "depth": "[" * 2_000_000,
    "depth in objects": '{"":' * 500_000,
    "a quote that is never closed": '{"value":"' + '\\"' * 1_500_000,
    "quotes never closed": '"\\' * 1_500_000,
    "a number without end": "9" * 3_000_000,
    "blanks": " " * 3_000_000,
}


@pytest.mark.parametrize("name", EXPENSIVE)
def test_a_reply_is_measured_before_it_is_built(name: str) -> None:
    """A reply of megabytes that would take hundreds of them, or minutes, is refused in one pass, before it is built."""
    text = EXPENSIVE[name]
    with pytest.raises(ValueError) as refused:  # noqa: PT011  json has words of its own
        read_json(text)
    assert ("too much" in str(refused.value)) == (text[:1] in "{[" or text[:2] == '""') or "closed" in name


@pytest.mark.parametrize(
    "text", ["1", "null", "[]", "{}", '{"value":1,"x":2}', '{"value":1,"unplain":[]}', '{"unplain":"x"}']
)
def test_a_forged_value_is_no_value(text: str) -> None:
    """What a run replies has the form of a reply, or is none."""
    with pytest.raises(ValueError, match="tampered"):
        read_value(text)


@pytest.mark.parametrize(
    "data", [b"1", b'"x"', b"[]", b'{"a":1}', b'{"a":{}}', b'{"a":"' + b"x" * 70_000 + b'"}', b"\xff"]
)
def test_forged_words_are_none(data: bytes) -> None:
    """What was raised is said in short texts."""
    with pytest.raises(ValueError):  # noqa: PT011
        read_words(data)


BOMBS = {
    "keys in keys": (
        "class D(dict):\n    def __hash__(s): return 7\nv = D({'\\\\': 1})\nfor _ in range(24):\n    v = D({v: 1})\nv"
    ),
    "what says it has items": (
        "class A:\n    def __init__(s, k): s.k = k\n    def items(s): return [(s.k, 1)]\nis_a = isinstance\n"
        "def isinstance(v, t): return type(v) is A if t is dict else is_a(v, t)\nv = '\\\\'\n"
        "for _ in range(26):\n    v = A(v)\nanswer = v"
    ),
    "wide data": "[[] for _ in range(150_000)]",
    "a message": "raise ValueError('x' * (40 << 20))",
    "the name of a class": "raise type('E' * 5_000_000, (Exception,), {})('x')",
    "the name of a function": f"def {'f' * 100_000}():\n    1 / 0\n{'f' * 100_000}()",
    "a text that adds up": "class A(str):\n    def __radd__(s, o): return 'x' * 10 ** 7\nA('x')",
    "half characters": "{'\\ud800' * n: ['\\udfff'] for n in range(300)}",
}


@pytest.mark.parametrize("code", BOMBS.values(), ids=BOMBS)
def test_a_value_is_no_burden_to_the_caller(code: str, sandbox: Sandbox) -> None:
    """Code that packs a bomb into its value or error leaves little, and what can be stored."""
    result = sandbox.run(code)
    assert len(json.dumps([result.value, result.error], ensure_ascii=False).encode()) <= 2 * REPLY_BYTES


SAY = (
    "import os\ndef say():\n    for fd in range(3, 256):\n        try:\n            os.write(fd, {frame!r})\n"
    "        except OSError:\n            pass\n"
)
FORGED = {
    "raised text": b'x"x"',
    "raised null": b"xnull",
    "raised half": b'x{"type":"E"}',
    "raised numbers": b'x{"type":1,"message":2,"trace":3,"builtin":4,"where":5}',
    "raised at length": b'x{"type":"' + b"x" * 50_000 + b'","message":"","trace":"","builtin":"E"}',
    "a value and no arguments": b'v{"value":4,"after":0}',
    "more arguments than there were": b'v{"value":4,"after":["tuple",[1,2]]}',
    "a tag of its own": b'v{"value":["eval","4"],"after":["tuple",[2]]}',
    "a fraction by zero": b'v{"value":["fraction",1,0],"after":["tuple",[2]]}',
    "an object without a number": b'v{"value":["object",[],{}],"after":["tuple",[2]]}',
    "depth": b'v{"value":' + b"[" * 9_000 + b"]" * 9_000 + b"}",
    "no JSON": b"v\xff",
    "a reason that is none": b"u{}",
    "a call of its own": b'c{"call":"f","args":["tuple",[]],"kwargs":["dict",[]]}',
    "that it passed": b'p"nonce"',
    "that it is defined": b"dtrue",
    "that it was forged": b"fnull",
    "nothing": b"",
}


@pytest.mark.one_of_each("forged")
@pytest.mark.parametrize("layer", ["bubblewrap", "seccomp"], indirect=True)
@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_a_forged_reply_is_a_failed_run(forged: bytes, sandbox: Sandbox) -> None:
    """Code that writes replies by itself has failed: no exception reaches the caller, and nothing passes by it."""
    say = SAY.format(frame=len(forged).to_bytes(4, "big") + forged)
    result = sandbox.run(f"{say}say()\nos._exit(0)")
    assert result.status == "failed", result
    tests = "try:\n    f(2)\nexcept Exception:\n    pass\nassert f(3) == 9"
    if forged == FORGED["raised at length"]:  # as a function may raise that answers the next call
        tests = "assert f(3) == 9"
    for code in (f"{say}say()\ndef f(x):\n    return 9", f"{say}def f(x):\n    say()\n    return 9"):
        verdict = sandbox.check(code, tests, "f")
        assert verdict.status in {"failed", "unsupported"}, verdict
        assert verdict.status == "failed" or verdict.by_code


def test_no_module_runs_code_before_the_lock() -> None:
    """Importing is running code, so what code names is imported outside of the lock only if it stands on a list."""
    sources = [f"import {name}.__main__, {name}\nfrom {name}.__main__ import main" for name in sys.stdlib_module_names]
    named = set(imported("\n".join(sources)))
    assert {"unittest.__main__", "venv.__main__", "antigravity", "this"} <= named
    assert not [name for name in ON_DEMAND if name.endswith("__main__")]
    assert not {"antigravity", "this", "idlelib", "turtle", "venv", "ensurepip", "pip", "test", "site"} & set(ON_DEMAND)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_worker_of_monty_has_no_rights(alone: Callable[..., Sandbox]) -> None:
    """Beneath the interpreter there is a process that nobody owns, without capabilities, under a filter and limits."""
    alone("monty")
    limits = Limits(timeout_s=5, memory_mb=64, max_output=100)
    with MontyLayer(limits, parallel=1)._session(5.0) as session:
        process = Path(f"/proc/{session.worker_pid}")
        status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines())
        granted = (process / "limits").read_text()
        assert (process / "fd" / "2").readlink() == Path("/dev/null")
        assert {entry.name for entry in (process / "fd").iterdir()} == {"0", "1", "2"}
    assert {int(status[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")} == {0}
    assert (status["NoNewPrivs"], status["Seccomp"].strip()) == ("1", "2")
    assert "0" not in status["Uid"].split()
    for name, most in (("Max file size", "0"), ("Max core file size", "0"), ("Max open files", "64")):
        assert [line.split()[-2] for line in granted.splitlines() if line.startswith(name)] == [most]
    assert "Max address space         unlimited" not in granted
