"""Forks over HTTP: a new thread of the caller's that begins in the middle of one of theirs. Internal."""

from __future__ import annotations

import secrets
import uuid
from typing import TYPE_CHECKING, Any

from ....state.checked_channels import BadCheckpointError
from ....state.storage.index import BadRunError
from ....state.threads.thread import Thread, UnknownThreadError
from .call_options import checked_options
from .requests import can_be_served, checked_id, checked_values
from .runs import BadRequestError, NotThereError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .engine import Engine
    from .records import ThreadRecord
    from .runs import Caller

__all__ = ["fork_thread"]


async def fork_thread(
    engine: Engine,
    caller: Caller,
    thread_id: str,
    *,
    at: int | str,
    feedback: str | None = None,
    draft: str | None = None,
    limits: Mapping[str, Any] | None = None,
    assistant: str | None = None,
    model: str | None = None,
    options: Mapping[str, Any] | None = None,
    new_id: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> ThreadRecord:
    """Write a fork, and return its record; a run without input runs it. Nothing is spent, and the parent stays.

    Args:
        engine: Has the threads.
        caller: Whose they are.
        thread_id: The parent.
        at: A round (0 is the first draft) or a checkpoint id.
        feedback: Replaces the critiques of that draft, and with them its acceptance.
        draft: Replaces that draft; it is judged anew.
        limits: Changed limits; those not named stay.
        assistant: Goes on with it; default: the parent's own recipe.
        model: Spec of its model; default: the server's.
        options: Of its preset, as `call_options` has them.
        new_id: Of the fork.
        metadata: Of the fork, as a thread has them.

    Raises:
        NotThereError: There is no such thread, checkpoint or assistant.
        BadRequestError: There is no such draft, a text is blank or too long, a limit or an option makes no sense or is
            not allowed, or the graph forks no threads.
        TakenError: `new_id` is in use.
    """
    record = await engine.owned.thread(caller, thread_id)
    checked_values({"feedback": feedback or "", "draft": draft or "", "limits": limits}, engine.settings)
    place = checked_id(at) if isinstance(at, str) else at
    kept: dict[str, Any] = {}
    if assistant is not None:
        own = checked_options(engine.assistant(assistant), engine.settings, options) if options else {}
        graph, recipe = await engine.graphs.assistant(assistant, model, own)
        kept = {"redraft_recipe": None, "redraft_preset": None, **({} if recipe is None else recipe.metadata())}
    elif model is not None or options:
        raise BadRequestError("a model and options are those of an assistant: name it as assistant_id")
    else:
        graph, recipe = await engine.graphs.of_fork(record)
        kept = {} if recipe is None else dict(recipe.metadata())
    name = new_id if new_id is not None else _new_id(thread_id)
    # The insert decides whose the id is, before anything is written under it.
    made = await engine.owned.create(caller, name, metadata=metadata, assistant=assistant or record.assistant)
    try:
        await Thread(graph, thread_id).afork(
            at=place, feedback=feedback, draft=draft, limits=limits, thread_id=made.thread_id, metadata=kept
        )
    except BaseException as error:
        await engine.owned.erase(made.thread_id)
        if isinstance(error, UnknownThreadError):
            raise NotThereError("there is no such checkpoint, or nothing was run on the thread yet") from error
        # What is stored may be refused too, which is none of the caller's fault.
        if isinstance(error, ValueError) and not isinstance(error, (BadCheckpointError, BadRunError)):
            raise BadRequestError(str(error)[:500]) from error
        raise
    return made


def _new_id(parent: str) -> str:
    return f"{parent}-{secrets.token_hex(3)}" if len(parent) <= 100 and can_be_served(parent) else str(uuid.uuid4())
