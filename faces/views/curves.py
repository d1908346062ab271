"""Score and tokens of threads, round by round, as one static image. Internal."""

from __future__ import annotations

import base64
from io import BytesIO
from typing import TYPE_CHECKING, Any

from ...state.summary import attempts, current_run, rounds
from .console import printed, safe, shortened
from .documents import data_uri
from .theme import darkened, light_figures
from .wording import score_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...state.events import Event

__all__ = ["curve_facts", "curve_pictures", "curve_png", "curve_text"]

NAMED = 9
"""Threads that get a line style of their own and stand in the legend; the others are drawn faint."""

MARKERS, LINES, COLOURS = "oDs", ("-", "--", ":"), 3


def curve_facts(records: Mapping[str, Sequence[Event]]) -> dict[str, Any]:
    """Return for each thread what is drawn: the score of each draft, and the tokens spent up to the end of each round.

    Args:
        records: Thread id → its events.
    """
    threads = []
    for name, events in records.items():
        drafts = {draft.round: draft.score for draft in attempts(events)}
        spent, tokens = 0, dict.fromkeys(range(rounds(events) + 1), 0)
        for event in current_run(events):
            spent += event["usage"]["total_tokens"]
            tokens[event["round"]] = spent
        steady, known = {}, 0
        for number in sorted(tokens):
            known = max(known, tokens[number])
            steady[number] = known
        threads.append({"thread_id": name, "scores": list(drafts.items()), "tokens": list(steady.items())})
    return {"threads": threads, "scored": any(score is not None for one in threads for _, score in one["scores"])}


def curve_text(facts: Mapping[str, Any]) -> str:
    """Return the numbers as a table in plain text: a line a thread and round."""
    from rich.text import Text

    from .console import plain_table

    table = plain_table("thread", "round", "score", "", "tokens so far", right=("round", "score", "tokens so far"))
    for one in facts["threads"]:
        found, tokens = dict(one["scores"]), dict(one["tokens"])
        for index, number in enumerate(sorted({*found, *tokens})):
            score = found.get(number)
            bar = "█" * round(20 * score) if score is not None else ""
            spent = f"{tokens[number]:,}" if number in tokens else ""
            name = safe(one["thread_id"]) if index == 0 else ""
            table.add_row(Text(name), str(number), score_of(score) if number in found else "", bar, spent)
    return printed(table)


def curve_pictures(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the image as addresses that hold it, in light and in dark.

    Raises:
        ImportError: The extra `notebook` is not installed.
    """
    svg = _drawn(facts, "svg")
    return {"light": data_uri(svg), "dark": data_uri(darkened(svg))}


def curve_png(facts: Mapping[str, Any]) -> str:
    """Return the image as PNG, in base64.

    Raises:
        ImportError: The extra `notebook` is not installed.
    """
    return base64.b64encode(_drawn(facts, "png")).decode()


def _drawn(facts: Mapping[str, Any], kind: str) -> bytes:
    with light_figures(extra="notebook"):
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator

        figure = Figure(figsize=(8.6, 3.1), layout="constrained")
        left, right = figure.subplots(1, 2)
        for number, one in enumerate(facts["threads"]):
            known = [(place, score) for place, score in one["scores"] if score is not None]
            left.plot([place for place, _ in known], [score for _, score in known], **_looks(number))
            places, tokens = [place for place, _ in one["tokens"]], [spent for _, spent in one["tokens"]]
            label = shortened(one["thread_id"], 34) if number < NAMED else None
            right.plot(places, tokens, label=label, **_looks(number))
        left.set_title("Score of each draft", loc="left")
        left.set_ylim(-0.05, 1.05)
        if not facts["scored"]:
            left.text(0.5, 0.5, "nobody scored a draft", transform=left.transAxes, ha="center", va="center")
        right.set_title("Tokens spent so far", loc="left")
        right.set_ylim(
            bottom=0, top=None if any(spent for one in facts["threads"] for _, spent in one["tokens"]) else 1
        )
        right.yaxis.set_major_locator(MaxNLocator(6, integer=True))
        right.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        last = max((place for one in facts["threads"] for place, _ in (*one["tokens"], *one["scores"])), default=0)
        for axes in (left, right):
            axes.set_xlabel("round")
            axes.set_xlim(-0.25, max(last, 1) + 0.25)
            axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        if len(facts["threads"]) > 1:
            handles, labels = right.get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
        stream = BytesIO()
        told = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
        figure.savefig(stream, format=kind, metadata=told, dpi=130)
        return stream.getvalue()


def _looks(number: int) -> dict[str, Any]:
    """Return the line style of a thread, by its place among those that are drawn."""
    named = number < NAMED
    return {
        "color": f"C{number % COLOURS}" if named else "C2",
        "marker": MARKERS[(number // COLOURS + number) % len(MARKERS)] if named else "",
        "linestyle": LINES[(number // COLOURS) % len(LINES)],
        "linewidth": 1.6 if named else 0.6,
    }
