"""Agents of other frameworks as bases: pydantic-ai's, the OpenAI Agents SDK's, plain functions. Internal.

None of these packages is imported here: an agent is known by how it is run, and its replies are read off as they are.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ToolCall,
    ToolMessage,
    convert_to_messages,
    convert_to_openai_messages,
)
from langchain_core.runnables import Runnable, RunnableConfig

from ...state.dual import Do, calling
from ..runtime.meter import COUNTS, METER
from ..runtime.step import DualRunnable
from ..writing.prompts import with_context
from ..writing.replies import read_text

__all__ = ["AgentStoppedError", "OtherAgent", "as_runnable"]


class AgentStoppedError(RuntimeError):
    """An agent met a limit of its own. `messages` is what it said and did until then, after what it was given."""

    def __init__(self, why: str, messages: list[BaseMessage]) -> None:
        super().__init__(why)
        self.messages = messages


def as_runnable(base: Any) -> Runnable[Any, Any]:
    """Return a base as a Runnable: one that is none yet is run by its `run`, by its SDK's `Runner`, or called.

    Raises:
        TypeError: It is none of these.
    """
    if isinstance(base, Runnable):
        return base
    ask = None if isinstance(base, type | str) else _asking(base)
    if ask is None:
        raise TypeError(
            "base is a Runnable, a chat model, an agent of pydantic-ai or of the OpenAI Agents SDK, or a function of "
            f"the task, not {base!r}"
        )
    return OtherAgent(base, ask)


def _asking(base: Any) -> Callable[[list[BaseMessage]], Any] | None:
    """Return the call of an agent with a conversation, or `None` where it can't be called."""
    if callable(run := getattr(base, "run", None)):
        return lambda said: run(_prompt(said))
    if callable(begin := getattr(_of_package(base, "Runner"), "run", None)):
        return lambda said: begin(base, convert_to_openai_messages(said))
    if not callable(base):
        return None
    if "messages" in inspect.signature(base).parameters:
        return lambda said: base(messages=convert_to_openai_messages(said))
    return lambda said: base(_prompt(said))


def _of_package(base: Any, name: str) -> Any:
    """Return something of the package that an agent is of, which is imported where there is an agent."""
    packages = (sys.modules.get(cls.__module__.partition(".")[0]) for cls in type(base).__mro__)
    return next((member for one in packages if (member := getattr(one, name, None)) is not None), None)


def _prompt(said: Sequence[BaseMessage]) -> str:
    """Return a conversation as one text: the last message, after what was said before it."""
    return with_context(str(said[-1].text), said[:-1])


class OtherAgent(DualRunnable[Mapping[str, Any], dict[str, Any]]):
    """An agent that is no Runnable, over `messages`, as an agent of LangChain's is.

    What its replies say of their tokens is on the messages. Replies of models that say nothing, and what it used before
    it raised, are counted here.

    Args:
        base: The agent.
        ask: Runs it on a conversation.
    """

    def __init__(self, base: Any, ask: Callable[[list[BaseMessage]], Any]) -> None:
        self.base = base
        self.name = str(getattr(base, "name", None) or getattr(base, "__name__", None) or type(base).__name__)
        self._ask = ask
        self._capture = _of_package(base, "capture_run_messages")

    def logic(self, input: Mapping[str, Any], config: RunnableConfig | None) -> Generator[Do, Any, dict[str, Any]]:  # noqa: A002
        """Return its messages, and in `structured_response` an answer that is data."""
        conversation = convert_to_messages(input["messages"])
        captured: list[Any] = []
        try:
            result = yield calling(self._run, conversation, captured)
        except Exception as error:
            messages = _messages(captured) or _messages_of_sdk(getattr(error, "run_data", None), self.base)
            if type(error).__name__ in OUT_OF_STEPS:
                _count(messages)
                raise AgentStoppedError(f"{type(error).__name__}: {error}", [*conversation, *messages]) from error
            _count(messages, all_of_them=True)
            raise
        messages, data = _read(result, self.base)
        _count(messages)
        _count_rest(result, messages)
        return {"messages": [*conversation, *messages], **({} if data is None else {"structured_response": data})}

    def _run(self, given: list[BaseMessage], captured: list[Any]) -> Any:
        return self._ask(given) if self._capture is None else self._captured(given, captured)

    async def _captured(self, given: list[BaseMessage], captured: list[Any]) -> Any:
        """Run an agent of pydantic-ai; what it said until it raises is in `captured`."""
        assert self._capture is not None  # noqa: S101
        with self._capture() as messages:
            try:
                result = self._ask(given)
                return await result if inspect.isawaitable(result) else result
            finally:
                captured.extend(messages)


def _read(result: Any, base: Any) -> tuple[list[BaseMessage], Any]:
    """Return the messages of an agent's run, and its answer where that is data."""
    if callable(new := getattr(result, "new_messages", None)):
        messages = _messages(new())
    elif hasattr(result, "raw_responses"):
        messages = _messages_of_sdk(result, base)
    else:
        return [_reply(result)], None
    output = result.output if hasattr(result, "output") else result.final_output
    return messages, None if isinstance(output, str) else output


def _reply(result: Any) -> AIMessage:
    """Return the result of a function, or of an agent of any other kind, as a message."""
    if isinstance(result, AIMessage):
        return result
    texts = (getattr(result, name, None) for name in ("output", "final_output", "content", "text"))
    text = next((one for one in texts if isinstance(one, str)), None)
    text = read_text(result) if text is None else text
    return _message(text, [], _field(result, "usage"), _field(result, "model"))


