"""Commands of stored indexes, as their entry point brings them; none is imported here. Internal."""

from __future__ import annotations

from ..faces.cli.command_list import LazyCommand

__all__ = ["COMMANDS"]

COMMANDS = (
    LazyCommand(
        "index",
        "redraft.retrieval.commands_index:index",
        "Index folders once under a name; later runs search it at once, and only what changed is read again.",
        (
            "redraft index docs --name handbook",
            "redraft index docs papers https://docs.python.org/3/faq/general.html --name handbook",
            "redraft index --name handbook    reads again what changed",
            "redraft index list",
            "redraft index export handbook handbook.index",
            "redraft index import handbook.index --name theirs",
            'redraft run "When does a run stop?" --graph retrieval --index handbook',
        ),
        after="diff",
    ),
)
