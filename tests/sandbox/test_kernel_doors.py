"""Escapes by the kernel: /proc, links, signals, sockets, keys and rare calls are shut, by the filter and in fact."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from typing import Any

import pytest
from redraft.sandbox import Sandbox
from redraft.sandbox.filter import seccomp_filter

RAW = (
    "import ctypes\nlibc = ctypes.CDLL(None)\ndef call(*a):\n"
    "    return libc.syscall(*[ctypes.c_long(x) if isinstance(x, int) else x for x in a])\n"
)
DOORS = {
    "the parent's open file through /proc": "answer = open(f'/proc/{parent}/fd/{opened}').read()",
    "the parent's folder through /proc": "import os\nanswer = won if os.listdir(f'/proc/{parent}/cwd') else 0",
    "the parent's command line": "answer = won if open(f'/proc/{parent}/cmdline').read() else 0",
    "its own memory as a file": "answer = won if open('/proc/self/mem', 'r+b') else 0",
    "its own pipe opened anew": "import os\nanswer = won if os.open('/proc/self/fd/1', os.O_WRONLY) else 0",
    "its own pipe by /dev/fd": "import os\nanswer = won if os.open('/dev/fd/1', os.O_WRONLY) else 0",
    "the list of processes": "import os\nanswer = [won for name in os.listdir('/proc') if name.isdigit()]",
    "the mounts": "answer = won if open('/proc/self/mountinfo').read() else 0",
    "the users": "answer = won if open('/etc/passwd').read() else 0",
    "the devices": "import os\nanswer = won if os.listdir('/dev') else 0",
    "the kernel's settings": "import os\nanswer = won if os.listdir('/sys') else 0",
    "the boot's number": "answer = won if open('/proc/sys/kernel/random/boot_id').read() else 0",
    "a hard link": "import os\nos.link(path, target)",
    "a symbolic link": "import os\nos.symlink('/etc', target)",
    "a fifo": "import os\nos.mkfifo(target)",
    "a node": "import os\nos.mknod(target)",
    "a file without a name": "import os\nanswer = won if os.open(folder, os.O_TMPFILE | os.O_RDWR) else 0",
    "a handle on a path": "import os\nanswer = won if os.open(path, os.O_PATH) else 0",
    "the times of a file": "import os\nos.utime(path, (0, 0))",
    "attributes of a file": "import os\nos.listxattr(path)\nanswer = won",
    "the size of a file system": "import os\nanswer = won if os.statvfs(folder) else 0",
    "a watch on a folder": "import ctypes\nanswer = won if ctypes.CDLL(None).inotify_init1(0) >= 0 else 0",
    "a file in memory": "import os\nanswer = won if os.memfd_create('x') else 0",
    "a copy of a descriptor": "import os\nanswer = won if os.dup(1) else 0",
    "a pipe": "import os\nanswer = won if os.pipe() else 0",
    "a signal to its group": "import os\nos.kill(0, 0)\nanswer = won",
    "a signal to the parent's group": "import os\nos.killpg(group, 0)\nanswer = won",
    "a signal through a descriptor": (
        "import os, signal\nsignal.pidfd_send_signal(os.pidfd_open(parent), 0)\nanswer = won"
    ),
    "a signal to one thread": RAW + "answer = won if call(234, parent, parent, 0) == 0 else 0",
    "signals by a pipe it owns": "import fcntl\nfcntl.fcntl(1, fcntl.F_SETOWN, parent)\nanswer = won",
    "a flag on the pipe": "import os\nos.set_blocking(1, False)\nanswer = won",
    "the parent's limits": "import resource\nresource.prlimit(parent, resource.RLIMIT_NOFILE)\nanswer = won",
    "the parent's priority": "import os\nanswer = won if os.getpriority(os.PRIO_PROCESS, parent) < 99 else 0",
    "the parent's processors": "import os\nanswer = won if os.sched_getaffinity(parent) else 0",
    "the parent's processor clock": "import time\ntime.clock_gettime((~parent << 3) | 2)\nanswer = won",
    "its parent's number": "import os\nanswer = won if os.getppid() > 0 else 0",
    "shared memory": (
        "import ctypes\nlibc = ctypes.CDLL(None)\ni = libc.shmget(0, 4096, 0o1600)\nif i >= 0:\n"
        "    libc.shmctl(i, 0, 0)\n    answer = won"
    ),
    "a key in the kernel": RAW + "answer = won if call(248, b'user', b'x', b'y', 1, -2) >= 0 else 0",
    "the clock of the machine": (
        "import ctypes\nb = ctypes.create_string_buffer(512)\n"
        "answer = won if ctypes.CDLL(None).clock_adjtime(0, b) >= 0 else 0"
    ),
    "an event descriptor": "import ctypes\nanswer = won if ctypes.CDLL(None).eventfd(0, 0) >= 0 else 0",
    "a timer that signals": (
        "import ctypes\nt = ctypes.c_void_p()\n"
        "answer = won if ctypes.CDLL(None).timer_create(1, None, ctypes.byref(t)) == 0 else 0"
    ),
    "a session of its own": "import os\nos.setsid() if os.fork() == 0 else 0\nanswer = won",
    "a personality": "import ctypes\nanswer = won if ctypes.CDLL(None).personality(0xffffffff) >= 0 else 0",
    "its name in the process list": "import ctypes\nanswer = won if ctypes.CDLL(None).prctl(15, b'x') == 0 else 0",
    "the host by its name": "import socket\nanswer = won if socket.getaddrinfo('localhost', 80) else 0",
    "sockets of other families": (
        "import ctypes\nlibc = ctypes.CDLL(None)\n"
        "answer = [won for f in (1, 2, 10, 16) for t in (1, 2, 3) if libc.socket(f, t, 0) >= 0]"
    ),
}
"""What works where nothing guards."""
RARE = {
    "the root of the first process": "answer = open('/proc/1/root' + path).read()",
    "where cores go": "import os\nanswer = won if os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY) else 0",
    "the terminal": "import os\nanswer = won if os.open('/dev/tty', os.O_RDWR) else 0",
    "the memory of the machine": "answer = won if open('/dev/mem', 'rb') else 0",
    "a namespace of the first process": (
        "import ctypes, os\nanswer = won if ctypes.CDLL(None).setns(os.open('/proc/1/ns/net', 0), 0) == 0 else 0"
    ),
    "a file by its handle": (
        "import ctypes\nh = (ctypes.c_uint32 * 40)(128)\nm = ctypes.c_int()\n"
        "answer = won if ctypes.CDLL(None).name_to_handle_at(-100, path.encode(), h, ctypes.byref(m), 0) == 0 else 0"
    ),
    "the container's engine": (
        "import socket\nsocket.socket(socket.AF_UNIX).connect('/var/run/docker.sock')\nanswer = won"
    ),
    "a socket to the host of a virtual machine": (
        "import ctypes\nanswer = won if ctypes.CDLL(None).socket(40, 1, 0) >= 0 else 0"
    ),
    "more than three pipes": (
        "import ctypes\nlibc = ctypes.CDLL(None)\n"
        # A newer libffi keeps its own file open, to read: the flags of such a descriptor are those of a large file.
        "answer = won if sum(libc.fcntl(fd, 3) not in (-1, 0x8000) for fd in range(3, 5000)) != 1 else 0"
    ),
    "the calls of another architecture": RAW + "answer = won if call(0x40000000 + 39) > 0 else 0",
    "the calls of 32 bits": (
        "import ctypes, mmap\nm = mmap.mmap(-1, 4096, prot=7)\n"
        "m.write(b'\\xb8\\x14\\0\\0\\0\\xcd\\x80\\xc3')\n"
        "f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))\n"
        "answer = won if f() > 0 else 0"
    ),
}
"""What works on some machines only, or needs rights that tests don't have."""


