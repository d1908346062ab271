"""Preset `folder`, as its entry point registers it. Internal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..graphs.preset import ASK, HUMAN, Option, Preset

__all__ = ["PRESET"]


def _folder(
    model: Any,
    critics: Sequence[Any],
    verifiers: Sequence[Any],
    *,
    root: Path,
    trees: Path,
    by: str = "",
    **options: Any,
) -> Any:
    from .graph import build_folder_graph

    return build_folder_graph(by or model, root=root, trees=trees, critics=critics, **options)


PRESET = Preset(
    "folder",
    "Works in a folder until commands pass.",
    _folder,
    options=(
        Option("root", Path, reaches="read the folder {}, and show the model its files"),
        Option("trees", Path, reaches="keep files in the folder {}"),
        Option("checks", tuple[str, ...], default=(), reaches="run {} in a copy of the folder"),
        Option("by", str, default="", reaches="run the program {}"),
        Option("protect", tuple[str, ...], default=()),
        Option("files", tuple[str, ...], default=()),
        Option("hidden", tuple[str, ...], default=(), reaches="run {} in a copy of the folder"),
        Option("plain", bool, default=False, reaches="run its commands without a sandbox"),
        HUMAN,
        ASK,
    ),
    no_verifiers="its checks are commands: --check",
    own_command="goal",
    serves=(),
)
