"""One sandbox for each layer, alone, so that a layer can't hide behind another; parts of a layer; and what to steal."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redraft.sandbox import Layer, Sandbox, SandboxResult, SandboxUnavailableError, launch

CANARY = "canary-5a1f"
"""Stands in a file, in the environment and in memory."""
WON = "won-7c2e"
"""Code has it as `won`, and answers with it once it did what it must not: no quoted line of code can hold it."""


@functools.cache
def _alone(layer: Layer, timeout_s: float) -> Sandbox:
    return Sandbox(layers=(layer,), timeout_s=timeout_s, memory_mb=128)


@pytest.fixture
def alone() -> Callable[..., Sandbox]:
    """Makes a sandbox of one layer; where it can't run, skips the test; fails if REDRAFT_REQUIRE_SANDBOX names it."""

    def make(layer: Layer, timeout_s: float = 10.0) -> Sandbox:
        try:
            return _alone(layer, timeout_s)
        except SandboxUnavailableError as error:
            if layer in os.environ.get("REDRAFT_REQUIRE_SANDBOX", "").split(","):
                pytest.fail(f"REDRAFT_REQUIRE_SANDBOX names {layer}, but {error}", pytrace=False)
            pytest.skip(str(error))

    return make


@pytest.fixture(params=["monty", "bubblewrap", "seccomp"])
def layer(request: pytest.FixtureRequest) -> Layer:
    """Each layer in its turn."""
    name: Layer = request.param
    return name


@pytest.fixture
def sandbox(layer: Layer, alone: Callable[..., Sandbox]) -> Sandbox:
    """`layer` alone, with time enough for a busy machine."""
    return alone(layer)


@pytest.fixture
def hasty(layer: Layer, alone: Callable[..., Sandbox]) -> Sandbox:
    """`layer` alone, for code that is expected to use up its time."""
    return alone(layer, 0.2)


Part = str
"""`bubblewrap`, `seccomp`, `rlimits` or `user`, and nothing else; or `nothing`."""


@pytest.fixture
def only(alone: Callable[..., Sandbox], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Sandbox]:
    """Makes a sandbox in CPython of one part, with the others switched off; `rlimits` or `user` can be added by name.

    The wall clock, the empty environment and the three pipes stay.
    """

    def make(*parts: Part, timeout_s: float = 10.0) -> Sandbox:
        sandbox = alone("bubblewrap" if "bubblewrap" in parts else "seccomp", timeout_s)
        if "seccomp" not in parts:
            monkeypatch.setattr(launch, "seccomp_filter", _filter_of_nothing)
        if "rlimits" not in parts:
            monkeypatch.setattr(launch, "rlimits", lambda _: {})
        if not {"user", "bubblewrap"} & set(parts):
            monkeypatch.setattr(launch, "NOBODY", None)
        return sandbox

    return make


@functools.cache
def _filter_of_nothing(*, files: bool) -> bytes:
    """A filter that refuses only the one call by which a child makes sure that it has a filter."""
    import pyseccomp  # type: ignore[import-untyped]

    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    rules.add_rule(pyseccomp.ERRNO(errno.EPERM), "getpgid")
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()


class Machine:
    """A file, sockets, memory and a process, each of which code is told of and must leave alone."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        """Lay everything out in `folder`; `stack` closes it."""
        self._folder, self._secret = folder, folder / "canary.py"
        self._secret.write_text(f"secret = {CANARY!r}\n")
        self._stat = self._secret.stat()
        self._held = ctypes.create_string_buffer(CANARY.encode())
        abstract = f"redraft-{os.getpid()}"
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        unix.bind(f"\0{abstract}")
        unix.listen()
        self._listeners = [tcp, unix]
        opened = stack.enter_context(self._secret.open())
        os.set_inheritable(opened.fileno(), True)
        self.inputs: dict[str, Any] = {
            "path": str(self._secret),
            "folder": str(folder),
            "target": str(folder / "written"),
            "won": WON,
            "port": tcp.getsockname()[1],
            "abstract": abstract,
            "opened": opened.fileno(),
            "parent": os.getpid(),
            "group": os.getpgrp(),
            "held": ctypes.addressof(self._held),
        }

    def lost(self, result: SandboxResult) -> list[str]:
        """What the code of `result` got or changed; empty when everything is as it was."""
        said = f"{result.value} {result.stdout} {result.error}"
        lost = [f"it learned {loot}" for loot in (CANARY, CANARY.encode().hex(), WON) if loot in said]
        for listener in self._listeners:
            listener.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                listener.accept()[0].close()
                lost.append("it connected")
        if os.listdir(self._folder) != ["canary.py"]:
            return [*lost, "it changed the folder"]
        if self._secret.read_text() != f"secret = {CANARY!r}\n":
            lost.append("it changed the file")
        now, then = self._secret.stat(), self._stat
        if (now.st_mode, now.st_nlink, now.st_mtime_ns) != (then.st_mode, then.st_nlink, then.st_mtime_ns):
            lost.append("it changed what the folder says of the file")
        return lost


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """What there is to steal and to spoil."""
    monkeypatch.setenv("CANARY", CANARY)
    with contextlib.ExitStack() as stack:
        yield Machine(tmp_path, stack)
