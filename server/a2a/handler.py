"""A2A requests and tasks: answered from the server's runs, so that nothing is kept beside them. Internal."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from importlib.metadata import version
from typing import Any

from a2a.helpers import get_data_parts, get_text_parts, new_data_part, new_text_part
from a2a.server.context import ServerCallContext
from a2a.server.events import Event
from a2a.server.request_handlers.request_handler import RequestHandler, validate_request_params
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Artifact,
    CancelTaskRequest,
    GetTaskRequest,
    HTTPAuthSecurityScheme,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    Role,
    SecurityRequirement,
    SecurityScheme,
    SendMessageRequest,
    StringList,
    SubscribeToTaskRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    ExtendedAgentCardNotConfiguredError,
    InternalError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from ...state.threads.answers import read_answer
from ..engine.assistants import Assistant
from ..engine.engine import Engine
from ..engine.runs import LOG, BadRequestError, NotThereError, RefusedError, Run, Submission
from ..progress_text import progress, question_of, question_text

__all__ = ["RunHandler", "agent_card"]

TASK = "a2a_task"
"""In the metadata of a run that answers a question: the task that it goes on with."""


class RunHandler(RequestHandler):
    """Answers for the assistant and the caller that a call's context names.

    Args:
        engine: Runs what is asked for.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @validate_request_params
    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task:
        with _as_a2a_errors():
            task_id, run = await self._submitted(params.message, context)
            if not params.configuration.return_immediately:
                await run.wait()
            return await self._task(task_id, run)

    @validate_request_params
    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        with _as_a2a_errors():
            task_id, run = await self._submitted(params.message, context)
            async for event in self._events(task_id, run):
                yield event

    @validate_request_params
    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task:
        with _as_a2a_errors():
            return await self._task(params.id, await self._last(params.id, context))

    @validate_request_params
    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        with _as_a2a_errors():
            run = await self._last(params.id, context)
            if (await self._task(params.id, run)).status.state in FINAL:
                raise UnsupportedOperationError("the task has ended: get it")
            async for event in self._events(params.id, run):
                yield event

    @validate_request_params
    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task:
        with _as_a2a_errors():
            run = await self._last(params.id, context)
            if run.ended:
                raise TaskNotCancelableError("the task is not under way; where it asks for input, answer stop")
            await self._engine.cancel(run.caller, run.id)
            await run.wait()
            return await self._task(params.id, run)

    @validate_request_params
    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        with _as_a2a_errors():
            if not params.context_id:
                raise UnsupportedOperationError("tasks are listed by their context_id")
            runs = await self._engine.runs(context.state["caller"], params.context_id)
            named = dict.fromkeys(
                str(run.metadata.get(TASK, run.id)) for run in runs if run.assistant == context.state["assistant"]
            )
            page = list(named)[: params.page_size or 50]
            tasks = [await self._task(name, await self._last(name, context)) for name in page]
            return ListTasksResponse(tasks=tasks, page_size=len(tasks), total_size=len(named))

    async def on_create_task_push_notification_config(self, params: Any, context: ServerCallContext) -> Any:
        raise PushNotificationNotSupportedError

    on_get_task_push_notification_config = on_create_task_push_notification_config
    on_list_task_push_notification_configs = on_create_task_push_notification_config
    on_delete_task_push_notification_config = on_create_task_push_notification_config

    async def on_get_extended_agent_card(self, params: Any, context: ServerCallContext) -> AgentCard:
        raise ExtendedAgentCardNotConfiguredError

    async def _submitted(self, message: Message, context: ServerCallContext) -> tuple[str, Run]:
        """Begin a task, or go on with one that asks for input, and return its id and the run."""
        caller = context.state["caller"]
        if not message.task_id:
            submission = Submission(
                assistant=context.state["assistant"],
                thread_id=message.context_id or None,
                stream_modes=("custom",),
                if_not_exists="create",
                keep=True,
                **new_task(message),
            )
            run = await self._engine.submit(caller, submission)
            return run.id, run
        last = await self._last(message.task_id, context)
        if message.context_id not in ("", last.thread_id):
            raise InvalidParamsError("the task is of another context")
        question = await self._question(last)
        if question is None:
            raise UnsupportedOperationError("the task asks for no input: begin another one in its context")
        text, data = asked_for(message)
        reply = data or text
        if "draft" in question:
            read_answer(reply, draft=str(question["draft"]))
        submission = Submission(
            assistant=last.assistant,
            thread_id=last.thread_id,
            command={"resume": reply},
            stream_modes=("custom",),
            multitask="reject",
            metadata={TASK: message.task_id},
        )
        return message.task_id, await self._engine.submit(caller, submission)

    async def _last(self, task_id: str, context: ServerCallContext) -> Run:
        """Return the last run of a task: its first, or that of the newest answer.

        Raises:
            TaskNotFoundError: The caller has no such task with this assistant.
        """
        try:
            first = await self._engine.run(context.state["caller"], task_id)
        except NotThereError:
            raise TaskNotFoundError from None
        if first.assistant != context.state["assistant"]:
            raise TaskNotFoundError
        runs = await self._engine.runs(first.caller, first.thread_id)
        return next((run for run in runs if run.metadata.get(TASK) == task_id), first)

    async def _task(self, task_id: str, run: Run) -> Task:
        return task_of(task_id, run, await self._engine.join(run) if run.ended else {}, await self._question(run))

    async def _question(self, run: Run) -> Mapping[str, Any] | None:
        """Return the question to a person that the run ended with, if any."""
        if run.status != "interrupted":
            return None
        if run.output is not None:
            return question_of(run.output.get("__interrupt__"))
        # Another process ran it.
        left = await self._engine.state_after(run)
        return None if left is None else question_of(left.interrupts)

    async def _events(self, task_id: str, run: Run) -> AsyncGenerator[Event]:
        yield await self._task(task_id, run)
        about: dict[str, Any] = {"task_id": task_id, "context_id": run.thread_id}
        async for text in progress(run):
            if text.strip():
                yield TaskStatusUpdateEvent(
                    status=TaskStatus(
                        state=TaskState.TASK_STATE_WORKING,
                        message=agent_message(task_id, run, new_text_part(text.strip())),
                    ),
                    **about,
                )
        ended = await self._task(task_id, run)
        for artifact in ended.artifacts:
            yield TaskArtifactUpdateEvent(artifact=artifact, last_chunk=True, **about)
        yield TaskStatusUpdateEvent(status=ended.status, **about)


