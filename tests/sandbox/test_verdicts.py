"""Attacks on the verdict: wrong code that tries to be called right."""

from __future__ import annotations

import pytest
from redraft.sandbox import Sandbox

TESTS = """
def check(candidate):
    assert candidate(2) == 4
    assert candidate(3) == 9
"""

LIES = {
    "leaves with sys.exit": "import sys\nsys.exit(0)",
    "leaves with os._exit": "import os\nos._exit(0)",
    "raises SystemExit": "raise SystemExit(0)",
    "leaves when called": "import os\ndef f(x):\n    os._exit(0)",
    "raises SystemExit when called": "def f(x):\n    raise SystemExit(0)",
    "raises StopIteration when called": "def f(x):\n    raise StopIteration",
    "raises KeyboardInterrupt when called": "def f(x):\n    raise KeyboardInterrupt",
    "prints success": "print('PASS', 'OK', '1 passed', {'passed': True})\ndef f(x):\n    print('passed')",
    "says passed on every pipe": (
        "import json, os\n"
        "t = json.dumps({'passed': True, 'defined': True, 'value': 4, 'after': ['list', [2]]}).encode()\n"
        "def f(x):\n    for fd in range(1, 64):\n        try:\n"
        "            os.write(fd, len(t).to_bytes(4, 'big') + t)\n        except OSError:\n            pass"
    ),
    "answers before it is asked": (
        "import json, os\nt = json.dumps({'value': 4, 'after': ['tuple', [2]]}).encode()\nfor fd in range(3, 64):\n"
        "    try:\n        [os.write(fd, len(t).to_bytes(4, 'big') + t) for _ in range(9)]\n    except OSError:\n"
        "        pass\ndef f(x):\n    return 4"
    ),
    "floods the reply pipe": (
        "import os\ndef f(x):\n    for fd in range(3, 64):\n        try:\n            os.write(fd, b'\\0' * 65536)\n"
        "        except OSError:\n            pass\n    return 4"
    ),
    "asks the tests to call it": (
        "import json, os\nt = json.dumps({'call': 'f', 'args': [], 'kwargs': {}, 'passed': 1}).encode()\ndef f(x):\n"
        "    for fd in range(3, 64):\n        try:\n            os.write(fd, len(t).to_bytes(4, 'big') + t)\n"
        "        except OSError:\n            pass"
    ),
    "reads requests ahead": "import os\nmore = b''\ndef f(x):\n    return os.read(0, 65536) and 4",
    "returns an object equal to all": "class A:\n    def __eq__(self, o): return True\ndef f(x):\n    return A()",
    "returns an int equal to all": (
        "class A(int):\n    def __eq__(self, o): return True\n    __hash__ = int.__hash__\ndef f(x):\n    return A(7)"
    ),
    "returns a str equal to all": "class A(str):\n    def __eq__(self, o): return True\ndef f(x):\n    return A('7')",
    "returns a list equal to all": "class A(list):\n    def __eq__(self, o): return True\ndef f(x):\n    return A([7])",
    "returns a float equal to all": "class A(float):\n    def __eq__(self, o): return True\ndef f(x):\n    return A(7)",
    "returns a dict equal to all": "class A(dict):\n    def __eq__(self, o): return True\ndef f(x):\n    return A()",
    "lies about its type": (
        "class A:\n    __class__ = int\n    def __eq__(self, o): return True\ndef f(x):\n    return A()"
    ),
    "lies with __reduce__": "class A:\n    def __reduce__(self): return (eval, ('4',))\ndef f(x):\n    return A()",
    "returns a mock": "from unittest.mock import ANY\ndef f(x):\n    return ANY",
    "patches builtins": (
        "import builtins\nbuiltins.AssertionError = ValueError\nbuiltins.isinstance = lambda *a: True\n"
        "def f(x):\n    return 7"
    ),
    "patches compile and exec": (
        "import builtins\nbuiltins.compile = lambda *a, **k: 'pass'\nbuiltins.exec = print\ndef f(x):\n    return 7"
    ),
    "patches json": "import json\njson.dumps = lambda *a, **k: '{\"passed\": true}'\ndef f(x):\n    return 7",
    "defines its own check": "def check(candidate):\n    pass\ncandidate = f = lambda x: 7",
    "patches the child program": (
        "import sys\nfor n, m in list(sys.modules.items()):\n    if 'child' in n or 'plain' in n:\n"
        "        m.pack = lambda *a: 4\n"
        "        m._tests = m._call = lambda *a: {'passed': True, 'value': 4, 'after': 0}\n"
        "def f(x):\n    return 7"
    ),
    "looks for the nonce in frames": (
        "import sys\ndef f(x):\n    at = sys._getframe()\n    while at:\n        for v in at.f_locals.values():\n"
        "            if isinstance(v, dict) and 'nonce' in v:\n                return 4\n        at = at.f_back\n"
        "    return 7"
    ),
    "looks for the tests with gc": (
        "import gc\ndef f(x):\n    for o in gc.get_objects():\n"
        # from Python 3.14 on the table of all names is among them, in which each stands for itself
        "        if isinstance(o, dict) and any(isinstance(o.get(k), str) and o[k] != k for k in ('nonce', 'tests')):\n"
        "            return x * x\n    return 7"
    ),
    "looks for expected values in frames": (
        "import sys\ndef f(x):\n    at = sys._getframe()\n    while at:\n"
        "        if 'candidate({}) == 4'.format(2) in str(at.f_locals):\n"
        "            return x * x\n        at = at.f_back\n    return 7"
    ),
    "looks for the tests in memory": (
        "import gc\ndef f(x):\n    needle = 'assert {}('.format('candidate')\n    for o in gc.get_objects():\n"
        "        for s in gc.get_referents(o):\n            if type(s) is str and needle in s and s is not needle:\n"
        "                return x * x\n    return 7"
    ),
    "registers atexit": "import atexit, os\natexit.register(os._exit, 0)\ndef f(x):\n    return 7",
    "installs a tracer": (
        "import sys\nsys.settrace(lambda *a: None)\nsys.setprofile(lambda *a: None)\ndef f(x):\n    return 7"
    ),
    "installs an excepthook": (
        "import sys\nsys.excepthook = lambda *a: print('passed')\ndef f(x):\n    raise ValueError"
    ),
    "handles signals": (
        "import signal, os\nsignal.signal(signal.SIGTERM, lambda *a: os._exit(0))\ndef f(x):\n    return 7"
    ),
    "closes every descriptor": "import os\ndef f(x):\n    os.closerange(0, 99)\n    return 7",
    "swaps the reply pipe": "import os\nos.dup2(1, 3)\nos.dup2(1, 4)\nos.dup2(1, 5)\ndef f(x):\n    return 7",
    "sends nested data": "def f(x):\n    for _ in range(70):\n        x = [x]\n    return x",
    "sends a forged tag": "def f(x):\n    return ['int', '0x4']",
    "renames itself": "def f(x):\n    return 7\nf.__code__ = (lambda x: True).__code__",
    "hides a wrong answer in a bool": "def f(x):\n    return True",
    "changes its argument": "def f(x):\n    x = 4\n    return x",
    "prints and hangs up": "import sys\ndef f(x):\n    sys.stdout.close()\n    return 7",
    "raises an exception that lies": (
        "class E(Exception):\n    def __str__(self): raise SystemExit(0)\n    def __init_subclass__(c): pass\n"
        "def f(x):\n    raise E"
    ),
    "prints PASS and leaves": "print('PASS')\nimport sys\nsys.exit(0)\ndef f(x):\n    return 7",
    "prints PASS when called and leaves": "def f(x):\n    print('PASS', flush=True)\n    import os\n    os._exit(0)",
    "prints PASS at exit": ("import atexit, sys\natexit.register(print, 'PASS')\ndef f(x):\n    sys.exit(0)"),
    "patches unittest": (
        "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n"
        "unittest.TestResult.wasSuccessful = lambda s: True\ndef f(x):\n    return 7"
    ),
    "puts a test runner in the way": (
        "import sys, types\nm = types.ModuleType('pytest')\nm.main = lambda *a: 0\nsys.modules['pytest'] = m\n"
        "sys.modules['unittest'] = m\ndef f(x):\n    return 7"
    ),
    "takes imports over": (
        "import sys\nclass Finder:\n    def find_spec(s, *a): sys.exit(0)\nsys.meta_path.insert(0, Finder())\n"
        "def f(x):\n    return 7"
    ),
    "patches __import__": "import builtins\nbuiltins.__import__ = lambda *a, **k: builtins\ndef f(x):\n    return 7",
    "replaces sys.stdout": (
        "import sys\nclass Out:\n    def write(s, t): sys.__stdout__.write('PASS')\n    def flush(s): pass\n"
        "sys.stdout = sys.stderr = Out()\ndef f(x):\n    print('x')\n    return 7"
    ),
    "patches the exceptions": (
        "import builtins\nclass Never(Exception): pass\nbuiltins.AssertionError = builtins.Exception = Never\n"
        "def f(x):\n    raise AssertionError"
    ),
    "patches operator and math": (
        "import math, operator\noperator.eq = math.isclose = lambda *a, **k: True\ndef f(x):\n    return 7"
    ),
    "returns objects equal to all in a list": (
        "class A:\n    def __eq__(s, o): return True\ndef f(x):\n    return [A()]"
    ),
    "returns a number that rounds anywhere": (
        "class A(float):\n    def __round__(s, n=0): return 4\n    def __sub__(s, o): return 0.0\n"
        "    def __eq__(s, o): return True\ndef f(x):\n    return A('nan')"
    ),
    "returns a coroutine": "async def f(x):\n    return x * x",
    "returns a generator": "def f(x):\n    yield x * x",
    "returns a function": "def f(x):\n    return f",
    "returns a module": "import sys\ndef f(x):\n    return sys",
    "returns a key equal to all": (
        "class A(str):\n    def __eq__(s, o): return True\n    __hash__ = str.__hash__\n"
        "def f(x):\n    return {A('a'): 4}"
    ),
    "hides behind an instance check": (
        "class M(type):\n    def __instancecheck__(c, o): return True\nclass A(int, metaclass=M):\n"
        "    def __eq__(s, o): return True\ndef f(x):\n    return A(7)"
    ),
    "has tests of its own": (
        "TESTS = 'def check(c): pass'\ndef check(c):\n    return True\ndef candidate(x):\n    return 4\n"
        "def f(x):\n    return 7\nassert True\nprint('1 passed')"
    ),
    "turns asserts off": "import sys\n__debug__ if sys.flags.optimize else 0\ndef f(x):\n    return 7",
    "counts its calls": "n = []\ndef f(x):\n    n.append(x)\n    return 4 if len(n) > 2 else 0",
    "never comes back": "def f(x):\n    while True:\n        pass",
    "sleeps on the tests": "import time\ndef f(x):\n    time.sleep(99)\n    return x * x",
    "raises what the tests may await": "def f(x):\n    raise AssertionError('passed')",
    "raises a name it made up": "def f(x):\n    raise type('passed', (BaseException,), {})('nonce')",
}


