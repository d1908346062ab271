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
    STOP_WORDS,
    amount,
    left_out,
    mark,
    reason_style,
    requirement_status,
    said_nothing,
    score_of,
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
        shown: The rounds whose drafts are printed are added to it.
    """

    def __init__(self, screen: Screen, thinking: Callable[[str], None], shown: set[int] | None = None) -> None:
        self._screen = screen
        self._thinking = thinking
        self._shown = set() if shown is None else shown
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
                self._shown.add(item["round"])
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
    show = {
        "draft": _draft,
        "revision": _draft,
        "critique": _critique,
        "human": _critique,
        "verdict": _verdict,
        "failure": _failure,
        "retrieval": _retrieval,
        "skipped": _skipped,
        "level": _level,
        "comparison": _comparison,
    }.get(event["kind"], _other)
    show(screen, event, indent)


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


def _draft(screen: Screen, event: Mapping[str, Any], indent: int) -> None:
    screen.line((event["kind"], "cyan"), " · ", _details(event), indent=indent)
    if event["text"].strip():
        screen.block(event["text"], indent=indent + INDENT)
    if taken_off := stripped_words(event):
        screen.line((taken_off, "dim"), indent=indent + INDENT)
    if reason := event.get("rejected"):
        screen.line((f"✗ not a draft: {REJECTED_WORDS.get(reason, reason)}", "red"), indent=indent)


def _critique(screen: Screen, event: Mapping[str, Any], indent: int) -> None:
    sign, style = mark(event.get("accepted"))
    score = event.get("score")
    more = [f"score {score_of(score)}"] if score is not None else []
    if event.get("oracle"):
        more.append("knows the gold answer")
    if event.get("uncalibrated"):
        more.append("uncalibrated")
    if event.get("calibration") and event.get("accepted") is None:
        more.append("may not say")
    screen.line((f"{sign} ", style), _details(event, *more), indent=indent)
    screen.block(event["text"] if event["text"].strip() else said_nothing(event), indent=indent + INDENT)


def _verdict(screen: Screen, event: Mapping[str, Any], indent: int) -> None:
    reason = event.get("stop_reason")
    if reason is None:
        screen.line((event["text"], "dim"), indent=indent)
    elif event.get("out_of_steps") or reason == "undecided":
        screen.line((event["text"], "yellow"), indent=indent)
    else:
        screen.line((f"{STOP_WORDS.get(reason, reason)}", reason_style(reason)), indent=indent)


def _failure(screen: Screen, event: Mapping[str, Any], indent: int) -> None:
    if event.get("budget"):
        screen.line((f"stopped in {event.get('node')}: {event['text']}", "yellow"), indent=indent)
        return
    where = event.get("branch") if event.get("node") == "branch" else event.get("node")
    screen.line((f"failed in {where}: {event.get('error')}", "red"), indent=indent)
    screen.block(event["text"], indent=indent + INDENT)


def _retrieval(screen: Screen, event: Mapping[str, Any], indent: int) -> None:
    passages = event.get("documents") or []
    withheld = [f"{amount(len(hidden), 'passage')} withheld"] if (hidden := event.get("withheld")) else []
    screen.line(
        ("retrieval", "cyan"), " · ", _details(event, amount(len(passages), "passage"), *withheld), indent=indent
    )
    screen.block(event["text"], indent=indent + INDENT)
    for number, document in enumerate(passages, start=1):
        likeness = f" · similarity {score_of(document['similarity'])}" if document.get("similarity") is not None else ""
        start = shortened(str(document.get("text", "")), 80)
        screen.line((f"[{number}] {document.get('source', '')}{likeness}", "dim"), f"  {start}", indent=indent + INDENT)


def _step(screen: Screen, item: Mapping[str, Any]) -> None:
    """Show what an agent does for its draft; its last words are the draft itself."""
    if item["step"] == "tool_call":
        screen.line(("calls ", "magenta"), shortened(item["text"], 160), indent=INDENT)
    elif item["step"] == "tool_result":
        style = "dim" if item.get("status") == "success" else "red"
        screen.line((f"{item['tool']} → {shortened(item['text'], 160)}", style), indent=INDENT)


def _skipped(screen: Screen, item: Mapping[str, Any], indent: int) -> None:
    text = f"{item.get('node')} changed nothing: {item.get('text')}"
    screen.line((left_out(item) if item.get("node") == "branch" else text, "yellow"), indent=indent)


def _level(screen: Screen, item: Mapping[str, Any], indent: int) -> None:
    screen.line((str(item.get("text") or ""), "dim"), indent=indent)


def _comparison(screen: Screen, item: Mapping[str, Any], indent: int) -> None:
    """Show what a judge said of two paths of a search."""
    outcome = f"{item['winner']} is better" if item.get("winner") else "a tie"
    pair = f"{item.get('first')} and {item.get('second')}"
    screen.line(("comparison", "cyan"), " · ", (f"{item.get('judge')} · {pair}: {outcome}", "dim"), indent=indent)
    for remark in (*(item.get("reasons") or ()), item.get("error")):
        if remark:
            screen.block(str(remark), indent=indent + INDENT)


def _other(screen: Screen, event: Mapping[str, Any], indent: int) -> None:
    screen.line((str(event["kind"]), "cyan"), " · ", _details(event), indent=indent)
    if event.get("text"):
        screen.block(str(event["text"]), indent=indent + INDENT)


BETWEEN_PATHS = ("branch", "select")
"""The nodes of a search that speak of several paths, or of one that never began."""
