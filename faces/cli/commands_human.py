"""Commands `answer` and `stop`: a person steers a run from outside. Internal."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..._files import read_file
from ..problems import DEFAULT_DB, BadInputError, bad_input, command
from ..sessions import any_reader, known, known_id, opened
from ..views.console import Screen
from .asking import keep_edit
from .options import AsJson, Db, ThreadId, TrustRecipe
from .running import finish, go_on

__all__ = ["answer", "stop", "withdraw"]


def answer(
    thread_id: ThreadId,
    accept: Annotated[bool, typer.Option("--accept", help="The draft is right.")] = False,
    feedback: Annotated[str | None, typer.Option(metavar="TEXT", help="What to change; the draft is revised.")] = None,
    draft: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A file with the text to put in its place; - reads standard input."),
    ] = None,
    end: Annotated[bool, typer.Option("--stop", help="End the run here.")] = False,
    score: Annotated[float | None, typer.Option(metavar="SCORE", help="How good the draft is, 0–1.")] = None,
    at: Annotated[
        int | None, typer.Option(metavar="ROUND", help="The draft that is meant; no other one is answered.")
    ] = None,
    by: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Who answers; no question to another person is answered.")
    ] = None,
    trust_recipe: TrustRecipe = False,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """Answer a thread that waits for a person, and run it on. In a terminal `redraft resume ID` asks you instead."""
    from ...state.threads.answers import answer_of

    ways = {
        "--accept": accept or None,
        "--feedback TEXT": feedback,
        "--draft FILE": draft,
        "--stop": end or None,
    }
    if sum(value is not None for value in ways.values()) != 1:
        raise BadInputError(f"answer with one of {', '.join(ways)}")
    with bad_input():
        text = None if draft is None else read_file(draft, stdin=True)
        reply = answer_of(accept=accept, feedback=feedback, draft=text and text.rstrip("\n"), stop=end, score=score)
    screen = Screen(as_json=as_json)
    try:
        with opened(db) as saver:
            thread_id, row = known(saver, thread_id)
            values, question = go_on(
                saver,
                thread_id,
                lambda thread: thread.ready_answer(reply, at=at, by=by),
                screen=screen,
                db=db,
                trust=trust_recipe,
                row=row,
            )
    except BadInputError as error:
        if draft != "-":
            raise
        raise BadInputError(f"{error}{keep_edit(reply)}", details=error.details) from error  # it is nowhere else
    finish(screen, values, question, thread_id=thread_id, db=db)


def withdraw(
    thread_id: ThreadId,
    requirement: Annotated[str, typer.Argument(metavar="TEXT", help="What was asked for, as `redraft show` has it.")],
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """Withdraw what a person or a fork asked for. `redraft resume ID` then decides anew."""
    from ...state import Thread

    with opened(db) as saver, bad_input():
        thread_id = known_id(saver, thread_id)
        Thread(any_reader(saver, thread_id), thread_id).withdraw(requirement)
    following = command("resume", thread_id, db=db)
    Screen(as_json=as_json).result(
        {"thread_id": thread_id, "withdrawn": requirement, "resume": following},
        lambda screen: screen.line("withdrawn; decide anew with: ", (following, "cyan")),
    )


def stop(thread_id: ThreadId, db: Db = DEFAULT_DB, as_json: AsJson = False) -> None:
    """Ask a thread that another process runs to stop after the step it is in. `redraft resume ID` goes on."""
    from ...state import Thread

    with opened(db) as saver, bad_input():
        thread_id = known_id(saver, thread_id)
        who = Thread(any_reader(saver, thread_id), thread_id).stop()
    following = command("resume", thread_id, db=db)
    data: dict[str, Any] = {"thread_id": thread_id, "asked": who, "resume": following}
    Screen(as_json=as_json).result(
        data,
        lambda screen: screen.line(
            f"asked {who} to stop thread ", (thread_id, "bold"), " after the step it is in; then go on with: ",
            (following, "cyan"),
        ),
    )  # fmt: skip
