"""Attacks on the machine: each layer alone must keep files, secrets, network, processes and our own pipes safe."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from redraft.sandbox import Sandbox

LOOT = {
    "reads a file with open": "answer = open(path).read()",
    "reads a file with os.open": "import os\nanswer = os.read(os.open(path, 0), 99)",
    "reads a file with pathlib": "from pathlib import Path\nanswer = Path(path).read_text()",
    "reads a file with io.FileIO": "import io\nanswer = io.FileIO(path).readall()",
    "reads a file with linecache": "import linecache\nanswer = linecache.getlines(path)",
    "reads a file with codecs": "import codecs\nanswer = codecs.open(path).read()",
    "imports the file as code": (
        "import importlib.util as u\ns = u.spec_from_file_location('m', path)\n"
        "m = u.module_from_spec(s)\ns.loader.exec_module(m)\nanswer = m.secret"
    ),
    "puts the folder on sys.path": "import sys\nsys.path.insert(0, folder)\nimport canary\nanswer = canary.secret",
    "reads with libc through ctypes": (
        "import ctypes\nlibc = ctypes.CDLL(None)\nfd = libc.open(path.encode(), 0)\n"
        "b = ctypes.create_string_buffer(99)\nlibc.read(fd, b, 99)\nanswer = b.value"
    ),
    "reads with a raw openat": (
        "import ctypes\nlibc = ctypes.CDLL(None)\nb = ctypes.create_string_buffer(99)\n"
        "fd = libc.syscall(257, -100, path.encode(), 0)\nlibc.read(fd, b, 99)\nanswer = b.value"
    ),
    "reads with openat2 and io_uring": (
        "import ctypes\nlibc = ctypes.CDLL(None)\nhow = (ctypes.c_uint64 * 3)()\n"
        "fd = libc.syscall(437, -100, path.encode(), how, 24)\nb = ctypes.create_string_buffer(99)\n"
        "libc.read(fd, b, 99)\nanswer = [b.value, won if libc.syscall(425, 4, how) >= 0 else 0]"
    ),
    "maps the file": "import mmap, os\nanswer = mmap.mmap(os.open(path, 0), 0, prot=1)[:]",
    "climbs with ..": "answer = open('../../../../../..' + path).read()",
    "follows a symlink it makes": "import os\nos.symlink(path, '/tmp/link')\nanswer = open('/tmp/link').read()",
    "goes through /proc/self/root": "answer = open('/proc/self/root' + path).read()",
    "goes through the parent's /proc": "answer = open(f'/proc/{parent}/root' + path).read()",
    "reads the parent's environment": "answer = won if open(f'/proc/{parent}/environ').read() else 0",
    "reads the parent's memory": (
        "import ctypes\nlibc = ctypes.CDLL(None)\nb = ctypes.create_string_buffer(64)\n"
        "v = (ctypes.c_size_t * 2)(ctypes.addressof(b), 16)\nr = (ctypes.c_size_t * 2)(held, 16)\n"
        "libc.process_vm_readv(parent, v, 1, r, 1, 0)\nanswer = b.value"
    ),
    "traces the parent": ("import ctypes\nanswer = won if ctypes.CDLL(None).ptrace(16, parent, 0, 0) == 0 else 0"),
    "steals the parent's descriptors": (
        "import ctypes, os\nlibc = ctypes.CDLL(None)\np = libc.syscall(434, parent, 0)\n"
        "fd = libc.syscall(438, p, opened, 0)\nanswer = os.pread(fd, 99, 0)"
    ),
    "reads inherited descriptors": (
        "import os\nanswer = []\nfor fd in range(3, 200):\n    try:\n"
        "        answer.append(os.pread(fd, 99, 0).decode())\n    except OSError:\n        pass"
    ),
    "reads os.environ": "import os\nanswer = str(dict(os.environ))",
    "reads the environment in C": (
        "import ctypes\nf = ctypes.CDLL(None).getenv\nf.restype = ctypes.c_char_p\nanswer = f(b'CANARY')"
    ),
    "walks the object graph to os": (
        "for c in object.__subclasses__():\n    if c.__name__ == '_wrap_close':\n"
        "        answer = c.__init__.__globals__['popen']('cat ' + path).read()"
    ),
    "walks to a loader": (
        "for c in ().__class__.__base__.__subclasses__():\n    if c.__name__ == 'FileLoader':\n"
        "        answer = c('m', path).get_data(path)"
    ),
    "lists the folder": "import os\nanswer = [won for name in os.listdir(folder)]",
    "asks whether the file is there": (
        "import os\nanswer = [won for _ in [0] if os.path.exists(path) or os.access(path, 4)]"
    ),
    "runs a shell": "import os\nanswer = os.popen('cat ' + path).read()",
    "runs a subprocess": "import subprocess\nanswer = subprocess.check_output(['/bin/cat', path]).decode()",
    "spawns with posix_spawn": "import os\nos.posix_spawn('/bin/sh', ['sh', '-c', 'echo > ' + target], {})",
    "replaces itself with exec": "import os, sys\nos.execv(sys.executable, ['p', '-c', f'open({target!r}, chr(119))'])",
    "executes memory with fexecve": (
        "import os\nfd = os.memfd_create('x')\nos.write(fd, b'#!/bin/sh\\necho > ' + target.encode())\n"
        "os.execve(fd, ['x'], {})"
    ),
    "forks": "import os\nanswer = won if os.fork() else os._exit(0)",
    "starts a thread": "import threading\nt = threading.Thread(target=print)\nt.start()\nanswer = won",
    "starts a process pool": "import multiprocessing as m\nwith m.Pool(1) as p:\n    p.map(abs, [1])\n    answer = won",
    "makes a raw clone": "import ctypes\nanswer = won if ctypes.CDLL(None).syscall(56, 17, 0, 0, 0, 0) > 0 else 0",
    "writes a file": "open(target, 'w').write('x')",
    "appends to the canary": "open(path, 'a').write('x')",
    "truncates the canary": "import os\nos.truncate(path, 0)",
    "deletes the canary": "import os\nos.remove(path)",
    "renames the canary": "import os\nos.rename(path, target)",
    "makes a folder": "import os\nos.mkdir(target)",
    "changes modes": "import os\nos.chmod(path, 0)",
    "writes with shutil and tempfile": (
        "import shutil, tempfile\nshutil.copy(path, target)\ntempfile.mkdtemp(dir=folder)"
    ),
    "writes a database": "import sqlite3\nc = sqlite3.connect(target)\nc.execute('create table t (x)')\nc.commit()",
    "connects over TCP": "import socket\nsocket.create_connection(('127.0.0.1', port), 1)",
    "connects in raw C": "import ctypes\nanswer = won if ctypes.CDLL(None).socket(2, 1, 0) >= 0 else 0",
    "fetches a page": "import urllib.request\nurllib.request.urlopen(f'http://127.0.0.1:{port}/', timeout=1)",
    "makes a pair of sockets": "import socket\nsocket.socketpair()\nanswer = won",
    "sends a datagram": (
        "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', port))\n"
        "answer = won"
    ),
    "connects to an abstract unix socket": (
        "import socket\nsocket.socket(socket.AF_UNIX).connect(chr(0) + abstract)\nanswer = won"
    ),
    "kills the parent": "import os\nos.kill(parent, 0)\nanswer = won",
    "kills every process": "import os\nos.kill(-1, 0)\nanswer = won",
    "mounts": "import ctypes\nanswer = won if ctypes.CDLL(None).mount(b'none', b'/tmp', b'tmpfs', 0, 0) == 0 else 0",
    "makes a namespace": "import ctypes\nanswer = won if ctypes.CDLL(None).unshare(0x10000000) == 0 else 0",
    "changes root": "import os\nos.chroot('/')\nanswer = won",
    "raises its limits": ("import resource\nresource.setrlimit(resource.RLIMIT_NPROC, (99, 99))\nanswer = won"),
    "sets an alarm": "import signal\nsignal.setitimer(signal.ITIMER_REAL, 9)\nanswer = won",
    "reads the kernel log and keys": (
        "import ctypes\nlibc = ctypes.CDLL(None)\nb = ctypes.create_string_buffer(99)\n"
        "answer = [won for r in (libc.klogctl(3, b, 99), libc.syscall(250, 0, -3, 1)) if r >= 0]"
    ),
    "loads a program into the kernel": (
        "import ctypes\nb = (ctypes.c_uint64 * 16)()\nl = ctypes.CDLL(None)\n"
        "answer = [won for r in (l.syscall(321, 0, b, 64), l.syscall(323, 0)) if r >= 0]"
    ),
    "lifts the filter": (
        "import ctypes\nl = ctypes.CDLL(None)\nanswer = won if l.prctl(22, 0) == 0 or l.prctl(4, 1) == 0 else 0"
    ),
    "becomes another user": "import os\nos.setuid(1)\nanswer = won",
    "types into the terminal": ("import fcntl, termios\nfcntl.ioctl(0, termios.TIOCSTI, b'x')\nanswer = won"),
}


@pytest.mark.one_of_each("code")
@pytest.mark.parametrize("code", LOOT.values(), ids=LOOT)
def test_code_gets_nothing_of_the_machine_and_changes_nothing(code: str, sandbox: Sandbox, machine: Any) -> None:
    """A user's files, secrets, processes and network are as they were, whatever the code tried."""
    assert machine.lost(sandbox.run(code, machine.inputs)) == []


def test_errors_name_no_path_of_the_machine(sandbox: Sandbox) -> None:
    """What a model is told of its failure shows its own lines and nothing of where they ran."""
    result = sandbox.run("import json\njson.loads('nope')")
    assert result.status == "failed"
    assert sys.prefix not in str(result.error)
    assert sys.base_prefix not in str(result.error)
    assert "redraft" not in str(result.error)
