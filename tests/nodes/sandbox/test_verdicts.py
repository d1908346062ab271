"""Attacks on the verdict: wrong code that tries to be called right."""

from __future__ import annotations

import pytest
from redraft.nodes.sandbox import Sandbox

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
        "        if isinstance(o, dict) and isinstance(o.get('nonce') or o.get('tests'), str):\n"
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
    "raises a name it made up": "def f(x):\n    raise type('passed', (BaseException,), {})('nonce')",
}


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
