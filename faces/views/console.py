"""Terminal output: a command's result, a run as it happens, and text that is never obeyed. Internal."""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Any

from ...state.events import DRAFT_KINDS
from ..problems import ReaderGoneError
from .wording import (
    REJECTED_WORDS,
    amount,
    left_out,
    mark,
    reason_style,
    requirement_status,
    said_nothing,
    score_of,
    stop_words,
    stripped_words,
    usage_words,
    who_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rich.console import Console, RenderableType
    from rich.table import Table

__all__ = [
    "REORDERING",
    "LiveRun",
    "QuietRun",
    "Screen",
    "doing",
    "one_line",
    "plain_table",
    "printed",
    "safe",
    "say",
    "shortened",
    "show_event",
    "show_requirements",
    "terminal_width",
]

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


INDENT = 2

DOING = {
    "generate": "drafting",
    "refine": "revising",
    "retrieve": "looking up passages",
    "UseDir": "reading the folder",
    "UseIndex": "opening the index",
    "human": "asking a person",
    "branch": "beginning",
    "select": "comparing",
}


class LiveRun:
    """Prints the progress items of one run in the order in which they come.

    Args:
        screen: Where to.
        thinking: Says what is going on while nothing is printed.
        printed: The rounds whose drafts are printed are added to it.
    """

    def __init__(self, screen: Screen, thinking: Callable[[str], None], printed: set[int] | None = None) -> None:
        self._screen = screen
        self._thinking = thinking
        self._printed = set() if printed is None else printed
        self._place: tuple[int, str] | None = None
        """Of the last heading: the round, and the path where it is one of a search."""
        self.gone: ReaderGoneError | None = None
        """Nobody reads on: whoever runs the graph raises it between two steps."""

    def item(self, item: Mapping[str, Any]) -> None:
        """Print one item of the `custom` stream; a node of the user's own may send others, which are left alone."""
        try:
            self._show(item)
        except ReaderGoneError as gone:
            # Not raised within a step: what the step pays for is kept at its end only.
            self.gone = gone

    def _show(self, item: Mapping[str, Any]) -> None:
        kind = item.get("kind")
        if kind == "start":
            self._thinking(doing(item))
        elif kind == "step":
            self._thinking("")
            _step(self._screen, item)
        elif isinstance(kind, str) and "round" in item:
            self._head(item)
            self._thinking("")
            if kind in DRAFT_KINDS:
                self._printed.add(item["round"])
            show_event(self._screen, item)

    def _head(self, item: Mapping[str, Any]) -> None:
        """Print the round, and whose it is, where it is another than that of the line before."""
        if item.get("node") in BETWEEN_PATHS or item.get("by") in BETWEEN_PATHS:
            self._place = None
            return
        place = (item["round"], str(item.get("branch") or ""))
        late = item["kind"] == "verdict"  # it may be on the draft before a failed revision
        if place != self._place and not (late and self._place is not None and place[1] == self._place[1]):
            self._place = place
            self._screen.line((f"round {place[0]}{_path(item)}", "bold"))


class QuietRun(LiveRun):
    """Shows what is going on, and nothing of the texts but the steps that found nothing to do."""

    def item(self, item: Mapping[str, Any]) -> None:
        """Print one item of the `custom` stream."""
        if item.get("kind") in ("start", "skipped"):
            super().item(item)


def show_event(screen: Screen, event: Mapping[str, Any], *, indent: int = INDENT) -> None:
    """Print one event of a record."""
    if remark := _remark(event):
        screen.line(remark, indent=indent)
        return
    kind, texts = event["kind"], [str(event.get("text") or "")]
    head: tuple[tuple[str, str] | str, ...] = (kind, "cyan"), " · ", _details(event)
    if kind in OPINIONS:
        sign, style = mark(event.get("accepted"))
        head = (f"{sign} ", style), _details(event, *_qualified(event))
        texts = texts if texts[0].strip() else [said_nothing(event)]
    elif kind == "failure":
        where = event.get("branch") if event.get("node") == "branch" else event.get("node")
        head = ((f"failed in {where}: {event.get('error')}", "red"),)
    elif kind == "retrieval":
        amounts = (amount(len(event.get(key) or ()), "passage") + word for key, word in PASSAGES if key in event)
        head = (kind, "cyan"), " · ", _details(event, *amounts)
    elif kind == "comparison":
        outcome = f"{event['winner']} is better" if event.get("winner") else "a tie"
        pair = f"{event.get('first')} and {event.get('second')}"
        head = (kind, "cyan"), " · ", (f"{event.get('judge')} · {pair}: {outcome}", "dim")
        texts = [str(reason) for reason in (*(event.get("reasons") or ()), event.get("error") or "")]
    screen.line(*head, indent=indent)
    for text in filter(str.strip, texts):
        screen.block(text, indent=indent + INDENT)
    if stripped := stripped_words(event):
        screen.line((stripped, "dim"), indent=indent + INDENT)
    if reason := event.get("rejected"):
        screen.line((f"✗ not a draft: {REJECTED_WORDS.get(reason, reason)}", "red"), indent=indent)
    for number, document in enumerate(event.get("documents") or (), start=1):
        likeness = f" · similarity {score_of(document['similarity'])}" if document.get("similarity") is not None else ""
        start = shortened(str(document.get("text", "")), 80)
        screen.line((f"[{number}] {document.get('source', '')}{likeness}", "dim"), f"  {start}", indent=indent + INDENT)


def _remark(event: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the line, with its style, that is all there is to say of an event; `None` where there is more."""
    kind, node, text, reason = (event.get(key) for key in ("kind", "node", "text", "stop_reason"))
    if kind == "skipped":
        return left_out(event) if node == "branch" else f"{node} changed nothing: {text}", "yellow"
    if kind == "failure" and event.get("budget"):
        return f"stopped in {node}: {text}", "yellow"
    if kind == "level" or (kind == "verdict" and reason is None):
        return str(text or ""), "dim"
    if kind == "verdict" and (event.get("out_of_steps") or reason == "undecided"):
        return str(text), "yellow"
    return (stop_words(reason), reason_style(reason)) if kind == "verdict" else None


def _qualified(event: Mapping[str, Any]) -> Iterator[str]:
    """Yield the score of a critique, and what else must be known to trust it."""
    if event.get("score") is not None:
        yield f"score {score_of(event['score'])}"
    yield from (words for key, words in TRUST.items() if event.get(key))
    if event.get("calibration") and event.get("accepted") is None:
        yield "may not say"


def show_requirements(screen: Screen, requirements: Sequence[Mapping[str, Any]]) -> None:
    """Print what people and forks asked for, each with what has come of it."""
    for one in requirements:
        style = {"open": "yellow", "satisfied": "green"}.get(one["status"], "dim")
        screen.line((f"required, {requirement_status(one)}: ", style), one_line(one["text"]))


def doing(item: Mapping[str, Any]) -> str:
    """Describe a `start` item: who is at work, and in which round."""
    node = str(item.get("node"))
    if node == "feedback":
        return f"{item.get('by')} is judging the draft of round {item.get('round')}{_path(item)} …"
    return f"{DOING.get(node, node)}, round {item.get('round')}{_path(item)} …"


def _path(item: Mapping[str, Any]) -> str:
    return f" · path {item['branch']}" if item.get("branch") else ""


def _details(event: Mapping[str, Any], *more: str) -> tuple[str, str]:
    parts = (who_of(event), *more, *usage_words(event.get("usage") or {}))
    return " · ".join(filter(None, parts)), "dim"


def _step(screen: Screen, item: Mapping[str, Any]) -> None:
    """Show what an agent does for its draft; its last words are the draft itself."""
    if item["step"] == "tool_call":
        screen.line(("calls ", "magenta"), shortened(item["text"], 160), indent=INDENT)
    elif item["step"] == "tool_result":
        style = "dim" if item.get("status") == "success" else "red"
        screen.line((f"{item['tool']} → {shortened(item['text'], 160)}", style), indent=INDENT)


OPINIONS = ("critique", "human")
PASSAGES = (("documents", ""), ("withheld", " withheld"))
TRUST = {"oracle": "knows the gold answer", "uncalibrated": "uncalibrated"}
BETWEEN_PATHS = ("branch", "select")
"""The nodes of a search that speak of several paths, or of one that never began."""
