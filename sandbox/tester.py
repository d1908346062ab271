"""The tests' side of a check: calls of code that is in another process, and the verdict. Internal.

Its frames are `c` (a call), `p` (passed), `x` (raised), `u` (untestable) and `f` (a reply to a call was forged).
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from .plain import HOOKS, pack, unpack
from .report import TESTS, describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .child import Channel

__all__ = ["run_tests"]


def run_tests(request: dict[str, Any], namespace: dict[str, Any], channel: Channel) -> tuple[str, Any]:
    """Run the helpers and the tests of `request`, and return the frame of their verdict."""
    calls = _Calls(channel)
    verdict: tuple[str, Any] = ("p", request["nonce"])
    try:
        exec(compile(request["helpers"], "<helpers>", "exec"), namespace)  # noqa: S102
        for name in request["names"]:
            namespace[name] = calls.function(name)
        candidate = namespace["candidate"] = namespace[request["names"][0]]
        namespace.pop("check", None)
        exec(compile(request["tests"], TESTS, "exec"), namespace)  # noqa: S102
        if callable(check := namespace.get("check")) and "check" not in request["names"]:
            check(candidate)
    except BaseException as error:
        by = "code" if error is calls.raised else ""
        verdict = "x", {**describe(error, request["tests"]), "last": calls.last, "by": by}
    return ("u", calls.untestable) if calls.untestable else verdict


class _Calls:
    """Calls of the code under test, made by the tests and answered by the other process."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._objects: dict[int, _RemoteObject] = {}
        self.last = ""
        self.untestable: dict[str, str] = {}
        """Why the tests can't tell, and by whose doing, `code` or `tests`."""
        self.raised: BaseException | None = None
        """The last exception that the code raised."""
        HOOKS.update(keep=self._keep, open=self._open)

    def function(self, name: str) -> Callable[..., Any]:
        """Return the stand-in for the code's function of this name."""

        def call(*args: Any, **kwargs: Any) -> Any:
            return self.make(name, args, kwargs)

        call.__name__ = call.__qualname__ = name
        return call

    def make(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of a call as new plain data; lists, dicts and sets in `args` change as the call did it."""
        named = not name.startswith("@")
        if named:
            arguments = ", ".join([*map(_shown, args), *(f"{key}={_shown(value)}" for key, value in kwargs.items())])
            self.last = f"{name}({arguments})"[:300]
        try:
            request = {"call": name, "args": pack(args), "kwargs": pack(kwargs)}
        except TypeError as error:
            self.untestable = {"message": f"an argument is {error}", "by": "tests"}
            raise
        self._channel.send("c", request)
        raised: Exception | None = None
        value = None
        try:
            kind, reply = self._channel.receive()
            if kind == "v":
                value = unpack(reply["value"])
                for before, now in zip(args, unpack(reply["after"]), strict=True):
                    _become(before, now)
            elif kind == "x":
                raised = _exception(reply["type"], reply["builtin"], reply["message"])
                self.last += f" raised {reply['type']}" if named else ""
            else:
                self.untestable = {"message": f"{name} returned {'' + reply}", "by": "code"}
                raised = TypeError(self.untestable["message"])
        except MemoryError:
            raise
        except Exception:
            self._channel.send("f", None)
            while True:
                self._channel.receive()
        if raised is not None:
            self.raised = raised
            raise raised
        if named:
            self.last += f" returned {_shown(value)}"[:300]
        return value

    def _keep(self, value: Any) -> list[Any]:
        if type(value) is _RemoteObject:
            return ["object", value._number, ""]
        raise TypeError(type(value).__name__)

    def _open(self, number: int, kind: str) -> _RemoteObject:
        if number not in self._objects:
            self._objects[number] = _RemoteObject(self, int(number), "" + kind)
        return self._objects[number]


class _RemoteObject:
    """An object of the code, as the tests hold it: used by asking the other process, and equal to itself alone."""

    __slots__ = ("_calls", "_kind", "_number")

    def __init__(self, calls: _Calls, number: int, kind: str) -> None:
        self._calls, self._number, self._kind = calls, number, kind

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python itself asks for
            raise AttributeError(f"{self._kind!r} object has no attribute {name!r}")
        return self._calls.make("@getattr", (self, name), {})

    def __bool__(self) -> bool:
        return self._calls.make("@bool", (self,), {}) is True

    def __len__(self) -> int:
        return int(self._calls.make("@len", (self,), {}))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._calls.make("@call", (self, *args), kwargs)

    def __getitem__(self, key: Any) -> Any:
        return self._calls.make("@getitem", (self, key), {})

    def __iter__(self) -> Iterator[Any]:
        items = self._calls.make("@iter", (self,), {})
        if type(items) is not _RemoteObject:
            raise TypeError(f"iter() returned {type(items).__name__}")
        while step := self._calls.make("@next", (items,), {}):
            yield step[0]

    def __next__(self) -> Any:
        if step := self._calls.make("@next", (self,), {}):
            return step[0]
        raise StopIteration

    def __repr__(self) -> str:
        text: str = "" + self._calls.make("@repr", (self,), {})
        return text

    def __str__(self) -> str:
        text: str = "" + self._calls.make("@str", (self,), {})
        return text


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except Exception as error:
        return f"<{type(error).__name__}>"


def _become(before: Any, after: Any) -> None:
    if isinstance(before, list):
        before[:] = after
    elif isinstance(before, dict | set):
        before.clear()
        before.update(after)


def _exception(name: str, builtin: str, message: str) -> Exception:
    kind: Any = getattr(builtins, builtin, None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)) or issubclass(kind, StopIteration):
        kind = RuntimeError
    if kind.__name__ != name:
        kind = type("" + name, (kind,), {})
    try:
        return kind("" + message)  # type: ignore[no-any-return]
    except TypeError:  # UnicodeDecodeError and the like ask for more than a message
        return RuntimeError(f"{name}: {message}")