@pytest.mark.one_of_each("code")
@pytest.mark.parametrize("code", (DOORS | RARE).values(), ids=DOORS | RARE)
def test_no_door_of_the_kernel_is_open(code: str, sandbox: Sandbox, machine: Any) -> None:
    """Nothing of the machine, its processes or its kernel answers to the code."""
    assert machine.lost(sandbox.run(code, machine.inputs)) == []


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="some of these name calls by their number on x86_64")
@pytest.mark.parametrize("code", DOORS.values(), ids=DOORS)
def test_each_door_is_open_where_nothing_guards(code: str, only: Callable[..., Sandbox], machine: Any) -> None:
    """These attacks are real: with every guard switched off, each of them gets what it wants."""
    result = only("nothing").run(code, machine.inputs)
    assert machine.lost(result), result


FORBIDDEN = (  # noqa: SIM905
    "accept accept4 acct add_key adjtimex arch_prctl bind bpf capset chdir chmod chown chroot clock_adjtime "
    "clock_settime clone clone3 close_range connect copy_file_range creat create_module delete_module dup dup2 dup3 "
    "epoll_create epoll_create1 eventfd eventfd2 execve execveat fallocate fanotify_init fchdir fchmod fchmodat "
    "fchown fchownat finit_module flock fork fsconfig fsetxattr fsmount fsopen ftruncate futimesat get_mempolicy "
    "getpeername getpgid getpgrp getppid getpriority getsid getsockname getsockopt getxattr init_module "
    "inotify_add_watch inotify_init inotify_init1 io_setup io_submit io_uring_enter io_uring_register io_uring_setup "
    "ioctl ioperm iopl ioprio_set kcmp kexec_file_load kexec_load keyctl kill landlock_create_ruleset lchown link "
    "linkat listen listxattr lookup_dcookie mbind memfd_create memfd_secret migrate_pages mincore mkdir mkdirat mknod "
    "mknodat mlock mlockall modify_ldt mount mount_setattr move_mount move_pages mq_open msgget msync "
    "name_to_handle_at open_by_handle_at open_tree openat2 perf_event_open personality pidfd_getfd pidfd_open "
    "pidfd_send_signal pipe pipe2 pivot_root pkey_mprotect prctl process_madvise process_mrelease process_vm_readv "
    "process_vm_writev ptrace pwrite64 pwritev quotactl reboot recvfrom recvmmsg recvmsg remap_file_pages removexattr "
    "rename renameat renameat2 request_key rmdir rt_sigqueueinfo rt_tgsigqueueinfo sched_setaffinity sched_setattr "
    "sched_setscheduler seccomp semget sendfile sendmmsg sendmsg sendto set_mempolicy setdomainname setfsuid setgid "
    "setgroups sethostname setitimer setns setpgid setpriority setregid setresgid setresuid setreuid setrlimit setsid "
    "setsockopt settimeofday setuid setxattr shmat shmctl shmget shutdown signalfd signalfd4 socket socketpair splice "
    "statfs swapoff swapon symlink symlinkat sync sync_file_range syncfs sysfs syslog tee tgkill timer_create "
    "timerfd_create tkill truncate umask umount2 unlink unlinkat unshare uselib userfaultfd ustat utime utimensat "
    "utimes vfork vhangup vm86 vmsplice waitid wait4 writev"
).split()
WITH_ARGUMENTS: dict[str, list[tuple[int, ...]]] = {
    "fcntl": [(1, command) for command in (0, 4, 5, 6, 7, 8, 10, 1024, 1026, 1030, 1033)],
    "prlimit64": [(1, 7, 0, 0), (0, 7, 1, 0)],
    "sched_getaffinity": [(1, 8, 0)],
    "clock_gettime": [(2**64 - 6, 0), (0xFFFFFFFA, 0), (12, 0)],
    "clock_getres": [(0xFFFFFFFA, 0)],
    "clock_nanosleep": [(0xFFFFFFFA, 0)],
    "openat": [(0, 0, flags) for flags in (1, 2, os.O_CREAT, os.O_TRUNC, os.O_APPEND, getattr(os, "O_TMPFILE", 1))],
    "open": [(0, flags) for flags in (1, 2, os.O_CREAT, os.O_TRUNC, os.O_APPEND)],
}
"""Calls that are allowed with other arguments than these."""
WITHOUT_FILES = {
    "mmap": [(0, 4096, 4), (0, 4096, 7)],
    "mprotect": [(0, 4096, 4), (0, 4096, 5)],
    **{name: [(0, 0, 0)] for name in ("open", "openat", "stat", "newfstatat", "statx", "readlink", "access", "getcwd")},
}


