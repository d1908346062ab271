"""OpenAI's Responses API: workflows that answer, whose answers are stored and gone on from. Internal.

A response is a turn of a thread: `previous_response_id` goes on where that turn ended, in the same thread.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from fastapi import APIRouter, Request, Response

from ..engine.engine import Engine
from ..engine.requests import conversation_input
from ..engine.runs import Caller, NotThereError, Run, Submission
from ..progress_text import progress
from .guards import KnownCaller, KnownEngine
from .openai_runs import (
    OpenAIRoute,
    RequestRefusedError,
    answered,
    call_item,
    calls_in,
    format_of,
    functions_of,
    presets,
    problem_of,
    reasoning,
    split_model,
)
from .problems import Answers, answers
from .responses import INSTRUCTIONS, KEPT, ResponseReply, ResponseRequest, messages_of, response_id, run_id_of
from .wire import json_response, sse

__all__ = ["router"]

ENDS: Answers = {
    200: {"content": {"text/event-stream": {}}, "description": "The response, or with `stream` its events."},
    **answers(409, 429, 502, 504),
}
NO_TASK = "input holds no user message, so there is no task in it"
router = APIRouter(prefix="/v1/responses", route_class=OpenAIRoute, tags=["OpenAI"], responses=answers(404))


@router.post("", responses=ENDS)
async def create(body: ResponseRequest, request: Request, engine: KnownEngine, caller: KnownCaller) -> Response:
    """Run a workflow on what is given, and return its response, whole or as a stream."""
    body.check_supported()
    preset, upstream = split_model(body.model, presets(engine), engine.settings.models)
    assistant = engine.presets.get(preset)
    form = format_of(body.text.format if body.text else None, param="text.format")
    options = {
        **(form.options(assistant, param="text.format") if form else {}),
        **functions_of(body.tools, body.tool_choice, assistant),
    }
    messages = messages_of(body)
    place: dict[str, Any] = {"keep": body.store is not False}
    if body.previous_response_id is not None:
        if assistant.preset.conversation != "messages":
            raise RequestRefusedError(
                f"{body.model} is no chat: send what was said before as input", param="previous_response_id"
            )
        messages, place = await _going_on(engine, caller, body, messages)
    elif not any(message["role"] == "user" for message in messages):
        raise RequestRefusedError(NO_TASK, param="input")
    values = conversation_input(messages, assistant.preset.conversation)
    if body.limits is not None:
        values["limits"] = body.limits
    run = await engine.submit(
        caller,
        Submission(
            assistant=preset,
            input=values,
            stream_modes=("custom",),
            model=upstream,
            options=options,
            metadata={KEPT: body.kept()},
            **place,
        ),
    )
    reply = ResponseReply(run, form)

    async def whole() -> Any:
        return await reply.whole(await _output(engine, run), await reasoning(run))

    return await answered(
        request, engine, run, events=_events(engine, run, reply) if body.stream else None, whole=whole
    )


@router.get("/{name}")
async def retrieve(name: str, engine: KnownEngine, caller: KnownCaller) -> Response:
    """Return a stored response."""
    return json_response(await _response_json(engine, await _stored(engine, caller, name)))


@router.get("/{name}/input_items")
async def input_items(name: str, engine: KnownEngine, caller: KnownCaller) -> dict[str, Any]:
    """Return the input of a stored response."""
    run = await _stored(engine, caller, name)
    values: Mapping[str, Any] = run.request.get("input") or {}
    messages = values.get("messages") or [{"role": "user", "content": values.get("task", "")}]
    items = [
        {
            **{"id": f"msg_{run.id.replace('-', '')}_{number}", "type": "message", "status": "completed"},
            **{"role": message["role"], "content": [{"type": "input_text", "text": message["content"]}]},
        }
        for number, message in enumerate(messages)
        if message["role"] in ("system", "user", "assistant")
    ]
    ends = {"first_id": items[0]["id"], "last_id": items[-1]["id"]} if items else {}
    return {"object": "list", "data": items, "has_more": False, **ends}


@router.post("/{name}/cancel", responses=answers(409))
async def cancel(name: str, engine: KnownEngine, caller: KnownCaller) -> Response:
    """End the run of a response where it stands, and return the response."""
    run = await _stored(engine, caller, name)
    await engine.cancel(caller, run.id)
    return json_response(await _response_json(engine, run))


@router.delete("/{name}")
async def delete(name: str, engine: KnownEngine, caller: KnownCaller) -> dict[str, Any]:
    """Delete a stored response, and with the last one of a conversation all that was said in it."""
    run = await _stored(engine, caller, name)
    others = [other for other in await engine.runs(caller, run.thread_id) if other.id != run.id]
    await engine.forget(caller, run.id)
    if not others:
        await engine.delete_thread(caller, run.thread_id)
    return {"id": response_id(run.id), "object": "response", "deleted": True}


async def _going_on(
    engine: Engine, caller: Caller, body: ResponseRequest, messages: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the messages after an earlier response, and where they go: behind its own turn, whatever came after it."""
    try:
        before = await _stored(engine, caller, str(body.previous_response_id))
    except NotThereError:
        raise RequestRefusedError(
            f"Previous response with id {body.previous_response_id!r} not found.",
            param="previous_response_id",
            code="previous_response_not_found",
        ) from None
    end = await _last_checkpoint(engine, before)
    if before.status != "success" or end is None:
        raise RequestRefusedError("the previous response has no answer to go on from", param="previous_response_id")
    output = await _output(engine, before)
    heard = output.get("messages") or []
    # The instructions of one request are not carried over to the next.
    own = [one for one in messages if one.get("id") == INSTRUCTIONS]
    new = [one for one in messages if one.get("id") != INSTRUCTIONS]
    if not any(message["role"] == "user" for message in new):
        question_before = next((one for one in reversed(heard) if one.type == "human"), None)
        if not (calls := calls_in(output, before.options)) or question_before is None:
            raise RequestRefusedError(NO_TASK, param="input")
        # Results of what it called: the question is still the one before.
        question = {"role": "user", "content": str(question_before.text), "id": question_before.id}
        called = {"role": "assistant", "content": "", "tool_calls": [call_item(one) for one in calls]}
        new, heard = [question, called, *new], heard[: heard.index(question_before)]
    if body.store is not False:
        place = {"thread_id": before.thread_id, "checkpoint_id": end["checkpoint_id"]}
        return [*(own or [FORGET]), *new], place
    spoken = [{"role": ROLES[one.type], "content": str(one.text)} for one in heard if one.type in ROLES]
    return [*own, *spoken, *new], {"keep": False}


