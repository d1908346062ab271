"""What `record_examples.py` puts in the place of the model "replay"."""

from __future__ import annotations

import json
import os
from typing import Any

from langchain_core.messages import messages_from_dict
from langchain_core.outputs import ChatGeneration, ChatResult
from openai import LengthFinishReasonError
from redraft.models.recordings import EXAMPLES, NEUTRAL, Call, ExampleTape, RecordingModel, request_key

KEPT = ("content", "tool_calls", "usage_metadata")


class UsedTape(ExampleTape):
    """Answers for one model, writes what it is asked, and notes in a second file what was asked at all."""

    def find(self, request: str, occurrence: int) -> list[Call]:
        """Return the call that this model has answered."""
        found = super().find(request, occurrence)
        if not os.environ["REDRAFT_RECORD_FILL"]:
            found = [call for call in found if call.model == os.environ["REDRAFT_RECORD_AS"]]
        if found:
            self.note(request)
        return found[:1]

    def note(self, request: str) -> None:
        """Keep a call, when what nobody asks for any more is left out."""
        with open(os.environ["REDRAFT_RECORD_USED"], "a", encoding="utf-8") as file:
            file.write(request + "\n")


class Recorder(RecordingModel):
    """Asks the model inside for what is not recorded yet, and nothing else."""

    def _known(self, messages: Any, stop: Any, options: dict[str, Any]) -> Any:
        with self._lock:
            request = request_key(messages, stop, options)
            found = self._tape.find(request, self._seen[request])
            if not found:
                return None
            self._seen[request] += 1
        if "unparseable" in found[0].reply:
            raise ValueError(found[0].reply["unparseable"])
        (message,) = messages_from_dict([found[0].reply["message"]])
        message.response_metadata.setdefault("model_name", found[0].model)
        return message

    def _keep(self, messages: Any, stop: Any, options: dict[str, Any], reply: dict[str, Any]) -> None:
        data = reply.get("message", {}).get("data", {})
        if data:
            extra = {name: value for name, value in data["additional_kwargs"].items() if value is not None}
            usage = {name: data["usage_metadata"][name] for name in ("input_tokens", "output_tokens", "total_tokens")}
            short = {"type": "ai", **{name: data[name] for name in KEPT if data.get(name)}, "usage_metadata": usage}
            finished = data["response_metadata"].get("finish_reason", "stop")
            reply = {"message": {"type": "ai", "data": short | {"response_metadata": {"finish_reason": finished}}}}
            reply["message"]["data"] |= {"additional_kwargs": extra} if extra else {}
        request, occurrence = self._position(messages, stop, options)
        neutral = options.get(NEUTRAL) or {}
        line = {
            "prompt": str(messages[-1].content)[-160:],
            "request": request,
            "occurrence": occurrence,
            "model": os.environ["REDRAFT_RECORD_AS"],
            "settings": {"temperature": float(os.environ["REDRAFT_RECORD_TEMPERATURE"])},
            "provider": None,
            "structured": "schema" in neutral,
            "reply": reply,
        }
        self._tape.note(request)  # type: ignore[attr-defined]
        with open(EXAMPLES, "a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        if known := self._known(messages, stop, kwargs):
            return ChatResult(generations=[ChatGeneration(message=known)])
        try:
            return super()._generate(messages, stop, run_manager, **kwargs)
        except LengthFinishReasonError as error:  # a verdict that went on and on can't be read in the replay either
            self._keep(messages, stop, kwargs, {"unparseable": str(error)})
            raise ValueError(str(error)) from error

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        if known := self._known(messages, stop, kwargs):
            return ChatResult(generations=[ChatGeneration(message=known)])
        try:
            return await super()._agenerate(messages, stop, run_manager, **kwargs)
        except LengthFinishReasonError as error:
            self._keep(messages, stop, kwargs, {"unparseable": str(error)})
            raise ValueError(str(error)) from error


def recorder(build: Any, options: dict[str, Any]) -> Any:
    """Return the model that is asked, as `build` makes it, with what keeps its replies around it."""
    asked = options | {"temperature": float(os.environ["REDRAFT_RECORD_TEMPERATURE"]), "max_output_tokens": 600}
    os.environ["REDRAFT_API_KEY"] = os.environ["REDRAFT_RECORD_KEY"]  # which the tests take away
    model = Recorder(build(os.environ["REDRAFT_RECORD"], asked | {"timeout_s": 3600.0}), EXAMPLES)
    model.disable_streaming = True  # a replay gives a reply in one piece, too
    model._tape = UsedTape(EXAMPLES)
    return model
