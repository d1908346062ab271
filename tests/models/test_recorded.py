"""What a model said once can be had again without a call."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel, Field
from redraft.models import RecordingModel, ReplayModel, ScriptedModel, chat_model

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Verdict(BaseModel):
    """A verdict."""

    accepted: bool
    score: float = Field(description="0 to 1")


async def test_replies_come_back_with_their_usage(serve: Callable[..., Any], tmp_path: Path) -> None:
    """A replayed call gives the text and the token counts of the recorded one, sync, async and streamed."""
    path = tmp_path / "calls.sqlite"
    with_numbers = {"text": "Hello there", "input_tokens": 11, "output_tokens": 2}
    server = serve([with_numbers, "two", "three four"])
    model = chat_model(server.spec, record=path)
    recorded = [model.invoke("a"), await model.ainvoke("b")]
    streamed = [chunk async for chunk in model.astream("c")]
    assert "".join(chunk.text for chunk in streamed) == "three four"
    replay = chat_model(f"replay:{path}")
    again = [replay.invoke("a"), await replay.ainvoke("b")]
    assert [message.content for message in again] == ["Hello there", "two"]
    assert [message.usage_metadata for message in again] == [message.usage_metadata for message in recorded]
    third = replay.invoke("c")
    assert third.text == "three four"
    assert third.usage_metadata is not None
    assert "".join([chunk.text async for chunk in ReplayModel(path).astream("c")]) == "three four"
    assert len(server.requests) == 3


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
@pytest.mark.parametrize("include_raw", [False, True])
async def test_structured_output_is_replayed(
    serve: Callable[..., Any], tmp_path: Path, method: str, include_raw: bool
) -> None:
    """A structured verdict is replayed as the same object, whichever way the provider was asked for it."""
    path = tmp_path / "calls.sqlite"
    fields = {"accepted": False, "score": 0.25}
    reply: dict[str, Any] = {"text": json.dumps(fields)}
    if method == "function_calling":
        function = {"name": "Verdict", "arguments": json.dumps(fields)}
        reply = {"message": {"content": None, "tool_calls": [{"id": "c1", "type": "function", "function": function}]}}
    server = serve([reply, reply])
    options = {"method": method, "include_raw": include_raw}
    judge = chat_model(server.spec, record=path).with_structured_output(Verdict, **options)
    first, second = judge.invoke("judge json"), await judge.ainvoke("judge json")
    again = chat_model(f"replay:{path}").with_structured_output(Verdict, include_raw=include_raw)
    for real, replayed in ((first, again.invoke("judge json")), (second, await again.ainvoke("judge json"))):
        if include_raw:
            assert replayed["parsed"] == real["parsed"] == Verdict(**fields)
            assert replayed["parsing_error"] is None
            assert replayed["raw"].usage_metadata == real["raw"].usage_metadata
        else:
            assert replayed == real == Verdict(**fields)


def test_an_unparseable_verdict_is_replayed_as_one(serve: Callable[..., Any], tmp_path: Path) -> None:
    """A verdict that could not be parsed can't be parsed in the replay either."""
    path = tmp_path / "calls.sqlite"
    judge = chat_model(serve(["no json"]).spec, record=path).with_structured_output(Verdict)
    with pytest.raises(ValueError, match="json"):
        judge.invoke("judge")
    with pytest.raises(ValueError, match="json"):
        ReplayModel(path).with_structured_output(Verdict).invoke("judge")


def test_text_only_models_stay_text_only(tmp_path: Path) -> None:
    """Where no structured output was recorded none is offered, so callers fall back to text as they did then."""
    path = tmp_path / "calls.sqlite"
    model = RecordingModel(ScriptedModel(["text"]), path)
    with pytest.raises(NotImplementedError):
        model.with_structured_output(Verdict)
    model.invoke("x")
    with pytest.raises(NotImplementedError, match="no structured output was recorded"):
        ReplayModel(path).with_structured_output(Verdict)


def test_equal_calls_keep_their_order(tmp_path: Path) -> None:
    """Sampling the same prompt twice is two replies, and a third that was never made is an error."""
    path = tmp_path / "calls.sqlite"
    model = RecordingModel(ScriptedModel(["one", "two"]), path)
    assert [model.invoke("same").text for _ in range(2)] == ["one", "two"]
    replay = ReplayModel(path)
    assert [replay.invoke("same").text for _ in range(2)] == ["one", "two"]
    with pytest.raises(LookupError, match="not recorded 3 times"):
        replay.invoke("same")