@pytest.mark.one_of_each("code")
@pytest.mark.parametrize("code", LIES.values(), ids=LIES)
def test_wrong_code_never_passes(code: str, hasty: Sandbox) -> None:
    """No code that gets the answers wrong is ever called right, whatever it does to the process it runs in."""
    verdict = hasty.check(code, TESTS, "f")
    assert verdict.status != "ok", verdict
    assert verdict.error


def test_right_code_passes(sandbox: Sandbox) -> None:
    """The tests that stop every lie let an honest solution through."""
    assert sandbox.check("def f(x):\n    return x * x", TESTS, "f").ok


@pytest.mark.parametrize("tests", ["", "pass", "def check(candidate):\n    pass", "x = 1"])
def test_tests_that_call_nothing_prove_nothing(tests: str, sandbox: Sandbox) -> None:
    """Empty tests are a failure, never a pass."""
    verdict = sandbox.check("def f(x):\n    return 7", tests, "f")
    assert verdict.status == "failed"


@pytest.mark.parametrize("tests", ["f(2)\nraise SystemExit(0)", "f(2)\nimport os\nos._exit(0)", "f(2)\n1 / 0"])
def test_tests_that_end_early_prove_nothing(tests: str, sandbox: Sandbox) -> None:
    """A pass means that the last line of the tests was reached."""
    assert not sandbox.check("def f(x):\n    return 4", tests, "f").ok
