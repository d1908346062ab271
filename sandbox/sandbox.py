"""The sandbox: the first layer that can tell decides. Internal."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import functools
import keyword
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

from .launch import missing, names_module
from .monty import MontyLayer, monty_missing
from .native import NativeLayer
from .plain import pack
from .result import Limits, SandboxResult, SandboxUnavailableError

__all__ = ["Layer", "Sandbox"]

Layer = Literal["monty", "bubblewrap", "seccomp"]
MONTY_SHARE = 0.1
"""Part of the time that Monty may spend before CPython: what it can run at all, it runs in milliseconds."""
LAYERS: tuple[Layer, ...] = ("monty", "bubblewrap", "seccomp")


class Sandbox:
    """Runs model-written Python behind the best guards this machine has, and never without.

    `monty` is an interpreter in Rust for a part of Python, without files, environment, network or processes. Code that
    runs to its end in it has run; anything else is run again in CPython: under `bubblewrap` (namespaces, a file system
    of the standard library only, resource limits and a seccomp filter), or where namespaces are denied under `seccomp`
    (the filter, which then allows no file at all, and the limits). Checks are CPython's alone, since Monty does a few
    things otherwise. Without CPython Monty decides, and what it can't tell or is known to do otherwise is
    `unsupported`. One sandbox may be shared by threads and tasks; no execution sees anything of another.

    Example:
        >>> from redraft import Sandbox
        >>> Sandbox().run("print(6 * 7)").stdout
        '42\\n'
    """

    def __init__(
        self,
        *,
        timeout_s: float = 5.0,
        memory_mb: int = 256,
        max_output: int = 20_000,
        layers: Sequence[Layer] = LAYERS,
        parallel: int | None = None,
    ) -> None:
        """Find the layers that run here.

        Args:
            timeout_s: wall-clock seconds of a run or check, sleeping included, in all layers together.
            memory_mb: megabytes of memory, at least 64. Monty is never given more than that.
            max_output: characters the code may print.
            layers: the layers allowed; of `bubblewrap` and `seccomp` only the first that runs here is used.
            parallel: executions at once, others wait their turn, which does not count as their time. None: one a core.

        Raises:
            ValueError: a limit or layer that makes no sense.
            SandboxUnavailableError: none of `layers` runs here; the message says in one line what to install.
        """
        limits = Limits(timeout_s=timeout_s, memory_mb=memory_mb, max_output=max_output)
        if parallel is not None and parallel < 1:
            raise ValueError(f"parallel must be at least 1, not {parallel!r}")
        if not layers or (unknown := set(layers) - set(LAYERS)):
            raise ValueError(f"layers must be some of {', '.join(LAYERS)}, not {unknown if layers else layers!r}")
        parallel = parallel or os.cpu_count() or 1
        reasons: list[str] = []
        self._timeout_s = timeout_s
        self._monty_turns = threading.BoundedSemaphore(parallel)
        self._turns = threading.BoundedSemaphore(parallel)
        self.threads = ThreadPoolExecutor(2 * parallel, thread_name_prefix="redraft-sandbox")
        """Where `arun` and `acheck` wait, `parallel` for each of two layers; asyncio's own threads stay free."""
        self._monty: MontyLayer | None = None
        self._native: NativeLayer | None = None
        for layer in layers:
            if layer != "monty" and self._native is not None:
                continue
            if reason := monty_missing() if layer == "monty" else missing(layer):
                reasons.append(reason)
            elif layer == "monty":
                self._monty = MontyLayer(limits, parallel=parallel)
            else:
                self._native = NativeLayer(layer, limits)
        self._reasons = "; ".join(reasons)
        if self._monty is None and self._native is None:
            raise SandboxUnavailableError(f"no sandbox can run here: {self._reasons}")

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers in use, in the order they are tried."""
        return tuple(layer.name for layer in (self._monty, self._native) if layer is not None)

    def run(self, code: str, inputs: Mapping[str, Any] | None = None) -> SandboxResult:
        """Run `code` as a script with `inputs` as its global variables, and return the result.

        Args:
            code: Python; not trusted.
            inputs: plain data by variable name.

        Raises:
            TypeError: an input is not plain data, or its name is not an identifier.
        """
        variables = dict(inputs or {})
        _check_names(variables)
        pack(variables)
        return self._decide(lambda layer, left_s: layer.run(code, variables, left_s=left_s), quick=True)

    def check(self, code: str, tests: str, entry_point: str | Sequence[str], *, helpers: str = "") -> SandboxResult:
        """Check `code` with `tests`; `ok` only if these ran to their end and called it at least once.

        Tests and code run in two processes. The tests see a stand-in that sends plain data (None, bool, numbers, text,
        bytes, lists, tuples, sets, dicts, `Decimal`, `Fraction`) and gets plain data back, made anew; lists, dicts and
        sets given as arguments change as the call changed them. So nothing the code does to its own process can reach
        the verdict. Other objects that the code returns stay where they are: the tests hold a stand-in that can be
        called, iterated, indexed, shown and asked for attributes, and equals itself alone. Objects of the tests, such
        as functions, can't be arguments, and make a check `unsupported`, as do objects that the code returns in Monty.

        Args:
            code: Python that defines `entry_point`; not trusted.
            tests: Python that asserts. A function `check` in it, as in HumanEval, is called with the entry point;
                `candidate` and each entry point by its name can be called anywhere.
            entry_point: the function under test, or several.
            helpers: trusted Python the tests need, run with them, such as the prompt of a HumanEval task.

        Raises:
            TypeError: an entry point is not an identifier.
        """
        names = [entry_point] if isinstance(entry_point, str) else list(entry_point)
        if not names:
            raise TypeError("a check needs an entry_point")
        _check_names(names)
        return self._decide(
            lambda layer, left_s: layer.check(code, tests, names=names, helpers=helpers, left_s=left_s), quick=False
        )

    async def arun(self, code: str, inputs: Mapping[str, Any] | None = None) -> SandboxResult:
        """As `run`, in a thread of the sandbox's own, of which there are `2 * parallel`; others wait without one.

        Cancelled, code that runs is left to its limits, and code that waits never runs.
        """
        return await self._aside(self.run, code, inputs)

    async def acheck(
        self, code: str, tests: str, entry_point: str | Sequence[str], *, helpers: str = ""
    ) -> SandboxResult:
        """As `check`, in such a thread as `arun`."""
        return await self._aside(self.check, code, tests, entry_point, helpers=helpers)

    names_module = staticmethod(names_module)

    async def _aside(self, call: Callable[..., SandboxResult], *args: Any, **kwargs: Any) -> SandboxResult:
        run = functools.partial(contextvars.copy_context().run, call, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self.threads, run)

    def _decide(
        self, execute: Callable[[MontyLayer | NativeLayer, float], SandboxResult], *, quick: bool
    ) -> SandboxResult:
        """Return the result of the layers in use, all within one limit of time.

        Args:
            execute: runs the code in a layer for some seconds.
            quick: Monty decides where it can, for its share of the time; else only where there is no CPython.
        """
        started, left_s = time.monotonic(), self._timeout_s
        result: SandboxResult | None = None
        if self._monty is not None and (quick or self._native is None):
            with self._monty_turns:
                began = time.monotonic()
                result = execute(self._monty, left_s if self._native is None else left_s * MONTY_SHARE)
                left_s -= time.monotonic() - began
        if self._native is not None and (result is None or not result.ok):
            with self._turns:
                result = execute(self._native, max(left_s, 0.0))
        assert result is not None  # noqa: S101  __init__ refuses to build without a layer
        if result.status == "unsupported" and self._native is None and self._reasons:
            result = dataclasses.replace(result, error=f"{result.error} ({self._reasons})")
        return dataclasses.replace(result, seconds=time.monotonic() - started)


def _check_names(names: Iterable[Any]) -> None:
    for name in names:
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name) or name.startswith("__"):
            raise TypeError(f"not a name that Python code can use: {name!r}")
