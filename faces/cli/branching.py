"""Writing a fork from the shell: the branch, and the recipe that it goes on with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..problems import BadInputError, bad_input

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .console import Screen

__all__ = ["write_fork"]


def write_fork(
    saver: Any,
    thread_id: str,
    *,
    at: int | str,
    feedback: str | None,
    draft: str | None,
    model: str | None,
    limits: Mapping[str, Any],
    new_id: str | None,
    screen: Screen,
    trust: bool,
) -> str:
    """Write a new thread that starts in the middle of another, and return its id. Calls no model.

    Args:
        saver: The database.
        thread_id: The parent, which stays as it is.
        at: A round or a checkpoint id.
        feedback: Replaces that round's critiques.
        draft: Replaces that draft.
        model: The model to go on with; default: the parent's.
        limits: Changed limits.
        new_id: The new thread's id; default: the parent's with a random ending.
        screen: Where the user is asked about a recipe of somebody else's, of which the branch's own would be made.
        trust: The user has agreed to it already.

    Raises:
        BadInputError: There is no such thread, round or checkpoint, a text is blank, or the new id is taken.
    """
    from ...state import Thread
    from ..run_config import RunConfig
    from ..sessions import reader_graph
    from .running import trusted_recipe

    reader = reader_graph(saver, thread_id)
    parents = RunConfig.of_thread(saver, thread_id)
    if model is not None or parents.of_fork() != parents:
        parents = trusted_recipe(saver, thread_id, screen=screen, trust=trust)
    recipe = parents.of_fork()
    if model is not None:
        recipe = RunConfig.given(**{**recipe.flat(), "model": model})
        with bad_input():
            recipe.build(None)  # a wrong spec is refused before anything is written
    with bad_input():
        branch = Thread(reader, thread_id).fork(
            at=at, feedback=feedback, draft=draft, limits=limits or None, thread_id=new_id
        )
    if recipe != parents:
        _keep_recipe(branch, recipe)
    return branch.thread_id


def _keep_recipe(branch: Any, recipe: Any) -> None:
    """Write the branch's own recipe: `Thread.fork` gives it its parent's."""
    snapshot = branch.graph.get_state(branch.config)
    if not snapshot.next:
        raise BadInputError(f"the fork {branch.thread_id!r} has nothing left to run")
    point = branch.kind.fork_point(snapshot, snapshot.config["configurable"]["checkpoint_id"])
    branch.graph.update_state(
        {**branch.config, "metadata": recipe.metadata()}, {"limits": point.values["limits"]}, as_node=point.as_node
    )
