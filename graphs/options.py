"""Options that several presets share; a name means one thing in all of them. Internal."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from .preset import Option

__all__ = ["COMMON", "DOCUMENTS", "HUMAN", "INDEX", "JUDGE", "THRESHOLD", "TOP_K"]

COMMON = (
    Option(
        "critics_after",
        Literal["undecided", "always"],
        "--critics-after",
        "undecided: verifiers decide alone; always: critics too.",
        metavar="WHEN",
        default="undecided",
        judging=True,
    ),
    Option("generate_prompt", str),
    Option("refine_prompt", str),
    Option("critic_prompt", str),
    Option("keep", Literal["best", "last", "vote"]),
    Option("memory", Literal["all", "last"], default="all"),
    Option("judge_last", bool, default=True),
    Option("tell_checks", bool, default=True),
)
"""Options that every preset takes."""

DOCUMENTS = Option(
    "documents",
    Path,
    "--documents",
    "Documents to look passages up in.",
    metavar="FOLDER",
    reaches="show the model files of the folder {}",
    aliases=("folder", "dir"),
)
INDEX = Option(
    "index",
    str,
    "--index",
    "A stored index to look passages up in, as `redraft index` makes it.",
    metavar="NAME",
    reaches="show the model passages of your index {}",
)
TOP_K = Option(
    "top_k", int, "--top-k", "Passages looked up for a query, at most.", metavar="K", least=1, aliases=("passages",)
)
THRESHOLD = Option(
    "threshold", float, "--threshold", "Score, 0–1, from which it is done.", metavar="SCORE", least=0, most=1
)
HUMAN = Option(
    "human",
    bool,
    "--human",
    "Ask you about each draft, after all others: accept, edit, give feedback or stop.",
    default=False,
    judging=True,
)
JUDGE = Option(
    "judge",
    dict,
    "--judge",
    "A file of `redraft calibrate`: accepts only where that is rarely wrong.",
    metavar="FILE",
    judging=True,
)
