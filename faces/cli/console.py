"""Where a command prints: its result on stdout, and its progress beside it or, with `--json`, on stderr."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..problems import ReaderGoneError
from ..views.plain_text import REORDERING, one_line, safe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console, RenderableType

__all__ = ["Screen", "say"]

PIPE_WIDTH = 400
"""Columns of a table that is not printed on a terminal: wide enough that nothing is cut."""

_IN_JSON = {
    code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029, *REORDERING, *range(0xD800, 0xE000))
}


class Screen:
    """The two streams of one command.

    Args:
        as_json: The result is JSON, alone on stdout.

    Raises:
        ReaderGoneError: From each method that prints, once nobody reads the stream any more.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.out = _console(sys.stdout)
        self.progress = _console(sys.stderr) if as_json else self.out

    def result(self, data: Any, show: Callable[[Screen], None]) -> None:
        """Print a result once: as JSON, or by calling `show` with this screen."""
        if self.as_json:
            text = json.dumps(data, ensure_ascii=False, indent=2, allow_nan=False)
            # Control characters inside strings are escaped by json itself, but for these.
            try:
                sys.stdout.write(text.translate(_IN_JSON) + "\n")
                sys.stdout.flush()
            except BrokenPipeError as error:
                raise ReaderGoneError from error
        else:
            show(self)

    def line(self, *parts: str | tuple[str, str], indent: int = 0) -> None:
        """Print one line of progress; a part is a text, or a text with its style."""
        from rich.text import Text

        text = Text.assemble(*(safe(part) if isinstance(part, str) else (safe(part[0]), part[1]) for part in parts))
        self.put(text, indent=indent)

    def block(self, text: str, *, indent: int = 0, style: str = "") -> None:
        """Print a text of any length as it is, indented; wrapped on a terminal, and never read as markup."""
        from rich.text import Text

        self.put(Text(safe(text.strip("\n")), style=style), indent=indent)

    def put(self, what: RenderableType, *, indent: int = 0) -> None:
        """Print something of rich's."""
        from rich.padding import Padding
        from rich.text import Text

        if self.progress.is_terminal:
            self.progress.print(Padding(what, (0, 0, 0, indent)) if indent else what)
        elif isinstance(what, Text):
            for line in what.split("\n", allow_blank=True):
                padded = Text(" " * indent) + line
                padded.rstrip()
                self.progress.print(padded, soft_wrap=True)
        else:
            self.progress.print(what)

    @contextmanager
    def thinking(self) -> Iterator[Callable[[str], None]]:
        """Give a function that says what is going on: a spinner on a terminal, and nothing elsewhere."""
        if not self.progress.is_terminal:
            yield lambda _: None
            return
        from rich.text import Text

        with self.progress.status(Text("", style="dim"), spinner="dots") as status:
            yield lambda text: status.update(Text(one_line(text), style="dim"))


def say(message: str) -> None:
    """Print a note on stderr."""
    print(f"redraft: {safe(message)}", file=sys.stderr, flush=True)  # noqa: T201


def _console(stream: Any) -> Console:
    from rich.console import Console

    class Printer(Console):
        """A console that raises where rich's own would end the process with 1."""

        def on_broken_pipe(self) -> None:
            self.quiet = True
            raise ReaderGoneError

    console = Printer(file=stream, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console
