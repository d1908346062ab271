"""The files of a bare Python interpreter, so that a sandbox can show these and nothing else. Internal."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Interpreter", "host_interpreter"]

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


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Paths on this machine of the parts of one CPython."""

    executable: Path
    """The real binary, also when we run in a virtual environment."""
    stdlib: Path
    """The standard library, which may hold a `site-packages` that is not part of it."""
    stdlib_name: str
    """Where the standard library lies below the prefix, such as `lib/python3.13`."""
    libraries: tuple[Path, ...]
    """Shared libraries and the loader, by the names they are looked up under."""


@functools.cache
def host_interpreter() -> Interpreter:
    """The interpreter that runs us, without any installed package.

    Raises:
        OSError, subprocess.SubprocessError: it could not be started once to ask for its libraries.
    """
    executable = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    stdlib = Path(sysconfig.get_path("stdlib")).resolve()
    asked = subprocess.run(  # noqa: S603  our own words, to our own interpreter
        [executable, "-I", "-S", "-c", PROBE], env={}, capture_output=True, check=True, timeout=30
    )
    libraries = tuple(
        path for name in json.loads(asked.stdout) if (path := Path(name)).is_absolute() and stdlib not in path.parents
    )
    return Interpreter(executable, stdlib, f"{sys.platlibdir}/{stdlib.name}", libraries)
