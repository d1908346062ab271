"""Result values: a success with its value, or a failure with a message, in place of an exception."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FailureError", "Result"]

T = TypeVar("T")
U = TypeVar("U")


class FailureError(RuntimeError):
    """The value of a failure was asked for."""


@dataclass(frozen=True)
class Result(Generic[T]):
    """A value, or the message that says why there is none. Made by `Result.success` and `Result.failure`."""

    _value: T | None = None
    message: str = ""
    """Why it failed; empty for a success."""
    ok: bool = True
    partial: Any = None
    """What was done before it failed, or `None`."""

    @classmethod
    def success(cls, value: T) -> Result[T]:
        """Return a success with this value."""
        return cls(value)

    @classmethod
    def failure(cls, message: str, *, partial: Any = None) -> Result[T]:
        """Return a failure with this message.

        Args:
            message: Why it failed.
            partial: What was done before, so that it is not lost.

        Raises:
            ValueError: The message is blank: a failure says why.
        """
        if not message.strip():
            raise ValueError("a failure needs a message that says why")
        return cls(message=message, ok=False, partial=partial)

    @property
    def value(self) -> T:
        """The value of a success.

        Raises:
            FailureError: It is a failure; with its message.
        """
        if not self.ok:
            raise FailureError(self.message)
        return self._value  # type: ignore[return-value]

    def match(self, success: Callable[[T], U], failure: Callable[[str], U]) -> U:
        """Return what `success` makes of the value, or `failure` of the message."""
        return success(self.value) if self.ok else failure(self.message)

    def map(self, function: Callable[[T], U]) -> Result[U]:
        """Return a success with what the function makes of the value; a failure stays as it is."""
        return Result(function(self.value)) if self.ok else self._passed_on()

    def bind(self, function: Callable[[T], Result[U]]) -> Result[U]:
        """Return the result that the function makes of the value; a failure stays as it is, and nothing is called."""
        return function(self.value) if self.ok else self._passed_on()

    def _passed_on(self) -> Result[Any]:
        return Result(message=self.message, ok=False, partial=self.partial)

    def __repr__(self) -> str:
        return f"Result.success({self._value!r})" if self.ok else f"Result.failure({self.message!r})"
