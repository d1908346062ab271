"""A tool call: a run that is followed to its end, with progress, and with questions to a person. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ....state.threads.answers import read_answer
from ....state.usage import NO_USAGE
from ..api.disconnect import cancel_unended
from ..engine.runs import BadRequestError, Submission
from ..progress_text import progress, question_of
from .tools import ToolResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..engine.engine import Engine
    from ..engine.runs import Caller, Run

__all__ = ["Client", "call"]

LONGEST_NOTE = 1000
MOST_QUESTIONS = 5
"""How often a client is asked again that sends a form which says nothing."""


class Client(Protocol):
    """Whoever called the tool."""

    @property
    def can_ask(self) -> bool:
        """True where it can put a question to a person."""

    async def tell(self, text: str) -> None:
        """Send progress."""

    async def ask(self, question: Mapping[str, Any], problem: str) -> dict[str, Any] | None:
        """Ask the person, and return the reply; `None` where they refuse.

        Args:
            question: As `Thread.question` gives it.
            problem: Why the reply before was none; empty the first time.
        """


async def call(engine: Engine, caller: Caller, client: Client, **request: Any) -> ToolResult:
    """Run, and return how it ended: finished, or waiting for a person who could not be asked here or refused.

    Args:
        engine: Runs it.
        caller: Whose run it is.
        client: Hears of progress and is asked.
        request: As `Engine.submit` takes it.

    Raises:
        BadRequestError: It makes no sense or is not allowed, or the run failed.
        NotThereError: There is no such thread.
        TakenError: The thread is busy.
        QueueFullError: As many runs wait as may.
        QuotaSpentError: The caller has used up what they may use today.
    """
    new = request.get("thread_id") is None
    submission = Submission(**{"stream_modes": ("custom",), "multitask": "reject", "keep": new, **request})
    run = await engine.submit(caller, submission)
    while True:
        await _follow(engine, run, client)
        question = question_of((run.output or {}).get("__interrupt__"))
        reply = await _replied(client, question) if question is not None and client.can_ask else None
        if reply is None:
            return _result(run, question)
        answer: dict[str, Any] = {"command": {"resume": reply}, "stream_modes": ("custom",)}
        run = await engine.submit(caller, Submission(assistant=run.assistant, thread_id=run.thread_id, **answer))


async def _follow(engine: Engine, run: Run, client: Client) -> None:
    """Send a run's progress until it has ended; where the client gives up, it is cancelled.

    Raises:
        BadRequestError: It failed or was cancelled.
    """
    try:
        async for text in progress(run):
            note = text.strip()
            if note:
                await client.tell(note if len(note) <= LONGEST_NOTE else f"{note[: LONGEST_NOTE - 1]}…")
    except BaseException:
        if not engine.stopped:
            cancel_unended(engine, run)
        raise
    if run.status in ("error", "timeout"):
        message = (run.error or {}).get("message") or "the run failed"
        raise BadRequestError(f"{message} (thread {run.thread_id})")
    if run.status == "interrupted" and not (run.output or {}).get("__interrupt__"):
        raise BadRequestError(f"the run was cancelled; resume goes on with thread {run.thread_id}")


async def _replied(client: Client, question: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a reply that says something; `None` where the person refuses, or the question is none of ours."""
    problem = str(question.get("error", ""))
    for _ in range(MOST_QUESTIONS if "draft" in question else 0):
        reply = await client.ask(question, problem)
        if reply is None:
            return None
        try:
            read_answer(reply, draft=str(question["draft"]))
        except ValueError as error:
            problem = str(error)
        else:
            return reply
    return None


def _result(run: Run, question: dict[str, Any] | None) -> ToolResult:
    output = run.output or {}
    used = {**NO_USAGE, **(output.get("usage") or {})}
    return ToolResult(
        thread_id=run.thread_id,
        run_id=run.id,
        status="finished" if question is None else "waiting",
        answer=output.get("answer") or "",
        stop_reason=output.get("stop_reason") if question is None else None,
        accepted_by=output.get("accepted_by"),
        score=output.get("score"),
        rounds=output.get("rounds") or 0,
        usage={name: value for name, value in used.items() if isinstance(value, int | float) or value is None},
        question=question,
    )
