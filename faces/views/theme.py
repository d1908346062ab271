"""The light and dark theme of a report's figures. Internal."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["DARK", "LIGHT", "darkened", "light_figures"]

LIGHT = {
    "paper": "#ffffff",
    "ink": "#1b1f24",
    "line": "#d5d9df",
    "good": "#0072b2",
    "warm": "#d55e00",
    "faint": "#6a737d",
}
DARK = {
    "paper": "#14171b",
    "ink": "#e6e8eb",
    "line": "#373d46",
    "good": "#56b4e9",
    "warm": "#e69f00",
    "faint": "#a0a8b2",
}
"""Blue and orange after Okabe and Ito: the colour-blind tell them apart."""


@contextmanager
def light_figures() -> Iterator[None]:
    """Within the block, figures look like the page in light, whatever the user's own settings are.

    Raises:
        ImportError: The extra is not installed.
    """
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise ImportError(f'plots need an extra: pip install ".[evals]" in a checkout ({error})') from None
    from cycler import cycler

    looks: dict[str, Any] = {
        "axes.prop_cycle": cycler(color=[LIGHT["good"], LIGHT["warm"], LIGHT["faint"]]),
        "figure.facecolor": LIGHT["paper"],
        "savefig.facecolor": LIGHT["paper"],
        "axes.facecolor": LIGHT["paper"],
        "axes.edgecolor": LIGHT["line"],
        "axes.grid": True,
        "axes.grid.axis": "y",
        "axes.axisbelow": True,
        "grid.color": LIGHT["line"],
        "grid.linewidth": 0.6,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 10,
        "axes.titleweight": "bold",
        "font.size": 9,
        "text.color": LIGHT["ink"],
        "axes.labelcolor": LIGHT["ink"],
        "xtick.color": LIGHT["ink"],
        "ytick.color": LIGHT["ink"],
        "figure.constrained_layout.h_pad": 0.12,
        "figure.constrained_layout.w_pad": 0.12,
        "hatch.color": LIGHT["paper"],
        "hatch.linewidth": 1.2,
        "svg.hashsalt": "redraft",
        "svg.fonttype": "path",
        "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    }
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        settings: Any = mpl.rcParams
        settings.update(looks)
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # a name in a script that it lacks
        yield


def darkened(svg: bytes) -> bytes:
    """Return a light figure in the dark theme's colours."""
    turned = {LIGHT[name].encode(): DARK[name].encode() for name in LIGHT}
    return re.sub(b"|".join(turned), lambda match: turned[match.group()], svg)