FORGET = {"role": "remove", "content": "", "id": INSTRUCTIONS}
ROLES = {"human": "user", "ai": "assistant"}


async def _stored(engine: Engine, caller: Caller, name: str) -> Run:
    """Return the run of a stored response of the caller's.

    Raises:
        NotThereError: There is none.
    """
    try:
        run = await engine.run(caller, run_id_of(name))
    except NotThereError:
        run = None
    if run is None or not (run.metadata.get(KEPT) or {}).get("store"):
        raise NotThereError(f"Response with id {name[:80]!r} not found.")
    return run


async def _response_json(engine: Engine, run: Run) -> Any:
    reply = ResponseReply(run, format_of(run.metadata[KEPT].get("format"), param="text.format"))
    if not run.ended:
        return reply.waiting()
    return await reply.whole(await _output(engine, run), await reasoning(run), problem_of(run))


async def _events(engine: Engine, run: Run, reply: ResponseReply) -> AsyncIterator[bytes]:
    for event in reply.begun():
        yield sse(event, event["type"])
    texts = []
    async for text in progress(run):
        texts.append(text)
        event = reply.thought(text)
        yield sse(event, event["type"])
    problem = problem_of(run)
    output = {} if problem else await _output(engine, run)
    async for event in reply.ended(output, "".join(texts), problem):
        yield sse(event, event["type"])


async def _output(engine: Engine, run: Run) -> Mapping[str, Any]:
    """Return the values that a run ended with, also where others have run on its thread since."""
    if run.output is not None:
        return run.output
    if (end := await _last_checkpoint(engine, run)) is None:
        return {}
    return dict((await engine.graphs.state(await engine.owned.thread(run.caller, run.thread_id), **end)).values)


async def _last_checkpoint(engine: Engine, run: Run) -> dict[str, Any] | None:
    """Return the place of the last checkpoint that a run wrote; `None` where it wrote none."""
    of_thread = {"configurable": {"thread_id": run.thread_id, "checkpoint_ns": ""}}
    async for stored in engine.saver.alist(of_thread, filter={"run_id": run.id}, limit=1):
        return dict(stored.config["configurable"])
    return None