@contextmanager
def _as_a2a_errors() -> Iterator[None]:
    """Turn errors into those of the protocol; what an unexpected one says is for the log alone."""
    try:
        yield
    except A2AError:
        raise
    except (BadRequestError, ValueError) as error:
        raise InvalidParamsError(str(error)[:1000]) from error
    except RefusedError as error:
        raise UnsupportedOperationError(str(error)) from error
    except Exception as error:
        LOG.exception("a request of A2A failed")
        raise InternalError("something went wrong; the server's log says what") from error


def agent_card(assistant: Assistant, *, url: str, guarded: bool) -> AgentCard:
    """Return the card of an assistant.

    Args:
        assistant: The agent.
        url: Where it is reached.
        guarded: Whether a token is needed.
    """
    card = AgentCard(
        name=f"redraft {assistant.id}",
        description=f"{assistant.served.line} The artifact's metadata say who accepted the answer, if anybody did.",
        version=version("redraft"),
        # Older clients speak 0.3 at the same address.
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version=spoken) for spoken in ("1.0", "0.3")
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=False),
        default_input_modes=["text/plain", "application/json"],
        default_output_modes=["text/plain"],
        skills=[
            AgentSkill(
                id=assistant.id,
                name=assistant.id,
                description=assistant.served.line,
                tags=["draft", "critique", "refine"],
            )
        ],
    )
    if guarded:
        bearer = HTTPAuthSecurityScheme(scheme="bearer")
        card.security_schemes["token"].CopyFrom(SecurityScheme(http_auth_security_scheme=bearer))
        card.security_requirements.append(SecurityRequirement(schemes={"token": StringList()}))
    return card


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
KEYS = ("draft", "require", "limits", "model", "options")


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
        status.message.CopyFrom(
            agent_message(task_id, run, new_text_part(question_text(question)), new_data_part(dict(question)))
        )
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
    return Message(
        message_id=f"{run.id}-{len(run.log)}",
        role=Role.ROLE_AGENT,
        parts=parts,
        task_id=task_id,
        context_id=run.thread_id,
    )


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
