"""Escapes by Python's own objects: what reaches a file or a program outside of a sandbox reaches none inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from redraft.sandbox import Sandbox

WAYS = {
    "the builtins of a function's globals": (
        "import json\nanswer = json.dumps.__globals__['__builtins__']['open'](path).read()"
    ),
    "a subclass of object": (
        "for c in object.__subclasses__():\n    try:\n"
        "        answer = c.__init__.__globals__['__builtins__']['open'](path).read()\n        break\n"
        "    except (AttributeError, KeyError, TypeError):\n        pass"
    ),
    "the module of a builtin": "answer = print.__self__.open(path).read()",
    "the table of modules": "import sys\np = sys.modules['posix']\nanswer = p.read(p.open(path, 0), 99).decode()",
    "a module found by its finder": (
        "import sys\nf = [f for f in sys.meta_path if f.__name__ == 'BuiltinImporter'][0]\n"
        "p = f.create_module(f.find_spec('posix'))\nf.exec_module(p)\nanswer = p.read(p.open(path, 0), 99).decode()"
    ),
    "the frame of a generator": "g = (g.gi_frame.f_builtins['open'] for _ in [0])\nanswer = next(g)(path).read()",
    "the frame of a coroutine": (
        "async def f():\n    return c.cr_frame.f_builtins['open'](path).read()\nc = f()\ntry:\n    c.send(None)\n"
        "except StopIteration as e:\n    answer = e.value"
    ),
    "the frame of a traceback": (
        "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n"
        "    answer = e.__traceback__.tb_frame.f_back.f_globals['sys'].modules['io'].open(path).read()"
    ),
    "the frame of the caller": (
        "import sys\nanswer = sys._getframe(1).f_globals['sys'].modules['io'].open(path).read()"
    ),
    "the garbage collector": (
        "import gc\nfor o in gc.get_objects():\n    if type(o) is dict and '__import__' in o and 'open' in o:\n"
        "        answer = o['open'](path).read()\n        break"
    ),
    "a format string and the error it raises": (
        "import json\ntry:\n    '{0.__globals__[__builtins__][open].nope}'.format(json.dumps)\n"
        "except AttributeError as e:\n    answer = e.obj(path).read()"
    ),
    "attribute names put together": (
        "import functools\nanswer = functools.reduce(getattr, ['__se' 'lf__', 'op' + 'en'], print)(path).read()"
    ),
    "operator.attrgetter": "import operator\nanswer = operator.attrgetter('__self__.open')(print)(path).read()",
    "a decorator": "@open\n@(lambda c: path)\nclass A: pass\nanswer = A.read()",
    "a subscript": "class A:\n    __class_getitem__ = open\nanswer = A[path].read()",
    "a property": "class A:\n    f = property(lambda s: open)\nanswer = A().f(path).read()",
    "letters that only look different": "answer = 𝓸𝓹𝓮𝓷(path).read()",
    "a dynamic import": "answer = __import__('i' + 'o').open(path).read()",
    "exec in exec": "exec('exec(\"answer = open(path).read()\")')",
    "pickle": "import pickle\nanswer = pickle.loads(b'cio\\nopen\\n(V' + path.encode() + b'\\ntR.').read()",
    "pickle by __reduce__": (
        "import os, pickle\nclass A:\n    def __reduce__(self): return os.open, (path, 0)\n"
        "answer = os.read(pickle.loads(pickle.dumps(A())), 99).decode()"
    ),
    "marshal": (
        "import marshal, types\nc = marshal.loads(marshal.dumps(compile('open(path).read()', '', 'eval')))\n"
        "answer = types.FunctionType(c, globals())()"
    ),
    "changed bytecode": (
        "def f(): return len(path)\n"
        "f.__code__ = f.__code__.replace(co_names=tuple({'len': 'open'}.get(n, n) for n in f.__code__.co_names))\n"
        "answer = f().read()"
    ),
    "the interpreter's C functions": (
        "import ctypes, sys\nsys.at = path\n"
        "ctypes.pythonapi.PyRun_SimpleString(b'import io, sys; sys.loot = io.open(sys.at).read()')\nanswer = sys.loot"
    ),
    "a builtin made writable again": (
        "import builtins, sys\nkept = sys.modules['io'].open\ndel builtins.open\nanswer = kept(path).read()"
    ),
    "an audit hook that sees it all": ("import sys\nsys.addaudithook(lambda e, a: None)\nanswer = open(path).read()"),
    "runpy": "import runpy\nanswer = runpy.run_path(path)['secret']",
    "tokenize": "import tokenize\nanswer = tokenize.open(path).read()",
    "fileinput": "import fileinput\nanswer = list(fileinput.input(path))",
    "a file URL": "import urllib.request\nanswer = urllib.request.urlopen('file://' + path).read().decode()",
    "mmap in C": (
        "import ctypes, os\nlibc = ctypes.CDLL(None)\nlibc.mmap.restype = ctypes.c_void_p\n"
        "answer = ctypes.string_at(libc.mmap(None, 4096, 1, 2, os.open(path, 0), 0), 99).decode()"
    ),
    "an attached database": (
        "import sqlite3\nc = sqlite3.connect(':memory:')\nc.execute('attach ? as t', (target,))\n"
        "c.execute('create table t.x (y)')\nc.commit()"
    ),
    "a finaliser": "class A:\n    def __del__(self): open(target, 'w').close()\na = A()\ndel a",
    "a context that closes": (
        "import contextlib\nwith contextlib.ExitStack() as s:\n    s.callback(lambda: open(target, 'w').close())"
    ),
    "os.spawnv": "import os\nos.spawnv(os.P_WAIT, '/bin/cp', ['cp', path, target])",
    "system in C": "import ctypes\nctypes.CDLL(None).system(f'cp {path} {target}'.encode())",
    "an asynchronous subprocess": (
        "import asyncio\nasync def f():\n    p = await asyncio.create_subprocess_exec('/bin/cp', path, target)\n"
        "    await p.wait()\nasyncio.run(f())"
    ),
    "a web browser of its own": (
        "import webbrowser\nwebbrowser.register('x', None, webbrowser.GenericBrowser(['/bin/cp', path, '%s']))\n"
        "webbrowser.get('x').open(target)"
    ),
    "a logging handler": "import logging\nlogging.FileHandler(target)",
}


@pytest.mark.one_of_each("code")
@pytest.mark.parametrize("code", WAYS.values(), ids=WAYS)
def test_no_way_around_python_leads_out(code: str, sandbox: Sandbox, machine: Any) -> None:
    """Whatever object leads to `open` or to a program, the file stays unread and no program runs."""
    assert machine.lost(sandbox.run(code, machine.inputs)) == []


@pytest.mark.parametrize("code", WAYS.values(), ids=WAYS)
def test_each_way_leads_out_where_nothing_guards(code: str, only: Callable[..., Sandbox], machine: Any) -> None:
    """These attacks are real: with every guard switched off, each of them gets what it wants."""
    result = only("nothing").run(code, machine.inputs)
    assert machine.lost(result), result