@pytest.fixture
def pyseccomp() -> Any:
    """The binding of libseccomp, or a skip, or where CI demands the layer a failure."""
    try:
        import pyseccomp as binding  # type: ignore[import-untyped]
    except (ImportError, OSError, RuntimeError) as error:
        if "seccomp" in os.environ.get("REDRAFT_REQUIRE_SANDBOX", ""):
            raise
        pytest.skip(str(error))
    return binding


@pytest.mark.parametrize("files", [True, False])
def test_the_filter_refuses_every_call_that_reaches_out(files: bool, pyseccomp: Any) -> None:
    """The program that the kernel is given says no to each call by which anyone ever got out, by its own words."""
    program, native = seccomp_filter(files=files), pyseccomp.system_arch()
    cases = {name: [(0,) * 6, (1,) * 6, (2**64 - 1,) * 6] for name in FORBIDDEN} | WITH_ARGUMENTS
    cases |= {} if files else WITHOUT_FILES
    known = {name: number for name in cases if (number := pyseccomp.resolve_syscall(native, name)) >= 0}
    arch = _architecture(program)
    open_ = [
        (name, args)
        for name, number in known.items()
        for args in cases[name]
        if _verdict(program, number, arch, args) != REFUSED
    ]
    assert open_ == []
    assert len(known) > 150
    assert {_verdict(program, number, arch, (0,) * 6) for number in range(450, 1 << 12)} == {REFUSED}


