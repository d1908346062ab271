"""The folder that an agent works in, as part of its answers: `RefineMiddleware(folder=…)`. Internal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .drafts import draft_text, read_draft
from .graph import judges_of
from .trees import Trees
from .writers import stored

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .checks import Check

__all__ = ["AgentFolder"]


class AgentFolder:
    """A folder that an agent works in with tools of its own: `RefineMiddleware` judges its files with each answer.

    A draft is the files as they are when the agent would finish, and what it says then. Commands judge a copy of them.
    Where an earlier draft is better than the last, the folder is brought back to that one's files, which is what the
    agent goes on with, and what is there in the end. What no tree holds stays as it is.

    Args:
        root: The folder. It is written: give the agent a copy where that is not wanted.
        trees: Where trees are kept: a folder that is made.
        checks: Commands that all must pass, as in `build_folder_graph`.
        protect: Patterns of files that are put back as they were when the agent was asked, before each judgement.
        plain: Run commands without a sandbox.

    Raises:
        FolderError: At run: the folder can't be read, is too large, or was changed by somebody else meanwhile.
        UnboxedError: At run: there is no sandbox here, and `plain` was not asked for.

    Example:
        >>> from redraft import RefineMiddleware
        >>> from redraft.folders import AgentFolder
        >>> folder = AgentFolder("project", trees="project.trees", checks=["pytest -q"], protect=["tests/**"])
        >>> refining = RefineMiddleware(folder=folder, max_rounds=3)
    """

    def __init__(
        self,
        root: str | Path,
        *,
        trees: str | Path,
        checks: Sequence[Check | str] = (),
        protect: Sequence[str] = (),
        plain: bool = False,
    ) -> None:
        self.root, self.trees = Path(root).expanduser().resolve(), Trees(trees)
        self.checks, self.protect, self.plain = tuple(checks), tuple(protect), plain

    def judges(self, critics: Sequence[Any]) -> list[Any]:
        """Return who judges the files: the checks, then these critics."""
        return judges_of(self.checks, critics, self.trees, self.root, plain=self.plain)

    def read(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return the tree of the folder as it is found."""
        return {"base_tree": self.trees.snapshot(self.root).tree}

    def draft(self, answer: str, base: str) -> str:
        """Return the files as they are, and the agent's answer, as a draft."""
        tree, notes = stored(self.trees, self.root, base, base, self.protect)
        return f"{draft_text(self.trees, base, tree, notes)}\n{answer}"

    def bring_back(self, draft: str, base: str) -> str:
        """Bring the folder back to a draft's files, and return the answer that was given with them."""
        made = read_draft(draft)
        self.trees.apply(self.trees.snapshot(self.root, base=base).tree, made.tree, self.root)
        return draft.removeprefix(draft_text(self.trees, base, made.tree, made.notes)).strip()
