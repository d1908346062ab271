"""OpenAI's protocols in common: models, formats and tools of requests, errors, runs as answers. Internal."""

from __future__ import annotations

import hashlib
import json
from calendar import timegm
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from time import strptime
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from ...models.schema_requests import unfenced
from ...nodes.runtime.killable import off_loop
from ...nodes.verify.verifiers import verifier
from ...state.summary import current_run
from ..engine.assistants import Assistant, cached
from ..engine.call_options import FUNCTIONS
from ..engine.engine import Engine
from ..engine.execution import PASSED_ON
from ..engine.runs import NotThereError, QueueFullError, QuotaSpentError, RefusedError, Run
from ..progress_text import progress
from .disconnect import CLIENT_LEFT, ended_before_disconnect, event_stream

__all__ = [
    "ROLES",
    "OpenAIRoute",
    "RequestRefusedError",
    "StructuredFormat",
    "answered",
    "call_item",
    "calls_in",
    "error_body",
    "format_of",
    "functions_of",
    "model_data",
    "presets",
    "problem_of",
    "reasoning",
    "run_facts",
    "split_model",
    "unix_seconds",
]


class RequestRefusedError(ValueError):
    """A request that asks for what can't be done.

    Args:
        message: What is wrong, and what would be right.
        param: The field of the request.
        code: OpenAI's name for it.
        status: The HTTP status.
    """

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.param = param
        self.code = code
        self.status = status


class StructuredFormat:
    """The form that an answer must have.

    Args:
        schema: Its JSON Schema.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = json.dumps(schema, ensure_ascii=False)

    def options(self, assistant: Assistant, *, param: str) -> dict[str, Any]:
        """Return the options of the run whose drafts it decides on.

        Raises:
            RequestRefusedError: Programs do not judge the drafts of this workflow.
        """
        preset = assistant.preset
        if preset.no_verifiers or assistant.served.build is not None or assistant.served.documents:
            why = preset.no_verifiers or "its drafts are not judged by programs"
            raise RequestRefusedError(
                f"{param} is not supported by redraft-{assistant.id}: {why}", param=param, code="unsupported_parameter"
            )
        return {"answer_type": self._schema}

    async def read(self, answer: str) -> tuple[str | None, str | None]:
        """Return an answer that fits, else why there is none: what doesn't fit is never given as if it did."""
        text = unfenced(answer).strip()
        key = hashlib.sha256(json.dumps([self._schema, text]).encode()).digest()
        misfit = READ[key] if key in READ else await off_loop(_misfit, f"json_schema:{self._schema}", text)
        cached(READ, key, lambda: misfit, most=MOST_READ)
        return (text, None) if misfit is None else (None, f"no draft fits the schema that was asked for: {misfit}")


def _misfit(spec: str, text: str) -> str | None:
    """Return the way in which an answer does not fit; `None` where it fits."""
    critique = verifier(spec)("", text)
    if critique is not None and critique.accepted:
        return None
    return "" if critique is None else critique.text[:500]


READ: OrderedDict[bytes, str | None] = OrderedDict()
"""Misfits of answers that were read before: a response is read again by whoever asks for it."""
MOST_READ = 10_000


def format_of(requested: Mapping[str, Any] | None, *, param: str) -> StructuredFormat | None:
    """Return the form that a request asks for: `response_format` of chat completions, or `text.format`; `None`: text.

    Raises:
        RequestRefusedError: It is none.
    """
    kind = (requested or {"type": "text"}).get("type")
    if requested is None or kind == "text":
        return None
    if kind == "json_object":
        return StructuredFormat({"type": "object"})
    nested = requested.get("json_schema", requested)
    schema = nested.get("schema") if isinstance(nested, dict) else None
    if kind != "json_schema" or not isinstance(schema, dict):
        raise RequestRefusedError(f"{param} is text, json_object, or json_schema with a schema", param=param)
    return StructuredFormat(schema)


def functions_of(tools: Sequence[Any] | None, choice: Any, assistant: Assistant) -> dict[str, Any]:
    """Return the options of a run whose base agent is offered tools of its caller's.

    Raises:
        RequestRefusedError: One is no function, the workflow has no agent, or one must be called.
    """
    if not tools or choice == "none":
        return {}
    if FUNCTIONS not in {option.name for option in assistant.preset.options}:
        raise RequestRefusedError(
            f"tools is not supported by redraft-{assistant.id}: it writes texts; redraft-agent has a base agent that "
            "calls tools",
            param="tools",
            code="unsupported_parameter",
        )
    if choice not in (None, "auto"):
        raise RequestRefusedError("tool_choice is auto or none: the agent itself decides", param="tool_choice")
    return {FUNCTIONS: [json.dumps(_function(tool), ensure_ascii=False) for tool in tools]}


def _function(tool: Any) -> dict[str, Any]:
    """Return a tool as chat completions have it; the Responses API has its fields side by side."""
    if not isinstance(tool, dict) or tool.get("type") != "function":
        kind = tool.get("type") if isinstance(tool, dict) else tool
        raise RequestRefusedError(f"tools may be functions, not {kind!r:.40}", param="tools")
    fields = tool.get("function", tool)
    return {
        "type": "function",
        "function": {
            name: fields[name] for name in ("name", "description", "parameters") if fields.get(name) is not None
        },
    }


