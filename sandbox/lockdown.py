"""Lockdown of a child process, done before it reads the first word of model-written code. Internal.

Runs in the child only, on a bare interpreter; `main` in `child.py` calls it first.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["lock"]

PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 22, 24, 38
CAPABILITY_HEADER = (0x20080522).to_bytes(4, sys.byteorder) + bytes(4)
"""Version 3 of the kernel's table of capabilities, and this process."""
SECCOMP_MODE_FILTER = 2


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def lock(
    bpf: bytes, *, modules: Iterable[str], rlimits: Mapping[str, int], user: int | None, orphaned: bool = False
) -> None:
    """Return only once this process has given up everything that the filter does not allow.

    Args:
        bpf: the seccomp program, as libseccomp exports it; empty: none.
        modules: imported first, because files may be out of reach afterwards; one that is not there is passed over.
        rlimits: what the kernel grants at most, by the names of `resource`, such as `RLIMIT_CPU`.
        user: whom to become where we are root; None: stay who we are.
        orphaned: live on when the thread that started this process ends.

    Raises:
        OSError: the kernel refused a step, or a call that must be refused was not.
    """
    for name in modules:
        with contextlib.suppress(ImportError):
            __import__(name)
    libc = ctypes.CDLL(None, use_errno=True)
    if user is not None and os.getuid() == 0:
        for capability in range(64):
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
        with contextlib.suppress(PermissionError):  # in a user namespace there may be no one else to become
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
    if (
        user is not None and libc.capset(CAPABILITY_HEADER, bytes(24)) != 0
    ):  # root that could become no one else has them
        raise OSError(ctypes.get_errno(), "capset was refused")
    for name, value in rlimits.items():
        resource.setrlimit(getattr(resource, name), (value, value))
    program = _Program(len(bpf) // 8, bpf)
    options: list[tuple[Any, ...]] = [
        (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        *([] if orphaned else [(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)]),
        *([(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0)] if bpf else []),
    ]
    for option in options:
        if libc.prctl(*option) != 0:
            raise OSError(ctypes.get_errno(), f"prctl {option[0]} was refused")
    if bpf:
        try:
            os.getpgid(0)  # harmless, and not on the list: proof that the filter is in force
        except PermissionError:
            return
        raise OSError("the seccomp filter is not in force")
