"""Launching the child of each native layer, and probing whether this machine can. Internal."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from .filter import seccomp_filter
from .lockdown import lock
from .result import Limits
from .worker import Worker

__all__ = ["Native", "lock_reader", "missing", "names_module", "start"]

Native = Literal["bubblewrap", "seccomp"]

PYTHON = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
"""The real binary of the interpreter that runs us, also in a virtual environment."""
NOBODY = 65534
"""Whom a child becomes where we are root, who is above most limits."""
PREFIX = "/python"
"""Where the interpreter is seen to be under bubblewrap."""
BARE = ("-I", "-S", "-B", "-X", "utf8", "-c")
"""Isolated from the environment and the working directory, without installed packages."""

IMPORT = re.compile(r"^[ \t]*(?:import[ \t]+([\w., \t]+)|from[ \t]+([\w.]+)[ \t]+import\b)", re.MULTILINE)
PRELOADED = (  # noqa: SIM905
    "_strptime abc bisect collections collections.abc copy dataclasses decimal encodings.ascii encodings.latin_1 enum "
    "fractions functools heapq itertools json math operator random re statistics string typing"
).split()
"""Imported before files go out of reach."""
ON_DEMAND = (  # noqa: SIM905
    "argparse array ast asyncio atexit base64 binascii builtins bz2 calendar cmath codecs collections colorsys "
    "concurrent.futures configparser contextlib contextvars copyreg csv ctypes datetime difflib dis doctest email "
    "errno fileinput fnmatch gc getopt gettext glob graphlib gzip hashlib hmac html html.entities html.parser http "
    "importlib importlib.util inspect io ipaddress keyword linecache locale logging lzma mmap multiprocessing "
    "numbers os os.path pathlib pickle pkgutil platform pprint queue quopri reprlib resource sched secrets select "
    "selectors shlex shutil signal socket sqlite3 stat string struct subprocess symtable sys sysconfig tempfile "
    "textwrap threading time timeit token tokenize traceback tracemalloc types unicodedata unittest unittest.mock "
    "urllib urllib.parse urllib.request uuid warnings weakref xml.dom.minidom xml.etree xml.etree.ElementTree "
    "zipfile zlib zoneinfo"
).split()
"""Imported then where the code names them: a fixed list, since importing `unittest.__main__` or `this` runs it."""
MISSING_BWRAP = "bubblewrap needs the program bwrap (Debian: apt install bubblewrap)"
MISSING_SECCOMP = (
    "seccomp needs pip install '.[sandbox]' in a checkout and libseccomp (Debian: apt install libseccomp2)"
)

PROBE = """
import ctypes, json, sys
for name in ("array binascii bz2 cmath datetime decimal hashlib json lzma math random sqlite3 ssl "
             "statistics struct unicodedata uuid zlib zoneinfo").split():
    try:
        __import__(name)
    except ImportError:
        pass
class Info(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("name", ctypes.c_char_p)]
names = []
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Info), ctypes.c_size_t, ctypes.c_void_p)
def note(info, size, data):
    names.append((info.contents.name or b"").decode())
    return 0
ctypes.CDLL(None).dl_iterate_phdr(CALLBACK(note), None)
print(json.dumps(names))
"""
"""Asks the loader under which names it found the shared libraries; ELF headers alone do not say where they are."""


def start(layer: Native, limits: Limits, *, code: str, main: bool) -> Worker:
    """Return a child of `layer` on its way to being locked; `code` is only read for the modules it names.

    Raises:
        OSError, ImportError, subprocess.SubprocessError: this machine can't start one.
    """
    files = layer == "bubblewrap"
    config: dict[str, Any] = {
        "bpf": seccomp_filter(files=files),
        "modules": [] if files else [*PRELOADED, *(name for name in imported(code) if name in ON_DEMAND)],
        "main": main,
        "rlimits": rlimits(limits),
        "user": NOBODY,
    }
    argv = bubblewrap() if files else [str(PYTHON)]
    return Worker([*argv, *BARE], config, max_output=limits.max_output)


def lock_reader() -> None:
    """Lock this process, a helper of our own: it reads files from now on, and no more than that.

    On a machine that has no seccomp, or refuses it, nothing happens.
    """
    with contextlib.suppress(Exception):  # the binding raises several kinds when the library is not there
        lock(seccomp_filter(files=True), modules=(), rlimits={"RLIMIT_CORE": 0}, user=None, orphaned=True)


def rlimits(limits: Limits) -> dict[str, int]:
    """Return a child's resource limits. None of them replaces the wall clock, which `Worker.ask` watches."""
    return {
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": 0,
        "RLIMIT_NPROC": 0,
        "RLIMIT_NOFILE": 64,
        "RLIMIT_CPU": math.ceil(limits.timeout_s) + 1,
        "RLIMIT_AS": limits.memory_mb << 20,
    }


