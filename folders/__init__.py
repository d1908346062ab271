"""Work in folders: a draft is a tree of files, judged by commands, kept round by round, and applied when you say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .agent_folder import AgentFolder
    from .checks import Check, command
    from .drafts import read_draft
    from .graph import build_folder_graph
    from .trees import Change, FolderError, Snapshot, Trees
    from .writers import AgentInFolder, CommandWriter
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "redraft.folders.agent_folder": ["AgentFolder"],
            "redraft.folders.checks": ["Check", "command"],
            "redraft.folders.drafts": ["read_draft"],
            "redraft.folders.graph": ["build_folder_graph"],
            "redraft.folders.trees": ["Change", "FolderError", "Snapshot", "Trees"],
            "redraft.folders.writers": ["AgentInFolder", "CommandWriter"],
        },
    )

__all__ = [
    "AgentFolder",
    "AgentInFolder",
    "Change",
    "Check",
    "CommandWriter",
    "FolderError",
    "Snapshot",
    "Trees",
    "build_folder_graph",
    "command",
    "read_draft",
]
