"""Locking of Monty's worker processes before they start. Internal."""

from __future__ import annotations

import functools
import marshal
import os
import sys
from pathlib import Path

from .filter import seccomp_filter
from .launch import NOBODY
from .worker import sources

__all__ = ["locked_monty"]

PROGRAM_FD = 500
"""Above the limit of descriptors, so that the worker can never have another of this number."""
OWN_MB = 192
"""What the program takes for itself: its code, and stacks that it reserves."""

LAUNCH = """\
#!{python} -IS
import marshal, os, sys
sources, binary, config = marshal.loads({data!r})
for name, code in sources:
    module = sys.modules[name] = type(sys)(name)
    module.__package__, module.__path__ = "redraft_sandbox", []
    exec(code, module.__dict__)
null = os.open("/dev/null", os.O_WRONLY)
os.dup2(null, 2)
os.dup2(os.open(binary, os.O_RDONLY), {fd}, inheritable=False)
os.closerange(3, {fd})
module.lock(modules=(), user={nobody}, orphaned=True, **config)
os.execve({fd}, [binary, *sys.argv[1:]], {{}})
"""


@functools.cache
def locked_monty(memory_mb: int, _pid: int) -> str | None:
    """Return the path of a program that locks itself and becomes Monty, or None where there is no way to.

    It is a file in memory, which no user of this machine can change and which is gone when this process is.
    """
    from pydantic_monty._binary import find_monty_binary

    if sys.platform != "linux":
        return None
    try:
        bpf = seccomp_filter(files=True, program=PROGRAM_FD)
    except Exception:  # without libseccomp, of which the binding raises several kinds: the rest of the lock remains
        bpf = b""
    rlimits = {
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": 0,
        "RLIMIT_NOFILE": 64,
        "RLIMIT_AS": (OWN_MB + memory_mb) << 20,
    }
    data = marshal.dumps((sources("", "lockdown"), find_monty_binary(), {"bpf": bpf, "rlimits": rlimits}))
    python = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    held = os.memfd_create("redraft-monty")
    text = LAUNCH.format(python=python, data=data, fd=PROGRAM_FD, nobody=NOBODY).encode()
    if os.write(held, text) < len(text):
        raise OSError("the launcher of Monty could not be written")
    return f"/proc/{os.getpid()}/fd/{held}"
