"""Rows of results, written alike by every benchmark and collected by `benchmarks/all.py`.

rows = [at_most("client CPU per call ÷ raw aiohttp, 64 in flight", 8.7, 10, n=5)]
return finish(rows, given.json)
"""

from __future__ import annotations

import datetime
import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

__all__ = ["Row", "add_options", "at_least", "at_most", "finish", "left_out", "machine", "share", "shown", "table"]


class Row(TypedDict):
    """One line of the table."""

    what: str
    goal: str | None
    """Such as `≤ 1.4`; `None` where nothing is promised (a peer, a comparison)."""
    measured: float | None
    """`None` where it was left out; `note` says why."""
    met: bool | None
    unit: str
    n: int
    """Repeats that the median is over."""
    note: str


def at_most(what: str, measured: float, limit: float | None, *, unit: str = "ratio", n: int = 1, note: str = "") -> Row:
    """Return the row of something that must not be more than `limit`; without one it is only shown."""
    goal, met = (None, None) if limit is None else (f"≤ {limit:g}", measured <= limit)
    return Row(what=what, goal=goal, measured=measured, met=met, unit=unit, n=n, note=note)


def at_least(what: str, measured: float, limit: float, *, unit: str = "share", n: int = 1, note: str = "") -> Row:
    """Return the row of something that must not be less than `limit`."""
    return Row(what=what, goal=f"≥ {limit:g}", measured=measured, met=measured >= limit, unit=unit, n=n, note=note)


def left_out(what: str, why: str, *, goal: str | None = None) -> Row:
    """Return the row of something that could not be measured here."""
    return Row(what=what, goal=goal, measured=None, met=None, unit="", n=0, note=why)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what every benchmark takes: `--json PATH` and `--quick`."""
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the rows there too")
    parser.add_argument("--quick", action="store_true", help="a small size, as in `make bench`")


def finish(rows: Sequence[Row], path: Path | None, *, packages: Sequence[str] = ()) -> int:
    """Print the table and the machine, write the rows, and return the exit code: 1 when a goal is missed."""
    print(table(rows))
    print(f"\n{machine(packages)}", flush=True)
    if path is not None:
        path.write_text(json.dumps(list(rows), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return 1 if any(row["met"] is False for row in rows) else 0


def table(rows: Sequence[Row]) -> str:
    """Return the rows as text in columns."""
    cells = [("what", "goal", "measured", "", "n", "note")]
    for row in rows:
        verdict = {True: "met", False: "MISSED", None: ""}[row["met"]]
        cells.append((row["what"], row["goal"] or "–", shown(row), verdict, str(row["n"] or ""), row["note"]))
    widths = [max(len(line[column]) for line in cells) for column in range(5)]
    lines = ["  ".join([*(c.ljust(w) for c, w in zip(line, widths, strict=False)), line[5]]).rstrip() for line in cells]
    return "\n".join(lines)


def shown(row: Row) -> str:
    """Return the number with its unit, in three figures."""
    if row["measured"] is None:
        return "left out"
    number = f"{row['measured']:,.0f}" if abs(row["measured"]) >= 100 else f"{row['measured']:.3g}"
    return number if row["unit"] in ("ratio", "share", "") else f"{number} {row['unit']}"


def machine(packages: Sequence[str] = ()) -> str:
    """Return date, machine, Python and the versions of the packages measured."""
    found = [f"{datetime.datetime.now(tz=datetime.UTC):%Y-%m-%d}", platform.machine(), f"{os.cpu_count()} cores"]
    found += [platform.system(), f"Python {platform.python_version()}"]
    for name in packages:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join(found)


def share(values: Iterable[bool]) -> str:
    """Return a share with its interval: `12 of 30 = 40.0% (24.6%–57.7%)`."""
    from redraft.evals.analysis.paired import proportion  # most benchmarks do without the extra `evals`

    listed = [*values]
    found = proportion(sum(listed), len(listed))
    low, high = found.ci95
    return f"{sum(listed)} of {len(listed)} = {found.rate:.1%} ({low:.1%}–{high:.1%})"
