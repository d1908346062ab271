"""The nodes that take a task in: until one has run, state and record are those of the task before. Internal.

The kinds of graphs name them (`GraphKind.first_node`). The runs index and the checks of stored values see a checkpoint
and no graph, and know by these whether a task waits there.
"""

from __future__ import annotations

from .langgraph_internals import BRANCH_TO, INPUT_CHANNEL

__all__ = ["BEGIN", "PREPARE", "UNREAD"]

PREPARE = "prepare"
"""Of the loop, and of what is built on it."""
BEGIN = "begin"
"""Of a pipeline."""
UNREAD = frozenset({INPUT_CHANNEL, BRANCH_TO + PREPARE, BRANCH_TO + BEGIN})
"""Channels that are there while a task waits for one of them."""
