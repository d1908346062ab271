"""Terminal output: a command's result, its progress beside it, and text that is never obeyed. Internal."""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Any

from ..problems import ReaderGoneError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console, RenderableType
    from rich.table import Table

__all__ = ["REORDERING", "Screen", "one_line", "plain_table", "printed", "safe", "say", "shortened", "terminal_width"]

PIPE_WIDTH = 400
"""Columns of a table that is not printed on a terminal: wide enough that nothing is cut."""

REORDERING = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Marks that make a terminal show text in another order than it is written."""

_SHOWN_AS: dict[int, str] = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"},
    0x7F: "␡",
    **{code: f"\\x{code:02x}" for code in range(0x80, 0xA0)},
    **{code: f"\\u{code:04x}" for code in (0x2028, 0x2029, *REORDERING)},
    # Half of a character can't be encoded: printing it would end the command.
    **dict.fromkeys(range(55296, 57344), "�"),
}
_IN_JSON = {
    code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029, *REORDERING, *range(0xD800, 0xE000))
}


def safe(text: str) -> str:
    """Return the text with every control character made visible: an escape code prints as `␛[31m`, not in red."""
    return text.replace("\r\n", "\n").translate(_SHOWN_AS)


def one_line(text: str) -> str:
    """Return the text on one line, safe to print."""
    return safe(" ".join(text.split()))


def shortened(text: str, width: int) -> str:
    """Return the text on one line of at most `width` characters, with an ellipsis where it was cut."""
    line = one_line(text)
    return line if len(line) <= width else f"{line[: width - 1].rstrip()}…"


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
                # Whoever reads a pipe wants whole lines.
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

    # No markup: what a model writes is shown as it is.
    console = Printer(file=stream, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


def plain_table(*columns: str, right: Sequence[str] = ()) -> Table:
    """Return an empty table without lines; the columns in `right` are numbers."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", no_wrap=column in right)
    return table


NARROWEST = 60


def printed(*what: RenderableType, width: int | None = None) -> str:
    """Return the text that rich would print, without colours and trailing spaces.

    Args:
        what: Shown below one another.
        width: In columns; default: the terminal's.
    """
    from rich.console import Console

    columns = width or terminal_width()
    stream = StringIO()
    console = Console(
        file=stream,
        width=columns,
        color_system=None,
        force_terminal=False,
        force_jupyter=False,  # in a notebook rich would show the text there and then, beside the view it is meant for
        highlight=False,
        markup=False,
        emoji=False,
    )
    for one in what:
        console.print(one)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()).rstrip("\n")


def terminal_width() -> int:
    """Return the columns of the terminal, or 100 where there is none."""
    return max(NARROWEST, shutil.get_terminal_size((100, 24)).columns)
