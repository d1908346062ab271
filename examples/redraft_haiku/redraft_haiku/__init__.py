"""Haiku for redraft: a preset, a critic and a verifier, as the entry points of this package name them."""

from __future__ import annotations

from typing import Any

from redraft.extend import HUMAN, CriticKind, Option, Preset, VerifierKind

__all__ = ["LINES", "PRESET", "SEASON"]


def _lines(argument: str) -> Any:
    from .judges import has_lines

    if not argument.isdecimal():
        raise ValueError(f"{argument!r} is not a number of lines, such as 3")
    return has_lines(int(argument))


def _season(model: Any, argument: str) -> Any:
    from .judges import SeasonCritic

    return SeasonCritic(model, argument)


PRESET = Preset(
    "haiku",
    "Short poems.",
    "redraft_haiku.graph:build_haiku_graph",
    options=(Option("lines", int, "--lines", "How many lines the poem has (default: 3).", metavar="N", least=1), HUMAN),
)
SEASON = CriticKind("season", "whether a poem is of this season", _season, "SEASON")
LINES = VerifierKind("lines", _lines, "N", line="it has so many lines")
