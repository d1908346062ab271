"""Python processes that start at once: a parent that has imported redraft forks for each of them.

Importing LangGraph takes two seconds of CPU, most of what a short command costs. A process from here is one of its own
in all that tests look at: its pid, its signals, its files, its folder, its environment and the way it ends. When the
tests end, however they do, the parent reads the end of its socket and kills what it has started. This file is the
parent's program too.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

PIPE = subprocess.PIPE
BESIDE = (  # what redraft imports when it first needs it
    "aiohttp",
    "genai_prices.data",
    "httpcore2",
    "langgraph.checkpoint.sqlite",
    "langchain_openai",
    "openai.resources.chat.completions",
    "openai.types.responses",
    "psycopg",
    "truststore",
    "uvicorn",
)


class Process:
    """A process of `parent`, which is used as `subprocess.Popen` is, with texts.

    Args:
        parent: What forks.
        words: As after `python`: `-c`, a program and its arguments, or a file and its arguments.
        stdin, stdout, stderr: A descriptor, `PIPE`, or ours.
        cwd: Ours unless given.
        env: Ours unless given.
        start_new_session: Make it the first of a group of its own.
    """

    def __init__(
        self,
        parent: socket.socket,
        words: Sequence[str | Path],
        *,
        stdin: int = 0,
        stdout: int = 1,
        stderr: int = 2,
        cwd: str | Path | None = None,
        env: dict[str, str] | None = None,
        start_new_session: bool = False,
    ) -> None:
        self.args = [str(word) for word in words]
        self.returncode: int | None = None
        status, reported = os.pipe()
        theirs, ours = [reported], []
        for given, mode in ((stdin, "w"), (stdout, "r"), (stderr, "r")):
            if given == PIPE:
                reading, writing = os.pipe()
                their, our = (reading, writing) if mode == "w" else (writing, reading)
                ours.append(open(our, mode, encoding="utf-8"))  # noqa: SIM115
            else:
                their = os.dup(given)
                ours.append(None)
            theirs.append(their)
        self.stdin: IO[str] | None
        self.stdout: IO[str] | None
        self.stderr: IO[str] | None
        self.stdin, self.stdout, self.stderr = ours
        place = {"cwd": str(cwd or os.getcwd()), "env": dict(os.environ if env is None else env)}
        request = json.dumps({"words": self.args, "session": start_new_session, **place}).encode()
        with LOCK:
            socket.send_fds(parent, [len(request).to_bytes(8, "big")], theirs)
            parent.sendall(request)
        for descriptor in theirs:
            os.close(descriptor)
        self._status = open(status)  # noqa: SIM115
        self.pid = int(self._status.readline())

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; the exit code, or the negative number of the signal that ended it."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = os.waitstatus_to_exitcode(int(self._status.readline() or signal.SIGKILL))
            self._status.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read both pipes to their ends and wait; what was written."""
        read = ["", ""]

        def to_end(number: int, file: IO[str] | None) -> None:
            read[number] = file.read() if file else ""

        files = enumerate((self.stdout, self.stderr))
        readers = [threading.Thread(target=to_end, args=file, daemon=True) for file in files]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(timeout)
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(timeout)
        self._close()
        return read[0], read[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        self.wait()

    def _close(self) -> None:
        for file in (self.stdin, self.stdout, self.stderr):
            if file:
                file.close()


LOCK = threading.Lock()


class Forking:
    """What starts processes: `forking.start([…])` as Popen, `forking.run([…])` as `subprocess.run`."""

    def __init__(self, parent: socket.socket) -> None:
        self._parent = parent

    def start(self, words: Sequence[str | Path], **options: Any) -> Process:
        """Start a process."""
        return Process(self._parent, words, **options)

    def run(self, words: Sequence[str | Path], **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a process to its end, with what it writes unless that goes elsewhere."""
        with self.start(words, **{"stdout": PIPE, "stderr": PIPE, **options}) as process:
            out, err = process.communicate()
            return subprocess.CompletedProcess(process.args, process.wait(), out, err)


@contextmanager
def started(*, bare: bool = False) -> Iterator[Forking]:
    """Start the parent, which ends with the block; a `bare` one imports nothing first."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, __file__, str(theirs.fileno()), *(["bare"] if bare else [])]
    # It has a group of its own: Ctrl-C is for the tests, whose end it waits for.
    with ours, theirs, subprocess.Popen(command, pass_fds=[theirs.fileno()], start_new_session=True):
        theirs.close()
        yield Forking(ours)
        ours.close()


def import_all() -> None:
    """Import what the commands need."""
    import redraft.faces.cli

    commands = [f"redraft.faces.cli.{module.name}" for module in pkgutil.iter_modules(redraft.faces.cli.__path__)]
    for name in (*BESIDE, *commands):
        importlib.import_module(name)
    for name in redraft.__all__:
        getattr(redraft, name)


def serve(requests: socket.socket) -> None:
    """Fork for each request, tell how each child ended, and kill those that are left when the requests end."""
    assert threading.active_count() == 1, threading.enumerate()  # a fork has the thread that called it, and no other
    gc.collect()
    gc.freeze()  # so that a child's collections copy no page
    ended, waker = os.pipe()
    os.set_blocking(ended, False)
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    running: dict[int, int] = {}
    while True:
        ready = select.select([requests, ended], [], [])[0]
        if ended in ready:
            with suppress(BlockingIOError):
                os.read(ended, 1000)
            with suppress(ChildProcessError):
                while (found := os.waitpid(-1, os.WNOHANG))[0]:
                    reported = running.pop(found[0])
                    with suppress(BrokenPipeError):
                        os.write(reported, b"%d\n" % found[1])
                    os.close(reported)
        if requests in ready:
            size, descriptors, _, _ = socket.recv_fds(requests, 8, 4)
            if not size:
                break
            request = json.loads(requests.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL))
            child = os.fork()
            if not child:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for descriptor in (requests.detach(), ended, waker, *running.values()):
                    os.close(descriptor)
                become(request, descriptors)
                return
            running[child] = descriptors[0]
            os.write(descriptors[0], b"%d\n" % child)
            for descriptor in descriptors[1:]:
                os.close(descriptor)
    for child in running:
        os.kill(child, signal.SIGKILL)


def become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Be the process that was asked for."""
    if request["session"]:
        os.setsid()
    for number, descriptor in enumerate(descriptors[1:]):
        os.dup2(descriptor, number)
    for descriptor in descriptors:
        os.close(descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    for name, number, errors in (("stdin", 0, "strict"), ("stdout", 1, "strict"), ("stderr", 2, "backslashreplace")):
        mode, buffering = ("r", -1) if not number else ("w", 1 if number == 2 or os.isatty(number) else -1)
        file = open(number, mode, buffering, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, file)
        setattr(sys, f"__{name}__", file)
    kind, *rest = request["words"]
    if kind == "-c":
        program, *rest = rest
        sys.argv, sys.path[0] = ["-c", *rest], ""
        main = sys.modules["__main__"] = type(sys)("__main__")
        exec(compile(program, "<string>", "exec"), vars(main))
    else:
        sys.argv, sys.path[0] = [kind, *rest], os.path.dirname(kind)
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    if not sys.argv[2:]:
        import_all()
    serve(socket.socket(fileno=int(sys.argv[1])))