def imported(code: str) -> list[str]:
    """Modules that `code` names, found without parsing: hostile code can crash a parser."""
    names = []
    for plain, source in IMPORT.findall(code):
        names += [source] if source else [part.split()[0] for part in plain.split(",") if part.split()]
    return names


def names_module(code: str, message: str) -> bool:
    """Return True if `code` imports the module, or a part of the package, that an error says is not there."""
    lacking = re.search(r"No module named '(\w+)", message)
    return lacking is not None and lacking[1] in {name.partition(".")[0] for name in imported(code)}


@functools.cache
def bubblewrap() -> Sequence[str]:
    """Return the command line that shows a child its interpreter, the standard library and nothing else.

    Raises:
        FileNotFoundError: there is no bwrap.
        OSError, subprocess.SubprocessError: the interpreter could not be started once to ask for its libraries.
    """
    if not (bwrap := shutil.which("bwrap")):
        raise FileNotFoundError(MISSING_BWRAP)
    # May hold a `site-packages`, which is not part of the standard library.
    stdlib = Path(sysconfig.get_path("stdlib")).resolve()
    probe = subprocess.run(  # noqa: S603  our own words, to our own interpreter
        [PYTHON, "-I", "-S", "-c", PROBE], env={}, capture_output=True, check=True, timeout=30
    )
    libraries = [path for name in json.loads(probe.stdout) if (path := Path(name)).is_absolute()]
    libraries = [path for path in libraries if stdlib not in path.parents]
    inside = f"{PREFIX}/{sys.platlibdir}/{stdlib.name}"
    command = [
        *(bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"),
        *("--uid", str(NOBODY), "--gid", str(NOBODY), "--hostname", "sandbox"),
        *("--ro-bind", str(PYTHON), f"{PREFIX}/bin/python3"),
        *("--ro-bind", str(stdlib), inside),
    ]
    for packages in ("site-packages", "dist-packages"):
        if (stdlib / packages).is_dir():
            command += ["--tmpfs", f"{inside}/{packages}", "--remount-ro", f"{inside}/{packages}"]
    for library in libraries:
        command += ["--ro-bind", str(library.resolve()), str(library)]
    folders = dict.fromkeys(str(library.parent) for library in libraries)
    command += ["--setenv", "LD_LIBRARY_PATH", ":".join(folders)] if folders else []
    return (*command, "--remount-ro", "/", "--chdir", "/", f"{PREFIX}/bin/python3")


@functools.cache
def missing(layer: Native) -> str:
    """Return the reason why `layer` can't run here, in one line that says what to install; empty when a child was seen
    to lock itself."""
    if sys.platform != "linux":
        return f"{layer} needs Linux"
    try:
        seccomp_filter(files=True)
    except Exception as error:  # the binding raises several kinds when the library is not there
        return f"{MISSING_SECCOMP}: {error}".splitlines()[0]
    try:
        with start(layer, Limits(timeout_s=5, memory_mb=256, max_output=2000), code="", main=True) as worker:
            worker.wait_locked()
    except FileNotFoundError as error:
        return str(error)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{layer} is refused by this machine: {' '.join(str(error).split())}"
    return ""
