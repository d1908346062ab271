"""A2A tasks: a run as its caller sees it, and what a message asks for. Internal."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from a2a.helpers import get_data_parts, get_text_parts, new_data_part, new_text_part
from a2a.types import Artifact, Message, Role, Task, TaskState, TaskStatus
from a2a.utils.errors import ContentTypeNotSupportedError, InvalidParamsError

from ..progress_text import question_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..engine.runs import Run

__all__ = ["FINAL", "agent_message", "asked_for", "task_of"]

FINAL = (TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_CANCELED)
STATES = {
    "pending": TaskState.TASK_STATE_SUBMITTED,
    "running": TaskState.TASK_STATE_WORKING,
    "success": TaskState.TASK_STATE_COMPLETED,
    "interrupted": TaskState.TASK_STATE_CANCELED,
    "error": TaskState.TASK_STATE_FAILED,
    "timeout": TaskState.TASK_STATE_FAILED,
}
"""The state of a task whose run asks no person."""
TOLD = ("stop_reason", "accepted_by", "score", "rounds", "usage")
KEYS = ("draft", "limits", "model", "options")


def task_of(task_id: str, run: Run, output: Mapping[str, Any], question: Mapping[str, Any] | None) -> Task:
    """Return a task as it stands.

    Args:
        task_id: The id of its first run.
        run: Its last run; an answer to a question is a run of its own.
        output: Of that run, where it has ended.
        question: What a person is asked, if anybody is.
    """
    status = TaskStatus(state=STATES[run.status])
    if question is not None:
        status.state = TaskState.TASK_STATE_INPUT_REQUIRED
        parts = [new_text_part(question_text(question)), new_data_part(dict(question))]
        status.message.CopyFrom(agent_message(task_id, run, *parts))
    elif run.error is not None:
        status.message.CopyFrom(agent_message(task_id, run, new_text_part(run.error["message"])))
    status.timestamp.FromDatetime(datetime.fromisoformat(run.updated_at or run.created_at))
    task = Task(id=task_id, context_id=run.thread_id, status=status)
    if question is None and output.get("answer"):
        artifact = Artifact(artifact_id="answer", name="answer", parts=[new_text_part(output["answer"])])
        artifact.metadata.update({name: output.get(name) for name in TOLD})
        task.artifacts.append(artifact)
    return task


def agent_message(task_id: str, run: Run, *parts: Any) -> Message:
    """Return a message of the agent's about a task."""
    about = {"task_id": task_id, "context_id": run.thread_id}
    return Message(message_id=f"{run.id}-{len(run.log)}", role=Role.ROLE_AGENT, parts=parts, **about)


def asked_for(message: Message) -> tuple[str, dict[str, Any]]:
    """Return the text of a message, and the one object of data that it may have beside it.

    Raises:
        ContentTypeNotSupportedError: It holds a file, or several objects.
    """
    texts, data = get_text_parts(message.parts), get_data_parts(message.parts)
    if len(texts) + len(data) < len(message.parts) or len(data) > 1:
        raise ContentTypeNotSupportedError("a message holds texts, and one object of data")
    values = data[0] if data else {}
    if not isinstance(values, dict):
        raise ContentTypeNotSupportedError("the data must be an object")
    return "\n".join(texts), _whole(values)


def new_task(message: Message) -> dict[str, Any]:
    """Return the fields of a `Submission` for a message that begins a task.

    Raises:
        InvalidParamsError: Its data have other keys than those.
    """
    text, data = asked_for(message)
    if others := sorted(data.keys() - set(KEYS)):
        raise InvalidParamsError(f"data beside a task hold {', '.join(KEYS)}, not {others[0]!r:.80}")
    named: dict[str, Any] = {name: data.pop(name) for name in ("model", "options") if name in data}
    return {"input": {"task": text, **data}, **named}


def _whole(value: Any) -> Any:
    """Return data of a message with whole numbers as such: protobuf has one kind of number."""
    if isinstance(value, dict):
        return {name: _whole(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_whole(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
