"""The ledger and a comparison as tables in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..views.plain_text import safe
from ..views.wording import amount, money, percent, seconds
from .tables import plain_table

if TYPE_CHECKING:
    from ...evals.analysis.comparison import Comparison
    from ...evals.analysis.diagnosis import Diagnosis
    from ...evals.analysis.ledger import Ledger
    from ...evals.analysis.paired import Proportion
    from .console import Screen

__all__ = ["show_comparison", "show_diagnosis", "show_ledger"]


def show_ledger(screen: Screen, ledger: Ledger, *, hint: str | None = None) -> None:
    """Print a table of the methods, one of the critics, and the verdicts in words.

    Args:
        screen: Where to.
        ledger: What is shown.
        hint: A command that shows more.
    """
    from rich.text import Text

    columns = ("method", "right", "95%", "first", "fixed", "broke", "p", "tokens", "cost", "seconds", "rounds")
    table = plain_table(*columns, right=columns[1:])
    for row in ledger.methods:
        change = row.overall
        table.add_row(
            Text(safe(row.label), style="bold"),
            _share(row.accuracy),
            _interval(row.accuracy),
            _share(row.first_draft),
            "" if row.baseline else str(change.fixed),
            "" if row.baseline else str(change.broken),
            "" if row.baseline or change.mcnemar_p is None else f"{change.mcnemar_p:.2g}",
            f"{row.tokens:,.0f}",
            money(row.cost_usd),
            seconds(row.seconds),
            f"{row.mean_iterations:.1f}",
        )
    screen.put(table)
    screen.line(("tokens, cost and seconds are a problem's; first is the first draft", "dim"))
    if ledger.critics:
        screen.line("")
        _show_critics(screen, ledger)
    screen.line("")
    for row in ledger.methods:
        screen.line(row.verdict)
    for warning in [*ledger.warnings, *(f"{row.label}: {text}" for row in ledger.methods for text in row.warnings)]:
        screen.line((f"! {warning}", "yellow"))
    if hint:
        screen.line(("more: ", "dim"), hint)


def _show_critics(screen: Screen, ledger: Ledger) -> None:
    from rich.text import Text

    table = plain_table("critic", "in", "accepts wrong", "95%", "rejects right", "95%")
    for one in ledger.critics:
        table.add_row(
            Text(safe(one.critic), style="bold"),
            safe(one.method),
            f"{one.false_accept.k} of {one.wrong}",
            _interval(one.false_accept),
            f"{one.false_reject.k} of {one.right}",
            _interval(one.false_reject),
        )
    screen.put(table)
    for one in ledger.critics:
        if one.warning:
            screen.line((f"! {one.critic} in {one.method}: {one.warning}", "yellow"))


def show_comparison(screen: Screen, found: Comparison) -> None:
    """Print what changed between two files of results."""
    table = plain_table("", "right", "wrong after", right=("right", "wrong after"))
    table.columns[1].header, table.columns[2].header = "right after", "wrong after"
    table.add_row("right before", str(found.kept_right), str(found.broken))
    table.add_row("wrong before", str(found.fixed), str(found.kept_wrong))
    screen.put(table)
    screen.line("")
    screen.line(found.verdict)
    for warning in found.warnings:
        screen.line((f"! {warning}", "yellow"))


def show_diagnosis(screen: Screen, found: Diagnosis) -> None:
    """Print what a sample says about refining, and what is recommended."""
    screen.line(f"{amount(found.n, 'problem')}; the first draft is right in {_with_interval(found.first_draft)}")
    screen.line("")
    table = plain_table("method", "rounds", "right", "95%", "tokens", right=("rounds", "right", "95%", "tokens"))
    for option in found.options:
        low, high = option.ci95
        table.add_row(
            safe(option.method),
            "" if option.rounds is None else str(option.rounds),
            percent(option.accuracy),
            f"{percent(low)}–{percent(high)}",
            f"{option.tokens:,.0f}",
        )
    screen.put(table)
    screen.line(("rounds are predicted from the rates measured on the sample; methods without are measured", "dim"))
    screen.line("")
    screen.line((found.recommendation, "bold"))


def _share(one: Proportion) -> str:
    return "–" if one.rate is None else percent(one.rate)


def _interval(one: Proportion) -> str:
    ends: Any = one.ci95
    return "–" if one.n == 0 else f"{percent(ends[0])}–{percent(ends[1])}"


def _with_interval(one: Proportion) -> str:
    return f"{_share(one)} ({_interval(one)})"