def _messages(told: Sequence[Any]) -> list[BaseMessage]:
    """Return messages of pydantic-ai as LangChain's."""
    converted: list[BaseMessage] = []
    for one in told:
        if getattr(one, "kind", "") == "response":
            texts = [part.content for part in one.parts if part.part_kind == "text"]
            calls = [
                _tool_call(part.tool_name, part.args_as_dict(), part.tool_call_id)
                for part in one.parts
                if part.part_kind == "tool-call"
            ]
            reply = _message("".join(texts), calls, one.usage, one.model_name, one.finish_reason)
            reply.response_metadata["model_provider"] = one.provider_name
            converted.append(reply)
            continue
        for part in getattr(one, "parts", ()):
            if part.part_kind == "tool-return":
                converted.append(
                    ToolMessage(part.model_response_str(), tool_call_id=part.tool_call_id, name=part.tool_name)
                )
            elif part.part_kind == "retry-prompt" and part.tool_name:
                text, of = part.model_response(), {"tool_call_id": part.tool_call_id, "name": part.tool_name}
                converted.append(ToolMessage(text, status="error", **of))
    return converted


def _messages_of_sdk(run: Any, base: Any) -> list[BaseMessage]:
    """Return the messages of a run of the OpenAI Agents SDK as LangChain's: of one that ended, or one that failed."""
    agents = {id(item.raw_item): item.agent for item in getattr(run, "new_items", ())}
    results: dict[str, Any] = {}
    for item in getattr(run, "new_items", ()):
        if item.type == "tool_call_output_item" and (found := _field(item.raw_item, "call_id")):
            results[found] = item.output
    converted: list[BaseMessage] = []
    agent = base
    for response in getattr(run, "raw_responses", ()):
        texts, calls = [], []
        for item in response.output:
            agent = agents.get(id(item), agent)
            if _field(item, "type") == "message":
                texts += [_field(part, "text") or "" for part in _field(item, "content") or ()]
            elif call_id := _field(item, "call_id"):
                calls.append(_tool_call(_field(item, "name") or "tool", _field(item, "arguments"), call_id))
        model = getattr(agent, "model", None)
        converted.append(_message("".join(texts), calls, response.usage, getattr(model, "model", model)))
        converted += [
            ToolMessage(str(results[call["id"]]), tool_call_id=call["id"], name=call["name"])
            for call in calls
            if call["id"] in results
        ]
    return converted


def _field(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


def _tool_call(name: str, args: Any, call_id: str | None) -> ToolCall:
    if isinstance(args, str):
        try:
            args = json.loads(args or "{}")
        except ValueError:
            args = {"arguments": args}
    args = args if isinstance(args, dict) else {"arguments": args}
    return {"name": name, "args": args, "id": call_id, "type": "tool_call"}


def _message(text: str, calls: list[ToolCall], used: Any, model: Any, finished: Any = None) -> AIMessage:
    about = {"model_name": model if isinstance(model, str) else "", "finish_reason": finished}
    tokens = _tokens(used)
    about = {name: value for name, value in about.items() if value}
    return AIMessage(text, tool_calls=calls, usage_metadata=tokens, response_metadata=about)


def _tokens(used: Any) -> Any:
    """Return an agent's own count of its tokens in LangChain's form; `None` where it has none."""
    used = used() if callable(used) and not hasattr(used, "input_tokens") else used
    read, wrote = (_field(used, name) or 0 for name in ("input_tokens", "output_tokens"))
    if not read + wrote:
        return None
    details = _field(used, "input_tokens_details") or _field(used, "input_token_details")
    cached = _field(used, "cache_read_tokens") or _field(details, "cached_tokens") or _field(details, "cache_read") or 0
    written = _field(used, "cache_write_tokens") or _field(details, "cache_write_tokens") or 0
    counts: dict[str, Any] = {"input_tokens": read, "output_tokens": wrote, "total_tokens": read + wrote}
    return counts | {"input_token_details": {"cache_read": cached, "cache_creation": written}}


def _count(made: Sequence[BaseMessage], *, all_of_them: bool = False) -> None:
    """Count the replies whose tokens nobody reports; all of them where nobody will see the messages."""
    meter = METER.get()
    for one in made:
        model = isinstance(one, AIMessage) and "model_name" in one.response_metadata
        if meter is not None and isinstance(one, AIMessage) and (all_of_them or (model and not one.usage_metadata)):
            meter.count(one)


def _count_rest(result: Any, made: Sequence[BaseMessage]) -> None:
    """Count what a run used beyond its own replies: agents that its tools ran."""
    meter = METER.get()
    usage = getattr(result, "usage", None) or getattr(getattr(result, "context_wrapper", None), "usage", None)
    replies = [one for one in made if isinstance(one, AIMessage)]
    if meter is None or len(replies) < 1 or not (whole := _tokens(usage)):
        return
    used: list[Any] = [one.usage_metadata or {} for one in replies]
    rest: Any = {name: whole[name] - sum(one.get(name, 0) for one in used) for name in COUNTS}
    if rest["total_tokens"] > 0 and min(rest.values()) >= 0:
        about = {"model_name": replies[-1].response_metadata.get("model_name", "")}
        meter.count(AIMessage("", usage_metadata=rest, response_metadata=about))


OUT_OF_STEPS = ("MaxTurnsExceeded", "UsageLimitExceeded")
"""Errors of these agents that say a limit of theirs is met."""
