"""The program of the locked child process: runs code, answers calls, or drives tests, on request. Internal.

A child serves one execution and is killed. It holds either model-written code or the tests, never both, so nothing
in the process of the code knows what is expected of it, and nothing it does there reaches the verdict.
"""

from __future__ import annotations

import ast
import builtins
import io
import sys
import types
from typing import Any

from .channel import Channel
from .lockdown import lock
from .plain import pack, unpack
from .report import CODE, TESTS, describe

__all__ = ["main"]

PROXY = """
def {name}(*args, **kwargs):
    return _call({name!r}, args, kwargs)
"""


def main(config: dict[str, Any]) -> None:
    """Lock this process, say so, and serve requests until it is killed."""
    channel = Channel(config["reply_fd"])
    lock(config["bpf"], modules=config["modules"], rlimits=config["rlimits"], user=config["user"])
    sys.stdin = io.StringIO()
    sys.stdout = io.TextIOWrapper(
        io.FileIO(1, "w", closefd=False), encoding="utf-8", errors="replace", write_through=True
    )
    sys.stderr = io.StringIO()
    channel.send({"locked": True})
    served = {"run": _run, "define": _define, "call": _call, "tests": _tests}
    namespace = _module("__main__" if config["main"] else "solution")
    while True:
        request = channel.receive()
        channel.send(served[request["op"]](request, namespace, channel))


def _module(name: str) -> dict[str, Any]:
    module = types.ModuleType(name)
    sys.modules[name] = module  # dataclasses and typing look their module up
    return module.__dict__


def _run(request: dict[str, Any], namespace: dict[str, Any], channel: Channel) -> dict[str, Any]:
    try:
        namespace.update(unpack(request["inputs"]))
        tree = ast.parse(request["code"], CODE)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, CODE, "exec"), namespace)  # noqa: S102  this process is locked
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), CODE, "eval"), namespace)  # noqa: S307
        return _value(namespace.get("answer") if value is None else value)
    except BaseException as error:
        return {"raised": describe(error, request["code"])}


def _value(value: Any) -> dict[str, Any]:
    try:
        return {"value": pack(value)}
    except (TypeError, RecursionError) as error:
        return {"value": None, "unplain": str(error)}


def _define(request: dict[str, Any], namespace: dict[str, Any], channel: Channel) -> dict[str, Any]:
    try:
        exec(compile(request["code"], CODE, "exec"), namespace)  # noqa: S102
    except BaseException as error:
        return {"raised": describe(error, request["code"])}
    missing = [name for name in request["names"] if not callable(namespace.get(name))]
    return {"missing": missing, "code": request["code"]} if missing else {"defined": True}


def _call(request: dict[str, Any], namespace: dict[str, Any], channel: Channel) -> dict[str, Any]:
    try:
        args, kwargs = unpack(request["args"]), unpack(request["kwargs"])
        value = namespace[request["name"]](*args, **kwargs)
    except BaseException as error:
        return {"raised": describe(error, request["code"])}
    try:
        return {"value": pack(value), "after": pack(args)}
    except (TypeError, RecursionError) as error:
        return {"unplain": str(error)}


def _tests(request: dict[str, Any], namespace: dict[str, Any], channel: Channel) -> dict[str, Any]:
    calls = Calls(channel)
    namespace["_call"] = calls
    try:
        exec(compile(request["helpers"], "<helpers>", "exec"), namespace)  # noqa: S102
        for name in request["names"]:
            exec(PROXY.format(name=name), namespace)  # noqa: S102  `name` was checked to be an identifier
        candidate = namespace["candidate"] = namespace[request["names"][0]]
        namespace.pop("check", None)
        exec(compile(request["tests"], TESTS, "exec"), namespace)  # noqa: S102
        if callable(check := namespace.get("check")) and "check" not in request["names"]:
            check(candidate)
    except BaseException as error:
        return {"raised": describe(error, request["tests"]), "last": calls.last, "unplain": calls.unplain}
    return {"unplain": calls.unplain} if calls.unplain else {"passed": request["nonce"]}


class Calls:
    """Calls of the code under test, made by the tests and answered by the other process."""

    def __init__(self, channel: Channel) -> None:
        """Send each call on `channel`."""
        self._channel = channel
        self.last = ""
        self.unplain: str | None = None

    def __call__(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of one call as new plain data, with lists, dicts and sets in `args` changed as the call did."""
        shown = ", ".join([*map(repr, args), *(f"{key}={value!r}" for key, value in kwargs.items())])
        self.last = f"{name}({shown})"[:300]
        try:
            request = {"call": name, "args": pack(args), "kwargs": pack(kwargs)}
        except TypeError as error:
            self.unplain = f"an argument is {error}"
            raise
        self._channel.send(request)
        reply = self._channel.receive()
        if "unplain" in reply:
            self.unplain = f"{name} returned {reply['unplain']}"
            raise TypeError(self.unplain)
        if "raised" in reply:
            self.last += f" raised {reply['raised']['type']}"
            raise _exception(reply["raised"])
        for before, after in zip(args, unpack(reply["after"]), strict=True):
            _become(before, after)
        value = unpack(reply["value"])
        self.last += f" returned {value!r}"[:300]
        return value


def _become(before: Any, after: Any) -> None:
    if isinstance(before, list):
        before[:] = after
    elif isinstance(before, dict | set):
        before.clear()
        before.update(after)


def _exception(raised: dict[str, Any]) -> Exception:
    kind: Any = getattr(builtins, str(raised["builtin"]), None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)) or issubclass(kind, StopIteration):
        kind = RuntimeError
    if kind.__name__ != raised["type"]:
        kind = type(str(raised["type"]), (kind,), {})
    try:
        error: Exception = kind(str(raised["message"]))
    except TypeError:  # UnicodeDecodeError and the like ask for more than a message
        return RuntimeError(f"{raised['type']}: {raised['message']}")
    return error
