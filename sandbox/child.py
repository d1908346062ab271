"""The program of the locked child process: runs code, answers calls, or drives tests, on request. Internal.

A child serves one execution and is killed. It holds either model-written code or the tests, never both, so nothing
in the process of the code knows what is expected of it, and nothing it does there reaches the verdict.

Its frames are `l` (locked), `v` (a value), `d` (defined), `u` (untestable) and `x` (raised); those of the tests beside
them are in `tester.py`.
"""

from __future__ import annotations

import ast
import io
import json
import operator
import os
import sys
import types
from collections.abc import Callable
from typing import Any

from .lockdown import lock
from .plain import HOOKS, jsonable, pack, unpack
from .report import CODE, describe
from .tester import run_tests

__all__ = ["Channel", "main"]

Frame = tuple[str, Any]


class Channel:
    """Frames, each after its length in four bytes: a letter for the kind, and JSON. Requests come on descriptor 0."""

    def __init__(self, reply_fd: int) -> None:
        """Answer on `reply_fd`; to be built before the lock, after which no file can be opened or looked at."""
        self._requests = open(0, "rb", closefd=False)  # noqa: SIM115  as long as the process
        self._replies = open(reply_fd, "wb", closefd=False)  # noqa: SIM115

    def receive(self) -> tuple[str, Any]:
        """Return the kind and the content of the next request; the process ends when there will be none."""
        size = int.from_bytes(self._requests.read(4), "big")
        data = self._requests.read(size)
        if not data or len(data) < size:
            os._exit(0)
        return chr(data[0]), json.loads(data[1:])

    def send(self, kind: str, message: Any) -> None:
        """Write `message`, all of it."""
        text = kind.encode() + json.dumps(message, separators=(",", ":")).encode()
        self._replies.write(len(text).to_bytes(4, "big") + text)
        self._replies.flush()


def main(config: dict[str, Any]) -> None:
    """Lock this process, say so, and serve requests until it is killed."""
    channel = Channel(config["reply_fd"])
    lock(config["bpf"], modules=config["modules"], rlimits=config["rlimits"], user=config["user"])
    sys.stdin = io.StringIO()
    sys.stdout = io.TextIOWrapper(
        io.FileIO(1, "w", closefd=False), encoding="utf-8", errors="replace", write_through=True
    )
    sys.stderr = io.StringIO()
    channel.send("l", None)
    name = "__main__" if config["main"] else "solution"
    module = sys.modules[name] = types.ModuleType(name)  # dataclasses and typing look their module up
    namespace = module.__dict__
    while True:
        kind, request = channel.receive()
        if kind == "t":
            channel.send(*run_tests(request, namespace, channel))
        else:
            channel.send(*{"r": _run, "d": _define, "c": _call}[kind](request, namespace))


def _run(request: dict[str, Any], namespace: dict[str, Any]) -> Frame:
    try:
        namespace.update(unpack(request["inputs"]))
        tree = ast.parse(request["code"], CODE)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, CODE, "exec"), namespace)  # noqa: S102  this process is locked
        final = compile(ast.Expression(last.value), CODE, "eval") if isinstance(last, ast.Expr) else "None"
        value = eval(final, namespace)  # noqa: S307
        value = namespace.get("answer") if value is None else value
    except BaseException as error:
        return "x", describe(error, request["code"])
    try:
        return "v", {"value": jsonable(pack(value))}
    except BaseException as error:
        return "v", {"value": None, "unplain": describe(error, "")["message"]}


def _define(request: dict[str, Any], namespace: dict[str, Any]) -> Frame:
    objects = _Objects()
    HOOKS.update(keep=objects.keep, open=objects.open)
    try:
        exec(compile(request["code"], CODE, "exec"), namespace)  # noqa: S102
    except BaseException as error:
        return "x", describe(error, request["code"])
    return "d", all(callable(namespace.get(name)) for name in request["names"])


def _call(request: dict[str, Any], namespace: dict[str, Any]) -> Frame:
    try:
        args, kwargs = unpack(request["args"]), unpack(request["kwargs"])
        call = OPERATIONS.get(request["call"]) or namespace[request["call"]]
        value = call(*args, **kwargs)
    except BaseException as error:
        return "x", {key: text for key, text in describe(error, "").items() if key in ("type", "builtin", "message")}
    try:
        return "v", {"value": pack(value), "after": pack(args)}
    except BaseException as error:
        return "u", describe(error, "")["message"][:200]


class _Objects:
    """Objects of the code that the tests hold, by number."""

    def __init__(self) -> None:
        self._held: list[Any] = []
        self._numbers: dict[int, int] = {}

    def keep(self, value: Any) -> list[Any]:
        number = self._numbers.setdefault(id(value), len(self._held))
        if number == len(self._held):
            self._held.append(value)
        return ["object", number, str(type(value).__name__)[:100]]

    def open(self, number: int, _: str) -> Any:
        return self._held[number]


def _next(iterator: Any) -> tuple[Any, ...]:
    try:
        return (next(iterator),)
    except StopIteration:
        return ()


OPERATIONS: dict[str, Callable[..., Any]] = {
    "@bool": bool,
    "@call": lambda function, /, *args, **kwargs: function(*args, **kwargs),
    "@getattr": getattr,
    "@getitem": operator.getitem,
    "@iter": iter,
    "@len": len,
    "@next": _next,
    "@repr": repr,
    "@str": str,
}
"""Operations of the tests on an object, beside calling a function by its name, none of which is an identifier."""