def calls_in(output: Mapping[str, Any], options: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the calls that a run ended with, for its caller to make: each with `id`, `name` and `arguments`."""
    offered = {json.loads(spec)["function"]["name"] for spec in options.get(FUNCTIONS, ())}
    last = next((event for event in reversed(current_run(output.get("events") or [])) if "steps" in event), None)
    if last is None or not last.get("incomplete"):
        return []
    done = {step.get("id") for step in last["steps"] if step["step"] == "tool_result"}
    return [
        {"id": step["id"], "name": step["tool"], "arguments": json.dumps(step["args"], ensure_ascii=False)}
        for step in last["steps"]
        if step["step"] == "tool_call" and step["id"] not in done and step["tool"] in offered
    ]


def call_item(call: Mapping[str, str]) -> dict[str, Any]:
    """Return a call of a client's tool as a message has it."""
    return {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}


PREFIX = "redraft-"
ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
"""Roles of messages as graphs know them; what tools said elsewhere is left out."""
NO_RETRY = {"x-should-retry": "false"}
"""OpenAI's clients would pay for a failed run twice more."""
FACTS = ("stop_reason", "rounds", "score", "accepted_by")
KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class OpenAIRoute(APIRoute):
    """A route whose errors have OpenAI's shape."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        # Here and not in handlers of the app, which answer in the other protocol's shape.
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestRefusedError as error:
                return _error(error.status, str(error), param=error.param, code=error.code)
            except RequestValidationError as error:
                first = error.errors()[0]
                where = ".".join(str(part) for part in first["loc"] if part != "body")
                # Without repeating what was sent.
                return _error(400, f"{where or 'the body'}: {first['msg']}", param=where or None)
            except RefusedError as error:
                wait = {"Retry-After": str(error.retry_after_s)}
                if isinstance(error, QueueFullError):
                    return _error(429, "the server is busy: too many runs are waiting", headers=wait)
                if isinstance(error, QuotaSpentError):
                    return _error(429, str(error), code="insufficient_quota", headers={**wait, **NO_RETRY})
                return _error(404 if isinstance(error, NotThereError) else 400, str(error))
            except HTTPException as error:
                return _error(error.status_code, str(error.detail), headers=dict(error.headers or {}))

        return handled


def presets(engine: Engine) -> dict[str, Assistant]:
    """Return the assistants that answer without a person, by name."""
    return {
        name: assistant
        for name, assistant in engine.presets.known.items()
        if assistant.served.listed and not assistant.options.get("human")
    }


def split_model(name: str, presets: Iterable[str], upstream: Iterable[str]) -> tuple[str, str | None]:
    """Return the preset and the upstream model (`None`: the server's own) that a model's name stands for.

    Args:
        name: `redraft-<preset>`, or `redraft-<preset>/<upstream model>`.
        presets: Those that are served.
        upstream: The models that callers may choose.

    Raises:
        RequestRefusedError: It stands for none; 404, as OpenAI answers.
    """
    preset, slash, model = name.removeprefix(PREFIX).partition("/")
    if not name.startswith(PREFIX) or preset not in presets or (slash and model not in upstream):
        raise RequestRefusedError(
            f"The model {name!r:.120} does not exist; GET /v1/models lists those that do.",
            param="model",
            code="model_not_found",
            status=404,
        )
    return preset, model if slash else None


def model_data(names: Iterable[str]) -> list[dict[str, Any]]:
    """Return models as `/v1/models` lists them.

    Args:
        names: Presets, or `preset/upstream model`.
    """
    return [{"id": f"{PREFIX}{name}", "object": "model", "created": 0, "owned_by": "redraft"} for name in names]


async def answered(
    request: Request,
    engine: Engine,
    run: Run,
    *,
    events: AsyncIterator[bytes] | None,
    whole: Callable[[], Awaitable[Any]],
) -> Response:
    """Return the answer of a run, which is cancelled where the client leaves before that.

    Args:
        request: Whose client it is.
        engine: Runs it.
        run: The run.
        events: The answer as a stream; `None` for one that wants it whole.
        whole: Returns it, once the run has ended well.
    """
    if events is not None:
        return event_stream(events, cancels=(engine, run))
    if not await ended_before_disconnect(request, engine, run):
        return Response(status_code=CLIENT_LEFT)
    if problem := problem_of(run):
        after = (run.error or {}).get("retry_after_s")
        return _error(*problem, headers={**NO_RETRY, **({"Retry-After": after} if after else {})})
    return JSONResponse(await whole())


async def reasoning(run: Run) -> str:
    """Return a run's progress in words, once it has ended."""
    return "".join([text async for text in progress(run)])


def problem_of(run: Run) -> tuple[int, str] | None:
    """Return the HTTP status and the message of a run that ended without an answer."""
    if run.status == "success":
        return None
    if run.status == "interrupted":
        return 409, "the run was cancelled"
    if run.status == "timeout":
        return 504, "the run took longer than the server allows"
    error = run.error or {}
    upstream = int(error.get("upstream_status", 502))
    return upstream if upstream in PASSED_ON else 502, error.get("message") or "the run failed"


def run_facts(run: Run, output: Mapping[str, Any]) -> dict[str, str]:
    """Return thread, stop reason, rounds, score and who accepted; texts only, since clients expect no other."""
    facts = {"thread_id": run.thread_id, "rounds": 0, **{name: output.get(name) for name in FACTS}}
    return {name: str(value) for name, value in facts.items() if value is not None}


def error_body(message: str, *, status: int, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """Return an error as OpenAI words it; the client makes an exception of its status."""
    kind = KINDS.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def unix_seconds(moment: str) -> int:
    """Return a moment as seconds since the epoch."""
    return timegm(strptime(moment[:19], "%Y-%m-%dT%H:%M:%S"))


def _error(
    status: int, message: str, *, param: str | None = None, code: str | None = None, headers: Any = None
) -> Response:
    return JSONResponse(error_body(message, status=status, param=param, code=code), status, headers=headers)