@pytest.mark.parametrize("files", [True, False])
def test_calls_of_a_foreign_architecture_end_the_process(files: bool, pyseccomp: Any) -> None:
    """Nobody gets round the filter by the numbers of another architecture, such as 32 bits."""
    program = seccomp_filter(files=files)
    del pyseccomp
    foreign = _architecture(program) ^ 1
    assert {_verdict(program, number, foreign, (0,) * 6) for number in range(512)} <= {KILL_THREAD, KILL_PROCESS}


REFUSED = 0x0005_0000 | errno.EPERM
KILL_THREAD, KILL_PROCESS = 0, 0x8000_0000
ARCHITECTURE = 4
"""Where the architecture stands in what a filter is shown."""


def _instructions(program: bytes) -> list[tuple[int, int, int, int]]:
    return list(struct.iter_unpack("=HBBI", program))


def _architecture(program: bytes) -> int:
    """The one architecture that `program` knows: what it compares the loaded architecture with first."""
    words = _instructions(program)
    at = next(i for i, (code, _, _, value) in enumerate(words) if code == 0x20 and value == ARCHITECTURE)
    return words[at + 1][3]


def _verdict(program: bytes, number: int, arch: int, args: tuple[int, ...]) -> int:
    """What the kernel does with a call under `program`, as its machine for filters would work it out."""
    seen = struct.pack("=iIQ6Q", number, arch, 0, *(*args, *(0,) * 6)[:6])
    words, at, held = _instructions(program), 0, 0
    tests: dict[int, Callable[[int, int], bool]] = {
        0x15: lambda a, k: a == k,
        0x25: lambda a, k: a > k,
        0x35: lambda a, k: a >= k,
        0x45: lambda a, k: bool(a & k),
    }
    while True:
        code, yes, no, value = words[at]
        at += 1
        if code == 0x06:
            return value
        if code == 0x20:
            (held,) = struct.unpack_from("=I", seen, value)
        elif code == 0x54:
            held &= value
        elif code == 0x05:
            at += value
        else:
            at += yes if tests[code](held, value) else no
