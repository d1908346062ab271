"""Commands in a copy of a folder: under bubblewrap, where nothing else is written, or plainly. Internal."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from ..state.dual import ABANDONED

__all__ = ["Box", "Finished", "UnboxedError", "refusal", "require_box", "words_of"]

INSIDE = "/tmp/work"  # noqa: S108  where the copy is seen to be, in a /tmp of its own
MOST_SHOWN = 64 << 10
MOST_WRITTEN = 1 << 30
"""Bytes, of a file, of the whole copy, and of each folder in memory that stands before one of the machine's."""
MOST_PROCESSES = 1000
ULIMITS = 'ulimit -c 0; ulimit -f %d; { ulimit -u %d || ulimit -p %d; } 2>/dev/null; exec "$@"'
"""Shells differ in the letter for processes."""
MOST_MEMORY = 0.75
"""Of the machine's memory that was free when the command began."""


class UnboxedError(ValueError):
    """This machine can't keep a command in its copy."""


@dataclass(frozen=True)
class Finished:
    """A command that ended, or was ended."""

    code: int
    output: str
    """What it wrote, to both channels; of much, the beginning and the end."""
    ended: str = ""
    """Why it was ended, if it was."""


@dataclass(frozen=True)
class Box:
    """How commands are run.

    Args:
        plain: As anyone else's program is: it sees, writes and reaches all that the user can.
        network: Whether it has one.
        timeout_s: Seconds until it is ended.
        writable: Folders outside the copy that it may write, such as the one where an agent keeps its sessions.
        hidden: Folders that it does not see, beside the user's home.
    """

    plain: bool = False
    network: bool = False
    timeout_s: float = 300
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()

    def run(self, command: str | Sequence[str], folder: Path) -> Finished:
        """Run a command in a folder: a text by the shell, words as they are.

        Raises:
            UnboxedError: It can't be kept there, and `plain` was not asked for.
            OSError: The program can't be started.
        """
        words = ["/bin/sh", "-c", command] if isinstance(command, str) else [*command]
        if not self.plain:
            require_box(plain=False)
            words = [*self._bubblewrap(folder), *words]
        # Set by a shell, since a function run between fork and exec may hang where there are threads.
        processes, memory = _room()
        words = ["/bin/sh", "-c", ULIMITS % (MOST_WRITTEN // 512, processes, processes), "sh", *words]
        started: Any = {
            "cwd": folder,
            "stdin": subprocess.DEVNULL,
            "start_new_session": True,
            "env": self._environment(),
        }
        process = subprocess.Popen(  # noqa: S603  what the user asked for
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **started
        )
        output = _Output(process)
        abandoned = ABANDONED.get()
        deadline, ended = monotonic() + self.timeout_s, ""
        try:
            while not ended and process.poll() is None:
                output.thread.join(0.2)
                if abandoned is not None and abandoned.is_set():
                    ended = "it was ended with the run"
                elif monotonic() > deadline:
                    ended = f"it was ended after {self.timeout_s:g} seconds"
                elif _size(folder) > MOST_WRITTEN:
                    ended = f"it was ended, since it had written more than {MOST_WRITTEN >> 20} MB"
                elif why := _greedy(process.pid, memory):
                    ended = f"it was ended, since it had {why}"
        finally:
            _kill(process)  # also what it left running
            output.thread.join(5)
        return Finished(process.wait(), output.text(), ended)

    def _environment(self) -> dict[str, str]:
        kept = (
            os.environ
            if self.plain or self.network
            else {name: os.environ[name] for name in KEPT if name in os.environ}
        )
        return {**kept, "PYTHONDONTWRITEBYTECODE": "1", "TERM": "dumb"}

    def _bubblewrap(self, folder: Path) -> Iterator[str]:
        """Yield the words before the command: all is read-only but the copy, and the home is empty but for programs."""
        yield from (
            str(shutil.which("bwrap")),
            "--unshare-all",
            "--die-with-parent",
            "--new-session",
            "--cap-drop",
            "ALL",
        )
        yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
        home = str(Path.home())
        empty = ["/tmp", "/dev/shm"]  # noqa: S108
        if self.network:  # an agent's own keys and settings are there
            yield from ("--share-net",)
        else:
            empty.append("/run")
        hidden = [place for place in (*(() if self.network else (home,)), *self.hidden) if Path(place).is_dir()]
        for place in (*empty, *hidden):  # each in memory
            yield from ("--size", str(MOST_WRITTEN), "--tmpfs", place)
        for place in _programs():
            if any(parent in map(str, Path(place).parents) for parent in ("/tmp", *hidden)):  # noqa: S108
                yield from ("--ro-bind", place, place)
        for place in self.writable:
            yield from ("--bind-try", str(Path(place).expanduser()), str(Path(place).expanduser()))
        yield from ("--bind", str(folder), INSIDE, "--chdir", INSIDE, "--")


def require_box(*, plain: bool) -> None:
    """Raise UnboxedError where commands can't be kept in a copy, and that is not what was asked for."""
    if not plain and (why := refusal()):
        raise UnboxedError(
            f"{why}; --plain (in Python plain=True) runs commands as any other program, without a sandbox"
        )


KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "VIRTUAL_ENV", "NODE_PATH", "JAVA_HOME", "GOROOT", "TZ")
"""Of the environment, where keys often are, what a check is given."""


@functools.cache
def refusal() -> str:
    """Return the reason why commands can't be kept in a copy here; empty where they can."""
    if not (bwrap := shutil.which("bwrap")):
        return "a check runs in a sandbox, which needs the program bwrap (Debian: apt install bubblewrap)"
    probe = [bwrap, "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "true"]
    done = subprocess.run(probe, capture_output=True, text=True, check=False)  # noqa: S603
    return f"bubblewrap is refused by this machine: {done.stderr.strip()}" if done.returncode else ""


@functools.cache
def _programs() -> tuple[str, ...]:
    """Return the folders that programs are run from, with their libraries: those on PATH, and Python's."""
    home = Path.home()
    places = [Path(sys.prefix), Path(sys.base_prefix)]
    for name in os.environ.get("PATH", "").split(os.pathsep):
        folder = Path(name or ".")
        if folder.is_absolute() and folder.is_dir():
            own = folder.parent in (home, home / ".local")  # beside them stands what is nobody's business
            places += [folder, folder.parent / "lib"] if own or folder.name not in ("bin", "shims") else [folder.parent]
            places += [program.resolve().parent.parent for program in folder.glob("python3*") if program.is_symlink()]
    found = {str(place) for place in places if place.is_dir() and place not in (home, Path("/"))}
    # A folder before those within it, which it shows already.
    return tuple(sorted(place for place in found if not any(str(parent) in found for parent in Path(place).parents)))


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a command with all that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _room() -> tuple[int, int]:
    """Return how many threads the user may have beside a command, and the bytes of memory that it may take.

    Linux counts all threads of the user, and none of root's.
    """
    import psutil  # type: ignore[import-untyped]

    own = [one.info for one in psutil.process_iter(["uids", "num_threads"]) if one.info["uids"]]
    threads = sum(one["num_threads"] or 1 for one in own if one["uids"].real == os.getuid())
    # Twice: who watches what the command started says why it ends, before nothing can be started.
    return 2 * MOST_PROCESSES + threads, int(MOST_MEMORY * psutil.virtual_memory().available)


def _greedy(pid: int, most: int) -> str:
    """Return what a command has too much of, with all that it started: processes, or bytes of memory; else nothing."""
    import psutil

    def held(measure: str, *names: str) -> int:
        total = 0
        for process in everyone:
            with contextlib.suppress(psutil.Error):  # it has ended
                found = getattr(process, measure)()
                total += next(getattr(found, name) for name in names if hasattr(found, name))
        return total

    try:
        command = psutil.Process(pid)
        everyone = [command, *command.children(recursive=True)]
    except psutil.Error:
        return ""
    if len(everyone) > MOST_PROCESSES:
        return f"started more than {MOST_PROCESSES} processes"
    # Then more exactly, where the machine can tell: what they share counts once.
    if held("memory_info", "rss") > most and held("memory_full_info", "pss", "uss") > most:
        return f"taken more than {most >> 20} MB of memory"
    return ""


def _size(folder: Path) -> int:
    """Return the bytes that a folder takes on the disk."""
    total = 0
    for directory, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(directory, name)).st_blocks * 512
            except OSError:  # gone by now
                continue
    return total


class _Output:
    """What a command writes, read as it comes: the beginning and the end of it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.head, self.tail = bytearray(), bytearray()
        self.left_out = 0
        self.thread = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
        self.thread.start()

    def _read(self, pipe: Any) -> None:
        with pipe:
            while chunk := pipe.read1(1 << 16):
                room = MOST_SHOWN - len(self.head)
                self.head += chunk[:room]
                self.tail += chunk[room:] if room > 0 else chunk
                if (over := len(self.tail) - MOST_SHOWN) > 0:
                    del self.tail[:over]
                    self.left_out += over

    def text(self) -> str:
        middle = f"\n[… {self.left_out:,} bytes left out …]\n".encode() if self.left_out else b""
        return (bytes(self.head) + middle + bytes(self.tail)).decode(errors="replace")


def words_of(command: str, prompt: str) -> list[str]:
    """Return the words of a command, with `{prompt}` filled in."""
    return [word.replace("{prompt}", prompt) for word in shlex.split(command)]
