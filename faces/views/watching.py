"""A run as it streams: one display that is renewed in a notebook, lines in a terminal. Internal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .console import LiveRun, Screen, doing
from .documents import Display
from .timeline import ROUND_BEGINS, STYLES, event_row, totals
from .wording import STOPPED_BY, amount, reason_style, seconds, stop_words

__all__ = ["MODES", "Watch", "in_notebook", "watching"]

MODES = ("custom", "updates", "values")
SHOWN = 80
"""Rows of a live view; those before are counted."""

INTERRUPT = "__interrupt__"


class Watch:
    """The content of a stream so far.

    Args:
        title: Of the view.
        ours: The graph sends events of ours; of others, each node that ran is shown.
        renew: Called with this after each item.
    """

    def __init__(self, title: str, *, ours: bool, renew: Callable[[Watch, str, Any], None]) -> None:
        self.title = title
        self.ours = ours
        self.rows: list[dict[str, Any]] = []
        self.doing, self.style = "running", "open"
        self._renew = renew
        self._values: Any = None
        self._interrupts: list[Any] = []

    def take(self, part: tuple[str, Any]) -> None:
        """Take one item of a stream in the modes of `MODES`."""
        mode, item = part
        if mode == "values":
            self._values = item
            return
        if mode == "custom" and isinstance(item, dict):
            self._progress(item)
        elif mode == "updates" and isinstance(item, dict):
            self._interrupts += item.get(INTERRUPT, ())
            if not self.ours:
                for name, update in item.items():
                    keys = ", ".join(map(str, update)) if isinstance(update, dict) else type(update).__name__
                    row = event_row({"by": name, "text": f"wrote {keys}" if update else ""})
                    self.rows += [{**row, "new_round": False}] if name != INTERRUPT else []
        self._renew(self, mode, item)

    def output(self) -> Any:
        """Return the output that `invoke` would have returned, and show how the run ended."""
        values = self._values
        reason = values.get("stop_reason") if isinstance(values, dict) else None
        if self._interrupts:
            self.doing, self.style = "waits for a person", "open"
            values = (
                {**values, INTERRUPT: self._interrupts} if isinstance(values, dict) else {INTERRUPT: self._interrupts}
            )
        elif reason:
            self.doing, self.style = stop_words(reason), STYLES[reason_style(reason)]
        else:
            self.doing, self.style = "done", "good"
        self._renew(self, "end", values)
        return values

    def broken(self, error: BaseException) -> None:
        """Say in the view that the run did not come to its end."""
        name = type(error).__name__
        self.doing, self.style = (stop_words(None), "open") if name in STOPPED_BY else (f"failed: {name}", "bad")
        self._renew(self, "end", None)

    def display(self) -> Display:
        """Return the view as it is now."""
        facts = {
            "title": self.title,
            "doing": self.doing,
            "style": self.style,
            "rows": self.rows[-SHOWN:],
            "left_out": max(0, len(self.rows) - SHOWN),
            **totals(self.rows),
        }
        spent = f"{amount(facts['total_tokens'], 'token')} · {seconds(facts['total_seconds'])}"
        lines = [f"{row['by']} · {row['what']} {row['verdict']} {row['excerpt']}".rstrip() for row in facts["rows"]]
        return Display("live", facts, "\n".join([f"{self.title}: {self.doing} · {spent}", *lines]))

    def _progress(self, item: Mapping[str, Any]) -> None:
        kind = item.get("kind")
        if kind == "start":
            self.doing = doing(item)
        elif kind == "step":
            self.doing = f"{item.get('step')}: {item.get('tool', '')}"
        elif isinstance(kind, str) and "round" in item:
            row = event_row(item)
            self.rows.append({**row, "new_round": kind in ROUND_BEGINS})


@contextmanager
def watching(title: str, *, ours: bool) -> Iterator[Watch]:
    """Give the live view of a stream: in the notebook's cell, or on the terminal."""
    with _in_cell() if in_notebook() else _in_terminal() as renew:
        watch = Watch(title, ours=ours, renew=renew)
        try:
            yield watch
        except BaseException as error:
            watch.broken(error)
            raise


def in_notebook() -> bool:
    """Return True if this process is a notebook's kernel. IPython is not imported for it."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


@contextmanager
def _in_cell() -> Iterator[Callable[[Watch, str, Any], None]]:
    from IPython.display import display

    handle: Any = None

    def renew(watch: Watch, mode: str, item: Any) -> None:
        nonlocal handle
        if handle is None:
            handle = display(watch.display(), display_id=True)  # type: ignore[no-untyped-call]
        else:
            handle.update(watch.display())

    yield renew


@contextmanager
def _in_terminal() -> Iterator[Callable[[Watch, str, Any], None]]:
    screen = Screen()
    with screen.thinking() as thinking:
        lines = LiveRun(screen, thinking)

        def renew(watch: Watch, mode: str, item: Any) -> None:
            if mode == "custom" and isinstance(item, dict):
                lines.item(item)
            elif mode == "updates" and not watch.ours and isinstance(item, dict):
                for row in watch.rows[-len(item) :]:
                    screen.line((row["by"], "bold"), (f" {row['excerpt']}", "dim"))
            elif mode == "end":
                screen.line((watch.doing, next(colour for colour, style in STYLES.items() if style == watch.style)))

        yield renew
