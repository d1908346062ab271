"""The seccomp filter: a list of the system calls that running Python needs, with everything else refused. Internal."""

from __future__ import annotations

import errno
import functools
import os
import tempfile
from typing import Any

__all__ = ["seccomp_filter"]

COMPUTE = (  # noqa: SIM905  one name a line would hide the list
    "read write close lseek brk munmap mremap madvise futex exit exit_group restart_syscall sched_yield "
    "rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack getpid gettid getuid geteuid getgid getegid getrusage "
    "nanosleep gettimeofday time times getrandom poll ppoll select pselect6 uname getrlimit"
).split()
"""Memory, time, random numbers, and the pipes that are open already."""

READ_FILES = (  # noqa: SIM905
    "fstat newfstatat fstatat64 stat lstat statx readlink readlinkat access faccessat faccessat2 getdents64 "
    "getcwd pread64 mmap mprotect"
).split()
"""Looking at files and executing them; only for a process that already sees none but the standard library."""

THREADS = ["set_robust_list", "rseq", "set_tid_address", "arch_prctl"]
"""How a program begins, and a thread of it."""
CLONE_THREAD = 0x10000
PR_SET_NAME = 15

PROT_EXEC = 4
READ_ONLY_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | getattr(os, "O_TMPFILE", 0)
CLOCKS = ("clock_gettime", "clock_getres", "clock_nanosleep")
LAST_CLOCK = 11
"""CLOCK_TAI; a number beyond it names the processor clock of another process, and so tells which ones there are."""
FCNTL_READS = (1, 2, 3)  # F_GETFD, F_SETFD, F_GETFL: the same numbers on every architecture of Linux


@functools.cache
def seccomp_filter(*, files: bool, program: int | None = None) -> bytes:
    """Return the BPF program that lets a process compute and, with `files`, open files to read them.

    No process or thread can be started, no program executed, no socket or file made, no signal sent and no other
    process looked at; without `files` no path can be opened or even looked up, and no memory made executable. A
    refused call fails with EPERM; one of a foreign architecture kills the process.

    Args:
        files: allow reading files, which needs a file system that holds nothing private.
        program: a descriptor, the only one from which a program may be executed, which may start threads. The limit of
            descriptors must be below it, so that there never is another of this number.

    Raises:
        ImportError, OSError, RuntimeError: libseccomp is not there or does not know this architecture.
    """
    import pyseccomp  # type: ignore[import-untyped]

    rules = pyseccomp.SyscallFilter(pyseccomp.ERRNO(errno.EPERM))
    native = pyseccomp.system_arch()

    def allow(name: str, *conditions: Any) -> None:
        if pyseccomp.resolve_syscall(native, name) != -1:  # -1: a name this libseccomp has not heard of
            rules.add_rule(pyseccomp.ALLOW, name, *conditions)

    def unset(position: int, bits: int) -> Any:
        return pyseccomp.Arg(position, pyseccomp.MASKED_EQ, bits, 0)

    for name in (*COMPUTE, *(READ_FILES if files else ()), *(THREADS if program is not None else ())):
        allow(name)
    for command in FCNTL_READS:
        allow("fcntl", pyseccomp.Arg(1, pyseccomp.EQ, command))
    for name in CLOCKS:
        allow(name, pyseccomp.Arg(0, pyseccomp.LE, LAST_CLOCK))
    allow("sched_getaffinity", pyseccomp.Arg(0, pyseccomp.EQ, 0))
    allow("prlimit64", pyseccomp.Arg(0, pyseccomp.EQ, 0), pyseccomp.Arg(2, pyseccomp.EQ, 0))
    if files:
        allow("openat", unset(2, READ_ONLY_FLAGS & ~os.O_DIRECTORY))
        allow("open", unset(1, READ_ONLY_FLAGS & ~os.O_DIRECTORY))
    else:
        allow("mmap", unset(2, PROT_EXEC))
        allow("mprotect", unset(2, PROT_EXEC))
    if program is not None:
        allow("clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, CLONE_THREAD, CLONE_THREAD))
        rules.add_rule(
            pyseccomp.ERRNO(errno.ENOSYS), "clone3"
        )  # whose flags a filter can't see: libc then asks `clone`
        allow("prctl", pyseccomp.Arg(0, pyseccomp.EQ, PR_SET_NAME))
        allow("execveat", pyseccomp.Arg(0, pyseccomp.EQ, program))
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()