def test_options_belong_to_the_call(tmp_path: Path) -> None:
    """A call with other stop words is another call."""
    path = tmp_path / "calls.sqlite"
    RecordingModel(ScriptedModel(["with"]), path).invoke("x", stop=["."])
    assert ReplayModel(path).invoke("x", stop=["."]).text == "with"
    with pytest.raises(LookupError):
        ReplayModel(path).invoke("x")


def test_a_call_that_was_not_recorded_is_quoted(tmp_path: Path) -> None:
    """A replay never calls a model: what is missing is an error that quotes the prompt."""
    path = tmp_path / "calls.sqlite"
    RecordingModel(ScriptedModel(["x"]), path).invoke("known")
    with pytest.raises(LookupError, match=r"not recorded.*unknown prompt"):
        ReplayModel(path).invoke("unknown prompt")


def test_several_models_in_one_file(tmp_path: Path) -> None:
    """Where two models were asked the same, the spec names the one to answer."""
    path = tmp_path / "calls.sqlite"
    for name in ("big", "small"):
        RecordingModel(ScriptedModel([f"from {name}"], model_name=name), path).invoke("same")
    assert chat_model(f"replay:{path}#small").invoke("same").text == "from small"
    with pytest.raises(LookupError, match="several models or settings"):
        ReplayModel(path).invoke("same")
    with pytest.raises(ValueError, match="recorded models"):
        ReplayModel(path, model="other")


def test_the_options_of_the_model_are_kept(serve: Callable[..., Any], tmp_path: Path) -> None:
    """What was recorded with some options is replayed with the same ones, and not with others."""
    path = tmp_path / "calls.sqlite"
    options: dict[str, Any] = {"temperature": 0.5, "max_output_tokens": 30, "seed": 4}
    chat_model(serve(["hello"]).spec, record=path, **options).invoke("x")
    assert chat_model(f"replay:{path}", **options).invoke("x").text == "hello"
    for name, value in (("temperature", 0.6), ("max_output_tokens", 31), ("seed", 5)):
        with pytest.raises(ValueError, match=f"'{name}': {value}"):
            chat_model(f"replay:{path}", **{**options, name: value})


def test_failed_calls_are_not_kept(tmp_path: Path) -> None:
    """A call that failed and was made again is replayed as the success it became."""
    path = tmp_path / "calls.sqlite"
    model = RecordingModel(ScriptedModel([{"error": "down"}, "up"]), path)
    with pytest.raises(RuntimeError):
        model.invoke("x")
    model.invoke("x")
    assert ReplayModel(path).invoke("x").text == "up"


async def test_many_calls_at_once_are_all_kept(tmp_path: Path) -> None:
    """Nothing is lost when many calls end at once."""
    path = tmp_path / "calls.sqlite"
    model = RecordingModel(ScriptedModel([lambda messages: messages[-1].text] * 40), path)
    await asyncio.gather(*(model.ainvoke(str(number)) for number in range(40)))
    replay = ReplayModel(path)
    assert [replay.invoke(str(number)).text for number in range(40)] == [str(number) for number in range(40)]


def test_the_file_is_plain_data(tmp_path: Path) -> None:
    """A record can be read with any SQLite and JSON tool, and holds no key."""
    path = tmp_path / "calls.sqlite"
    RecordingModel(ScriptedModel(["text"]), path).invoke("x")
    with closing(sqlite3.connect(path)) as db:
        (reply,) = db.execute("SELECT reply FROM model_calls").fetchone()
    assert json.loads(reply)["message"]["data"]["content"] == "text"


def test_what_is_no_record_is_refused(tmp_path: Path) -> None:
    """A mistyped path is an error and leaves no empty file behind."""
    missing = tmp_path / "none.sqlite"
    with pytest.raises(ValueError, match="no recorded model calls"):
        chat_model(f"replay:{missing}")
    assert not missing.exists()
    other = tmp_path / "other.sqlite"
    other.write_text("not a database, but long enough to look at" * 10)
    with pytest.raises(ValueError, match="no recorded model calls"):
        ReplayModel(other)
