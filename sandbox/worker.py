"""One locked child process, spoken to under a deadline. Internal."""

from __future__ import annotations

import codecs
import contextlib
import functools
import json
import marshal
import os
import selectors
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .frames import REPLY_BYTES, TAMPERED
from .result import Status

__all__ = ["BOOT", "StoppedError", "Worker", "sources"]

BOOT = """\
import marshal, os, sys
def take(size):
    parts = b""
    while len(parts) < size:
        parts += os.read(0, size - len(parts)) or sys.exit(1)
    return parts
sources, config = marshal.loads(take(int.from_bytes(take(4), "big")))
for name, code in sources:
    module = sys.modules[name] = type(sys)(name)
    module.__package__, module.__path__ = "redraft_sandbox", []
    exec(code, module.__dict__)
module.main(config)
"""
"""Unpacks the child's program from its standard input, so that it needs no file of ours and compiles nothing."""

CHILD = ("", "plain", "lockdown", "report", "tester", "child")
"""The modules of the child's program."""
START_S = 20.0
"""Seconds a child may take to be locked; its own time begins afterwards."""


class StoppedError(Exception):
    """The child met a limit, broke the protocol or died; `status` says which."""

    def __init__(self, status: Status, message: str) -> None:
        """`message` is what a user reads in `error`."""
        super().__init__(message)
        self.status: Status = status


@functools.cache
def sources(*names: str) -> list[tuple[str, Any]]:
    """Return compiled modules of this folder by the names that a child knows them under; "" is the package."""
    texts = {name: Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8") if name else "" for name in names}
    return [
        (f"redraft_sandbox.{name}".rstrip("."), compile(text, f"<sandbox {name}>", "exec", dont_inherit=True))
        for name, text in texts.items()
    ]


class Worker(contextlib.AbstractContextManager["Worker", None]):
    """A child that is started, locked, used for one execution and killed."""

    def __init__(self, argv: Sequence[str], config: dict[str, Any], *, max_output: int) -> None:
        """Start `argv` with `BOOT` as its last argument; nothing of ours is inherited but three pipes.

        Args:
            argv: the interpreter and its arguments, or a wrapper around them.
            config: given to `child.main`.
            max_output: characters the child may print.
        """
        self._max_output = max_output
        self._printed: list[str] = []
        self._characters = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._inbox = bytearray()
        self._replies, reply_end = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603  locked before it hears any model-written word
                [*argv, BOOT],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={},
                cwd="/",
                pass_fds=[reply_end],
                start_new_session=True,
            )
        except BaseException:
            os.close(self._replies)
            raise
        finally:
            os.close(reply_end)
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: S101, PT018  asked for above
        self._requests, self._output = self._process.stdin.fileno(), self._process.stdout.fileno()
        for fd in (self._replies, self._requests, self._output):
            os.set_blocking(fd, False)
        program = marshal.dumps((sources(*CHILD), {**config, "reply_fd": reply_end}))
        self._outbox = memoryview(len(program).to_bytes(4, "big") + program)

    def __exit__(self, *_: object) -> None:
        """Kill the child, whatever it is doing, and close every pipe."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        os.close(self._replies)
        # A child stuck in the kernel can't hold us up: Python reaps it later.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=2)

    @property
    def stdout(self) -> str:
        """The code's output so far, at most `max_output` characters."""
        return "".join(self._printed)[: self._max_output]

    def wait_locked(self) -> None:
        """Return once the child has locked itself.

        Raises:
            OSError: it can't on this machine; the message has its own words.
        """
        try:
            locked = self._receive(time.monotonic() + START_S)
        except StoppedError as stopped:
            raise OSError(f"{stopped} {self.stdout.strip()[-300:]}") from None
        if locked[:1] != b"l":
            raise OSError("the child did not lock itself")

    def ask(self, kind: str, request: Any, deadline: float) -> bytes:
        """Return the frame that the child replies with, as `pass_on`; `request` is one of the operations of `child.py`.

        Raises:
            StoppedError: there is no reply.
        """
        return self.pass_on(kind.encode() + json.dumps(request, separators=(",", ":")).encode(), deadline)

    def pass_on(self, frame: bytes, deadline: float) -> bytes:
        """Return the reply to `frame`, which another child may have written: any lie, no longer than the limit.

        A frame is a letter for its kind and JSON, which nobody has read yet.

        Args:
            frame: sent as it is.
            deadline: as `time.monotonic` counts.

        Raises:
            StoppedError: there is no reply, or it was there before it was asked for.
        """
        self._read(self._replies)
        if self._inbox:
            raise StoppedError("failed", TAMPERED)
        self._outbox = memoryview(len(frame).to_bytes(4, "big") + frame)
        return self._receive(deadline)

    def _receive(self, deadline: float) -> bytes:
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._replies, selectors.EVENT_READ)
            waiting.register(self._output, selectors.EVENT_READ)
            waiting.register(self._requests, selectors.EVENT_WRITE)
            while (frame := self._frame()) is None:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise StoppedError("timeout", "the time limit was reached")
                for key, _ in waiting.select(left):
                    if self._write() if key.fd == self._requests else self._read(key.fd):
                        waiting.unregister(key.fd)
        self._read(self._output)
        return frame

    def _frame(self) -> bytes | None:
        if len(self._inbox) < 4:
            return None
        end = 4 + int.from_bytes(self._inbox[:4], "big")
        if end > REPLY_BYTES:
            raise StoppedError("output", "the value is too large to leave the sandbox")
        if len(self._inbox) < end:
            return None
        frame = bytes(self._inbox[4:end])
        del self._inbox[:end]
        return frame

    def _write(self) -> bool:
        if self._outbox:
            try:
                self._outbox = self._outbox[os.write(self._requests, self._outbox) :]
            except BlockingIOError:
                return False
            except BrokenPipeError:
                return True
        return not self._outbox

    def _read(self, fd: int) -> bool:
        while True:
            try:
                data = os.read(fd, 1 << 16)
            except BlockingIOError:
                return False
            if fd == self._output:
                self._printed.append(self._decoder.decode(data))
                self._characters += len(self._printed[-1])
                if self._characters > self._max_output:
                    raise StoppedError("output", f"more than {self._max_output} characters of output")
                if not data:
                    return True
                continue
            if not data:
                raise self._ended()
            self._inbox += data
            if len(self._inbox) > 2 * REPLY_BYTES:
                raise StoppedError("output", "the value is too large to leave the sandbox")
            return False

    def _ended(self) -> StoppedError:
        with contextlib.suppress(StoppedError):
            self._read(self._output)
        try:
            code = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            code = 0
        number = -code if code < 0 else code - 128
        if number in (9, 24):  # SIGKILL or SIGXCPU, and nobody else sends one: processor time is used up
            return StoppedError("timeout", "the processor time limit was reached")
        if "MemoryError" in self.stdout[-500:]:
            return StoppedError("memory", "the memory limit was reached")
        died = f"it crashed with signal {number}" if number > 0 else f"it left with exit code {code}"
        return StoppedError("failed", f"the process ended before it answered: {died}")
