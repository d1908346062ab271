"""Whether a thread is run as the recipe in its database says: a recipe of somebody else's is followed when the user
agrees."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..problems import BadInputError
from ..recipe import FILE_SPECS, Recipe
from .asking import can_ask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .console import Screen

__all__ = ["reaches", "trusted_recipe"]


def trusted_recipe(saver: Any, thread_id: str, *, screen: Screen, trust: bool) -> Recipe:
    """Return the recipe of a thread, which the user wrote on this machine, reaches nothing, or is agreed to.

    Args:
        saver: The database.
        thread_id: The thread.
        screen: Where the user is asked, if somebody sits at it.
        trust: The user has agreed already.

    Raises:
        BadInputError: As `Recipe.of_thread`; or the user does not agree, or nobody can be asked.
    """
    recipe, own = Recipe.kept(saver, thread_id)
    reached = [] if own or trust else reaches(recipe)
    if not reached:
        return recipe
    why = f"the recipe of thread {thread_id!r} was not written by you on this machine, or was changed since"
    if can_ask(screen):
        screen.line((f"{why}. It would:", "yellow"))
        for what in reached:
            screen.line(f"- {what}", indent=2)
        if _agreed(screen):
            return recipe
        raise BadInputError("nothing was run")
    raise BadInputError(f"{why}; it would {', '.join(reached)}: if you trust whoever wrote it, add --trust-recipe")


def reaches(recipe: Recipe) -> Sequence[str]:
    """Return what a recipe has done beyond a provider's own address, in words: whom it writes to, which files it reads.

    The address of REDRAFT_MODEL is the user's own.
    """
    found = []
    for spec in dict.fromkeys((recipe.model, *recipe.critics)):
        if spec.startswith(("http:", "https:")) and _address(spec) != _address(os.environ.get("REDRAFT_MODEL", "")):
            found.append(f"send texts, and REDRAFT_API_KEY if it is set, to {spec}")
        elif spec.startswith(FILE_SPECS):
            found.append(f"open the file of {spec}")
    found += [f"open the file of {spec}" for spec in recipe.verifiers if spec.startswith("json_schema:")]
    if recipe.prices is not None:
        found.append(f"open the file {recipe.prices}")
    if recipe.folder is not None:
        found.append(f"show the model files of the folder {recipe.folder}")
    if recipe.steps is not None:
        found.append(f"show the model files of the folders that its pipeline looks in: {recipe.steps}")
    return found


def _address(spec: str) -> str:
    return spec.strip().partition("#")[0].rstrip("/")


def _agreed(screen: Screen) -> bool:
    screen.progress.print("go on? [y/N] ", end="", style="bold", soft_wrap=True)
    try:
        return input().strip().casefold() in ("y", "yes")
    except EOFError:
        screen.line("")
        return False
